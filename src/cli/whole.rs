//! Files that a command leaves where somebody asked for them: written whole, or not at all.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::KlError;

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner alone.
    Owner,
    /// Whoever the process's umask lets.
    Usual,
}

/// Where something is really written: behind symbolic links, which stay.
fn target(out: &Utf8Path) -> Utf8PathBuf {
    out.canonicalize_utf8().unwrap_or_else(|_| out.to_owned())
}

fn directory(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|dir| !dir.as_str().is_empty()).unwrap_or(Utf8Path::new("."))
}

/// Finds out before a long work that its result, `what`, could not be written.
///
/// # Errors
/// A usage error when the place is a directory, or in none.
pub(super) fn writable(out: &Utf8Path, what: &str) -> Result<(), KlError> {
    if out.is_dir() || !directory(out).is_dir() {
        return Err(KlError::usage(format!("{what} cannot be written to {out}")).hint("name a file with --out"));
    }
    Ok(())
}

/// Writes a file whole or not at all: whoever reads it sees the old one or the new one. Into a pipe or a device it is
/// written as into any other.
///
/// # Errors
/// A usage error with the reason.
pub(super) fn write(out: &Utf8Path, what: &str, text: &str, readers: Readers) -> Result<(), KlError> {
    let cannot = |error: std::io::Error| KlError::usage(format!("{what} cannot be written to {out}")).because(error);
    let path = target(out);
    let special = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    if special {
        return std::fs::write(&path, text).map_err(cannot);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kl-");
    if readers == Readers::Usual {
        builder.permissions(Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(directory(&path)).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    file.persist(&path).map_err(|error| cannot(error.error))?;
    Ok(())
}
