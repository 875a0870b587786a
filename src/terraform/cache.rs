//! The provider cache: shared by all runs on a machine, written by one init at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::time::Duration;

use camino::Utf8Path;
use tokio::select;
use tokio::time::sleep;

use super::error::TerraformError;
use super::process::Stop;

/// The lock's name in the cache directory; Terraform looks only at directories there.
const LOCK_NAME: &str = ".kl-init.lock";

/// How often a lock that somebody holds is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The right to fill the cache; given back when dropped, and by the kernel when kl dies.
#[derive(Debug)]
pub(super) struct CacheLock(#[expect(dead_code, reason = "held for its lock")] Option<File>);

/// Creates the cache directory and waits for the right to fill it: parallel inits tear each other's packages
/// ("text file busy", checksums that do not match).
///
/// It asks again and again instead of waiting in a thread: such a thread could not be stopped, and would keep
/// an interrupted kl from ending.
pub(super) async fn lock(dir: &Utf8Path, stop: &Stop) -> Result<CacheLock, TerraformError> {
    let error = |source| TerraformError::Cache { dir: dir.to_owned(), source };
    let Some(file) = open(dir).map_err(error)? else { return Ok(CacheLock(None)) };
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(CacheLock(Some(file))),
            Err(TryLockError::WouldBlock) => {
                if !told {
                    tracing::info!(%dir, "waiting for another init on this machine");
                    told = true;
                }
            }
            // A file system without locks: as good as without kl.
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Unsupported => {
                return Ok(CacheLock(None));
            }
            Err(TryLockError::Error(source)) => return Err(error(source)),
        }
        select! {
            () = sleep(PAUSE) => {}
            () = stop.interrupt.cancelled() => return Err(cancelled()),
            () = stop.kill.cancelled() => return Err(cancelled()),
        }
    }
}

fn cancelled() -> TerraformError {
    TerraformError::Cancelled { command: "terraform init".to_owned(), after: Duration::ZERO, cut: false }
}

/// Opens the lock file. None for a cache that nobody can write to: an image's, filled beforehand.
fn open(dir: &Utf8Path) -> io::Result<Option<File>> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(LOCK_NAME);
    match OpenOptions::new().create(true).truncate(false).write(true).open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            // Another user's lock file can be locked through a handle for reading.
            match File::open(&path) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}
