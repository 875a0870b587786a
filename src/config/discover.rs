//! Root modules and what they use, found by looking at all configuration files of a repository.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::domain::graph::configuration::{self, ModuleConfig, is_configuration};
use crate::domain::graph::manifest::source_is_local;

/// Following so many symbolic links means going round in circles.
const MAX_LINKS: usize = 40;

/// What matters of a repository's files. All paths are relative to its root, without `.` and `..`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Configuration files with their texts.
    pub files: BTreeMap<Utf8PathBuf, String>,
    /// Symbolic links, and where they lead; only those that stay inside the repository.
    pub links: BTreeMap<Utf8PathBuf, Utf8PathBuf>,
}

/// The modules of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    modules: BTreeMap<Utf8PathBuf, Module>,
    links: BTreeMap<Utf8PathBuf, Utf8PathBuf>,
}

/// One directory with configuration files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Module {
    /// Directories of the local modules that it calls.
    calls: BTreeSet<Utf8PathBuf>,
    /// Whether it declares where its state is kept, or how providers are configured.
    is_marked: bool,
    /// Whether somebody else calls it.
    is_called: bool,
}

impl Modules {
    /// Reads all configuration files. A directory whose files do not parse counts as a module that says nothing: it is
    /// Terraform's to complain about, when it is planned.
    #[must_use]
    pub fn read(listing: &Listing) -> Self {
        let mut dirs: BTreeMap<&Utf8Path, Vec<(String, String)>> = BTreeMap::new();
        for (path, text) in &listing.files {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if is_configuration(name) {
                dirs.entry(dir).or_default().push((name.to_owned(), text.clone()));
            }
        }
        let mut found = Self { modules: BTreeMap::new(), links: listing.links.clone() };
        for (dir, files) in dirs {
            let config = configuration::read(&files).unwrap_or_default();
            found.modules.insert(
                dir.to_owned(),
                Module {
                    calls: found.calls(dir, &config),
                    is_marked: config.has_backend || !config.providers.is_empty(),
                    is_called: false,
                },
            );
        }
        let called: BTreeSet<Utf8PathBuf> = found
            .modules
            .iter()
            .flat_map(|(dir, module)| module.calls.iter().filter(move |called| *called != dir))
            .cloned()
            .collect();
        for (dir, module) in &mut found.modules {
            module.is_called = called.contains(dir);
        }
        found
    }

    /// Directories that are planned and applied by themselves, in the order of their paths: they declare a backend, a
    /// `cloud` block or a provider configuration, or nobody calls them. What stands in a folder `modules` is meant to be
    /// called, be it from another repository.
    #[must_use]
    pub fn roots(&self) -> Vec<&Utf8Path> {
        let is_root = |dir: &Utf8Path, module: &Module| {
            module.is_marked || !(module.is_called || dir.components().any(|part| part.as_str() == "modules"))
        };
        self.modules.iter().filter(|(dir, module)| is_root(dir, module)).map(|(dir, _)| dir.as_path()).collect()
    }

    /// Whether a directory holds configuration files.
    #[must_use]
    pub fn contains(&self, dir: &Utf8Path) -> bool {
        self.modules.contains_key(dir)
    }

    /// What a root module uses beside its own directory: local modules that it reaches, and what symbolic links in any of
    /// these lead to. A path may be a file or a directory.
    #[must_use]
    pub fn used_by(&self, root: &Utf8Path) -> BTreeSet<Utf8PathBuf> {
        let roots: BTreeSet<&Utf8Path> = self.roots().into_iter().collect();
        // What lies in a root module further down is not this one's.
        let is_own = |link: &Utf8Path, dir: &Utf8Path| {
            link.ancestors().take_while(|above| *above != dir).all(|above| !roots.contains(above))
        };
        let mut used = BTreeSet::new();
        let mut queue = vec![root.to_owned()];
        while let Some(dir) = queue.pop() {
            let calls = self.modules.get(&dir).into_iter().flat_map(|module| &module.calls);
            let links = self.links.iter().filter(|(link, _)| link.starts_with(&dir) && is_own(link, &dir));
            let linked = links.map(|(_, target)| target);
            for next in calls.chain(linked) {
                let next = self.resolved(next);
                if next != root && used.insert(next.clone()) {
                    queue.push(next);
                }
            }
        }
        used
    }

    /// The directories of the local modules that a module calls, as far as they are inside the repository.
    fn calls(&self, dir: &Utf8Path, config: &ModuleConfig) -> BTreeSet<Utf8PathBuf> {
        let sources = config.calls.iter().filter_map(|call| call.source.as_deref());
        sources
            .filter(|source| source_is_local(source))
            .filter_map(|source| inside(&dir.join(source.replace('\\', "/"))))
            .map(|path| self.resolved(&path))
            .collect()
    }

    /// A path with the symbolic links on its way followed.
    fn resolved(&self, path: &Utf8Path) -> Utf8PathBuf {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let link = path.ancestors().find_map(|front| Some((front, self.links.get(front)?)));
            let Some((front, target)) = link else { break };
            path = match path.strip_prefix(front) {
                Ok(rest) if !rest.as_str().is_empty() => target.join(rest),
                _ => target.clone(),
            };
        }
        path
    }
}

/// A path of a repository without `.` and `..`; none when it leads out of it.
#[must_use]
pub fn inside(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut whole = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::Normal(name) => whole.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => {
                if !whole.pop() {
                    return None;
                }
            }
            Utf8Component::RootDir | Utf8Component::Prefix(_) => return None,
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &[(&str, &str)]) -> Listing {
        Listing {
            files: files.iter().map(|(path, text)| ((*path).into(), (*text).to_owned())).collect(),
            links: BTreeMap::new(),
        }
    }

    fn roots(files: &[(&str, &str)]) -> Vec<String> {
        Modules::read(&listing(files)).roots().into_iter().map(ToString::to_string).collect()
    }

    fn used(modules: &Modules, root: &str) -> Vec<String> {
        modules.used_by(Utf8Path::new(root)).into_iter().map(String::from).collect()
    }

    const CALL_NET: &str = "module \"net\" {\n  source = \"../../modules/net\"\n}\n";

    #[test]
    fn what_nobody_calls_is_a_root_module() {
        let found = roots(&[
            ("infra/web/main.tf", CALL_NET),
            ("infra/db/main.tofu", ""),
            ("infra/dns/main.tf.json", "{}"),
            ("modules/net/main.tf", "module \"zone\" {\n  source = \"./zone\"\n}\n"),
            ("modules/net/zone/main.tf", ""),
            ("docs/README.md", ""),
        ]);
        assert_eq!(found, ["infra/db", "infra/dns", "infra/web"]);
    }

    #[test]
    fn what_says_where_its_state_is_kept_is_a_root_module_whoever_calls_it() {
        for block in ["terraform {\n  backend \"s3\" {}\n}\n", "terraform {\n  cloud {}\n}\n", "provider \"aws\" {}\n"]
        {
            let found = roots(&[
                ("a/main.tf", "module \"b\" {\n  source = \"../b\"\n}\n"),
                ("b/main.tf", block),
                ("modules/c/main.tf", block),
            ]);
            assert_eq!(found, ["a", "b", "modules/c"], "{block}");
        }
    }

    #[test]
    fn a_module_that_another_repository_calls_is_no_root_module() {
        assert_eq!(roots(&[("modules/net/main.tf", ""), ("modules/net/examples/a/main.tf", "")]), Vec::<String>::new());
        assert_eq!(
            roots(&[("main.tf", ""), ("examples/a/main.tf", "module \"x\" {\n  source = \"../../\"\n}\n")]),
            ["examples/a"]
        );
    }

    #[test]
    fn local_modules_are_followed_wherever_they_lead_in_the_repository() {
        let modules = Modules::read(&listing(&[
            ("infra/web/main.tf", CALL_NET),
            (
                "modules/net/main.tf",
                "module \"zone\" {\n  source = \"./zone\"\n}\nmodule \"far\" {\n  source = \"a/b/c\"\n}\n",
            ),
            (
                "modules/net/zone/main.tf.json",
                r#"{"module":{"loop":{"source":"../"},"out":{"source":"../../../../x"}}}"#,
            ),
        ]));
        assert_eq!(used(&modules, "infra/web"), ["modules/net", "modules/net/zone"]);
    }

    #[test]
    fn what_does_not_parse_is_a_root_module_until_somebody_calls_it() {
        assert_eq!(roots(&[("a/main.tf", "resource {{{")]), ["a"]);
        assert_eq!(
            roots(&[("a/main.tf", "resource {{{"), ("b/main.tf", "module \"a\" {\n  source = \"../a\"\n}\n")]),
            ["b"]
        );
    }

    #[test]
    fn symbolic_links_are_followed_and_circles_are_left() {
        let mut listing = listing(&[
            ("live/web/main.tf", "module \"net\" {\n  source = \"./parts/net\"\n}\n"),
            ("shared/parts/net/main.tf", ""),
        ]);
        listing.links = BTreeMap::from([
            ("live/web/parts".into(), "shared/parts".into()),
            ("live/web/common.tf".into(), "shared/common.tf".into()),
            ("live/web/round".into(), "live/web/trip".into()),
            ("live/web/trip".into(), "live/web/round".into()),
        ]);
        let modules = Modules::read(&listing);
        let used = used(&modules, "live/web");
        for path in ["shared/parts", "shared/common.tf", "shared/parts/net"] {
            assert!(used.iter().any(|used| used == path), "{used:?}");
        }
        assert_eq!(modules.roots(), ["live/web"]);
    }
}
