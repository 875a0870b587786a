//! `kl db check` and `kl gc`, as whoever keeps the database sees them.

use crate::harness::database::{Backend, Database, on};
use crate::harness::site::Site;
use crate::mishaps::{meets, mishaps, points, try_at_once};

on_both_databases!(
    a_sound_database_says_so_and_a_broken_one_says_where,
    what_gc_removes_is_shown_first_and_can_be_read_no_more,
    a_plan_from_before_the_history_holds_no_longer,
    a_removal_of_what_is_old_is_finished_whatever_interrupts_it,
);

fn resource(input: u32) -> String {
    format!(
        "resource \"terraform_data\" \"a\" {{ input = {input} }}\nresource \"terraform_data\" \"b\" {{ input = 0 }}\n"
    )
}

/// A state with so many serials.
fn serials(database: &Database, newest: u32) -> Site {
    let site = Site::on(database);
    for serial in 1..=newest {
        site.write("live/main.tf", &resource(serial));
        drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    }
    site
}

fn a_sound_database_says_so_and_a_broken_one_says_where(database: &Database) {
    let site = serials(database, 3);
    let check = || site.kl().args(["db", "check"]);
    let said = check().exits(0).stdout;
    assert!(
        said.starts_with("✓ The database is sound: 1 state, 3 versions, 4 lifecycles, 4 contents, 3 runs"),
        "{said}"
    );
    let sound = check().args(["--format", "json"]).exits(0).json();
    assert_eq!((sound["sound"].as_bool(), sound["violations"].as_array().map(Vec::len)), (Some(true), Some(0)));
    assert_eq!(sound["looked_at"]["lifecycles"], 4);

    database.corrupted_on_purpose();
    database.execute("UPDATE states SET serial = 9");
    let said = check().exits(1).stdout;
    assert!(said.contains("newest-serial state live, serial 9: the newest version is 3\n"), "{said}");
    assert!(said.contains("restore the database from a backup") && said.contains("1 violation in 1 state"), "{said}");
    let broken = check().args(["--format", "json"]).exits(1).json();
    assert_eq!(broken["sound"], false);
    let violation = &broken["violations"][0];
    assert_eq!(
        (&violation["invariant"], &violation["state"], &violation["serial"], &violation["run"], &violation["row"]),
        (&"newest-serial".into(), &"live".into(), &9.into(), &serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(violation["problem"], "the newest version is 3");
    assert!(violation["next"].as_str().unwrap().contains("backup"));
}

fn what_gc_removes_is_shown_first_and_can_be_read_no_more(database: &Database) {
    let site = serials(database, 4);
    let gc = |args: &[&str]| site.kl().args(["gc", "--older-than", "0s", "--keep-serials", "1"]).args(args);
    let pull = |args: &[&str]| site.kl().args(["state", "pull", "live"]).args(args);
    let trunk = pull(&[]).exits(0).stdout;

    let young = site.kl().args(["gc", "--yes"]).exits(0).stdout;
    assert_eq!(young, "✓ Nothing that is older than 90d can go.\n");
    let dry = gc(&[]).exits(0).stdout;
    for part in ["former contents of rows", "versions", "stored contents", "Nothing was removed. `kl gc --yes`"] {
        assert!(dry.contains(part), "{dry}");
    }
    drop(pull(&["--serial", "1"]).exits(0));
    let planned = gc(&["--format", "json"]).exits(0).json();
    assert_eq!((&planned["removed"], &planned["keep_serials"]), (&false.into(), &1.into()));
    let removed = gc(&["--yes", "--format", "json"]).exits(0).json();
    assert_eq!((&removed["removed"], &removed["garbage"]), (&true.into(), &planned["garbage"]));

    assert_eq!(pull(&[]).exits(0).stdout, trunk);
    let said = pull(&["--serial", "1"]).exits(3).stderr;
    assert!(said.contains("the history before serial 4 was removed by `kl gc`; serial 1 cannot be read"), "{said}");
    drop(site.kl().args(["db", "check"]).exits(0));
    assert!(gc(&["--yes"]).exits(0).stdout.contains("Nothing that is older than"));
    // The life goes on.
    site.write("live/main.tf", &resource(5));
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    drop(site.kl().args(["history", "live", "--rows"]).exits(0));
}

fn a_plan_from_before_the_history_holds_no_longer(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", &resource(0));
    drop(site.kl().args(["plan", "live"]).exits(0));
    for serial in 1..=3 {
        site.write("live/main.tf", &resource(serial));
        drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    }
    // `kl gc` would have removed a spec as old as that.
    database.execute("UPDATE states SET history_from = 3");
    let said = site.kl().args(["apply", "kl-plan.json"]).exits(4).stderr;
    assert!(said.contains("the plan is from serial 0, and the history before serial 3 was removed"), "{said}");
    assert!(said.contains("plan again"), "{said}");
}

fn a_removal_of_what_is_old_is_finished_whatever_interrupts_it(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", "");
    let state = |command: &str, name: &str| site.kl().args(["state", command, "live", "--state", name]);
    let world = |name: &str| {
        for serial in 1..=3 {
            let document = format!(
                r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"l","outputs":{{"o":{{"value":{serial},"type":"number"}}}},"resources":[]}}"#
            );
            let import = site.kl().args(["state", "import", "-", "--dir", "live", "--state", name]);
            drop(import.stdin(document).exits(0));
        }
        state("pull", name).exits(0).stdout
    };
    let gc = || site.kl().args(["gc", "--older-than", "0s", "--keep-serials", "1", "--yes"]);
    world("trace");
    let points = points(gc(), 0);
    // One after the other: what one has removed is not there for another one.
    try_at_once(1, &mishaps(database, &points), |number, mishap| {
        let name = format!("world-{number}");
        let trunk = world(&name);
        meets(gc(), mishap);
        assert_eq!(state("pull", &name).exits(0).stdout, trunk, "{mishap}");
        drop(gc().exits(0));
        assert_eq!(state("pull", &name).exits(0).stdout, trunk, "{mishap}");
        let said = state("pull", &name).args(["--serial", "1"]).exits(3).stderr;
        assert!(said.contains("the history before serial 3 was removed"), "{mishap}: {said}");
        assert!(gc().exits(0).stdout.contains("Nothing that is older than"), "{mishap}");
    });
}

#[test]
fn only_the_owner_of_the_tables_removes_history() {
    on(Backend::Postgres, |database| {
        let site = serials(&database, 2);
        let role = format!("{}_apply", database.value("SELECT current_database()").unwrap());
        database.execute(&format!("CREATE ROLE \"{role}\" LOGIN"));
        for table in ["kl_migrations", "states", "state_versions", "resources", "resource_bodies", "runs"] {
            database.execute(&format!("GRANT SELECT ON {table} TO \"{role}\""));
        }
        let mark = if database.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{mark}options=-c%20role%3D{role}", database.url());
        let gc = site.kl().env("KL_DATABASE_URL", url).args(["gc", "--older-than", "0s", "--yes"]);
        let said = gc.exits(1).stderr;
        database.execute(&format!("DROP OWNED BY \"{role}\""));
        database.execute(&format!("DROP ROLE \"{role}\""));
        assert!(said.contains("permission denied") && said.contains("only the owner of kl's tables"), "{said}");
    });
}
