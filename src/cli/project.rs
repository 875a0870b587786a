//! From arguments, kl.yaml, environment and CI job to the project, the rules and the state that are meant.

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;

use super::args::{ActorArgs, InputArgs, StateArgs};
use super::env::{self, EnvSnapshot};
use crate::config::ci::{self, CiContext};
use crate::config::file::{ConfigFile, FILE_NAME, Project as FileProject};
use crate::domain::id::{Actor, StateName};
use crate::error::KlError;
use crate::pipeline::Project;
use crate::terraform::{Environment, LocateRequest, Terraform, Variable};
use crate::workspace::repository_root;

/// Where a command works: the directory, its repository, and what kl.yaml says.
pub struct Place {
    /// The root module, absolute.
    pub dir: Utf8PathBuf,
    /// The repository; the root module itself when there is none.
    pub root: Utf8PathBuf,
    /// The configuration.
    pub config: ConfigFile,
    /// Where `kl.yaml` was found.
    config_dir: Option<Utf8PathBuf>,
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
        let config_dir = dir.ancestors().take_while(inside).find(|ancestor| ancestor.join(FILE_NAME).is_file());
        let config = match config_dir {
            Some(found) => {
                let path = found.join(FILE_NAME);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| KlError::usage(format!("cannot read {path}")).because(error))?;
                ConfigFile::read(&path, &text).map_err(|error| KlError::usage(error.to_string()))?
            }
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

    fn entry(&self, workspace: Option<&str>) -> Option<&FileProject> {
        let base = self.config_dir.as_ref()?;
        self.config.project(self.dir.strip_prefix(base).ok()?, workspace)
    }

    /// The state that is meant: `--state`, else kl.yaml's, else the directory with its workspace.
    pub fn state(&self, args: &StateArgs, env: &EnvSnapshot) -> Result<StateName, KlError> {
        if let Some(state) = &args.state {
            return Ok(state.clone());
        }
        let workspace = workspace(args, env);
        let entry = self.entry(workspace.as_deref());
        if let Some(state) = entry.and_then(|entry| entry.state.clone()) {
            return Ok(state);
        }
        let name = match self.name().as_str() {
            // A repository that is one root module is called after itself.
            "." => self.root.file_name().unwrap_or("root").to_owned(),
            path => path.to_owned(),
        };
        let workspace = workspace.or_else(|| entry.and_then(|entry| entry.workspace.clone()));
        let name = match workspace.as_deref() {
            None | Some("default") => name,
            Some(workspace) => format!("{name}:{workspace}"),
        };
        StateName::new(name).map_err(|error| KlError::usage(error.to_string()).hint("name the state with --state"))
    }

    /// The project with its inputs; finds the program.
    pub async fn project(&self, state: &StateArgs, input: &InputArgs, env: &EnvSnapshot) -> Result<Project, KlError> {
        let asked = workspace(state, env);
        let entry = self.entry(asked.as_deref());
        let workspace = asked.or_else(|| entry.and_then(|entry| entry.workspace.clone()));
        let program = input
            .terraform
            .clone()
            .or_else(|| env.get(env::TERRAFORM))
            .or_else(|| entry.and_then(|entry| entry.terraform.clone()))
            .or_else(|| self.config.terraform.clone());
        let cache = plugin_cache(env);
        let terraform = Terraform::locate(LocateRequest {
            program: program.as_deref(),
            dir: &self.dir,
            environment: env.all().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Environment>(),
            plugin_cache: cache.as_deref(),
        })
        .await?;
        let mut var_files = entry.map(|entry| entry.var_files.clone()).unwrap_or_default();
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
            variables: input
                .vars
                .iter()
                .map(|(name, value)| Variable { name: name.clone(), value: SecretString::from(value.clone()) })
                .collect(),
            terraform,
            keep_workspace: input.keep_workspace,
            dir: self.dir.clone(),
        })
    }
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
    let context = ci::detect(|name| env.get(name));
    let actor = args.actor.clone().or_else(|| env.get(env::ACTOR)).or_else(|| context.actor.clone());
    let actor = actor.unwrap_or_else(|| {
        let user = env.get("USER").or_else(|| env.get("LOGNAME")).or_else(user).unwrap_or_else(|| "unknown".to_owned());
        let host = env.get("HOSTNAME").or_else(hostname).unwrap_or_else(|| "localhost".to_owned());
        format!("{user}@{host}")
    });
    (Actor(actor), context)
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
