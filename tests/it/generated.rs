//! Files that are generated from the code and checked in: they must be current.
//!
//! `KL_UPDATE_GENERATED=1 cargo test --test it generated` writes them anew.

use std::path::PathBuf;

use kl_runner::config::file::ConfigFile;
use kl_runner::domain::plan::spec::PlanSpec;

/// Compares a checked-in file with what the code gives, or writes it when asked to.
fn current(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("KL_UPDATE_GENERATED").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/{name} is not current: run `KL_UPDATE_GENERATED=1 cargo test --test it generated`");
}

#[test]
fn the_json_schema_of_specs_is_current() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(PlanSpec)).unwrap();
    current("kl-plan.schema.json", &format!("{schema}\n"));
}

#[test]
fn the_json_schema_of_kl_yaml_is_current() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(ConfigFile)).unwrap();
    current("kl.schema.json", &format!("{schema}\n"));
}

#[test]
fn the_command_line_reference_is_current() {
    let mut text = String::from(
        "# Commands\n\nGenerated from `kl --help`. Exit codes are in the [README](../README.md#what-you-will-see).\n\n\
         A view of many things takes `--state`, `--since` and `--limit`, and says how to go on where it has left something out: with\n\
         `--before`, or with `--after` where it is told from its beginning. Where an option would mean nothing it is not there: one run\n\
         (`kl show`, `kl explain`) has one state and one time, and `kl history --since-plan` and the `kl forecast` of one plan have\n\
         those of the plan.\n",
    );
    let mut command = <kl_runner::cli::args::Cli as clap::CommandFactory>::command().term_width(100);
    command.build();
    describe(&mut text, &mut command, "kl");
    current("commands.md", &text);
}

/// The help of a command and of everything below it.
fn describe(text: &mut String, command: &mut clap::Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for below in below.iter().filter(|below| *below != "help") {
        if let Some(found) = command.find_subcommand_mut(below) {
            describe(text, found, &format!("{name} {below}"));
        }
    }
}
