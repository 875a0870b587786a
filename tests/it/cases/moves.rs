//! Objects that get another address, and objects that come from outside: moves and imports.

use super::bed::{Bed, Change};
use super::objects::CHAIN;

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
