//! `kl state pull | list | show`: what stands in a state.

use serde_json::json;

use super::snapshot;
use crate::cli::Session;
use crate::cli::args::state::{ListArgs, PullArgs, StateShowArgs};
use crate::cli::project::Place;
use crate::domain::redact::masked;
use crate::domain::state::document::StateDocument;
use crate::domain::state::{Row, RowKey, projection};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::plain;
use crate::report::table::columns;

/// `kl state pull`.
pub(super) async fn pull(session: &Session, args: PullArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let snapshot = snapshot(session, &place, &name, args.serial).await?;
    // Without a lineage it would be no document that another backend could go on from.
    if snapshot.head.lineage.is_none() {
        return Err(KlError::usage(format!("state {:?} has no version yet: there is nothing to pull", name.as_str()))
            .hint("the first apply makes one, or `kl state import`"));
    }
    let document = StateDocument {
        head: snapshot.document,
        lineage: snapshot.head.lineage,
        serial: snapshot.head.serial,
        rows: snapshot.rows.into_iter().map(|(row, _)| row).collect(),
    };
    let mut text = projection::write(&document);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    session.out.data(&text);
    Ok(Exit::Done)
}

/// `kl state list`.
pub(super) async fn list(session: &Session, args: ListArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    if args.all {
        let heads = session.store_existing(&place).await?.state_list().await?;
        let rows: Vec<Vec<String>> =
            heads.iter().map(|head| vec![plain(head.name.as_str()), head.serial.to_string()]).collect();
        let text =
            if rows.is_empty() { "There is no state yet.\n".to_owned() } else { columns(&["STATE", "SERIAL"], &rows) };
        session.out.result(&text, || {
            json!({ "states": heads.iter().map(|head| json!({ "state": head.name, "serial": head.serial, "lineage": head.lineage })).collect::<Vec<_>>() })
        });
        return Ok(Exit::Done);
    }
    let name = place.state(&args.state, &session.env)?;
    let snapshot = snapshot(session, &place, &name, None).await?;
    let shown = |row: &&Row| matches!(row.key, RowKey::Object { .. });
    let addresses: Vec<String> =
        snapshot.rows.iter().map(|(row, _)| row).filter(shown).map(|row| row.key.to_string()).collect();
    let text = addresses.iter().fold(String::new(), |text, address| text + &plain(address) + "\n");
    session.out.result(&text, || json!({ "state": name, "serial": snapshot.head.serial, "addresses": addresses }));
    Ok(Exit::Done)
}

/// `kl state show`.
pub(super) async fn show(session: &Session, args: StateShowArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let snapshot = snapshot(session, &place, &name, None).await?;
    let wanted = match args.address.strip_prefix("output.") {
        Some(output) => format!("output.{output}"),
        None => crate::domain::address::Address::parse(&args.address)
            .map_err(|error| {
                KlError::usage(error.to_string()).hint("addresses with keys need quotes for the shell: 'x[\"a\"]'")
            })?
            .to_string(),
    };
    let found: Vec<_> = snapshot
        .rows
        .iter()
        .filter(|(row, _)| {
            matches!(row.key, RowKey::Object { .. } | RowKey::Output(_)) && row.key.address_text() == wanted
        })
        .collect();
    if found.is_empty() {
        return Err(KlError::usage(format!("state {:?} has no {wanted}", name.as_str()))
            .hint("`kl state list` shows what it has"));
    }
    let mut text = String::new();
    let mut documents = Vec::new();
    for (row, since) in found {
        let body = masked(&row.body);
        text.push_str(&format!("# {} (since serial {since})\n{}\n", plain(&row.key.to_string()), body.pretty()));
        documents.push(json!({
            "row": row.key.to_string(),
            "since": since,
            "body": serde_json::from_str::<serde_json::Value>(&body.to_string()).unwrap_or_default(),
        }));
    }
    session.out.result(&text, || json!({ "state": name, "rows": documents }));
    Ok(Exit::Done)
}
