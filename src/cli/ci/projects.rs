//! `kl ci projects`: the projects of a repository, or those that a change concerns, in order.

use camino::Utf8Path;
use serde_json::{Value, json};

use super::job::Job;
use super::requests::Changed;
use crate::cli::args::ci::{CiJobArgs, CiProjectsArgs};
use crate::cli::bounded::{self, MAX_TEXT};
use crate::cli::project::Place;
use crate::cli::{Session, git};
use crate::config::affected::{Change, Reason};
use crate::config::catalog::{Catalog, Listed};
use crate::config::event::{CiEvent, PushEvent};
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::Push;
use crate::report::style::plain;
use crate::report::table::columns;

/// Runs the command.
pub(super) async fn run(session: &Session, args: CiProjectsArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let catalog = place.catalog()?;
    let changes = match (&args.changed, &args.base) {
        (Some(file), _) => Some(listed(session, file).await?),
        (None, Some(base)) => Some(git::changes(&place.root, base, &session.env).await?),
        (None, None) if args.all => None,
        (None, None) => by_event(session, &args).await?,
    };
    let chosen: Vec<(&Listed, Vec<Reason>)> = match &changes {
        Some(changes) => catalog.affected(changes),
        None => catalog.projects.iter().map(|project| (project, Vec::new())).collect(),
    };
    session.out.result(&told(&catalog, changes.is_some(), &chosen), || {
        json!({
            "count": chosen.len(),
            "projects": chosen.iter().map(|(project, reasons)| document(project, reasons)).collect::<Vec<_>>(),
        })
    });
    Ok(Exit::Done)
}

/// In a job of a forge: the files of its request, of its push, or of its merge queue. None where every project counts.
async fn by_event(session: &Session, args: &CiProjectsArgs) -> Result<Option<Vec<Change>>, KlError> {
    let job = CiJobArgs { projects: Vec::new(), actor: args.actor.clone() };
    let job = Job::start(session, &job)?;
    let changed = match job.event()? {
        _ if job.forge.is_none() => return Ok(None),
        Some(CiEvent::Request(event) | CiEvent::MergeTrain(event)) => Changed::by_request(&job, event.number).await,
        Some(CiEvent::MergeGroup(group)) => {
            let push =
                Push { branch: group.base_branch.clone(), before: group.base.clone(), after: group.head.clone() };
            Changed::by_push(&job, &push).await
        }
        Some(CiEvent::Push(PushEvent { branch, before, after: Some(after), .. })) => {
            let push = Push { branch: branch.clone(), before: before.clone(), after: after.clone() };
            Changed::by_push(&job, &push).await
        }
        _ => return Ok(None),
    };
    match changed {
        Ok(Changed::Files(files)) => Ok(Some(files)),
        Ok(Changed::Anything) => Ok(None),
        Err(error) => {
            job.warn(&format!("{}; every project counts as changed", error.message()));
            Ok(None)
        }
    }
}

/// Reads a list of changed files: a path on each line.
async fn listed(session: &Session, file: &Utf8Path) -> Result<Vec<Change>, KlError> {
    let text = if file == "-" {
        session.stdin(|mut input| bounded::whole(&mut input, MAX_TEXT)).await?
    } else {
        bounded::file(file, MAX_TEXT)
            .map_err(|error| KlError::usage(format!("cannot read the list of changed files {file}")).because(error))?
    };
    let text = String::from_utf8(text)
        .map_err(|error| KlError::usage(format!("the list of changed files {file} is no text")).because(error))?;
    let paths = text.lines().map(|line| line.strip_prefix("./").unwrap_or(line)).filter(|line| !line.is_empty());
    Ok(paths.map(|path| Change { path: path.to_owned(), previous: None }).collect())
}

fn told(catalog: &Catalog, limited: bool, chosen: &[(&Listed, Vec<Reason>)]) -> String {
    if catalog.projects.is_empty() {
        return "There is no project: no root module was found, and kl.yaml lists none.\n".to_owned();
    }
    if chosen.is_empty() {
        return format!("The change concerns none of the {} projects.\n", catalog.projects.len());
    }
    let rows: Vec<Vec<String>> = chosen
        .iter()
        .map(|(project, reasons)| {
            let mut row = vec![
                plain(&project.name),
                plain(project.shown_dir()),
                plain(&project.workspace),
                plain(project.state.as_str()),
            ];
            row.extend(limited.then(|| because(reasons)));
            row
        })
        .collect();
    let mut head = vec!["PROJECT", "DIR", "WORKSPACE", "STATE"];
    head.extend(limited.then_some("BECAUSE OF"));
    columns(&head, &rows)
}

/// The first file of each reason, and how many more there are.
fn because(reasons: &[Reason]) -> String {
    let one = |reason: &Reason| {
        let file = plain(&reason.file);
        if reason.files > 1 { format!("{file} and {} more", reason.files - 1) } else { file }
    };
    reasons.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn document(project: &Listed, reasons: &[Reason]) -> Value {
    json!({
        "name": project.name,
        "dir": project.shown_dir(),
        "workspace": project.workspace,
        "state": project.state,
        "environment": project.settings.environment,
        "depends_on": project.settings.depends_on,
        "because": reasons.iter().map(|reason| {
            json!({ "cause": reason.cause.word(), "file": reason.file, "files": reason.files })
        }).collect::<Vec<_>>(),
    })
}
