//! `kl refresh`: what differs in reality.

use serde_json::json;

use super::Session;
use super::args::RefreshArgs;
use super::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::refresh::{RefreshOptions, RefreshReport, refresh};
use crate::report::json;
use crate::report::style::{count, good, loud, plain, warn};

/// Runs the command.
pub async fn run(session: &Session, args: RefreshArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let project = place.project(&args.state, &args.input, &session.env).await?;
    let ctx = session.context(session.store_existing(&place).await?, &args.actor);
    let options = RefreshOptions { dry_run: args.dry_run, lease: args.reserve.lease, wait: args.reserve.wait };
    match refresh(&ctx, &project, &options).await {
        Ok(report) => {
            session.out.result(&told(&report, args.dry_run), || {
                json!({
                    "run": report.run,
                    "serial": report.serial,
                    "drifted": report.drifted.iter().map(|(row, gone)| json!({ "row": row, "gone": gone })).collect::<Vec<_>>(),
                    "left": report.left,
                    "dry_run": args.dry_run,
                })
            });
            Ok(Exit::Done)
        }
        Err(failure) if session.out.json() => {
            let document = json!({
                "conflict": failure.blockers.iter().map(json::blocker).collect::<Vec<_>>(),
                "error": { "message": failure.error.chain(), "exit": failure.error.exit().code() },
            });
            session.out.data(&format!("{}\n", json::document(document)));
            session.out.error_text(&failure.error);
            Ok(failure.error.exit())
        }
        Err(failure) => Err(failure.error),
    }
}

fn told(report: &RefreshReport, dry_run: bool) -> String {
    if report.drifted.is_empty() {
        return format!("{} The state matches reality.\n", good("✓"));
    }
    let mut text = String::new();
    for (row, gone) in &report.drifted {
        let row = plain(row);
        text.push_str(&if *gone {
            format!("  {} {row} is gone\n", loud("-"))
        } else {
            format!("  {} {row}\n", warn("~"))
        });
    }
    let rows = count(report.drifted.len(), "row");
    match (dry_run, report.serial) {
        (true, _) => text.push_str(&format!("{rows} differ in reality; nothing was changed (dry run).\n")),
        (_, Some(serial)) => text.push_str(&format!("{} {rows} taken over as serial {serial}.\n", good("✓"))),
        _ => {}
    }
    for row in &report.left {
        text.push_str(&format!(
            "  {} {} was changed by somebody else meanwhile, and left alone\n",
            warn("!"),
            plain(row)
        ));
    }
    text
}
