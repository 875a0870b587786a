//! docs/operations.md is true: its commands and flags exist, and kl says what it quotes.

use std::fs;

use camino::Utf8Path;
use clap::CommandFactory as _;
use kl_runner::cli::args::Cli;

use crate::architecture;

fn root() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/operations.md")).unwrap()
}

/// The blocks of a language, and the text without any block.
fn blocks(page: &str, language: &str) -> (Vec<String>, String) {
    let (mut found, mut rest, mut inside) = (Vec::new(), String::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut inside) {
            (Some(named), None) => inside = Some((named.to_owned(), String::new())),
            (Some(_), Some(_)) => {
                let (named, text) = inside.take().unwrap();
                if named == language {
                    found.push(text);
                }
            }
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => rest += &format!("{line}\n"),
        }
    }
    assert!(inside.is_none(), "a block does not end");
    (found, rest)
}

/// Everything on the page that calls kl.
fn calls(page: &str) -> Vec<String> {
    let (shell, prose) = blocks(page, "sh");
    let lines: Vec<String> = shell.iter().flat_map(|block| block.lines()).map(|line| line.trim().to_owned()).collect();
    let spans = prose.split('`').skip(1).step_by(2).map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.into_iter().chain(spans).filter(|call| call.starts_with("kl ")).collect()
}

#[test]
fn every_command_and_flag_of_the_page_exists() {
    let calls = calls(&page());
    assert!(calls.len() > 30, "the page was not understood: {calls:?}");
    for call in calls {
        let mut command = Cli::command();
        command.build();
        for word in call.split('#').next().unwrap_or_default().split_whitespace().skip(1) {
            if let Some(flag) = word.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or_default()) {
                let known = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
                assert!(known, "`{call}`: `{}` has no --{flag}", command.get_name());
            } else if let Some(below) = command.find_subcommand(word) {
                command = below.clone();
            } else {
                let bare = command.has_subcommands() && command.get_positionals().next().is_none();
                assert!(!bare, "`{call}`: `{}` has no command {word}", command.get_name());
            }
        }
    }
}

/// The text of all sources, with what a string literal continues on the next line.
fn sources() -> String {
    let text: String =
        architecture::sources().iter().map(|path| fs::read_to_string(root().join(path)).unwrap()).collect();
    let mut joined = String::with_capacity(text.len());
    let mut parts = text.split("\\\n");
    joined.push_str(parts.next().unwrap_or_default());
    for part in parts {
        joined.push_str(part.trim_start());
    }
    joined.replace("\\\"", "\"")
}

#[test]
fn kl_says_what_the_page_quotes() {
    let sources = sources();
    let (quotes, _) = blocks(&page(), "text");
    assert!(quotes.len() > 10, "the page was not understood");
    for line in quotes.iter().flat_map(|quote| quote.lines()) {
        // A value stands as `…`.
        for part in line.split('…').map(str::trim).filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "kl never says {part:?} (in {line:?})");
        }
    }
}
