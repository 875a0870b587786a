//! Stages of a run that a test can hold: a gate in front of or behind a verb of the real Terraform, or in the midst of
//! an apply.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::harness::wait_until;

/// Nothing that a test waits for takes so long.
const LIMIT: Duration = Duration::from_mins(1);

/// `first` is made at once, `slow` waits for the gate named `apply`, and `later` comes after it.
pub(crate) const CHAIN: &str = r#"
variable "value" { default = 1 }
variable "gates" {}
resource "terraform_data" "first" { input = var.value }
resource "terraform_data" "slow" {
  input            = var.value
  triggers_replace = [var.value]
  depends_on       = [terraform_data.first]
  provisioner "local-exec" {
    command = "while [ -e ${var.gates}/apply ]; do touch ${var.gates}/apply.reached; sleep 0.02; done"
  }
}
resource "terraform_data" "later" {
  input      = var.value
  depends_on = [terraform_data.slow]
}
"#;

/// The gates of a site.
pub(crate) struct Gates {
    dir: Utf8PathBuf,
    script: Utf8PathBuf,
}

impl Gates {
    /// Makes them, all open. The script that [`Gates::on`] has kl run in place of Terraform waits at the gate `VERB`
    /// before Terraform runs, and at `VERB.done` after it.
    pub(crate) fn new(site: &Site) -> Self {
        let dir = site.path("gates");
        fs::create_dir(&dir).unwrap();
        let script = site.path("held-terraform");
        let terraform = program();
        let text = format!(
            r#"#!/bin/sh
verb=
for arg; do case $arg in -*) ;; *) verb=$arg; break ;; esac; done
hold() {{
  while [ -e "{dir}/$1" ]; do touch "{dir}/$1.reached"; sleep 0.02; done
}}
if [ "$verb" != apply ]; then hold "$verb"; fi
"{terraform}" "$@"
code=$?
hold "$verb.done"
exit $code
"#
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, script }
    }

    /// Closes a gate.
    pub(crate) fn close(&self, name: &str) {
        drop(fs::remove_file(self.dir.join(format!("{name}.reached"))));
        fs::write(self.dir.join(name), "").unwrap();
    }

    /// Opens a gate.
    pub(crate) fn open(&self, name: &str) {
        fs::remove_file(self.dir.join(name)).unwrap();
    }

    /// Waits until somebody stands at a closed gate.
    pub(crate) fn reached(&self, name: &str) {
        let path = self.dir.join(format!("{name}.reached"));
        wait_until(&format!("somebody stands at {name}"), LIMIT, || path.exists().then_some(()));
    }

    /// `-var` of kl and Terraform that names the directory of the gates.
    pub(crate) fn var(&self) -> String {
        format!("gates={}", self.dir)
    }

    /// Has kl run the script in place of Terraform.
    pub(crate) fn on(&self, kl: Kl) -> Kl {
        kl.env("KL_TERRAFORM", self.script.as_str())
    }
}

impl Drop for Gates {
    /// Nobody is left standing when a test fails.
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// The document of `kl status` for the only state.
pub(crate) fn status(site: &Site) -> Value {
    site.kl().args(["status", "--format", "json"]).exits(0).json()["states"][0].clone()
}

/// The runs with this status, oldest first.
pub(crate) fn runs(database: &Database, status: &str) -> Vec<String> {
    let sql = format!("SELECT CAST(id AS text) FROM runs WHERE status = '{status}' ORDER BY started_at, id");
    database.rows(&sql).into_iter().filter_map(|mut row| row.remove(0)).collect()
}

/// Waits until so many runs have this status.
pub(crate) fn wait_for_runs(database: &Database, status: &str, count: usize) {
    wait_until(&format!("{count} runs are {status}"), LIMIT, || (runs(database, status).len() == count).then_some(()));
}

/// That nothing is reserved, nothing runs, and serials are consecutive from 1.
#[track_caller]
pub(crate) fn assert_tidy(database: &Database, newest: usize) {
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0", "reservations");
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL"), "0", "live runs");
    let serials: Vec<String> =
        database.rows("SELECT serial FROM state_versions ORDER BY serial").into_iter().flatten().flatten().collect();
    assert_eq!(serials, (1..=newest).map(|serial| serial.to_string()).collect::<Vec<_>>());
}
