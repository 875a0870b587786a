//! `kl recover`: take over, or drop, what a failed run has really done.

use serde_json::json;

use super::Session;
use super::args::runs::RecoverArgs;
use crate::domain::address::Pattern;
use crate::domain::id::RunId;
use crate::domain::run::workplace::Workplace;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::recover::{self, Recovered};
use crate::report::style::{count, good, loud, plain};

/// Runs the command.
pub async fn run(session: &Session, args: RecoverArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let run = super::find_run(store.as_ref(), &args.run).await?;
    let ctx = session.context(store, &args.actor);
    if args.discard {
        let dropped = recover::discard(&ctx, run.id).await?;
        let names: Vec<String> = dropped.freed.iter().map(ToString::to_string).collect();
        let text = dropped_text(&names, dropped.unseen.as_ref());
        session.out.result(&text, || json!({ "run": run.id, "freed": names.len(), "rows": names }));
        return Ok(Exit::Done);
    }
    let recovered = recover::recover(&ctx, run.id, args.lease).await?;
    session.out.result(&text(run.id, &recovered), || {
        json!({
            "run": run.id,
            "serial": recovered.serial,
            "rows_opened": recovered.rows_opened,
            "rows_closed": recovered.rows_closed,
            "rows_touched": recovered.rows_touched,
            "in_flight": recovered.in_flight,
            "unknown": recovered.unknown,
            "left": recovered.left,
            "kept": recovered.kept.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "unseen": recovered.unseen.as_ref().map(|place| json!({ "host": place.host.name, "dir": place.dir })),
        })
    });
    Ok(Exit::Done)
}

/// What was dropped.
fn dropped_text(rows: &[String], unseen: Option<&Workplace>) -> String {
    let mut text = format!("{} Dropped: {} freed.\n", good("✓"), count(rows.len(), "reservation"));
    text.push_str(&format!(
        "{} What the run made of these, and is not in the state, is on no record of kl any more:\n",
        loud("!")
    ));
    for row in rows {
        text.push_str(&format!("  {}\n", plain(row)));
    }
    if let Some(place) = unseen {
        text.push_str(&format!(
            "{} Should its Terraform still be at work in {} on {}: this does not stop it, and it goes on making objects.\n",
            loud("!"),
            plain(&place.dir),
            plain(&place.host.name)
        ));
    }
    text
}

/// What was recovered, and what a person has to look at.
fn text(run: RunId, recovered: &Recovered) -> String {
    let rows = count(recovered.rows_touched, "row");
    let mut text = match recovered.serial {
        Some(serial) => format!("{} Recovered {rows} as serial {serial}.\n", good("✓")),
        None if recovered.kept.is_empty() => {
            format!("{} Nothing was to be taken over; the rows are free again.\n", good("✓"))
        }
        None => format!("{} Nothing on record was to be taken over.\n", good("✓")),
    };
    for row in &recovered.left {
        let run = row.run.map(|run| format!(", run {run}")).unwrap_or_default();
        text.push_str(&format!(
            "{} {} was left as the state has it: changed in serial {} by {}{run}.\n",
            loud("!"),
            plain(&row.row),
            row.serial,
            plain(&row.actor.0)
        ));
    }
    for address in &recovered.unknown {
        text.push_str(&format!(
            "{} {} was being created when the run was cut off. It may exist without being in the state: look at the \
             provider, and import it or delete it, or the next apply creates it a second time.\n",
            loud("!"),
            plain(address)
        ));
    }
    if let Some(place) = &recovered.unseen {
        text.push_str(&format!(
            "{} What Terraform did after the run was cut off is not known: its work directory is {} on {}.\n",
            loud("!"),
            plain(&place.dir),
            plain(&place.host.name)
        ));
        text.push_str(&kept(run, &recovered.kept, place));
    }
    text
}

/// What stays reserved until it is known what became of it, and how that is found out.
fn kept(run: RunId, rows: &[Pattern], place: &Workplace) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows = rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "  Until that is known these stay reserved: {}\n  On {}, `kl recover {run}` takes over what it did there and frees \
         them. When that machine is gone: look at the provider, import or delete what is in no state, then `kl recover {run} \
         --discard` frees them.\n",
        plain(&rows),
        plain(&place.host.name)
    )
}
