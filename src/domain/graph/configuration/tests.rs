//! The configuration reader by example.

mod blocks;
mod expressions;
mod json_syntax;
mod overrides;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

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

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        text in any::<String>(),
        words in vec(select(&WORDS[..]), 0..60),
        json in vec(select(&JSON_WORDS[..]), 0..40),
    ) {
        for (name, text) in [("a.tf", &text), ("a_override.tf", &words.concat()), ("a.tf.json", &json.concat())] {
            let _outcome = read(&[(name.to_owned(), text.clone())]);
        }
        let value = format!("{{\"resource\": {{\"a\": {{\"b\": {{\"c\": {}}}}}}}}}", serde_json::to_string(&text).unwrap());
        let _outcome = read(&[("a.tf.json".to_owned(), value)]);
    }

    #[test]
    fn the_names_that_a_for_binds_are_never_references(depth in 1_usize..15, unbound in "[a-z]{3}") {
        let heads: Vec<_> = (0..depth).map(|level| format!("[for k{level}, v{level} in k{level}.x.y : ")).collect();
        let uses: Vec<_> = (0..depth).map(|level| format!("k{level}.a + v{level}.b + ")).collect();
        let found = references(&format!("{}{}{unbound}.z{}", heads.concat(), uses.concat(), "]".repeat(depth)));
        // Each collection stands outside of its own scope.
        let mut expected: Vec<_> = (0..depth).map(|level| format!("k{level}.x.y")).chain([format!("{unbound}.z")]).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

/// Pieces of the native syntax, to be put together in any order.
const WORDS: [&str; 40] = [
    "resource ",
    "\"x\" ",
    "\"y\" ",
    "{\n",
    "}\n",
    "a",
    " = ",
    "b.c",
    "[0]",
    "[*]",
    ".*",
    ".0",
    "[\"k\"]",
    "[",
    "]",
    "(",
    ")",
    "\"${",
    "}\"",
    "\"",
    "%{ if ",
    "%{ for x in ",
    "%{ endfor }",
    "for x in ",
    " : ",
    " => ",
    "...",
    " ? ",
    "<<E\n",
    "E\n",
    "\n",
    "dynamic ",
    "lifecycle {\n",
    "module \"m\" {\n",
    "providers = ",
    ",",
    "!",
    "provider::a::f(",
    "é",
    "\r\n",
];

/// Pieces of JSON.
const JSON_WORDS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"resource\":",
    "\"x\":",
    "\"dynamic\":",
    "\"for_each\":",
    "\"content\":",
    "\"//\":",
    "null",
    "1e9",
    "\"${a.b}\"",
    "\"${\"",
    "\"%{ if\"",
    "\"depends_on\":",
    "\"a.b\"",
    "\"module\":",
    "\"providers\":",
    "true",
];

#[test]
fn a_step_selects_keys_as_terraform_converts_them() {
    let number = Step::Index(Key::Int(0));
    let name = Step::Index(Key::Str("0".to_owned()));
    assert!(number.may_select(&Key::Int(0)) && number.may_select(&Key::Str("0".to_owned())));
    assert!(name.may_select(&Key::Int(0)) && name.may_select(&Key::Str("0".to_owned())));
    assert!(!number.may_select(&Key::Int(1)) && !name.may_select(&Key::Str("00".to_owned())));
    assert!(Step::Any.may_select(&Key::Int(7)));
}
