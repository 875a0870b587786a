//! The place of one test: a checkout, a home, a temporary directory, a database, and kl in the midst of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use super::database::{Backend, Database, unsound};
use super::kl::{Kl, Scrub};
use super::providers;
use super::terraform::GO;

/// Directories of one test, removed at its end; the embedded databases in them are checked before.
pub(crate) struct Site {
    root: Utf8PathBuf,
    database_url: Option<String>,
    _temp: TempDir,
}

impl Site {
    /// A site with kl's embedded database, in the checkout.
    pub(crate) fn new() -> Self {
        let temp = tempfile::Builder::new().prefix("kl-test-").tempdir().expect("a temporary directory can be made");
        let root = Utf8Path::from_path(temp.path()).expect("temporary directories have plain names");
        let root = root.canonicalize_utf8().expect("it was just made");
        let site = Self { root, database_url: None, _temp: temp };
        for dir in ["repo/.git", "home", "tmp"] {
            fs::create_dir_all(site.path(dir)).expect("the site is ours");
        }
        fs::write(site.path("terraformrc"), providers::terraformrc()).expect("the site is ours");
        site
    }

    /// A site whose kl uses this database, with an up-to-date schema.
    pub(crate) fn on(database: &Database) -> Self {
        let mut site = Self::new();
        site.database_url = Some(database.url().to_owned());
        if database.backend() == Backend::Postgres {
            drop(site.kl().args(["db", "migrate"]).exits(0));
        }
        site
    }

    /// Another site with the same files, whose kl uses this database.
    pub(crate) fn copy(&self, database: &Database) -> Self {
        let mut site = Self::new();
        copy(&self.root, &site.root);
        site.database_url = Some(database.url().to_owned());
        site
    }

    /// A path in the site.
    pub(crate) fn path(&self, path: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        self.root.join(path)
    }

    /// The checkout.
    pub(crate) fn repo(&self) -> Utf8PathBuf {
        self.path("repo")
    }

    /// Writes a file in the checkout.
    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.repo().join(path), text);
    }

    /// A second checkout of the same repository, as it is now: another branch, another engineer. Relative paths in it
    /// mean the same projects and states.
    pub(crate) fn checkout(&self, name: &str) -> Checkout {
        let dir = self.path(format!("checkouts/{name}/repo"));
        copy(&self.repo(), &dir);
        Checkout { dir }
    }

    /// kl in the checkout, in a clean environment.
    pub(crate) fn kl(&self) -> Kl {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::from([
            ("HOME".into(), self.path("home").into()),
            ("TMPDIR".into(), self.path("tmp").into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TF_CLI_CONFIG_FILE".into(), self.path("terraformrc").into()),
        ]);
        env.extend(GO.map(|(name, value)| (name.into(), value.into())));
        // PATH leads to Terraform, KL_TERRAFORM chooses between several.
        for name in ["PATH", "KL_TERRAFORM"] {
            if let Some(value) = std::env::var_os(name) {
                env.insert(name.into(), value);
            }
        }
        if let Some(url) = &self.database_url {
            env.insert("KL_DATABASE_URL".into(), url.into());
        }
        Kl::new(&self.repo(), env, Scrub::of(&self.root))
    }

    /// What kl left in its temporary directory: nothing, if all is well.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("tmp")).expect("the site is ours");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().display().to_string()).collect();
        names.sort();
        names
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for database in embedded(&self.root) {
            let unsound = unsound(database.as_str());
            assert!(unsound.is_empty(), "the test leaves {database} unsound behind:\n{}", unsound.join("\n"));
        }
    }
}

/// The embedded databases below a directory.
fn embedded(dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    for entry in dir.read_dir_utf8().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.ends_with(".kl/kl.db") {
            found.push(path.to_owned());
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".terraform" {
            found.extend(embedded(path));
        }
    }
    found
}

/// Another checkout of a site's repository.
pub(crate) struct Checkout {
    dir: Utf8PathBuf,
}

impl Checkout {
    /// Where it is.
    pub(crate) fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.dir.join(path), text);
    }
}

fn write(path: &Utf8Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file has a directory")).expect("the site is ours");
    fs::write(path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Copies a tree of files, links and directories, without Terraform's own.
pub(crate) fn copy(from: &Utf8Path, to: &Utf8Path) {
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("{to}: {error}"));
    for entry in from.read_dir_utf8().unwrap_or_else(|error| panic!("{from}: {error}")) {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("readable");
        if kind.is_dir() {
            if entry.file_name() != ".terraform" {
                copy(entry.path(), &target);
            }
        } else if kind.is_symlink() {
            let leads_to = entry.path().read_link_utf8().expect("it is a link");
            std::os::unix::fs::symlink(leads_to, &target).unwrap_or_else(|error| panic!("{target}: {error}"));
        } else {
            fs::copy(entry.path(), Path::new(&target)).unwrap_or_else(|error| panic!("{target}: {error}"));
        }
    }
}
