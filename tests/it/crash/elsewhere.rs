//! A run was cut off on another machine than the one on which somebody puts it in order: what only that machine can know
//! stays reserved, and is taken in there.

use super::Scene;
use crate::harness::database::Database;
use crate::stage::assert_tidy;

on_both_databases!(
    what_happened_on_another_machine_is_for_a_person_to_decide,
    what_terraform_does_after_a_recovery_elsewhere_is_taken_in,
    what_is_reserved_no_longer_is_taken_in_all_the_same,
    what_was_discarded_elsewhere_is_cleared_away,
);

impl Scene<'_> {
    /// From now on the run is seen as from a laptop: neither its processes nor its directory are here.
    pub(super) fn seen_from_elsewhere(&self) -> Home {
        let home = self.database.rows("SELECT CAST(host AS text), dir FROM run_workplaces").remove(0);
        let elsewhere = r#"{"name":"build-7","boot":"b"}"#;
        let sql = format!("UPDATE run_workplaces SET host = '{elsewhere}', dir = '/somewhere/kl-live'");
        drop(self.database.rows(&sql));
        let mut home = home.into_iter().flatten();
        Home { host: home.next().unwrap(), dir: home.next().unwrap() }
    }

    /// And from now on as from its own machine.
    fn seen_from_home(&self, home: &Home) {
        let Home { host, dir } = home;
        drop(self.database.rows(&format!("UPDATE run_workplaces SET host = '{host}', dir = '{dir}'")));
    }

    /// Ends kl alone in the midst of the second object, whose Terraform goes on; what is on record has the first.
    fn killed_with_a_record(&self) -> String {
        let running = self.apply_up_to_the_gate(1);
        self.wait_for_the_record();
        self.kill(running)
    }
}

/// Where a run really works.
pub(super) struct Home {
    host: String,
    dir: String,
}

fn what_happened_on_another_machine_is_for_a_person_to_decide(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    scene.wait_for_the_record();
    let run = scene.kill_all_and_abort(running);
    drop(scene.seen_from_elsewhere());
    let said = scene.apply(1).exits(2).stderr;
    assert!(said.contains("was cut off on build-7") && said.contains("/somewhere/kl-live"), "{said}");
    assert!(said.contains("terraform_data.slow") && said.contains(&format!("kl recover {run}")), "{said}");
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("is not known") && said.contains("/somewhere/kl-live on build-7"), "{said}");
    assert!(said.contains("terraform_data.slow was being created"), "{said}");
    // Nothing is made before somebody has said that the machine is gone.
    let discard = format!("kl recover {run} --discard");
    let refused = scene.apply(1).exits(2).stderr;
    assert!(said.contains(&discard) && refused.contains(&discard), "{said} {refused}");
    assert_eq!(scene.made(), 1);
    drop(scene.site.kl().args(["recover", &run, "--discard"]).exits(0));
    drop(scene.apply(1).exits(0));
    scene.assert_done(1, 2);
}

fn what_terraform_does_after_a_recovery_elsewhere_is_taken_in(database: &Database) {
    let scene = Scene::counting(database);
    let run = scene.killed_with_a_record();
    let home = scene.seen_from_elsewhere();
    let first = format!("first `kl recover {run}` there");
    let said = scene.site.kl().args(["abort", &run]).exits(0).stdout;
    assert!(said.contains(&first) && said.contains("/somewhere/kl-live on build-7"), "{said}");
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("Recovered 1 row as serial 1"), "{said}");
    assert!(said.contains(&format!("On build-7, `kl recover {run}` takes over what it did there")), "{said}");
    let kept = said.lines().find(|line| line.contains("stay reserved")).unwrap();
    assert!(kept.contains("terraform_data.slow") && kept.contains("terraform_data.later"), "{said}");
    let comment = scene.site.kl().args(["explain", &run]).exits(0).stdout;
    assert!(!comment.contains("has looked what became of it"), "{comment}");
    // It can be asked for again, and the same spec makes nothing a second time.
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("Nothing on record was to be taken over") && !said.contains("are free"), "{said}");
    let said = scene.apply(1).exits(2).stderr;
    assert!(said.contains("was cut off on build-7"), "{said}");

    // On its own machine it goes on, and its directory stays until it was asked.
    scene.seen_from_home(&home);
    scene.gates.open("apply");
    scene.wait_for_terraform();
    let left = scene.site.leftovers();
    assert_eq!(left.len(), 1);
    scene.plan(2);
    assert_eq!(scene.site.leftovers(), left);
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("Recovered 2 rows as serial 2") && !said.contains('!'), "{said}");
    let state = scene.site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(state, "terraform_data.first\nterraform_data.later\nterraform_data.slow\n");
    drop(scene.apply(1).exits(0));
    assert_eq!(scene.made(), 1);
    scene.assert_done(1, 2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn what_is_reserved_no_longer_is_taken_in_all_the_same(database: &Database) {
    let scene = Scene::counting(database);
    let run = scene.killed_with_a_record();
    let home = scene.seen_from_elsewhere();
    drop(scene.site.kl().args(["abort", &run]).exits(0));
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    // As an earlier kl left it: everything was free after a recovery, wherever that was.
    drop(database.rows("UPDATE resource_reservations SET released_at = asked_at WHERE released_at IS NULL"));
    scene.seen_from_home(&home);
    scene.gates.open("apply");
    scene.wait_for_terraform();
    let left = scene.site.leftovers();
    scene.plan(2);
    assert_eq!(scene.site.leftovers(), left);
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("Recovered 2 rows as serial 2"), "{said}");
    drop(scene.apply(1).exits(0));
    assert_eq!(scene.made(), 1);
    scene.assert_done(1, 2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}

fn what_was_discarded_elsewhere_is_cleared_away(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    scene.wait_for_the_record();
    let run = scene.kill_all_and_abort(running);
    drop(scene.seen_from_elsewhere());
    drop(scene.site.kl().args(["recover", &run]).exits(0));
    let said = scene.site.kl().args(["recover", &run, "--discard"]).exits(0).stdout;
    assert!(said.contains("/somewhere/kl-live on build-7: this does not stop it"), "{said}");
    assert_tidy(database, 1);
    scene.plan(2);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}
