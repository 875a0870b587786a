//! The override file that forces a local backend, and the proof after init that it did.
//!
//! Terraform merges override files in the order of their names, by bytes, and the last one wins over `backend`, `cloud`
//! and JSON syntax alike. So ours must sort after everything that a repository has.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use super::error::WorkspaceError;
use crate::domain::address::quoted;

/// The override's name: U+10FFFD is the last character that Unicode allows in a text.
pub const OVERRIDE_FILE: &str = "\u{10FFFD}kl_override.tf";

/// The endings of an override file's name, in Terraform and OpenTofu.
const OVERRIDE_ENDINGS: [&str; 4] = ["override.tf", "override.tf.json", "override.tofu", "override.tofu.json"];

/// Writes the override into the mirror's root module.
pub(super) fn write_override(root_module_dir: &Utf8Path, state_dir: &Utf8Path) -> Result<(), WorkspaceError> {
    let path = root_module_dir.join(OVERRIDE_FILE);
    let text = format!(
        "# Written by kl: this run works on a slice of the state, in a file.\n\
         terraform {{\n  backend \"local\" {{\n    path          = {}\n    workspace_dir = {}\n  }}\n}}\n",
        quoted(default_state(state_dir).as_str()),
        quoted(workspaces(state_dir).as_str()),
    );
    fs::write(&path, text).map_err(|error| WorkspaceError::io("write", &path, error))
}

/// Where the local backend keeps the state of a Terraform workspace.
pub(super) fn state_path(state_dir: &Utf8Path, workspace: &str) -> Utf8PathBuf {
    if workspace == "default" {
        default_state(state_dir)
    } else {
        workspaces(state_dir).join(workspace).join("terraform.tfstate")
    }
}

fn default_state(state_dir: &Utf8Path) -> Utf8PathBuf {
    state_dir.join("terraform.tfstate")
}

fn workspaces(state_dir: &Utf8Path) -> Utf8PathBuf {
    state_dir.join("workspaces")
}

/// What init remembers of the backend; none when the configuration has no backend at all.
#[derive(Deserialize)]
struct Remembered {
    backend: Option<Backend>,
}

/// A backend's type and the part of its settings that matters here.
#[derive(Deserialize)]
struct Backend {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    config: serde_json::Value,
}

/// Makes sure, after init, that the local backend with our path is in use.
pub(super) fn verify_local(
    root_module_dir: &Utf8Path,
    data_dir: &Utf8Path,
    state_dir: &Utf8Path,
) -> Result<(), WorkspaceError> {
    let file = data_dir.join("terraform.tfstate");
    let text = fs::read_to_string(&file).map_err(|error| WorkspaceError::io("read", &file, error))?;
    let remembered = serde_json::from_str::<Remembered>(&text).ok().and_then(|remembered| remembered.backend);
    let expected = default_state(state_dir);
    let found = match &remembered {
        Some(backend) if backend.kind == "local" => {
            let path = backend.config.get("path").and_then(serde_json::Value::as_str).unwrap_or_default();
            if path == expected {
                return Ok(());
            }
            "a local backend with another path".to_owned()
        }
        Some(backend) => format!("the backend {:?}", backend.kind),
        None => "no backend that kl knows".to_owned(),
    };
    Err(WorkspaceError::OtherBackend { dir: root_module_dir.to_owned(), found, suspect: suspects(root_module_dir) })
}

/// Override files that sort after ours.
fn suspects(root_module_dir: &Utf8Path) -> String {
    let entries = root_module_dir.read_dir_utf8().into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name.as_str() > OVERRIDE_FILE && OVERRIDE_ENDINGS.iter().any(|ending| name.ends_with(ending)))
        .map(|name| format!("{name:?}"))
        .collect();
    names.sort();
    if names.is_empty() { "the override files there".to_owned() } else { names.join(", ") }
}
