//! What the read set of a write set is, by example.

use std::collections::BTreeMap;

use super::*;
use crate::domain::address::ConfigModule;
use crate::domain::graph::configuration;

/// Reads a configuration: (module path, text of its one file).
fn tree(modules: &[(&[&str], &str)]) -> Tree {
    let read = |text: &str| configuration::read(&[("main.tf".to_owned(), text.to_owned())]).unwrap();
    let path = |names: &[&str]| ConfigModule(names.iter().map(|name| (*name).to_owned()).collect());
    Tree::new(modules.iter().map(|(names, text)| (path(names), read(text))).collect::<BTreeMap<_, _>>())
}

fn roots(instances: &[&str], outputs: &[&str]) -> Roots {
    Roots {
        instances: instances.iter().map(|text| Address::parse(text).unwrap()).collect(),
        outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
        recorded: BTreeMap::new(),
    }
}

fn reads(tree: &Tree, instances: &[&str], outputs: &[&str]) -> Vec<String> {
    upstream(tree, &config_edges(tree), &[], &roots(instances, outputs)).reads.keys().map(ToString::to_string).collect()
}

const CALLS: &str = r#"
    module "net" { source = "./net" }
    locals { vpc = module.net.vpc }
    module "web" {
      source   = "./web"
      for_each = toset(["a", "b"])
      vpc      = local.vpc
    }
    resource "terraform_data" "edge" { input = module.web["a"].id }
    resource "terraform_data" "alone" { input = 1 }
    output "all" { value = [for web in module.web : web.id] }
"#;
const NET: &str = r#"
    resource "terraform_data" "vpc" { count = 2 }
    output "vpc" { value = terraform_data.vpc[0].output }
"#;
const WEB: &str = r#"
    variable "vpc" {}
    resource "terraform_data" "base" { input = var.vpc }
    resource "terraform_data" "site" { input = terraform_data.base.output }
    output "id" { value = terraform_data.site.output }
"#;

fn site() -> Tree {
    tree(&[(&[], CALLS), (&["net"], NET), (&["web"], WEB)])
}

#[test]
fn an_instance_of_a_module_reads_only_its_own_siblings() {
    assert_eq!(
        reads(&site(), &["module.web[\"a\"].terraform_data.site"], &[]),
        [
            "module.net.terraform_data.vpc[0]",
            "module.net.terraform_data.vpc[\"0\"]",
            "module.web[\"a\"].terraform_data.base"
        ]
    );
}

#[test]
fn a_literal_module_key_narrows_the_edge() {
    let found = reads(&site(), &["terraform_data.edge"], &[]);
    assert!(found.contains(&"module.web[\"a\"].terraform_data.site".to_owned()), "{found:?}");
    assert!(
        !found.iter().any(|pattern| pattern.contains("module.web[\"b\"]") || pattern.contains("module.web.")),
        "{found:?}"
    );
}

#[test]
fn an_output_over_all_instances_reads_all_of_them() {
    let found = reads(&site(), &[], &["all"]);
    assert!(found.contains(&"module.web.terraform_data.site".to_owned()), "{found:?}");
    assert!(!found.contains(&"terraform_data.alone".to_owned()));
}

#[test]
fn the_edge_names_what_lies_between() {
    let closure =
        upstream(&site(), &config_edges(&site()), &[], &roots(&["module.web[\"a\"].terraform_data.base"], &[]));
    let pattern = Pattern::parse("module.net.terraform_data.vpc[0]").unwrap();
    let via = &closure.reads[&pattern];
    assert_eq!(via.from, "module.web[\"a\"].terraform_data.base");
    assert_eq!(via.through, ["module.web.var.vpc", "local.vpc", "module.net.output.vpc"]);
}

#[test]
fn a_root_that_another_root_reads_is_a_read_with_all_its_instances() {
    let tree = tree(&[(
        &[],
        r#"
        resource "terraform_data" "x" { count = 3 }
        resource "terraform_data" "y" { input = terraform_data.x[*].id }
    "#,
    )]);
    // x[0] is written, and y reads x[1] and x[2] as well.
    assert_eq!(reads(&tree, &["terraform_data.x[0]", "terraform_data.y"], &[]), ["terraform_data.x"]);
}

#[test]
fn triggers_conditions_providers_and_depends_on_are_edges() {
    let tree = tree(&[
        (
            &[],
            r#"
            provider "acme" { region = terraform_data.region.output }
            resource "terraform_data" "region" {}
            resource "terraform_data" "base" {}
            resource "terraform_data" "guard" {}
            resource "terraform_data" "late" {}
            module "m" {
              source     = "./m"
              depends_on = [terraform_data.late]
            }
        "#,
        ),
        (
            &["m"],
            r#"
            variable "x" { default = 1 }
            resource "acme_thing" "t" {}
        "#,
        ),
    ]);
    assert_eq!(reads(&tree, &["module.m.acme_thing.t"], &[]), ["terraform_data.late", "terraform_data.region"]);
    let triggered = self::tree(&[(
        &[],
        r#"
        resource "terraform_data" "base" {}
        resource "terraform_data" "guard" {}
        resource "terraform_data" "rt" {
          lifecycle {
            replace_triggered_by = [terraform_data.base]
            precondition {
              condition     = terraform_data.guard.output != null
              error_message = "no"
            }
          }
        }
    "#,
    )]);
    assert_eq!(reads(&triggered, &["terraform_data.rt"], &[]), ["terraform_data.base", "terraform_data.guard"]);
}

#[test]
fn a_key_may_be_spelt_as_a_number_or_as_a_text() {
    let tree = tree(&[(
        &[],
        r#"
        resource "terraform_data" "x" { for_each = toset(["0", "1"]) }
        resource "terraform_data" "y" { input = terraform_data.x[0].id }
    "#,
    )]);
    assert_eq!(reads(&tree, &["terraform_data.y"], &[]), ["terraform_data.x[0]", "terraform_data.x[\"0\"]"]);
}

#[test]
fn what_only_a_coarse_source_knows_is_read_at_full_width() {
    let tree = site();
    let resource = |text: &str| Node::resource(&ConfigAddress::parse(text).unwrap());
    let mut edges = CoarseEdges::new();
    edges.entry(resource("terraform_data.alone")).or_default().insert(resource("module.web.terraform_data.site"));
    let closure =
        upstream(&tree, &config_edges(&tree), &[(EdgeSource::Graph, &edges)], &roots(&["terraform_data.alone"], &[]));
    let (pattern, via) = closure.reads.first_key_value().unwrap();
    assert_eq!(pattern.to_string(), "module.web.terraform_data.site");
    assert_eq!(via.source, EdgeSource::Graph);
}

#[test]
fn what_the_state_records_for_an_orphan_is_read() {
    let mut roots = roots(&["terraform_data.gone"], &[]);
    let address = Address::parse("terraform_data.gone").unwrap();
    roots.recorded.insert(address, vec![ConfigAddress::parse("module.net.terraform_data.vpc").unwrap()]);
    let closure = upstream(&site(), &config_edges(&site()), &[], &roots);
    let (pattern, via) = closure.reads.first_key_value().unwrap();
    assert_eq!((pattern.to_string().as_str(), via.source), ("module.net.terraform_data.vpc", EdgeSource::State));
}

#[test]
fn a_wider_read_stands_for_the_narrower_ones() {
    let tree = tree(&[(
        &[],
        r#"
        resource "terraform_data" "x" { for_each = toset(["a", "b"]) }
        resource "terraform_data" "y" { input = [terraform_data.x["a"].id, values(terraform_data.x)] }
    "#,
    )]);
    assert_eq!(reads(&tree, &["terraform_data.y"], &[]), ["terraform_data.x"]);
}

#[test]
fn so_many_instances_are_walked_as_one() {
    let tree = site();
    let instances: Vec<String> = (0..1000).map(|n| format!("module.web[\"k{n}\"].terraform_data.site")).collect();
    let texts: Vec<&str> = instances.iter().map(String::as_str).collect();
    let found = reads(&tree, &texts, &[]);
    assert!(found.contains(&"module.web.terraform_data.base".to_owned()));
    assert!(found.len() < 10, "{}", found.len());
}

#[test]
fn a_provider_alias_handed_to_a_child_module_is_an_edge() {
    let tree = tree(&[
        (
            &[],
            r#"
            provider "acme" { region = terraform_data.home.output }
            provider "acme" {
              alias  = "west"
              region = terraform_data.west.output
            }
            resource "terraform_data" "home" {}
            resource "terraform_data" "west" {}
            module "outer" {
              source    = "./outer"
              providers = { acme = acme.west }
            }
        "#,
        ),
        (
            &["outer"],
            r#"
            module "inner" { source = "./inner" }
        "#,
        ),
        (&["outer", "inner"], r#"resource "acme_thing" "t" {}"#),
    ]);
    assert_eq!(reads(&tree, &["module.outer.module.inner.acme_thing.t"], &[]), ["terraform_data.west"]);
}

#[test]
fn an_index_on_a_call_that_is_not_repeated_names_an_output() {
    let tree = tree(&[
        (
            &[],
            r#"
            module "x" { source = "./m" }
            resource "terraform_data" "r" { input = "${module.x.a_only}${module.x["out"].name}" }
        "#,
        ),
        (
            &["x"],
            r#"
            resource "terraform_data" "inner" { for_each = toset(["a", "b", "c"]) }
            output "a_only" { value = terraform_data.inner["a"].input }
            output "out" { value = { name = terraform_data.inner["b"].input } }
        "#,
        ),
    ]);
    let inner = |key: &str| format!("module.x.terraform_data.inner[\"{key}\"]");
    assert_eq!(reads(&tree, &["terraform_data.r"], &[]), [inner("a"), inner("b")]);
}

#[test]
fn an_edge_that_only_a_coarse_source_has_widens_what_was_narrowed() {
    let tree = tree(&[(
        &[],
        r#"
        resource "terraform_data" "x" { for_each = toset(["a", "b"]) }
        resource "terraform_data" "y" { input = terraform_data.x["a"].id }
        resource "terraform_data" "z" { input = terraform_data.y.id }
    "#,
    )]);
    let resource = |text: &str| Node::resource(&ConfigAddress::parse(text).unwrap());
    let mut edges = CoarseEdges::new();
    edges.entry(resource("terraform_data.z")).or_default().insert(resource("terraform_data.x"));
    let closure =
        upstream(&tree, &config_edges(&tree), &[(EdgeSource::Graph, &edges)], &roots(&["terraform_data.z"], &[]));
    let found: Vec<String> = closure.reads.keys().map(ToString::to_string).collect();
    assert_eq!(found, ["terraform_data.x", "terraform_data.y"]);
}
