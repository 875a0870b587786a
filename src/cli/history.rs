//! `kl history`: the versions of a state.

use serde_json::json;

use super::Session;
use super::args::runs::HistoryArgs;
use super::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::{dim, plain};
use crate::report::table::columns;
use crate::store::model::{Touched, Version, VersionQuery};

/// Runs the command.
pub async fn run(session: &Session, args: HistoryArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let store = session.store_existing(&place).await?;
    let Some(head) = store.state_find(&name).await? else {
        return Err(super::state::no_such_state(&name));
    };
    let with_rows = args.rows || session.out.json();
    let query = VersionQuery { before: args.before, limit: args.limit, with_rows };
    let versions = store.version_list(head.id, query).await?;
    session.out.result(&told(&versions, args.rows), || {
        json!({ "state": name, "serial": head.serial, "versions": versions.iter().map(document).collect::<Vec<_>>() })
    });
    Ok(Exit::Done)
}

fn told(versions: &[Version], with_rows: bool) -> String {
    if versions.is_empty() {
        return "No version yet.\n".to_owned();
    }
    let cells = |version: &Version| {
        vec![
            version.serial.to_string(),
            version.at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
            plain(&version.actor.0),
            word(&version.source),
            version.origin.request.map(|number| format!("#{number}")).unwrap_or_default(),
            version.rows_opened.max(version.rows_closed).to_string(),
            version.run.map(|run| run.to_string()).unwrap_or_default(),
        ]
    };
    let head = ["SERIAL", "TIME", "ACTOR", "SOURCE", "REQUEST", "ROWS", "RUN"];
    if !with_rows {
        return columns(&head, &versions.iter().map(cells).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for version in versions {
        text.push_str(&columns(&head, &[cells(version)]));
        for (row, touched) in &version.rows {
            let sign = match touched {
                Touched::Created => "+",
                Touched::Changed => "~",
                Touched::Removed => "-",
            };
            text.push_str(&format!("  {} {}\n", dim(sign), plain(&row.to_string())));
        }
    }
    text
}

/// The word that JSON has for a small enum.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn document(version: &Version) -> serde_json::Value {
    json!({
        "serial": version.serial,
        "source_serial": version.source_serial,
        "at": version.at,
        "actor": version.actor,
        "origin": version.origin,
        "run": version.run,
        "spec": version.spec,
        "source": version.source,
        "mode": version.mode,
        "terraform_version": version.terraform_version,
        "rows_opened": version.rows_opened,
        "rows_closed": version.rows_closed,
        "rows": version.rows.iter().map(|(row, touched)| json!({
            "row": row.to_string(),
            "kind": row.kind(),
            "touched": touched,
        })).collect::<Vec<_>>(),
    })
}
