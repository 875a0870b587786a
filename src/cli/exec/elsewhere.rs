//! Whether Terraform would find kl's state in a directory, or one that is elsewhere: then it would change objects that kl
//! never hears of.

use camino::Utf8Path;

use super::data_dir;
use super::line::Line;
use crate::cli::Session;
use crate::cli::bounded::{self, MAX_TEXT};
use crate::domain::graph::configuration::{self, ModuleConfig, is_configuration};
use crate::error::KlError;

/// The settings of the backend that say where the state is.
const ADDRESSES: [&str; 3] = ["address", "lock_address", "unlock_address"];

/// Refuses a directory where Terraform would not find kl's state.
pub(super) fn check(session: &Session, dir: &Utf8Path, line: &Line<'_>) -> Result<(), KlError> {
    // Errors in the configuration are Terraform's to tell.
    if let Ok(module) = configuration::read(&files(dir)?) {
        check_backend(dir, &module)?;
    }
    check_settings(dir, line)?;
    if line.initialises { Ok(()) } else { check_earlier_init(session, dir) }
}

/// The same for whatever a command does in the directory, which need not have a configuration.
pub(super) fn check_here(session: &Session, dir: &Utf8Path, line: &Line<'_>) -> Result<(), KlError> {
    let files = files(dir)?;
    if let Ok(module) = configuration::read(&files)
        && !files.is_empty()
    {
        check_backend(dir, &module)?;
    }
    check_settings(dir, line)?;
    check_earlier_init(session, dir)
}

fn files(dir: &Utf8Path) -> Result<Vec<(String, String)>, KlError> {
    let unreadable =
        |error: std::io::Error| KlError::usage(format!("cannot read the configuration in {dir}")).because(error);
    let mut files = Vec::new();
    for entry in dir.read_dir_utf8().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if is_configuration(entry.file_name()) {
            let bytes = bounded::file(entry.path(), MAX_TEXT).map_err(unreadable)?;
            files.push((entry.file_name().to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    files.sort();
    Ok(files)
}

fn check_backend(dir: &Utf8Path, module: &ModuleConfig) -> Result<(), KlError> {
    match module.backend.as_deref() {
        Some("http") if module.backend_has_address => Err(KlError::usage(format!(
            "the backend block in {dir} names an address of its own: its state would not be kl's"
        ))
        .hint("leave address, lock_address and unlock_address out; kl gives them in the environment")),
        Some("http") => Ok(()),
        found => {
            let found = found.map_or_else(|| "no backend".to_owned(), |kind| format!("the backend {kind:?}"));
            Err(KlError::usage(format!("the configuration in {dir} has {found}: its state would not be kl's"))
                .hint("write `terraform { backend \"http\" {} }` into it; kl gives the address in the environment"))
        }
    }
}

/// Addresses on the command line, in the arguments that the environment adds to it, or in the files that these name.
fn check_settings(dir: &Utf8Path, line: &Line<'_>) -> Result<(), KlError> {
    for setting in &line.backend_config {
        let (names, what) = match setting.split_once('=') {
            Some((name, _)) => (ADDRESSES.contains(&name.trim()), "-backend-config names".to_owned()),
            None => (holds_address(&dir.join(setting)), format!("-backend-config={setting}: the file names")),
        };
        if names {
            return Err(KlError::usage(format!("{what} an address: the state would not be kl's"))
                .hint("leave it out, also of TF_CLI_ARGS_init; kl gives the addresses in the environment"));
        }
    }
    Ok(())
}

/// Whether a file with settings of the backend says where the state is. It reads as the inside of a backend's block.
fn holds_address(file: &Utf8Path) -> bool {
    // One that cannot be read is Terraform's to tell.
    let Ok(bytes) = bounded::file(file, MAX_TEXT) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    let whole = if file.extension() == Some("json") {
        ("main.tf.json".to_owned(), format!("{{\"terraform\":{{\"backend\":{{\"http\":{text}}}}}}}"))
    } else {
        ("main.tf".to_owned(), format!("terraform {{\nbackend \"http\" {{\n{text}\n}}\n}}\n"))
    };
    configuration::read(&[whole]).is_ok_and(|module| module.backend_has_address)
}

/// An address from an earlier `terraform init -backend-config=address=…` counts for more than the environment.
fn check_earlier_init(session: &Session, dir: &Utf8Path) -> Result<(), KlError> {
    let known = data_dir(session, dir).join("terraform.tfstate");
    let text = bounded::file(&known, MAX_TEXT).unwrap_or_default();
    let known: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let address = |name: &str| known["backend"]["config"][name].as_str().is_some_and(|text| !text.is_empty());
    if known["backend"]["type"] == "http" && ADDRESSES.into_iter().any(address) {
        return Err(KlError::usage(format!(
            "an earlier init in {dir} has given the backend an address of its own: the state would not be kl's"
        ))
        .hint("`kl exec -- terraform init -reconfigure` forgets it; `kl state adopt` brings that state in before"));
    }
    Ok(())
}
