//! What stands in `kl.yaml` is what happens; and its documentation and its schema say the same.

use std::fs;

use camino::Utf8Path;
use kl_runner::config::file::ConfigFile;
use serde_json::{Value, json};

use crate::harness::site::Site;

/// The schema that editors use.
fn schema() -> Value {
    let path = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kl.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn page() -> String {
    fs::read_to_string(Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md")).unwrap()
}

/// The examples of the page.
fn examples() -> Vec<String> {
    let page = page();
    let blocks = page.split("```yaml\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0.to_owned()).collect()
}

/// A file as JSON, for the schema.
fn as_json(text: &str) -> Value {
    serde_json::to_value(serde_yaml::from_str::<serde_yaml::Value>(text).unwrap()).unwrap()
}

#[test]
fn every_example_of_the_page_is_read_and_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let examples = examples();
    assert!(!examples.is_empty());
    for text in examples {
        ConfigFile::read(Utf8Path::new("kl.yaml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let errors: Vec<String> = validator.iter_errors(&as_json(&text)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
    }
}

#[test]
fn the_page_names_every_key_and_every_word() {
    let page = page();
    let mut names = Vec::new();
    collect(&schema(), &mut names);
    assert!(names.len() > 25, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not explain {missing:?}");
}

/// Keys and words of a schema.
fn collect(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(keys)) = members.get("properties") {
                names.extend(keys.keys().cloned());
            }
            let words = members.get("enum").and_then(Value::as_array).into_iter().flatten().chain(members.get("const"));
            names.extend(words.filter_map(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect(member, names));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| collect(entry, names)),
        _ => {}
    }
}

#[test]
fn the_schema_and_kl_agree_on_what_is_wrong() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let read = |text: &str| ConfigFile::read(Utf8Path::new("kl.yaml"), text).is_ok();
    for (text, good) in [
        ("projects: [{name: a, dir: x}]", true),
        ("policies: {destroy: 3, max_plan_age: 1h30m}", true),
        ("policies: {destroy: refuse}", true),
        ("projects: [{name: a, dir: x, policies: {destroy: allow}, vars: {a: B}}]", true),
        ("projects: [{name: a}]", false),
        ("projects: [{name: a, dir: x, polices: {}}]", false),
        ("policies: {destroy: -1}", false),
        ("policies: {destroy: sometimes}", false),
        ("policies: {max_plan_age: 7}", false),
        ("policies: {max_plan_age: 7 days}", false),
        ("policies: {on_failure: maybe}", false),
        ("policies: {show_values: 1}", false),
        ("defaults: {vars: [a]}", false),
        ("defaults: {name: a}", false),
        ("terraform: tofu", false),
    ] {
        assert_eq!((read(text), validator.is_valid(&as_json(text))), (good, good), "{text}");
    }
}

#[test]
fn variables_come_from_the_environment_that_the_file_names() {
    let site = Site::new();
    site.write("live/main.tf", "variable \"region\" {}\noutput \"region\" {\n  value = var.region\n}\n");
    site.write("kl.yaml", "projects:\n- {name: live, dir: live, vars: {region: DEPLOY_REGION}}\n");
    let said = site.kl().args(["apply", "live"]).exits(3).stderr;
    assert!(said.contains("the variable region of project live comes from the environment variable DEPLOY_REGION"));
    let said = site.kl().args(["apply", "live"]).env("DEPLOY_REGION", "").exits(3).stderr;
    assert!(said.contains("not set or empty"), "{said}");
    drop(site.kl().args(["apply", "live"]).env("DEPLOY_REGION", "north").exits(0));
    let shown = || site.kl().args(["state", "show", "output.region", "--state", "live"]).exits(0).stdout;
    assert!(shown().contains("north"), "{}", shown());
    // What is given by hand is meant.
    drop(site.kl().args(["apply", "live", "--var", "region=south"]).env("DEPLOY_REGION", "north").exits(0));
    assert!(shown().contains("south"), "{}", shown());
}

#[test]
fn a_spec_is_applied_with_the_settings_of_its_own_workspace() {
    let site = Site::new();
    site.write("live/main.tf", "variable \"size\" {}\noutput \"size\" {\n  value = var.size\n}\n");
    site.write("live/small.tfvars", "size = 1\n");
    site.write("live/large.tfvars", "size = 9\n");
    site.write(
        "kl.yaml",
        "projects:\n- {name: small, dir: live, var_files: [small.tfvars]}\n\
         - {name: large, dir: live, workspace: large, var_files: [large.tfvars]}\n",
    );
    drop(site.kl().args(["plan", "live", "--workspace", "large"]).exits(0));
    drop(site.kl().args(["apply", "kl-plan.json"]).exits(0));
    let shown = site.kl().args(["state", "show", "output.size", "--state", "live:large"]).exits(0).stdout;
    assert!(shown.contains("\"value\": 9"), "{shown}");
}

#[test]
fn a_guard_against_destruction_stops_an_apply_before_anything_is_reserved() {
    let site = Site::new();
    let two = "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" { triggers_replace = [1] }\n";
    site.write("live/main.tf", two);
    site.write("kl.yaml", "policies: {destroy: 1}\n");
    drop(site.kl().args(["apply", "live"]).exits(0));
    // One goes, another is replaced.
    site.write("live/main.tf", "resource \"terraform_data\" \"b\" { triggers_replace = [2] }\n");
    let said = site.kl().args(["plan", "live"]).exits(0).stderr;
    assert!(said.contains("the plan destroys 2 objects, and the policy is `destroy: 1`; `kl apply` will refuse it"));
    let said = site.kl().args(["apply", "kl-plan.json"]).exits(3).stderr;
    assert!(said.contains("the plan destroys 2 objects") && said.contains("--allow-destroy"), "{said}");
    site.write(
        "kl.yaml",
        "policies: {destroy: 1}\nprojects:\n- {name: live, dir: live, policies: {destroy: refuse}}\n",
    );
    let said = site.kl().args(["apply", "live", "--destroy"]).exits(3).stderr;
    assert!(said.contains("`destroy: refuse`"), "{said}");
    let history = site.kl().args(["history", "live", "--format", "json"]).exits(0).json();
    assert_eq!(history["versions"].as_array().unwrap().len(), 1, "{history}");
    drop(site.kl().args(["apply", "kl-plan.json", "--allow-destroy"]).exits(0));
}

#[test]
fn a_failed_check_stops_plan_and_apply_only_where_that_is_wanted() {
    let site = Site::new();
    let checked = |limit: u32| {
        format!(
            "resource \"terraform_data\" \"a\" {{\n  input = 5\n}}\ncheck \"small\" {{\n  assert {{\n    \
             condition     = terraform_data.a.input < {limit}\n    error_message = \"too large\"\n  }}\n}}\n"
        )
    };
    site.write("live/main.tf", &checked(3));
    drop(site.kl().args(["plan", "live"]).exits(0));
    site.write("kl.yaml", "policies: {fail_on_check: true}\n");
    let said = site.kl().args(["plan", "live", "--out", "other.json"]).exits(1).stderr;
    assert!(said.contains("the configuration's own checks fail: check.small"), "{said}");
    assert!(said.contains("too large"), "{said}");
    // The spec of before the policy is not applied, either, when its checks are evaluated again.
    let said = site.kl().args(["apply", "kl-plan.json", "--lane", "footprint"]).exits(1).stderr;
    assert!(said.contains("check.small"), "{said}");
    site.write("live/main.tf", &checked(9));
    drop(site.kl().args(["apply", "live"]).exits(0));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn an_editor_is_offered_every_default_of_a_project() {
    let schema = schema();
    let keys =
        |name: &str| schema["$defs"][name]["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let project = keys("ProjectEntry");
    assert!(keys("Defaults").iter().all(|key| project.contains(key)));
    assert_eq!(schema["$defs"]["ProjectEntry"]["required"], json!(["name", "dir"]));
}

/// Names of environment variables that stand in the code itself, outside its tests.
fn names_in(dir: &str) -> Vec<String> {
    let name = regex::Regex::new("\"((?:GITHUB|GITLAB|CI|KL|RUNNER|TF)_[A-Z0-9_]+)\"").unwrap();
    let mut found = Vec::new();
    let mut queue = vec![Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)];
    while let Some(dir) = queue.pop() {
        for entry in dir.read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            if path.is_dir() {
                queue.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            found.extend(name.captures_iter(code).map(|found| found[1].to_owned()));
        }
    }
    found
}

#[test]
fn every_variable_that_is_read_is_listed_and_documented() {
    let page = page();
    let listed: Vec<&str> = kl_runner::cli::env::READ.iter().map(|(name, _)| *name).collect();
    let unknown: Vec<String> = ["src/config", "src/cli"]
        .into_iter()
        .flat_map(names_in)
        // These two exist in builds for tests alone.
        .filter(|name| ![kl_runner::cli::env::MISHAP, kl_runner::cli::env::MISHAP_LOG].contains(&name.as_str()))
        .filter(|name| !listed.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "not in READ: {unknown:?}");
    let missing: Vec<&&str> = listed.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not list {missing:?}");
}
