//! The lines of Terraform's `-json` output as values. Pure; unknown lines are no error.

use serde::Deserialize;

use super::diagnostic::{Diagnostic, Severity, Wire};
use crate::domain::run::in_flight::InFlight;
use crate::domain::run::workplace::ProcessGroup;

/// How its lines begin.
const OWN: &str = "{\"@level\":";

/// How Terraform begins to say a state that it could not write.
const DUMP: &str = "Emergency state dump";

/// The resource instance that an event is about, and what is done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its address, as Terraform prints it.
    pub address: String,
    /// `create`, `update`, `delete`, `read`, …; empty where Terraform names none.
    pub action: String,
}

/// One line of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UiEvent {
    /// Not a line, but the first that is heard: the process runs.
    Started(ProcessGroup),
    /// The first line: which program speaks.
    Version {
        /// Its version.
        version: String,
    },
    /// A change that the plan holds.
    PlannedChange(Subject),
    /// A difference between the state and the real object.
    Drift(Subject),
    /// Terraform began with a resource.
    ApplyStart(Subject),
    /// It is still at it; comes every ten seconds.
    ApplyProgress {
        /// Which.
        subject: Subject,
        /// Seconds since it began.
        elapsed_seconds: u64,
    },
    /// It finished.
    ApplyComplete {
        /// Which.
        subject: Subject,
        /// Seconds since it began.
        elapsed_seconds: u64,
        /// The id attribute, as (name, value).
        id: Option<(String, String)>,
    },
    /// It failed.
    ApplyErrored {
        /// Which.
        subject: Subject,
        /// Seconds since it began.
        elapsed_seconds: u64,
    },
    /// The real object is being looked at.
    RefreshStart(Subject),
    /// It was looked at.
    RefreshComplete(Subject),
    /// A provisioner runs, said something, ended or failed. What it said is left out: it can hold secrets.
    Provision {
        /// Which resource.
        subject: Subject,
        /// `start`, `progress`, `complete` or `errored`.
        step: String,
    },
    /// An error or a warning.
    Diagnostic(Diagnostic),
    /// The counts at the end; a failed apply has none.
    ChangeSummary {
        /// `plan`, `apply` or `destroy`.
        operation: String,
        /// Created.
        add: u64,
        /// Changed in place.
        change: u64,
        /// Imported.
        import: u64,
        /// Destroyed.
        remove: u64,
    },
    /// A state that could not be written is said in its place; it is left out, as it holds secrets.
    StateDump,
    /// A line of JSON that is not whole: the disk is full.
    CutOff,
    /// A line that kl has no use for, by its type.
    Other {
        /// The type.
        kind: String,
    },
}

/// A line with every member that some type has.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type", default)]
    kind: String,
    terraform: Option<String>,
    tofu: Option<String>,
    hook: Option<Hook>,
    change: Option<Change>,
    diagnostic: Option<Wire>,
    changes: Option<Counts>,
}

/// What happened to one resource.
#[derive(Deserialize)]
struct Hook {
    resource: Resource,
    #[serde(default)]
    action: String,
    id_key: Option<String>,
    id_value: Option<String>,
    /// A fraction in some versions.
    #[serde(default)]
    elapsed_seconds: f64,
}

/// A planned change or drift.
#[derive(Deserialize)]
struct Change {
    resource: Resource,
    #[serde(default)]
    action: String,
}

/// A resource instance.
#[derive(Deserialize)]
struct Resource {
    addr: String,
}

/// The numbers of a change summary.
#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    operation: String,
    #[serde(default)]
    add: u64,
    #[serde(default)]
    change: u64,
    #[serde(default)]
    import: u64,
    #[serde(default)]
    remove: u64,
}

impl UiEvent {
    /// Reads a line. None when it is not a JSON object (provider noise, `init`'s plain lines).
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        if !line.trim_start().starts_with('{') {
            return None;
        }
        if line.contains(DUMP) {
            return Some(Self::StateDump);
        }
        Some(match serde_json::from_str::<Line>(line) {
            Ok(line) => Self::from_line(line),
            Err(_) => match serde_json::from_str::<serde_json::Value>(line) {
                // An object whose members have taken another form in some version: known by its type alone.
                Ok(value) => Self::Other {
                    kind: value.get("type").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned(),
                },
                Err(_) if line.starts_with(OWN) || OWN.starts_with(line.trim_end()) => Self::CutOff,
                // What a program around Terraform says is none of it.
                Err(_) => return None,
            },
        })
    }

    /// Tells it to the one who keeps what is in flight.
    pub fn tell(&self, in_flight: &mut InFlight) {
        if !matches!(self, Self::Started(_)) {
            in_flight.spoke();
        }
        match self {
            Self::ApplyStart(subject) => in_flight.began(&subject.address, &subject.action),
            Self::ApplyComplete { subject, elapsed_seconds, .. } => {
                in_flight.completed(&subject.address, *elapsed_seconds);
            }
            Self::ApplyErrored { subject, .. } => in_flight.errored(&subject.address),
            Self::Provision { subject, step } if step == "start" => in_flight.provisions(&subject.address),
            Self::ChangeSummary { operation, .. } if operation != "plan" => in_flight.counts_told(),
            Self::Diagnostic(diagnostic) if diagnostic.severity == Severity::Error => {
                in_flight.error_told(diagnostic.address.as_deref(), diagnostic.source());
            }
            Self::StateDump => in_flight.state_not_written(),
            Self::CutOff => in_flight.line_lost(),
            _ => {}
        }
    }

    fn from_line(line: Line) -> Self {
        let Line { kind, terraform, tofu, hook, change, diagnostic, changes } = line;
        match (kind.as_str(), hook, change) {
            ("planned_change", _, Some(change)) => Self::PlannedChange(change.into()),
            ("resource_drift", _, Some(change)) => Self::Drift(change.into()),
            ("apply_start", Some(hook), _) => Self::ApplyStart(hook.subject()),
            ("apply_progress", Some(hook), _) => {
                Self::ApplyProgress { elapsed_seconds: hook.elapsed(), subject: hook.subject() }
            }
            ("apply_complete", Some(hook), _) => Self::ApplyComplete {
                elapsed_seconds: hook.elapsed(),
                id: hook.id_key.clone().zip(hook.id_value.clone()),
                subject: hook.subject(),
            },
            ("apply_errored", Some(hook), _) => {
                Self::ApplyErrored { elapsed_seconds: hook.elapsed(), subject: hook.subject() }
            }
            ("refresh_start", Some(hook), _) => Self::RefreshStart(hook.subject()),
            ("refresh_complete", Some(hook), _) => Self::RefreshComplete(hook.subject()),
            (kind, hook, _) => match (kind.strip_prefix("provision_"), hook, diagnostic, changes) {
                (Some(step), Some(hook), _, _) => Self::Provision { subject: hook.subject(), step: step.to_owned() },
                (_, _, Some(diagnostic), _) => Self::Diagnostic(diagnostic.into()),
                (_, _, _, Some(counts)) => Self::ChangeSummary {
                    operation: counts.operation,
                    add: counts.add,
                    change: counts.change,
                    import: counts.import,
                    remove: counts.remove,
                },
                _ => match terraform.or(tofu) {
                    Some(version) if kind == "version" => Self::Version { version },
                    _ => Self::Other { kind: kind.to_owned() },
                },
            },
        }
    }
}

impl Hook {
    fn subject(self) -> Subject {
        Subject { address: self.resource.addr, action: self.action }
    }

    /// Whole seconds; nonsense counts as none.
    fn elapsed(&self) -> u64 {
        std::time::Duration::try_from_secs_f64(self.elapsed_seconds).map_or(0, |elapsed| elapsed.as_secs())
    }
}

impl From<Change> for Subject {
    fn from(change: Change) -> Self {
        Self { address: change.resource.addr, action: change.action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terraform::diagnostic::Severity;

    #[test]
    fn a_resource_event_names_address_action_and_time() {
        let line = r#"{"@level":"info","@message":"x: Creation complete after 12s","hook":{"resource":{"addr":"module.a[\"b.c\"].terraform_data.x","module":"module.a[\"b.c\"]","resource_key":null},"action":"create","id_key":"id","id_value":"i-1","elapsed_seconds":12},"type":"apply_complete"}"#;
        assert_eq!(
            UiEvent::parse(line),
            Some(UiEvent::ApplyComplete {
                subject: Subject {
                    address: "module.a[\"b.c\"].terraform_data.x".to_owned(),
                    action: "create".to_owned()
                },
                elapsed_seconds: 12,
                id: Some(("id".to_owned(), "i-1".to_owned())),
            })
        );
    }

    #[test]
    fn a_diagnostic_keeps_its_place_and_loses_its_snippet() {
        let line = r#"{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Invalid","detail":"Because.\n","address":"terraform_data.x","range":{"filename":"main.tf","start":{"line":7,"column":3,"byte":90},"end":{"line":7,"column":9,"byte":96}},"snippet":{"code":"input = var.x","values":[{"traversal":"var.x","statement":"is \"s3cret\""}]}}}"#;
        let Some(UiEvent::Diagnostic(diagnostic)) = UiEvent::parse(line) else { panic!("a diagnostic") };
        assert_eq!(diagnostic.severity, Severity::Error);
        assert_eq!(diagnostic.to_string(), "Error: Invalid\n  on main.tf:7\n  with terraform_data.x\n  Because.");
    }

    #[test]
    fn what_a_provisioner_says_is_left_out() {
        let line = r#"{"@message":"x: (local-exec): s3cret","hook":{"resource":{"addr":"terraform_data.x"},"provisioner":"local-exec","output":"s3cret"},"type":"provision_progress"}"#;
        let event = UiEvent::parse(line).unwrap();
        assert!(!format!("{event:?}").contains("s3cret"));
        assert!(matches!(event, UiEvent::Provision { step, .. } if step == "progress"));
    }

    #[test]
    fn noise_and_the_unknown_are_no_error() {
        assert_eq!(UiEvent::parse("Initializing the backend..."), None);
        assert_eq!(UiEvent::parse(""), None);
        assert_eq!(UiEvent::parse("{broken"), None);
        assert_eq!(UiEvent::parse("{"), Some(UiEvent::CutOff));
        assert_eq!(UiEvent::parse(r#"{"@level":"info","@message":"x: Creat"#), Some(UiEvent::CutOff));
        assert_eq!(UiEvent::parse(r#"{"@message":"Emergency state dump","state":{"#), Some(UiEvent::StateDump));
        assert_eq!(UiEvent::parse(r#"{"type":"new"}"#), Some(UiEvent::Other { kind: "new".to_owned() }));
        assert_eq!(
            UiEvent::parse(r#"{"type":"apply_start","hook":{"resource":"text"}}"#),
            Some(UiEvent::Other { kind: "apply_start".to_owned() })
        );
    }

    #[test]
    fn version_lines_of_both_programs_are_read() {
        let version = |version: &str| Some(UiEvent::Version { version: version.to_owned() });
        assert_eq!(UiEvent::parse(r#"{"type":"version","terraform":"1.11.4","ui":"1.2"}"#), version("1.11.4"));
        assert_eq!(UiEvent::parse(r#"{"type":"version","tofu":"1.9.0","ui":"1.2"}"#), version("1.9.0"));
    }

    #[test]
    fn counts_are_read() {
        let line =
            r#"{"type":"change_summary","changes":{"add":1,"change":2,"import":3,"remove":4,"operation":"apply"}}"#;
        let expected =
            UiEvent::ChangeSummary { operation: "apply".to_owned(), add: 1, change: 2, import: 3, remove: 4 };
        assert_eq!(UiEvent::parse(line), Some(expected));
    }
}
