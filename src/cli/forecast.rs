//! `kl forecast`: what an apply of a plan would meet now, and which other plans it is near.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::runs::ForecastArgs;
use super::project::Place;
use super::rows::{spec, state_of};
use crate::domain::id::SpecId;
use crate::domain::plan::spec::PlanSpec;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::request::{self, outlook};
use crate::report::outlook as told;
use crate::report::phrase::Phrase;
use crate::store::Store;
use crate::store::model::{StateHead, StoredSpec};

/// The spec that is meant when none is named, and it is there.
const USUAL: &str = "kl-plan.json";

/// Runs the command.
pub async fn run(session: &Session, args: ForecastArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let store = session.store_existing(&place).await?;
    let all = args.state.state.is_some() || args.since.is_some() || args.before.is_some();
    let usual = || (!all && Utf8Path::new(USUAL).is_file()).then(|| USUAL.to_owned());
    let (head, specs, next): (_, Vec<PlanSpec>, _) = if let Some(text) = args.spec.clone().or_else(usual) {
        let spec = spec(store.as_ref(), &text).await?;
        (state_of(store.as_ref(), &spec, args.state.state.as_ref()).await?, vec![spec], None)
    } else {
        let name = place.state(&args.state, &session.env)?;
        let head = store.state_find(&name).await?.ok_or_else(|| super::state::no_such_state(&name))?;
        let (open, next) = open(store.as_ref(), &head, &args).await?;
        // One that another version of kl has stored says nothing that this one could compare.
        (head, open.iter().filter_map(|open| request::read(open).ok()).collect(), next)
    };
    let mut found = Vec::new();
    for spec in &specs {
        found.push(outlook(store.as_ref(), head.id, spec).await?);
    }
    let filters = [("--since", args.since.is_some()), ("--before", args.before.is_some())];
    let mut page = told::page(&head.name, &found, &filters);
    if let Some(next) = next {
        page.note(Phrase::own("Older ones: the same with ").name(format!("--before {next}")));
    }
    session.out.page(&page, || {
        json!({
            "state": head.name,
            "serial": head.serial,
            "plans": found.iter().map(told::document).collect::<Vec<_>>(),
            "next_before": next,
        })
    });
    Ok(Exit::Done)
}

/// The open plans on a state that are asked for, those that were made last first, and the last of them where there are more.
async fn open(
    store: &dyn Store,
    head: &StateHead,
    args: &ForecastArgs,
) -> Result<(Vec<StoredSpec>, Option<SpecId>), KlError> {
    let since = super::history::moment(store, args.since).await?;
    let mut open: Vec<StoredSpec> =
        store.open_specs(head.id, u32::MAX).await?.into_iter().map(|open| open.spec).collect();
    if let Some(before) = args.before {
        let place = open.iter().position(|one| one.spec.id == before).ok_or_else(|| {
            KlError::usage(format!("{before} is none of the open plans on state {:?}", head.name.as_str()))
                .hint("it may have been applied or planned again since: begin again without --before")
        })?;
        open.drain(..=place);
    }
    open.retain(|one| since.is_none_or(|since| one.created_at >= since));
    let more = open.len() > args.limit as usize;
    open.truncate(args.limit as usize);
    let next = open.last().filter(|_| more).map(|one| one.spec.id);
    Ok((open, next))
}
