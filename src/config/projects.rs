//! Projects with everything that holds for them: their own settings in front of the defaults.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use super::file::{ConfigFile, ProjectEntry};
use super::order;
use super::policy::Policies;
use crate::domain::id::{StateName, StateNameError};

/// A root module with a workspace, and what is configured for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its name in kl.yaml; none when it is not listed there.
    pub name: Option<String>,
    /// The root module relative to kl.yaml, without `.` steps; empty where kl.yaml is.
    pub dir: Utf8PathBuf,
    /// The Terraform workspace, when one is named.
    pub workspace: Option<String>,
    /// The state, when one is named.
    pub state: Option<StateName>,
    /// Variable files, relative to the root module.
    pub var_files: Vec<String>,
    /// Input variable → environment variable.
    pub vars: BTreeMap<String, String>,
    /// The program, when one is named.
    pub terraform: Option<String>,
    /// Globs of further files whose change counts.
    pub when_changed: Vec<String>,
    /// Names of the projects that come first.
    pub depends_on: Vec<String>,
    /// The deployment environment of the forge.
    pub environment: Option<String>,
    /// What is allowed.
    pub policies: Policies,
}

impl ConfigFile {
    /// All listed projects, in the order of the file.
    #[must_use]
    pub fn all_projects(&self) -> Vec<Project> {
        self.projects.iter().map(|entry| self.resolved(entry)).collect()
    }

    /// All listed projects, each after those that it depends on.
    #[must_use]
    pub fn projects_in_order(&self) -> Vec<Project> {
        let projects = self.all_projects();
        let before: Vec<BTreeSet<usize>> = projects
            .iter()
            .map(|project| {
                let place = |name: &String| projects.iter().position(|other| other.name.as_ref() == Some(name));
                project.depends_on.iter().filter_map(place).collect()
            })
            .collect();
        // A file with a circle is not read at all; if it were, its own order would do.
        let order = order::sorted(&before).unwrap_or_else(|_| (0..projects.len()).collect());
        order.into_iter().map(|index| projects[index].clone()).collect()
    }

    /// What holds for a directory (relative to the file) and workspace: a listed project, or the defaults.
    #[must_use]
    pub fn project(&self, dir: &Utf8Path, workspace: Option<&str>) -> Project {
        match self.entry(dir, workspace) {
            Some(entry) => self.resolved(entry),
            None => self.unlisted(dir),
        }
    }

    /// What holds for a root module that is not listed.
    #[must_use]
    pub fn unlisted(&self, dir: &Utf8Path) -> Project {
        let defaults = self.defaults.clone();
        Project {
            name: None,
            dir: normal(dir),
            workspace: defaults.workspace,
            state: None,
            var_files: defaults.var_files,
            vars: defaults.vars,
            terraform: defaults.terraform,
            when_changed: defaults.when_changed,
            depends_on: Vec::new(),
            environment: defaults.environment,
            policies: Policies::default().with(&self.policies),
        }
    }

    /// The listed project of a directory and workspace.
    fn entry(&self, dir: &Utf8Path, workspace: Option<&str>) -> Option<&ProjectEntry> {
        let same_dir = |project: &&ProjectEntry| normal(&project.dir) == normal(dir);
        let candidates: Vec<&ProjectEntry> = self.projects.iter().filter(same_dir).collect();
        let default = self.defaults.workspace.as_deref().unwrap_or("default");
        let exact = candidates
            .iter()
            .find(|project| project.workspace.as_deref().unwrap_or(default) == workspace.unwrap_or(default));
        match (exact, workspace, candidates.as_slice()) {
            (Some(project), _, _) => Some(project),
            // Without a word about the workspace, a directory's only project is the one that is meant.
            (None, None, [only]) => Some(only),
            _ => None,
        }
    }

    fn resolved(&self, entry: &ProjectEntry) -> Project {
        let base = self.unlisted(&entry.dir);
        let mut vars = base.vars;
        vars.extend(entry.vars.clone());
        Project {
            name: Some(entry.name.clone()),
            dir: base.dir,
            workspace: entry.workspace.clone().or(base.workspace),
            state: entry.state.clone(),
            var_files: entry.var_files.clone().unwrap_or(base.var_files),
            vars,
            terraform: entry.terraform.clone().or(base.terraform),
            when_changed: entry.when_changed.clone().unwrap_or(base.when_changed),
            depends_on: entry.depends_on.clone(),
            environment: entry.environment.clone().or(base.environment),
            policies: base.policies.with(&entry.policies),
        }
    }
}

impl Project {
    /// What a root module is called without a word in kl.yaml: after its path in the repository; a repository that is one
    /// root module is called after itself.
    #[must_use]
    pub fn default_name(dir: &Utf8Path, repository: &str) -> String {
        if dir.as_str().is_empty() { repository.to_owned() } else { dir.to_string() }
    }

    /// The state: the configured one, else after the root module's path in the repository, with the workspace.
    ///
    /// # Errors
    /// When the path cannot name a state.
    pub fn state_name(
        &self,
        dir: &Utf8Path,
        repository: &str,
        workspace: Option<&str>,
    ) -> Result<StateName, StateNameError> {
        if let Some(state) = &self.state {
            return Ok(state.clone());
        }
        let name = Self::default_name(dir, repository);
        match workspace.or(self.workspace.as_deref()) {
            None | Some("default") => StateName::new(name),
            Some(workspace) => StateName::new(format!("{name}:{workspace}")),
        }
    }
}

/// A path without `.` steps and trailing slashes.
#[must_use]
pub(super) fn normal(path: &Utf8Path) -> Utf8PathBuf {
    path.components().filter(|part| part.as_str() != ".").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ConfigFile {
        ConfigFile::read(Utf8Path::new("kl.yaml"), text).unwrap()
    }

    #[test]
    fn a_project_is_found_by_directory_and_workspace() {
        let config = read(
            "projects:\n  - {name: a, dir: ./infra/web, state: web}\n  - {name: b, dir: infra/web, workspace: dev}\n",
        );
        let name = |workspace| config.project(Utf8Path::new("infra/web/"), workspace).name;
        assert_eq!(name(None).as_deref(), Some("a"));
        assert_eq!(name(Some("dev")).as_deref(), Some("b"));
        assert_eq!(name(Some("prod")), None);
    }

    #[test]
    fn a_root_module_that_is_not_listed_has_the_defaults() {
        let config = read("defaults: {terraform: tofu, vars: {a: B}}\npolicies: {show_values: true}\n");
        let found = config.project(Utf8Path::new("x"), None);
        assert_eq!((found.name, found.terraform.as_deref(), found.vars.len()), (None, Some("tofu"), 1));
        assert!(found.policies.show_values);
    }

    #[test]
    fn projects_come_after_what_they_depend_on() {
        let config =
            read("projects:\n- {name: web, dir: w, depends_on: [net]}\n- {name: dns, dir: d}\n- {name: net, dir: n}\n");
        let names: Vec<_> = config.projects_in_order().into_iter().filter_map(|project| project.name).collect();
        assert_eq!(names, ["dns", "net", "web"]);
    }
}
