//! What can happen to an object: create, update, delete, replace, move, import, forget.

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

const CHAIN: &str = r#"
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
fn a_pure_move_is_a_change_of_the_state_alone() {
    Change::new(
        CHAIN,
        &format!(
            "{}\nmoved {{\n from = terraform_data.other\n to = terraform_data.another\n}}",
            CHAIN.replace("\"other\"", "\"another\"")
        ),
    )
    .writes(&["no-op terraform_data.another (from terraform_data.other)"])
    .lane("narrow")
    .run();
}

#[test]
fn a_move_with_an_update() {
    Change::new(
        CHAIN,
        &format!(
            "{}\nmoved {{\n from = terraform_data.other\n to = terraform_data.another\n}}",
            CHAIN.replace("\"other\" { input = \"x\"", "\"another\" { input = \"y\"")
        ),
    )
    .writes(&["update terraform_data.another (from terraform_data.other)"])
    .lane("narrow")
    .run();
}

#[test]
fn a_move_of_what_others_depend_on() {
    Change::new(
        CHAIN,
        &format!(
            "{}\nmoved {{\n from = terraform_data.a\n to = terraform_data.z\n}}",
            CHAIN.replace("\"a\"", "\"z\"").replace("terraform_data.a", "terraform_data.z")
        ),
    )
    .writes(&["no-op terraform_data.z (from terraform_data.a)"])
    .lane("narrow")
    .run();
}

#[test]
fn a_move_of_a_whole_module() {
    let module = r#"
        ### m/main.tf
        resource "terraform_data" "x" { input = "x" }
        resource "terraform_data" "y" { input = terraform_data.x.output }
    "#;
    Change::new(
        r#"module "old" { source = "./m" }"#,
        "module \"new\" { source = \"./m\" }\nmoved {\n from = module.old\n to = module.new\n}",
    )
    .with(module)
    .writes(&[
        "no-op module.new.terraform_data.x (from module.old.terraform_data.x)",
        "no-op module.new.terraform_data.y (from module.old.terraform_data.y)",
    ])
    .lane("narrow")
    .run();
}

#[test]
fn a_move_into_a_module_and_to_an_instance() {
    Change::new(
        r#"resource "terraform_data" "x" { input = "x" }"#,
        "module \"m\" {\n source = \"./m\"\n for_each = toset([\"k\"])\n}\n\
         moved {\n from = terraform_data.x\n to = module.m[\"k\"].terraform_data.x\n}",
    )
    .with("### m/main.tf\nresource \"terraform_data\" \"x\" { input = \"x\" }")
    .writes(&["no-op module.m[\"k\"].terraform_data.x (from terraform_data.x)"])
    .lane("narrow")
    .run();
}

#[test]
fn a_count_that_goes_away_moves_the_first_instance() {
    Change::new(
        "resource \"terraform_data\" \"x\" {\n count = 1\n input = \"x\"\n}",
        r#"resource "terraform_data" "x" { input = "x" }"#,
    )
    .writes(&["no-op terraform_data.x (from terraform_data.x[0])"])
    .lane("narrow")
    .run();
}

#[test]
fn a_count_that_comes_moves_the_only_instance() {
    Change::new(
        r#"resource "terraform_data" "x" { input = "x" }"#,
        "resource \"terraform_data\" \"x\" {\n count = 2\n input = \"x\"\n}",
    )
    .writes(&["no-op terraform_data.x[0] (from terraform_data.x)", "create terraform_data.x[1]"])
    .lane("narrow")
    .run();
}

#[test]
fn a_pending_move_of_something_else_does_not_stand_in_the_way() {
    // `other` has moved in the configuration, and somebody else is to apply that.
    let bed = Bed::new(CHAIN);
    bed.begin(&[]);
    bed.write(&CHAIN.replace("output }", "id }"));
    bed.plan(&[]);
    bed.write(&format!(
        "{}\nmoved {{\n from = terraform_data.other\n to = terraform_data.another\n}}",
        CHAIN.replace("output }", "id }").replace("\"other\"", "\"another\"")
    ));
    let said = bed.apply(0, &[]);
    assert_eq!(said.lane(), "narrow", "{said}");
    assert!(bed.pull().contains("\"other\""));
}

#[test]
fn an_import_writes_the_address_with_its_id() {
    Change::new(
        CHAIN,
        &format!(
            "{CHAIN}\nresource \"terraform_data\" \"imp\" {{}}\nimport {{\n to = terraform_data.imp\n id = \"abc\"\n}}"
        ),
    )
    .writes(&["no-op terraform_data.imp (imports abc)"])
    .reads(&[])
    .lane("narrow")
    .run();
}

#[test]
fn an_import_with_an_update() {
    Change::new(
        CHAIN,
        &format!(
            "{CHAIN}\nresource \"terraform_data\" \"imp\" {{ input = \"i\" }}\n\
             import {{\n to = terraform_data.imp\n id = \"abc\"\n}}"
        ),
    )
    .writes(&["update terraform_data.imp (imports abc)"])
    .lane("narrow")
    .run();
}

#[test]
fn imports_with_for_each() {
    Change::new(
        CHAIN,
        &format!(
            "{CHAIN}\nresource \"terraform_data\" \"imp\" {{ for_each = toset([\"a.b\", \"c\"]) }}\n\
             import {{\n for_each = {{ \"a.b\" = \"id1\", c = \"id2\" }}\n to = terraform_data.imp[each.key]\n id = each.value\n}}"
        ),
    )
    .writes(&["no-op terraform_data.imp[\"a.b\"] (imports id1)", "no-op terraform_data.imp[\"c\"] (imports id2)"])
    .lane("narrow")
    .run();
}

#[test]
fn an_import_reads_the_resource_that_gives_the_id() {
    Change::new(
        CHAIN,
        &format!(
            "{CHAIN}\nlocals {{ the_id = terraform_data.b.output }}\nresource \"terraform_data\" \"imp\" {{}}\n\
             import {{\n to = terraform_data.imp\n id = local.the_id\n}}"
        ),
    )
    .writes(&["no-op terraform_data.imp (imports 1)"])
    .reads(&["terraform_data.a", "terraform_data.b"])
    .lane("narrow")
    .run();
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
