//! Moving in (`kl state adopt`): the state of whatever backend a configuration has, read through Terraform itself,
//! imported, and seen to give the same plan.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::bench::{Bench, blocking, read_module, temp_dir};
use super::import::{Imported, import};
use super::{Context, Project, leftover};
use crate::domain::address::quoted;
use crate::domain::id::{Lineage, Serial};
use crate::domain::plan::plan_json::PlanJson;
use crate::domain::state::delta::same_rows;
use crate::domain::state::document::{self, StateDocument};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::event::Stage;
use crate::terraform::{Dirs, TerraformError};
use crate::workspace::{Workspace, WorkspaceRequest};

/// What Terraform's data directory is called unless somebody says otherwise.
pub const DATA_DIR: &str = ".terraform";

/// The workspace that every backend has.
const DEFAULT_WORKSPACE: &str = "default";

/// What is to be adopted, beside the project.
#[derive(Debug, Clone)]
pub struct AdoptRequest {
    /// Settings of the present backend that do not stand in the configuration: `KEY=VALUE`, or files.
    pub backend_config: Vec<String>,
    /// The data directory of the checkout, when it is not `.terraform`.
    pub data_dir: Option<Utf8PathBuf>,
    /// How long the reservation of the import lasts.
    pub lease: Duration,
    /// How long to wait in turn for it.
    pub wait: Option<Duration>,
    /// Whether the user has named the workspace, so that what the checkout has selected does not matter.
    pub workspace_named: bool,
}

/// What was adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The kind of the backend that it came from; none where the configuration has none, and the state is a file.
    pub backend: Option<String>,
    /// The serial.
    pub serial: Serial,
    /// The lineage.
    pub lineage: Option<Lineage>,
    /// How many rows it has.
    pub rows: usize,
    /// Whether kl had it already.
    pub unchanged: bool,
    /// What the plan changes, of the old backend's state and of kl's alike.
    pub planned: usize,
    /// Whether the configuration asks for the name of a workspace that plain Terraform cannot see with kl's backend.
    pub asks_for_workspace: bool,
}

/// Adopts the state of a configuration. The old backend is only read, and may be adopted again whatever interrupts this.
///
/// # Errors
/// When the backend cannot be read or has nothing, kl has something else under the name of the state, the configuration
/// cannot be planned, the two plans differ, or somebody has written the old state meanwhile.
pub async fn adopt(ctx: &Context, project: &Project, request: &AdoptRequest) -> Result<Adopted, KlError> {
    leftover::sweep(ctx.store.as_ref()).await;
    let old = Old::reach(ctx, project, request).await?;
    let text = old.pull(ctx).await?;
    let document = old.read(&text)?;
    let tells = old.is_free(ctx).await?;
    let bench = Bench::prepare(ctx, project, None).await?;
    bench.place_text(&text)?;
    let before = planned(ctx, &bench).await?;
    let (lineage, rows) = (document.lineage.clone(), document.rows.len());
    let (serial, unchanged) = match import(ctx, &project.state, document, None, (request.lease, request.wait))
        .await
        .map_err(adopted_before)?
    {
        Imported::Committed(committed) => (committed.serial, false),
        Imported::Unchanged(serial) => (serial, true),
    };
    old.has_stayed(ctx, &text).await?;
    if tells {
        old.is_free(ctx).await?;
    }
    let head = ctx.store.state_ensure(&project.state).await?;
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    bench.place(Some(&snapshot), snapshot.contents())?;
    let after = planned(ctx, &bench).await?;
    let differ: Vec<&String> = before.symmetric_difference(&after).collect();
    if !differ.is_empty() {
        let named: Vec<&str> = differ.iter().take(10).map(|line| line.as_str()).collect();
        return Err(KlError::failed(format!(
            "a plan of the adopted state differs from one of the old backend's: {}",
            named.join("; ")
        ))
        .hint("the configuration still has its old backend, which was not touched: leave it so, and look at both plans")
        .hint("real objects that changed between the two plans are another reason: run the command again"));
    }
    let asks_for_workspace = project.workspace != DEFAULT_WORKSPACE && bench.asks_for_workspace()?;
    Ok(Adopted { backend: old.backend, serial, lineage, rows, unchanged, planned: after.len(), asks_for_workspace })
}

/// An import that is refused, perhaps because kl has gone on since.
fn adopted_before(error: KlError) -> KlError {
    if error.exit() != Exit::Usage {
        return error;
    }
    error
        .hint("a state that was adopted before needs no second time: the configuration only has to name kl's backend")
        .hint("the document of the old backend is what `terraform state pull` prints there")
}

/// A backend that could not be initialised, with what to do: nothing is missing where kl was told to stop, or where the
/// checkout knows another backend than the configuration.
fn out_of_reach(error: TerraformError, backend: Option<&str>) -> KlError {
    let Some((_, failure)) = error.failure() else { return error.into() };
    let other = failure.says("Backend configuration changed");
    let kl = KlError::from(error);
    if other {
        return kl
            .hint("the checkout was initialised with another backend: put its block back until its state is adopted")
            .hint("where the new block is right, and the state is there already: `terraform init -reconfigure` first");
    }
    match backend {
        None => kl,
        Some("http") => kl.hint(SETTINGS).hint(
            "where `backend \"http\"` is kl's own already: put the old backend's block back until its state is adopted",
        ),
        Some(_) => kl.hint(SETTINGS),
    }
}

const SETTINGS: &str =
    "settings of the backend that do not stand in the configuration: --backend-config, as for `terraform init`";

/// What a plan would do: addresses with actions, and outputs.
async fn planned(ctx: &Context, bench: &Bench) -> Result<BTreeSet<String>, KlError> {
    ctx.begins(Stage::Plan).await?;
    let (plan, _) = bench.plan(&bench.request(), &ctx.stop).await.map_err(|error| {
        error.hint("without a plan: `terraform state pull | kl state import -` brings the state in as it is")
    })?;
    Ok(changes(&plan))
}

fn changes(plan: &PlanJson) -> BTreeSet<String> {
    // Data that is read only when applying changes nothing.
    let quiet = |actions: &[String]| actions.iter().all(|action| action == "no-op" || action == "read");
    let resources = plan.resource_changes.iter().filter_map(|entry| {
        let from = entry.previous_address.as_ref().filter(|from| **from != entry.address);
        if quiet(&entry.change.actions) && from.is_none() {
            return None;
        }
        let deposed = entry.deposed.as_ref().map(|key| format!(" (deposed {key})")).unwrap_or_default();
        let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
        Some(format!("{}{deposed}{from}: {}", entry.address, entry.change.actions.join(" and ")))
    });
    let outputs = plan.output_changes.iter().filter(|(_, change)| !quiet(&change.actions));
    resources.chain(outputs.map(|(name, change)| format!("output.{name}: {}", change.actions.join(" and ")))).collect()
}

/// The present backend of a configuration, reached through an isolated copy, so that nothing is written into the checkout.
struct Old<'p> {
    project: &'p Project,
    backend: Option<String>,
    /// Holds Terraform's data, which knows the backend.
    _copy: Workspace,
    /// In the checkout itself: a backend may name files by paths that count from there.
    dirs: Dirs,
}

impl<'p> Old<'p> {
    async fn reach(ctx: &Context, project: &'p Project, request: &AdoptRequest) -> Result<Self, KlError> {
        let Some(root) = read_module(&project.dir, project.terraform.product())? else {
            return Err(KlError::usage(format!("{} is not a root module: it has no .tf file", project.dir))
                .hint("without a configuration, `kl state import` takes a state from a file or from standard input"));
        };
        let data_dir = project.dir.join(request.data_dir.as_deref().unwrap_or(Utf8Path::new(DATA_DIR)));
        if !request.workspace_named {
            selected(&data_dir, project)?;
        }
        ctx.begins(Stage::Workspace).await?;
        let made = WorkspaceRequest {
            parent: temp_dir(),
            root_module: project.dir.clone(),
            extra_roots: super::bench::local_modules(&project.dir, project.terraform.product()),
            workspace: DEFAULT_WORKSPACE.to_owned(),
            database: ctx.database.get().cloned(),
        };
        let copy = blocking(move || {
            let copy = Workspace::create(&made)?;
            copy.keep_own_backend()?;
            Ok::<_, crate::workspace::WorkspaceError>(copy)
        })
        .await??;
        // What `terraform init` was told in the checkout may be more than stands in the configuration.
        let known = request.backend_config.is_empty() && seed(&data_dir, &copy.data_dir())?;
        let settings = settings(&request.backend_config, project, copy.dir())?;
        let mirror = Dirs {
            checkout_dir: copy.checkout_dir().to_owned(),
            root_module_dir: copy.root_module_dir().to_owned(),
            data_dir: copy.data_dir(),
            output_dir: copy.dir().to_owned(),
            workspace: DEFAULT_WORKSPACE.to_owned(),
        };
        ctx.begins(Stage::Init).await?;
        // Terraform knows no reconfiguring of its own cloud.
        let anew = !known && root.backend.as_deref() != Some("cloud");
        let initialised = project.terraform.init_own_backend(&mirror, &settings, anew, &ctx.stop).await;
        initialised.map_err(|error| out_of_reach(error, root.backend.as_deref()))?;
        let dirs = Dirs { root_module_dir: mirror.checkout_dir.clone(), ..mirror };
        let here = Self { project, backend: root.backend, _copy: copy, dirs };
        here.enter(ctx).await
    }

    /// Goes into the project's workspace, which has to exist: in some backends, asking for one makes it.
    async fn enter(self, ctx: &Context) -> Result<Self, KlError> {
        let wanted = &self.project.workspace;
        if wanted != DEFAULT_WORKSPACE {
            let known = self.project.terraform.workspace_list(&self.dirs, &ctx.stop).await?;
            if !known.contains(wanted) {
                return Err(KlError::usage(format!(
                    "the present backend ({}) has no workspace {wanted:?}: there is nothing to adopt",
                    self.kind()
                ))
                .hint(format!("it has: {}", known.join(", "))));
            }
        }
        let dirs = Dirs { workspace: wanted.clone(), ..self.dirs };
        Ok(Self { dirs, ..self })
    }

    fn kind(&self) -> &str {
        self.backend.as_deref().unwrap_or("a local file")
    }

    /// The state document as the backend has it now.
    async fn pull(&self, ctx: &Context) -> Result<String, KlError> {
        ctx.begins(Stage::Pull).await?;
        Ok(self.project.terraform.state_pull(&self.dirs, &ctx.stop).await?)
    }

    fn read(&self, text: &str) -> Result<StateDocument, KlError> {
        let document = document::read_sound(text).map_err(|error| {
            let kl = KlError::from(error);
            KlError::usage(format!("the state of the present backend cannot be adopted: {}", kl.chain()))
                .hint("nothing was changed")
        })?;
        if document.lineage.is_none() && document.rows.is_empty() {
            return Err(KlError::usage(format!(
                "the present backend ({}) has no state in workspace {:?}: there is nothing to adopt",
                self.kind(),
                self.project.workspace
            ))
            .hint("the first `kl apply` begins a new state; `terraform workspace list` shows the workspaces that there are"));
        }
        Ok(document)
    }

    /// Makes sure that nobody has written the old state since it was read.
    async fn has_stayed(&self, ctx: &Context, text: &str) -> Result<(), KlError> {
        let now = self.pull(ctx).await?;
        // Terraform writes one state in many ways: the results of checks have no order.
        let (before, after) = (document::read(text), document::read(&now));
        if now == text || before.is_ok_and(|before| after.is_ok_and(|after| same(&before, &after))) {
            return Ok(());
        }
        let serial = |text: &str| document::read(text).map(|document| document.serial.to_string()).unwrap_or_default();
        Err(KlError::failed(format!(
            "the old backend went on from serial {} to {} meanwhile: somebody applies there",
            serial(text),
            serial(&now)
        ))
        .hint(AGAIN))
    }

    /// Makes sure that nobody works on the old state, by taking its lock for a moment: whoever applies has it, and writes what
    /// it has done only later. Tells whether the lock says anything.
    async fn is_free(&self, ctx: &Context) -> Result<bool, KlError> {
        let Err(error) = self.project.terraform.state_lock(&self.dirs, &ctx.stop).await else { return Ok(true) };
        match error.failure() {
            Some((_, failure)) if failure.is_locked() => {
                Err(KlError::failed("somebody works on the state of the old backend: its lock is held")
                    .because(error)
                    .hint(AGAIN)
                    .hint("where nobody does, the lock is left over: `terraform force-unlock` there frees it"))
            }
            Some((_, failure)) => {
                ctx.warn(format!(
                    "the lock of the old backend cannot be taken, so nobody knows whether somebody applies there now: {}",
                    failure.outline()
                ));
                Ok(false)
            }
            None => Err(error.into()),
        }
    }
}

const AGAIN: &str = "let nobody apply, and run the command again: it takes over what is new";

/// Whether two documents are one state.
fn same(before: &StateDocument, after: &StateDocument) -> bool {
    (&before.lineage, before.serial, &before.head) == (&after.lineage, after.serial, &after.head)
        && same_rows(&before.rows, &after.rows)
}

/// The workspace that is selected in a checkout, by its data directory; none where nobody has selected one.
#[must_use]
pub fn selected_workspace(data_dir: &Utf8Path) -> Option<String> {
    let selected = fs::read_to_string(data_dir.join("environment")).unwrap_or_default();
    Some(selected.trim().to_owned()).filter(|selected| !selected.is_empty())
}

/// Refuses to guess between the workspace that is selected in the checkout and the one that kl means.
fn selected(data_dir: &Utf8Path, project: &Project) -> Result<(), KlError> {
    let Some(selected) = selected_workspace(data_dir).filter(|selected| *selected != project.workspace) else {
        return Ok(());
    };
    Err(KlError::usage(format!(
        "the checkout has the workspace {selected:?} selected, and kl would take {:?}",
        project.workspace
    ))
    .hint("say which one is meant: --workspace NAME"))
}

/// Hands on what the checkout's own init has found out. Tells whether there was anything.
fn seed(data_dir: &Utf8Path, own: &Utf8Path) -> Result<bool, KlError> {
    let from = data_dir.join("terraform.tfstate");
    match fs::copy(&from, own.join("terraform.tfstate")) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(KlError::usage(format!("cannot read {from}")).because(error)),
    }
}

/// Files with the settings of the backend: values may be secrets, and every user of the machine can read arguments.
fn settings(given: &[String], project: &Project, dir: &Utf8Path) -> Result<Vec<Utf8PathBuf>, KlError> {
    let mut files = Vec::new();
    for (number, setting) in given.iter().enumerate() {
        let Some((name, value)) = setting.split_once('=') else {
            let file = project.dir.join(setting);
            if !file.is_file() {
                return Err(KlError::usage(format!("--backend-config {file} is no file, and not KEY=VALUE either")));
            }
            files.push(file);
            continue;
        };
        let file = dir.join(format!("backend-{number}.tfbackend"));
        let text = format!("{} = {}\n", name.trim(), quoted(value));
        fs::write(&file, text).map_err(|error| KlError::failed(format!("cannot write {file}")).because(error))?;
        files.push(file);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plan_does_is_told_by_addresses_and_actions() {
        let text = r#"{"format_version":"1.2","terraform_version":"1.11.4","errored":false,"complete":true,
            "resource_changes":[
              {"address":"t.a","mode":"managed","type":"t","name":"a","provider_name":"p","change":{"actions":["no-op"]}},
              {"address":"t.b","previous_address":"t.c","mode":"managed","type":"t","name":"b","provider_name":"p","change":{"actions":["no-op"]}},
              {"address":"t.d","deposed":"0a1b2c3d","mode":"managed","type":"t","name":"d","provider_name":"p","change":{"actions":["delete"]}}],
            "output_changes":{"o":{"actions":["create"]},"p":{"actions":["no-op"]}}}"#;
        let told: Vec<String> = changes(&PlanJson::read(text).unwrap()).into_iter().collect();
        assert_eq!(told, ["output.o: create", "t.b from t.c: no-op", "t.d (deposed 0a1b2c3d): delete"]);
    }
}
