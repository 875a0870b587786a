//! `kl state import | pull | list | show`.

use serde_json::json;

use super::Session;
use super::args::state::{ImportArgs, ListArgs, PullArgs, StateShowArgs};
use super::bounded::{self, MAX_STATE};
use super::project::Place;
use crate::domain::id::StateName;
use crate::domain::redact::masked;
use crate::domain::state::document::{self, StateDocument};
use crate::domain::state::{Row, RowKey, projection};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::import::{Imported, import as import_document};
use crate::report::style::{count, good, plain};
use crate::report::table::columns;
use crate::store::model::Snapshot;

/// The error for a state that does not exist.
pub fn no_such_state(name: &StateName) -> KlError {
    KlError::usage(format!("the database has no state {:?}", name.as_str()))
        .hint("`kl state list --all` shows the states; `kl plan` or `kl state import` makes a new one")
}

/// `kl state import`.
pub async fn import(session: &Session, args: ImportArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let document = read(session, &args).await?;
    let rows = document.rows.len();
    let ctx = session.context(session.store(&place).await?, &args.actor);
    match import_document(&ctx, &name, document).await? {
        Imported::Committed(committed) => session.out.result(
            &format!(
                "{} Imported {} into state {} as serial {}.\n",
                good("✓"),
                count(rows, "row"),
                plain(name.as_str()),
                committed.serial
            ),
            || json!({ "state": name, "serial": committed.serial, "rows": rows, "unchanged": false }),
        ),
        Imported::Unchanged(serial) => session.out.result(
            &format!("State {} has this document already, at serial {serial}.\n", plain(name.as_str())),
            || json!({ "state": name, "serial": serial, "rows": rows, "unchanged": true }),
        ),
    }
    Ok(Exit::Done)
}

async fn read(session: &Session, args: &ImportArgs) -> Result<StateDocument, KlError> {
    let bytes = if args.file == "-" {
        session.stdin(|mut input| bounded::whole(&mut input, MAX_STATE)).await?
    } else {
        bounded::file(args.file.as_ref(), MAX_STATE)
            .map_err(|error| KlError::usage(format!("cannot read {}", args.file)).because(error))?
    };
    let what = if args.file == "-" { "standard input" } else { args.file.as_str() };
    let text =
        String::from_utf8(bytes).map_err(|_| KlError::usage(format!("{what} is not a state: it is not text")))?;
    document::read(&text).map_err(|error| {
        let kl = KlError::from(error);
        KlError::usage(format!("{what} cannot be imported: {}", kl.chain())).hint("nothing was changed")
    })
}

async fn snapshot(
    session: &Session,
    place: &Place,
    name: &StateName,
    at: Option<crate::domain::id::Serial>,
) -> Result<Snapshot, KlError> {
    let store = session.store_existing(place).await?;
    let Some(head) = store.state_find(name).await? else {
        return Err(no_such_state(name));
    };
    store.snapshot(head.id, at).await.map_err(|error| match error {
        crate::store::StoreError::NotFound { .. } => {
            let asked = at.map(|serial| serial.to_string()).unwrap_or_default();
            KlError::usage(format!("state {:?} has no serial {asked}; its newest is {}", name.as_str(), head.serial))
        }
        other => other.into(),
    })
}

/// `kl state pull`.
pub async fn pull(session: &Session, args: PullArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let snapshot = snapshot(session, &place, &name, args.serial).await?;
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
pub async fn list(session: &Session, args: ListArgs) -> Result<Exit, KlError> {
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
pub async fn show(session: &Session, args: StateShowArgs) -> Result<Exit, KlError> {
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
