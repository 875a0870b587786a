//! The Terraform binary as a process: found, asked, stopped, and nothing of it left.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail their test")]

mod caching;
mod hearing;
mod locating;
mod stopping;

use std::time::Duration;

use camino::Utf8PathBuf;
use kl_runner::terraform::{PlanRequest, Stop, TerraformError};

use crate::lab::{Lab, dirs, environment};

/// Where the tests' own Terraform is.
fn real_terraform() -> Utf8PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|dir| dir.join("terraform")).find(|program| program.is_file());
    Utf8PathBuf::from_path_buf(found.expect("the tests need Terraform on PATH")).unwrap()
}

/// With this grace as soon as it is asked.
fn stop(grace: Duration) -> Stop {
    let stop = Stop { grace, ..Stop::never() };
    stop.soon.cancel();
    stop
}

/// A stand-in that answers `version` and otherwise does something.
fn fake(lab: &Lab, path: &str, version: &str, otherwise: &str) -> Utf8PathBuf {
    lab.script(
        path,
        &format!("case \"$*\" in version*) echo '{{\"terraform_version\":\"{version}\"}}'; exit;; esac\n{otherwise}"),
    )
}

async fn run_fake(lab: &Lab, otherwise: &str, stop: &Stop) -> Result<(), TerraformError> {
    let program = fake(lab, "bin/terraform", "1.9.0", otherwise);
    let terraform = lab.locate(Some(program.as_str()), environment()).await.unwrap();
    let workspace = lab.workspace("", "default");
    terraform.plan(&dirs(&workspace), &PlanRequest::new("p"), stop, &mut |_| {}).await.map(|_| ())
}
