//! The job around a `kl ci` command: repository, projects, event, forge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;

use super::super::Session;
use super::super::args::ci::CiJobArgs;
use super::super::args::{ActorArgs, InputArgs, StateArgs};
use super::super::env;
use super::super::project::{self, Place};
use super::publish;
use crate::config::affected::Change;
use crate::config::catalog::{Catalog, Listed};
use crate::config::ci::CiContext;
use crate::config::event::CiEvent;
use crate::domain::id::{Actor, StateId};
use crate::domain::request::{ForgeKind, RequestRef};
use crate::domain::run::Origin;
use crate::error::KlError;
use crate::forge::{self, ChangedFile, Forge, ForgeSettings, GithubSettings, GitlabSettings, Patience};
use crate::pipeline::{Caller, Project};
use crate::report::style::warn;
use crate::store::model::ProjectPlace;
use crate::store::{Memory, Store};

/// What a command of `kl ci` works with.
pub(super) struct Job<'a> {
    /// The command around it.
    pub(super) session: &'a Session,
    /// The repository's root, and what kl.yaml says.
    pub(super) place: Place,
    /// Its projects.
    pub(super) catalog: Catalog,
    /// The job, as the forge describes it.
    pub(super) ci: CiContext,
    /// The forge; none outside CI, or without a token.
    pub(super) forge: Option<Arc<dyn Forge>>,
    actor: Actor,
    only: Vec<String>,
}

impl<'a> Job<'a> {
    /// Looks at the repository and at the job.
    pub(super) fn start(session: &'a Session, args: &CiJobArgs) -> Result<Self, KlError> {
        let here = Place::find(Utf8Path::new("."))?;
        let place = Place::find(&here.root.clone())?;
        // kl.yaml may stand below the root, where the job was started.
        let place = if place.config_dir.is_none() && here.config_dir.is_some() {
            Place { dir: place.dir, root: place.root, ..here }
        } else {
            place
        };
        let (actor, ci) = project::identity(&args.actor, &session.env);
        let catalog = place.catalog()?;
        for name in &args.projects {
            if catalog.find(name).is_none() {
                let known: Vec<&str> = catalog.projects.iter().map(|project| project.name.as_str()).collect();
                return Err(KlError::usage(format!("there is no project {name:?}"))
                    .hint(format!("the projects of this repository: {}", known.join(", "))));
            }
        }
        let forge = connect(session, &ci)?;
        let job = Self { session, place, catalog, ci, forge, actor, only: args.projects.clone() };
        // The forge hides its own secrets by itself; an address may have come from somewhere else.
        if let Some(url) = session.global.database.clone().or_else(|| session.env.get(env::DATABASE_URL))
            && let Some(password) = password(&url)
        {
            publish::mask(&job, &password);
        }
        Ok(job)
    }

    /// What made the job run.
    pub(super) fn event(&self) -> Result<Option<&CiEvent>, KlError> {
        match &self.ci.event {
            Ok(event) => Ok(event.as_ref()),
            Err(error) => Err(KlError::usage(error.to_string())
                .hint("kl reads the event from the environment that the forge sets in every job")),
        }
    }

    /// The request of a number in the job's repository.
    pub(super) fn request(&self, number: u64) -> Result<RequestRef, KlError> {
        match (self.ci.forge, &self.ci.origin.repository) {
            (Some(forge), Some(repository)) => Ok(RequestRef { forge, repository: repository.clone(), number }),
            _ => Err(KlError::usage("requests are known in a job of GitHub or GitLab only")
                .hint("outside CI, use `kl plan` and `kl apply`")),
        }
    }

    /// The forge, for what cannot be done without.
    pub(super) fn forge(&self) -> Result<&dyn Forge, KlError> {
        self.forge.as_deref().ok_or_else(|| {
            KlError::usage("the forge has to be asked, and there is no token for it").hint(match self.ci.forge {
                Some(ForgeKind::Gitlab) => "give the job KL_FORGE_TOKEN, or CI_JOB_TOKEN",
                _ => "give the step KL_FORGE_TOKEN or GITHUB_TOKEN: `env: { GITHUB_TOKEN: ${{ github.token }} }`",
            })
        })
    }

    /// The forge's own pages.
    pub(super) fn server_url(&self) -> Option<&str> {
        self.ci.server_url.as_deref()
    }

    /// Whether `--project` lets a project in.
    pub(super) fn wants(&self, project: &Listed) -> bool {
        self.only.is_empty() || self.only.contains(&project.name)
    }

    /// The projects that a change concerns, each after those that it depends on.
    pub(super) fn affected(&self, changes: &[Change]) -> Vec<&Listed> {
        self.catalog.affected(changes).into_iter().map(|(project, _)| project).collect()
    }

    /// Which of `chosen` come directly before a project.
    pub(super) fn before<'p>(&self, project: &'p Listed, chosen: &BTreeSet<&str>) -> Vec<&'p str> {
        self.catalog.needed_by(project, chosen)
    }

    /// The project with its inputs, ready to be planned or applied.
    pub(super) async fn project(&self, listed: &Listed) -> Result<Project, KlError> {
        let state = StateArgs { state: Some(listed.state.clone()), workspace: Some(listed.workspace.clone()) };
        let place = Place { dir: self.dir(listed), ..self.place.clone() };
        place.project(&state, &InputArgs::default(), &self.session.env).await
    }

    /// A project as the store remembers it.
    pub(super) fn remembered(listed: &Listed, state: StateId) -> ProjectPlace {
        ProjectPlace {
            project: listed.name.clone(),
            dir: listed.shown_dir().to_owned(),
            workspace: listed.workspace.clone(),
            state,
        }
    }

    /// The commit that a merge brought: the one that the checks of its apply belong to.
    pub(super) fn merged_commit(&self) -> Option<String> {
        let named = match &self.ci.event {
            Ok(Some(CiEvent::Push(push))) => push.after.clone(),
            Ok(Some(CiEvent::Request(event))) => event.merge_commit.clone(),
            _ => None,
        };
        named.or_else(|| self.ci.checkout.clone())
    }

    /// The root module of a project.
    pub(super) fn dir(&self, listed: &Listed) -> Utf8PathBuf {
        if listed.dir.as_str().is_empty() { self.place.root.clone() } else { self.place.root.join(&listed.dir) }
    }

    /// Who asks; runs and specs are put down to this request.
    pub(super) fn caller(&self, request: Option<&RequestRef>, commit: Option<&str>) -> Caller {
        let caller = self.session.caller(&ActorArgs { actor: Some(self.actor.0.clone()) });
        let origin = Origin {
            request: request.map(|request| request.number).or(self.ci.origin.request),
            commit: commit.map(str::to_owned).or_else(|| self.ci.origin.commit.clone()),
            ..self.ci.origin.clone()
        };
        Caller { origin, ..caller }
    }

    /// Who acts.
    pub(super) fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The job's page.
    pub(super) fn job_url(&self) -> Option<String> {
        self.ci.origin.job_url.clone()
    }

    /// The store, which must exist.
    pub(super) async fn store(&self) -> Result<Arc<dyn Store>, KlError> {
        self.session.store_existing(&self.place).await
    }

    /// The store, or the promise to make one.
    pub(super) async fn memory(&self) -> Result<Memory, KlError> {
        self.session.memory(&self.place).await
    }

    /// The same, with patience for a server that is away.
    pub(super) async fn memory_in_time(&self, wait: Duration) -> Result<Memory, KlError> {
        self.session.memory_in_time(&self.place, wait).await
    }

    /// Whether the user has said where the database is.
    pub(super) fn names_database(&self) -> bool {
        self.session.global.database.is_some() || self.session.env.get(env::DATABASE_URL).is_some()
    }

    /// A warning for the log.
    pub(super) fn warn(&self, message: &str) {
        self.session.out.say(&format!("{} {message}", warn("warning:")));
    }
}

/// The password in an address, as it stands there.
fn password(url: &str) -> Option<String> {
    let authority = url.split_once("://")?.1.split(['/', '?']).next()?;
    let (login, _) = authority.rsplit_once('@')?;
    login.split_once(':').map(|(_, password)| password.to_owned()).filter(|password| !password.is_empty())
}

/// Changed files as the configuration looks at them.
pub(super) fn changes(files: Vec<ChangedFile>) -> Vec<Change> {
    files.into_iter().map(|file| Change { path: file.path, previous: file.previous }).collect()
}

/// A client for the job's forge; none outside CI, and none without a token.
pub(in crate::cli) fn connect(session: &Session, ci: &CiContext) -> Result<Option<Arc<dyn Forge>>, KlError> {
    let get = |name: &str| session.env.get(name);
    let token = |names: &[&str]| names.iter().find_map(|name| get(name)).map(SecretString::from);
    let Some(api_url) = ci.api_url.clone() else { return Ok(None) };
    let settings = match ci.forge {
        None => return Ok(None),
        Some(ForgeKind::Github) => ForgeSettings::Github(GithubSettings {
            api_url,
            graphql_url: get("GITHUB_GRAPHQL_URL"),
            repository: ci.origin.repository.clone().unwrap_or_default(),
            token: Some(match token(&[env::FORGE_TOKEN, "GITHUB_TOKEN"]) {
                Some(token) => token,
                None => return Ok(None),
            }),
            certificates: None,
        }),
        Some(ForgeKind::Gitlab) => {
            let certificates = get("CI_SERVER_TLS_CA_FILE")
                .map(|path| {
                    std::fs::read(&path).map_err(|error| {
                        KlError::usage(format!("cannot read {path}, which CI_SERVER_TLS_CA_FILE names")).because(error)
                    })
                })
                .transpose()?;
            ForgeSettings::Gitlab(GitlabSettings {
                api_url,
                project: get("CI_PROJECT_ID").or_else(|| ci.origin.repository.clone()).unwrap_or_default(),
                project_url: get("CI_PROJECT_URL"),
                token: token(&[env::FORGE_TOKEN, "GITLAB_TOKEN"]),
                job_token: token(&["CI_JOB_TOKEN"]),
                pipeline: get("CI_PIPELINE_ID").and_then(|id| id.parse().ok()),
                certificates,
            })
        }
    };
    Ok(Some(forge::connect(&settings, Patience::default())?))
}
