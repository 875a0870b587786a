//! `kl db check`, as whoever keeps the database sees it.

use crate::harness::database::Database;
use crate::harness::site::Site;

on_both_databases!(a_sound_database_says_so_and_a_broken_one_says_where);

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
