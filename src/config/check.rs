//! Whether a configuration makes sense as a whole: names, places, dependencies, globs.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Component, Utf8Path};

use super::decode::Wrong;
use super::file::ConfigFile;
use super::glob::Globs;
use super::order;
use super::projects::normal;
use super::yaml::Step;

/// The way to a key of a project.
fn of_project(index: usize, key: &str) -> Vec<Step> {
    vec![Step::Key("projects".into()), Step::Entry(index), Step::Key(key.into())]
}

/// Checks everything that can be seen from the file alone.
pub(super) fn whole(config: &ConfigFile) -> Result<(), Wrong> {
    names(config)?;
    places(config)?;
    dependencies(config)?;
    let defaults = |key: &str| vec![Step::Key("defaults".into()), Step::Key(key.into())];
    globs(&config.defaults.when_changed, &defaults("when_changed"))?;
    variables(&config.defaults.vars, &defaults("vars"))?;
    for (index, project) in config.projects.iter().enumerate() {
        globs(project.when_changed.as_deref().unwrap_or_default(), &of_project(index, "when_changed"))?;
        variables(&project.vars, &of_project(index, "vars"))?;
    }
    Ok(())
}

/// Checks that the projects' directories exist.
pub(super) fn dirs(config: &ConfigFile, exists: impl Fn(&Utf8Path) -> bool) -> Result<(), Wrong> {
    let missing = config.projects.iter().enumerate().find(|(_, project)| !exists(&project.dir));
    missing.map_or(Ok(()), |(index, project)| {
        let message = format!("there is no directory `{}` (counted from kl.yaml)", project.dir);
        Err(Wrong::at(of_project(index, "dir"), message))
    })
}

fn names(config: &ConfigFile) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for (index, project) in config.projects.iter().enumerate() {
        let name = project.name.as_str();
        let place = || of_project(index, "name");
        if name.trim() != name || name.is_empty() || name.chars().any(char::is_control) {
            return Err(Wrong::at(place(), "a name is not empty, has no control characters, and no space at its ends"));
        }
        if !seen.insert(name) {
            return Err(Wrong::at(place(), format!("two projects are called `{name}`")));
        }
    }
    Ok(())
}

fn places(config: &ConfigFile) -> Result<(), Wrong> {
    let mut seen = BTreeMap::new();
    let mut states = BTreeMap::new();
    for (index, project) in config.projects.iter().enumerate() {
        let goes_up = project.dir.components().any(|part| part == Utf8Component::ParentDir);
        if project.dir.is_absolute() || goes_up || project.dir.as_str().is_empty() {
            let message = "a project is in the directory of kl.yaml or below it: write a path like `infra/web`, or `.`";
            return Err(Wrong::at(of_project(index, "dir"), message));
        }
        let workspace = project.workspace.as_deref().or(config.defaults.workspace.as_deref()).unwrap_or("default");
        if let Some(other) = seen.insert((normal(&project.dir), workspace), &project.name) {
            let message = format!(
                "the projects `{other}` and `{}` are in the same directory with the same workspace",
                project.name
            );
            return Err(Wrong::at(of_project(index, "dir"), message));
        }
        if let Some(state) = &project.state
            && let Some(other) = states.insert(state, &project.name)
        {
            let message = format!("the projects `{other}` and `{}` have the same state", project.name);
            return Err(Wrong::at(of_project(index, "state"), message));
        }
    }
    Ok(())
}

fn dependencies(config: &ConfigFile) -> Result<(), Wrong> {
    let names: BTreeMap<&str, usize> =
        config.projects.iter().enumerate().map(|(index, project)| (project.name.as_str(), index)).collect();
    let mut graph = Vec::new();
    for (index, project) in config.projects.iter().enumerate() {
        let mut before = BTreeSet::new();
        for (at, name) in project.depends_on.iter().enumerate() {
            let Some(found) = names.get(name.as_str()) else {
                let mut path = of_project(index, "depends_on");
                path.push(Step::Entry(at));
                return Err(Wrong::at(path, format!("there is no project `{name}`")));
            };
            before.insert(*found);
        }
        graph.push(before);
    }
    order::sorted(&graph).map(|_| ()).map_err(|cycle| {
        let name = |index: &usize| format!("`{}`", config.projects[*index].name);
        let mut way: Vec<String> = cycle.iter().map(name).collect();
        way.extend(cycle.first().map(name));
        let message = format!("projects wait for each other: {}", way.join(" needs "));
        Wrong::at(of_project(cycle.first().copied().unwrap_or_default(), "depends_on"), message)
    })
}

fn globs(globs: &[String], path: &[Step]) -> Result<(), Wrong> {
    for (index, glob) in globs.iter().enumerate() {
        if let Err(message) = Globs::check(glob) {
            let path = path.iter().cloned().chain([Step::Entry(index)]).collect();
            return Err(Wrong::at(path, message));
        }
    }
    Ok(())
}

fn variables(vars: &BTreeMap<String, String>, path: &[Step]) -> Result<(), Wrong> {
    for (name, source) in vars {
        let path = || path.iter().cloned().chain([Step::Key(name.clone())]).collect();
        let fits = |text: &str, more: &[char]| {
            text.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || more.contains(&letter))
                && !text.starts_with(|letter: char| letter.is_ascii_digit())
                && !text.is_empty()
        };
        if !fits(name, &['-']) {
            return Err(Wrong::at(path(), "this is not the name of an input variable"));
        }
        if !(source.is_ascii() && fits(source, &[])) {
            return Err(Wrong::at(
                path(),
                format!("{source:?} is not the name of an environment variable, as `DEPLOY_REGION`"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        ConfigFile::read(Utf8Path::new("kl.yaml"), text).unwrap_err().to_string()
    }

    #[test]
    fn projects_that_cannot_be_told_apart_are_refused() {
        for (text, message) in [
            (
                "projects:\n  - {name: a, dir: x}\n  - {name: a, dir: y}\n",
                "kl.yaml:3:12: `name`: two projects are called `a`",
            ),
            (
                "projects:\n  - {name: a, dir: x}\n  - {name: b, dir: ./x/, workspace: default}\n",
                "kl.yaml:3:20: `dir`: the projects `a` and `b` are in the same directory with the same workspace",
            ),
            (
                "projects:\n  - {name: a, dir: x, state: s}\n  - {name: b, dir: y, state: s}\n",
                "kl.yaml:3:30: `state`: the projects `a` and `b` have the same state",
            ),
            (
                "projects: [{name: '', dir: x}]\n",
                "kl.yaml:1:19: `name`: a name is not empty, has no control characters, and no space at its ends",
            ),
        ] {
            assert_eq!(refusal(text), message);
        }
    }

    #[test]
    fn a_project_stays_below_the_file() {
        for dir in ["../x", "/x", "a/../../x", "''"] {
            let message = refusal(&format!("projects: [{{name: a, dir: {dir}}}]\n"));
            assert!(message.starts_with("kl.yaml:1:27: `dir`: a project is in the directory of kl.yaml"), "{message}");
        }
    }

    #[test]
    fn dependencies_name_projects_and_do_not_run_in_circles() {
        assert_eq!(
            refusal("projects:\n  - {name: a, dir: x, depends_on: [a2]}\n"),
            "kl.yaml:2:36: an entry of `depends_on`: there is no project `a2`"
        );
        assert_eq!(
            refusal(
                "projects:\n  - {name: a, dir: x, depends_on: [c]}\n  - {name: b, dir: y, depends_on: [a]}\n  \
                 - {name: c, dir: z, depends_on: [b]}\n  - {name: d, dir: w, depends_on: [a]}\n"
            ),
            "kl.yaml:2:35: `depends_on`: projects wait for each other: `a` needs `c` needs `b` needs `a`"
        );
        assert!(refusal("projects: [{name: a, dir: x, depends_on: [a]}]\n").contains("`a` needs `a`"));
    }

    #[test]
    fn globs_and_variables_are_looked_at() {
        assert_eq!(
            refusal("defaults:\n  when_changed: ['ok/**', '[']\n"),
            "kl.yaml:2:27: an entry of `when_changed`: the glob `[` cannot be used: unclosed character class; missing ']'"
        );
        assert_eq!(
            refusal("defaults:\n  vars: {region: 'A B'}\n"),
            "kl.yaml:2:18: `region`: \"A B\" is not the name of an environment variable, as `DEPLOY_REGION`"
        );
        assert!(refusal("defaults:\n  vars: {'9x': A}\n").contains("not the name of an input variable"));
    }
}
