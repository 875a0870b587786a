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
                "{what}, at serial {serial}; others have gone on since, to serial {stands}{undone}. Do not push it: with -force or \
                 without, that would take back what they did. Compare it with `kl state pull`, and bring in what it alone has \
                 (`import` blocks); where it is right as a whole, `kl state import errored.tfstate --over {stands}` there takes it as \
                 the next version. Then remove the file"
            ))
        }
        Errored::Known => {
            Some(format!("errored.tfstate in {dir} holds nothing that the state does not have: remove the file"))
        }
        Errored::Foreign { has, given } => {
            let given = given.map_or_else(|| "none".to_owned(), |given| given.to_string());
            Some(format!(
                "{what}, and that is another one: it has lineage {given}, and the state {:?} has lineage {has}",
                name.as_str()
            ))
        }
        Errored::Unreadable(why) => Some(format!(
            "{what}, and cannot be read ({why}): look at the provider for what that terraform did, then remove the file"
        )),
    })
}
