//! A repository in a temporary directory, and the real Terraform to run in a mirror of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail their test")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use kl_runner::terraform::{
    ApplyRequest, Dirs, Environment, LocateRequest, PlanRequest, Stop, Terraform, TerraformError, UiEvent,
};
use kl_runner::workspace::{Workspace, WorkspaceRequest};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::terraform::GO;

/// Directories of one test, removed at its end.
pub(crate) struct Lab {
    temp: TempDir,
}

impl Lab {
    /// A repository `repo` with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let lab = Self { temp: tempfile::tempdir().unwrap() };
        fs::create_dir_all(lab.path("repo/.git")).unwrap();
        fs::create_dir_all(lab.path("tmp")).unwrap();
        for (path, text) in files {
            lab.write(&format!("repo/{path}"), text);
        }
        lab
    }

    pub(crate) fn path(&self, path: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.temp.path()).unwrap().canonicalize_utf8().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// An executable shell script.
    pub(crate) fn script(&self, path: &str, text: &str) -> Utf8PathBuf {
        self.write(path, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        self.path(path)
    }

    /// A work directory for `repo/DIR`.
    pub(crate) fn workspace(&self, dir: &str, name: &str) -> Workspace {
        Workspace::create(&self.request(dir, name)).unwrap()
    }

    pub(crate) fn request(&self, dir: &str, name: &str) -> WorkspaceRequest {
        WorkspaceRequest {
            parent: self.path("tmp"),
            root_module: self.path("repo").join(dir),
            extra_roots: Vec::new(),
            workspace: name.to_owned(),
            database: None,
        }
    }

    /// The real Terraform.
    pub(crate) async fn terraform(&self) -> Terraform {
        self.locate(None, environment()).await.expect("the tests need Terraform 1.10 or newer on PATH: install it from https://developer.hashicorp.com/terraform/install")
    }

    pub(crate) async fn locate(
        &self,
        program: Option<&str>,
        environment: Environment,
    ) -> Result<Terraform, TerraformError> {
        let (dir, cache) = (self.path("repo"), self.path("cache"));
        Terraform::locate(LocateRequest { program, dir: &dir, environment, plugin_cache: Some(&cache) }).await
    }

    /// The names in the directory for work directories.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// The test's environment without Terraform's variables.
pub(crate) fn environment() -> Environment {
    let inherited = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("TF_"));
    inherited.chain(GO.map(|(name, value)| (name.into(), value.into()))).collect()
}

/// The test's environment with these variables.
pub(crate) fn environment_with(variables: &[(&str, &str)]) -> Environment {
    let mut environment = environment();
    for (name, value) in variables {
        environment.set(OsString::from(name), OsString::from(value));
    }
    environment
}

pub(crate) fn dirs(workspace: &Workspace) -> Dirs {
    Dirs {
        checkout_dir: workspace.checkout_dir().to_owned(),
        root_module_dir: workspace.root_module_dir().to_owned(),
        data_dir: workspace.data_dir(),
        output_dir: workspace.dir().to_owned(),
        workspace: workspace.workspace().to_owned(),
    }
}

/// Initialises, and does what follows an init.
pub(crate) async fn init(terraform: &Terraform, workspace: &Workspace) {
    terraform.init(&dirs(workspace), &Stop::never()).await.unwrap_or_else(|error| panic!("{error}"));
    workspace.after_init().unwrap();
}

/// Plans, and gives the plan as JSON.
pub(crate) async fn plan(terraform: &Terraform, workspace: &Workspace) -> Value {
    let request = PlanRequest::new(workspace.plan_path());
    terraform
        .plan(&dirs(workspace), &request, &Stop::never(), &mut |_| {})
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let json = terraform.show_json(&dirs(workspace), &workspace.plan_path(), &Stop::never()).await.unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Applies the plan, and gives the events.
pub(crate) async fn apply(
    terraform: &Terraform,
    workspace: &Workspace,
    stop: &Stop,
    mut on_event: impl FnMut(&UiEvent) + Send,
) -> Result<Vec<UiEvent>, TerraformError> {
    let mut events = Vec::new();
    let request = ApplyRequest::new(workspace.plan_path());
    let mut each = |event: UiEvent| {
        on_event(&event);
        events.push(event);
    };
    terraform.apply(&dirs(workspace), &request, stop, &mut each).await?;
    Ok(events)
}

/// The planned values of the outputs.
pub(crate) fn planned_outputs(plan: &Value) -> Value {
    plan["planned_values"]["outputs"].clone()
}
