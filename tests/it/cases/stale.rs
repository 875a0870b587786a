//! Between the plan and the apply: what others did meanwhile, and what must not come along.

use serde_json::{Value, json};

use super::bed::{Bed, Said};

/// Three rows: `w` is written by alice's plan, `r` is read by it, `o` is neither.
fn config(r: &str, w: &str, o: &str) -> String {
    format!(
        "resource \"terraform_data\" \"r\" {{ input = \"{r}\" }}\n\
         resource \"terraform_data\" \"w\" {{\n input = \"${{substr(terraform_data.r.input, 0, 1)}}{w}\"\n}}\n\
         resource \"terraform_data\" \"o\" {{ input = \"{o}\" }}"
    )
}

/// A checkout in which alice has planned a change of `w`, and bob has applied another change since.
fn overtaken(bobs: &str) -> Bed {
    let bed = Bed::new(&config("r", "1", "1"));
    bed.begin(&[]);
    bed.write(&config("r", "2", "1"));
    bed.exits(0, &["plan", "live", "--out", "alice.json"]);
    bed.write(bobs);
    let said = bed.kl(&["apply", "live", "--auto-approve", "--actor", "bob"]);
    assert_eq!(said.code, 0, "{said}");
    bed
}

fn alice(bed: &Bed, code: i32, args: &[&str]) -> Said {
    bed.exits(code, &[&["apply", "alice.json"], args].concat())
}

#[test]
fn a_change_outside_the_footprint_does_not_matter() {
    let bed = overtaken(&config("r", "1", "2"));
    bed.write(&config("r", "2", "2"));
    // The state's last version was written by another Terraform, which is worth a word.
    let mut trunk: Value = serde_json::from_str(&bed.pull()).expect("a state");
    trunk["terraform_version"] = json!("1.5.0");
    trunk["serial"] = json!(trunk["serial"].as_u64().expect("a serial") + 1);
    bed.import(&trunk.to_string());
    let said = alice(&bed, 0, &[]);
    assert_eq!(said.lane(), "narrow");
    said.says(&["Other versions: Terraform 1.5.0 and not "]);
    let differences = bed.event("versions_differ")["differences"].clone();
    assert!(differences[0].as_str().is_some_and(|one| one.starts_with("Terraform 1.5.0 and not ")), "{differences}");
    bed.settled(&[]);
}

#[test]
fn a_changed_row_that_was_read_is_named() {
    let bed = overtaken(&config("r2", "1", "1"));
    bed.write(&config("r2", "2", "1"));
    alice(&bed, 4, &[]).says(&["it reads terraform_data.r", "by bob"]);
    // The plan is still the same, and that is enough when it is asked for.
    alice(&bed, 0, &["--on-stale", "revalidate"]).says(&["✓ Revalidated", "the plan still holds (identical)"]);
    bed.settled(&[]);
}

#[test]
fn a_changed_row_that_makes_another_plan_is_refused_when_revalidated() {
    let bed = overtaken(&config("x", "1", "1"));
    bed.write(&config("x", "2", "1"));
    alice(&bed, 4, &["--on-stale", "revalidate"]).says(&["terraform_data.w"]);
    // Both lanes are on record, and where the plan differs.
    let reason = bed.event("fell_back")["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reason, "the plan on the narrow slice is not the reviewed one (values differ)");
    let replanned = bed.event("replanned");
    let at = json!([{ "address": "terraform_data.w", "relation": "values_differ", "attributes": ["input", "output"] }]);
    assert_eq!((&replanned["relation"], &replanned["at"]), (&json!("values_differ"), &at));
}

#[test]
fn a_changed_row_that_is_written_is_named() {
    let bed = overtaken(&config("r", "3", "1"));
    bed.write(&config("r", "2", "1"));
    alice(&bed, 4, &[]).says(&["it writes terraform_data.w", "by bob"]);
    alice(&bed, 4, &["--on-stale", "revalidate", "--strict-since-plan"]).says(&["it writes terraform_data.w"]);
    let said = alice(&bed, 4, &["--on-stale", "revalidate"]);
    said.says(&["terraform_data.w: other values"]);
    assert!(!said.stderr.contains("Revalidated"), "{}", said.stderr);
    // What others had changed is told also when the plan's own apply has come upon it.
    alice(&bed, 0, &["--on-stale", "revalidate", "--accept-values"]);
    let since = bed.exits(0, &["history", "--since-plan", "alice.json", "--format", "json"]).json();
    let row = &since["write"][0];
    let steps = [0, 1].map(|place| &row["versions"][place]);
    assert_eq!(steps.map(|step| &step["own"]), [&Value::Null, &json!("apply")], "{since:#}");
    assert_eq!(steps.map(|step| &step["cause"]["actor"]), [&json!("bob"), &json!("alice")]);
    assert_eq!((&since["fresh"], &row["own"]), (&json!(false), &json!(true)));
    let told = bed.exits(0, &["history", "--since-plan", "alice.json"]).stdout;
    assert!(told.contains("by this plan's own apply") && told.contains("It has been applied already: as"), "{told}");
}

#[test]
fn a_strict_apply_lets_a_changed_read_be_revalidated() {
    let bed = overtaken(&config("r2", "1", "1"));
    bed.write(&config("r2", "2", "1"));
    alice(&bed, 0, &["--on-stale", "revalidate", "--strict-since-plan"]);
}

#[test]
fn what_was_merged_and_not_applied_does_not_come_along() {
    for lane in ["auto", "narrow", "footprint"] {
        let bed = Bed::new(&config("r", "1", "1"));
        bed.begin(&[]);
        bed.write(&config("r", "2", "1"));
        bed.exits(0, &["plan", "live", "--out", "alice.json"]);
        // bob's request is merged: it changes `o`, creates `n`, and removes nothing yet.
        bed.write(&format!("{}\nresource \"terraform_data\" \"n\" {{}}", config("r", "2", "bobs")));
        alice(&bed, 0, &["--lane", lane]);
        let state = bed.pull();
        assert!(!state.contains("bobs") && !state.contains("\"n\""), "{lane}: {state}");
        assert!(state.contains("\"r2\""), "{lane}: {state}");
    }
}

#[test]
fn what_was_merged_and_removes_or_moves_does_not_come_along() {
    for lane in ["auto", "narrow", "footprint"] {
        let before = config("r", "1", "1");
        let bed = Bed::new(&format!("{before}\nresource \"terraform_data\" \"p\" {{ input = \"p\" }}"));
        bed.begin(&[]);
        bed.write(&format!("{}\nresource \"terraform_data\" \"p\" {{ input = \"p\" }}", config("r", "2", "1")));
        bed.exits(0, &["plan", "live", "--out", "alice.json"]);
        // bob's request removes `o` and moves `p`.
        let merged = config("r", "2", "1");
        let merged = merged.split("resource \"terraform_data\" \"o\"").next().expect("what comes before");
        bed.write(&format!(
            "{merged}\nresource \"terraform_data\" \"q\" {{ input = \"p\" }}\n\
             moved {{\n from = terraform_data.p\n to = terraform_data.q\n}}"
        ));
        alice(&bed, 0, &["--lane", lane]);
        let state = bed.pull();
        assert!(state.contains("\"o\"") && state.contains("\"p\"") && !state.contains("\"q\""), "{lane}: {state}");
        assert!(state.contains("\"r2\""), "{lane}: {state}");
    }
}

#[test]
fn a_merged_change_of_what_is_read_is_refused_and_named() {
    let bed = Bed::new(&config("r", "1", "1"));
    bed.begin(&[]);
    bed.write(&config("r", "2", "1"));
    bed.exits(0, &["plan", "live", "--out", "alice.json"]);
    bed.write(&config("x", "2", "1"));
    alice(&bed, 4, &[]).says(&["terraform_data.r: not in the reviewed plan: update"]);
}

#[test]
fn values_that_differ_at_each_plan_have_to_be_accepted() {
    let config = |n: u32| format!("resource \"terraform_data\" \"t\" {{ input = \"{n}-${{plantimestamp()}}\" }}");
    let bed = Bed::new(&config(1));
    bed.begin(&[]);
    bed.write(&config(2));
    bed.plan(&[]);
    // The clock of `plantimestamp()` has whole seconds: another one has to begin.
    let second = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map(|time| time.as_secs());
    let planned = second().expect("after 1970");
    while second().expect("after 1970") <= planned {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    bed.apply(4, &[]).says(&["terraform_data.t: other values of input", "--accept-values"]);
    bed.apply(0, &["--accept-values"]);
    let at = json!([{ "address": "terraform_data.t", "relation": "values_differ", "attributes": ["input", "output"] }]);
    assert_eq!(bed.event("replanned")["at"], at);
    // It is told, and who did so; and nobody claims that this is what was planned.
    assert!(bed.event("values_accepted")["by"].is_string());
    assert_eq!(bed.event("committed")["as_planned"], false);
    let run = bed.newest_run();
    let said = bed.exits(0, &["explain", &run]).stdout;
    assert!(
        said.contains("Committed the planned rows with other values, which were accepted unreviewed: 1 row"),
        "{said}"
    );
    assert!(
        said.contains("The other values were accepted by ") && !said.contains("exactly what was planned"),
        "{said}"
    );
    assert_eq!(bed.exits(0, &["explain", &run, "--format", "json"]).json()["exactly_as_planned"], false);
}

#[test]
fn a_timestamp_that_is_known_only_when_applying_is_no_difference() {
    let config = |n: u32| format!("resource \"terraform_data\" \"t\" {{ input = \"{n}-${{timestamp()}}\" }}");
    let bed = Bed::new(&config(1));
    bed.begin(&[]);
    bed.write(&config(2));
    bed.plan(&[]);
    bed.apply(0, &[]);
}

#[test]
fn a_spec_that_was_applied_already_is_nothing_to_do() {
    let bed = Bed::new(&config("r", "1", "1"));
    bed.begin(&[]);
    bed.write(&config("r", "2", "1"));
    bed.plan(&[]);
    let first = bed.apply(0, &["--format", "json"]).json();
    let again = bed.apply(0, &["--format", "json"]);
    assert_eq!(again.json()["result"], "noop", "{again}");
    let said = bed.apply(0, &[]);
    assert!(said.stdout.contains("already applied"), "{said}");
    assert!(said.stdout.contains(&format!("serial {}", first["serial"])), "{said}");
    assert!(!said.stderr.contains("Reserved"), "{said}");
    // Whatever comes after it, it has been applied.
    bed.write(&config("r", "3", "1"));
    bed.exits(0, &["apply", "live", "--auto-approve"]);
    bed.exits(0, &["apply", "kl-plan.json"]);
    assert!(bed.pull().contains("\"r3\""));
    let versions = bed.exits(0, &["history", "live", "--format", "json"]).json();
    assert_eq!(versions["versions"].as_array().map(Vec::len), Some(3));
}

#[test]
fn two_plans_on_an_empty_state_do_not_both_create() {
    let bed = Bed::new("resource \"terraform_data\" \"a\" {}");
    bed.exits(0, &["plan", "live", "--out", "alice.json"]);
    bed.exits(0, &["plan", "live", "--out", "bob.json"]);
    bed.exits(0, &["apply", "alice.json"]);
    bed.exits(4, &["apply", "bob.json"]).says(&["it writes terraform_data.a"]);
    bed.settled(&[]);
}
