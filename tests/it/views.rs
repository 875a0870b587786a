//! What the views say of a day's work is what the database holds: of runs that went beside each other, were refused, or
//! found their plan overtaken.

use std::fs;

use camino::Utf8Path;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::kl::{Running, Said};
use crate::harness::site::Site;
use crate::stage::{CHAIN, Gates};

on_both_databases!(the_views_tell_what_happened, the_queries_of_the_page_run_and_find_something);

/// A state with the history of a day: alice creates everything; then she changes the chain, beside her bob is refused and
/// carol changes another row; then bob's plan no longer holds.
pub(crate) struct Day {
    pub(crate) site: Site,
    gates: Gates,
}

impl Day {
    pub(crate) fn new(database: &Database) -> Self {
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

    pub(crate) fn kl(&self, actor: &str, args: &[&str]) -> Running {
        let var = format!("--var={}", self.gates.var());
        self.site.kl().args(args.iter().copied()).args([var.as_str(), "--actor", actor]).spawn()
    }

    pub(crate) fn plan(&self, actor: &str, args: &[&str]) {
        let out = self.spec(actor);
        let planned = [&["plan", "live", "--state", "prod", "--out", &out], args].concat();
        drop(self.kl(actor, &planned).exits(0));
    }

    fn spec(&self, actor: &str) -> String {
        self.site.path(format!("{actor}.json")).into_string()
    }

    pub(crate) fn apply(&self, actor: &str, args: &[&str]) -> Running {
        let spec = self.spec(actor);
        self.kl(actor, &[&["apply", &spec, "--dir", "live", "--state", "prod"], args].concat())
    }

    /// What happens between the plans and the evening; something else while alice is at work.
    pub(crate) fn goes_by(&self, meanwhile: impl FnOnce(&Self)) {
        self.gates.close("apply");
        let alice = self.apply("alice", &["--var=value=2"]);
        self.gates.reached("apply");
        meanwhile(self);
        drop(self.apply("bob", &["--var=value=3"]).exits(2));
        drop(self.apply("carol", &["--var=other=2"]).exits(0));
        self.gates.open("apply");
        drop(alice.exits(0));
        drop(self.apply("bob", &["--var=value=3"]).exits(4));
    }

    pub(crate) fn says(&self, args: &[&str]) -> Said {
        self.site.kl().args(args.iter().copied()).exits(0)
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.says(&[args, &["--format", "json"]].concat()).json()
    }
}

/// The run of an actor that ended so.
#[track_caller]
pub(crate) fn run(database: &Database, actor: &str, status: &str) -> String {
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
    day.goes_by(|day| {
        plans_have_an_outlook(day, database);
        what_goes_on_is_watched(day);
    });
    runs_are_listed(&day, database);
    runs_are_explained(&day, database);
    plans_are_compared_with_what_came_after(&day, database);
    versions_say_why(&day, database);
    rows_have_a_life_and_an_owner(&day, database);
}

fn plans_have_an_outlook(day: &Day, database: &Database) {
    let alice = run(database, "alice", "applying");
    let told = day.says(&["forecast", &day.spec("bob")]).stdout;
    contains(
        &told,
        &[
            "! An apply that started now would be refused: ",
            "is held by alice",
            "✗ both write the same rows",
            &format!("run {alice}"),
            "✓ It still holds",
        ],
    );
    let calm = day.says(&["forecast", &day.spec("carol")]).stdout;
    contains(&calm, &["✓ independent", "✓ Nothing is reserved that would stand in its way", &format!("run {alice}")]);
    let document = day.json(&["forecast", &day.spec("carol")]);
    assert_eq!(document["plans"][0]["runs"][0]["relation"], "independent");
    let spec = document["plans"][0]["spec"].as_str().unwrap().to_owned();
    assert_eq!(day.json(&["forecast", &spec])["plans"], document["plans"]);
    // Who is at work is one run; a page of it says what it leaves out.
    let hidden = day.says(&["status", "--since", "2100-01-01"]).stdout;
    contains(&hidden, &["what is running or reserved is hidden by --since or --before"]);
    assert!(!hidden.contains("nothing is running"), "{hidden}");
    contains(&day.says(&["status", "--since", "1h"]).stdout, &["applying", "✓ reserved by alice"]);
    let behind = day.json(&["status", "--before", &alice])["states"][0].clone();
    assert_eq!((&behind["runs"], &behind["reservations"]), (&serde_json::json!([]), &serde_json::json!([])));
    // No request has a plan here.
    contains(&day.says(&["forecast", "--state", "prod"]).stdout, &["No open request has a plan on state prod"]);
    contains(&day.says(&["forecast", &spec, "--format", "markdown"]).stdout, &["| Relation |", "✓ independent"]);
}

fn what_goes_on_is_watched(day: &Day) {
    let args = ["status", "--watch", "1s"];
    let mut watch = day.site.kl().args(args).spawn();
    watch.wait_to_print("prod at serial 1", 2);
    watch.signal(Signal::SIGINT);
    contains(&watch.exits(0).stdout, &["applying", "reserved by alice"]);
    // When its terminal is closed it ends, too; not where `nohup` says otherwise.
    let mut watch = day.site.kl().args(args).spawn();
    let mut stays = day.site.kl().instead("nohup").arg(env!("CARGO_BIN_EXE_kl")).args(args).spawn();
    watch.wait_to_print("prod at serial 1", 1);
    stays.wait_to_print("prod at serial 1", 1);
    watch.signal(Signal::SIGHUP);
    stays.signal(Signal::SIGHUP);
    drop(watch.exits(0));
    stays.wait_to_print("prod at serial 1", 2);
    stays.signal(Signal::SIGINT);
    drop(stays.exits(0));
}

fn plans_are_compared_with_what_came_after(day: &Day, database: &Database) {
    let since = day.json(&["history", "--since-plan", &day.spec("bob")]);
    assert_eq!(since["fresh"], false);
    let changed = database.rows(
        "SELECT DISTINCT address FROM resource_changes WHERE state = 'prod' AND serial > 1 AND change = 'changed' ORDER BY 1",
    );
    let classes = ["write", "read", "outside"].map(|class| texts(&since[class], "row"));
    let mut told: Vec<&str> = classes.iter().flatten().copied().collect();
    told.sort_unstable();
    assert_eq!(told, changed.iter().map(|row| row[0].as_deref().unwrap()).collect::<Vec<_>>());
    assert_eq!(classes[2], ["terraform_data.other"]);
    let outside = &since["outside"][0];
    assert_eq!((&outside["cause"]["actor"], &outside["touched"]), (&"carol".into(), &"changed".into()));
    assert_eq!(outside["cause"]["run"], run(database, "carol", "committed"));
    assert_eq!(outside["attributes"], serde_json::json!(["input", "output"]));
    contains(
        &day.says(&["history", "--since-plan", &day.spec("bob")]).stdout,
        &["! The plan no longer holds", "! it writes", "✓ outside", "input, output", "carol"],
    );
    let calm = day.json(&["history", "--since-plan", &day.spec("carol")]);
    assert_eq!((&calm["fresh"], calm["write"].as_array().map(Vec::len)), (&true.into(), Some(0)));
    drop(day.site.kl().args(["history", "--since-plan", "nowhere.json"]).exits(3));
    // What has been applied does not wait for anything any more: as which version, by which run.
    let alice = run(database, "alice", "committed");
    let done = format!("✓ It has been applied already: as serial 3 by alice, run {alice}");
    for view in [&["history", "--since-plan"][..], &["forecast"]] {
        let told = day.says(&[view, &[day.spec("alice").as_str()]].concat()).stdout;
        contains(&told, &[done.as_str()]);
        assert!(!told.contains("still holds") && !told.contains("would be refused"), "{told}");
        let document = day.json(&[view, &[day.spec("alice").as_str()]].concat());
        let applied = if view == ["forecast"] { &document["plans"][0]["applied"] } else { &document["applied"] };
        assert_eq!((&applied["run"], &applied["serial"]), (&alice.as_str().into(), &3.into()));
    }
    assert_eq!(since["applied"], Value::Null);
}

fn versions_say_why(day: &Day, database: &Database) {
    let versions = day.json(&["history", "live", "--state", "prod"]);
    let facts = database.rows("SELECT serial, actor, mode FROM version_overview ORDER BY serial DESC");
    for (told, fact) in versions["versions"].as_array().unwrap().iter().zip(&facts) {
        assert_eq!(Some(told["serial"].to_string()), fact[0]);
        assert_eq!(told["actor"].as_str(), fact[1].as_deref());
        assert_eq!(told["mode"].as_str(), fact[2].as_deref());
        assert_eq!(told["replan"], "identical");
        // One count of rows, wherever it is told.
        let rows = told["rows"].as_array().map_or(0, Vec::len);
        let said = if rows == 1 { "1 row changed".to_owned() } else { format!("{rows} rows changed") };
        let show = day.says(&["show", told["run"].as_str().unwrap()]).stdout;
        contains(&show, &[&format!("Committed serial {} ({said})", told["serial"]), &format!("row-delta, {said}")]);
        assert_eq!(told["rows_touched"], rows, "{told}");
    }
    assert_eq!(texts(&versions["versions"], "actor"), ["alice", "carol", "alice"]);
    // Page by page comes the same, and each page says how to go on.
    assert_eq!(versions["next_before"], Value::Null);
    let page = day.json(&["history", "live", "--state", "prod", "--limit", "2"]);
    assert_eq!((page["versions"].as_array().map(Vec::len), &page["next_before"]), (Some(2), &2.into()));
    let rest = day.json(&["history", "live", "--state", "prod", "--limit", "2", "--before", "2"]);
    assert_eq!((&rest["versions"][0], &rest["next_before"]), (&versions["versions"][2], &Value::Null));
    for format in ["table", "markdown"] {
        let told = day.says(&["history", "live", "--state", "prod", "--limit", "2", "--format", format]).stdout;
        contains(&told, &["Older ones: the same with ", "--before 2"]);
    }
    drop(day.site.kl().args(["history", "live", "--limit", "0"]).exits(3));
    let since = day.json(&["history", "--since-plan", &day.spec("bob"), "--limit", "1"]);
    assert_eq!((since["write"].as_array().map(Vec::len), &since["outside"]), (Some(1), &serde_json::json!([])));
    assert!(since["left_out"].as_u64().is_some_and(|number| number > 0), "{since}");
    // Row by row comes the same.
    let whole = day.json(&["history", "--since-plan", &day.spec("bob")]);
    let rows = |page: &Value| -> Vec<String> {
        let all = ["write", "read", "outside"].into_iter().flat_map(|class| texts(&page[class], "row"));
        all.map(str::to_owned).collect()
    };
    let (mut walked, mut page) = (rows(&since), since);
    while let Some(after) = page["next_after"].as_str() {
        let args = ["history", "--since-plan", &day.spec("bob"), "--limit", "1", "--after", after];
        page = day.json(&args);
        walked.extend(rows(&page));
    }
    assert_eq!(walked, rows(&whole));
    let first = day.says(&["history", "--since-plan", &day.spec("bob"), "--limit", "1"]).stdout;
    contains(&first, &[&format!("More: the same with --after {}", walked[0])]);
    let told = day.says(&["history", "live", "--state", "prod"]).stdout;
    contains(&told, &["RE-PLAN", "beside 1 run", "no other run was live", "row-delta"]);
    contains(&day.says(&["history", "live", "--state", "prod", "--rows"]).stdout, &["  ~ terraform_data.other"]);
}

fn rows_have_a_life_and_an_owner(day: &Day, database: &Database) {
    // bob gives the row another name, and it keeps its life.
    let main = day.site.repo().join("live/main.tf");
    let config =
        fs::read_to_string(&main).unwrap().replace("\"terraform_data\" \"other\"", "\"terraform_data\" \"renamed\"");
    let moved = "moved {\n  from = terraform_data.other\n  to   = terraform_data.renamed\n}\n";
    fs::write(&main, config + moved).unwrap();
    day.plan("bob", &["--var=value=2", "--var=other=2"]);
    drop(day.apply("bob", &["--var=value=2", "--var=other=2"]).exits(0));

    for name in ["terraform_data.renamed", "terraform_data.other"] {
        let life = day.json(&["history", "live", "--state", "prod", "--address", name]);
        let told: Vec<(i64, &str, &str, &str)> = life["moments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|moment| {
                (
                    moment["cause"]["serial"].as_i64().unwrap(),
                    moment["row"].as_str().unwrap(),
                    moment["moved_from"].as_str().unwrap_or_default(),
                    moment["cause"]["actor"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (4, "terraform_data.renamed", "terraform_data.other", "bob"),
                (2, "terraform_data.other", "", "carol"),
                (1, "terraform_data.other", "", "alice"),
            ],
            "{name}"
        );
        let page =
            day.json(&["history", "live", "--state", "prod", "--address", name, "--before", "4", "--limit", "1"]);
        assert_eq!(page["moments"][0]["cause"]["serial"], 2);
        assert_eq!(page["next_before"], 2);
    }
    let told = day.says(&["history", "live", "--state", "prod", "--address", "terraform_data.renamed"]).stdout;
    contains(&told, &["moved from terraform_data.other", "created", "input"]);
    drop(day.site.kl().args(["history", "live", "--state", "prod", "--address", "a..b"]).exits(3));

    let blame = day.json(&["blame", "--state", "prod"]);
    let facts =
        database.rows("SELECT address, actor, serial FROM current_resources WHERE state = 'prod' ORDER BY address");
    let rows = blame["rows"].as_array().unwrap();
    assert_eq!(rows.len(), facts.len());
    for (row, fact) in rows.iter().zip(&facts) {
        let told = (row["row"].as_str(), row["cause"]["actor"].as_str(), row["cause"]["serial"].to_string());
        assert_eq!(told, (fact[0].as_deref(), fact[1].as_deref(), fact[2].clone().unwrap()));
    }
    let first = day.json(&["blame", "--state", "prod", "--limit", "1"]);
    let after = first["next_after"].as_str().unwrap();
    let second = day.json(&["blame", "--state", "prod", "--limit", "1", "--after", after]);
    assert_eq!(second["rows"][0], blame["rows"][1]);
    assert_eq!(
        texts(&day.json(&["blame", "terraform_data.renamed", "--state", "prod"])["rows"], "row"),
        ["terraform_data.renamed"]
    );
    contains(&day.says(&["blame", "--state", "prod", "--format", "markdown"]).stdout, &["| Row | Serial |", "bob"]);
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
    // What filters hide is not said to be nowhere.
    let prod = ["--state", "prod"];
    for (view, filter) in [
        (&["runs", "--since", "2100-01-01"][..], "--since"),
        (&["history", "live", "--before", "1"], "--before"),
        (&["history", "live", "--since", "2100-01-01"], "--since"),
        (&["history", "live", "--address", "terraform_data.slow", "--before", "1"], "--before"),
        (&["blame", "terraform_data.never"], "terraform_data.never"),
        (&["forecast", "--since", "2100-01-01"], "--since"),
    ] {
        contains(&day.says(&[view, &prod].concat()).stdout, &[&format!("Nothing is left by {filter}")]);
    }
    drop(day.site.kl().args(["forecast", "--before", all["runs"][0]["run"].as_str().unwrap()]).args(prod).exits(3));
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
        &["✓ Committed exactly what was planned", "terraform_data.slow: ", "no other live run held anything"],
    );
    let refused = run(database, "bob", "conflict");
    // Who came while it held its rows is told by what they have on their own record.
    contains(
        &story(&alice),
        &[
            "✓ Came later and went beside it: 1 run",
            &format!("run {carol} by carol"),
            "! Came later and was refused because of it: 1 run",
            &format!("run {refused} by bob"),
            "in its way was terraform_data.",
        ],
    );
    let later = day.json(&["explain", &alice])["later"].clone();
    assert_eq!(texts(&later, "met"), ["refused", "beside"]);
    assert_eq!(texts(&later, "run"), [refused.as_str(), carol.as_str()]);
    assert_eq!(day.json(&["show", &alice])["later"], later);
    assert_eq!(day.json(&["explain", &carol])["later"], serde_json::json!([]));
    let short = day.says(&["explain", &alice, "--limit", "1"]).stdout;
    contains(&short, &["more: the same with --limit "]);
    // A timeline comes in pages, too, and a version names its rows.
    let show = day.says(&["show", &alice]).stdout;
    contains(&show, &["What it changed", "  ~ terraform_data.slow", "✓ Terraform finished well"]);
    contains(&day.says(&["show", &alice, "--limit", "2"]).stdout, &["Later ones: the same with --after 2"]);
    let whole = day.json(&["show", &alice]);
    let page = day.json(&["show", &alice, "--limit", "2", "--after", "2"]);
    assert_eq!(page["events"].as_array().unwrap()[..], whole["events"].as_array().unwrap()[2..4]);
    assert_eq!((&page["next_after"], &whole["next_after"]), (&4.into(), &Value::Null));
    contains(
        &story(&refused),
        &[
            "! Refused: ",
            "is held by alice",
            &format!("run {alice}"),
            "it met our ",
            "nothing was committed",
            "What stood in the way is gone by now: apply again",
        ],
    );
    let stale = run(database, "bob", "stale");
    contains(&story(&stale), &["! Changed since the plan: ", "it writes ", "by alice", "the plan no longer holds"]);

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
    day.goes_by(|_| ());
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
