//! `kl state import`: a whole document from a file or from standard input.

use serde_json::json;

use crate::cli::Session;
use crate::cli::args::state::ImportArgs;
use crate::cli::bounded::{self, MAX_STATE};
use crate::cli::project::Place;
use crate::domain::state::document::{self, StateDocument};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::import::{Imported, import};
use crate::report::style::{count, good, plain};

/// `kl state import`.
pub(super) async fn run(session: &Session, args: ImportArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let document = read(session, &args).await?;
    let rows = document.rows.len();
    let ctx = session.context(session.store(&place).await?, &args.actor);
    match import(&ctx, &name, document, args.over, (args.reserve.lease, args.reserve.wait)).await? {
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
    document::read_sound(&text).map_err(|error| {
        let kl = KlError::from(error);
        KlError::usage(format!("{what} cannot be imported: {}", kl.chain())).hint("nothing was changed")
    })
}
