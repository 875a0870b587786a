//! What a job tells its forge through its log and its files: GitHub's workflow commands and outputs, GitLab's report.

use crate::domain::plan::spec::PlanSpec;

/// How loud an annotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnnotationLevel {
    /// For information.
    Notice,
    /// Look at this.
    Warning,
    /// This is why the check failed.
    Failure,
}

/// A remark at a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The file, in the repository.
    pub path: String,
    /// The line, counted from 1.
    pub line: u32,
    /// How loud.
    pub level: AnnotationLevel,
    /// A title of one line.
    pub title: String,
    /// The text.
    pub message: String,
}

/// So many of each kind does GitLab count.
const MOST: usize = 999_999;

/// The value of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

impl Annotation {
    /// The annotation as a workflow command of GitHub, one line without its end.
    #[must_use]
    pub fn command(&self) -> String {
        let command = match self.level {
            AnnotationLevel::Notice => "notice",
            AnnotationLevel::Warning => "warning",
            AnnotationLevel::Failure => "error",
        };
        let (path, title) = (property(&self.path), property(&self.title));
        format!("::{command} file={path},line={},title={title}::{}", self.line, data(&self.message))
    }
}

/// The lines around output that the reader of a log folds out.
#[must_use]
pub fn group(title: &str) -> (String, &'static str) {
    (format!("::group::{}", data(title)), "::endgroup::")
}

/// The lines around output of other programs: between them GitHub obeys no command.
///
/// `token` must be random for every use, so that the output cannot end the pause.
#[must_use]
pub fn stopped(token: &str) -> (String, String) {
    (format!("::stop-commands::{token}"), format!("::{token}::"))
}

/// The lines that hide a secret in everything that the job prints after them: one for each line of the secret.
#[must_use]
pub fn masks(secret: &str) -> Vec<String> {
    let lines = secret.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    lines.map(|line| format!("::add-mask::{}", data(line))).collect()
}

/// One of a job's outputs as the file of outputs has it, with its line ends; `token` must be random for every value.
///
/// A token that stands in the value is made longer until it does not.
#[must_use]
pub fn output(name: &str, value: &str, token: &str) -> String {
    let mut delimiter = format!("kl_{token}");
    while value.lines().any(|line| line.contains(&delimiter)) {
        delimiter.push('_');
    }
    format!("{name}<<{delimiter}\n{value}\n{delimiter}\n")
}

/// GitLab's report of a plan, for `artifacts:reports:terraform`. A replacement counts as a creation and a deletion.
#[must_use]
pub fn gitlab_report(specs: &[&PlanSpec]) -> String {
    let number = |word: &str| -> usize {
        let actions = specs.iter().flat_map(|spec| &spec.write).map(|entry| entry.actions.vector());
        actions.map(|vector| vector.iter().filter(|action| **action == word).count()).sum::<usize>().min(MOST)
    };
    format!("{{\"create\":{},\"update\":{},\"delete\":{}}}\n", number("create"), number("update"), number("delete"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::action::Action;
    use crate::report::fixture::{self, HOSTILE, Plan};

    #[test]
    fn a_command_is_one_line_whatever_is_in_it() {
        let annotation = Annotation {
            path: "a,b:c\n.tf".to_owned(),
            line: 3,
            level: AnnotationLevel::Failure,
            title: "100%, sure: yes".to_owned(),
            message: HOSTILE.to_owned(),
        };
        let command = annotation.command();
        assert_eq!(command.lines().count(), 1);
        assert!(
            command.starts_with("::error file=a%2Cb%3Ac%0A.tf,line=3,title=100%25%2C sure%3A yes::```%0A</details>")
        );
    }

    #[test]
    fn a_value_cannot_end_its_output() {
        let text = output("result", "a\nkl_x7\nother<<E\nb", "x7");
        assert_eq!(text, "result<<kl_x7_\na\nkl_x7\nother<<E\nb\nkl_x7_\n");
    }

    #[test]
    fn every_line_of_a_secret_is_masked() {
        assert_eq!(masks("one\n\n  two%\r\n"), ["::add-mask::one", "::add-mask::  two%25"]);
    }

    #[test]
    fn output_of_others_stands_between_stop_and_go() {
        let (stop, go) = stopped("r4nd0m");
        assert_eq!((stop.as_str(), go.as_str()), ("::stop-commands::r4nd0m", "::r4nd0m::"));
        assert_eq!(group("a\n::error::x").0, "::group::a%0A::error::x");
    }

    #[test]
    fn gitlab_counts_a_replacement_twice() {
        let spec = fixture::network();
        assert_eq!(gitlab_report(&[&spec]), "{\"create\":4,\"update\":1,\"delete\":1}\n");
        let forget = Plan::new("x").write("x.a", Action::Forget, &[], "").spec();
        assert_eq!(gitlab_report(&[&forget, &spec, &spec]), "{\"create\":8,\"update\":2,\"delete\":2}\n");
    }
}
