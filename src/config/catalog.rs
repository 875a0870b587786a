//! The projects of a repository, listed or found, with what concerns each of them.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use super::affected::{Change, Reason, Surroundings, Watched, reasons};
use super::discover::{Modules, inside};
use super::file::{ConfigFile, FILE_NAME};
use super::glob::Globs;
use super::projects::Project;
use crate::domain::id::{StateName, StateNameError};

/// All projects of a repository, each after those that it depends on.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The projects.
    pub projects: Vec<Listed>,
    around: Surroundings,
}

/// A project of the catalog.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name: from kl.yaml, else after its path in the repository.
    pub name: String,
    /// The root module, relative to the repository; empty at its root.
    pub dir: Utf8PathBuf,
    /// The Terraform workspace.
    pub workspace: String,
    /// Its state.
    pub state: StateName,
    /// What is configured for it.
    pub settings: Project,
    /// What makes a change one of this project.
    pub watched: Watched,
}

impl Listed {
    /// The root module as people name it: `.` at the root of the repository.
    #[must_use]
    pub fn shown_dir(&self) -> &str {
        if self.dir.as_str().is_empty() { "." } else { self.dir.as_str() }
    }
}

impl Catalog {
    /// Brings the configuration and the modules of a repository together. `base` is where kl.yaml is, relative to the
    /// repository, when there is one; `repository` is what the repository is called.
    ///
    /// # Errors
    /// When a project without a configured state lies in a directory whose path cannot name one.
    pub fn of(
        config: &ConfigFile,
        base: Option<&Utf8Path>,
        modules: &Modules,
        repository: &str,
    ) -> Result<Self, StateNameError> {
        let at = base.unwrap_or(Utf8Path::new(""));
        let settings = if config.projects.is_empty() {
            let roots = modules.roots();
            roots.into_iter().filter_map(|root| root.strip_prefix(at).ok()).map(|dir| config.unlisted(dir)).collect()
        } else {
            config.projects_in_order()
        };
        let mut projects = Vec::new();
        for settings in settings {
            let dir = joined(at, &settings.dir);
            let var_files = settings.var_files.iter().filter_map(|file| inside(&dir.join(file))).collect();
            projects.push(Listed {
                name: settings.name.clone().unwrap_or_else(|| Project::default_name(&dir, repository)),
                workspace: settings.workspace.clone().unwrap_or_else(|| "default".to_owned()),
                state: settings.state_name(&dir, repository, None)?,
                watched: Watched {
                    dir: dir.clone(),
                    uses: modules.used_by(&dir),
                    var_files,
                    globs: Globs::of(&settings.when_changed),
                },
                dir,
                settings,
            });
        }
        let roots = modules.roots().into_iter().map(Utf8Path::to_owned);
        let around = Surroundings {
            base: at.to_owned(),
            config_file: base.map(|base| joined(base, Utf8Path::new(FILE_NAME))),
            roots: roots.chain(projects.iter().map(|project| project.dir.clone())).collect(),
            var_files: projects.iter().flat_map(|project| project.watched.var_files.iter().cloned()).collect(),
        };
        Ok(Self { projects, around })
    }

    /// The project of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Listed> {
        self.projects.iter().find(|project| project.name == name)
    }

    /// The projects that a change concerns, in order, and why.
    #[must_use]
    pub fn affected(&self, changes: &[Change]) -> Vec<(&Listed, Vec<Reason>)> {
        let concerned = self.projects.iter().map(|project| (project, reasons(changes, &project.watched, &self.around)));
        concerned.filter(|(_, reasons)| !reasons.is_empty()).collect()
    }

    /// The names of the projects that come directly before one, as far as they are among `chosen`.
    #[must_use]
    pub fn needed_by<'a>(&self, project: &'a Listed, chosen: &BTreeSet<&str>) -> Vec<&'a str> {
        let needed = project.settings.depends_on.iter().map(String::as_str);
        needed.filter(|name| chosen.contains(name)).collect()
    }
}

/// A path below another, without a trailing slash when it is empty.
fn joined(base: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    base.components().chain(path.components()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::discover::Listing;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let files = files.iter().map(|(path, text)| ((*path).into(), (*text).to_owned())).collect();
        Modules::read(&Listing { files, links: BTreeMap::new() })
    }

    fn config(text: &str) -> ConfigFile {
        ConfigFile::read(Utf8Path::new("kl.yaml"), text).unwrap()
    }

    fn names(catalog: &Catalog, changed: &[&str]) -> Vec<String> {
        let changes: Vec<Change> =
            changed.iter().map(|path| Change { path: (*path).to_owned(), previous: None }).collect();
        catalog.affected(&changes).into_iter().map(|(project, _)| project.name.clone()).collect()
    }

    const WEB: &str = "module \"net\" {\n  source = \"../../modules/net\"\n}\n";

    #[test]
    fn without_projects_root_modules_are_found_and_called_after_their_paths() {
        let modules = modules(&[("infra/web/main.tf", WEB), ("modules/net/main.tf", ""), ("main.tf", "")]);
        let catalog = Catalog::of(&ConfigFile::default(), None, &modules, "shop").unwrap();
        let listed: Vec<_> =
            catalog.projects.iter().map(|p| (p.name.as_str(), p.shown_dir(), p.state.as_str())).collect();
        assert_eq!(listed, [("shop", ".", "shop"), ("infra/web", "infra/web", "infra/web")]);
        assert_eq!(names(&catalog, &["modules/net/main.tf"]), ["shop", "infra/web"]);
        assert_eq!(names(&catalog, &["infra/web/main.tf"]), ["infra/web"]);
        assert_eq!(names(&catalog, &["infra/web/x.tf", "README.md"]), ["shop", "infra/web"]);
    }

    #[test]
    fn listed_projects_come_in_order_and_only_they() {
        let modules = modules(&[
            ("team/infra/web/main.tf", WEB),
            ("team/modules/net/main.tf", ""),
            ("team/db/main.tf", ""),
            ("x/main.tf", ""),
        ]);
        let config = config(
            "projects:\n- {name: web, dir: infra/web, workspace: dev, depends_on: [db]}\n- {name: db, dir: db, state: d}\n",
        );
        let catalog = Catalog::of(&config, Some(Utf8Path::new("team")), &modules, "shop").unwrap();
        let listed: Vec<_> =
            catalog.projects.iter().map(|p| (p.name.as_str(), p.dir.as_str(), p.state.as_str())).collect();
        assert_eq!(listed, [("db", "team/db", "d"), ("web", "team/infra/web", "team/infra/web:dev")]);
        assert_eq!(names(&catalog, &["team/kl.yaml"]), ["db", "web"]);
        assert_eq!(names(&catalog, &["team/modules/net/main.tf"]), ["web"]);
        assert_eq!(names(&catalog, &["x/main.tf", "kl.yaml"]), Vec::<String>::new());
    }
}
