//! A plan spec in words: counts, cautions and reasons for every reader, and the summary for a terminal.

use std::collections::BTreeMap;

use super::phrase::Phrase;
use super::style::{bold, count, dim, good, loud, plain, warn};
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::{EdgeSource, PlanMode, PlanSpec, Via, WriteEntry};

/// So many reads are written out; the rest is counted.
const MAX_READS: usize = 20;

/// So many addresses are named in a caution; the rest is counted.
const MAX_NAMED: usize = 5;

/// What a plan without changes says.
pub const NO_CHANGES: &str = "No changes: the state matches the configuration.";

/// Counts of a plan, by what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects that are created; a replacement counts here and in `destroy`, as Terraform counts it.
    pub create: usize,
    /// Objects that change in place.
    pub update: usize,
    /// Objects that are destroyed.
    pub destroy: usize,
    /// Objects that move to another address.
    pub moved: usize,
    /// Objects that are imported.
    pub import: usize,
    /// Objects that are no longer managed.
    pub forget: usize,
    /// Root outputs that change.
    pub outputs: usize,
}

impl Counts {
    /// Counts a spec.
    #[must_use]
    pub fn of(spec: &PlanSpec) -> Self {
        let mut counts = Self { outputs: spec.outputs.len(), ..Self::default() };
        for entry in &spec.write {
            for word in entry.actions.vector() {
                match *word {
                    "create" => counts.create += 1,
                    "update" => counts.update += 1,
                    "delete" => counts.destroy += 1,
                    "forget" => counts.forget += 1,
                    _ => {}
                }
            }
            counts.moved += usize::from(entry.moved_from.is_some());
            counts.import += usize::from(entry.import_id.is_some());
        }
        counts
    }

    /// `2 to create, 1 to change`, or `no changes`.
    #[must_use]
    pub fn sentence(self) -> String {
        let words = self.words("to import", "to create", "to change", "to destroy");
        if words.is_empty() { "no changes".to_owned() } else { words }
    }

    /// The same once it is done: `2 created, 1 changed`; empty for nothing.
    #[must_use]
    pub fn done(self) -> String {
        self.words("imported", "created", "changed", "destroyed")
    }

    fn words(self, import: &str, create: &str, update: &str, destroy: &str) -> String {
        let counted = [
            (self.import, import),
            (self.create, create),
            (self.update, update),
            (self.destroy, destroy),
            (self.moved, "moved"),
            (self.forget, "no longer managed"),
        ];
        let parts = counted.into_iter().filter(|(number, _)| *number > 0);
        let parts = parts.map(|(number, word)| format!("{number} {word}"));
        parts.chain((self.outputs > 0).then(|| count(self.outputs, "output"))).collect::<Vec<_>>().join(", ")
    }

    /// Two plans together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            create: self.create + other.create,
            update: self.update + other.update,
            destroy: self.destroy + other.destroy,
            moved: self.moved + other.moved,
            import: self.import + other.import,
            forget: self.forget + other.forget,
            outputs: self.outputs + other.outputs,
        }
    }
}

/// What a reader has to know before anything else.
#[must_use]
pub fn cautions(spec: &PlanSpec) -> Vec<Phrase> {
    let mut cautions = Vec::new();
    if spec.scope.mode == PlanMode::Destroy {
        cautions.push(Phrase::default().strong("Destroy plan").and(": everything in its scope goes away."));
    }
    if !spec.scope.targets.is_empty() {
        cautions.push(Phrase::default().strong("Limited to targets").and(": ").names(&spec.scope.targets, MAX_NAMED));
    }
    let mut told = |is: fn(Action) -> bool, words: fn(usize) -> String| {
        let found: Vec<String> =
            spec.write.iter().filter(|entry| is(entry.actions)).map(|entry| entry.address.to_string()).collect();
        if !found.is_empty() {
            cautions.push(Phrase::default().strong(words(found.len())).and(": ").names(&found, MAX_NAMED));
        }
    };
    told(|action| action == Action::Delete, |number| format!("Destroys {}", count(number, "object")));
    told(Action::replaces, |number| format!("Replaces {}", count(number, "object")));
    told(
        |action| action == Action::Forget,
        |number| match number {
            1 => "No longer manages 1 object, which stays as it is".to_owned(),
            _ => format!("No longer manages {number} objects, which stay as they are"),
        },
    );
    cautions
}

fn coloured(entry: &WriteEntry) -> String {
    let sign = entry.actions.sign();
    match entry.actions {
        Action::Create => good(sign),
        Action::Update => warn(sign),
        Action::NoOp | Action::Read => sign.to_owned(),
        _ => loud(sign),
    }
}

/// The summary.
#[must_use]
pub fn summary(spec: &PlanSpec) -> String {
    let mut out = String::new();
    out.push_str(&format!(
        "{} {} at serial {}\n",
        bold("State"),
        bold(plain(spec.state.name.as_str())),
        spec.state.serial
    ));
    for caution in cautions(spec) {
        out.push_str(&format!("{} {}\n", warn("!"), caution.terminal()));
    }
    if !spec.has_changes() {
        out.push_str(&format!("\n{}\n", good(NO_CHANGES)));
        return out;
    }
    out.push_str(&format!("\n{}\n", bold("Writes")));
    for entry in &spec.write {
        out.push_str(&write_line(entry));
    }
    for output in &spec.outputs {
        out.push_str(&format!("  {} output.{}\n", output.actions.sign(), plain(&output.name)));
    }
    if !spec.read.is_empty() || !spec.data.is_empty() {
        out.push_str(&format!("\n{}\n", bold("Reads")));
        let reads = spec.read.iter().map(|entry| (&entry.pattern, Some(&entry.via), ""));
        let data = spec.data.iter().map(|entry| {
            (&entry.pattern, entry.via.as_ref(), if entry.deferred { " (read while applying)" } else { "" })
        });
        for (pattern, via, note) in reads.chain(data).take(MAX_READS) {
            let via = via.map(|via| dim(plain(&format!("  ← {}", via_words(via)))));
            out.push_str(&format!("  {}{note}{}\n", plain(&pattern.to_string()), via.unwrap_or_default()));
        }
        let all = spec.read.len() + spec.data.len();
        if all > MAX_READS {
            out.push_str(&dim(format!("  … and {} more (kl-plan.json has them all)\n", all - MAX_READS)));
        }
    }
    out.push_str(&format!("\n{} {}.\n", bold("Plan:"), Counts::of(spec).sentence()));
    if let Some(reason) = spec.lane.footprint_because.first() {
        out.push_str(&dim(format!(
            "The apply will plan on everything that the configuration describes: {}.\n",
            plain(reason)
        )));
    }
    out
}

fn write_line(entry: &WriteEntry) -> String {
    let mut line = format!("  {} {}", coloured(entry), plain(&entry.address.to_string()));
    if let Some(deposed) = &entry.deposed {
        line.push_str(&format!(" (deposed {})", plain(deposed)));
    }
    if let Some(from) = &entry.moved_from {
        line.push_str(&format!(" (moved from {})", plain(&from.to_string())));
    }
    if let Some(id) = &entry.import_id {
        let id = if id.is_empty() { "an id known later".to_owned() } else { plain(id) };
        line.push_str(&format!(" (imported: {id})"));
    }
    match entry.actions {
        Action::Forget => line.push_str(&loud(" no longer managed; the object stays")),
        Action::Update | Action::DeleteCreate | Action::CreateDelete if !entry.print.changed.is_empty() => {
            line.push_str(&dim(format!("  {}", plain(&entry.print.changed.join(", ")))));
        }
        _ => {}
    }
    if let Some(reason) = &entry.reason {
        line.push_str(&dim(format!("  ({})", reason_words(reason))));
    }
    line.push('\n');
    line
}

/// Over which edge a read was reached.
#[must_use]
pub fn via_words(via: &Via) -> String {
    let source = match via.source {
        EdgeSource::Configuration => "",
        EdgeSource::Plan => ", seen in the plan",
        EdgeSource::Graph => ", seen in terraform graph",
        EdgeSource::State => ", recorded in the state",
        EdgeSource::Connected => ", connected",
    };
    let through =
        if via.through.is_empty() { String::new() } else { format!(" through {}", via.through.join(" → ")) };
    format!("{}{through}{source}", via.from)
}

/// Terraform's reason in words; one that kl does not know is shown as it is.
pub(super) fn reason_words(reason: &str) -> String {
    let known: BTreeMap<&str, &str> = BTreeMap::from([
        ("replace_because_tainted", "tainted"),
        ("replace_because_cannot_update", "cannot be updated in place"),
        ("replace_by_request", "replacement requested"),
        ("replace_by_triggers", "triggered by another resource"),
        ("delete_because_no_resource_config", "no longer in the configuration"),
        ("delete_because_no_module", "its module is no longer in the configuration"),
        ("delete_because_count_index", "beyond the count"),
        ("delete_because_each_key", "its key is gone from for_each"),
    ]);
    known.get(reason).map_or_else(|| plain(reason), |words| (*words).to_owned())
}
