//! What an apply leaves running: a provider that outlives a killed Terraform is ended, what a provisioner has started in
//! order to stay is left in peace, and neither stands in the way.

use std::fs;
use std::time::Duration;

use camino::Utf8PathBuf;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::harness::database::Database;
use crate::harness::providers::{KLT, Object, needs};
use crate::harness::site::Site;
use crate::harness::wait_until;
use crate::stage::{Gates, assert_tidy, status};

on_both_databases!(
    a_provider_that_outlives_terraform_is_ended_and_its_object_named,
    what_a_provisioner_has_started_lives_on_and_is_in_nobodys_way,
    what_was_only_read_is_not_what_a_failed_run_has_changed,
    what_changed_without_having_been_planned_is_kept_reserved,
);

fn klt_file(site: &Site, name: &str, more: &str) -> String {
    let path = site.path(format!("objects/{name}.json"));
    format!("resource \"klt_file\" \"{name}\" {{\n path = \"{path}\"\n content = \"x\"\n{more}}}\n")
}

fn with_klt(resources: &str) -> String {
    format!("terraform {{\n required_providers {{\n {KLT}\n }}\n}}\n{resources}")
}

fn group_of(database: &Database) -> Pid {
    let group = database.value("SELECT max(process_group) FROM run_workplaces").unwrap();
    Pid::from_raw(group.parse().unwrap())
}

fn a_provider_that_outlives_terraform_is_ended_and_its_object_named(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let object = |name: &str| Object::at(site.path(format!("objects/{name}.json")));
    site.write(
        "live/main.tf",
        &with_klt(&(klt_file(&site, "a", "") + &klt_file(&site, "b", " depends_on = [klt_file.a]\n"))),
    );
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    object("b").hold();
    let running = site.kl().args(["apply", &spec, "--dir", "live"]).spawn();
    object("b").wait_for("create begin");
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'applying'").unwrap();
    wait_until("the first object is on record", Duration::from_secs(20), || {
        let kept = "SELECT count(*) FROM run_checkpoints WHERE CAST(changed AS text) LIKE '%klt_file.a%'";
        (database.value(kept).as_deref() == Some("1")).then_some(())
    });
    let group = group_of(database);
    running.signal(Signal::SIGKILL);
    drop(running.ends());
    // Terraform alone, not its group.
    kill(group, Signal::SIGKILL).unwrap();
    drop(site.kl().args(["abort", &run]).exits(0));
    // Nothing is made twice on the way; and the provider does not go on either.
    let said = site.kl().args(["apply", &spec, "--dir", "live"]).exits(2).stderr;
    assert!(said.contains("klt_file.b") && said.contains(&format!("kl recover {run}")), "{said}");
    assert!(said.contains("was still at work, and is ended now"), "{said}");
    wait_until("the group is gone", Duration::from_secs(5), || killpg(group, None).is_err().then_some(()));
    object("b").release();
    let told = site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(told.contains("klt_file.b was being created"), "{told}");
    assert_eq!(object("b").read(), None);
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0));
    assert_tidy(database, 2);
    // The provider's own temporary directory is nothing that kl could know.
    assert!(site.leftovers().iter().all(|name| !name.starts_with("kl-")), "{:?}", site.leftovers());
}

/// A program that a provisioner starts in order to stay.
struct Tunnel {
    pid_file: Utf8PathBuf,
}

impl Tunnel {
    fn resource(site: &Site) -> (Self, String) {
        let pid_file = site.path("tunnel.pid");
        let start = format!("nohup sleep 300 >/dev/null 2>&1 & echo $! > {pid_file}");
        let resource = format!(
            "resource \"terraform_data\" \"tunnel\" {{\n provisioner \"local-exec\" {{ command = \"{start}\" }}\n}}\n"
        );
        (Self { pid_file }, resource)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(fs::read_to_string(&self.pid_file).unwrap().trim().parse().unwrap())
    }

    fn lives(&self) -> bool {
        kill(self.pid(), None).is_ok()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if self.pid_file.exists() {
            let _ = kill(self.pid(), Signal::SIGKILL);
        }
    }
}

fn what_a_provisioner_has_started_lives_on_and_is_in_nobodys_way(database: &Database) {
    let site = Site::on(database);
    let gates = Gates::new(&site);
    let (tunnel, resource) = Tunnel::resource(&site);
    site.write("live/main.tf", &resource);
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    assert!(tunnel.lives());
    // The same beside an apply whose kl is killed, and whose Terraform finishes alone.
    let slow = "variable \"gates\" {}\nresource \"terraform_data\" \"slow\" {\n depends_on = [terraform_data.tunnel]\n \
                provisioner \"local-exec\" {\n  command = \"while [ -e ${var.gates}/apply ]; do touch \
                ${var.gates}/apply.reached; sleep 0.02; done\"\n }\n}\nresource \"terraform_data\" \"later\" {\n \
                depends_on = [terraform_data.slow]\n}\n";
    let again = resource.replacen("{\n", "{\n triggers_replace = 1\n", 1);
    site.write("live/main.tf", &format!("{again}{slow}"));
    let _ = kill(tunnel.pid(), Signal::SIGKILL);
    let (spec, var) = (site.path("spec.json").into_string(), format!("--var={}", gates.var()));
    drop(site.kl().args(["plan", "live", &var, "--out", &spec]).exits(0));
    gates.close("apply");
    let apply = || site.kl().args(["apply", &spec, "--dir", "live", &var]);
    let running = apply().args(["--lease", "1s"]).spawn();
    gates.reached("apply");
    running.signal(Signal::SIGKILL);
    drop(running.ends());
    gates.open("apply");
    let said = apply().args(["--wait", "1m"]).exits(0);
    assert!(said.stdout.contains("an earlier apply of the spec had done all of it"), "{said:?}");
    assert!(tunnel.lives());
    assert_tidy(database, 2);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn what_was_only_read_is_not_what_a_failed_run_has_changed(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let base = klt_file(&site, "base", " lifecycle {\n  ignore_changes = [content]\n }\n");
    site.write("live/main.tf", &with_klt(&base));
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    Object::at(site.path("objects/base.json")).edit("by hand");
    let made = "resource \"terraform_data\" \"made\" {\n input = klt_file.base.id\n}\n";
    let bad = "resource \"terraform_data\" \"bad\" {\n input = terraform_data.made.id\n provisioner \"local-exec\" { \
               command = \"exit 1\" }\n}\n";
    site.write("live/main.tf", &with_klt(&format!("{base}{made}{bad}")));
    let said = site.kl().args(["apply", "live", "--auto-approve"]).exits(1).stderr;
    let told: Vec<&str> = said.lines().filter(|line| line.contains("kept reserved")).collect();
    assert!(told.iter().all(|line| !line.contains("klt_file.base")) && !told.is_empty(), "{said}");
    let kept = status(&site)["reservations"].to_string();
    assert!(kept.contains("terraform_data.made") && !kept.contains("klt_file.base"), "{kept}");
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").unwrap();
    let told = site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(told.contains("Recovered 2 rows"), "{told}");
    // What somebody has changed by hand is taken over by those who refresh, and by nobody else.
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert!(!state.contains("by hand"), "{state}");
}

fn what_changed_without_having_been_planned_is_kept_reserved(database: &Database) {
    let site = Site::on(database);
    let gates = Gates::new(&site);
    let base = "resource \"terraform_data\" \"base\" {\n input = \"planned\"\n}\n";
    site.write("live/main.tf", base);
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    let made = "resource \"terraform_data\" \"made\" {\n input = terraform_data.base.id\n}\n";
    site.write("live/main.tf", &format!("{base}{made}"));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    gates.close("apply.done");
    let running = gates.on(site.kl().args(["apply", &spec, "--dir", "live"])).spawn();
    gates.reached("apply.done");
    // As a provider would that changes more than it has told.
    let dir = Utf8PathBuf::from(database.value("SELECT dir FROM run_workplaces").unwrap());
    let path = dir.join("state/terraform.tfstate");
    let state = fs::read_to_string(&path).unwrap();
    fs::write(&path, state.replace("\"planned\"", "\"not planned\"")).unwrap();
    gates.open("apply.done");
    let said = running.exits(1).stderr;
    assert!(said.contains("had not planned to change: terraform_data.base"), "{said}");
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").unwrap();
    let kept = status(&site)["reservations"].to_string();
    assert!(kept.contains("terraform_data.made") && kept.contains("terraform_data.base"), "{kept}");
    // Nobody changes it before that is put in order.
    site.write("live/main.tf", "resource \"terraform_data\" \"base\" {\n input = \"other\"\n}\n");
    let said = site.kl().args(["apply", "live", "--auto-approve"]).exits(2).stderr;
    assert!(said.contains("terraform_data.base") && said.contains(&format!("kl recover {run}")), "{said}");
    drop(site.kl().args(["recover", &run]).exits(0));
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert!(state.contains("not planned"), "{state}");
    assert_tidy(database, 2);
}
