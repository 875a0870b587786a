//! `kl forecast`: what an apply of a plan would meet now, and which other plans it is near.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::runs::ForecastArgs;
use super::project::Place;
use super::rows::{spec, state_of};
use crate::domain::plan::spec::PlanSpec;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::request::{self, outlook};
use crate::report::outlook as told;

/// The spec that is meant when none is named, and it is there.
const USUAL: &str = "kl-plan.json";

/// Runs the command.
pub async fn run(session: &Session, args: ForecastArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let store = session.store_existing(&place).await?;
    let named = args.spec.or_else(|| Utf8Path::new(USUAL).is_file().then(|| USUAL.to_owned()));
    let (head, specs): (_, Vec<PlanSpec>) = if let Some(text) = named.filter(|_| args.state.state.is_none()) {
        let spec = spec(store.as_ref(), &text).await?;
        (state_of(store.as_ref(), &spec).await?, vec![spec])
    } else {
        let name = place.state(&args.state, &session.env)?;
        let head = store.state_find(&name).await?.ok_or_else(|| super::state::no_such_state(&name))?;
        let open = store.open_specs(head.id, args.limit).await?;
        // One that another version of kl has stored says nothing that this one could compare.
        (head, open.iter().filter_map(|open| request::read(&open.spec).ok()).collect())
    };
    let mut found = Vec::new();
    for spec in &specs {
        found.push(outlook(store.as_ref(), head.id, spec).await?);
    }
    session.out.page(&told::page(&head.name, &found), || {
        json!({
            "state": head.name,
            "serial": head.serial,
            "plans": found.iter().map(told::document).collect::<Vec<_>>(),
        })
    });
    Ok(Exit::Done)
}
