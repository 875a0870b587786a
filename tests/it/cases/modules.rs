//! Modules, instances, keys, and the references between them.

use super::bed::{Bed, Change};

#[test]
fn instances_come_and_go_with_count() {
    let config = |count: u32| {
        format!("resource \"terraform_data\" \"x\" {{\n count = {count}\n input = \"i${{count.index}}\"\n}}")
    };
    Change::new(&config(1), &config(3))
        .writes(&["create terraform_data.x[1]", "create terraform_data.x[2]"])
        .lane("narrow")
        .run();
    Change::new(&config(3), &config(1))
        .writes(&["delete terraform_data.x[1]", "delete terraform_data.x[2]"])
        .lane("narrow")
        .run();
    Change::new(&config(2), &config(0)).lane("narrow").run();
}

#[test]
fn instances_come_and_go_with_for_each() {
    let config = |keys: &str| {
        format!("resource \"terraform_data\" \"x\" {{\n for_each = toset([{keys}])\n input = each.key\n}}")
    };
    Change::new(&config("\"a\", \"b\""), &config("\"b\", \"c\""))
        .writes(&["delete terraform_data.x[\"a\"]", "create terraform_data.x[\"c\"]"])
        .lane("narrow")
        .run();
}

const M: &str = r#"
### m/main.tf
variable "in" { default = "i" }
resource "terraform_data" "x" { input = var.in }
resource "terraform_data" "y" { input = terraform_data.x.output }
output "out" { value = terraform_data.y.output }
"#;

#[test]
fn instances_of_modules_come_and_go() {
    let each =
        |keys: &str| format!("module \"m\" {{\n source = \"./m\"\n for_each = toset([{keys}])\n in = each.key\n}}");
    Change::new(&each("\"a\", \"b\""), &each("\"b\", \"c\""))
        .with(M)
        .writes(&[
            "delete module.m[\"a\"].terraform_data.x",
            "delete module.m[\"a\"].terraform_data.y",
            "create module.m[\"c\"].terraform_data.x",
            "create module.m[\"c\"].terraform_data.y",
        ])
        .lane("narrow")
        .run();
    let count = |n: u32| format!("module \"m\" {{\n source = \"./m\"\n count = {n}\n}}");
    Change::new(&count(1), &count(2)).with(M).lane("narrow").run();
    Change::new(&count(2), &count(1)).with(M).lane("narrow").run();
}

#[test]
fn a_change_of_one_module_instance_reads_nothing_of_the_others() {
    let config = |b: &str| {
        format!("module \"m\" {{\n source = \"./m\"\n for_each = {{ a = \"1\", b = \"{b}\" }}\n in = each.value\n}}")
    };
    Change::new(&config("2"), &config("3"))
        .with(M)
        .writes(&["update module.m[\"b\"].terraform_data.x", "update module.m[\"b\"].terraform_data.y"])
        .reads(&[])
        .lane("narrow")
        .run();
}

#[test]
fn orphans_of_resources_and_of_whole_modules_are_deleted() {
    Change::new(
        "module \"m\" { source = \"./m\" }\nmodule \"n\" {\n source = \"./m\"\n in = module.m.out\n}\nresource \"terraform_data\" \"o\" { input = module.n.out }",
        "module \"m\" { source = \"./m\" }",
    )
    .with(M)
    .writes(&["delete terraform_data.o", "delete module.n.terraform_data.x", "delete module.n.terraform_data.y"])
    .reads(&["module.m.terraform_data.x", "module.m.terraform_data.y"])
    .lane("narrow")
    .run();
}

#[test]
fn a_reference_goes_through_outputs_and_locals() {
    let config = |suffix: &str| {
        format!(
            "module \"m\" {{ source = \"./m\" }}\nlocals {{\n one = module.m.out\n two = {{ v = local.one }}\n}}\n\
             module \"n\" {{\n source = \"./m\"\n in = \"${{local.two.v}}{suffix}\"\n}}"
        )
    };
    let (_, spec, _) = Change::new(&config("a"), &config("b"))
        .with(M)
        .writes(&["update module.n.terraform_data.x", "update module.n.terraform_data.y"])
        .reads(&["module.m.terraform_data.x", "module.m.terraform_data.y"])
        .lane("narrow")
        .run();
    assert_eq!(
        spec.via("module.m.terraform_data.y"),
        "module.n.terraform_data.x through module.n.var.in → local.two → local.one → module.m.output.out (configuration)"
    );
}

#[test]
fn nested_modules_with_keys_at_every_level() {
    let config = |value: &str| {
        format!(
            "module \"outer\" {{\n source = \"./outer\"\n for_each = {{ k = \"{value}\", l = \"same\" }}\n in = each.value\n}}\n\
             ### outer/main.tf\nvariable \"in\" {{}}\nmodule \"inner\" {{\n source = \"./inner\"\n count = 2\n in = var.in\n}}\n\
             output \"all\" {{ value = module.inner[*].out }}\n\
             ### outer/inner/main.tf\nvariable \"in\" {{}}\nresource \"terraform_data\" \"x\" {{\n for_each = toset([\"a.b\"])\n input = var.in\n}}\n\
             output \"out\" {{ value = terraform_data.x[\"a.b\"].output }}"
        )
    };
    Change::new(&config("1"), &config("2"))
        .writes(&[
            "update module.outer[\"k\"].module.inner[0].terraform_data.x[\"a.b\"]",
            "update module.outer[\"k\"].module.inner[1].terraform_data.x[\"a.b\"]",
        ])
        .reads(&[])
        .lane("narrow")
        .run();
}

#[test]
fn a_splat_over_instances_sees_all_of_them_in_a_narrow_slice() {
    let config = |own: &str, count: u32| {
        format!(
            "resource \"terraform_data\" \"x\" {{\n count = {count}\n input = \"x${{count.index}}\"\n}}\n\
             resource \"terraform_data\" \"y\" {{\n input = terraform_data.x[*].output\n triggers_replace = \"{own}\"\n}}\n\
             resource \"terraform_data\" \"z\" {{ input = [for x in terraform_data.x : x.output if x.output != \"x0\"] }}"
        )
    };
    Change::new(&config("1", 3), &config("2", 3)).reads(&["terraform_data.x"]).lane("narrow").run();
    // One instance changes, and whoever reads it by a splat reads its siblings.
    Change::new(&config("1", 3), &config("1", 2)).lane("narrow").run();
    Change::new(&config("1", 2), &config("1", 3)).lane("narrow").run();
}

#[test]
fn a_splat_over_module_instances_sees_all_of_them_in_a_narrow_slice() {
    let config = |value: &str| {
        format!(
            "module \"m\" {{\n source = \"./m\"\n for_each = {{ a = \"1\", b = \"{value}\", c = \"3\" }}\n in = each.value\n}}\n\
             resource \"terraform_data\" \"all\" {{ input = [for k, m in module.m : m.out] }}\n\
             output \"all\" {{ value = values(module.m)[*].out }}"
        )
    };
    Change::new(&config("2"), &config("4")).with(M).lane("narrow").run();
}

#[test]
fn a_literal_key_narrows_the_read_to_one_instance() {
    let config = |suffix: &str| {
        format!(
            "resource \"terraform_data\" \"x\" {{\n for_each = toset([\"a\", \"b\"])\n input = each.key\n}}\n\
             resource \"terraform_data\" \"y\" {{ input = \"${{terraform_data.x[\"a\"].output}}{suffix}\" }}"
        )
    };
    Change::new(&config("1"), &config("2")).reads(&["terraform_data.x[\"a\"]"]).lane("narrow").run();
}

/// Keys that other tools stumbled over, as HCL literals, and as Terraform prints them.
const ODD: [(&str, &str); 17] = [
    (r#""svc.example.test""#, r#""svc.example.test""#),
    (r#""q\"uote""#, r#""q\"uote""#),
    (r#""back\\slash""#, r#""back\\slash""#),
    (r#""br[0]acket""#, r#""br[0]acket""#),
    (r#""new\nline""#, r#""new\nline""#),
    (r#""tab\tx""#, r#""tab\tx""#),
    (r#""dollar$${x}""#, r#""dollar$${x}""#),
    (r#""per%%{y}""#, r#""per%%{y}""#),
    (r#""zero\u200bwidth""#, r#""zero\u200bwidth""#),
    (r#""emoji😀""#, r#""emoji😀""#),
    (r#""naïve-日本""#, r#""naïve-日本""#),
    (r#""*""#, r#""*""#),
    (r#""50%_x""#, r#""50%_x""#),
    (r#"" ""#, r#"" ""#),
    (r#""0""#, r#""0""#),
    (r#""a/b""#, r#""a/b""#),
    (r#""<&>'`|""#, r#""<&>'`|""#),
];

#[test]
fn odd_keys_are_written_as_terraform_prints_them() {
    let config = |value: &str, keys: &[&str]| {
        format!(
            "resource \"terraform_data\" \"k\" {{\n for_each = toset([{0}])\n input = \"{value}\"\n}}\n\
             module \"z\" {{\n source = \"./z\"\n for_each = toset([{0}])\n in = \"{value}\"\n}}\n\
             ### z/main.tf\nvariable \"in\" {{}}\nresource \"terraform_data\" \"r\" {{ input = var.in }}",
            keys.join(", ")
        )
    };
    let keys: Vec<&str> = ODD.iter().map(|(hcl, _)| *hcl).collect();
    let (_, spec, _) = Change::new(&config("1", &keys), &config("2", &keys)).lane("narrow").run();
    let writes = spec.writes();
    for (_, printed) in ODD {
        for address in [format!("terraform_data.k[{printed}]"), format!("module.z[{printed}].terraform_data.r")] {
            assert!(writes.contains(&format!("update {address}")), "{address} is not among {writes:#?}");
        }
    }
    assert_eq!(writes.len(), 2 * ODD.len());
    // Each one alone, too: as a target, and as what goes away.
    Change::new(&config("1", &keys), &config("1", &keys[8..])).lane("narrow").run();
}

#[test]
fn an_integer_key_and_the_same_as_text_are_two_instances() {
    Change::new(
        "resource \"terraform_data\" \"x\" {\n count = 1\n input = \"i\"\n}",
        "resource \"terraform_data\" \"x\" {\n for_each = toset([\"0\"])\n input = \"s\"\n}",
    )
    .writes(&["delete terraform_data.x[0]", "create terraform_data.x[\"0\"]"])
    .lane("narrow")
    .run();
}

/// A module that waits for `base`, with a data source in it that reads a state file beside the configuration.
fn waiting(base: &str, own: &str) -> String {
    format!(
        "resource \"terraform_data\" \"base\" {{ input = \"{base}\" }}\n\
         resource \"terraform_data\" \"other\" {{ input = \"o\" }}\n\
         module \"w\" {{\n source = \"./w\"\n own = \"{own}\"\n depends_on = [terraform_data.base]\n}}\n\
         ### w/main.tf\nvariable \"own\" {{}}\n\
         data \"terraform_remote_state\" \"r\" {{\n backend = \"local\"\n config = {{ path = \"${{path.root}}/remote.json\" }}\n}}\n\
         resource \"terraform_data\" \"x\" {{ input = \"${{data.terraform_remote_state.r.outputs.v}}{own}\" }}\n\
         ### remote.json\n\
         {{\"version\":4,\"terraform_version\":\"1.11.4\",\"serial\":1,\"lineage\":\"l\",\"outputs\":{{\"v\":{{\"value\":\"remote\",\"type\":\"string\"}}}},\"resources\":[]}}"
    )
}

#[test]
fn a_module_that_depends_on_a_change_defers_its_data_sources() {
    let (_, spec, _) =
        Change::new(&waiting("1", "a"), &waiting("2", "a")).data(&["module.w.data.terraform_remote_state.r"]).run();
    assert_eq!(spec.0["data"][0]["deferred"], true, "{:#}", spec.0);
    assert!(spec.writes().contains(&"update terraform_data.base".to_owned()), "{:?}", spec.writes());
}

#[test]
fn a_data_source_is_a_class_of_its_own() {
    Change::new(&waiting("1", "a"), &waiting("1", "b"))
        .writes(&["update module.w.terraform_data.x"])
        .reads(&["terraform_data.base"])
        .data(&["module.w.data.terraform_remote_state.r"])
        .lane("narrow")
        .run();
}

#[test]
fn a_data_source_alone_is_no_change() {
    let bed = Bed::new(&waiting("1", "a"));
    bed.begin(&[]);
    let spec = bed.plan(&[]);
    assert_eq!(spec.writes(), Vec::<String>::new());
    assert!(bed.apply(0, &[]).stdout.contains("Nothing to do"));
}

#[test]
fn a_data_source_that_goes_away_with_its_reader() {
    let text = waiting("1", "a");
    let without = text.split("module \"w\"").next().expect("what comes before");
    Change::new(&text, without).writes(&["delete module.w.terraform_data.x"]).run();
}

#[test]
fn a_dependency_between_modules_is_read() {
    let config = |own: &str| {
        format!(
            "module \"m\" {{ source = \"./m\" }}\nmodule \"n\" {{\n source = \"./m\"\n in = \"{own}\"\n depends_on = [module.m]\n}}"
        )
    };
    Change::new(&config("1"), &config("2"))
        .with(M)
        .reads(&["module.m.terraform_data.x", "module.m.terraform_data.y"])
        .lane("narrow")
        .run();
}

#[test]
fn a_dependency_that_is_added_alone_changes_no_row_that_is_reserved() {
    Change::new(
        "resource \"terraform_data\" \"a\" { input = \"a\" }\nresource \"terraform_data\" \"b\" { input = \"b\" }\nresource \"terraform_data\" \"c\" { input = \"c\" }",
        "resource \"terraform_data\" \"a\" { input = \"a\" }\nresource \"terraform_data\" \"b\" {\n input = \"b\"\n depends_on = [terraform_data.a]\n}\nresource \"terraform_data\" \"c\" { input = \"d\" }",
    )
    .writes(&["update terraform_data.c"])
    .reads(&[])
    .lane("narrow")
    .run();
}
