//! The mirror: a copy of the repository in which a configuration behaves as in the checkout.
//!
//! Directories are real (Terraform resolves a linked module directory, and `path.module` becomes another text), files
//! are copied, large ones linked. Symbolic links keep leading to the same thing.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};

use camino::{Utf8Path, Utf8PathBuf};

use super::error::WorkspaceError;
use super::layout::{Layout, utf8};

/// Files of this size and more are linked instead of copied. Who writes into one of them writes into the checkout's, and into
/// that of every other run beside it: what a provisioner makes there is seldom as large.
const LINKED_FROM: u64 = 64 * 1024 * 1024;

/// Names that are never mirrored: a repository's store, Terraform's data (it remembers a backend), kl's database.
const LEFT_OUT: [&str; 3] = [".git", ".terraform", ".kl"];

/// The endings of the files that `SQLite` has beside a database.
const BESIDE_A_DATABASE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// How a `CACHEDIR.TAG` starts (<https://bford.info/cachedir/>).
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55";

/// The tag in kl's own work directories: a mirror must not take in another one, or itself.
pub(super) const OWN_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# A work directory of kl.\n";

/// What to do with a directory in a tree.
#[derive(PartialEq, Eq)]
enum Treatment {
    Copy,
    LeaveOut,
    /// Caches (`target`, `node_modules/.cache`) are large, but a configuration may name a file in one of them.
    Link,
}

/// Makes the mirror of a layout under `target`, which exists. The `database` is left out, wherever it stands.
pub(super) fn mirror(
    layout: &Layout,
    root_module: &Utf8Path,
    database: Option<&Utf8Path>,
    target: &Utf8Path,
) -> Result<(), WorkspaceError> {
    let database = database.map(Database::at);
    let mut mirror = Mirror { layout, root_module, database, target, links: Vec::new() };
    if layout.trees.contains(&layout.base) {
        mirror.tree(&layout.base)?;
    } else {
        mirror.way(&layout.base)?;
    }
    mirror.place_links()
}

/// The place of an original in the mirror.
pub(super) fn place(layout: &Layout, target: &Utf8Path, original: &Utf8Path) -> Utf8PathBuf {
    original.strip_prefix(&layout.base).map_or_else(|_| target.to_owned(), |relative| target.join(relative))
}

/// The database, by its path without links, and by what it is: a file can have several names.
struct Database {
    path: Utf8PathBuf,
    file: Option<(u64, u64)>,
}

impl Database {
    fn at(path: &Utf8Path) -> Self {
        let path = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
        let file = fs::metadata(&path).ok().map(|found| (found.dev(), found.ino()));
        Self { path, file }
    }
}

/// The work in progress.
struct Mirror<'a> {
    layout: &'a Layout,
    root_module: &'a Utf8Path,
    database: Option<Database>,
    target: &'a Utf8Path,
    /// Symbolic links, made when everything that they can lead to is there.
    links: Vec<Utf8PathBuf>,
}

impl Mirror<'_> {
    fn place(&self, original: &Utf8Path) -> Utf8PathBuf {
        place(self.layout, self.target, original)
    }

    /// A directory between the base and the trees: real, with what leads to the trees in it, and links to the rest.
    fn way(&mut self, dir: &Utf8Path) -> Result<(), WorkspaceError> {
        self.make_dir(dir)?;
        for tree in &self.layout.trees {
            let Some(next) = tree.strip_prefix(dir).ok().and_then(|below| below.components().next()) else { continue };
            let next = dir.join(next);
            if self.place(&next).exists() {
                continue;
            }
            if self.layout.leads_to_tree(&next) {
                self.way(&next)?;
            } else {
                self.tree(&next)?;
            }
        }
        // A directory that may be passed but not listed shows nothing more.
        let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
        for entry in entries.flatten() {
            // A name that is no UTF-8 cannot be one that the configuration uses.
            let Ok(path) = utf8(&entry.path()) else { continue };
            let place = self.place(&path);
            if place.symlink_metadata().is_err() {
                make_link(&path, &place)?;
            }
        }
        Ok(())
    }

    /// A directory that is copied with all below it.
    fn tree(&mut self, dir: &Utf8Path) -> Result<(), WorkspaceError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(()),
            // Who may not list it in the checkout may not list it in the mirror, either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && dir != self.root_module => {
                return make_link(dir, &self.place(dir));
            }
            Err(error) => return Err(WorkspaceError::io("list", dir, error)),
        };
        self.make_dir(dir)?;
        for entry in entries {
            let entry = entry.map_err(|error| WorkspaceError::io("list", dir, error))?;
            let path = utf8(&entry.path())?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(WorkspaceError::io("read", &path, error)),
            };
            if self.is_left_out(&path) || self.is_of_the_database(&path, &metadata) {
                continue;
            }
            if metadata.is_symlink() {
                self.links.push(path);
            } else if metadata.is_dir() {
                match self.treatment(&path) {
                    Treatment::Copy => self.tree(&path)?,
                    Treatment::Link => make_link(&path, &self.place(&path))?,
                    Treatment::LeaveOut => {}
                }
            } else if metadata.is_file() {
                copy_file(&path, &metadata, &self.place(&path))?;
            }
            // Sockets, pipes and devices are no configuration.
        }
        Ok(())
    }

    /// Whether an entry is left out by its name.
    fn is_left_out(&self, path: &Utf8Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        if LEFT_OUT.contains(&name) {
            return !self.layout.leads_to_needed(path);
        }
        // The checkout's own state, of before kl or beside it. That of other root modules may be read by this one.
        path.parent() == Some(self.root_module)
            && (name.starts_with("terraform.tfstate")
                || [".terraform.tfstate.lock.info", "errored.tfstate"].contains(&name))
    }

    /// Whether it is the database, or a file that `SQLite` has beside it. Who opens one of them a second time and closes it
    /// again frees all the locks that the process has on it (<https://sqlite.org/howtocorrupt.html>, 2.2): another kl would
    /// take the database for its own, and remove what this one has written.
    fn is_of_the_database(&self, path: &Utf8Path, found: &Metadata) -> bool {
        let Some(database) = &self.database else { return false };
        let base = BESIDE_A_DATABASE.iter().find_map(|ending| path.as_str().strip_suffix(ending));
        database.path == base.unwrap_or(path.as_str()) || database.file == Some((found.dev(), found.ino()))
    }

    fn treatment(&self, dir: &Utf8Path) -> Treatment {
        let mut start = String::new();
        let read = File::open(dir.join("CACHEDIR.TAG"))
            .and_then(|tag| tag.take(OWN_TAG.len() as u64).read_to_string(&mut start));
        if read.is_err() || !start.starts_with(TAG) || self.layout.leads_to_needed(dir) {
            Treatment::Copy
        } else if start == OWN_TAG {
            Treatment::LeaveOut
        } else {
            Treatment::Link
        }
    }

    fn make_dir(&self, original: &Utf8Path) -> Result<(), WorkspaceError> {
        let place = self.place(original);
        if place == self.target { Ok(()) } else { make_private_dir(&place) }
    }

    /// Makes the symbolic links so that each leads to what it leads to in the checkout.
    ///
    /// The text is kept where it can be, because `path.module` shows it: absolute ones, dangling ones, and relative ones
    /// to something in the mirror. What leads out of the mirror becomes absolute.
    fn place_links(&self) -> Result<(), WorkspaceError> {
        let mut kept = Vec::new();
        for link in &self.links {
            let text = fs::read_link(link).map_err(|error| WorkspaceError::io("read", link, error))?;
            let text = utf8(&text)?;
            let target = match link.canonicalize_utf8() {
                Ok(real) if text.is_relative() => {
                    let copy = self.place(&real);
                    if self.layout.is_in_tree(&real) && copy.exists() {
                        kept.push((link, copy));
                        text
                    } else {
                        real
                    }
                }
                _ => text,
            };
            make_link(&target, &self.place(link))?;
        }
        // A relative text can lead astray: out of the repository and back in by its name.
        for (link, copy) in kept {
            let place = self.place(link);
            if place.canonicalize_utf8().ok() != copy.canonicalize_utf8().ok() {
                fs::remove_file(&place).map_err(|error| WorkspaceError::io("replace", &place, error))?;
                make_link(&copy, &place)?;
            }
        }
        Ok(())
    }
}

/// Copies a file with its mode and time; links a large one. A checkout in use loses files meanwhile: that is no error.
fn copy_file(from: &Utf8Path, metadata: &Metadata, to: &Utf8Path) -> Result<(), WorkspaceError> {
    if metadata.len() >= LINKED_FROM {
        // Another device, another owner, too many links: a symbolic link does it, too.
        return fs::hard_link(from, to).or_else(|_| make_link(from, to));
    }
    match fs::copy(from, to) {
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(()),
        // Unreadable here as there; only who reads it shall hear of it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return make_link(from, to),
        Err(error) => return Err(WorkspaceError::io("write", to, error)),
    }
    // Tools that compare times (make) see what they see in the checkout. Without it, they do more; no more than that.
    if let (Ok(time), Ok(file)) = (metadata.modified(), File::open(to)) {
        drop(file.set_times(FileTimes::new().set_modified(time)));
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn make_link(target: &Utf8Path, at: &Utf8Path) -> Result<(), WorkspaceError> {
    symlink(target, at).map_err(|error| WorkspaceError::io("link", at, error))
}

/// A directory that only its owner can enter.
pub(super) fn make_private_dir(path: &Utf8Path) -> Result<(), WorkspaceError> {
    DirBuilder::new().mode(0o700).create(path).map_err(|error| WorkspaceError::io("create", path, error))
}
