//! Terraform's diagnostics as values and as readable text.

use std::fmt;

use serde::Deserialize;

use super::input;
use crate::domain::run::in_flight::ErrorSource;

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It stopped Terraform.
    Error,
    /// It did not.
    Warning,
}

/// One message of Terraform. Code snippets and their values are left out: they can hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub summary: String,
    /// More about it; may be empty.
    pub detail: String,
    /// The address of the resource that it is about.
    pub address: Option<String>,
    /// The file, relative to the root module; or in words, the value that was given for a variable.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u64>,
}

/// A diagnostic as the `-json` stream has it.
#[derive(Deserialize)]
pub(super) struct Wire {
    severity: String,
    summary: String,
    #[serde(default)]
    detail: String,
    address: Option<String>,
    range: Option<WireRange>,
}

/// Where a diagnostic points to.
#[derive(Deserialize)]
struct WireRange {
    filename: String,
    start: WirePosition,
}

/// A place in a file.
#[derive(Deserialize)]
struct WirePosition {
    line: u64,
}

impl From<Wire> for Diagnostic {
    fn from(wire: Wire) -> Self {
        let (mut file, mut line) = wire.range.map(|range| (range.filename, range.start.line)).unzip();
        // Where kl has put a value on its way to Terraform says nothing to whoever gave it.
        if let Some(variable) = file.as_deref().and_then(input::variable_of) {
            file = Some(format!("the value given for variable {variable}"));
            line = None;
        }
        Self {
            severity: if wire.severity == "warning" { Severity::Warning } else { Severity::Error },
            summary: wire.summary.trim().to_owned(),
            detail: wire.detail.trim().to_owned(),
            address: wire.address.filter(|address| !address.is_empty()),
            // "<value for var.x>" and the like name no file.
            file: file.filter(|name| !name.is_empty() && !name.starts_with('<')),
            line,
        }
    }
}

/// How Terraform says that a provider has not answered: it died, or the connection to it was lost (1.11.4, with the
/// provider killed while it created, updated or deleted). It names no address.
const SILENCE: [&str; 3] = ["Plugin did not respond", "Plugin error", "Request cancelled"];

/// How it says that it could not write its state (1.11.4).
const NOT_WRITTEN: [&str; 3] =
    ["Failed to save state", "Failed to persist state", "failed to create local state backup file"];

impl Diagnostic {
    /// Whom an error comes from.
    #[must_use]
    pub fn source(&self) -> ErrorSource {
        let begins = |with: &[&str]| with.iter().any(|with| self.summary.starts_with(with));
        if self.summary.eq_ignore_ascii_case("operation canceled") {
            ErrorSource::Cancelled
        } else if begins(&SILENCE) {
            ErrorSource::Silence
        } else if begins(&NOT_WRITTEN) {
            ErrorSource::StateNotWritten
        } else {
            ErrorSource::Answer
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Error => "Error: ",
            Severity::Warning => "Warning: ",
        })?;
        f.write_str(&self.summary)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "\n  on {file}:{line}")?,
            (Some(file), None) => write!(f, "\n  on {file}")?,
            (None, _) => {}
        }
        if let Some(address) = &self.address {
            write!(f, "\n  with {address}")?;
        }
        for line in self.detail.lines() {
            write!(f, "\n{}", format!("  {line}").trim_end())?;
        }
        Ok(())
    }
}

/// What Terraform wrote for a person, as diagnostics: from text with `Error:` and `Warning:` headings, with or without
/// colours and boxes (a flag that Terraform has not read yet cannot turn them off).
#[must_use]
pub(super) fn from_text(text: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in without_colours(text).lines() {
        let line = line.strip_prefix('│').map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest)).trim_end();
        if line.starts_with(['╷', '╵']) {
            continue;
        }
        let heading = [("Error: ", Severity::Error), ("Warning: ", Severity::Warning)]
            .into_iter()
            .find_map(|(mark, severity)| line.strip_prefix(mark).map(|summary| (severity, summary)));
        if let Some((severity, summary)) = heading {
            found.push(Diagnostic {
                severity,
                summary: summary.trim().to_owned(),
                detail: String::new(),
                address: None,
                file: None,
                line: None,
            });
        } else if let Some(last) = found.last_mut() {
            read_place(last, line);
            last.detail.push_str(line);
            last.detail.push('\n');
        }
    }
    for diagnostic in &mut found {
        diagnostic.detail = diagnostic.detail.trim().to_owned();
    }
    found
}

/// Takes the file and line from `  on main.tf line 3, in resource "x" "y":`.
fn read_place(diagnostic: &mut Diagnostic, line: &str) {
    let place = line
        .trim_start()
        .strip_prefix("on ")
        .and_then(|rest| rest.split_once(" line "))
        .and_then(|(file, rest)| Some((file, rest.split([',', ':']).next()?.parse().ok()?)));
    if let (None, Some((file, number))) = (&diagnostic.file, place) {
        diagnostic.file = Some(file.to_owned());
        diagnostic.line = Some(number);
    }
}

/// The text without ANSI colour sequences.
pub(super) fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..start]);
        let sequence = &rest[start + 2..];
        let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
        rest = &sequence[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_diagnostics_with_their_place() {
        let text = "\n\u{1b}[31mError: \u{1b}[0mUnsupported argument\n\n  on main.tf line 3, in resource \"x\" \"y\":\n   3:   colour = 1\n\n\
                    An argument named \"colour\" is not expected here.\n\nWarning: Old\n\nDo not.\n";
        let found = from_text(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].summary, "Unsupported argument");
        assert_eq!((found[0].file.as_deref(), found[0].line), (Some("main.tf"), Some(3)));
        assert!(found[0].detail.ends_with("is not expected here."));
        assert_eq!((found[1].severity, found[1].detail.as_str()), (Severity::Warning, "Do not."));
    }

    #[test]
    fn a_place_in_a_given_value_is_named_by_its_variable() {
        let wire = r#"{"severity":"error","summary":"No","range":{"filename":"/tmp/kl-x/given/n.tfvars.json","start":{"line":1}}}"#;
        let diagnostic = Diagnostic::from(serde_json::from_str::<Wire>(wire).unwrap());
        assert_eq!(diagnostic.to_string(), "Error: No\n  on the value given for variable n");
    }

    #[test]
    fn boxes_are_taken_off() {
        let found = from_text("╷\n│ Error: No\n│ \n│ Really not.\n╵\n");
        assert_eq!(found[0].to_string(), "Error: No\n  Really not.");
    }
}
