//! `kl history --since-plan`, `kl history --address` and `kl blame`: what happened to rows, and by whom.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::runs::{BlameArgs, HistoryArgs};
use super::project::Place;
use crate::domain::address::Pattern;
use crate::domain::id::{SpecId, StateName};
use crate::domain::plan::spec::PlanSpec;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::{life, request, stale};
use crate::report::life as told;
use crate::store::model::StateHead;
use crate::store::{Store, StoreError};

/// So many rows that changed since a plan are told, unless `--limit` says otherwise.
const ROWS: u32 = 1000;

/// A plan that somebody names: the file, or the id of one that is stored.
pub async fn spec(store: &dyn Store, text: &str) -> Result<PlanSpec, KlError> {
    let path = Utf8Path::new(text);
    match text.parse::<SpecId>() {
        Ok(id) if !path.is_file() => match store.spec_find(id).await {
            Ok(stored) => request::read(&stored),
            Err(StoreError::NotFound { .. }) => {
                Err(KlError::usage(format!("the database does not know the spec {id}"))
                    .hint("`kl show RUN` names the spec of a run; a file does, too: kl-plan.json"))
            }
            Err(error) => Err(error.into()),
        },
        _ => super::apply::read(path),
    }
}

/// The state that a spec is for, which has to be the one that was `asked` for, if one was.
///
/// # Errors
/// When it is another one, or the database has no such state.
pub async fn state_of(store: &dyn Store, spec: &PlanSpec, asked: Option<&StateName>) -> Result<StateHead, KlError> {
    if let Some(asked) = asked.filter(|asked| **asked != spec.state.name) {
        return Err(KlError::usage(format!(
            "the spec {} is for state {:?}, not for {:?}",
            spec.id,
            spec.state.name.as_str(),
            asked.as_str()
        ))
        .hint("leave out --state: a spec says which state it is for"));
    }
    store.state_find(&spec.state.name).await?.ok_or_else(|| super::state::no_such_state(&spec.state.name))
}

/// `kl history --since-plan`.
pub async fn since_plan(session: &Session, args: &HistoryArgs, text: &str) -> Result<Exit, KlError> {
    let store = session.store_existing(&Place::find(&args.dir)?).await?;
    let spec = spec(store.as_ref(), text).await?;
    let head = state_of(store.as_ref(), &spec, args.state.state.as_ref()).await?;
    stale::not_ahead(&spec, &head)?;
    let limit = args.limit.unwrap_or(ROWS) as usize;
    let (since, shown) = life::since_plan(store.as_ref(), &head, &spec, args.after.as_deref(), limit).await?;
    session.out.page(&since.page(shown), || since.document(shown));
    Ok(Exit::Done)
}

/// `kl history --address`.
pub async fn address(session: &Session, args: &HistoryArgs, text: &str) -> Result<Exit, KlError> {
    let pattern = pattern(text)?;
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let store = session.store_existing(&place).await?;
    let head = store.state_find(&name).await?.ok_or_else(|| super::state::no_such_state(&name))?;
    let since = super::history::moment(store.as_ref(), args.since).await?;
    let limit = args.limit.unwrap_or(super::history::LIMIT) as usize;
    let (moments, more) = life::life(store.as_ref(), head.id, pattern.clone(), args.before, since, limit).await?;
    let filters = [("--since", args.since.is_some()), ("--before", args.before.is_some())];
    session.out.page(
        &told::life(&moments, more, &filters),
        || json!({ "state": name, "address": pattern, "moments": moments, "next_before": more }),
    );
    Ok(Exit::Done)
}

/// `kl blame`.
pub async fn blame(session: &Session, args: BlameArgs) -> Result<Exit, KlError> {
    let pattern = pattern(&args.pattern)?;
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let store = session.store_existing(&place).await?;
    let head = store.state_find(&name).await?.ok_or_else(|| super::state::no_such_state(&name))?;
    let since = super::history::moment(store.as_ref(), args.since).await?;
    let given = [args.pattern != "*", args.since.is_some(), args.after.is_some()];
    let (rows, more) = life::blame(store.as_ref(), head.id, &pattern, args.after, since, args.limit as usize).await?;
    let filters = [(args.pattern.as_str(), given[0]), ("--since", given[1]), ("--after", given[2])];
    session.out.page(
        &told::blame(&rows, more.as_deref(), &filters),
        || json!({ "state": name, "serial": head.serial, "rows": rows, "next_after": more }),
    );
    Ok(Exit::Done)
}

fn pattern(text: &str) -> Result<Pattern, KlError> {
    if text.ends_with(" check)") {
        return Err(KlError::usage(format!("{text:?} is the result of a check, and no object of the state"))
            .hint("`kl history --rows` shows the versions that changed it"));
    }
    Pattern::parse(text).map_err(|error| {
        KlError::usage(format!("{text:?} is no address"))
            .because(error)
            .hint("an instance, as `module.web[0].aws_instance.a[\"x\"]`; a resource; `module.web.*`; or `output.NAME`")
    })
}
