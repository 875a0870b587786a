//! The work directory of a run is there, and whoever recovers the run may not look into it: nothing is freed for that.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use camino::Utf8PathBuf;
use nix::unistd::geteuid;

use super::Scene;
use crate::harness::database::Database;

on_both_databases!(a_directory_that_may_not_be_looked_into_is_not_taken_for_gone);

/// A user that nobody is.
const ANOTHER: u32 = 54_321;

fn a_directory_that_may_not_be_looked_into_is_not_taken_for_gone(database: &Database) {
    let scene = Scene::counting(database);
    let running = scene.apply_up_to_the_gate(1);
    let run = scene.kill_all_and_abort(running);
    let dir = Utf8PathBuf::from(database.value("SELECT dir FROM run_workplaces").unwrap());
    let standing = "SELECT count(*) FROM resource_reservations WHERE released_at IS NULL";
    let before = database.value(standing);
    let refused = |why: &str| {
        for args in [vec!["recover", &run], vec!["recover", &run, "--discard"]] {
            let said = scene.site.kl().args(args).exits(2).stderr;
            assert!(said.contains(why) && said.contains(dir.as_str()), "{said}");
        }
        let said = scene.apply(1).exits(2).stderr;
        assert!(said.contains(why), "{said}");
        assert_eq!(database.value(standing), before);
        assert_eq!(database.value("SELECT count(*) FROM run_workplaces"), Some("1".into()));
    };
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    refused("can be written by others (mode 770)");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    // Only root can give a directory away, and is the one who recovers the runs of others.
    if geteuid().is_root() {
        chown(&dir, Some(ANOTHER), None).unwrap();
        refused(&format!("belongs to user {ANOTHER}"));
        chown(&dir, Some(0), None).unwrap();
    }
    // That others may read it is no reason.
    let said = scene.site.kl().args(["recover", &run]).exits(0).stdout;
    assert!(said.contains("terraform_data.slow was being created"), "{said}");
    assert_eq!(scene.made(), 1);
    assert_eq!(scene.site.leftovers(), Vec::<String>::new());
}
