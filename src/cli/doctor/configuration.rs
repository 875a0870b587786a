//! Whether the configuration says what can be done: kl.yaml, the projects, their files and variables.

use super::Check;
use crate::cli::env::EnvSnapshot;
use crate::cli::project::Place;
use crate::config::catalog::{Catalog, Listed};
use crate::config::file::FILE_NAME;
use crate::domain::graph::configuration::{self, is_configuration};
use crate::error::KlError;
use crate::report::style::count;

const SUBJECT: &str = "configuration";

/// Looks at the configuration.
pub(super) fn checks(
    place: &Result<Place, KlError>,
    catalog: Option<&Result<Catalog, KlError>>,
    env: &EnvSnapshot,
    ci: bool,
) -> Vec<Check> {
    let place = match place {
        Ok(place) => place,
        Err(error) => return vec![Check::failed(SUBJECT, error)],
    };
    let catalog = match catalog {
        Some(Ok(catalog)) => catalog,
        Some(Err(error)) => return vec![Check::failed(SUBJECT, error)],
        None => return Vec::new(),
    };
    let projects = count(catalog.projects.len(), "project");
    let mut checks = vec![match (&place.config_dir, catalog.projects.is_empty()) {
        (_, true) => Check::warning(
            SUBJECT,
            "there is no project: no root module was found, and kl.yaml lists none",
            "is this the right repository? `kl init` writes a kl.yaml",
        ),
        (Some(dir), false) => Check::ok(SUBJECT, format!("{}, {projects}", dir.join(FILE_NAME))),
        (None, false) => Check::ok(SUBJECT, format!("no {FILE_NAME}; {projects} found by looking for root modules")),
    }];
    for project in &catalog.projects {
        checks.extend(of_project(place, project, env, ci));
    }
    checks
}

/// What is wrong with a project.
fn of_project(place: &Place, project: &Listed, env: &EnvSnapshot, ci: bool) -> Vec<Check> {
    let (name, dir) = (&project.name, place.root.join(&project.dir));
    let mut checks = Vec::new();
    let mut files: Vec<(String, String)> = Vec::new();
    for entry in dir.read_dir_utf8().into_iter().flatten().flatten() {
        if is_configuration(entry.file_name())
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            files.push((entry.file_name().to_owned(), text));
        }
    }
    files.sort();
    match configuration::read(&files) {
        _ if files.is_empty() => checks.push(Check::problem(
            SUBJECT,
            format!("project {name}: {} has no .tf file", project.shown_dir()),
            format!("change `dir` in {FILE_NAME}"),
        )),
        Err(error) => checks.push(Check::problem(
            SUBJECT,
            format!("project {name}: {}/{error}", project.shown_dir()),
            "mend the file",
        )),
        Ok(module) => {
            // What needs no provider from elsewhere needs no lock file.
            let foreign = module.resources.iter().any(|resource| !resource.type_name.starts_with("terraform_"));
            if foreign && !dir.join(".terraform.lock.hcl").is_file() {
                checks.push(Check::warning(
                    SUBJECT,
                    format!(
                        "project {name}: there is no .terraform.lock.hcl, so that each job may choose other providers"
                    ),
                    format!("run `terraform init` in {} and commit the file", project.shown_dir()),
                ));
            }
        }
    }
    for file in project.settings.var_files.iter().filter(|file| !dir.join(file).is_file()) {
        checks.push(Check::problem(
            SUBJECT,
            format!("project {name}: there is no variable file {file} in {}", project.shown_dir()),
            "variable files are named relative to the root module",
        ));
    }
    for (variable, source) in project.settings.vars.iter().filter(|(_, source)| env.named(source).is_none()) {
        let what =
            format!("project {name}: {source}, which the variable {variable} comes from, is not set or is empty");
        checks.push(if ci {
            Check::problem(SUBJECT, what, "set it for the job, or change `vars`")
        } else {
            Check::warning(SUBJECT, what, "set it before you plan this project here")
        });
    }
    checks
}
