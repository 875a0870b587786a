//! What an apply left behind is recovered on the way of the same spec, whoever else is at work.

use std::time::Duration;

use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::stage::{Gates, assert_tidy};

on_both_databases!(what_is_left_is_recovered_though_somebody_else_has_to_be_waited_for);

/// `base` waits at a gate when it is made, and `two` fails while there is a file.
const CONFIG: &str = r#"
variable "gates" {}
variable "value" { default = 1 }
resource "terraform_data" "base" {
  provisioner "local-exec" {
    command = "while [ -e ${var.gates}/apply ]; do touch ${var.gates}/apply.reached; sleep 0.02; done"
  }
}
resource "terraform_data" "one" {
  input      = var.value
  depends_on = [terraform_data.base]
}
resource "terraform_data" "two" {
  triggers_replace = [terraform_data.one.output]
  provisioner "local-exec" { command = "test ! -e ${var.gates}/fail" }
}
"#;

fn what_is_left_is_recovered_though_somebody_else_has_to_be_waited_for(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CONFIG);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    let kl = || -> Kl { site.kl().args(["apply"]) };
    drop(kl().args(["live", "--auto-approve", &var]).exits(0));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", &var, "--var=value=2", "--out", &spec]).exits(0));
    let apply = || kl().args([&spec, "--dir", "live", &var, "--var=value=2"]);
    gates.close("fail");
    drop(apply().exits(1));
    gates.open("fail");
    // Somebody is at work on what the rest of the spec only reads.
    gates.close("apply");
    let other = ["live", "--auto-approve", &var, "--replace", "terraform_data.base", "--target", "terraform_data.base"];
    let other = kl().args(other).spawn();
    gates.reached("apply");
    let again = apply().args(["--wait", "1m", "--on-stale", "revalidate"]).spawn();
    // The recovery does not wait for the other one, and the apply does.
    let recovered = "SELECT count(*) FROM runs WHERE kind = 'recover' AND status = 'committed'";
    wait_until("what was left is recovered", Duration::from_mins(1), || {
        (database.value(recovered).as_deref() == Some("1")).then_some(())
    });
    let events = "SELECT count(*) FROM run_events WHERE kind = 'waiting'";
    wait_until("the apply waits for the other one", Duration::from_mins(1), || {
        (database.value(events).as_deref() == Some("1")).then_some(())
    });
    gates.open("apply");
    drop(other.exits(0));
    drop(again.exits(0));
    assert_tidy(database, 4);
}
