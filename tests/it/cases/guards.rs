//! Conditions and checks beyond the write set: an apply of a part must not skip them.

use super::bed::{Bed, Change};

const DEPENDENT: &str = r#"
    resource "terraform_data" "a" { input = "1" }
    resource "terraform_data" "guarded" {
      input = "fixed"
      lifecycle {
        precondition {
          condition     = terraform_data.a.output != "bad"
          error_message = "a is bad"
        }
      }
    }
    resource "terraform_data" "other" { input = "x" }
"#;

#[test]
fn a_condition_of_a_dependent_that_holds_lets_the_apply_pass() {
    Change::new(DEPENDENT, &DEPENDENT.replace("\"1\"", "\"2\""))
        .writes(&["update terraform_data.a"])
        .lane("footprint")
        .run();
}

#[test]
fn a_condition_of_a_dependent_that_does_not_hold_fails_the_apply() {
    let bed = Bed::new(DEPENDENT);
    bed.begin(&[]);
    bed.write(&DEPENDENT.replace("\"1\"", "\"bad\""));
    let spec = bed.plan(&[]);
    assert_eq!(spec.writes(), ["update terraform_data.a"]);
    let said = bed.apply(1, &[]);
    said.says(&["a is bad"]);
}

#[test]
fn the_condition_of_a_dependent_is_evaluated_beside_a_leaked_change() {
    let bed = Bed::new(DEPENDENT);
    bed.begin(&[]);
    let mine = DEPENDENT.replace("\"1\"", "\"bad\"");
    bed.write(&mine);
    bed.plan(&[]);
    bed.write(&mine.replace("\"x\"", "\"leaked\""));
    bed.apply(1, &[]).says(&["a is bad"]);
    assert!(!bed.pull().contains("leaked"));
}

const OUTPUT: &str = r#"
    resource "terraform_data" "a" { input = "1" }
    resource "terraform_data" "b" { input = "b" }
    resource "terraform_data" "other" { input = "x" }
    output "o" {
      value = "fixed"
      precondition {
        condition     = "${terraform_data.a.output}${terraform_data.b.output}" != "badb"
        error_message = "a and b are bad"
      }
    }
"#;

#[test]
fn the_condition_of_an_output_is_evaluated_with_everything_that_it_looks_at() {
    Change::new(OUTPUT, &OUTPUT.replace("\"1\"", "\"2\"")).writes(&["update terraform_data.a"]).lane("footprint").run();
    let bed = Bed::new(OUTPUT);
    bed.begin(&[]);
    let mine = OUTPUT.replace("\"1\"", "\"bad\"");
    bed.write(&mine);
    bed.plan(&[]);
    bed.write(&mine.replace("\"x\"", "\"leaked\""));
    bed.apply(1, &[]).says(&["a and b are bad"]);
    assert!(!bed.pull().contains("leaked"));
}

const CHILD_OUTPUT: &str = r#"
    module "m" { source = "./m" }
    ### m/main.tf
    resource "terraform_data" "a" { input = "1" }
    output "o" {
      value = "fixed"
      precondition {
        condition     = terraform_data.a.output != "bad"
        error_message = "a is bad"
      }
    }
"#;

#[test]
fn the_condition_of_a_modules_output_is_evaluated_in_a_plan_without_targets() {
    Change::new(CHILD_OUTPUT, &CHILD_OUTPUT.replace("\"1\"", "\"2\"")).lane("footprint").run();
    let bed = Bed::new(CHILD_OUTPUT);
    bed.begin(&[]);
    bed.write(&CHILD_OUTPUT.replace("\"1\"", "\"bad\""));
    bed.plan(&[]);
    bed.apply(1, &[]).says(&["a is bad"]);
}

const CHECK: &str = r#"
    resource "terraform_data" "a" { input = "1" }
    resource "terraform_data" "other" { input = "x" }
    check "c" {
      assert {
        condition     = terraform_data.a.output != "bad"
        error_message = "a is bad"
      }
    }
"#;

/// What the state says about `check.c`.
fn status(bed: &Bed) -> String {
    let state: serde_json::Value = serde_json::from_str(&bed.pull()).expect("a state is JSON");
    let checks = state["check_results"].as_array().expect("it has checks");
    let check = checks.iter().find(|check| check["config_addr"] == "check.c").expect("it has the check");
    check["status"].as_str().expect("a status").to_owned()
}

#[test]
fn a_check_that_fails_never_stops_an_apply_and_its_result_is_kept() {
    let (bed, ..) = Change::new(CHECK, &CHECK.replace("\"1\"", "\"2\"")).lane("footprint").run();
    assert_eq!(status(&bed), "pass");
    bed.write(&CHECK.replace("\"1\"", "\"bad\""));
    bed.plan(&[]);
    bed.apply(0, &[]);
    assert_eq!(status(&bed), "fail");
}

#[test]
fn a_check_does_not_let_a_leaked_change_in() {
    let bed = Bed::new(CHECK);
    bed.begin(&[]);
    let mine = CHECK.replace("\"1\"", "\"2\"");
    bed.write(&mine);
    bed.plan(&[]);
    bed.write(&mine.replace("\"x\"", "\"leaked\""));
    bed.apply(0, &[]).says(&["checks are not evaluated"]);
    assert!(!bed.pull().contains("leaked"));
    assert_eq!(status(&bed), "pass", "an unknown result does not replace a known one");
}

#[test]
fn a_check_on_something_else_leaves_the_apply_narrow() {
    Change::new(CHECK, &CHECK.replace("\"x\"", "\"y\"")).writes(&["update terraform_data.other"]).lane("narrow").run();
}

#[test]
fn own_conditions_are_evaluated_in_the_narrow_lane() {
    let config = r#"
        resource "terraform_data" "a" { input = "1" }
        resource "terraform_data" "b" {
          input = "1"
          lifecycle {
            precondition {
              condition     = terraform_data.a.output == "1"
              error_message = "a is not one"
            }
            postcondition {
              condition     = self.output != "bad"
              error_message = "b is bad"
            }
          }
        }
    "#;
    let after = config.replacen("input = \"1\"\n          lifecycle", "input = \"2\"\n          lifecycle", 1);
    Change::new(config, &after).writes(&["update terraform_data.b"]).reads(&["terraform_data.a"]).lane("narrow").run();
    let bed = Bed::new(config);
    bed.begin(&[]);
    bed.write(&after.replace("\"2\"", "\"bad\""));
    bed.plan(&[]);
    bed.apply(1, &[]).says(&["b is bad"]);
}

#[test]
fn the_result_of_a_check_that_is_no_longer_declared_goes_away() {
    let without = CHECK.split("check \"c\"").next().expect("what comes before");
    let (bed, ..) = Change::new(CHECK, &without.replace("\"1\"", "\"2\"")).lane("narrow").run();
    assert!(!bed.pull().contains("check.c"));
}
