//! A day's work of ten actors on one state, and somebody who saw nothing of it: what the commands answer is what the
//! database holds. A minute or so, because everything is done by real runs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::database::{Backend, Database};
use crate::harness::kl::{Kl, Running};
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::stage::{Gates, runs};

on_both_databases!(a_reader_who_saw_nothing_gets_every_answer);

/// `r5` to `r9` read `r0` to `r4`; `fragile` breaks while its gate is closed, `slow` waits at its own.
fn config() -> String {
    let mut text = String::from("terraform {\n  backend \"http\" {}\n}\nvariable \"gates\" {}\n");
    for number in 0..10 {
        let reads = if number < 5 { String::new() } else { format!("${{terraform_data.r{}.output}}-", number - 5) };
        text.push_str(&format!(
            "variable \"v{number}\" {{ default = \"1\" }}\nresource \"terraform_data\" \"r{number}\" {{\n  \
             input = \"{reads}${{var.v{number}}}\"\n}}\n"
        ));
    }
    for (name, command) in [
        ("fragile", "test ! -e ${var.gates}/broken"),
        ("slow", "while [ -e ${var.gates}/slow ]; do touch ${var.gates}/slow.reached; sleep 0.02; done"),
    ] {
        text.push_str(&format!(
            "variable \"{name}\" {{ default = \"1\" }}\nresource \"terraform_data\" \"{name}\" {{\n  \
             triggers_replace = [var.{name}]\n  provisioner \"local-exec\" {{\n    command = \"{command}\"\n  }}\n}}\n"
        ));
    }
    text
}

struct Day<'d> {
    site: Site,
    gates: Gates,
    database: &'d Database,
    /// What was merged by now: without it, who plans would take back what others have done.
    merged: RefCell<BTreeMap<String, String>>,
}

/// Each actor works for a request of their own.
const FIRST_REQUEST: usize = 100;

fn actor(number: usize) -> String {
    format!("actor-{number}")
}

impl Day<'_> {
    /// kl in the job of an actor's request.
    fn job(&self, number: usize) -> Kl {
        let request = FIRST_REQUEST + number;
        self.site
            .kl()
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_ACTOR", actor(number))
            .env("GITHUB_REPOSITORY", "org/infra")
            .env("GITHUB_REF", format!("refs/pull/{request}/merge"))
    }

    fn inputs(&self, kl: Kl, vars: &[String]) -> Kl {
        let mut all = self.merged.borrow().clone();
        all.extend(
            vars.iter().filter_map(|var| var.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let vars = all.into_iter().map(|(name, value)| format!("--var={name}={value}"));
        kl.arg(format!("--var={}", self.gates.var())).args(vars)
    }

    fn merge(&self, vars: &[String]) {
        let vars = vars.iter().filter_map(|var| var.split_once('='));
        self.merged.borrow_mut().extend(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    fn spec(&self, number: usize) -> String {
        self.site.path(format!("{number}.json")).into_string()
    }

    fn plan(&self, number: usize, target: &str, vars: &[String]) {
        let target = format!("--target=terraform_data.{target}");
        let out = self.spec(number);
        let kl = self.job(number).args(["plan", "live", "--state", "prod", "--out", &out, &target]);
        drop(self.inputs(kl, vars).exits(0));
    }

    fn apply(&self, number: usize, vars: &[String], args: &[&str]) -> Running {
        let spec = self.spec(number);
        let kl = self.job(number).args(["apply", &spec, "--dir", "live", "--state", "prod"]);
        self.inputs(kl.args(args.iter().copied()), vars).spawn()
    }

    fn asks(&self, args: &[&str]) -> Value {
        self.site.kl().args(args.iter().copied()).args(["--format", "json"]).exits(0).json()
    }

    fn told(&self, args: &[&str]) -> String {
        self.site.kl().args(args.iter().copied()).exits(0).stdout
    }

    /// The facts, one text a row.
    fn facts(&self, sql: &str) -> Vec<String> {
        let rows = self.database.rows(sql).into_iter();
        rows.map(|row| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")).collect()
    }
}

fn v(number: usize, value: &str) -> Vec<String> {
    vec![format!("v{number}={value}")]
}

fn texts(list: &Value, member: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[member].as_str().unwrap_or_default().to_owned()).collect()
}

fn a_reader_who_saw_nothing_gets_every_answer(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", &config());
    let gates = Gates::new(&site);
    let day = Day { site, gates, database, merged: RefCell::default() };
    day.goes_by();
    let evening = day.begins_in_the_evening();
    what_is_running(&day);
    day.gates.open("slow");
    drop(evening.exits(0));
    what_did_each_run_touch(&day);
    what_changed_since_my_plan(&day);
    why_did_it_wait_or_fail(&day);
    who_owned_this_last_month(&day);
    which_request_broke_this(&day);
}

impl Day<'_> {
    fn goes_by(&self) {
        let first = self.job(0).args(["apply", "live", "--auto-approve", "--state", "prod"]);
        drop(self.inputs(first, &[]).exits(0));
        // Everybody plans the same morning, and all apply at once.
        for number in 0..10 {
            self.plan(number, &format!("r{number}"), &v(number, "2"));
        }
        let applies: Vec<Running> =
            (0..10).map(|number| self.apply(number, &v(number, "2"), &["--wait", "1m"])).collect();
        // Who came after a change of what they read is refused: which ones these are, nobody can know before.
        let ends = applies.into_iter().map(|apply| apply.ends().0.success()).enumerate();
        let refused: Vec<usize> = ends.filter(|(_, good)| !good).map(|(number, _)| number).collect();
        for number in &refused {
            drop(self.apply(*number, &v(*number, "2"), &["--on-stale", "revalidate"]).exits(4));
        }
        (0..10).for_each(|number| self.merge(&v(number, "2")));
        for number in refused {
            self.plan(number, &format!("r{number}"), &v(number, "2"));
            drop(self.apply(number, &v(number, "2"), &[]).exits(0));
        }
        // One apply breaks half-way, another is kept out by what it left, and the first is recovered.
        self.gates.close("broken");
        let fragile = ["fragile=2".to_owned()];
        self.plan(3, "fragile", &fragile);
        self.plan(4, "fragile", &["fragile=3".to_owned()]);
        drop(self.apply(3, &fragile, &[]).exits(1));
        self.gates.open("broken");
        drop(self.apply(4, &["fragile=3".to_owned()], &[]).exits(2));
        let failed = runs(self.database, "failed").remove(0);
        drop(self.job(3).args(["recover", &failed]).exits(0));
        // A plain terraform comes along.
        let plain = self.job(5).args(["exec", "--dir", "live", "--state", "prod", "--", program().as_str()]);
        drop(plain.clone().args(["init", "-input=false"]).exits(0));
        let apply = ["apply", "-auto-approve", "-input=false", "-target=terraform_data.r4", "-var=v4=7"];
        drop(plain.args(apply).arg(format!("-var={}", self.gates.var())).exits(0));
        self.merge(&v(4, "7"));
        self.writes_twice(5, &[("r4", 4, "8"), ("r2", 2, "9")]);
        // One is ended from outside.
        self.gates.close("slow");
        self.plan(6, "slow", &["slow=2".to_owned()]);
        let ended = self.apply(6, &["slow=2".to_owned()], &[]);
        self.gates.reached("slow");
        let run = runs(self.database, "applying").remove(0);
        drop(self.job(7).args(["abort", &run]).exits(0));
        self.gates.open("slow");
        drop(ended.exits(1));
        drop(self.job(7).args(["recover", &run]).exits(0));
        // actor-8 plans something in the afternoon, and others change what it reads.
        self.plan(8, "r8", &v(8, "5"));
        for (number, row) in [(1, 3), (2, 1)] {
            self.plan(number, &format!("r{row}"), &v(row, "6"));
            drop(self.apply(number, &v(row, "6"), &[]).exits(0));
            self.merge(&v(row, "6"));
        }
    }

    /// A plain terraform that writes its state in the midst of its work, as it does every 20 seconds, and at its end: each
    /// time one of the resources has got another value.
    fn writes_twice(&self, number: usize, changes: &[(&str, usize, &str)]) {
        let mut state = self.site.kl().args(["state", "pull", "live", "--state", "prod"]).exits(0).json();
        let mut script =
            "set -e; ask() { curl -sf -u kl:$TF_HTTP_PASSWORD \"$@\"; }; lock='{\"ID\":\"long\",\"Who\":\"somebody\"}'; \
             ask -X LOCK -d \"$lock\" $TF_HTTP_ADDRESS; "
                .to_owned();
        for (resource, variable, value) in changes {
            state["serial"] = (state["serial"].as_i64().unwrap() + 1).into();
            let resources = state["resources"].as_array_mut().unwrap();
            let found = resources.iter_mut().find(|one| one["name"] == *resource).unwrap();
            for attribute in ["input", "output"] {
                found["instances"][0]["attributes"][attribute]["value"] = (*value).into();
            }
            let file = self.site.path(format!("{resource}.tfstate"));
            std::fs::write(&file, state.to_string()).unwrap();
            script.push_str(&format!("ask -X POST --data-binary @{file} \"$TF_HTTP_ADDRESS?ID=long\"; "));
            self.merge(&v(*variable, value));
        }
        script.push_str("ask -X UNLOCK -d \"$lock\" $TF_HTTP_ADDRESS");
        let kl = self.job(number).args(["exec", "--dir", "live", "--state", "prod", "--", "sh", "-c", &script]);
        drop(kl.exits(0));
    }

    /// An apply that goes on.
    fn begins_in_the_evening(&self) -> Running {
        self.plan(9, "slow", &["slow=3".to_owned()]);
        self.gates.close("slow");
        let running = self.apply(9, &["slow=3".to_owned()], &[]);
        self.gates.reached("slow");
        running
    }
}

fn what_is_running(day: &Day<'_>) {
    let state = day.asks(&["status", "--state", "prod"])["states"][0].clone();
    assert_eq!(texts(&state["runs"], "run"), day.facts("SELECT CAST(id AS text) FROM runs WHERE ended_at IS NULL"));
    assert_eq!(texts(&state["runs"], "actor"), ["actor-9"]);
    let reserved: BTreeSet<String> = texts(&state["reservations"], "pattern").into_iter().collect();
    let facts = day.facts("SELECT pattern FROM reservation_overview WHERE state = 'prod'");
    assert_eq!(reserved, facts.into_iter().collect());
    assert!(day.told(&["status"]).contains("reserved by actor-9"), "{}", day.told(&["status"]));
}

fn what_did_each_run_touch(day: &Day<'_>) {
    let several = "SELECT kind, actor, versions, rows_opened, rows_closed FROM run_overview WHERE versions > 1";
    assert_eq!(day.facts(several), ["plain actor-5 2 2 2"]);
    let listed = day.asks(&["runs", "--limit", "1000"]);
    let ids = texts(&listed["runs"], "run");
    assert_eq!(ids, day.facts("SELECT CAST(id AS text) FROM runs ORDER BY started_at DESC, id DESC"));
    for run in ids {
        let shown = day.asks(&["show", &run]);
        let versions = shown["versions"].as_array().unwrap();
        let touched: BTreeSet<String> = versions
            .iter()
            .flat_map(|version| version["rows"].as_array().unwrap())
            .filter_map(|row| row.as_str()?.split_once(' ').map(|(_, address)| address.to_owned()))
            .collect();
        let sql = format!("SELECT address FROM resource_changes WHERE CAST(run_id AS text) = '{run}'");
        assert_eq!(touched, day.facts(&sql).into_iter().collect(), "{run}");
        let serials: Vec<String> = versions.iter().map(|version| version["serial"].to_string()).collect();
        let sql = format!("SELECT serial FROM state_versions WHERE CAST(run_id AS text) = '{run}' ORDER BY serial");
        assert_eq!(serials, day.facts(&sql), "{run}");
        let told = (day.told(&["show", &run]), day.told(&["explain", &run]));
        for row in touched.iter().filter(|_| touched.len() <= 20) {
            assert!(told.0.contains(row) && told.1.contains(row), "{row}: {told:?}");
        }
        // Whether it was exactly what was planned: as its own record says, and as the plan says.
        let recorded = shown["events"].as_array().unwrap().iter().find(|event| event["event"]["kind"] == "committed");
        let recorded = recorded.map_or(Value::Null, |event| event["event"]["as_planned"].clone());
        assert_eq!(shown["version"]["as_planned"], recorded, "{run}");
        assert_eq!(day.asks(&["explain", &run])["exactly_as_planned"], recorded, "{run}");
        if shown["kind"] == "apply" && shown["status"] == "committed" {
            assert_eq!(recorded, true, "{run}");
            let told = day.told(&["explain", &run]);
            assert!(told.contains("✓ Committed exactly what was planned"), "{told}");
        }
        let facts = format!("SELECT actor, request, status FROM run_overview WHERE CAST(run_id AS text) = '{run}'");
        let request = shown["origin"]["request"].to_string();
        let told = [shown["actor"].as_str().unwrap(), &request, shown["status"].as_str().unwrap()].join(" ");
        assert_eq!(vec![told], day.facts(&facts));
    }
}

fn what_changed_since_my_plan(day: &Day<'_>) {
    let spec = day.spec(8);
    let since = day.asks(&["history", "--since-plan", &spec]);
    let changes = |class: &str| -> BTreeSet<String> { texts(&since[class], "row").into_iter().collect() };
    let planned: Value = serde_json::from_str(&std::fs::read_to_string(&spec).unwrap()).unwrap();
    let serial = planned["state"]["serial"].to_string();
    let facts = day.facts(&format!("SELECT DISTINCT address FROM resource_changes WHERE serial > {serial}"));
    let told: BTreeSet<String> = ["write", "read", "outside"].into_iter().flat_map(changes).collect();
    assert_eq!(told, facts.into_iter().collect());
    assert_eq!(changes("read"), BTreeSet::from(["terraform_data.r3".to_owned()]));
    assert!(changes("outside").contains("terraform_data.r1"));
    for (class, row) in [("read", "terraform_data.r3"), ("outside", "terraform_data.r1")] {
        let change = since[class].as_array().unwrap().iter().find(|change| change["row"] == row).unwrap().clone();
        let sql =
            format!("SELECT actor, request FROM resource_changes WHERE address = '{row}' ORDER BY serial DESC LIMIT 1");
        let told = format!("{} {}", change["cause"]["actor"].as_str().unwrap(), change["cause"]["origin"]["request"]);
        assert_eq!(vec![told], day.facts(&sql));
        assert_eq!(change["attributes"], serde_json::json!(["input", "output"]));
    }
}

fn why_did_it_wait_or_fail(day: &Day<'_>) {
    for run in runs(day.database, "conflict") {
        let told = day.told(&["explain", &run]);
        let facts = format!("SELECT pattern, holder FROM run_conflicts WHERE CAST(run_id AS text) = '{run}'");
        for fact in day.facts(&facts) {
            let (pattern, holder) = fact.rsplit_once(' ').unwrap();
            assert!(told.contains(pattern) && told.contains(holder), "{fact}\n{told}");
        }
    }
    for run in runs(day.database, "stale") {
        let told = day.told(&["explain", &run]);
        assert!(told.contains("! Changed since the plan: terraform_data.r"), "{told}");
        assert!(told.contains("it reads ") && told.contains(": changed in serial"), "{told}");
    }
    let waited = "SELECT DISTINCT CAST(run_id AS text) FROM run_events WHERE kind = 'waiting'";
    for run in day.facts(waited) {
        assert!(day.told(&["explain", &run]).contains("… Waiting in turn behind"), "{run}");
    }
    let failed = runs(day.database, "failed");
    assert_eq!(failed.len(), 1);
    let told = day.told(&["explain", &failed[0]]);
    for part in [
        "1 object failed",
        "terraform_data.fragile",
        "kept with the run",
        "Recovered: what it left was taken over by actor-3",
    ] {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
    // The recovery opens with what it took over, and tells what that one had planned.
    let sql = "SELECT CAST(run_id AS text) FROM run_overview WHERE kind = 'recover' ORDER BY started_at LIMIT 1";
    let told = day.told(&["explain", &day.facts(sql)[0]]);
    let opens = told.find(&format!("Taking over what run {} left", failed[0]));
    let planned = told.find("What that run had planned: ");
    assert!(opens.is_some() && opens < planned, "{told}");
    let told = day.told(&["show", &failed[0]]);
    assert!(told.contains("! Terraform failed") && !told.contains("apply finished"), "{told}");
    let told = day.told(&["explain", &runs(day.database, "aborted")[0]]);
    assert!(told.contains("Ended from outside by actor-7"), "{told}");
}

fn who_owned_this_last_month(day: &Day<'_>) {
    // The first version was made a while ago.
    let month = match day.database.backend() {
        Backend::Sqlite => "committed_at - 40 * 86400000000",
        Backend::Postgres => "committed_at - interval '40 days'",
    };
    day.database.execute(&format!("UPDATE state_versions SET committed_at = {month} WHERE serial = 1"));
    let history = |args: &[&str]| {
        let known = ["history", "live", "--state", "prod", "--address", "terraform_data.r4"];
        day.asks(&[&known, args].concat())["moments"].as_array().unwrap().clone()
    };
    let whole = history(&[]);
    let facts = day.facts(
        "SELECT serial, actor, source FROM resource_changes WHERE address = 'terraform_data.r4' ORDER BY serial DESC",
    );
    let told: Vec<String> = whole
        .iter()
        .map(|moment| {
            let (cause, source) = (&moment["cause"], moment["source"].as_str().unwrap());
            format!("{} {} {source}", cause["serial"], cause["actor"].as_str().unwrap())
        })
        .collect();
    assert_eq!(told, facts);
    assert_eq!(whole.last().unwrap()["cause"]["actor"], "actor-0");
    assert!(whole.iter().any(|moment| moment["source"] == "http" && moment["cause"]["actor"] == "actor-5"));
    // Of this month only.
    assert_eq!(history(&["--since", "30d"]), whole[..whole.len() - 1]);
    let versions = day.asks(&["history", "live", "--state", "prod", "--since", "30d", "--limit", "1000"]);
    let facts = day.facts("SELECT serial FROM version_overview WHERE serial > 1 ORDER BY serial DESC");
    let told: Vec<String> =
        versions["versions"].as_array().unwrap().iter().map(|one| one["serial"].to_string()).collect();
    assert_eq!(told, facts);
    let blamed = day.asks(&["blame", "--state", "prod", "--since", "30d", "--dir", "live"]);
    let facts = day.facts("SELECT address, actor FROM current_resources WHERE serial > 1 ORDER BY address");
    let told = blamed["rows"].as_array().unwrap().iter();
    let told: Vec<String> = told
        .map(|row| format!("{} {}", row["row"].as_str().unwrap(), row["cause"]["actor"].as_str().unwrap()))
        .collect();
    assert_eq!(told, facts);
}

fn which_request_broke_this(day: &Day<'_>) {
    let failed = day.asks(&["runs", "--status", "failed"]);
    let facts = day.facts("SELECT request FROM run_overview WHERE status = 'failed'");
    assert_eq!(vec![failed["runs"][0]["origin"]["request"].to_string()], facts);
    assert_eq!(facts, ["103"]);
    let life = day.asks(&["history", "live", "--state", "prod", "--address", "terraform_data.fragile"]);
    let newest = &life["moments"][0];
    assert_eq!((&newest["source"], &newest["cause"]["origin"]["request"]), (&"recover".into(), &103.into()));
    let told = day.told(&["blame", "terraform_data.fragile", "--state", "prod", "--dir", "live"]);
    assert!(told.contains("org/infra#103"), "{told}");
}
