//! The configuration reader by example.

mod blocks;
mod expressions;
mod json_syntax;
mod overrides;

use super::{ModuleConfig, Step, Traversal, read};
use crate::domain::address::Key;

/// Reads a module of one file `main.tf`.
fn module(text: &str) -> ModuleConfig {
    files(&[("main.tf", text)])
}

/// Reads a module of several files.
fn files(files: &[(&str, &str)]) -> ModuleConfig {
    let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    read(&files).unwrap()
}

/// Prints references one by one; `[?]` stands for any instance.
fn texts(references: &[Traversal]) -> Vec<String> {
    references.iter().map(text).collect()
}

fn text(traversal: &Traversal) -> String {
    let mut out = traversal.root.clone();
    for step in &traversal.steps {
        match step {
            Step::Attr(name) => out.push_str(&format!(".{name}")),
            Step::Index(key) => out.push_str(&key.to_string()),
            Step::Any => out.push_str("[?]"),
        }
    }
    out
}

/// What one expression refers to.
fn references(expression: &str) -> Vec<String> {
    texts(&module(&format!("locals {{\n  it = {expression}\n}}\n")).locals["it"])
}

#[test]
fn a_step_selects_keys_as_terraform_converts_them() {
    let number = Step::Index(Key::Int(0));
    let name = Step::Index(Key::Str("0".to_owned()));
    assert!(number.may_select(&Key::Int(0)) && number.may_select(&Key::Str("0".to_owned())));
    assert!(name.may_select(&Key::Int(0)) && name.may_select(&Key::Str("0".to_owned())));
    assert!(!number.may_select(&Key::Int(1)) && !name.may_select(&Key::Str("00".to_owned())));
    assert!(Step::Any.may_select(&Key::Int(7)));
}
