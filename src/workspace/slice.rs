//! The slice's state file: written before Terraform runs, read while it runs and after.

use std::fs;
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use camino::Utf8Path;
use serde::de::IgnoredAny;

use super::copy::make_private_dir;
use super::error::WorkspaceError;

/// How often a half-written file is read again, and after which pause. Terraform truncates and writes the file in one
/// go: a second is much.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// Writes a state file that only its owner can read, whole or not at all.
pub(super) fn write(path: &Utf8Path, text: &str) -> Result<(), WorkspaceError> {
    let failed = |error| WorkspaceError::io("write", path, error);
    let dir = path.parent().unwrap_or(Utf8Path::new("/"));
    for missing in missing_dirs(dir) {
        make_private_dir(missing)?;
    }
    // Created with mode 0600 by tempfile.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The directories that do not exist yet, outermost first.
fn missing_dirs(dir: &Utf8Path) -> Vec<&Utf8Path> {
    let mut missing: Vec<&Utf8Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    missing.reverse();
    missing
}

/// Reads a state file that Terraform may be writing: an empty or cut-off text is read again for a second. None when
/// there is no file. Blocks; takes long only when the writer died.
pub(super) fn read_settled(path: &Utf8Path) -> Result<Option<String>, WorkspaceError> {
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(PAUSE);
        }
        match fs::read_to_string(path) {
            Ok(text) if serde_json::from_str::<IgnoredAny>(&text).is_ok() => return Ok(Some(text)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Cut off inside a letter.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(WorkspaceError::io("read", path, error)),
        }
    }
    Err(WorkspaceError::Torn { path: path.to_owned() })
}

/// Reads the state that Terraform left: from `errored` when it could not write it where it should be, and has written a
/// whole one there.
pub(super) fn read_left(path: &Utf8Path, errored: Option<&Utf8Path>) -> Result<Option<String>, WorkspaceError> {
    match errored.map(read_settled) {
        Some(Ok(Some(text))) => Ok(Some(text)),
        _ => read_settled(path),
    }
}

/// Removes a state file, when there is one.
pub(super) fn remove(path: &Utf8Path) -> Result<(), WorkspaceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(WorkspaceError::io("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use camino::Utf8PathBuf;

    use super::*;

    fn path(temp: &tempfile::TempDir) -> Utf8PathBuf {
        Utf8Path::from_path(temp.path()).unwrap().join("workspaces/dev/terraform.tfstate")
    }

    #[test]
    fn a_slice_is_written_for_its_owner_alone_and_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let path = path(&temp);
        assert_eq!(read_settled(&path).unwrap(), None);
        write(&path, "{\"version\":4}").unwrap();
        write(&path, "{\"version\":4,\"serial\":1}").unwrap();
        assert_eq!(read_settled(&path).unwrap().unwrap(), "{\"version\":4,\"serial\":1}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
    }

    #[test]
    fn a_file_in_the_middle_of_being_written_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let path = path(&temp);
        write(&path, "{\"version\":4,\"na").unwrap();
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || {
                sleep(Duration::from_millis(60));
                fs::write(&path, "{\"version\":4,\"name\":1}").unwrap();
            })
        };
        assert_eq!(read_settled(&path).unwrap().unwrap(), "{\"version\":4,\"name\":1}");
        writer.join().unwrap();
    }

    #[test]
    fn a_state_that_could_not_be_written_in_its_place_is_read_where_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let path = path(&temp);
        let errored = path.with_file_name("errored.tfstate");
        write(&path, "{\"serial\":1}").unwrap();
        assert_eq!(read_left(&path, Some(&errored)).unwrap().unwrap(), "{\"serial\":1}");
        write(&errored, "{\"serial\":2}").unwrap();
        assert_eq!(read_left(&path, Some(&errored)).unwrap().unwrap(), "{\"serial\":2}");
        write(&errored, "{\"serial\":").unwrap();
        assert_eq!(read_left(&path, Some(&errored)).unwrap().unwrap(), "{\"serial\":1}");
    }

    #[test]
    fn a_torn_file_is_an_error_that_says_so() {
        let temp = tempfile::tempdir().unwrap();
        let path = path(&temp);
        write(&path, "").unwrap();
        assert!(matches!(read_settled(&path), Err(WorkspaceError::Torn { .. })));
    }
}
