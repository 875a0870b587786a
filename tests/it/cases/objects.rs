//! What can happen to an object where it stands: create, update, delete, replace, forget.

use super::bed::{Bed, Change};

#[test]
fn a_first_apply_creates_everything() {
    Change::new(
        "",
        r#"
        resource "terraform_data" "a" { input = "1" }
        resource "terraform_data" "b" { input = terraform_data.a.output }
        output "o" { value = terraform_data.b.output }
        "#,
    )
    .writes(&["create terraform_data.a", "create terraform_data.b", "create output.o"])
    .reads(&[])
    .lane("narrow")
    .run();
}

pub(super) const CHAIN: &str = r#"
    resource "terraform_data" "a" { input = "1" }
    resource "terraform_data" "b" { input = terraform_data.a.output }
    resource "terraform_data" "other" { input = "x" }
"#;

#[test]
fn an_update_reads_what_the_object_is_made_from() {
    Change::new(
        CHAIN,
        r#"
        resource "terraform_data" "a" { input = "1" }
        resource "terraform_data" "b" { input = "${terraform_data.a.output}!" }
        resource "terraform_data" "other" { input = "x" }
        "#,
    )
    .writes(&["update terraform_data.b"])
    .reads(&["terraform_data.a"])
    .lane("narrow")
    .run();
}

#[test]
fn a_deleted_object_still_reads_what_the_state_says_it_depended_on() {
    let (_, spec, _) = Change::new(
        CHAIN,
        r#"
        resource "terraform_data" "a" { input = "1" }
        resource "terraform_data" "other" { input = "x" }
        "#,
    )
    .writes(&["delete terraform_data.b"])
    .reads(&["terraform_data.a"])
    .lane("narrow")
    .run();
    assert_eq!(spec.via("terraform_data.a"), "terraform_data.b (state)");
}

#[test]
fn a_replacement_of_a_leaf_is_narrow() {
    Change::new(
        r#"
        resource "terraform_data" "a" { triggers_replace = "1" }
        resource "terraform_data" "other" {}
        "#,
        r#"
        resource "terraform_data" "a" { triggers_replace = "2" }
        resource "terraform_data" "other" {}
        "#,
    )
    .writes(&["delete+create terraform_data.a"])
    .lane("narrow")
    .run();
}

#[test]
fn create_before_destroy_keeps_its_order() {
    Change::new(
        r#"
        resource "terraform_data" "a" {
          triggers_replace = "1"
          lifecycle { create_before_destroy = true }
        }
        "#,
        r#"
        resource "terraform_data" "a" {
          triggers_replace = "2"
          lifecycle { create_before_destroy = true }
        }
        "#,
    )
    .writes(&["create+delete terraform_data.a"])
    .lane("narrow")
    .run();
}

#[test]
fn an_order_that_a_dependent_forces_is_kept_by_the_footprint_lane() {
    let (_, spec, _) = Change::new(
        r#"
        resource "terraform_data" "base" {
          input            = "fixed"
          triggers_replace = "1"
        }
        resource "terraform_data" "dependent" {
          input = terraform_data.base.input
          lifecycle { create_before_destroy = true }
        }
        "#,
        r#"
        resource "terraform_data" "base" {
          input            = "fixed"
          triggers_replace = "2"
        }
        resource "terraform_data" "dependent" {
          input = terraform_data.base.input
          lifecycle { create_before_destroy = true }
        }
        "#,
    )
    .writes(&["create+delete terraform_data.base"])
    .lane("footprint")
    .run();
    assert!(spec.reasons()[0].contains("terraform_data.dependent"), "{:?}", spec.reasons());
}

#[test]
fn a_replacement_on_request_is_made_again_by_the_apply() {
    Change::new(CHAIN, CHAIN)
        .args(&["--replace", "terraform_data.other"], &["-replace=terraform_data.other"])
        .writes(&["delete+create terraform_data.other"])
        .reads(&[])
        .lane("narrow")
        .run();
}

#[test]
fn a_tainted_object_is_replaced() {
    let (_, spec, _) = Change::new(CHAIN, CHAIN)
        .edit(|state| {
            let at = state.find("\"name\": \"other\"").expect("it is there");
            let (head, tail) = state.split_at(at);
            format!("{head}{}", tail.replacen("\"schema_version\"", "\"status\": \"tainted\", \"schema_version\"", 1))
        })
        .writes(&["delete+create terraform_data.other"])
        .lane("narrow")
        .run();
    assert_eq!(spec.0["write"][0]["reason"], "replace_because_tainted");
}

#[test]
fn a_deposed_object_is_deleted_and_the_current_one_stays() {
    Change::new(CHAIN, CHAIN)
        .edit(with_deposed)
        .writes(&["delete terraform_data.other (deposed 0a1b2c3d)"])
        .lane("narrow")
        .run();
}

#[test]
fn a_deposed_object_beside_a_change_of_the_current_one() {
    Change::new(CHAIN, &CHAIN.replace("\"x\"", "\"y\""))
        .edit(with_deposed)
        .writes(&["update terraform_data.other", "delete terraform_data.other (deposed 0a1b2c3d)"])
        .lane("narrow")
        .run();
}

/// Gives `terraform_data.other` a deposed object.
fn with_deposed(state: &str) -> String {
    let mut state: serde_json::Value = serde_json::from_str(state).expect("a state is JSON");
    let resources = state["resources"].as_array_mut().expect("it has resources");
    let other = resources.iter_mut().find(|resource| resource["name"] == "other").expect("it has the object");
    let mut deposed = other["instances"][0].clone();
    deposed["deposed"] = "0a1b2c3d".into();
    deposed["attributes"]["id"] = "11111111-2222-3333-4444-555555555555".into();
    other["instances"].as_array_mut().expect("instances").push(deposed);
    state.to_string()
}

#[test]
fn a_forgotten_object_leaves_the_state_and_is_not_destroyed() {
    Change::new(
        "resource \"terraform_data\" \"gone\" {\n input = \"g\"\n provisioner \"local-exec\" {\n when = destroy\n command = \"exit 1\"\n }\n}\nresource \"terraform_data\" \"other\" {}",
        "removed {\n from = terraform_data.gone\n lifecycle { destroy = false }\n}\nresource \"terraform_data\" \"other\" {}",
    )
    .writes(&["forget terraform_data.gone"])
    .lane("narrow")
    .run();
}

#[test]
fn a_removed_block_that_destroys() {
    Change::new(
        CHAIN,
        "resource \"terraform_data\" \"a\" { input = \"1\" }\nresource \"terraform_data\" \"b\" { input = terraform_data.a.output }\n\
         removed {\n from = terraform_data.other\n lifecycle { destroy = true }\n}",
    )
    .writes(&["delete terraform_data.other"])
    .lane("narrow")
    .run();
}

#[test]
fn a_forgotten_module() {
    Change::new(
        "module \"m\" { source = \"./m\" }\nresource \"terraform_data\" \"other\" {}",
        "removed {\n from = module.m\n lifecycle { destroy = false }\n}\nresource \"terraform_data\" \"other\" {}",
    )
    .with("### m/main.tf\nresource \"terraform_data\" \"x\" { count = 2 }")
    .writes(&["forget module.m.terraform_data.x[0]", "forget module.m.terraform_data.x[1]"])
    .lane("narrow")
    .run();
}

#[test]
fn a_replacement_that_another_resource_triggers_reads_it() {
    let config = |base: &str, own: &str| {
        format!(
            "resource \"terraform_data\" \"base\" {{ input = \"{base}\" }}\n\
             resource \"terraform_data\" \"rt\" {{\n input = \"{own}\"\n lifecycle {{ replace_triggered_by = [terraform_data.base] }}\n}}"
        )
    };
    Change::new(&config("1", "a"), &config("1", "b"))
        .writes(&["update terraform_data.rt"])
        .reads(&["terraform_data.base"])
        .lane("narrow")
        .run();
    Change::new(&config("1", "a"), &config("2", "a"))
        .writes(&["update terraform_data.base", "delete+create terraform_data.rt"])
        .lane("narrow")
        .run();
}

#[test]
fn exact_numbers_and_odd_texts_survive() {
    let config = |suffix: &str| {
        format!(
            r#"
            resource "terraform_data" "n" {{
              input = {{
                big   = 12345678901234567890123456789.123456789
                huge  = 1e100
                third = 1 / 3
                text  = "<&> \u2028 \"q\" \\ $${{x}} %%{{y}} é 😀{suffix}"
                null  = null
                empty = {{}}
              }}
            }}
            resource "terraform_data" "m" {{ input = terraform_data.n.output }}
            output "n" {{ value = terraform_data.m.output }}
            "#
        )
    };
    Change::new(&config("1"), &config("2")).lane("narrow").run();
}

#[test]
fn a_type_that_changes_is_an_update() {
    Change::new(
        r#"resource "terraform_data" "a" { input = "1" }"#,
        r#"resource "terraform_data" "a" { input = [1, { b = true }] }"#,
    )
    .writes(&["update terraform_data.a"])
    .run();
}

#[test]
fn ignored_changes_are_none() {
    let config = |value: &str| {
        format!(
            "resource \"terraform_data\" \"a\" {{\n input = \"{value}\"\n lifecycle {{ ignore_changes = [input] }}\n}}"
        )
    };
    let bed = Bed::new(&config("1"));
    bed.begin(&[]);
    bed.write(&config("2"));
    assert_eq!(bed.plan(&[]).writes(), Vec::<String>::new());
}

#[test]
fn sensitive_attributes_are_compared_and_never_shown() {
    let config = |value: &str| {
        format!(
            "variable \"s\" {{\n default = \"secret-{value}\"\n sensitive = true\n}}\n\
             resource \"terraform_data\" \"a\" {{ input = {{ open = \"o\", hidden = var.s }} }}\n\
             resource \"terraform_data\" \"b\" {{ input = sensitive(terraform_data.a.output.hidden) }}"
        )
    };
    let (bed, spec, said) = Change::new(&config("1"), &config("2")).lane("narrow").run();
    let shown = bed.exits(0, &["state", "show", "terraform_data.a", "--state", "live", "--format", "json"]);
    // What the built-in provider copies to `output` is no longer sensitive, for Terraform either.
    let input = shown.json()["rows"][0]["body"]["instances"][0]["attributes"]["input"].to_string();
    assert!(input.contains("\"o\""), "{input}");
    for text in [spec.0.to_string(), said.to_string(), input] {
        assert!(!text.contains("secret-"), "{text}");
    }
}
