//! Which part of the file system a configuration needs around it, and where it stands in the mirror.

use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::error::WorkspaceError;

/// The nearest ancestor of a directory (or itself) with `.git` (a directory, or a file as in worktrees and submodules),
/// else the nearest with `kl.yaml`.
#[must_use]
pub fn repository_root(dir: &Utf8Path) -> Option<Utf8PathBuf> {
    [".git", "kl.yaml"]
        .into_iter()
        .find_map(|marker| dir.ancestors().find(|ancestor| ancestor.join(marker).exists()).map(Utf8Path::to_owned))
}

/// What is mirrored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The directory that the mirror stands for: the smallest one that holds all trees; `/` without a repository.
    pub(super) base: Utf8PathBuf,
    /// Directories that are copied whole; none inside another. Usually one, the repository, which is the base.
    pub(super) trees: Vec<Utf8PathBuf>,
    /// Directories that must be real in the mirror wherever they stand: the root module and local modules.
    pub(super) needed: Vec<Utf8PathBuf>,
}

impl Layout {
    /// Decides what to mirror for a root module and the local modules that it reaches. All paths are absolute and
    /// without symbolic links.
    pub(super) fn of(root_module: &Utf8Path, modules: &[Utf8PathBuf]) -> Self {
        let mut needed = vec![root_module.to_owned()];
        needed.extend_from_slice(modules);
        let found = repository_root(root_module);
        let mut trees: Vec<Utf8PathBuf> = Vec::new();
        match &found {
            Some(root) => trees.push(root.clone()),
            // Without a repository nobody knows how much of the surroundings belongs to the configuration. A common
            // ancestor may be anything, a home directory or `/`: not to be copied. Only what is needed is; the mirror
            // shows the rest through links, so that `file("../certs/x.pem")` still works.
            None => trees.push(root_module.to_owned()),
        }
        for module in modules {
            let tree = found.is_some().then(|| repository_root(module)).flatten();
            trees.push(tree.unwrap_or_else(|| module.clone()));
        }
        trees.sort();
        // In this order, a directory stands right before everything inside it.
        trees.dedup_by(|inner, outer| inner.starts_with(outer));
        let base = match found {
            Some(root) => trees.iter().fold(root, |base, tree| common(&base, tree)),
            None => Utf8PathBuf::from("/"),
        };
        Self { base, trees, needed }
    }

    /// Whether a directory holds, or is, one that must be real in the mirror.
    pub(super) fn leads_to_needed(&self, dir: &Utf8Path) -> bool {
        self.needed.iter().any(|needed| needed.starts_with(dir))
    }

    /// Whether a directory lies between the base and a tree.
    pub(super) fn leads_to_tree(&self, dir: &Utf8Path) -> bool {
        self.trees.iter().any(|tree| tree != dir && tree.starts_with(dir))
    }

    /// Whether a path lies in a tree.
    pub(super) fn is_in_tree(&self, path: &Utf8Path) -> bool {
        self.trees.iter().any(|tree| path.starts_with(tree))
    }
}

/// The longest common ancestor of two absolute paths.
fn common(one: &Utf8Path, other: &Utf8Path) -> Utf8PathBuf {
    one.components().zip(other.components()).take_while(|(a, b)| a == b).map(|(component, _)| component).collect()
}

/// The absolute path without symbolic links.
pub(super) fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf, WorkspaceError> {
    path.canonicalize_utf8().map_err(|source| WorkspaceError::io("find", path, source))
}

/// A path that Rust has and Terraform could not name.
pub(super) fn utf8(path: &Path) -> Result<Utf8PathBuf, WorkspaceError> {
    Utf8PathBuf::from_path_buf(path.to_owned())
        .map_err(|path| WorkspaceError::NotUtf8 { path: path.to_string_lossy().into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(temp: &tempfile::TempDir, dirs: &[&str]) -> Utf8PathBuf {
        let base = canonical(Utf8Path::from_path(temp.path()).unwrap()).unwrap();
        for dir in dirs {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        base
    }

    #[test]
    fn git_wins_over_a_nearer_kl_yaml() {
        let temp = tempfile::tempdir().unwrap();
        let base = make(&temp, &["repo/.git", "repo/infra/prod", "lone/prod"]);
        std::fs::write(base.join("repo/infra/kl.yaml"), "").unwrap();
        std::fs::write(base.join("lone/kl.yaml"), "").unwrap();
        assert_eq!(repository_root(&base.join("repo/infra/prod")), Some(base.join("repo")));
        assert_eq!(repository_root(&base.join("lone/prod")), Some(base.join("lone")));
    }

    #[test]
    fn a_worktree_has_a_git_file() {
        let temp = tempfile::tempdir().unwrap();
        let base = make(&temp, &["tree/prod"]);
        std::fs::write(base.join("tree/.git"), "gitdir: /elsewhere").unwrap();
        assert_eq!(repository_root(&base.join("tree/prod")), Some(base.join("tree")));
    }

    #[test]
    fn modules_inside_the_repository_change_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let base = make(&temp, &["repo/.git", "repo/prod", "repo/modules/x"]);
        let layout = Layout::of(&base.join("repo/prod"), &[base.join("repo/modules/x")]);
        assert_eq!((layout.base, layout.trees), (base.join("repo"), vec![base.join("repo")]));
    }

    #[test]
    fn a_module_in_a_neighbouring_repository_brings_that_repository() {
        let temp = tempfile::tempdir().unwrap();
        let base = make(&temp, &["repo/.git", "repo/prod", "shared/.git", "shared/x"]);
        let layout = Layout::of(&base.join("repo/prod"), &[base.join("shared/x")]);
        assert_eq!((layout.base, layout.trees), (base.clone(), vec![base.join("repo"), base.join("shared")]));
    }

    #[test]
    fn without_a_repository_only_what_is_needed_is_copied() {
        let temp = tempfile::tempdir().unwrap();
        let base = make(&temp, &["a/prod", "a/prod/sub", "b/x", "c"]);
        let modules = [base.join("b/x"), base.join("a/prod/sub")];
        let layout = Layout::of(&base.join("a/prod"), &modules);
        assert_eq!(layout.base, "/");
        assert_eq!(layout.trees, [base.join("a/prod"), base.join("b/x")]);
        assert!(layout.leads_to_tree(&base.join("a")) && !layout.leads_to_tree(&base.join("c")));
        assert!(layout.leads_to_needed(&base.join("a")) && !layout.is_in_tree(&base.join("a")));
    }
}
