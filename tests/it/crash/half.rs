//! Terraform has an object in its state before it provisions it: who is killed in between leaves half an object.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

use crate::harness::database::Database;
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::stage::{Gates, assert_tidy};

on_both_databases!(
    provisioners_that_die_with_kl_and_terraform_begin_anew,
    provisioners_that_die_with_terraform_begin_anew,
    a_torn_state_does_not_hide_that_kl_and_terraform_died_while_they_worked,
    a_torn_state_does_not_hide_that_terraform_died_while_they_worked,
);

/// While `slow` is provisioned, `quick` is done, and Terraform writes down both.
const SIDE_BY_SIDE: &str = r#"
variable "gates" {}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "touch ${var.gates}/begun; while [ -e ${var.gates}/apply ]; do sleep 0.02; done; echo made >> ${var.gates}/made"
  }
}
resource "terraform_data" "quick" {
  provisioner "local-exec" {
    command = "until [ -e ${var.gates}/begun ]; do sleep 0.02; done"
  }
}
"#;

fn provisioners_that_die_with_kl_and_terraform_begin_anew(database: &Database) {
    cut_off(database, true, false);
}

fn provisioners_that_die_with_terraform_begin_anew(database: &Database) {
    cut_off(database, false, false);
}

fn a_torn_state_does_not_hide_that_kl_and_terraform_died_while_they_worked(database: &Database) {
    cut_off(database, true, true);
}

fn a_torn_state_does_not_hide_that_terraform_died_while_they_worked(database: &Database) {
    cut_off(database, false, true);
}

/// The same apply once more finds the object in the state, as tainted as Terraform itself would have left it; also where the
/// state is torn, and what is on record was taken before anybody heard of provisioners.
fn cut_off(database: &Database, kl_too: bool, torn: bool) {
    let site = Site::on(database);
    site.write("live/main.tf", SIDE_BY_SIDE);
    let gates = Gates::new(&site);
    let spec = site.path("spec.json").into_string();
    let kl = |args: &[&str]| site.kl().args(args.iter().copied());
    let var = gates.var();
    drop(kl(&["plan", "live", "--out", &spec, "--var", &var]).exits(0));
    gates.close("apply");
    let running = kl(&["apply", &spec, "--dir", "live", "--var", &var]).spawn();
    let kept = "SELECT state FROM run_checkpoints";
    wait_until("both are on record", Duration::from_mins(1), || {
        let states = database.rows(kept).into_iter().flatten().flatten();
        states.into_iter().any(|text| text.contains("slow") && text.contains("quick")).then_some(())
    });
    let group = database.value("SELECT max(process_group) FROM run_workplaces").unwrap();
    let group = Pid::from_raw(group.parse().unwrap());
    if torn {
        killpg(group, Signal::SIGSTOP).unwrap();
        let dir = database.value("SELECT max(dir) FROM run_workplaces").unwrap();
        fs::write(format!("{dir}/state/terraform.tfstate"), "{\"version\": 4,").unwrap();
        let marked = r#""status": "tainted","#;
        let on_record = database.value(kept).unwrap();
        assert!(on_record.contains(marked), "{on_record}");
        database.execute(&format!("UPDATE run_checkpoints SET state = replace(state, '{marked}', '')"));
    }
    if kl_too {
        running.signal(Signal::SIGKILL);
    }
    killpg(group, Signal::SIGKILL).unwrap();
    let (status, said) = running.ends();
    assert_eq!(status.code(), (!kl_too).then_some(1), "{said:?}");
    gates.open("apply");

    let said = kl(&["apply", &spec, "--dir", "live", "--var", &var]).exits(0);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("terraform_data.slow") && !told.contains("had done all of it"), "{told}");
    assert_eq!(fs::read_to_string(site.path("gates/made")).unwrap(), "made\n", "{told}");
    let pulled = kl(&["state", "pull", "live"]).exits(0).stdout;
    assert!(pulled.contains("quick") && !pulled.contains("tainted"), "{pulled}");
    assert_tidy(database, 2);
}
