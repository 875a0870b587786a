//! One checkout with one root module `live`, kl and plain Terraform to run in it, and what to compare.

use std::collections::BTreeMap;
use std::fs;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::harness::database::Database;
use crate::harness::site::Site;
use crate::harness::terraform::Plain;

/// A site with one root module.
pub(crate) struct Bed {
    site: Site,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"))
    }

    /// Fails unless every part was said on standard error.
    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} was not said:\n{self}");
        }
    }

    /// The lane that the plan was made in at last.
    pub(crate) fn lane(&self) -> &str {
        let last = self.stderr.lines().rev().find_map(|line| line.split_once("Lane "));
        last.and_then(|(_, rest)| rest.split([':', ' ']).next()).unwrap_or("none")
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {}\n--- stdout\n{}\n--- stderr\n{}\n---", self.code, self.stdout, self.stderr)
    }
}

/// A plan spec, as the tests look at it.
#[derive(Debug, Clone)]
pub(crate) struct Spec(pub(crate) Value);

impl Spec {
    /// Each write as `create terraform_data.a`, with what moves, imports and deposed objects add.
    pub(crate) fn writes(&self) -> Vec<String> {
        let entries = self.0["write"].as_array().expect("a spec lists its writes");
        let objects = entries.iter().map(|entry| {
            let mut line = format!("{} {}", actions(entry), entry["address"].as_str().expect("an address"));
            if let Some(key) = entry["deposed"].as_str() {
                line.push_str(&format!(" (deposed {key})"));
            }
            if let Some(from) = entry["moved_from"].as_str() {
                line.push_str(&format!(" (from {from})"));
            }
            if let Some(id) = entry["import_id"].as_str() {
                line.push_str(&format!(" (imports {id})"));
            }
            line
        });
        let outputs = self.0["outputs"].as_array().expect("a spec lists its outputs");
        let outputs = outputs.iter().map(|o| format!("{} output.{}", actions(o), o["name"].as_str().expect("a name")));
        objects.chain(outputs).collect()
    }

    /// The patterns that it reads.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.patterns("read")
    }

    /// The data sources that it uses.
    pub(crate) fn data(&self) -> Vec<String> {
        self.patterns("data")
    }

    /// The edges over which it reads a pattern, as `FROM through A → B (SOURCE)`.
    #[track_caller]
    pub(crate) fn via(&self, pattern: &str) -> String {
        let entries = self.0["read"].as_array().into_iter().chain(self.0["data"].as_array()).flatten();
        let mut found = entries.filter(|entry| entry["pattern"] == pattern);
        let entry = found.next().unwrap_or_else(|| panic!("{pattern} is not read: {:#}", self.0["read"]));
        let through: Vec<&str> =
            entry["via"]["through"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let from = entry["via"]["from"].as_str().unwrap_or_default();
        let source = entry["via"]["source"].as_str().unwrap_or_default();
        if through.is_empty() {
            format!("{from} ({source})")
        } else {
            format!("{from} through {} ({source})", through.join(" → "))
        }
    }

    /// Why the narrow lane will not do; empty when it will.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reasons = self.0["lane"]["footprint_because"].as_array();
        reasons.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn patterns(&self, member: &str) -> Vec<String> {
        let entries = self.0[member].as_array().into_iter().flatten();
        entries.map(|entry| entry["pattern"].as_str().expect("a pattern").to_owned()).collect()
    }
}

fn actions(entry: &Value) -> String {
    let words = entry["actions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join("+")
}

impl Bed {
    /// A checkout with this text as `live/main.tf`. Lines `### path` begin another file, relative to `live`.
    pub(crate) fn new(text: &str) -> Self {
        let bed = Self { site: Site::new() };
        bed.write(text);
        bed
    }

    /// The same, with the memory in this database.
    pub(crate) fn on(database: &Database, text: &str) -> Self {
        let bed = Self { site: Site::on(database) };
        bed.write(text);
        bed
    }

    pub(crate) fn path(&self, path: &str) -> Utf8PathBuf {
        self.site.path(path)
    }

    /// Replaces the configuration.
    pub(crate) fn write(&self, text: &str) {
        let live = self.path("repo/live");
        if live.exists() {
            fs::remove_dir_all(&live).expect("the directory is ours");
        }
        for (path, text) in files(text) {
            let path = live.join(path);
            fs::create_dir_all(path.parent().expect("a file has a directory")).expect("the directory is ours");
            fs::write(path, text).expect("the directory is ours");
        }
    }

    /// kl in the checkout, with variables besides the environment's.
    pub(crate) fn kl_with(&self, env: &[(&str, &str)], args: &[&str]) -> Said {
        let kl = env.iter().fold(self.site.kl().env("KL_ACTOR", "alice"), |kl, (name, value)| kl.env(name, value));
        let (status, said) = kl.args(args).spawn().ends();
        Said { code: status.code().unwrap_or(-1), stdout: said.stdout, stderr: said.stderr }
    }

    pub(crate) fn kl(&self, args: &[&str]) -> Said {
        self.kl_with(&[], args)
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32, args: &[&str]) -> Said {
        let said = self.kl(args);
        assert_eq!(said.code, code, "kl {args:?}: {said}");
        said
    }

    /// `kl plan live` with more arguments.
    #[track_caller]
    pub(crate) fn plan(&self, args: &[&str]) -> Spec {
        self.exits(0, &[&["plan", "live"], args].concat());
        self.spec()
    }

    /// The spec file that the last plan wrote.
    #[track_caller]
    pub(crate) fn spec(&self) -> Spec {
        let text = fs::read_to_string(self.path("repo/kl-plan.json")).expect("the plan wrote its spec");
        Spec(serde_json::from_str(&text).expect("a spec is JSON"))
    }

    /// `kl apply kl-plan.json` with more arguments.
    #[track_caller]
    pub(crate) fn apply(&self, code: i32, args: &[&str]) -> Said {
        self.exits(code, &[&["apply", "kl-plan.json"], args].concat())
    }

    /// The state document of the trunk.
    #[track_caller]
    pub(crate) fn pull(&self) -> String {
        self.exits(0, &["state", "pull", "live"]).stdout
    }

    /// The newest run.
    #[track_caller]
    pub(crate) fn newest_run(&self) -> String {
        let runs = self.exits(0, &["runs", "--limit", "1", "--format", "json"]).json();
        runs["runs"][0]["run"].as_str().expect("a run").to_owned()
    }

    /// The last event of a kind on the timeline of the newest run.
    #[track_caller]
    pub(crate) fn event(&self, kind: &str) -> Value {
        let run = self.newest_run();
        let shown = self.exits(0, &["show", &run, "--format", "json"]).json();
        let events = shown["events"].as_array().expect("a timeline");
        let found = events.iter().rev().map(|one| &one["event"]).find(|event| event["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {events:#?}")).clone()
    }

    /// Makes a state document the trunk.
    #[track_caller]
    pub(crate) fn import(&self, state: &str) {
        fs::write(self.path("import.tfstate"), state).expect("the directory is ours");
        let path = self.path("import.tfstate");
        self.exits(0, &["state", "import", path.as_str(), "--state", "live"]);
    }

    /// Makes the trunk what plain Terraform makes of the configuration as it is now.
    #[track_caller]
    pub(crate) fn begin(&self, args: &[&str]) {
        let state = self.plain(None, args);
        self.import(&state);
    }

    /// What kl left in the directory for temporary files.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        self.site.leftovers()
    }

    /// What plain `terraform apply` makes of a state and the configuration as it is now.
    #[track_caller]
    pub(crate) fn plain(&self, state: Option<&str>, args: &[&str]) -> String {
        let plain = Plain::new(&self.site, "live");
        state.map_or_else(|| plain.apply(args), |state| plain.apply_to(state, args))
    }

    /// What plain `terraform plan` would change about a state; none when it would not.
    #[track_caller]
    pub(crate) fn plain_changes(&self, state: &str, args: &[&str]) -> Option<String> {
        Plain::new(&self.site, "live").changes(state, args)
    }

    /// The plan that plain Terraform makes of a state and the configuration as it is now.
    #[track_caller]
    pub(crate) fn plain_plan(&self, state: &str) -> Value {
        Plain::new(&self.site, "live").plan(state)
    }

    /// Fails unless plain Terraform finds nothing to do on the trunk, and nothing is left in the temporary directory.
    #[track_caller]
    pub(crate) fn settled(&self, args: &[&str]) {
        if let Some(changes) = self.plain_changes(&self.pull(), args) {
            panic!("plain terraform would still change the pulled state:\n{changes}");
        }
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }
}

fn files(text: &str) -> Vec<(String, String)> {
    let mut files = vec![("main.tf".to_owned(), String::new())];
    for line in text.lines() {
        if let Some(path) = line.trim_start().strip_prefix("### ") {
            files.push((path.trim().to_owned(), String::new()));
        } else {
            let (_, text) = files.last_mut().expect("there is always one");
            text.push_str(line);
            text.push('\n');
        }
    }
    files.retain(|(path, text)| path != "main.tf" || !text.trim().is_empty());
    files
}

/// What two states must have in common: every object with its attributes and every output. Ids that are made up anew
/// each time are called by their order.
pub(crate) fn rows(state: &str, known: &str) -> BTreeMap<String, String> {
    let state: Value = serde_json::from_str(state).unwrap_or_default();
    let mut rows = BTreeMap::new();
    for resource in state["resources"].as_array().into_iter().flatten() {
        let part = |name: &str| resource[name].as_str().unwrap_or_default().to_owned();
        let block = format!("{}|{}|{}|{}", part("module"), part("mode"), part("type"), part("name"));
        for instance in resource["instances"].as_array().into_iter().flatten() {
            let key = format!("{block}|{}|{}", instance["index_key"], instance["deposed"]);
            let mut sensitive: Vec<String> =
                instance["sensitive_attributes"].as_array().into_iter().flatten().map(Value::to_string).collect();
            sensitive.sort();
            let body = format!("{} status={} sensitive={sensitive:?}", instance["attributes"], instance["status"]);
            rows.insert(key, without_new_ids(&body, known));
        }
    }
    for (name, output) in state["outputs"].as_object().into_iter().flatten() {
        rows.insert(format!("output.{name}"), without_new_ids(&output.to_string(), known));
    }
    rows
}

/// Replaces every id that `known` does not have.
fn without_new_ids(text: &str, known: &str) -> String {
    let is_id = |text: &str| {
        let groups: Vec<&str> = text.split('-').collect();
        groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(id) = rest.get(..36).filter(|id| is_id(id) && !known.contains(*id)) {
            out.push_str("[new id]");
            rest = &rest[id.len()..];
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// A change of a configuration that is made twice, by kl and by plain Terraform, and has to come to the same.
#[must_use = "nothing happens before `run`"]
pub(crate) struct Change<'a> {
    before: &'a str,
    after: &'a str,
    shared: &'a str,
    kl: Vec<&'a str>,
    plain: Vec<&'a str>,
    writes: Option<Vec<&'a str>>,
    reads: Option<Vec<&'a str>>,
    data: Option<Vec<&'a str>>,
    lane: Option<&'a str>,
    edit: Option<fn(&str) -> String>,
    unsettled: bool,
}

impl<'a> Change<'a> {
    /// The two configurations; an empty one before means that there is no state yet.
    pub(crate) fn new(before: &'a str, after: &'a str) -> Self {
        Self {
            before,
            after,
            shared: "",
            kl: Vec::new(),
            plain: Vec::new(),
            writes: None,
            reads: None,
            data: None,
            lane: None,
            edit: None,
            unsettled: false,
        }
    }

    /// Files that both have.
    pub(crate) fn with(mut self, files: &'a str) -> Self {
        self.shared = files;
        self
    }

    /// Arguments of `kl plan`, and the same in Terraform's spelling.
    pub(crate) fn args(mut self, kl: &[&'a str], plain: &[&'a str]) -> Self {
        self.kl = kl.to_vec();
        self.plain = plain.to_vec();
        self
    }

    /// What the spec has to write.
    pub(crate) fn writes(mut self, writes: &[&'a str]) -> Self {
        self.writes = Some(writes.to_vec());
        self
    }

    /// What the spec has to read.
    pub(crate) fn reads(mut self, reads: &[&'a str]) -> Self {
        self.reads = Some(reads.to_vec());
        self
    }

    /// Which data sources the spec has to use.
    pub(crate) fn data(mut self, data: &[&'a str]) -> Self {
        self.data = Some(data.to_vec());
        self
    }

    /// The lane that the apply has to take.
    pub(crate) fn lane(mut self, lane: &'a str) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Changes the state before, by hand.
    pub(crate) fn edit(mut self, edit: fn(&str) -> String) -> Self {
        self.edit = Some(edit);
        self
    }

    /// The plan covers only a part of what there is to do.
    pub(crate) fn leaves_more_to_do(mut self) -> Self {
        self.unsettled = true;
        self
    }

    /// Makes the change in both ways and compares.
    #[track_caller]
    pub(crate) fn run(self) -> (Bed, Spec, Said) {
        let text = |main: &str| format!("{main}\n{}", self.shared);
        let bed = Bed::new(&text(if self.before.is_empty() { self.after } else { self.before }));
        let mut before = None;
        if !self.before.is_empty() {
            let state = bed.plain(None, &[]);
            let state = match self.edit {
                Some(edit) => edit(&state),
                None => state,
            };
            bed.import(&state);
            before = Some(state);
        }
        bed.write(&text(self.after));
        let spec = bed.plan(&self.kl);
        if let Some(writes) = &self.writes {
            assert_eq!(spec.writes(), *writes, "writes");
        }
        if let Some(reads) = &self.reads {
            assert_eq!(spec.reads(), *reads, "reads: {:#}", spec.0["read"]);
        }
        if let Some(data) = &self.data {
            assert_eq!(spec.data(), *data, "data");
        }
        let said = bed.apply(0, &[]);
        if let Some(lane) = self.lane {
            assert_eq!(said.lane(), lane, "lane: {:?}\n{said}", spec.reasons());
        }
        assert!(!said.stderr.contains("Falling back"), "the lane was changed on the way:\n{said}");
        let known = before.clone().unwrap_or_default();
        let made = rows(&bed.pull(), &known);
        let plain = rows(&bed.plain(before.as_deref(), &self.plain), &known);
        assert_eq!(made, plain, "kl (left) and plain terraform (right)\n{said}");
        if !self.unsettled {
            let variables: Vec<&str> =
                self.plain.iter().filter(|arg| arg.starts_with("-var") || **arg == "-destroy").copied().collect();
            bed.settled(&variables);
        }
        assert_eq!(bed.leftovers(), Vec::<String>::new());
        (bed, spec, said)
    }
}
