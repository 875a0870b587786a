//! `kl init`: a commented kl.yaml and the jobs for the forge, after a look at the repository. Changes nothing that exists.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use super::args::init::{ForgeArg, InitArgs};
use super::{Session, git};
use crate::config::discover::{Listing, Modules};
use crate::config::file::{FILE_NAME, WRONG_FILE_NAME};
use crate::config::{projects::Project, walk};
use crate::domain::graph::configuration::is_opentofu;
use crate::domain::request::ForgeKind;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::{bold, dim, good, warn};
use crate::workspace::repository_root;

const KL_YAML: &str = include_str!("init/kl.yaml");
const GITHUB: &str = include_str!("init/github.yml");
const GITLAB: &str = include_str!("init/gitlab.yml");

/// What was found in the repository.
struct Found {
    repository: String,
    roots: Vec<Utf8PathBuf>,
    opentofu: bool,
    branch: String,
}

/// A file to write, unless one of these is there already.
struct Draft {
    path: &'static str,
    instead_of: &'static [&'static str],
    text: String,
}

/// Runs the command.
pub async fn run(session: &Session, args: InitArgs) -> Result<Exit, KlError> {
    let dir = args
        .dir
        .canonicalize_utf8()
        .map_err(|error| KlError::usage(format!("there is no directory {}", args.dir)).because(error))?;
    let root = repository_root(&dir).unwrap_or(dir);
    let listing =
        walk::listing(&root).map_err(|error| KlError::usage(format!("{root} cannot be listed")).because(error))?;
    let branch = git::default_branch(&root, &session.env).await;
    let found = Found::of(&root, &listing, branch);
    let forge = match args.forge {
        Some(ForgeArg::Github) => Some(ForgeKind::Github),
        Some(ForgeArg::Gitlab) => Some(ForgeKind::Gitlab),
        Some(ForgeArg::None) => None,
        None => {
            let remote = git::remote(&root, &session.env).await;
            forge_of(remote.as_deref(), |path| root.join(path).exists())
        }
    };
    let mut next = Vec::new();
    let mut drafts = vec![Draft { path: FILE_NAME, instead_of: &[FILE_NAME, WRONG_FILE_NAME], text: kl_yaml(&found) }];
    match forge {
        Some(ForgeKind::Github) => drafts.push(github(&found, args.source.as_ref(), &mut next)),
        Some(ForgeKind::Gitlab) => {
            let exists = root.join(".gitlab-ci.yml").exists();
            drafts.push(gitlab(args.source.as_ref(), exists, &mut next));
        }
        None if args.forge.is_none() => {
            next.push("no forge was recognised: name it with `kl init --forge github` or `--forge gitlab`".to_owned());
        }
        None => {}
    }
    next.push("`kl doctor` says whether database, terraform and configuration are as they have to be".to_owned());
    let mut text = String::new();
    let mut files = Vec::new();
    for draft in &drafts {
        let (word, line) = settle(&root, draft, args.dry_run)?;
        text.push_str(&line);
        files.push(json!({ "path": draft.path, "result": word, "text": args.dry_run.then_some(&draft.text) }));
    }
    text.push_str("\nNext:\n");
    text.extend(next.iter().map(|line| format!("  {} {line}\n", dim("-"))));
    session.out.result(
        &text,
        || json!({ "forge": forge.map(ForgeKind::word), "projects": found.roots, "files": files, "next": next }),
    );
    Ok(Exit::Done)
}

/// Writes a file, or says why not. Gives a word for programs and a text for people.
fn settle(root: &Utf8Path, draft: &Draft, dry_run: bool) -> Result<(&'static str, String), KlError> {
    // Also a link that leads nowhere is something that exists.
    if let Some(other) = draft.instead_of.iter().find(|other| root.join(other).symlink_metadata().is_ok()) {
        return Ok(("exists", format!("{} {other} exists, and is left as it is\n", warn("!"))));
    }
    if dry_run {
        let lines: String = draft.text.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
        return Ok(("would_write", format!("{} would be written:\n\n{lines}\n", bold(draft.path))));
    }
    let path = root.join(draft.path);
    let write = || {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(draft.text.as_bytes())
    };
    write().map_err(|error| KlError::usage(format!("cannot write {path}")).because(error))?;
    Ok(("written", format!("{} {} written\n", good("✓"), draft.path)))
}

impl Found {
    fn of(root: &Utf8Path, listing: &Listing, branch: Option<String>) -> Self {
        let modules = Modules::read(listing);
        Self {
            repository: root.file_name().unwrap_or("root").to_owned(),
            roots: modules.roots().into_iter().map(Utf8Path::to_owned).collect(),
            opentofu: listing.files.keys().any(|path| path.file_name().is_some_and(is_opentofu)),
            branch: branch.unwrap_or_else(|| "main".to_owned()),
        }
    }
}

/// The forge that a remote's address names, else the one whose files are in the repository.
fn forge_of(remote: Option<&str>, exists: impl Fn(&str) -> bool) -> Option<ForgeKind> {
    let host = remote.map(host).unwrap_or_default();
    let by_host = [("github", ForgeKind::Github), ("gitlab", ForgeKind::Gitlab)];
    if let Some((_, kind)) = by_host.into_iter().find(|(name, _)| host.contains(name)) {
        return Some(kind);
    }
    match (exists(".github"), exists(".gitlab-ci.yml") || exists(".gitlab")) {
        (true, false) => Some(ForgeKind::Github),
        (false, true) => Some(ForgeKind::Gitlab),
        _ => None,
    }
}

/// The host in `https://HOST/…`, `ssh://git@HOST/…` or `git@HOST:…`.
fn host(remote: &str) -> String {
    let rest = remote.split_once("://").map_or(remote, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default().to_lowercase()
}

fn kl_yaml(found: &Found) -> String {
    let program = if found.opentofu { "defaults:\n  terraform: tofu" } else { "defaults:" };
    let projects = if found.roots.is_empty() {
        "# No root module was found. One would be listed like this:\n# projects:\n#   - name: web\n#     dir: infra/web"
            .to_owned()
    } else {
        let names = names(found);
        let listed = found.roots.iter().zip(names).map(|(dir, name)| {
            let dir = if dir.as_str().is_empty() { "." } else { dir.as_str() };
            format!("\n  - name: {}\n    dir: {}", text(&name), text(dir))
        });
        format!("projects:{}", listed.collect::<String>())
    };
    KL_YAML.replace("@DEFAULTS@", program).replace("@PROJECTS@", &projects)
}

/// A short name for each root module: its last folder where that is clear, else its path.
fn names(found: &Found) -> Vec<String> {
    let last = |dir: &Utf8PathBuf| dir.file_name().unwrap_or(&found.repository).to_owned();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for dir in &found.roots {
        *counts.entry(last(dir)).or_default() += 1;
    }
    let full = |dir: &Utf8PathBuf| Project::default_name(dir, &found.repository);
    found.roots.iter().map(|dir| if counts[&last(dir)] == 1 { last(dir) } else { full(dir) }).collect()
}

/// A text as YAML takes it: bare where nothing else could be meant, else in quotes.
fn text(value: &str) -> String {
    let bare = value == "."
        || (value.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/".contains(letter))
            && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&value.to_lowercase().as_str()));
    if bare { value.to_owned() } else { json!(value).to_string() }
}

fn github(found: &Found, source: Option<&(String, String)>, next: &mut Vec<String>) -> Draft {
    let setup = if found.opentofu {
        "      - uses: opentofu/setup-opentofu@v1\n        with:\n          tofu_wrapper: false"
    } else {
        "      - uses: hashicorp/setup-terraform@5e8dbf3c6d9deaf4193ca7a8fb23f2ac83bb6c85 # v4.0.0\n        with:\n          \
         terraform_wrapper: false"
    };
    let action = if let Some((place, reference)) = source {
        format!("{place}@{reference}")
    } else {
        next.push("put the repository of kl's action in the place of example/kl, or give --source".to_owned());
        format!("example/kl@v{}", env!("CARGO_PKG_VERSION"))
    };
    next.push(format!(
        "make the secrets KL_PLAN_DATABASE_URL and, in an environment kl-apply that only {} may use, KL_DATABASE_URL",
        found.branch
    ));
    Draft {
        path: ".github/workflows/kl.yml",
        instead_of: &[".github/workflows/kl.yml", ".github/workflows/kl.yaml"],
        text: GITHUB.replace("@SETUP@", setup).replace("@SOURCE@", &action).replace("@BRANCH@", &text(&found.branch)),
    }
}

fn gitlab(source: Option<&(String, String)>, has_pipeline: bool, next: &mut Vec<String>) -> Draft {
    let (project, reference) = source.cloned().unwrap_or_else(|| {
        next.push("put the project of kl's template in the place of example/kl, or give --source".to_owned());
        ("example/kl".to_owned(), format!("v{}", env!("CARGO_PKG_VERSION")))
    });
    next.push("set the variable KL_DATABASE_URL, once for plans and once, protected, for applies".to_owned());
    let text = GITLAB.replace("@PROJECT@", &text(&project)).replace("@REF@", &text(&reference));
    if !has_pipeline {
        return Draft { path: ".gitlab-ci.yml", instead_of: &[".gitlab-ci.yml"], text };
    }
    next.push("add to .gitlab-ci.yml: `include: [{ local: .gitlab/kl.yml }]`".to_owned());
    Draft { path: ".gitlab/kl.yml", instead_of: &[".gitlab/kl.yml"], text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::ConfigFile;

    fn found(roots: &[&str]) -> Found {
        Found {
            repository: "shop".into(),
            roots: roots.iter().map(Utf8PathBuf::from).collect(),
            opentofu: false,
            branch: "main".into(),
        }
    }

    #[test]
    fn the_forge_is_known_by_its_remote_and_else_by_its_files() {
        let nothing = |_: &str| false;
        for (remote, kind) in [
            ("git@github.com:example/shop.git", Some(ForgeKind::Github)),
            ("https://alice:token@gitlab.example.org/shop.git", Some(ForgeKind::Gitlab)),
            ("ssh://git@github.example.org:2222/shop", Some(ForgeKind::Github)),
            ("https://git.example.org/github/shop", None),
            ("/srv/git/gitlab", None),
        ] {
            assert_eq!(forge_of(Some(remote), nothing), kind, "{remote}");
        }
        assert_eq!(forge_of(None, |path| path == ".github"), Some(ForgeKind::Github));
        assert_eq!(forge_of(None, |path| path == ".gitlab-ci.yml"), Some(ForgeKind::Gitlab));
        assert_eq!(forge_of(None, |_| true), None);
    }

    #[test]
    fn whatever_directories_are_called_the_file_is_one_that_kl_reads() {
        let roots = ["", "a/web", "b/web", "infra/db", "x y", "yes", "1.10", "it's \"odd\"", "#hash", "- dash", "ü"];
        let text = kl_yaml(&found(&roots));
        let config =
            ConfigFile::read(Utf8Path::new("kl.yaml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let listed: Vec<(&str, &str)> =
            config.projects.iter().map(|project| (project.name.as_str(), project.dir.as_str())).collect();
        assert_eq!(listed[..4], [("shop", "."), ("a/web", "a/web"), ("b/web", "b/web"), ("db", "infra/db")]);
        assert_eq!(listed.iter().skip(4).map(|(_, dir)| *dir).collect::<Vec<_>>(), roots[4..]);
        assert!(ConfigFile::read(Utf8Path::new("kl.yaml"), &kl_yaml(&found(&[]))).is_ok());
    }

    #[test]
    fn the_forges_files_are_yaml_without_a_gap() {
        let source = ("acme/kl".to_owned(), "v1".to_owned());
        let mut odd = found(&[]);
        odd.branch = "rel/[1]: x".into();
        odd.opentofu = true;
        for draft in [
            github(&found(&[]), None, &mut Vec::new()),
            github(&odd, Some(&source), &mut Vec::new()),
            gitlab(Some(&source), false, &mut Vec::new()),
            gitlab(None, true, &mut Vec::new()),
        ] {
            assert!(!draft.text.contains('@') || !draft.text.contains("@B"), "{}", draft.text);
            let gap =
                ["@SETUP@", "@SOURCE@", "@BRANCH@", "@PROJECT@", "@REF@"].iter().find(|gap| draft.text.contains(**gap));
            assert_eq!(gap, None);
            serde_yaml::from_str::<serde_yaml::Value>(&draft.text)
                .unwrap_or_else(|error| panic!("{error}\n{}", draft.text));
        }
    }
}
