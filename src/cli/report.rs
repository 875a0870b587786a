//! `kl report`: one self-contained page about many runs, written to a file or to standard output.

use serde_json::json;

use super::Session;
use super::args::runs::ReportArgs;
use super::whole::{self, Readers};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::report::{Selection, of_runs};
use crate::report::html;
use crate::report::style::count;

/// What is written, in errors.
const WHAT: &str = "the page";

/// Runs the command.
pub async fn run(session: &Session, args: ReportArgs) -> Result<Exit, KlError> {
    let to_stdout = args.out == "-";
    if !to_stdout {
        whole::writable(&args.out, WHAT)?;
    }
    let store = session.store_here().await?;
    let state = match &args.state {
        None => None,
        Some(name) => {
            let head = store.state_find(name).await?.ok_or_else(|| super::state::no_such_state(name))?;
            Some(head.id)
        }
    };
    let now = store.now().await?;
    let since = args.since.map(|since| since.moment(now));
    let report = of_runs(store.as_ref(), Selection { state, since, limit: args.limit }).await?;
    let page = html::page(&report);
    if to_stdout {
        session.out.data(&page);
        return Ok(Exit::Done);
    }
    whole::write(&args.out, WHAT, &page, Readers::Usual)?;
    if session.out.json() {
        let document = json!({ "out": args.out, "runs": report.runs.len(), "bytes": page.len(), "cut": report.cut });
        session.out.result("", || document);
    } else {
        session.out.say(&format!("{} written to {}.", count(report.runs.len(), "run"), args.out));
    }
    Ok(Exit::Done)
}
