//! Downloaded modules: put where they are in a checkout.
//!
//! `path.module` of a downloaded module is the directory that init put it in: `.terraform/modules/NAME` in a checkout, and
//! an absolute path when the data directory is elsewhere. Configurations store it (the `source` of an uploaded file),
//! so it would be a change in every plan. The modules are moved to where they are in a checkout; the rest of
//! the data directory stays outside the configuration's tree.

use std::fs;
use std::io;

use camino::Utf8Path;
use serde_json::Value;

use super::copy::make_private_dir;
use super::error::WorkspaceError;

/// Where modules are in a checkout.
const IN_CHECKOUT: &str = ".terraform/modules";

/// Moves what init has downloaded, and tells Terraform. Does nothing when all modules are local.
pub(super) fn adopt(root_module_dir: &Utf8Path, data_dir: &Utf8Path) -> Result<(), WorkspaceError> {
    let downloaded = data_dir.join("modules");
    let manifest = downloaded.join("modules.json");
    let text = match fs::read_to_string(&manifest) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(WorkspaceError::io("read", &manifest, error)),
    };
    let broken = |error: serde_json::Error| WorkspaceError::io("understand", &manifest, error.into());
    let mut document: Value = serde_json::from_str(&text).map_err(broken)?;
    let modules = document.get_mut("Modules").and_then(Value::as_array_mut).into_iter().flatten();
    let mut moved = false;
    for dir in modules.filter_map(|module| module.get_mut("Dir")) {
        let inside = dir.as_str().and_then(|dir| Utf8Path::new(dir).strip_prefix(&downloaded).ok());
        if let Some(inside) = inside {
            *dir = Value::String(Utf8Path::new(IN_CHECKOUT).join(inside).into_string());
            moved = true;
        }
    }
    if !moved {
        return Ok(());
    }
    let home = root_module_dir.join(IN_CHECKOUT);
    for dir in [home.parent().unwrap_or(root_module_dir), &home] {
        if !dir.exists() {
            make_private_dir(dir)?;
        }
    }
    let entries = downloaded.read_dir_utf8().map_err(|error| WorkspaceError::io("list", &downloaded, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| WorkspaceError::io("list", &downloaded, error))?;
        if entry.path() != manifest {
            let to = home.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(|error| WorkspaceError::io("move", entry.path(), error))?;
        }
    }
    let text = serde_json::to_string(&document).map_err(broken)?;
    fs::write(&manifest, text).map_err(|error| WorkspaceError::io("write", &manifest, error))
}
