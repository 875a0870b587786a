//! The work bench of one plan or apply: an isolated, initialised workspace, and what its configuration declares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};

use super::{Caller, Project, inputs};
use crate::domain::address::{ConfigAddress, ConfigModule};
use crate::domain::graph::configuration::{self, ModuleConfig, is_configuration, is_opentofu};
use crate::domain::graph::manifest::{self, source_is_local};
use crate::domain::graph::tree::Tree;
use crate::domain::id::{RunId, Serial};
use crate::domain::plan::plan_json::PlanJson;
use crate::domain::plan::secrets;
use crate::domain::redact::Secrets;
use crate::domain::run::Tools;
use crate::domain::run::workplace::Workplace;
use crate::domain::state::document::{DocumentHead, StateDocument};
use crate::domain::state::{Row, projection};
use crate::error::KlError;
use crate::report::event::{Progress, Stage};
use crate::store::model::Snapshot;
use crate::terraform::{Dirs, Input, PlanRequest, Product, Stop, Terraform, TerraformError, providers_locked};
use crate::workspace::{OVERRIDE_FILE, Workspace, WorkspaceError, WorkspaceRequest, repository_root, this_host};

/// The longest file of a configuration, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// An initialised workspace.
pub struct Bench {
    workspace: Mutex<Workspace>,
    plan_path: Utf8PathBuf,
    state_path: Utf8PathBuf,
    errored_path: Utf8PathBuf,
    dirs: Dirs,
    tree: Tree,
    terraform: Terraform,
    var_files: Vec<Utf8PathBuf>,
    inputs: Vec<Input>,
    secrets: Mutex<Secrets>,
    module_dirs: BTreeMap<ConfigModule, Utf8PathBuf>,
}

impl Bench {
    /// Copies the configuration, initialises it, and reads what it declares. For a run that has reserved its rows the place is
    /// the sign of its kl's life.
    pub async fn prepare(ctx: &Caller, project: &Project, reserved: Option<RunId>) -> Result<Self, KlError> {
        ctx.begins(Stage::Workspace).await?;
        let Some(root) = read_module(&project.dir, project.terraform.product())? else {
            return Err(KlError::usage(format!("{} is not a root module: it has no .tf file", project.dir))
                .hint("name the directory of a root module: `kl plan infra/web`"));
        };
        let inputs = inputs::of(project, &root)?;
        let parent = temp_dir();
        if !parent.is_dir() {
            return Err(KlError::usage(format!("there is no directory {parent} for temporary files"))
                .hint("set TMPDIR to a directory that exists"));
        }
        let request = WorkspaceRequest {
            parent,
            root_module: project.dir.clone(),
            extra_roots: local_modules(&project.dir, project.terraform.product()),
            workspace: project.workspace.clone(),
            database: ctx.database.get().cloned(),
        };
        let mut workspace = blocking(move || Workspace::create(&request)).await??;
        if let Some(run) = reserved {
            workspace.plans_for(run)?;
        }
        if project.keep_workspace {
            let dir = workspace.keep().to_string();
            ctx.sink.emit(&Progress::WorkspaceKept(dir));
        }
        let dirs = Dirs {
            checkout_dir: workspace.checkout_dir().to_owned(),
            root_module_dir: workspace.root_module_dir().to_owned(),
            data_dir: workspace.data_dir(),
            output_dir: workspace.dir().to_owned(),
            workspace: project.workspace.clone(),
        };
        if !project.terraform.dropped_variables().is_empty() {
            let names = project.terraform.dropped_variables().join(", ");
            ctx.warn(format!("not handed to {}: {names}", project.terraform.product()));
        }
        ctx.begins(Stage::Init).await?;
        project.terraform.init(&dirs, &ctx.stop).await?;
        workspace.after_init()?;
        let module_dirs = module_dirs(&dirs)?;
        let tree = read_tree(&dirs, &module_dirs, project.terraform.product())?;
        let var_files = project.var_files.iter().map(|file| dirs.checkout_dir.join(file)).collect();
        Ok(Self {
            plan_path: workspace.plan_path(),
            state_path: workspace.state_path(),
            errored_path: workspace.errored_path(),
            workspace: Mutex::new(workspace),
            dirs,
            tree,
            terraform: project.terraform.clone(),
            var_files,
            inputs,
            secrets: Mutex::new(inputs::secrets(project, &root)),
            module_dirs,
        })
    }

    /// The program.
    pub fn terraform(&self) -> &Terraform {
        &self.terraform
    }

    /// The directories that the program works in.
    pub fn dirs(&self) -> &Dirs {
        &self.dirs
    }

    /// What the configuration declares.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Where Terraform has the slice's state.
    pub fn state_path(&self) -> Utf8PathBuf {
        self.state_path.clone()
    }

    /// Where Terraform leaves its state when it cannot write it there.
    pub fn errored_path(&self) -> Utf8PathBuf {
        self.errored_path.clone()
    }

    /// A plan of the configuration with the project's inputs.
    pub fn request(&self) -> PlanRequest {
        PlanRequest {
            var_files: self.var_files.clone(),
            inputs: self.inputs.clone(),
            ..PlanRequest::new(self.plan_path.clone())
        }
    }

    /// Puts rows of the trunk where Terraform finds them as its state.
    pub fn place(&self, trunk: Option<&Snapshot>, rows: Vec<Row>) -> Result<(), KlError> {
        let Some(trunk) = trunk.filter(|trunk| trunk.head.serial.0 > 0) else {
            // No file at all is the state from which Terraform starts something new.
            return self.with_workspace(Workspace::remove_slice);
        };
        let document = StateDocument {
            head: DocumentHead { terraform_version: trunk.document.terraform_version.clone(), extra: Vec::new() },
            lineage: trunk.head.lineage.clone(),
            serial: trunk.head.serial,
            rows,
        };
        let text = projection::write(&document);
        self.with_workspace(|workspace| workspace.write_slice(&text))
    }

    /// Puts a whole document where Terraform finds it as its state.
    pub fn place_text(&self, text: &str) -> Result<(), KlError> {
        self.with_workspace(|workspace| workspace.write_slice(text))
    }

    /// Says that the workspace is this run's, and where that is.
    pub fn workplace(&self, run: RunId, slice_serial: Serial) -> Result<Workplace, KlError> {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        workspace.belongs_to(run)?;
        Ok(Workplace { host: this_host(), dir: workspace.dir().to_string(), group: None, slice_serial })
    }

    /// Leaves the workspace to whoever recovers the run: it holds the only record of something.
    pub fn leave(&self) {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        workspace.leave();
    }

    fn with_workspace(&self, work: impl FnOnce(&Workspace) -> Result<(), WorkspaceError>) -> Result<(), KlError> {
        let workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(work(&workspace)?)
    }

    /// Plans, and reads the plan. Returns Terraform's warnings, too.
    pub async fn plan(&self, request: &PlanRequest, stop: &Stop) -> Result<(PlanJson, Vec<String>), KlError> {
        let planned = self.terraform.plan(&self.dirs, request, stop, &mut |_| {}).await;
        let outcome = planned.map_err(|error| self.without_secrets(error))?;
        let text = self.terraform.show_json(&self.dirs, &request.out, stop).await?;
        let plan = PlanJson::read(&text)?;
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = self.tree.modules().get(&ConfigModule::root()) {
            secrets::collect(&plan, root, &mut secrets);
        }
        let warnings = outcome.warnings.iter().map(|warning| secrets.hide_in(&warning.to_string())).collect();
        Ok((plan, warnings))
    }

    /// An error without the sensitive values that are known: Terraform puts some of them into its messages.
    pub fn without_secrets(&self, error: TerraformError) -> TerraformError {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        error.without(&|text| secrets.hide_in(text))
    }

    /// Whether any module asks for the name of the workspace.
    pub fn asks_for_workspace(&self) -> Result<bool, KlError> {
        let dirs: BTreeSet<_> = self.module_dirs.values().map(|dir| self.dirs.root_module_dir.join(dir)).collect();
        for dir in dirs {
            let files = read_files(&dir, self.terraform.product())?;
            if files.iter().any(|(_, text)| configuration::asks_for_workspace(text)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The versions in use. To be asked after init, which selects the providers.
    pub fn tools(&self) -> Result<Tools, KlError> {
        Ok(Tools {
            program: self.terraform.product().to_string(),
            version: self.terraform.version().to_string(),
            providers: providers_locked(&self.dirs.root_module_dir)?,
        })
    }

    /// Names of root variables that Terraform keeps out of plans and wants again at the apply.
    pub fn ephemeral_variables(&self) -> Vec<String> {
        let root = self.tree.modules().get(&ConfigModule::root());
        let variables = root.into_iter().flat_map(|config| &config.variables);
        variables.filter(|variable| variable.ephemeral).map(|variable| variable.name.clone()).collect()
    }

    /// What was given for such variables.
    pub fn ephemeral_inputs(&self) -> Vec<Input> {
        let ephemeral = self.ephemeral_variables();
        self.inputs.iter().filter(|input| ephemeral.iter().any(|name| name == input.name())).cloned().collect()
    }

    /// `FILE:LINE` of a resource's block, relative to the repository.
    pub fn place_of(&self, resource: &ConfigAddress) -> Option<String> {
        let block = self.tree.block(resource)?;
        let dir = self.module_dirs.get(&resource.module)?;
        let file = relative_to_repository(&self.dirs.checkout_dir, &dir.join(&block.place.file));
        Some(if block.place.line > 0 { format!("{file}:{}", block.place.line) } else { file.to_string() })
    }
}

/// Runs what blocks on the file system beside the runtime.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, KlError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| KlError::failed("a background task ended unexpectedly").because(error))
}

/// Where each module's files are, relative to the root module; absolute for downloaded ones elsewhere.
fn module_dirs(dirs: &Dirs) -> Result<BTreeMap<ConfigModule, Utf8PathBuf>, KlError> {
    let path = dirs.data_dir.join("modules").join("modules.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        // A configuration without any module call has no manifest.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(BTreeMap::from([(ConfigModule::root(), Utf8PathBuf::from("."))]));
        }
        Err(error) => return Err(KlError::failed(format!("cannot read {path}")).because(error)),
    };
    let listed = manifest::read(&text)
        .map_err(|error| KlError::failed("terraform init left a module list that kl cannot read").because(error))?;
    let mut found: BTreeMap<_, _> = listed.into_iter().map(|(module, dir)| (module, Utf8PathBuf::from(dir))).collect();
    found.entry(ConfigModule::root()).or_insert_with(|| Utf8PathBuf::from("."));
    Ok(found)
}

fn read_tree(
    dirs: &Dirs,
    module_dirs: &BTreeMap<ConfigModule, Utf8PathBuf>,
    product: Product,
) -> Result<Tree, KlError> {
    let mut read: BTreeMap<Utf8PathBuf, ModuleConfig> = BTreeMap::new();
    let mut modules = BTreeMap::new();
    for (module, dir) in module_dirs {
        let dir = dirs.root_module_dir.join(dir);
        let config = if let Some(config) = read.get(&dir) {
            config.clone()
        } else {
            let config = read_module(&dir, product)?.unwrap_or_default();
            read.insert(dir, config.clone());
            config
        };
        modules.insert(module.clone(), config);
    }
    Ok(Tree::new(modules))
}

/// Reads the configuration files of a directory; none when it has no such file.
pub(super) fn read_module(dir: &Utf8Path, product: Product) -> Result<Option<ModuleConfig>, KlError> {
    let files = read_files(dir, product)?;
    if files.is_empty() {
        return Ok(None);
    }
    let config = configuration::read(&files)
        .map_err(|error| KlError::usage(format!("the configuration in {dir} does not parse")).because(error))?;
    Ok(Some(config))
}

/// The files of a module: names and texts.
fn read_files(dir: &Utf8Path, product: Product) -> Result<Vec<(String, String)>, KlError> {
    let cannot = |error| KlError::usage(format!("cannot read the directory {dir}")).because(error);
    let mut files = Vec::new();
    for entry in dir.read_dir_utf8().map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name();
        let seen = is_configuration(name) && (product == Product::OpenTofu || !is_opentofu(name));
        if !seen || name == OVERRIDE_FILE || !entry.path().is_file() {
            continue;
        }
        let unreadable = |error| KlError::usage(format!("cannot read {}", entry.path())).because(error);
        if std::fs::metadata(entry.path()).map_err(unreadable)?.len() > MAX_FILE {
            return Err(KlError::usage(format!("{} has more than {MAX_FILE} bytes", entry.path()))
                .hint("split the file: kl has to understand the whole configuration"));
        }
        let text = std::fs::read_to_string(entry.path()).map_err(unreadable)?;
        files.push((name.to_owned(), text));
    }
    files.sort();
    Ok(files)
}

/// Directories of local modules that a root module reaches, wherever they are.
pub(super) fn local_modules(root: &Utf8Path, product: Product) -> Vec<Utf8PathBuf> {
    if repository_root(root).is_some() {
        return Vec::new();
    }
    let mut found: BTreeSet<Utf8PathBuf> = BTreeSet::new();
    let mut queue = vec![root.to_owned()];
    while let Some(dir) = queue.pop() {
        let Ok(Some(config)) = read_module(&dir, product) else {
            continue;
        };
        for source in config.calls.iter().filter_map(|call| call.source.as_deref()).filter(|s| source_is_local(s)) {
            // A module that is not there is Terraform's to complain about.
            if let Ok(path) = dir.join(source).canonicalize_utf8()
                && found.insert(path.clone())
            {
                queue.push(path);
            }
        }
    }
    found.into_iter().collect()
}

/// A file of the checkout as people name it: relative to the repository, without `.` and `..`.
fn relative_to_repository(checkout_dir: &Utf8Path, file: &Utf8Path) -> Utf8PathBuf {
    let mut whole = Utf8PathBuf::new();
    for part in checkout_dir.join(file).components() {
        match part {
            camino::Utf8Component::ParentDir => {
                whole.pop();
            }
            camino::Utf8Component::CurDir => {}
            other => whole.push(other),
        }
    }
    let root = repository_root(checkout_dir).unwrap_or_else(|| checkout_dir.to_owned());
    whole.strip_prefix(&root).map(Utf8Path::to_owned).unwrap_or(whole)
}

/// Where work directories are made.
pub(super) fn temp_dir() -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_| Utf8PathBuf::from("/tmp"))
}
