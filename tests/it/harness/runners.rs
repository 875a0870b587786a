//! The programs that run what users put into their repositories, act for GitHub's workflows and gitlab-ci-local for
//! GitLab's pipelines, and a place on loopback from which kl can be installed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest as _, Sha256};

use super::kl::Kl;
use super::providers::fixtures;
use super::site::Site;

/// Where tests/ci/fetch.sh put its programs.
fn tools() -> Utf8PathBuf {
    match std::env::var("KL_TEST_CI_TOOLS") {
        Ok(path) if !path.is_empty() => path.into(),
        _ => fixtures().join("ci"),
    }
}

/// A program from there. Without it, the test says why it does not run; in CI that is a failure.
fn tool(path: &str) -> Option<Utf8PathBuf> {
    let program = tools().join(path);
    if program.is_file() {
        return Some(program);
    }
    let why = why_unavailable();
    let name = program.file_name().unwrap_or_default();
    let said = format!("NOT RUN without {name}: {why}; `tests/run.sh` fetches it");
    assert!(!super::in_ci(), "{said}, and CI leaves nothing out");
    #[expect(clippy::print_stderr, reason = "what is left out must be seen")]
    {
        eprintln!("{said}");
    }
    None
}

/// Why something that tests/ci/fetch.sh fetches is not there.
pub(crate) fn why_unavailable() -> String {
    let why = fs::read_to_string(tools().join("unavailable")).unwrap_or_default();
    if why.is_empty() { "it was not fetched yet".to_owned() } else { why.trim().to_owned() }
}

/// The runner of GitHub's workflows.
pub(crate) fn act() -> Option<Utf8PathBuf> {
    tool("venv/bin/act")
}

/// The runner of GitLab's pipelines.
pub(crate) fn gitlab_ci_local() -> Option<Utf8PathBuf> {
    tool("node_modules/.bin/gitlab-ci-local")
}

/// A file of this repository.
pub(crate) fn source(path: &str) -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of an example.
pub(crate) fn example(path: &str) -> String {
    fs::read_to_string(source(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The YAML block of README.md whose first line is this.
pub(crate) fn of_the_readme(first: &str) -> String {
    let readme = fs::read_to_string(source("README.md")).expect("it is in the repository");
    let mut blocks = readme.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let block = blocks.find(|(block, _)| block.lines().next() == Some(first));
    block.unwrap_or_else(|| panic!("README.md has no block that begins with {first:?}")).0.to_owned()
}

/// Runs git in a checkout, and gives what it prints.
pub(crate) fn git(dir: &Utf8Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=alice", "-c", "user.email=alice@example.com", "-c", "commit.gpgSign=false"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Makes the site's checkout a real one, with a commit of everything in it.
fn begin(site: &Site, origin: &str) {
    git(&site.repo(), &["init", "--quiet", "--initial-branch=main"]);
    git(&site.repo(), &["remote", "add", "origin", origin]);
    commit(&site.repo());
}

/// Commits everything in a checkout, and gives the commit.
pub(crate) fn commit(dir: &Utf8Path) -> String {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message=All of it"]);
    git(dir, &["rev-parse", "HEAD"])
}

/// A copy of the action, as the runner would have fetched it.
pub(crate) fn action(site: &Site) -> Utf8PathBuf {
    let dir = site.path("action");
    for file in ["action.yml", ".github/action/install.sh", ".github/action/run.sh", "Cargo.toml", "Cargo.lock"] {
        let target = dir.join(file);
        fs::create_dir_all(target.parent().expect("a file has a directory")).expect("the site is ours");
        fs::copy(source(file), &target).unwrap_or_else(|error| panic!("{target}: {error}"));
    }
    for part in ["src", "migrations"] {
        fs::create_dir_all(dir.join(part)).expect("the site is ours");
        fs::write(dir.join(part).join("part"), part).expect("the site is ours");
    }
    dir
}

/// The version of this code.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This machine, as releases name it.
pub(crate) fn archive() -> String {
    let os = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    format!("kl-{}-{os}.tar.gz", std::env::consts::ARCH)
}

/// Files over HTTP on loopback, and what was asked for.
pub(crate) struct Releases {
    origin: String,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Releases {
    /// None yet.
    pub(crate) fn none() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
        let files = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (served, noted) = (Arc::clone(&files), Arc::clone(&asked));
        // Ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(&stream).lines();
                let request = lines.next().and_then(Result::ok).unwrap_or_default();
                while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
                let found = served.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
                let (status, body) = found.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                // Whoever does not listen to the end has nothing to say about it.
                drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
            }
        });
        Self { origin, files, asked }
    }

    /// This kl, published in its own version, as the release workflow would do it.
    pub(crate) fn of_kl(site: &Site) -> Self {
        let releases = Self::none();
        let list = releases.publish(site, VERSION);
        releases.put(&format!("v{VERSION}/SHA256SUMS"), list.as_bytes());
        releases
    }

    /// Publishes this kl under a version, without a list of checksums; gives the list.
    pub(crate) fn publish(&self, site: &Site, version: &str) -> String {
        let dir = site.path("release");
        fs::create_dir_all(&dir).expect("the site is ours");
        // The real program, without its eighty megabytes.
        let program = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_kl"));
        fs::write(dir.join("kl"), program).expect("the site is ours");
        let packed = Command::new("sh")
            .args(["-c", "chmod 755 kl && tar -czf - kl"])
            .current_dir(&dir)
            .output()
            .expect("tar runs");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        let sum = kl_runner::domain::digest::hex(&Sha256::digest(&packed.stdout));
        self.put(&format!("v{version}/{}", archive()), &packed.stdout);
        format!("{sum}  {}\n", archive())
    }

    /// Serves this content at a path below the releases.
    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        let path = format!("{}/{path}", Self::PATH);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(path, content.to_vec());
    }

    /// What was asked for, below the releases.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(|path| path.trim_start_matches(Self::PATH).to_owned()).collect()
    }

    /// The forge's address, `GITHUB_SERVER_URL`.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Where the releases are.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.origin, Self::PATH)
    }

    /// Where GitHub has the releases of a repository.
    const PATH: &str = "/example/kl/releases/download";
}

/// A stand-in for actions/checkout with a ref.
const CHECKOUT: &str = r#"
name: checkout
description: Checks a ref of the site out
inputs: { ref: { description: The ref, required: true } }
runs:
  using: composite
  steps:
    - shell: bash
      env: { REF: "${{ inputs.ref }}" }
      run: git init --quiet . && git fetch --quiet "SITE" "$REF" && git checkout --quiet FETCH_HEAD
"#;

/// Runs one of the workflows in examples/github.
pub(crate) struct Workflow {
    site: Site,
    act: Utf8PathBuf,
    file: String,
    secrets: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
}

impl Workflow {
    /// The workflow in the checkout of a site, with everything that is in it committed.
    pub(crate) fn of(site: Site, act: Utf8PathBuf, example: &str) -> Self {
        Self::saying(site, act, &self::example(example))
    }

    /// A workflow of this text.
    pub(crate) fn saying(site: Site, act: Utf8PathBuf, text: &str) -> Self {
        let file = ".github/workflows/kl.yml".to_owned();
        site.write(&file, text);
        begin(&site, "https://github.com/example/infra.git");
        // Terraform is there, and no cloud is to be signed in to: actions of others are steps that do nothing.
        fs::create_dir_all(site.path("other")).expect("the site is ours");
        let nothing = "name: other\ndescription: Does nothing\nruns:\n  using: composite\n  steps:\n    - run: \"true\"\n      shell: sh\n";
        fs::write(site.path("other/action.yml"), nothing).expect("the site is ours");
        // The runner itself checks out what the event is about; anything else comes from the site, as it would from GitHub.
        fs::create_dir_all(site.path("checkout")).expect("the site is ours");
        fs::write(site.path("checkout/action.yml"), CHECKOUT.replace("SITE", site.repo().as_str()))
            .expect("the site is ours");
        let releases = Releases::of_kl(&site);
        action(&site);
        let env = BTreeMap::from([
            ("GITHUB_SERVER_URL".to_owned(), releases.origin().to_owned()),
            ("TF_CLI_CONFIG_FILE".to_owned(), site.path("terraformrc").into_string()),
            ("TMPDIR".to_owned(), site.path("tmp").into_string()),
        ]);
        Self { site, act, file, secrets: BTreeMap::new(), env }
    }

    /// The site.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Sets a secret of the repository.
    pub(crate) fn secret(&mut self, name: &str, value: &str) {
        self.secrets.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a secret away, as from a request of a fork.
    pub(crate) fn without_secret(&mut self, name: &str) {
        self.secrets.remove(name);
    }

    /// Sets a variable that a runner would set.
    pub(crate) fn env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// What the runner says to an event, to be run.
    pub(crate) fn on(&self, event: &str, payload: &serde_json::Value) -> Kl {
        let file = self.site.path(format!("{event}.json"));
        fs::write(&file, payload.to_string()).expect("the site is ours");
        let text = fs::read_to_string(self.site.repo().join(&self.file)).expect("it was written");
        let mut command = self.site.kl().instead(self.act.as_str());
        // The runner hands its own environment on to jobs; a database must come by the workflow.
        command = command
            .without("KL_DATABASE_URL")
            .env("XDG_CACHE_HOME", self.site.path("act").as_str())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args([event, "--workflows", self.file.as_str(), "--eventpath", file.as_str()])
            .args(["--platform", "ubuntu-24.04=-self-hosted", "--platform", "ubuntu-latest=-self-hosted"])
            .args(["--action-cache-path", self.site.path("act/actions").as_str()]);
        for line in text.lines() {
            let Some((_, action)) = line.split_once("uses: ") else { continue };
            let action = action.split(' ').next().unwrap_or_default();
            let dir = match action.split_once('@') {
                Some(("actions/checkout", _)) => "checkout",
                Some(("example/kl", _)) => "action",
                _ => "other",
            };
            command = command.args(["--local-repository".to_owned(), format!("{action}={}", self.site.path(dir))]);
        }
        for (name, value) in &self.secrets {
            command = command.args(["--secret".to_owned(), format!("{name}={value}")]);
        }
        for (name, value) in &self.env {
            command = command.args(["--env".to_owned(), format!("{name}={value}")]);
        }
        command
    }
}

/// Runs one of the pipelines in examples/gitlab.
pub(crate) struct Pipeline {
    site: Site,
    runner: Utf8PathBuf,
    releases: Releases,
    variables: BTreeMap<String, String>,
}

impl Pipeline {
    /// The pipeline in the checkout of a site, with everything that is in it committed.
    pub(crate) fn of(site: Site, runner: Utf8PathBuf, example: &str) -> Self {
        Self::saying(site, runner, &self::example(example))
    }

    /// A pipeline of this text.
    pub(crate) fn saying(site: Site, runner: Utf8PathBuf, text: &str) -> Self {
        let theirs = "project: platform/kl\n    ref: v0.1.0\n    file: .gitlab-ci-template.yml";
        assert!(text.contains(theirs), "it includes the template: {text}");
        site.write(".gitlab-ci.yml", &text.replace(theirs, "local: .gitlab-ci-template.yml"));
        let template = fs::read_to_string(source(".gitlab-ci-template.yml")).expect("it is in the repository");
        site.write(".gitlab-ci-template.yml", &template);
        site.write(".gitignore", ".gitlab-ci-local/\n");
        begin(&site, "git@gitlab.example.com:example/platform/infra.git");
        let releases = Releases::of_kl(&site);
        let variables = BTreeMap::from([
            ("GITLAB_CI".to_owned(), "true".to_owned()),
            // Of a job with an image, it would say where the image has the checkout.
            ("CI_PROJECT_DIR".to_owned(), site.repo().into_string()),
            ("CI_DEFAULT_BRANCH".to_owned(), "main".to_owned()),
            // A variable of the project goes over one of the job.
            ("KL_RELEASE_URL".to_owned(), releases.url()),
            ("TF_CLI_CONFIG_FILE".to_owned(), site.path("terraformrc").into_string()),
            ("TMPDIR".to_owned(), site.path("tmp").into_string()),
        ]);
        Self { site, runner, releases, variables }
    }

    /// The site.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Where kl is installed from.
    pub(crate) fn releases(&self) -> &Releases {
        &self.releases
    }

    /// Sets a variable, of the project or of GitLab itself.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// The runner with these variables, as `CI_PIPELINE_SOURCE` and the like, to be run.
    pub(crate) fn on(&self, variables: &[(&str, &str)]) -> Kl {
        let mut all = self.variables.clone();
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let names: Vec<&str> =
            all.keys().map(String::as_str).filter(|name| name.contains("CI_") || *name == "GITLAB_CI").collect();
        let mut command = self
            .site
            .kl()
            .instead(self.runner.as_str())
            .without("KL_DATABASE_URL")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(["--force-shell-executor", "--no-color"])
            .args(["--ignore-predefined-vars".to_owned(), names.join(",")]);
        for (name, value) in &all {
            command = command.args(["--variable".to_owned(), format!("{name}={value}")]);
        }
        command
    }
}
