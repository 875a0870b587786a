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

/// Those that say how it is asked for, and by whom. With `DELETE` as its method, to unlock is to remove the state.
const WAYS: [&str; 5] = ["lock_method", "unlock_method", "update_method", "username", "password"];

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
        Some("http") => refuse(&format!("the backend block in {dir}"), &kls(&module.backend_sets), |names| {
            format!("leave {names} out; kl gives all of that in the environment")
        }),
        found => {
            let found = found.map_or_else(|| "no backend".to_owned(), |kind| format!("the backend {kind:?}"));
            Err(KlError::usage(format!("the configuration in {dir} has {found}: its state would not be kl's"))
                .hint("write `terraform { backend \"http\" {} }` into it; kl gives the address in the environment"))
        }
    }
}

/// Which of these settings are for kl to give: each would count for more than the environment.
fn kls(set: &[String]) -> Vec<&'static str> {
    ADDRESSES.into_iter().chain(WAYS).filter(|name| set.iter().any(|set| set == name)).collect()
}

fn refuse(who: &str, names: &[&str], hint: impl Fn(&str) -> String) -> Result<(), KlError> {
    if names.is_empty() {
        return Ok(());
    }
    let why = if names.iter().any(|name| ADDRESSES.contains(name)) {
        "the state would not be kl's"
    } else {
        "kl's backend would not be asked as it has to be"
    };
    let names = names.join(", ");
    Err(KlError::usage(format!("{who} sets {names}, which counts for more than what kl gives: {why}"))
        .hint(hint(&names)))
}

/// Such settings on the command line, in the arguments that the environment adds to it, or in the files that these name.
fn check_settings(dir: &Utf8Path, line: &Line<'_>) -> Result<(), KlError> {
    for setting in &line.backend_config {
        let (sets, who) = match setting.split_once('=') {
            Some((name, _)) => (vec![name.trim().to_owned()], "-backend-config".to_owned()),
            None => (settings_in(&dir.join(setting)), format!("-backend-config={setting}: the file")),
        };
        refuse(&who, &kls(&sets), |names| {
            format!("leave {names} out, also of TF_CLI_ARGS_init; kl gives all of that in the environment")
        })?;
    }
    Ok(())
}

/// What a file with settings of the backend sets. It reads as the inside of a backend's block.
fn settings_in(file: &Utf8Path) -> Vec<String> {
    // One that cannot be read is Terraform's to tell.
    let Ok(bytes) = bounded::file(file, MAX_TEXT) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let whole = if file.extension() == Some("json") {
        ("main.tf.json".to_owned(), format!("{{\"terraform\":{{\"backend\":{{\"http\":{text}}}}}}}"))
    } else {
        ("main.tf".to_owned(), format!("terraform {{\nbackend \"http\" {{\n{text}\n}}\n}}\n"))
    };
    configuration::read(&[whole]).map(|module| module.backend_sets).unwrap_or_default()
}

/// What an earlier `terraform init -backend-config=address=…` was told counts for more than the environment.
fn check_earlier_init(session: &Session, dir: &Utf8Path) -> Result<(), KlError> {
    let known = data_dir(session, dir).join("terraform.tfstate");
    let text = bounded::file(&known, MAX_TEXT).unwrap_or_default();
    let known: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    if known["backend"]["type"] != "http" {
        return Ok(());
    }
    let config = known["backend"]["config"].as_object();
    let set = config.into_iter().flatten().filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()));
    let set: Vec<String> = set.map(|(name, _)| name.clone()).collect();
    refuse(&format!("an earlier init in {dir}"), &kls(&set), |names| {
        format!(
            "`kl exec -- terraform init -reconfigure` forgets {names}; `kl state adopt` brings in before what lies at another address"
        )
    })
}
