//! What can go wrong with a work directory: the operation, the path, and what to do.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

/// Why a work directory could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The file system is full.
    #[error("no space left to {operation} {path}: free some, or set TMPDIR to a directory with more room")]
    Full {
        /// What kl was doing.
        operation: &'static str,
        /// To which file.
        path: Utf8PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// Not allowed.
    #[error("not allowed to {operation} {path}: check its owner and mode, or set TMPDIR to a directory of your own")]
    Denied {
        /// What kl was doing.
        operation: &'static str,
        /// To which file.
        path: Utf8PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot {operation} {path}")]
    Io {
        /// What kl was doing.
        operation: &'static str,
        /// To which file.
        path: Utf8PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// The root module is not a directory.
    #[error("{path} is not a directory with a configuration")]
    NotADirectory {
        /// What was given.
        path: Utf8PathBuf,
    },
    /// A path that is no UTF-8: Terraform could not name it in a state either.
    #[error("the path {path} is not valid UTF-8: rename it")]
    NotUtf8 {
        /// The path, with the bad bytes replaced.
        path: String,
    },
    /// A workspace name that would be a path.
    #[error("{name:?} cannot be the name of a Terraform workspace: it may not be empty or hold a slash")]
    BadName {
        /// The name.
        name: String,
    },
    /// After init, another backend than kl's is in use.
    #[error(
        "the configuration in {dir} uses {found} although kl overrides it: an override file whose name sorts after \
         kl's own sets a backend; rename or remove {suspect}"
    )]
    OtherBackend {
        /// The root module in the mirror.
        dir: Utf8PathBuf,
        /// What is in use.
        found: String,
        /// The file or files that may be the cause.
        suspect: String,
    },
    /// The state file did not become readable.
    #[error("{path} holds no complete JSON: Terraform was cut off while writing it")]
    Torn {
        /// The file.
        path: Utf8PathBuf,
    },
}

impl WorkspaceError {
    /// Sorts an I/O error by what can be done about it.
    pub(super) fn io(operation: &'static str, path: &Utf8Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { operation, path, source },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { operation, path, source }
            }
            _ => Self::Io { operation, path, source },
        }
    }
}
