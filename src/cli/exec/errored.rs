//! What to do about an `errored.tfstate` beside the configuration, before anything else is done there.

use camino::Utf8Path;

use crate::cli::bounded::{self, MAX_STATE};
use crate::domain::id::StateName;
use crate::error::KlError;
use crate::pipeline::errored::{Errored, judge};
use crate::store::Store;

/// Where Terraform leaves its state when it cannot write it.
const ERRORED: &str = "errored.tfstate";

/// Says what the file in a directory is, and what becomes of it; none where there is no such file, or where it is pushed
/// already and may be.
pub(super) async fn told(
    store: &dyn Store,
    name: &StateName,
    dir: &Utf8Path,
    pushes: bool,
) -> Result<Option<String>, KlError> {
    let file = dir.join(ERRORED);
    if !file.exists() {
        return Ok(None);
    }
    let read = || Ok((bounded::file(&file, MAX_STATE)?, file.metadata()?.modified()?));
    let found = match read() {
        Ok((bytes, written)) => judge(store, name, &String::from_utf8_lossy(&bytes), written.into()).await?,
        Err::<_, std::io::Error>(error) => Errored::Unreadable(error.to_string()),
    };
    let what = format!("errored.tfstate in {dir} holds what an earlier terraform could not write into its state");
    Ok(match found {
        Errored::Next if pushes => None,
        Errored::Next => Some(format!(
            "{what}: `kl exec -- terraform state push errored.tfstate` takes it over; then remove the file"
        )),
        Errored::Overtaken { serial, stands, undone } => {
            let undone = undone.map(|undone| format!(", which it does not have: {undone}")).unwrap_or_default();
            Some(format!(
                "{what}, at serial {serial}; others have gone on since, to serial {stands}{undone}. Do not push it: where \
                 that is not refused, with -force or without, it would take back what they did. Compare it with `kl state pull`, and bring in what it alone has \
                 (`import` blocks); where it is right as a whole, `kl state import errored.tfstate --over {stands}` there takes it as \
                 the next version. Then remove the file"
            ))
        }
        Errored::Known => {
            Some(format!("errored.tfstate in {dir} holds nothing that the state does not have: remove the file"))
        }
        Errored::Unbegun { stands, alone } => {
            let alone = alone.map_or_else(
                || "compare it with `kl state pull`".to_owned(),
                |alone| format!("bring in what it alone has with `import` blocks: {alone}"),
            );
            Some(format!(
                "{what}. It is of a first apply, and others have begun the state since, now at serial {stands}: do not push it, \
                 which is refused; {alone}. Then remove the file"
            ))
        }
        Errored::Foreign { has, given } => Some(format!(
            "{what}, and that is another one: it has lineage {given}, and the state {:?} has lineage {has}. Do not push it \
             here. With the --state or --workspace that it was made with, kl compares it with that state; \
             `kl state import errored.tfstate --state NAME` keeps it under a name of its own. Then remove the file",
            name.as_str()
        )),
        Errored::Unreadable(why) => Some(format!(
            "{what}, and cannot be read ({why}): look at the provider for what that terraform did, then remove the file"
        )),
    })
}
