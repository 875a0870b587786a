//! `kl db migrate`.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::good;

/// Runs the command.
pub async fn migrate(session: &Session) -> Result<Exit, KlError> {
    let place = Place::find(Utf8Path::new("."))?;
    let store = crate::store::open_unchecked(&session.database(&place)?).await?;
    let (before, after) = store.migrate().await?;
    let text = if before == after {
        format!("{} The schema is up to date (version {after}).\n", good("✓"))
    } else {
        format!("{} The schema went from version {before} to {after}.\n", good("✓"))
    };
    session.out.result(&text, || json!({ "before": before, "after": after }));
    Ok(Exit::Done)
}
