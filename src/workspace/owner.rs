//! Who works in a work directory: a file in it that its kl keeps locked for as long as it lives.
//!
//! The kernel gives the lock back however kl dies, so the lock is the sign of life; no process number is. Whoever finds a
//! directory whose lock is free takes the lock, and with it the directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::error::WorkspaceError;
use super::{remove_all, slice};
use crate::domain::id::RunId;
use crate::domain::run::workplace::Host;

/// The file's name.
pub(super) const OWNER: &str = "owner.json";

/// What work directories are called.
const PREFIX: &str = "kl-";

/// What stands in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Where Terraform has the slice's state.
    state: Utf8PathBuf,
    /// Where Terraform leaves its state when it cannot write it there; none in a note of an older kl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errored: Option<Utf8PathBuf>,
    /// The run that works here; none for a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// The run that only plans here so far: it has changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plans_for: Option<RunId>,
    /// Whether somebody wants to keep the directory.
    #[serde(default)]
    kept: bool,
}

/// The lock of a living kl on its work directory.
#[derive(Debug)]
pub(super) struct Owner {
    path: Utf8PathBuf,
    file: File,
    note: Note,
}

impl Owner {
    /// Takes a directory that was just made.
    pub(super) fn take(dir: &Utf8Path, state: Utf8PathBuf, errored: Utf8PathBuf) -> Result<Self, WorkspaceError> {
        let path = dir.join(OWNER);
        let failed = |error| WorkspaceError::io("write", &path, error);
        // Locked and written before it has its name: nobody sees one that is not locked.
        let draft = dir.join(".owner");
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            // Nobody can see whether this kl lives; then nobody may take its directory for left, see `find`.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(failed(error.into())),
        }
        let note = Note { state, errored: Some(errored), run: None, plans_for: None, kept: false };
        let mut owner = Self { path: path.clone(), file, note };
        owner.write()?;
        fs::rename(&draft, &path).map_err(failed)?;
        Ok(owner)
    }

    /// Names the run that has reserved its rows, and plans here before it changes anything.
    pub(super) fn plans_for(&mut self, run: RunId) -> Result<(), WorkspaceError> {
        self.note.plans_for = Some(run);
        self.write()
    }

    /// Names the run that works here.
    pub(super) fn belongs_to(&mut self, run: RunId) -> Result<(), WorkspaceError> {
        self.note.run = Some(run);
        self.write()
    }

    /// Says that the directory is meant to stay.
    pub(super) fn keep(&mut self) -> Result<(), WorkspaceError> {
        self.note.kept = true;
        self.write()
    }

    fn write(&mut self) -> Result<(), WorkspaceError> {
        let text = serde_json::to_vec(&self.note).map_err(io::Error::from);
        let written = text.and_then(|text| {
            self.file.rewind()?;
            self.file.set_len(0)?;
            self.file.write_all(&text)
        });
        written.map_err(|error| WorkspaceError::io("write", &self.path, error))
    }
}

/// What is at a place where a work directory was.
#[derive(Debug)]
pub enum Found {
    /// No work directory.
    Nothing,
    /// A directory into which this kl must not look. Whether it is the run's own is not known, so it is not gone.
    Closed(Closed),
    /// One whose kl lives, or that another kl is just clearing up.
    InUse,
    /// One whose kl is dead; this is now the only one who may touch it.
    Left(LeftBehind),
}

/// Why a directory must not be looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It belongs to the user of this number.
    OfUser(u32),
    /// Others than its owner may have written into it; its mode.
    Writable(u32),
    /// What stands in its `owner.json` cannot be understood.
    Unclear,
}

/// A work directory whose kl is dead, and the lock on it.
#[derive(Debug)]
pub struct LeftBehind {
    dir: Utf8PathBuf,
    note: Note,
    _lock: File,
}

impl LeftBehind {
    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// The run that worked in it; none for a plan.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        self.note.run
    }

    /// The run that was planned in it, and perhaps more; none for a plan by itself.
    #[must_use]
    pub fn plans_for(&self) -> Option<RunId> {
        self.note.plans_for
    }

    /// Whether somebody wanted to keep it.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.note.kept
    }

    /// The slice's state as Terraform left it. None when it has written none.
    pub fn read_state(&self) -> Result<Option<String>, WorkspaceError> {
        slice::read_left(&self.note.state, self.note.errored.as_deref())
    }

    /// Removes it, unless it was meant to stay.
    pub fn remove(self) -> Result<(), WorkspaceError> {
        if self.note.kept {
            return Ok(());
        }
        remove_all(&self.dir).map_err(|error| WorkspaceError::io("remove", &self.dir, error))
    }
}

/// The bits of a mode that let others than the owner write. That they may read is the owner's own affair.
const OTHERS_WRITE: u32 = 0o022;

/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o777;

/// Looks at a place where a work directory was.
///
/// # Errors
/// When it is there and cannot be read.
pub fn find(dir: &Utf8Path) -> Result<Found, WorkspaceError> {
    // Names of work directories can be guessed, and what somebody else has put there is not looked into. The run may have
    // worked as another user all the same.
    match fs::symlink_metadata(dir) {
        Ok(found) if !found.is_dir() => return Ok(Found::Nothing),
        Ok(found) if found.uid() != nix::unistd::geteuid().as_raw() => {
            return Ok(Found::Closed(Closed::OfUser(found.uid())));
        }
        Ok(found) if found.mode() & OTHERS_WRITE != 0 => {
            return Ok(Found::Closed(Closed::Writable(found.mode() & PERMISSIONS)));
        }
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Found::Nothing);
        }
        Err(error) => return Err(WorkspaceError::io("look at", dir, error)),
    }
    let path = dir.join(OWNER);
    let failed = |error| WorkspaceError::io("read", &path, error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Found::InUse),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(Found::InUse),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let text = match fs::read(&path) {
        Ok(text) => text,
        // Removed by the one who had the lock.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    };
    // One that was cut off while it was written may be that of any run.
    match serde_json::from_slice::<Note>(&text) {
        Ok(note) if note.state.starts_with(dir) && note.errored.as_ref().is_none_or(|path| path.starts_with(dir)) => {
            Ok(Found::Left(LeftBehind { dir: dir.to_owned(), note, _lock: file }))
        }
        _ => Ok(Found::Closed(Closed::Unclear)),
    }
}

/// The work directories below `parent` whose kl is dead. What cannot be read is left out.
#[must_use]
pub fn left_in(parent: &Utf8Path) -> Vec<LeftBehind> {
    let entries = parent.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().starts_with(PREFIX))
        .filter_map(|entry| match find(entry.path()) {
            Ok(Found::Left(left)) => Some(left),
            _ => None,
        })
        .collect()
}

/// This machine.
#[must_use]
pub fn this_host() -> Host {
    let read = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    Host {
        name: nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .unwrap_or_else(|| "(a machine without a name)".to_owned()),
        machine: read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id")),
        boot: read("/proc/sys/kernel/random/boot_id"),
        processes: fs::read_link("/proc/self/ns/pid").ok().map(|link| link.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown, symlink};

    use super::super::empty;
    use super::*;

    /// A directory as kl makes one, in a temporary one.
    fn made(temp: &tempfile::TempDir) -> (Utf8PathBuf, Owner) {
        let dir = Utf8PathBuf::from_path_buf(temp.path().canonicalize().unwrap()).unwrap().join("kl-web");
        fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let owner = Owner::take(&dir, dir.join("state/terraform.tfstate"), dir.join("mirror/errored.tfstate")).unwrap();
        (dir, owner)
    }

    #[test]
    fn a_directory_is_in_use_for_as_long_as_its_kl_lives_and_then_belongs_to_one() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, mut owner) = made(&temp);
        let run = RunId(uuid::Uuid::from_u128(7));
        owner.belongs_to(run).unwrap();
        assert!(matches!(find(&dir).unwrap(), Found::InUse));
        drop(owner);
        let Found::Left(left) = find(&dir).unwrap() else { panic!("nobody has it") };
        assert_eq!((left.run(), left.kept()), (Some(run), false));
        assert!(matches!(find(&dir).unwrap(), Found::InUse));
        left.remove().unwrap();
        assert!(!dir.exists());
        assert!(matches!(find(&dir).unwrap(), Found::Nothing));
    }

    #[test]
    fn a_directory_that_is_meant_to_stay_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, mut owner) = made(&temp);
        owner.keep().unwrap();
        drop(owner);
        let mut left = left_in(dir.parent().unwrap());
        assert!(left[0].kept());
        left.remove(0).remove().unwrap();
        assert!(dir.exists());
    }

    #[test]
    fn what_somebody_else_could_have_put_there_is_not_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, owner) = made(&temp);
        drop(owner);
        let link = dir.with_file_name("kl-link");
        symlink(&dir, &link).unwrap();
        assert!(matches!(find(&link).unwrap(), Found::Nothing));
        // That others may read what is theirs by now changes nothing.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(find(&dir).unwrap(), Found::Left(_)));
        // A state elsewhere is none of this directory's.
        let foreign = Note { state: "/etc/passwd".into(), ..Note::default() };
        fs::write(dir.join(OWNER), serde_json::to_vec(&foreign).unwrap()).unwrap();
        assert!(matches!(find(&dir).unwrap(), Found::Closed(Closed::Unclear)));
        fs::write(dir.join(OWNER), b"{\"sta").unwrap();
        assert!(matches!(find(&dir).unwrap(), Found::Closed(Closed::Unclear)));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o720)).unwrap();
        assert!(matches!(find(&dir).unwrap(), Found::Closed(Closed::Writable(0o720))));
        assert!(left_in(dir.parent().unwrap()).is_empty());
        // Only root can give a directory away.
        if nix::unistd::geteuid().is_root() {
            chown(&dir, Some(12_345), None).unwrap();
            assert!(matches!(find(&dir).unwrap(), Found::Closed(Closed::OfUser(12_345))));
        }
    }

    #[test]
    fn a_removal_that_is_cut_off_leaves_a_directory_that_is_found_again() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, owner) = made(&temp);
        drop(owner);
        for name in ["a", "state", "z"] {
            fs::create_dir(dir.join(name)).unwrap();
            fs::write(dir.join(name).join("file"), "x").unwrap();
            fs::write(dir.join(format!("{name}.file")), "x").unwrap();
        }
        // Cut off when it comes to `owner.json`, wherever that stands in the directory.
        empty(&dir).unwrap();
        let names = |dir: &Utf8Path| -> Vec<String> {
            dir.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect()
        };
        assert_eq!(names(&dir), [OWNER]);
        let Found::Left(left) = find(&dir).unwrap() else { panic!("it is found again") };
        left.remove().unwrap();
        assert!(!dir.exists());
    }
}
