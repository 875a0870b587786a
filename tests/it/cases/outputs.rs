//! Root outputs: rows of their own, reserved and committed by name.

use super::bed::{Bed, Change};

const A: &str = r#"resource "terraform_data" "a" { input = "1" }"#;

#[test]
fn a_new_output_alone() {
    Change::new(A, &format!("{A}\noutput \"o\" {{ value = terraform_data.a.output }}"))
        .writes(&["create output.o"])
        .reads(&["terraform_data.a"])
        .lane("footprint")
        .run();
}

#[test]
fn a_new_constant_output_alone() {
    Change::new(A, &format!("{A}\noutput \"o\" {{ value = \"v1\" }}"))
        .writes(&["create output.o"])
        .reads(&[])
        .lane("footprint")
        .run();
}

#[test]
fn a_changed_output_alone() {
    let before = format!("{A}\noutput \"o\" {{ value = terraform_data.a.output }}");
    let after = format!("{A}\noutput \"o\" {{ value = \"${{terraform_data.a.output}}!\" }}");
    Change::new(&before, &after).writes(&["update output.o"]).reads(&["terraform_data.a"]).run();
}

#[test]
fn a_removed_output_alone() {
    let before = format!("{A}\noutput \"o\" {{ value = terraform_data.a.output }}\noutput \"k\" {{ value = 1 }}");
    Change::new(&before, &format!("{A}\noutput \"k\" {{ value = 1 }}")).writes(&["delete output.o"]).run();
}

#[test]
fn a_removed_output_beside_a_changed_resource() {
    let before = format!("{A}\noutput \"o\" {{ value = terraform_data.a.output }}");
    let (_, spec, _) = Change::new(&before, &A.replace('1', "2"))
        .writes(&["update terraform_data.a", "delete output.o"])
        .lane("footprint")
        .run();
    assert_eq!(spec.reasons(), ["output.o depends on no resource, so that no target reaches it"]);
}

#[test]
fn a_constant_output_beside_a_changed_resource() {
    let after = format!("{}\noutput \"c\" {{ value = \"c\" }}", A.replace('1', "2"));
    Change::new(A, &after).writes(&["update terraform_data.a", "create output.c"]).run();
}

#[test]
fn a_sensitive_output_is_written_and_its_value_is_nowhere_else() {
    let config = |value: &str| format!("{A}\noutput \"o\" {{\n value = \"{value}\"\n sensitive = true\n}}");
    let (bed, spec, said) =
        Change::new(&config("first-secret"), &config("second-secret")).writes(&["update output.o"]).run();
    let history = bed.exits(0, &["history", "live", "--format", "json"]);
    for text in [spec.0.to_string(), said.to_string(), history.to_string()] {
        assert!(!text.contains("-secret"), "{text}");
    }
}

#[test]
fn an_output_that_becomes_sensitive() {
    let before = format!("{A}\noutput \"o\" {{ value = \"v\" }}");
    let after = format!("{A}\noutput \"o\" {{\n value = \"v\"\n sensitive = true\n}}");
    Change::new(&before, &after).writes(&["update output.o"]).run();
}

const TWO: &str = r#"
module "one" {
  source = "./m"
  in     = "1"
}
module "two" {
  source = "./m"
  in     = "2"
}
resource "terraform_data" "other" { input = "x" }
output "both" { value = "${module.one.out}-${module.two.out}" }
output "one" { value = module.one.out }
### m/main.tf
variable "in" {}
resource "terraform_data" "x" { input = var.in }
output "out" { value = terraform_data.x.output }
"#;

#[test]
fn an_output_of_two_modules_reads_the_one_that_stays() {
    Change::new(TWO, &TWO.replace("= \"1\"", "= \"3\""))
        .writes(&["update module.one.terraform_data.x", "update output.both", "update output.one"])
        .reads(&["module.two.terraform_data.x"])
        .lane("narrow")
        .run();
}

#[test]
fn two_changes_of_what_one_output_depends_on_meet_at_the_output() {
    let bed = Bed::new(TWO);
    bed.begin(&[]);
    bed.write(&TWO.replace("= \"1\"", "= \"3\""));
    bed.exits(0, &["plan", "live", "--out", "alice.json"]);
    bed.write(&TWO.replace("= \"2\"", "= \"4\""));
    bed.exits(0, &["plan", "live", "--out", "bob.json"]);
    // Both are merged. The value of the output would be bob's, too: alice's change cannot be made alone.
    let merged = TWO.replace("= \"1\"", "= \"3\"").replace("= \"2\"", "= \"4\"");
    bed.write(&merged);
    bed.exits(4, &["apply", "alice.json"]).says(&["module.two.terraform_data.x: not in the reviewed plan: update"]);
    bed.write(&TWO.replace("= \"1\"", "= \"3\""));
    bed.exits(0, &["apply", "alice.json"]);
    bed.write(&merged);
    bed.exits(4, &["apply", "bob.json"]).says(&["output.both", "module.one.terraform_data.x"]);
    bed.plan(&[]);
    bed.apply(0, &[]);
    assert!(bed.pull().contains("\"3-4\""));
    bed.settled(&[]);
}

#[test]
fn an_output_that_turns_out_not_to_change() {
    let config = |input: &str| {
        format!(
            "resource \"terraform_data\" \"a\" {{ input = \"{input}\" }}\noutput \"o\" {{ value = substr(terraform_data.a.output, 0, 1) }}"
        )
    };
    Change::new(&config("x1"), &config("x2"))
        .writes(&["update terraform_data.a", "update output.o"])
        .lane("narrow")
        .run();
}

#[test]
fn an_output_of_null() {
    Change::new(A, &format!("{A}\noutput \"n\" {{ value = null }}")).run();
}
