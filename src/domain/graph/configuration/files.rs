//! Which files of a directory are configuration, and in which order they count.

use std::collections::HashSet;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `.tf` and `.tofu`.
    Native,
    /// `.tf.json` and `.tofu.json`.
    Json,
}

/// A file that the module consists of.
pub(super) struct File<'a> {
    /// The name as it was given.
    pub(super) name: &'a str,
    /// The text without a byte order mark.
    pub(super) text: &'a str,
    /// How it is written.
    pub(super) syntax: Syntax,
    /// Whether it is laid over the others.
    pub(super) is_override: bool,
}

/// What a file's name says.
struct Kind<'a> {
    stem: &'a str,
    syntax: Syntax,
    opentofu: bool,
}

/// Whether Terraform or OpenTofu would read a file of this name as configuration.
#[must_use]
pub fn is_configuration(name: &str) -> bool {
    kind(name).is_some()
}

/// Whether only OpenTofu would read a file of this name, because it ends in `.tofu` or `.tofu.json`.
#[must_use]
pub fn is_opentofu(name: &str) -> bool {
    kind(name).is_some_and(|kind| kind.opentofu)
}

/// Whether the text of a file asks for the name of the workspace. Lines that are comments do not count.
#[must_use]
pub fn asks_for_workspace(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        !line.starts_with('#')
            && !line.starts_with("//")
            && ["terraform.workspace", "tofu.workspace"].iter().any(|word| line.contains(word))
    })
}

fn kind(name: &str) -> Option<Kind<'_>> {
    let base = base_name(name);
    // Hidden files, and what editors leave behind.
    if base.starts_with('.') || base.ends_with('~') || (base.starts_with('#') && base.ends_with('#')) {
        return None;
    }
    let endings = [
        (".tf.json", Syntax::Json, false),
        (".tofu.json", Syntax::Json, true),
        (".tf", Syntax::Native, false),
        (".tofu", Syntax::Native, true),
    ];
    endings.into_iter().find_map(|(ending, syntax, opentofu)| {
        let stem = base.strip_suffix(ending)?;
        Some(Kind { stem, syntax, opentofu })
    })
}

fn base_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// The files of the module in the order of their names, without those that an OpenTofu file replaces.
pub(super) fn select(files: &[(String, String)]) -> Vec<File<'_>> {
    let replaced: HashSet<(&str, bool)> = files
        .iter()
        .filter_map(|(name, _)| kind(name))
        .filter(|kind| kind.opentofu)
        .map(|kind| (kind.stem, kind.syntax == Syntax::Json))
        .collect();
    let mut selected: Vec<File<'_>> = files
        .iter()
        .filter_map(|(name, text)| {
            let kind = kind(name)?;
            if !kind.opentofu && replaced.contains(&(kind.stem, kind.syntax == Syntax::Json)) {
                return None;
            }
            Some(File {
                name,
                text: text.strip_prefix('\u{feff}').unwrap_or(text),
                syntax: kind.syntax,
                is_override: kind.stem == "override" || kind.stem.ends_with("_override"),
            })
        })
        .collect();
    selected.sort_by_key(|file| base_name(file.name));
    selected
}
