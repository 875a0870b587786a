//! kl is killed and its Terraform goes on alone, or is killed with it: what can be known is found out, and nothing is
//! made a second time.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::Scene;
use crate::harness::database::Database;
use crate::harness::kl::{Kl, Running};
use crate::harness::providers::{KLT, Object, needs};
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::harness::wait_until;
use crate::stage::{CHAIN, Gates, assert_tidy};

on_both_databases!(
    a_terraform_that_goes_on_alone_is_left_in_peace_and_finishes,
    an_object_that_was_cut_off_is_not_created_again_before_a_person_has_looked,
    a_replacement_that_was_cut_off_between_its_halves_is_finished_by_the_same_spec,
    a_replacement_by_command_that_finished_alone_is_not_made_once_more,
    what_left_no_record_is_for_a_person_to_look_at,
    a_recovery_leaves_alone_what_others_have_changed_since,
    a_work_directory_stays_until_its_run_is_recovered,
    what_was_in_flight_and_got_done_is_seen_by_the_same_spec,
    a_provider_that_dies_at_its_work_leaves_its_object_named,
    cancelled_as_a_runner_does_it_keeps_the_record_before_anything_else,
);

impl<'a> Scene<'a> {
    /// A scene whose slow object writes down each time that it is made.
    pub(super) fn counting(database: &'a Database) -> Self {
        let scene = Self::new(database);
        let made = scene.site.path("made");
        let text = CHAIN.replace("command = \"while", &format!("command = \"echo made >> {made}; while"));
        scene.site.write("live/main.tf", &text);
        scene
    }

    /// How often the slow object was made.
    pub(super) fn made(&self) -> usize {
        fs::read_to_string(self.site.path("made")).unwrap_or_default().lines().count()
    }

    /// Starts to apply a value, up to the midst of the slow object.
    pub(super) fn apply_up_to_the_gate(&self, value: usize) -> Running {
        self.plan(value);
        self.gates.close("apply");
        let running = self.apply(value).spawn();
        self.gates.reached("apply");
        running
    }

    /// Waits until the checkpoint has the first object, and the slow one in flight.
    pub(super) fn wait_for_the_record(&self) {
        wait_until("kl has taken a checkpoint", Duration::from_mins(1), || {
            let in_flight = self.database.value("SELECT max(CAST(in_flight AS text)) FROM run_checkpoints");
            in_flight.is_some_and(|text| text.contains("terraform_data.slow")).then_some(())
        });
    }

    /// Ends kl, and its run with it as somebody would who sees that its job is dead.
    fn kill_and_abort(&self, running: Running) -> String {
        let run = self.kill(running);
        drop(self.site.kl().args(["abort", &run]).exits(0));
        run
    }

    /// The same with all of Terraform's group.
    pub(super) fn kill_all_and_abort(&self, running: Running) -> String {
        let group = self.group();
        let run = self.kill(running);
        killpg(group, Signal::SIGKILL).unwrap();
        wait_until("Terraform's group is dead", Duration::from_mins(1), || dead(group.as_raw()).then_some(()));
        drop(self.site.kl().args(["abort", &run]).exits(0));
        self.gates.open("apply");
        run
    }
}

/// Whether no member of a process group lives; a zombie does not.
fn dead(group: i32) -> bool {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    !stats.into_iter().any(|stat| {
        let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap();
        fields[2] == group.to_string() && fields[0] != "Z"
    })
}

fn a_terraform_that_goes_on_alone_is_left_in_peace_and_finishes(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    let at_the_gate = Instant::now();
    let group = scene.group();
    let run = scene.kill_and_abort(running);
    let still = format!("Terraform of run {run} is still working (process group {group})");
    for args in [vec!["recover", &run], vec!["recover", &run, "--discard"]] {
        let said = scene.site.kl().args(args).exits(2).stderr;
        assert!(said.contains(&still), "{said}");
        assert!(said.contains(&format!("kill -INT {group}")), "{said}");
    }
    let said = scene.apply(1).exits(2).stderr;
    assert!(said.contains(&still), "{said}");
    // What it has not begun with is its own, too.
    scene.plan(2);
    let said = scene.apply(2).exits(2).stderr;
    assert!(said.contains("terraform_data.later (write) is quarantined"), "{said}");
    assert!(!dead(group.as_raw()));

    // It never notices: all of its chain gets done, and into the state. Terraform tells whole seconds.
    std::thread::sleep(Duration::from_millis(1_100).saturating_sub(at_the_gate.elapsed()));
    scene.gates.open("apply");
    scene.wait_for_terraform();
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("as serial 1") && !said.contains('!'), "{said}");
    // How long it took is told as Terraform has told it, and not as nothing.
    let shown = scene.site.kl().args(["show", &run, "--format", "json"]).exits(0).json();
    let events = shown["events"].as_array().unwrap().iter().map(|recorded| &recorded["event"]);
    let mut of_slow = events.filter(|event| event["address"] == "terraform_data.slow" && event["step"] == "finished");
    assert!(of_slow.next().unwrap()["elapsed_seconds"].as_u64() > Some(0), "{shown}");
    let state = scene.site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "terraform_data.first\nterraform_data.later\nterraform_data.slow\n");
    drop(scene.apply(1).exits(0));
    assert_eq!(scene.made(), 1);
    scene.assert_done(1, 1);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn an_object_that_was_cut_off_is_not_created_again_before_a_person_has_looked(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    let run = scene.kill_all_and_abort(running);
    for _ in 0..2 {
        let said = scene.apply(1).exits(2).stderr;
        assert!(said.contains("was cut off while it created terraform_data.slow"), "{said}");
        assert!(said.contains(&format!("kl recover {run}")), "{said}");
    }
    assert_eq!(scene.made(), 1);
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(
        said.contains("terraform_data.slow was being created") && said.contains("import it or delete it"),
        "{said}"
    );
    let state = scene.site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "terraform_data.first\n");
    drop(scene.apply(1).exits(0));
    scene.assert_done(1, 2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn a_replacement_that_was_cut_off_between_its_halves_is_finished_by_the_same_spec(database: &Database) {
    let scene = Scene::counting(database);
    scene.plan(1);
    drop(scene.apply(1).exits(0));
    // The old object is gone, the new one is being made.
    let running = scene.apply_up_to_the_gate(2);
    let run = scene.kill_all_and_abort(running);
    drop(scene.apply(2).exits(2));
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    let state = scene.site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "terraform_data.first\nterraform_data.later\n");
    let said = scene.apply(2).exits(0).stderr;
    assert!(said.contains("Planned again: refined"), "{said}");
    scene.assert_done(2, 3);

    // One that goes on alone does both halves.
    let running = scene.apply_up_to_the_gate(3);
    scene.kill_and_abort(running);
    scene.gates.open("apply");
    drop(scene.apply(3).args(["--wait", "1m"]).exits(0));
    assert_eq!(scene.made(), 4);
    scene.assert_done(3, 4);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn a_replacement_by_command_that_finished_alone_is_not_made_once_more(database: &Database) {
    let scene = Scene::counting(database);
    scene.plan(1);
    drop(scene.apply(1).exits(0));
    let spec = scene.site.path("replace.json").into_string();
    let given = |kl: Kl| kl.args([&scene.var(), "--var=value=1"]);
    let replace = ["--replace=terraform_data.slow", "--replace=terraform_data.first", "--out", &spec];
    drop(given(scene.site.kl().args(["plan", "live"])).args(replace).exits(0));
    scene.gates.close("apply");
    let running = given(scene.site.kl().args(["apply", &spec, "--dir", "live"])).args(["--lease", "1s"]).spawn();
    scene.gates.reached("apply");
    scene.kill_and_abort(running);
    scene.gates.open("apply");
    let said = given(scene.site.kl().args(["apply", &spec, "--dir", "live"])).args(["--wait", "1m"]).exits(0);
    assert!(said.stdout.contains("an earlier apply of the spec had done all of it"), "{said:?}");
    assert_eq!(scene.made(), 2);
    scene.assert_done(1, 2);
}

fn what_left_no_record_is_for_a_person_to_look_at(database: &Database) {
    let scene = Scene::new(database);
    scene.plan(1);
    // Killed when Terraform could begin at any moment, and with the machine went the directory.
    let killed = scene.apply(1).env("KL_MISHAP", "store/record where the run works/done#1=kill").spawn().ends();
    assert!(!killed.0.success());
    let run = scene.live_run();
    for dir in scene.site.leftovers() {
        fs::remove_dir_all(scene.site.path("tmp").join(dir)).unwrap();
    }
    let discard = format!("kl recover {run} --discard");
    let said = scene.site.kl().args(["abort", &run]).exits(0).stdout;
    assert!(said.contains("It may have changed real objects") && said.contains(&discard), "{said}");
    assert!(!said.contains("It had changed"), "{said}");
    let said = scene.site.kl().args(["status"]).exits(0).stdout;
    assert!(said.contains("nothing of it is on record") && said.contains(&discard), "{said}");
    for (code, said) in [(2, scene.apply(1)), (3, scene.site.kl().args(["recover", &run]))] {
        let said = said.exits(code).stderr;
        assert!(said.contains("its work directory") && said.contains(&discard), "{said}");
    }
    scene.plan(2);
    let said = scene.apply(2).exits(2).stderr;
    assert!(said.contains("or perhaps") && said.contains(&format!("kl recover {run}")), "{said}");
    drop(scene.site.kl().args(["recover", &run, "--discard"]).exits(0));
    drop(scene.apply(1).exits(0));
    scene.assert_done(1, 1);
}

fn a_recovery_leaves_alone_what_others_have_changed_since(database: &Database) {
    let scene = Scene::counting(database);
    let mut running = scene.apply_up_to_the_gate(1);
    scene.wait_for_the_record();
    let run = scene.live_run();
    // It does not hear for a while that it was ended, and somebody on another machine takes over what is on record.
    running.signal(Signal::SIGSTOP);
    drop(scene.site.kl().args(["abort", &run]).exits(0));
    let dir = database.value("SELECT dir FROM run_workplaces").unwrap();
    drop(scene.seen_from_elsewhere());
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    drop(scene.site.kl().args(["recover", &run, "--discard"]).exits(0));
    // Another one changes the row, and then the run comes back, with a record of its own.
    scene.plan(2);
    let spec = scene.site.path("first.json").into_string();
    let vars = ["--var".to_owned(), scene.gates.var(), "--var=value=2".to_owned()];
    let target = ["--target", "terraform_data.first", "--out", &spec];
    drop(scene.site.kl().args(["plan", "live"]).args(vars.clone()).args(target).exits(0));
    drop(scene.site.kl().args(["apply", &spec, "--dir", "live", "--actor", "bob"]).args(vars).exits(0));
    running.signal(Signal::SIGCONT);
    assert!(running.runs());
    let said = running.exits(1).stderr;
    assert!(said.contains("was aborted from outside"), "{said}");
    assert!(!fs::exists(dir).unwrap(), "its kl has come to its end");
    scene.gates.open("apply");
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("terraform_data.first was left as the state has it"), "{said}");
    assert!(said.contains("by bob"), "{said}");
    let state = scene.site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let resources = state["resources"].as_array().unwrap();
    let of = |name: &str| resources.iter().find(|one| one["name"] == name).unwrap()["instances"][0].clone();
    assert_eq!(of("first")["attributes"]["input"]["value"], "2");
    assert_eq!(of("slow")["status"], "tainted");
    assert_tidy(database, 3);
}

fn what_was_in_flight_and_got_done_is_seen_by_the_same_spec(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let object = |name: &str| Object::at(site.path(format!("objects/{name}.json")));
    let resource = |name: &str, path: &str, content: &str| {
        let path = site.path(format!("objects/{path}.json"));
        format!("resource \"klt_file\" \"{name}\" {{\n path = \"{path}\"\n content = \"{content}\"\n}}\n")
    };
    let provider = format!("terraform {{\n required_providers {{\n {KLT}\n }}\n}}\n");
    let before = ["gone", "changed", "replaced"].map(|name| resource(name, name, "old")).concat();
    site.write("live/main.tf", &format!("{provider}{before}"));
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    let after = resource("changed", "changed", "new") + &resource("replaced", "other", "new");
    site.write("live/main.tf", &format!("{provider}{after}"));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    for (name, step) in [("gone", "delete"), ("changed", "update"), ("replaced", "delete")] {
        object(name).hold();
        assert!(!object(name).log().iter().any(|line| line.starts_with(step)));
    }
    let running = site.kl().args(["apply", &spec, "--dir", "live"]).spawn();
    for (name, step) in [("gone", "delete begin"), ("changed", "update begin"), ("replaced", "delete begin")] {
        object(name).wait_for(step);
    }
    let group = wait_until("the process group is on record", Duration::from_mins(1), || {
        database.value("SELECT max(process_group) FROM run_workplaces")
    });
    let group: i32 = group.parse().unwrap();
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE ended_at IS NULL").unwrap();
    running.signal(Signal::SIGKILL);
    drop(running.ends());
    killpg(Pid::from_raw(group), Signal::SIGKILL).unwrap();
    wait_until("Terraform's group is dead", Duration::from_mins(1), || dead(group).then_some(()));
    drop(site.kl().args(["abort", &run]).exits(0));
    // All that was in flight has come to its end.
    for name in ["gone", "replaced"] {
        object(name).delete();
        object(name).release();
    }
    object("changed").edit("new");
    object("changed").release();
    let said = site.kl().args(["apply", &spec, "--dir", "live"]).exits(0).stderr;
    assert!(said.contains("Planned again: refined"), "{said}");
    let state = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "klt_file.changed\nklt_file.replaced\n");
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert_eq!(Plain::new(&site, "live").changes(&state, &[]), None);
    assert_eq!(object("other").log(), ["create begin", "create end"]);
}

fn a_work_directory_stays_until_its_run_is_recovered(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    let run = scene.kill_all_and_abort(running);
    let left = scene.site.leftovers();
    assert_eq!(left.len(), 1);
    scene.plan(2);
    assert_eq!(scene.site.leftovers(), left);
    // One of a run that this database does not know is none of its business.
    let elsewhere = Site::new();
    elsewhere.write("live/main.tf", CHAIN);
    let gates = Gates::new(&elsewhere);
    let var = format!("--var={}", gates.var());
    let kl = elsewhere.kl().env("TMPDIR", scene.site.path("tmp").as_str());
    drop(kl.args(["plan", "live", &var]).exits(0));
    assert_eq!(scene.site.leftovers(), left);
    drop(scene.site.kl().args(["recover", &run, "--discard"]).exits(0));
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn a_provider_that_dies_at_its_work_leaves_its_object_named(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let object = Object::at(site.path("objects/a.json"));
    let resource =
        format!("resource \"klt_file\" \"a\" {{\n path = \"{}\"\n content = \"a\"\n}}\n", site.path("objects/a.json"));
    site.write("live/main.tf", &format!("terraform {{\n required_providers {{\n {KLT}\n }}\n}}\n{resource}"));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    // As when the system ends it for lack of memory, while Terraform lives.
    object.fail("die");
    let said = site.kl().args(["apply", &spec, "--dir", "live"]).exits(1).stderr;
    object.heal();
    assert!(said.contains("Plugin did not respond") && said.contains("klt_file.a"), "{said}");
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'failed'").unwrap();
    // It may have been made: no apply makes it before somebody has looked.
    let again = site.kl().args(["apply", &spec, "--dir", "live"]).exits(2).stderr;
    assert!(again.contains("klt_file.a") && again.contains(&format!("kl recover {run}")), "{again}");
    let told = site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(told.contains("klt_file.a was being created"), "{told}");
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0));
}

/// As long as a runner takes: SIGINT, 7.5 s later SIGTERM, 2.5 s later SIGKILL to all that is left.
fn cancelled_as_a_runner_does_it_keeps_the_record_before_anything_else(database: &Database) {
    needs("example/klt");
    let site = Site::on(database);
    let object = |name: &str| Object::at(site.path(format!("objects/{name}.json")));
    let resource = |name: &str, more: &str| {
        let path = site.path(format!("objects/{name}.json"));
        format!("resource \"klt_file\" \"{name}\" {{\n path = \"{path}\"\n content = \"x\"\n{more}}}\n")
    };
    let resources = resource("a", "") + &resource("b", " depends_on = [klt_file.a]\n");
    site.write("live/main.tf", &format!("terraform {{\n required_providers {{\n {KLT}\n }}\n}}\n{resources}"));
    let spec = site.path("spec.json").into_string();
    drop(site.kl().args(["plan", "live", "--out", &spec]).exits(0));
    // A provider that finishes what it is at, however long that takes.
    object("b").hold();
    let mut running = site.kl().args(["apply", &spec, "--dir", "live"]).spawn();
    object("b").wait_for("create begin");
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE status = 'applying'").unwrap();
    let group = database.value("SELECT max(process_group) FROM run_workplaces").unwrap();
    let group = Pid::from_raw(group.parse().unwrap());
    running.signal(Signal::SIGINT);
    let kept = format!("SELECT count(*) FROM run_checkpoints WHERE CAST(run_id AS text) = '{run}'");
    wait_until("the checkpoint is kept", Duration::from_secs(5), || {
        (database.value(&kept).as_deref() == Some("1")).then_some(())
    });
    std::thread::sleep(Duration::from_millis(7_500));
    // A second signal would have ended Terraform at once: it has got one.
    assert!(running.runs() && killpg(group, None).is_ok());
    running.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!running.runs(), "kl is still there when the runner kills what is left");
    let _ = killpg(group, Signal::SIGKILL);
    let said = running.exits(1).stderr;
    assert!(said.contains(&format!("kl recover {run}")), "{said}");
    object("b").release();
    let told = site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(told.contains("klt_file.b was being created"), "{told}");
    let state = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "klt_file.a\n");
    drop(site.kl().args(["apply", &spec, "--dir", "live"]).exits(0));
    assert_tidy(database, 2);
}
