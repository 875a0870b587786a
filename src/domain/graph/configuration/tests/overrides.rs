//! Which files count, and what override files change.

use super::{files, texts};
use crate::domain::graph::configuration::{is_configuration, is_opentofu};

#[test]
fn names_tell_what_is_configuration() {
    for name in ["main.tf", "a.tf.json", "a.tofu", "a.tofu.json", "override.tf", "dir/x.tf", "a.b.tf"] {
        assert!(is_configuration(name), "{name}");
    }
    for name in [".tf", ".hidden.tf", "main.tf~", "#main.tf#", "x.tfvars", "x.tftest.hcl", "x.json", "tf", "a.tf.bak"] {
        assert!(!is_configuration(name), "{name}");
    }
    assert!(is_opentofu("a.tofu") && is_opentofu("a.tofu.json") && !is_opentofu("a.tf") && !is_opentofu("x"));
}

#[test]
fn an_opentofu_file_replaces_its_namesake() {
    let config = files(&[
        ("a.tf", "locals {\n  a = 1\n}\n"),
        ("a.tofu", "locals {\n  b = 1\n}\n"),
        ("a.tf.json", r#"{"locals": {"c": 1}}"#),
        ("d.tofu.json", r#"{"locals": {"d": 1}}"#),
    ]);
    assert_eq!(config.locals.keys().collect::<Vec<_>>(), ["b", "c", "d"]);
}

#[test]
fn what_an_override_refers_to_is_added_and_what_it_sets_wins() {
    let config = files(&[
        (
            "a_override.tf",
            r#"
            resource "x" "y" {
              provider = aws.east
              count    = 2
              a        = over.a
              lifecycle {
                create_before_destroy = false
              }
            }
            module "m" {
              source = "./other"
              in     = over.b
            }
            output "o" {
              value = over.c
            }
            variable "v" {
              default = 1
            }
            locals {
              l = over.d
            }
            provider "aws" {
              alias  = "west"
              region = over.e
            }
            "#,
        ),
        (
            "main.tf",
            r#"
            resource "x" "y" {
              provider = aws.west
              a        = base.a
              lifecycle {
                create_before_destroy = true
                precondition {
                  condition     = base.f
                  error_message = "no"
                }
              }
            }
            module "m" {
              source = "./one"
              in     = base.b
            }
            output "o" {
              value = base.c
            }
            variable "v" {
            }
            locals {
              l = base.d
            }
            provider "aws" {
              alias = "west"
            }
            "#,
        ),
        ("override.tf.json", r#"{"resource": {"x": {"y": {"b": "${over.json}"}}}}"#),
    ]);
    let [block] = config.resources.as_slice() else { panic!("one resource") };
    assert_eq!(texts(&block.references), ["base.a", "base.f", "over.a", "over.json"]);
    assert_eq!((block.provider.as_deref(), &*block.place.file), (Some("aws.east"), "main.tf"));
    assert!(block.repeated && block.conditions && !block.create_before_destroy);
    assert_eq!(config.calls.len(), 1);
    assert_eq!(config.calls[0].source.as_deref(), Some("./other"));
    assert_eq!(texts(&config.calls[0].inputs["in"]), ["base.b", "over.b"]);
    assert_eq!(texts(&config.outputs[0].references), ["base.c", "over.c"]);
    assert!(config.variables.len() == 1 && config.variables[0].has_default);
    assert_eq!(texts(&config.locals["l"]), ["base.d", "over.d"]);
    assert_eq!(texts(&config.providers["aws.west"]), ["over.e"]);
}

#[test]
fn a_later_override_wins_over_an_earlier_one() {
    let resource = |provider: &str| format!("resource \"x\" \"y\" {{\n  provider = {provider}\n}}\n");
    let config = files(&[
        ("b_override.tf", &resource("b")),
        ("a_override.tf", &resource("a")),
        ("override.tf", &resource("c")),
        ("z.tf", &resource("z")),
    ]);
    assert_eq!(config.resources.len(), 1);
    assert_eq!(config.resources[0].provider.as_deref(), Some("c"));
}

#[test]
fn the_backend_of_an_override_counts() {
    assert!(
        files(&[("a.tf", "terraform {\n}\n"), ("override.tf", "terraform {\n  backend \"local\" {}\n}\n")]).has_backend
    );
}
