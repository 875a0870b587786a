//! Providers that are real programs: selection, lock file, private data, and what happens behind Terraform's back.

use crate::harness::database::Database;
use crate::harness::providers::{KLT, NULL, Object, needs};
use crate::harness::site::Site;
use crate::harness::terraform::Plain;
use crate::stage::assert_tidy;

on_both_databases!(
    a_provider_is_selected_locked_and_its_private_data_kept,
    drift_is_taken_over_row_by_row,
    drift_outside_the_write_set_is_left_alone,
    drift_that_makes_another_plan_is_named_as_its_reason,
    a_refresh_yields_to_whoever_holds_the_row,
    an_apply_that_fails_half_way_is_recovered,
    a_provider_configuration_that_a_module_is_given_goes_with_its_rows,
);

fn required(providers: &str) -> String {
    format!("terraform {{\n  required_providers {{\n    {providers}\n  }}\n}}\n")
}

/// A document that the drifting provider manages.
fn file(site: &Site, name: &str, content: &str) -> String {
    let path = site.path(format!("objects/{name}.json"));
    format!("resource \"klt_file\" \"{name}\" {{\n  path = \"{path}\"\n  content = {content}\n}}\n")
}

fn site(database: &Database) -> Site {
    let site = Site::on(database);
    site.kl().args(["db", "migrate"]).exits(0);
    site
}

fn a_provider_is_selected_locked_and_its_private_data_kept(database: &Database) {
    needs("hashicorp/null");
    let site = site(database);
    let resource = "resource \"null_resource\" \"a\" {\n  triggers = { v = \"1\" }\n}\n";
    site.write("live/main.tf", &format!("{}{resource}", required(NULL)));
    let planned = site.kl().args(["plan", "live", "--format", "json"]).exits(0).json();
    assert_eq!(planned["spec"]["tools"]["providers"]["registry.terraform.io/hashicorp/null"], "2.1.2");
    site.kl().args(["apply", "kl-plan.json"]).exits(0);
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert!(state.contains(r#""private": "bnVsbA==""#), "{state}");
    assert_eq!(Plain::new(&site, "live").changes(&state, &[]), None);
    let providers = database.value("SELECT providers FROM state_versions WHERE serial = 1").unwrap();
    assert!(providers.contains("2.1.2"), "{providers}");

    // The checkout's lock file is obeyed, not rewritten.
    let wrong = "provider \"registry.terraform.io/hashicorp/null\" {\n  version = \"2.1.2\"\n  hashes = [\n    \"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\",\n  ]\n}\n";
    site.write("live/.terraform.lock.hcl", wrong);
    let said = site.kl().args(["plan", "live"]).exits(1);
    assert!(said.stderr.contains("checksum"), "{}", said.stderr);
    let lock = std::fs::read_to_string(site.repo().join("live/.terraform.lock.hcl")).unwrap();
    assert_eq!(lock, wrong);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn drift_is_taken_over_row_by_row(database: &Database) {
    needs("example/klt");
    let site = site(database);
    let config = |a: &str| {
        ["a", "b", "c"]
            .iter()
            .fold(required(KLT), |text, name| text + &file(&site, name, if *name == "a" { a } else { "\"one\"" }))
    };
    site.write("live/main.tf", &config("\"one\""));
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
    assert!(site.kl().args(["refresh", "live"]).exits(0).stdout.contains("matches reality"));

    Object::at(site.path("objects/a.json")).edit("edited by hand");
    Object::at(site.path("objects/b.json")).delete();
    let looked = site.kl().args(["refresh", "live", "--dry-run", "--format", "json"]).exits(0).json();
    assert_eq!(looked["drifted"][0]["row"], "klt_file.a");
    assert_eq!((&looked["drifted"][1]["row"], &looked["drifted"][1]["gone"]), (&"klt_file.b".into(), &true.into()));
    assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some("1".into()));

    site.kl().args(["refresh", "live", "--actor", "alice"]).exits(0);
    assert_eq!(
        database.rows("SELECT serial, source, actor, rows_opened, rows_closed FROM state_versions ORDER BY serial")[1],
        ["2", "refresh", "alice", "1", "2"].map(|text| Some(text.to_owned()))
    );
    let shown = site.kl().args(["state", "show", "klt_file.a", "--dir", "live"]).exits(0).stdout;
    assert!(shown.contains("edited by hand"), "{shown}");
    assert_eq!(site.kl().args(["state", "list", "live"]).exits(0).stdout, "klt_file.a\nklt_file.c\n");
    assert_eq!(database.value("SELECT count(*) FROM refresh_runs WHERE status = 'committed'"), Some("1".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

fn drift_outside_the_write_set_is_left_alone(database: &Database) {
    needs("example/klt");
    let site = site(database);
    let ignoring = "\"one\"\n  lifecycle {\n    ignore_changes = [content]\n  }";
    let config = |b: &str| required(KLT) + &file(&site, "a", ignoring) + &file(&site, "b", b);
    site.write("live/main.tf", &config("\"one\""));
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
    site.write("live/main.tf", &config("klt_file.a.id == \"\" ? \"none\" : \"two\""));
    site.kl().args(["plan", "live"]).exits(0);
    Object::at(site.path("objects/a.json")).edit("edited by hand");
    // b reads a, so a is in the slice, and Terraform sees that it differs; a is nobody's to change in this run.
    site.kl().args(["apply", "kl-plan.json", "--lane", "narrow"]).exits(0);
    let shown = site.kl().args(["state", "show", "klt_file.a", "--dir", "live"]).exits(0).stdout;
    assert!(shown.contains("\"one\"") && !shown.contains("edited by hand"), "{shown}");
    let events = database.value("SELECT count(*) FROM run_events WHERE kind = 'drift_observed'");
    assert_eq!(events, Some("1".into()));
}

fn drift_that_makes_another_plan_is_named_as_its_reason(database: &Database) {
    needs("example/klt");
    let site = site(database);
    let config = |b: &str| required(KLT) + &file(&site, "a", "\"one\"") + &file(&site, "b", b);
    site.write("live/main.tf", &config("\"one\""));
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
    site.write("live/main.tf", &config("klt_file.a.id == \"\" ? \"none\" : \"two\""));
    site.kl().args(["plan", "live"]).exits(0);
    Object::at(site.path("objects/a.json")).edit("edited by hand");
    let said = site.kl().args(["apply", "kl-plan.json"]).exits(4).stderr;
    assert!(said.contains("changed outside Terraform: klt_file.a; `kl refresh` takes over"), "{said}");
    let run = database.value("SELECT CAST(id AS text) FROM runs ORDER BY started_at DESC LIMIT 1").unwrap();
    let told = site.kl().args(["explain", &run]).exits(0).stdout;
    assert!(told.contains("Differs in reality, left alone (kl refresh takes it over): klt_file.a"), "{told}");
    assert!(told.contains("changed outside Terraform: klt_file.a;") && !told.contains("by whom"), "{told}");
}

fn a_refresh_yields_to_whoever_holds_the_row(database: &Database) {
    needs("example/klt");
    let site = site(database);
    let config = |content: &str| required(KLT) + &file(&site, "a", content);
    site.write("live/main.tf", &config("\"one\""));
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
    site.write("live/main.tf", &config("\"two\""));
    let object = Object::at(site.path("objects/a.json"));
    object.hold();
    let applying = site.kl().args(["apply", "live", "--auto-approve", "--actor", "alice"]).spawn();
    object.wait_for("update begin");
    object.edit("edited by hand");
    let said = site.kl().args(["refresh", "live", "--actor", "bob"]).exits(2);
    assert!(said.stderr.contains("klt_file.a (write) is held by alice"), "{}", said.stderr);
    object.release();
    applying.exits(0);
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
}

fn an_apply_that_fails_half_way_is_recovered(database: &Database) {
    needs("example/klt");
    let site = site(database);
    site.write("live/main.tf", &(required(KLT) + &file(&site, "a", "\"one\"") + &file(&site, "b", "klt_file.a.id")));
    site.kl().args(["plan", "live"]).exits(0);
    let object = Object::at(site.path("objects/b.json"));
    object.fail("create");
    let said = site.kl().args(["apply", "kl-plan.json", "--actor", "alice"]).exits(1);
    assert!(said.stderr.contains("kl recover "), "{}", said.stderr);
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));
    // a exists, and only the failed run knows: whoever touches it is told so.
    let blocked = site.kl().args(["apply", "live", "--auto-approve", "--actor", "bob"]).exits(2);
    assert!(blocked.stderr.contains("klt_file.a (write) is quarantined by alice"), "{}", blocked.stderr);
    object.heal();
    site.kl().args(["apply", "kl-plan.json", "--actor", "alice"]).exits(0);
    assert_eq!(
        database.rows("SELECT source FROM state_versions ORDER BY serial"),
        [[Some("recover".to_owned())], [Some("apply".to_owned())]]
    );
    // a was made once, by the apply that failed.
    assert_eq!(Object::at(site.path("objects/a.json")).log(), ["create begin", "create end"]);
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    assert_eq!(Plain::new(&site, "live").changes(&state, &[]), None);
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Cases B38: which provider configuration a row belongs to stands in the state, and no slice may lose it.
fn a_provider_configuration_that_a_module_is_given_goes_with_its_rows(database: &Database) {
    needs("example/klt");
    let site = site(database);
    let configurations = "provider \"klt\" {}\nprovider \"klt\" {\n  alias = \"west\"\n}\n";
    let given = "module \"given\" {\n  source    = \"./given\"\n  providers = { klt.there = klt.west }\n}\n";
    let own = "module \"own\" {\n  source = \"./own\"\n}\n";
    let root = |calls: &str| required(KLT) + configurations + calls + &file(&site, "a", "\"one\"");
    let with_provider = |name: &str, content: &str, provider: &str| {
        file(&site, name, content).replacen("{\n", &format!("{{\n  provider = {provider}\n"), 1)
    };
    let in_given = |content: &str| {
        let required = required(&KLT.replace(" }", ", configuration_aliases = [klt.there] }"));
        required + &with_provider("b", content, "klt.there")
    };
    site.write("live/main.tf", &root(&format!("{given}{own}")));
    site.write("live/given/main.tf", &in_given("\"one\""));
    let own_provider = "provider \"klt\" {\n  alias = \"mine\"\n}\n";
    let in_own = required(KLT) + own_provider + &with_provider("c", "\"one\"", "klt.mine");
    site.write("live/own/main.tf", &in_own);
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);

    // The module's row alone, in the narrow lane.
    site.write("live/given/main.tf", &in_given("\"two\""));
    site.kl().args(["plan", "live"]).exits(0);
    let said = site.kl().args(["apply", "kl-plan.json", "--lane", "narrow"]).exits(0).stderr;
    assert!(said.contains("Lane narrow"), "{said}");
    let state = site.kl().args(["state", "pull", "live"]).exits(0).stdout;
    let provider = r#"provider[\"registry.terraform.io/example/klt\"]"#;
    for wanted in [format!("{provider}.west\""), format!("module.own.{provider}.mine\""), format!("{provider}\"")] {
        assert!(state.contains(&wanted), "{wanted} is not in {state}");
    }
    assert_eq!(Plain::new(&site, "live").changes(&state, &[]), None);

    // A module that brought its own configuration cannot be removed with it: Terraform says so, and nothing is kept.
    site.write("live/main.tf", &root(given));
    let said = site.kl().args(["plan", "live"]).exits(1).stderr;
    assert!(said.contains("Provider configuration not present"), "{said}");
    assert!(said.contains("module.own.klt_file.c"), "{said}");
    assert_tidy(database, 2);

    // One that was given its configuration can.
    site.write("live/main.tf", &root(own));
    site.kl().args(["plan", "live"]).exits(0);
    site.kl().args(["apply", "kl-plan.json"]).exits(0);
    let listed = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    assert_eq!(listed, "klt_file.a\nmodule.own.klt_file.c\n");
    assert_eq!(Object::at(site.path("objects/b.json")).read(), None);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
