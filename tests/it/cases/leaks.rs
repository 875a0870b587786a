//! Another request's merged change that is not applied yet, and gets into a plan that no target can limit.

use super::bed::Bed;
use crate::harness::database::{Backend, Database, on};

const BASE: &str = "resource \"terraform_data\" \"a\" { input = \"1\" }\noutput \"o\" { value = \"1\" }";
/// What the other request adds.
const THEIRS: &str = "\nresource \"terraform_data\" \"b\" { input = \"theirs\" }";

/// What the jobs of `kl ci plan` leave in the database, for a spec that was planned here.
fn request(database: &Database, number: u64, phase: &str, spec: &str) {
    let now = if database.backend() == Backend::Sqlite { "0" } else { "now()" };
    let fork = if database.backend() == Backend::Sqlite { "0" } else { "false" };
    database.execute(&format!(
        "INSERT INTO requests (forge, repository, number, head, base_branch, title, phase, from_fork, created_at, updated_at)
         VALUES ('github', 'example/infra', {number}, 'h', 'main', 'Theirs', '{phase}', {fork}, {now}, {now})"
    ));
    database.execute(&format!(
        "INSERT INTO request_projects (forge, repository, request, project, dir, workspace, state_id, plan_status,
                                       plan_head, planned_at, spec_id, spec_head)
         SELECT 'github', 'example/infra', {number}, 'live', 'live', 'default', state_id, 'planned', 'h', {now}, id, 'h'
         FROM plan_specs WHERE CAST(id AS text) = '{spec}'"
    ));
}

/// Plans both changes, and lays them out together as the merges would.
fn both_merged(bed: &Bed, database: &Database, phase: &str) {
    bed.begin(&[]);
    bed.write(&format!("{BASE}{THEIRS}"));
    bed.exits(0, &["plan", "live", "--out", "theirs.json"]);
    let theirs = std::fs::read_to_string(bed.path("repo/theirs.json")).expect("the plan wrote its spec");
    let theirs: serde_json::Value = serde_json::from_str(&theirs).expect("a spec is JSON");
    request(database, 8, phase, theirs["id"].as_str().expect("a spec has an id"));
    let mine = BASE.replace("value = \"1\"", "value = \"2\"");
    bed.write(&mine);
    assert_eq!(bed.plan(&[]).writes(), ["update output.o"]);
    bed.write(&format!("{mine}{THEIRS}"));
}

fn a_merged_change_that_got_into_the_plan_is_named_by_its_request(backend: Backend) {
    on(backend, |database| {
        let bed = Bed::on(&database, BASE);
        both_merged(&bed, &database, "merged");
        bed.apply(4, &[]).says(&[
            "terraform_data.b: not in the reviewed plan: create (a change of example/infra#8, which is merged and not \
             applied yet)",
            "apply what example/infra#8 has merged first",
        ]);
        let told = database.value("SELECT COUNT(*) FROM run_events WHERE kind = 'replanned' AND CAST(event AS text) LIKE '%a change of example/infra#8%'");
        assert_eq!(told.as_deref(), Some("1"), "the run's timeline has the name, too");
        // Whoever does as he is told gets on.
        bed.exits(0, &["apply", "theirs.json"]);
        bed.apply(0, &[]);
        assert!(bed.pull().contains("theirs"));
        bed.settled(&[]);
    });
}

#[test]
fn a_merged_change_that_got_into_the_plan_is_named_by_its_request_on_sqlite() {
    a_merged_change_that_got_into_the_plan_is_named_by_its_request(Backend::Sqlite);
}

#[test]
fn a_merged_change_that_got_into_the_plan_is_named_by_its_request_on_postgres() {
    a_merged_change_that_got_into_the_plan_is_named_by_its_request(Backend::Postgres);
}

#[test]
fn a_change_that_no_request_is_known_to_have_made_is_named_by_its_address() {
    on(Backend::Sqlite, |database| {
        let bed = Bed::on(&database, BASE);
        both_merged(&bed, &database, "closed");
        let said = bed.apply(4, &[]);
        said.says(&["terraform_data.b: not in the reviewed plan: create\n"]);
        assert!(!said.stderr.contains("#8"), "{said}");
    });
}

#[test]
fn a_change_of_an_open_request_is_named_as_one() {
    on(Backend::Sqlite, |database| {
        let bed = Bed::on(&database, BASE);
        both_merged(&bed, &database, "open");
        bed.apply(4, &[]).says(&[
            "terraform_data.b: not in the reviewed plan: create (example/infra#8, which is open, plans a change of it)",
        ]);
    });
}
