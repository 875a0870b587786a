//! What the views say of a day's work is what the database holds: of runs that went beside each other, were refused, or
//! found their plan overtaken.

use std::fs;

use camino::Utf8Path;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::kl::{Running, Said};
use crate::harness::site::Site;
use crate::stage::{CHAIN, Gates};

on_both_databases!(the_views_tell_what_happened, the_queries_of_the_page_run_and_find_something);

/// A state with the history of a day: alice creates everything; then she changes the chain, beside her bob is refused and
/// carol changes another row; then bob's plan no longer holds.
struct Day {
    site: Site,
    gates: Gates,
}

impl Day {
    fn new(database: &Database) -> Self {
        let site = Site::on(database);
        let config = format!(
            "{CHAIN}\nvariable \"other\" {{ default = 1 }}\nresource \"terraform_data\" \"other\" {{ input = var.other }}\n"
        );
        site.write("live/main.tf", &config);
        let gates = Gates::new(&site);
        let day = Self { site, gates };
        drop(day.kl("alice", &["apply", "live", "--auto-approve", "--state", "prod"]).exits(0));
        day.plan("alice", &["--var=value=2"]);
        day.plan("bob", &["--var=value=3"]);
        day.plan("carol", &["--var=other=2", "--target=terraform_data.other"]);
        day
    }

    fn kl(&self, actor: &str, args: &[&str]) -> Running {
        let var = format!("--var={}", self.gates.var());
        self.site.kl().args(args.iter().copied()).args([var.as_str(), "--actor", actor]).spawn()
    }

    fn plan(&self, actor: &str, args: &[&str]) {
        let out = self.spec(actor);
        let planned = [&["plan", "live", "--state", "prod", "--out", &out], args].concat();
        drop(self.kl(actor, &planned).exits(0));
    }

    fn spec(&self, actor: &str) -> String {
        self.site.path(format!("{actor}.json")).into_string()
    }

    fn apply(&self, actor: &str, args: &[&str]) -> Running {
        let spec = self.spec(actor);
        self.kl(actor, &[&["apply", &spec, "--dir", "live", "--state", "prod"], args].concat())
    }

    /// What happens between the plans and the evening.
    fn goes_by(&self) {
        self.gates.close("apply");
        let alice = self.apply("alice", &["--var=value=2"]);
        self.gates.reached("apply");
        drop(self.apply("bob", &["--var=value=3"]).exits(2));
        drop(self.apply("carol", &["--var=other=2"]).exits(0));
        self.gates.open("apply");
        drop(alice.exits(0));
        drop(self.apply("bob", &["--var=value=3"]).exits(4));
    }

    fn says(&self, args: &[&str]) -> Said {
        self.site.kl().args(args.iter().copied()).exits(0)
    }

    fn json(&self, args: &[&str]) -> Value {
        self.says(&[args, &["--format", "json"]].concat()).json()
    }
}

/// The run of an actor that ended so.
#[track_caller]
fn run(database: &Database, actor: &str, status: &str) -> String {
    let sql = format!(
        "SELECT CAST(id AS text) FROM runs WHERE actor = '{actor}' AND status = '{status}' ORDER BY started_at DESC"
    );
    database.rows(&sql).remove(0).remove(0).unwrap()
}

fn texts<'v>(list: &'v Value, member: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|one| one[member].as_str().unwrap_or_default()).collect()
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

fn the_views_tell_what_happened(database: &Database) {
    let day = Day::new(database);
    day.goes_by();
    runs_are_listed(&day, database);
    runs_are_explained(&day, database);
}

fn runs_are_listed(day: &Day, database: &Database) {
    let all = day.json(&["runs"]);
    let facts = database.rows("SELECT CAST(id AS text) FROM runs ORDER BY started_at DESC, id DESC");
    let facts: Vec<&str> = facts.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(texts(&all["runs"], "run"), facts);
    assert_eq!(all["next"], Value::Null);
    // Page by page comes the same.
    let (mut walked, mut before) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["runs", "--limit", "2"];
        if let Some(before) = &before {
            args.extend(["--before", before]);
        }
        let page = day.json(&args);
        walked.extend(texts(&page["runs"], "run").into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => before = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(walked, facts);
    let stale = day.json(&["runs", "--state", "prod", "--status", "stale", "--since", "1h"]);
    assert_eq!(texts(&stale["runs"], "actor"), ["bob"]);
    assert!(day.json(&["runs", "--since", "2100-01-01"])["runs"].as_array().unwrap().is_empty());
    assert_eq!(texts(&day.json(&["runs", "--actor", "carol"])["runs"], "status"), ["committed"]);
    contains(&day.says(&["runs"]).stdout, &["RUN", "! conflict", "✓ committed", "! stale", "alice", "carol"]);
    contains(&day.says(&["runs", "--format", "markdown"]).stdout, &["| Run |", "**! conflict**", "✓ committed"]);
    drop(day.site.kl().args(["runs", "--state", "nowhere"]).exits(3));
}

fn runs_are_explained(day: &Day, database: &Database) {
    let (alice, carol) = (run(database, "alice", "committed"), run(database, "carol", "committed"));
    let story = |run: &str| day.says(&["explain", run]).stdout;
    contains(
        &story(&carol),
        &[
            "Who else was there?",
            &format!("run {alice} by alice"),
            "disjoint, no row is touched by both",
            "what it writes depends on no other resource",
            "✓ Planned again: identical",
            "✓ Committed exactly what was planned: 1 row",
            "~ terraform_data.other",
        ],
    );
    contains(
        &story(&alice),
        &["✓ Committed exactly what was planned", "terraform_data.slow: ", "no other run was live"],
    );
    let refused = run(database, "bob", "conflict");
    contains(
        &story(&refused),
        &[
            "! Refused: ",
            "is held by alice",
            &format!("run {alice}"),
            "it met our ",
            "nothing was committed",
            "--wait 10m",
        ],
    );
    let stale = run(database, "bob", "stale");
    contains(
        &story(&stale),
        &["! Changed since the plan: ", "it writes this row", "by alice", "the plan no longer holds"],
    );

    let document = day.json(&["explain", &carol]);
    assert_eq!(document["exactly_as_planned"], true);
    assert_eq!(
        document["result_serial"].to_string(),
        database.value("SELECT serial FROM state_versions WHERE actor = 'carol'").unwrap()
    );
    assert!(texts(&document["points"], "topic").contains(&"others"));
    // Every sentence about an event names one that is there.
    for point in document["points"].as_array().unwrap() {
        if let Some(seq) = point["event"].as_i64() {
            let sql = format!("SELECT count(*) FROM run_events WHERE seq = {seq} AND run_id = '{carol}'");
            assert_eq!(database.value(&sql).as_deref(), Some("1"));
        }
    }
    contains(
        &day.says(&["explain", &refused, "--format", "markdown"]).stdout,
        &["### Who else was there?", "- ! Refused: "],
    );
}

/// The queries of docs/queries.md.
fn queries() -> Vec<String> {
    let page = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/queries.md");
    let page = fs::read_to_string(page).unwrap();
    page.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

fn the_queries_of_the_page_run_and_find_something(database: &Database) {
    let day = Day::new(database);
    day.goes_by();
    let queries = queries();
    assert!(queries.len() > 10, "the page was not understood");
    // What is going on is looked at while something does.
    let (now, then): (Vec<&String>, Vec<&String>) =
        queries.iter().partition(|sql| sql.contains("reservation_overview") || sql.contains("ended_at IS NULL"));
    assert_eq!(now.len(), 2);
    for sql in then {
        assert!(!database.rows(sql).is_empty(), "finds nothing: {sql}");
    }
    day.plan("alice", &["--var=value=4"]);
    day.gates.close("apply");
    let alice = day.apply("alice", &["--var=value=4"]);
    day.gates.reached("apply");
    for sql in now {
        assert!(!database.rows(sql).is_empty(), "finds nothing: {sql}");
    }
    day.gates.open("apply");
    drop(alice.exits(0));

    let one = |sql: &str| database.value(sql).unwrap();
    assert_eq!(
        one("SELECT count(*) FROM current_resources"),
        one("SELECT count(*) FROM resources WHERE to_serial IS NULL")
    );
    assert_eq!(one("SELECT count(*) FROM run_overview"), one("SELECT count(*) FROM runs"));
    assert_eq!(one("SELECT count(*) FROM version_overview"), one("SELECT count(*) FROM state_versions"));
    assert_eq!(one("SELECT count(*) FROM reservation_overview"), "0");
    let life = database.rows(
        "SELECT serial, change, actor FROM resource_changes WHERE address = 'terraform_data.other' ORDER BY serial",
    );
    let life: Vec<Vec<&str>> =
        life.iter().map(|row| row.iter().map(|cell| cell.as_deref().unwrap()).collect()).collect();
    assert_eq!(life, [["1", "created", "alice"], ["2", "changed", "carol"], ["4", "changed", "alice"]]);
    let carol = database.rows("SELECT beside, lane, replan, stale_check FROM run_overview WHERE actor = 'carol'");
    let carol: Vec<&str> = carol[0].iter().map(|cell| cell.as_deref().unwrap()).collect();
    assert_eq!(carol, ["1", "narrow", "identical", "passed"]);
    assert_eq!(one("SELECT count(DISTINCT holder) FROM run_conflicts WHERE actor = 'bob' AND holder = 'alice'"), "1");
}
