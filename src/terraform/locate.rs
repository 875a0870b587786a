//! Finding the real Terraform or OpenTofu binary, and refusing what will not do.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::time::timeout;

use super::command::Invocation;
use super::environment::Environment;
use super::error::TerraformError;
use super::process::{Output, Stop, run};
use super::version::{
    MINIMUM_TERRAFORM, MINIMUM_TOFU, Product, REASON_TERRAFORM, REASON_TOFU, Version, from_json, from_text,
};

/// A program that answered as Terraform or OpenTofu of a sufficient version.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) program: Utf8PathBuf,
    pub(super) version: Version,
    pub(super) product: Product,
    pub(super) script: bool,
}

/// `version` takes a tenth of a second; some wrappers download a Terraform first.
const VERSION_LIMIT: Duration = Duration::from_mins(2);

/// Where the set-up actions of Terraform and OpenTofu tell that they have put the program behind a wrapper.
const SETUP_DIRS: [(&str, &str); 2] = [("TERRAFORM_CLI_PATH", "terraform"), ("TOFU_CLI_PATH", "tofu")];

/// Finds the program and asks it for its version, in `dir` (version managers choose by directory).
pub(super) async fn locate(
    wanted: Option<&str>,
    dir: &Utf8Path,
    environment: &Environment,
) -> Result<Located, TerraformError> {
    let program = find(wanted, dir, environment)?;
    let script = is_script(&program);
    let ask = |args: &[&str]| Invocation {
        program: program.clone(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        environment: environment.clone(),
        dir: dir.to_owned(),
        script,
    };
    // One process where its words are the usual ones; a program that words them differently may still know the JSON form.
    let text = answer(&ask(&["version"])).await?;
    let (product, version) = match from_text(&text.output) {
        Some(told) => told,
        None => match from_json(&answer(&ask(&["version", "-json"])).await?.output) {
            Some(version) => (Product::Terraform, version),
            None => return Err(TerraformError::NotTerraform { program, said: text.first_line() }),
        },
    };
    let (minimum, reason) = match product {
        Product::Terraform => (MINIMUM_TERRAFORM, REASON_TERRAFORM),
        Product::OpenTofu => (MINIMUM_TOFU, REASON_TOFU),
    };
    if !version.at_least(minimum) {
        let (version, minimum) = (format!("{product} {version}"), format!("{product} {minimum}"));
        return Err(TerraformError::TooOld { program, version, minimum, reason });
    }
    Ok(Located { program, version, product, script })
}

/// What a program wrote.
struct Answer {
    output: String,
    errors: String,
}

impl Answer {
    /// The first line that says something, shortened: it may be anything.
    fn first_line(&self) -> String {
        let line = self.output.lines().chain(self.errors.lines()).map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(|| "(nothing)".to_owned(), |line| line.chars().take(200).collect())
    }
}

async fn answer(invocation: &Invocation) -> Result<Answer, TerraformError> {
    let ended = timeout(VERSION_LIMIT, run(invocation, &Stop::never(), Output::Capture))
        .await
        .map_err(|_elapsed| TerraformError::TimedOut { command: invocation.name(), after: VERSION_LIMIT })??;
    Ok(Answer { output: String::from_utf8_lossy(&ended.stdout).into_owned(), errors: ended.stderr })
}

/// The program: the one that is asked for, else what a set-up action installed, else `terraform`, else `tofu`.
fn find(wanted: Option<&str>, dir: &Utf8Path, environment: &Environment) -> Result<Utf8PathBuf, TerraformError> {
    if let Some(wanted) = wanted {
        if wanted.contains('/') {
            let program = dir.join(wanted);
            return match program.metadata() {
                Ok(_) => executable(program).map(without_wrapper),
                Err(_) => Err(TerraformError::NotFound { looked_for: format!("there is no {program}") }),
            };
        }
        return on_path(wanted, environment)?
            .map(without_wrapper)
            .ok_or_else(|| TerraformError::NotFound { looked_for: format!("{wanted} is not on PATH") });
    }
    for (variable, name) in SETUP_DIRS {
        if let Some(setup) = environment.get(variable).and_then(|value| value.to_str()) {
            let program = Utf8Path::new(setup).join(name);
            if program.is_file() {
                return executable(program).map(without_wrapper);
            }
        }
    }
    for name in ["terraform", "tofu"] {
        if let Some(program) = on_path(name, environment)? {
            return Ok(without_wrapper(program));
        }
    }
    Err(TerraformError::NotFound { looked_for: "neither terraform nor tofu is on PATH".to_owned() })
}

/// Looks through PATH. Relative entries are left out: they would name another program in each directory.
fn on_path(name: &str, environment: &Environment) -> Result<Option<Utf8PathBuf>, TerraformError> {
    let path = environment.get("PATH").unwrap_or_default();
    let mut refused = None;
    for dir in std::env::split_paths(path) {
        let Ok(dir) = Utf8PathBuf::from_path_buf(dir) else { continue };
        let program = dir.join(name);
        if dir.is_absolute() && program.is_file() {
            match executable(program) {
                Ok(program) => return Ok(Some(program)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

fn executable(program: Utf8PathBuf) -> Result<Utf8PathBuf, TerraformError> {
    let runs = program.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if runs { Ok(program) } else { Err(TerraformError::NotExecutable { program }) }
}

/// The real program behind the wrapper of a set-up action: a script `terraform` with the binary `terraform-bin` beside it.
/// The wrapper changes exit codes, adds lines to the output, does not pass signals on, and copies what is printed (the
/// plan's secrets) to the job's outputs.
fn without_wrapper(program: Utf8PathBuf) -> Utf8PathBuf {
    let Some(name) = program.file_name() else { return program };
    let real = program.with_file_name(format!("{name}-bin"));
    if is_script(&program) { executable(real).unwrap_or(program) } else { program }
}

fn is_script(program: &Utf8Path) -> bool {
    let mut start = [0; 2];
    File::open(program).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}
