//! From arguments, kl.yaml, environment and CI job to the project, the rules and the state that are meant.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;

use super::args::{ActorArgs, InputArgs, StateArgs};
use super::bounded::{self, MAX_TEXT};
use super::env::{self, EnvSnapshot};
use crate::config::catalog::Catalog;
use crate::config::ci::{self, CiContext};
use crate::config::discover::Modules;
use crate::config::event::github;
use crate::config::file::{ConfigFile, FILE_NAME, WRONG_FILE_NAME};
use crate::config::policy::Policies;
use crate::config::projects::Project as Configured;
use crate::config::walk;
use crate::domain::id::{Actor, StateName};
use crate::error::KlError;
use crate::pipeline::Project;
use crate::terraform::{Environment, LocateRequest, Terraform, Variable};
use crate::workspace::repository_root;

/// Where a command works: the directory, its repository, and what kl.yaml says.
#[derive(Clone)]
pub struct Place {
    /// The root module, absolute.
    pub dir: Utf8PathBuf,
    /// The repository; the root module itself when there is none.
    pub root: Utf8PathBuf,
    /// The configuration.
    pub config: ConfigFile,
    /// Where `kl.yaml` was found.
    pub config_dir: Option<Utf8PathBuf>,
}

impl Place {
    /// Looks at a directory.
    pub fn find(dir: &Utf8Path) -> Result<Self, KlError> {
        let dir = dir.canonicalize_utf8().map_err(|error| {
            KlError::usage(format!("there is no directory {dir}"))
                .because(error)
                .hint("name a root module: `kl plan infra/web`")
        })?;
        if !dir.is_dir() {
            return Err(KlError::usage(format!("{dir} is not a directory")));
        }
        let root = repository_root(&dir).unwrap_or_else(|| dir.clone());
        let inside = |ancestor: &&Utf8Path| ancestor.starts_with(&root) || root.starts_with(ancestor);
        let has = |ancestor: &Utf8Path, name: &str| ancestor.join(name).is_file();
        let config_dir = dir
            .ancestors()
            .take_while(inside)
            .find(|ancestor| has(ancestor, FILE_NAME) || has(ancestor, WRONG_FILE_NAME));
        let config = match config_dir {
            Some(found) if !has(found, FILE_NAME) => {
                let wrong = found.join(WRONG_FILE_NAME);
                return Err(KlError::usage(format!("{wrong} is not read: kl's configuration is called {FILE_NAME}"))
                    .hint(format!("rename it to {FILE_NAME}")));
            }
            Some(found) => read(found)?,
            None => ConfigFile::default(),
        };
        Ok(Self { config_dir: config_dir.map(Utf8Path::to_owned), dir, root, config })
    }

    /// Where the embedded database is when nobody says otherwise: beside kl.yaml, else at the repository's root.
    pub fn default_database(&self) -> Utf8PathBuf {
        self.config_dir.as_ref().unwrap_or(&self.root).join(".kl").join("kl.db")
    }

    /// The directory as people name it: relative to the repository; `.` at its root.
    pub fn name(&self) -> String {
        match self.dir.strip_prefix(&self.root) {
            Ok(path) if !path.as_str().is_empty() => path.to_string(),
            _ => ".".to_owned(),
        }
    }

    /// What is configured for the root module in a workspace.
    fn configured(&self, workspace: Option<&str>) -> Configured {
        let base = self.config_dir.as_ref().unwrap_or(&self.root);
        self.config.project(self.dir.strip_prefix(base).unwrap_or(&self.dir), workspace)
    }

    /// All projects of the repository.
    pub fn catalog(&self) -> Result<Catalog, KlError> {
        let listing = walk::listing(&self.root)
            .map_err(|error| KlError::usage(format!("{} cannot be listed", self.root)).because(error))?;
        let modules = Modules::read(&listing);
        let base = self.config_dir.as_ref().and_then(|dir| dir.strip_prefix(&self.root).ok());
        Catalog::of(&self.config, base, &modules, self.repository())
            .map_err(|error| KlError::usage(error.to_string()).hint("name the state of such a project in kl.yaml"))
    }

    /// The policies that hold for the root module in the workspace that is meant.
    pub fn policies(&self, args: &StateArgs, env: &EnvSnapshot) -> Policies {
        self.configured(workspace(args, env).as_deref()).policies
    }

    /// The state that is meant: `--state`, else kl.yaml's, else the directory with its workspace.
    pub fn state(&self, args: &StateArgs, env: &EnvSnapshot) -> Result<StateName, KlError> {
        if let Some(state) = &args.state {
            return Ok(state.clone());
        }
        let workspace = workspace(args, env);
        let dir = self.dir.strip_prefix(&self.root).unwrap_or(&self.dir);
        self.configured(workspace.as_deref())
            .state_name(dir, self.repository(), workspace.as_deref())
            .map_err(|error| KlError::usage(error.to_string()).hint("name the state with --state"))
    }

    /// What the repository is called: after its directory.
    pub fn repository(&self) -> &str {
        self.root.file_name().unwrap_or("root")
    }

    /// The project with its inputs; finds the program.
    pub async fn project(&self, state: &StateArgs, input: &InputArgs, env: &EnvSnapshot) -> Result<Project, KlError> {
        let asked = workspace(state, env);
        let configured = self.configured(asked.as_deref());
        let variables = variables(&configured, input, env)?;
        let workspace = asked.or(configured.workspace);
        let program = input.terraform.clone().or_else(|| env.get(env::TERRAFORM)).or(configured.terraform);
        let cache = plugin_cache(env);
        let terraform = Terraform::locate(LocateRequest {
            program: program.as_deref(),
            dir: &self.dir,
            environment: env.all().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Environment>(),
            plugin_cache: cache.as_deref(),
        })
        .await?;
        let mut var_files = configured.var_files;
        var_files.extend(input.var_files.iter().cloned());
        for file in &var_files {
            if !self.dir.join(file).is_file() {
                return Err(KlError::usage(format!("there is no variable file {}", self.dir.join(file)))
                    .hint("variable files are named relative to the root module"));
            }
        }
        Ok(Project {
            name: self.name(),
            state: self.state(state, env)?,
            workspace: workspace.unwrap_or_else(|| "default".to_owned()),
            var_files,
            variables,
            terraform,
            keep_workspace: input.keep_workspace,
            dir: self.dir.clone(),
        })
    }
}

/// Reads the kl.yaml of a directory.
fn read(dir: &Utf8Path) -> Result<ConfigFile, KlError> {
    let path = dir.join(FILE_NAME);
    let cannot = || KlError::usage(format!("cannot read {path}"));
    let bytes = bounded::file(&path, MAX_TEXT).map_err(|error| cannot().because(error))?;
    let text = String::from_utf8(bytes).map_err(|error| cannot().because(error))?;
    let config = ConfigFile::read(&path, &text).and_then(|config| {
        config.check_dirs(&path, &text, |project| dir.join(project).is_dir())?;
        Ok(config)
    });
    config.map_err(|error| KlError::usage(error.to_string()))
}

/// Input variables: from the environment as kl.yaml says, and in front of them those of the command line.
fn variables(configured: &Configured, input: &InputArgs, env: &EnvSnapshot) -> Result<Vec<Variable>, KlError> {
    let mut variables = Vec::new();
    for (name, source) in &configured.vars {
        if input.vars.iter().any(|(given, _)| given == name) {
            continue;
        }
        let value = env.named(source).ok_or_else(|| {
            let project = configured.name.as_ref().map(|name| format!(" of project {name}")).unwrap_or_default();
            KlError::usage(format!(
                "the variable {name}{project} comes from the environment variable {source}, which is not set or empty"
            ))
            .hint(format!("set {source}, give --var {name}=VALUE, or change `vars` in {FILE_NAME}"))
        })?;
        variables.push(Variable { name: name.clone(), value: SecretString::from(value) });
    }
    let given = input.vars.iter();
    variables
        .extend(given.map(|(name, value)| Variable { name: name.clone(), value: SecretString::from(value.clone()) }));
    Ok(variables)
}

/// The Terraform workspace that the user names.
pub fn workspace(args: &StateArgs, env: &EnvSnapshot) -> Option<String> {
    args.workspace.clone().or_else(|| env.get("TF_WORKSPACE"))
}

/// Where providers are kept between runs, unless the user has a cache of their own.
fn plugin_cache(env: &EnvSnapshot) -> Option<Utf8PathBuf> {
    let base = env.get("XDG_CACHE_HOME").map(Utf8PathBuf::from);
    let base = base.or_else(|| env.get("HOME").map(|home| Utf8PathBuf::from(home).join(".cache")))?;
    Some(base.join("kl").join("plugins"))
}

/// Who acts, and in which CI job.
pub fn identity(args: &ActorArgs, env: &EnvSnapshot) -> (Actor, CiContext) {
    let context = context(env);
    let actor = args.actor.clone().or_else(|| env.get(env::ACTOR)).or_else(|| context.actor.clone());
    let actor = actor.unwrap_or_else(|| {
        let user = env.get("USER").or_else(|| env.get("LOGNAME")).or_else(user).unwrap_or_else(|| "unknown".to_owned());
        let host = env.get("HOSTNAME").or_else(hostname).unwrap_or_else(|| "localhost".to_owned());
        format!("{user}@{host}")
    });
    (Actor(actor), context)
}

/// The CI job that kl runs in.
pub fn context(env: &EnvSnapshot) -> CiContext {
    ci::detect(|name| env.get(name), event_file)
}

/// The text of the forge's event file; one that is too large for an event is cut, and will not be read.
fn event_file(path: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    let limit = github::MAX_BYTES as u64 + 1;
    std::fs::File::open(path)?.take(limit).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The user whom the system knows, where the environment does not say (cron, containers).
fn user() -> Option<String> {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.name)
}

fn hostname() -> Option<String> {
    let text = std::fs::read_to_string("/etc/hostname").ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
