//! Which projects a change concerns, and why.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use super::glob::Globs;

/// A changed file. Paths are relative to the repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Where it is, or was before it was deleted.
    pub path: String,
    /// Where it was before it was renamed.
    pub previous: Option<String>,
}

/// What makes a project one that a change concerns. Paths are relative to the repository.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The root module.
    pub dir: Utf8PathBuf,
    /// Local modules, and what symbolic links lead to.
    pub uses: BTreeSet<Utf8PathBuf>,
    /// Its variable files.
    pub var_files: BTreeSet<Utf8PathBuf>,
    /// Globs of further files, relative to the directory of kl.yaml.
    pub globs: Globs,
}

/// What the projects have in common. Paths are relative to the repository.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The directory of kl.yaml, and what the globs are relative to.
    pub base: Utf8PathBuf,
    /// kl.yaml, when there is one.
    pub config_file: Option<Utf8PathBuf>,
    /// All root modules: what lies in one of them is not part of another around it.
    pub roots: BTreeSet<Utf8PathBuf>,
    /// The variable files of all projects: one that belongs to another project is not part of this one.
    pub var_files: BTreeSet<Utf8PathBuf>,
}

/// Why a file concerns a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It is in the root module's directory.
    Directory,
    /// It is in, or is, something that the root module uses: a local module, or the target of a link.
    Module,
    /// It is a variable file.
    VarFile,
    /// It matches `when_changed`.
    WhenChanged,
    /// It is kl.yaml.
    Configuration,
}

impl Cause {
    /// A word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Module => "module",
            Self::VarFile => "var_file",
            Self::WhenChanged => "when_changed",
            Self::Configuration => "configuration",
        }
    }
}

/// One reason, by the first file that gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// Why.
    pub cause: Cause,
    /// The file, in the order of the changes the first.
    pub file: String,
    /// How many files say the same.
    pub files: usize,
}

/// Why a change concerns a project: each cause once, in a fixed order; none when it does not.
#[must_use]
pub fn reasons(changes: &[Change], project: &Watched, around: &Surroundings) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for change in changes {
        // A renamed file is gone in one place and new in another.
        let mut counted = BTreeSet::new();
        for path in [Some(&change.path), change.previous.as_ref()].into_iter().flatten() {
            let Some(cause) = cause(Utf8Path::new(path), project, around) else { continue };
            match reasons.iter_mut().find(|reason| reason.cause == cause) {
                Some(reason) if counted.insert(cause) => reason.files += 1,
                Some(_) => {}
                None => {
                    counted.insert(cause);
                    reasons.push(Reason { cause, file: path.clone(), files: 1 });
                }
            }
        }
    }
    reasons.sort();
    reasons
}

fn cause(path: &Utf8Path, project: &Watched, around: &Surroundings) -> Option<Cause> {
    if around.config_file.as_deref() == Some(path) {
        return Some(Cause::Configuration);
    }
    let below = path.strip_prefix(&around.base).ok();
    if below.is_some_and(|path| project.globs.excludes(path.as_str())) {
        return None;
    }
    if project.var_files.contains(path) {
        return Some(Cause::VarFile);
    }
    if below.is_some_and(|path| project.globs.matches(path.as_str())) {
        return Some(Cause::WhenChanged);
    }
    if around.var_files.contains(path) && !is_read_by_itself(path) {
        return None;
    }
    for above in path.ancestors() {
        if above == project.dir {
            return Some(Cause::Directory);
        }
        if project.uses.contains(above) {
            return Some(Cause::Module);
        }
        if around.roots.contains(above) {
            return None;
        }
    }
    None
}

/// Whether Terraform reads a variable file without being told.
fn is_read_by_itself(path: &Utf8Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    ["terraform.tfvars", "terraform.tfvars.json"].contains(&name)
        || name.ends_with(".auto.tfvars")
        || name.ends_with(".auto.tfvars.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> BTreeSet<Utf8PathBuf> {
        list.iter().map(Utf8PathBuf::from).collect()
    }

    fn watched(dir: &str) -> Watched {
        Watched { dir: dir.into(), uses: BTreeSet::new(), var_files: BTreeSet::new(), globs: Globs::of(&[]) }
    }

    fn around(roots: &[&str]) -> Surroundings {
        Surroundings { roots: paths(roots), ..Surroundings::default() }
    }

    fn changed(list: &[&str]) -> Vec<Change> {
        list.iter().map(|path| Change { path: (*path).to_owned(), previous: None }).collect()
    }

    fn causes(changes: &[Change], project: &Watched, around: &Surroundings) -> Vec<Cause> {
        reasons(changes, project, around).into_iter().map(|reason| reason.cause).collect()
    }

    #[test]
    fn a_file_in_the_directory_concerns_it_and_one_beside_it_does_not() {
        let (web, around) = (watched("infra/web"), around(&["infra/web", "infra/web2"]));
        for path in ["infra/web/main.tf", "infra/web/templates/x.tpl", "infra/web"] {
            assert_eq!(causes(&changed(&[path]), &web, &around), [Cause::Directory], "{path}");
        }
        for path in ["infra/web2/main.tf", "infra/README.md", "web/main.tf", ""] {
            assert_eq!(causes(&changed(&[path]), &web, &around), [], "{path}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_innermost_root_module() {
        let around = around(&["", "infra", "infra/web"]);
        let concerned = |path: &str| {
            let all = ["", "infra", "infra/web"];
            all.into_iter()
                .filter(|dir| !causes(&changed(&[path]), &watched(dir), &around).is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(concerned("infra/web/a.tf"), ["infra/web"]);
        assert_eq!(concerned("infra/webx/a.tf"), ["infra"]);
        assert_eq!(concerned("main.tf"), [""]);
    }

    #[test]
    fn a_rename_counts_on_both_sides_and_once() {
        let around = around(&["a", "b"]);
        let moved = |to: &str, from: &str| vec![Change { path: to.to_owned(), previous: Some(from.to_owned()) }];
        assert_eq!(causes(&moved("a/x.tf", "b/x.tf"), &watched("a"), &around), [Cause::Directory]);
        assert_eq!(causes(&moved("a/x.tf", "b/x.tf"), &watched("b"), &around), [Cause::Directory]);
        let found = reasons(&moved("a/y.tf", "a/x.tf"), &watched("a"), &around);
        assert_eq!(found, [Reason { cause: Cause::Directory, file: "a/y.tf".into(), files: 1 }]);
    }

    #[test]
    fn modules_and_targets_of_links_concern_whoever_uses_them() {
        let project = Watched { uses: paths(&["modules/net", "shared/common.tf"]), ..watched("web") };
        let around = around(&["web"]);
        let files = changed(&["modules/net/zone/a.tf", "shared/common.tf", "shared/other.tf", "modules/netx/a.tf"]);
        let found = reasons(&files, &project, &around);
        assert_eq!(found, [Reason { cause: Cause::Module, file: "modules/net/zone/a.tf".into(), files: 2 }]);
        // A submodule of the repository changes as if it were one file.
        assert_eq!(causes(&changed(&["modules/net"]), &project, &around), [Cause::Module]);
    }

    #[test]
    fn globs_count_from_kl_yaml_and_may_take_files_out() {
        let globs = Globs::of(&["policies/**".to_owned(), "!**/*.md".to_owned()]);
        let project = Watched { globs, ..watched("team/web") };
        let around =
            Surroundings { base: "team".into(), config_file: Some("team/kl.yaml".into()), ..around(&["team/web"]) };
        assert_eq!(causes(&changed(&["team/policies/a.json"]), &project, &around), [Cause::WhenChanged]);
        assert_eq!(causes(&changed(&["policies/a.json", "team/web/README.md", "kl.yaml"]), &project, &around), []);
        assert_eq!(causes(&changed(&["team/kl.yaml"]), &project, &around), [Cause::Configuration]);
    }

    #[test]
    fn a_variable_file_concerns_only_the_projects_that_name_it() {
        let around = Surroundings {
            var_files: paths(&["live/dev.tfvars", "live/prod.tfvars", "shared.tfvars"]),
            ..around(&["live"])
        };
        let dev = Watched { var_files: paths(&["live/dev.tfvars", "shared.tfvars"]), ..watched("live") };
        let prod = Watched { var_files: paths(&["live/prod.tfvars"]), ..watched("live") };
        assert_eq!(causes(&changed(&["live/dev.tfvars"]), &dev, &around), [Cause::VarFile]);
        assert_eq!(causes(&changed(&["live/dev.tfvars"]), &prod, &around), []);
        assert_eq!(causes(&changed(&["shared.tfvars"]), &dev, &around), [Cause::VarFile]);
        for path in ["live/other.tfvars", "live/terraform.tfvars", "live/x.auto.tfvars.json"] {
            assert_eq!(causes(&changed(&[path]), &prod, &around), [Cause::Directory], "{path}");
        }
    }

    #[test]
    fn every_cause_is_told_once_with_its_first_file() {
        let project = Watched { uses: paths(&["m"]), ..watched("a") };
        let found = reasons(&changed(&["m/1.tf", "a/1.tf", "a/2.tf", "m/2.tf"]), &project, &around(&["a"]));
        assert_eq!(
            found,
            [
                Reason { cause: Cause::Directory, file: "a/1.tf".into(), files: 2 },
                Reason { cause: Cause::Module, file: "m/1.tf".into(), files: 2 },
            ]
        );
    }
}
