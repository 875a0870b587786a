//! Isolated working directories in which a configuration behaves as in its checkout.
//!
//! In order: [`Workspace::create`], `terraform init`, [`Workspace::after_init`], [`Workspace::write_slice`],
//! `terraform plan` and so on, [`Workspace::read_state`]. The directory is removed when the value is dropped.
//! All of it blocks on the file system; inside a runtime it belongs into `spawn_blocking`.

mod backend;
mod copy;
mod error;
mod layout;
mod modules;
mod owner;
mod slice;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};

pub use backend::OVERRIDE_FILE;
pub use error::WorkspaceError;
pub use layout::repository_root;
pub use owner::{Closed, Found, LeftBehind, find, left_in, this_host};

use copy::make_private_dir;
use layout::{Layout, canonical};
use owner::{OWNER, Owner};

use crate::domain::id::RunId;

/// What to make a work directory for.
#[derive(Debug, Clone)]
pub struct WorkspaceRequest {
    /// Where work directories are made (TMPDIR).
    pub parent: Utf8PathBuf,
    /// The root module's directory in the checkout.
    pub root_module: Utf8PathBuf,
    /// Directories of local modules (`./x`, `../x`) that the root module reaches, as far as they lie outside its
    /// repository, or when there is none; naming others does no harm.
    pub extra_roots: Vec<Utf8PathBuf>,
    /// The Terraform workspace.
    pub workspace: String,
    /// The file of kl's database, when it is one: it is not mirrored.
    pub database: Option<Utf8PathBuf>,
}

/// A work directory: a mirror of the repository, the slice's state, Terraform's data. Removed on drop.
///
/// ```text
/// <parent>/kl-<repository>-<dir>/   0700
///     mirror/…                      the repository, with the override in the root module
///     state/terraform.tfstate       the slice; state/workspaces/NAME/terraform.tfstate in a named workspace
///     data/                         TF_DATA_DIR
///     plan.bin                      the saved plan
///     apply.jsonl, apply.stderr     what the apply says
///     owner.json                    locked by the kl that works here
/// ```
#[derive(Debug)]
pub struct Workspace {
    dir: Utf8PathBuf,
    checkout_dir: Utf8PathBuf,
    root_module_dir: Utf8PathBuf,
    selected: String,
    keep: bool,
    owner: Owner,
}

/// Where Terraform's local backend has its files.
const STATE_DIR: &str = "state";

/// Where Terraform leaves its state, in its working directory, when it cannot write it where it should be.
const ERRORED: &str = "errored.tfstate";

/// How many directories of one name are tried.
const NAMES: u32 = 100;

/// The longest name made from a repository's and a directory's names.
const LONGEST_NAME: usize = 60;

impl Workspace {
    /// Makes a work directory.
    pub fn create(request: &WorkspaceRequest) -> Result<Self, WorkspaceError> {
        let name = request.workspace.as_str();
        if name.is_empty() || name.contains(['/', '\\']) || [".", ".."].contains(&name) {
            return Err(WorkspaceError::BadName { name: name.to_owned() });
        }
        let selected = name.to_owned();
        let checkout_dir = canonical(&request.root_module)?;
        if !checkout_dir.is_dir() {
            return Err(WorkspaceError::NotADirectory { path: checkout_dir });
        }
        let extra = request.extra_roots.iter().map(|dir| canonical(dir)).collect::<Result<Vec<_>, _>>()?;
        let layout = Layout::of(&checkout_dir, &extra);
        let dir = make_work_dir(&canonical(&request.parent)?, &checkout_dir)?;
        let state_path = backend::state_path(&dir.join(STATE_DIR), &selected);
        let mirror = dir.join("mirror");
        let root_module_dir = copy::place(&layout, &mirror, &checkout_dir);
        let errored = root_module_dir.join(ERRORED);
        let owner = Owner::take(&dir, state_path, errored.clone()).inspect_err(|_| drop(remove_all(&dir)))?;
        // From here on, an error removes what is there.
        let made = Self { dir, checkout_dir, root_module_dir, selected, keep: false, owner };
        for dir in [&mirror, &made.state_dir(), &made.data_dir()] {
            make_private_dir(dir)?;
        }
        let tag = made.dir.join("CACHEDIR.TAG");
        fs::write(&tag, copy::OWN_TAG).map_err(|error| WorkspaceError::io("write", &tag, error))?;
        copy::mirror(&layout, &made.checkout_dir, request.database.as_deref(), &mirror)?;
        backend::write_override(&made.root_module_dir, &made.state_dir())?;
        // One that somebody has in the checkout is not what Terraform leaves here.
        slice::remove(&errored)?;
        Ok(made)
    }

    /// The work directory itself.
    #[must_use]
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// The root module's directory in the checkout, without symbolic links.
    #[must_use]
    pub fn checkout_dir(&self) -> &Utf8Path {
        &self.checkout_dir
    }

    /// The root module's directory in the mirror.
    #[must_use]
    pub fn root_module_dir(&self) -> &Utf8Path {
        &self.root_module_dir
    }

    /// Terraform's data directory (`TF_DATA_DIR`).
    #[must_use]
    pub fn data_dir(&self) -> Utf8PathBuf {
        self.dir.join("data")
    }

    /// Where Terraform leaves its state when it cannot write it where it should be.
    #[must_use]
    pub fn errored_path(&self) -> Utf8PathBuf {
        self.root_module_dir.join(ERRORED)
    }

    /// The Terraform workspace.
    #[must_use]
    pub fn workspace(&self) -> &str {
        &self.selected
    }

    /// Where the saved plan goes. It holds every secret of the slice.
    #[must_use]
    pub fn plan_path(&self) -> Utf8PathBuf {
        self.dir.join("plan.bin")
    }

    /// Where Terraform has the slice's state.
    #[must_use]
    pub fn state_path(&self) -> Utf8PathBuf {
        backend::state_path(&self.state_dir(), &self.selected)
    }

    fn state_dir(&self) -> Utf8PathBuf {
        self.dir.join(STATE_DIR)
    }

    /// To be called after `terraform init`, before anything else: makes sure that kl's backend is in use, and puts
    /// downloaded modules where they are in a checkout.
    pub fn after_init(&self) -> Result<(), WorkspaceError> {
        backend::verify_local(&self.root_module_dir, &self.data_dir(), &self.state_dir())?;
        modules::adopt(&self.root_module_dir, &self.data_dir())
    }

    /// Leaves the configuration its own backend, so that it can be read. To be called before `terraform init`, and with
    /// no slice: whatever Terraform writes here goes into that backend.
    pub fn keep_own_backend(&self) -> Result<(), WorkspaceError> {
        let path = self.root_module_dir.join(OVERRIDE_FILE);
        fs::remove_file(&path).map_err(|error| WorkspaceError::io("remove", &path, error))
    }

    /// Writes the slice, mode 0600. After init: in a named workspace, init would ask whether to migrate a state that it
    /// finds.
    pub fn write_slice(&self, text: &str) -> Result<(), WorkspaceError> {
        slice::write(&self.state_path(), text)
    }

    /// Reads the slice's state, also while Terraform writes it. None when Terraform has none.
    pub fn read_state(&self) -> Result<Option<String>, WorkspaceError> {
        slice::read_settled(&self.state_path())
    }

    /// Removes the slice, for a plan from nothing.
    pub fn remove_slice(&self) -> Result<(), WorkspaceError> {
        slice::remove(&self.state_path())
    }

    /// Says which run plans here, for whoever finds the directory after a crash.
    pub fn plans_for(&mut self, run: RunId) -> Result<(), WorkspaceError> {
        self.owner.plans_for(run)
    }

    /// Says which run works here, for whoever finds the directory after a crash.
    pub fn belongs_to(&mut self, run: RunId) -> Result<(), WorkspaceError> {
        self.owner.belongs_to(run)
    }

    /// Leaves the directory as a process that is killed would: whoever recovers the run finds it, and it is cleared away
    /// when the run waits for nothing any more.
    pub fn leave(&mut self) {
        self.keep = true;
    }

    /// Keeps the directory when the value is dropped, and says where it is. It holds secrets.
    pub fn keep(&mut self) -> &Utf8Path {
        self.keep = true;
        if let Err(error) = self.owner.keep() {
            tracing::warn!(dir = %self.dir, %error, "the work directory is kept, and may be cleared away by a later run");
        }
        &self.dir
    }
}

/// Reads a state file that Terraform may be writing, as [`Workspace::read_state`] does; for a checkpoint that does not
/// own the work directory.
pub fn read_settled(state_path: &Utf8Path) -> Result<Option<String>, WorkspaceError> {
    slice::read_settled(state_path)
}

/// Reads the state that Terraform left: from `errored` when it could not write it in its place, and has written a whole one
/// there.
pub fn read_left(state_path: &Utf8Path, errored: Option<&Utf8Path>) -> Result<Option<String>, WorkspaceError> {
    slice::read_left(state_path, errored)
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = remove_all(&self.dir) {
            tracing::warn!(dir = %self.dir, %error, "cannot remove the work directory; it holds a part of the state");
        }
    }
}

/// Removes a work directory, also one in which something made directories read-only. What says whose it is goes last:
/// without that, nobody would ever clear away what a kl that was killed meanwhile has left of it.
fn remove_all(dir: &Utf8Path) -> io::Result<()> {
    empty(dir).or_else(|_| {
        make_writable(dir);
        empty(dir)
    })?;
    match fs::remove_file(dir.join(OWNER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir(dir)
}

/// Removes all that is in a work directory but the file that says whose it is.
fn empty(dir: &Utf8Path) -> io::Result<()> {
    // Whoever works there may give a file a name that is no text.
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != OWNER {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn make_writable(dir: &Utf8Path) {
    // What cannot be changed shows when removing it.
    drop(fs::set_permissions(dir, Permissions::from_mode(0o700)));
    for entry in dir.read_dir_utf8().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(entry.path());
        }
    }
}

/// Makes `kl-<repository>-<dir>`, or with `.2`, `.3` … where that is taken.
///
/// The name is the same in every job where it can be: `abspath()` shows it, and a configuration that stores such a path
/// would differ between the plan and the apply. Making the directory fails when it exists, so nobody can put one
/// there for kl to walk into.
fn make_work_dir(parent: &Utf8Path, checkout_dir: &Utf8Path) -> Result<Utf8PathBuf, WorkspaceError> {
    let outside = repository_root(checkout_dir).and_then(|root| root.parent().map(Utf8Path::to_owned));
    let described = outside.as_deref().and_then(|outside| checkout_dir.strip_prefix(outside).ok());
    let described = described.or(checkout_dir.file_name().map(Utf8Path::new)).unwrap_or(Utf8Path::new("root"));
    let plain: String = described
        .as_str()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' })
        .collect();
    let name = &plain[plain.len().saturating_sub(LONGEST_NAME)..];
    for number in 1..=NAMES {
        let dir = match number {
            1 => parent.join(format!("kl-{name}")),
            _ => parent.join(format!("kl-{name}.{number}")),
        };
        match make_private_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(WorkspaceError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let dir = tempfile::Builder::new()
        .prefix("kl-")
        .tempdir_in(parent)
        .map_err(|error| WorkspaceError::io("create a directory in", parent, error))?;
    layout::utf8(&dir.keep())
}
