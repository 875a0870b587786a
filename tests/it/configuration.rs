//! The configuration reader held against Terraform's own graph: no edge of Terraform's may be missing.
//!
//! Each file in `tests/fixtures/hcl` is a configuration, its files after lines such as `-- main.tf --`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kl_runner::domain::graph::configuration::{self, ModuleConfig};
use kl_runner::domain::graph::dot::{self, GraphNode};
use kl_runner::domain::graph::manifest;

/// From what depends to what it depends on.
pub(crate) type Edges = BTreeMap<GraphNode, BTreeSet<GraphNode>>;

#[test]
fn every_edge_of_terraform_is_found_in_the_text() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hcl");
    let mut cases: Vec<PathBuf> = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 30, "the fixtures are gone");
    let mut differences = String::new();
    for case in &cases {
        let name = case.file_stem().unwrap().to_string_lossy();
        let root = tempfile::tempdir().unwrap();
        unpack(&fs::read_to_string(case).unwrap(), root.path());
        let terraform = closure(&terraform_edges(root.path()));
        let text = closure(&text_edges(root.path()));
        assert!(!terraform.is_empty(), "{name}: Terraform's graph has no edge");
        for (from, to) in terraform.difference(&text) {
            differences.push_str(&format!("{name}: missing {from:?} -> {to:?}\n"));
        }
        // The other direction would cost concurrency only, but there is one reason for it: what was overridden.
        for (from, to) in text.difference(&terraform).filter(|_| name != "overrides") {
            differences.push_str(&format!("{name}: superfluous {from:?} -> {to:?}\n"));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Writes the files of a case into a directory.
fn unpack(case: &str, root: &Path) {
    let mut path = None;
    for line in case.split_inclusive('\n') {
        if let Some(name) = line.trim_end().strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            path = Some(file);
        } else if let Some(path) = &path {
            let text = fs::read_to_string(path).unwrap() + line;
            fs::write(path, text).unwrap();
        }
    }
}

/// The edges as Terraform draws them.
fn terraform_edges(root: &Path) -> Edges {
    terraform(root, &["init", "-input=false"]);
    let mut edges = Edges::new();
    for (from, to) in dot::read(&terraform(root, &["graph", "-type=plan"])).unwrap() {
        let (from, to) = (whole_input(from), whole_input(to));
        if from != to {
            edges.entry(from).or_default().insert(to);
        }
    }
    edges
}

/// The edges as kl reads them from the files.
fn text_edges(root: &Path) -> Edges {
    let modules = fs::read_to_string(root.join(".terraform/modules/modules.json")).unwrap_or_else(|_| {
        // Without module calls there is no manifest.
        r#"{"Modules":[{"Key":"","Source":"","Dir":"."}]}"#.to_owned()
    });
    let modules: Vec<_> = manifest::read(&modules)
        .unwrap()
        .into_iter()
        .map(|(module, directory)| (module, module_config(&root.join(directory))))
        .collect();
    resolve::edges(&modules)
}

fn module_config(directory: &Path) -> ModuleConfig {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
        }
    }
    configuration::read(&files).unwrap()
}

fn terraform(root: &Path, arguments: &[&str]) -> String {
    let run = Command::new("terraform")
        .args(arguments)
        .arg("-no-color")
        .current_dir(root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", root)
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .expect(
            "these tests need `terraform` 1.9 or newer on PATH: see https://developer.hashicorp.com/terraform/install",
        );
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "terraform {arguments:?} in {}: {stdout}{stderr}", root.display());
    stdout.into_owned()
}

/// Takes a variable and its validations for one: whoever uses it waits for both.
fn whole_input(node: GraphNode) -> GraphNode {
    match node {
        GraphNode::Validation(module, name) => GraphNode::Input(module, name),
        other => other,
    }
}

/// Every pair of declarations of which one depends on the other, over ways of whatever nodes.
fn closure(edges: &Edges) -> BTreeSet<(GraphNode, GraphNode)> {
    let mut pairs = BTreeSet::new();
    for from in edges.keys().filter(|node| is_declaration(node)) {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(node) = next.pop() {
            for to in edges.get(node).into_iter().flatten() {
                if seen.insert(to) {
                    next.push(to);
                }
            }
        }
        pairs.extend(seen.into_iter().filter(|to| is_declaration(to)).map(|to| (from.clone(), to.clone())));
    }
    pairs
}

fn is_declaration(node: &GraphNode) -> bool {
    matches!(node, GraphNode::Resource(_) | GraphNode::Local(..) | GraphNode::Input(..) | GraphNode::Output(..))
}
