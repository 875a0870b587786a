//! The readers of everything that comes from outside, each with seeds and with what has to hold for what it reads.

use std::fs;

use camino::Utf8Path;
use kl_runner::config::ci;
use kl_runner::config::event::{github, gitlab};
use kl_runner::config::file::ConfigFile;
use kl_runner::domain::address::{Address, ConfigAddress, ConfigModule, ModulePath, Pattern};
use kl_runner::domain::coordination::lock::{LockId, LockInfo};
use kl_runner::domain::graph::configuration::{self, Form};
use kl_runner::domain::graph::plan_edges::plan_edges;
use kl_runner::domain::graph::tree::Tree;
use kl_runner::domain::graph::{closure, dot, graph_edges, manifest};
use kl_runner::domain::id::StateName;
use kl_runner::domain::json::Json;
use kl_runner::domain::plan::changed::changed_values;
use kl_runner::domain::plan::fingerprint::DigestKey;
use kl_runner::domain::plan::footprint::footprint;
use kl_runner::domain::plan::plan_json::PlanJson;
use kl_runner::domain::plan::spec::PlanSpec;
use kl_runner::domain::state::{document, projection};
use kl_runner::domain::token::{StatePattern, Token};
use kl_runner::server::route::{self, Route};
use kl_runner::terraform::UiEvent;

use super::fuzz;

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The files of a directory of fixtures.
fn fixtures(dir: &str) -> Vec<Vec<u8>> {
    let dir = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(dir);
    let mut files: Vec<_> = dir.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()).collect();
    files.sort();
    files.retain(|path| path.extension() != Some("md"));
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// What a program gets to see that reads a file as text, or a pipe with what is no text replaced.
fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

#[test]
fn addresses_and_patterns() {
    let texts = [
        "a.b",
        "module.a[\"x.y\"].module.b[0].data.c.d[\"$${e}\\n\"]",
        "module.web.*",
        "output.url",
        "*",
        "ephemeral.x.y[18446744073709551615]",
    ];
    fuzz("addresses", seeds(&texts), |input| {
        let text = text(input);
        if let Ok(address) = Address::parse(&text) {
            assert_eq!(Address::parse(&address.to_string()).as_ref(), Ok(&address));
        }
        match Pattern::parse(&text) {
            Ok(pattern) => {
                assert_eq!(Pattern::parse(&pattern.to_string()).as_ref(), Ok(&pattern));
                assert!(pattern.intersects(&pattern) && pattern.covers(&pattern));
            }
            // It goes to terminals and into the database.
            Err(error) => assert!(error.to_string().len() < 2_000, "{} bytes", error.to_string().len()),
        }
        drop((ModulePath::parse(&text), ConfigAddress::parse(&text)));
    });
}

#[test]
fn plans() {
    fuzz("plans", fixtures("plan_json"), |input| {
        let text = text(input);
        if let Ok(plan) = PlanJson::read(&text) {
            let key = DigestKey(b"0123456789abcdef0123456789abcdef");
            drop((footprint(&plan, false, &key, &|_| None), changed_values(&plan), plan.failed_checks()));
            if let Some(raw) = &plan.configuration {
                let tree = Tree::new([(ConfigModule::root(), configuration::ModuleConfig::default())].into());
                drop(plan_edges(&tree, raw));
            }
        }
        if let Ok(json) = Json::parse(&text) {
            assert_eq!(Json::parse(&json.to_string()).unwrap(), json);
            drop((json.canonical(), json.normal(), json.pretty()));
        }
    });
}

#[test]
fn states() {
    fuzz("states", fixtures("state"), |input| {
        let text = text(input);
        if let Ok(document) = document::read(&text) {
            let written = projection::write(&document);
            // A token gets a line of its own, indented by the depth that is allowed; what always stands there is short.
            let most = 1_000 + text.len() * 500;
            assert!(written.len() < most, "{} bytes were made of {}", written.len(), text.len());
            let again = document::read(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
            assert_eq!(projection::write(&again), written);
        }
    });
}

#[test]
fn requests_of_plain_terraform() {
    let lock = r#"{"ID":"0c7e","Operation":"OperationTypeApply","Info":"","Who":"alice@host","Version":"1.11.4","Created":"2026-01-02T03:04:05.6Z","Path":""}"#;
    let requests =
        ["POST /states/live%2Fweb?ID=0c%2D7e", "LOCK /states/prod:dev", "DELETE /locks/a", "GET /readyz", lock];
    fuzz("requests_of_plain_terraform", seeds(&requests), |input| {
        let input = text(input);
        if let Some((method, target)) = input.split_once(' ') {
            let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            if let Ok(Route::State { name, .. }) = route::route(method, path, query) {
                let again = route::route("GET", &route::path(&name), None);
                assert!(matches!(again, Ok(Route::State { name: found, .. }) if found == name), "{input}");
            }
        }
        if let Ok(info) = LockInfo::read(input.as_bytes()) {
            assert_eq!(LockId::new(info.id.0.clone()), Ok(info.id.clone()));
            assert_eq!(LockInfo::read(&serde_json::to_vec(&info).unwrap()), Ok(info));
        }
    });
}

#[test]
fn tokens_and_their_patterns() {
    let token = Token::of([7; 8], [0xab; 32]).expose();
    fuzz("tokens_and_their_patterns", seeds(&[&token, "live/**", "*/web:*", "a b", "**"]), |input| {
        let input = text(input);
        if let Some(token) = Token::parse(&input) {
            assert!(token.expose() == input && token.hash().is_of(&token));
        }
        if let (Ok(pattern), Ok(name)) = (StatePattern::new(input.as_str()), StateName::new(input.as_str())) {
            assert!(pattern.covers(&name) && StatePattern::new("**").unwrap().covers(&name), "{input}");
        }
    });
}

#[test]
fn configurations() {
    let mut all = fixtures("hcl");
    all.extend(seeds(&[r#"{"resource":{"a":{"b":{"x":"${c.d[0]}","dynamic":{"y":{"for_each":"${var.z}","content":{}}}}}},"variable":{"z":{"type":"any"}}}"#]));
    fuzz("configurations", all, |input| {
        let text = text(input);
        for name in ["main.tf", "main.tf.json"] {
            let files = [(name.to_owned(), text.clone()), ("override.tf".to_owned(), text.clone())];
            if let Ok(config) = configuration::read(&files) {
                let tree = Tree::new([(ConfigModule::root(), config)].into());
                drop(closure::config_edges(&tree));
            }
        }
        drop((Form::Expression.file("x", &text), manifest::read(&text)));
    });
}

#[test]
fn graphs() {
    let graph = "digraph {\n\tcompound = \"true\"\n\tsubgraph \"root\" {\n\t\t\"[root] a.b (expand)\" -> \"[root] var.c\"\n\t\t\"[root] module.m (close)\" -> \"[root] module.m.a.b[\\\"k\\\"]\"\n\t}\n}\n";
    fuzz("graphs", seeds(&[graph]), |input| {
        let text = text(input);
        drop((dot::read(&text), graph_edges::graph_edges(&text)));
    });
}

#[test]
fn events_of_terraform() {
    let lines = [
        r#"{"@level":"info","@message":"x: Creation complete after 12s","hook":{"resource":{"addr":"a.b"},"action":"create","id_key":"id","id_value":"i","elapsed_seconds":12},"type":"apply_complete"}"#,
        r#"{"type":"diagnostic","diagnostic":{"severity":"error","summary":"Invalid","detail":"Because.\n","address":"a.b","range":{"filename":"main.tf","start":{"line":7,"column":3,"byte":90}}}}"#,
        r#"{"type":"change_summary","changes":{"add":1,"change":2,"import":3,"remove":4,"operation":"apply"}}"#,
    ];
    fuzz("terraform", seeds(&lines), |input| {
        if let Some(UiEvent::Diagnostic(diagnostic)) = UiEvent::parse(&text(input)) {
            drop(diagnostic.to_string());
        }
    });
}

#[test]
fn specs() {
    fuzz("specs", fixtures("spec"), |input| {
        if let Ok(spec) = PlanSpec::read(&text(input)) {
            assert_eq!(PlanSpec::read(&spec.to_text()).unwrap(), spec);
            drop((spec.claims(), spec.write_patterns(), spec.has_changes()));
        }
    });
}

#[test]
fn settings() {
    let yaml = "# everything\nversion: 1\ndefaults:\n  workspace: prod\n  var_files: [a.tfvars]\n  vars: {region: REGION}\n\
                policies: {on_stale: revalidate, max_plan_age: 7d}\nprojects:\n  - &a\n    name: web\n    dir: infra/web\n    when_changed: [\"**/*.tf\", '!x']\n\
                \x20   vars: {a: B}\n  - name: net\n    dir: infra/net\n    depends_on: [web]\n";
    fuzz("settings", seeds(&[yaml, "projects: []\n", "a: &a [*a]\n", "a: [&x [1], *x, *x]\n"]), |input| {
        if let Err(error) = ConfigFile::read(Utf8Path::new("kl.yaml"), &text(input)) {
            assert!(error.to_string().len() < 4_000, "{} bytes", error.to_string().len());
        }
    });
}

#[test]
fn events_of_github() {
    let sha = "0123456789abcdef0123456789abcdef01234567";
    let request = format!(
        r#"{{"action":"closed","pull_request":{{"number":7,"merged":true,"merge_commit_sha":"{sha}","head":{{"sha":"{sha}","ref":"x","repo":{{"full_name":"a/b"}}}},"base":{{"sha":"{sha}","ref":"main","repo":{{"full_name":"a/b"}}}}}}}}"#
    );
    let push = format!(
        r#"{{"ref":"refs/heads/main","before":"{sha}","after":"{sha}","deleted":false,"forced":true,"repository":{{"default_branch":"main"}}}}"#
    );
    let comment = r#"{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"body":"/kl plan","author_association":"MEMBER","user":{"login":"alice"}}}"#;
    let group = format!(
        r#"{{"action":"checks_requested","merge_group":{{"head_sha":"{sha}","head_ref":"refs/heads/gh-readonly-queue/main/pr-7-{sha}","base_sha":"{sha}","base_ref":"refs/heads/main"}}}}"#
    );
    fuzz("github", seeds(&[&request, &push, comment, &group]), |input| {
        let text = text(input);
        for event in ["pull_request", "pull_request_target", "push", "issue_comment", "merge_group", "schedule", &text]
        {
            if let Err(error) = github::read(event, &text) {
                assert!(error.to_string().len() < 1_000_000, "{} bytes", error.to_string().len());
            }
        }
    });
}

#[test]
fn variables_of_jobs() {
    let lines = "CI_PIPELINE_SOURCE=merge_request_event\nCI_MERGE_REQUEST_IID=7\nCI_COMMIT_SHA=0123456789abcdef0123456789abcdef01234567\n\
                 CI_COMMIT_BRANCH=main\nCI_DEFAULT_BRANCH=main\nCI_COMMIT_BEFORE_SHA=0000000000000000000000000000000000000000\nCI_API_V4_URL=https://h/api/v4\n\
                 CI_MERGE_REQUEST_EVENT_TYPE=merge_train\nCI_MERGE_REQUEST_DIFF_BASE_SHA=0123456789abcdef0123456789abcdef01234567\n\
                 CI_MERGE_REQUEST_SOURCE_PROJECT_PATH=a/b\nCI_PROJECT_PATH=a/b\nGITHUB_REF=refs/pull/7/merge\nGITHUB_RUN_ID=1\n";
    fuzz("variables", seeds(&[lines]), |input| {
        let text = text(input);
        let get = |name: &str| {
            let found = text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| *key == name));
            found.map(|(_, value)| value.to_owned())
        };
        drop((gitlab::read(get), ci::detect(get, |_| Ok(text.clone()))));
        let on_github = |name: &str| if name == "GITHUB_ACTIONS" { Some("true".to_owned()) } else { get(name) };
        drop(ci::detect(on_github, |_| Ok(text.clone())));
    });
}
