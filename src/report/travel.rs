//! Two serials side by side: which rows were created, changed, moved and removed, and which attributes differ.

use serde_json::{Value, json};

use super::page::Page;
use super::phrase::Phrase;
use super::story::{Told, Tone};
use super::style::count;
use crate::domain::id::{Serial, StateName};
use crate::domain::redact::credentials::masked_value;
use crate::domain::state::Touched;
use crate::domain::state::comparison::{AttributeDifference, Difference};

/// So many attributes are named for one row; the rest is counted.
const NAMED: usize = 8;

/// A longer value is cut.
const VALUE: usize = 120;

/// What rows that are taken back, removed or moved have to be told with.
pub const REAL_OBJECTS: &str = "Real objects are not touched by this: only what the state says of them changes";

/// Two serials of a state and what differs.
#[derive(Debug, Clone, Copy)]
pub struct Diff<'a> {
    /// The state.
    pub state: &'a StateName,
    /// The serial that is compared.
    pub from: Serial,
    /// With which other.
    pub to: Serial,
    /// What differs.
    pub differences: &'a [Difference],
    /// Whether values are shown, masked where they are sensitive.
    pub values: bool,
}

/// One word for what happened to a row.
fn word(difference: &Difference) -> &'static str {
    if difference.moved_from.is_some() { "moved" } else { difference.touched.word() }
}

impl Diff<'_> {
    /// For people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let title = Phrase::own("State ").strong(self.state.as_str()).and(": from serial ");
        page.title(title.strong(self.from.to_string()).and(" to serial ").strong(self.to.to_string()));
        if self.differences.is_empty() {
            page.point(Told { tone: Tone::Good, phrase: Phrase::own("No row differs") }, Vec::new());
            return page;
        }
        let numbers = ["created", "changed", "moved", "removed"]
            .map(|what| (what, self.differences.iter().filter(|difference| word(difference) == what).count()));
        let numbers: Vec<String> =
            numbers.iter().filter(|(_, number)| *number > 0).map(|(what, number)| format!("{number} {what}")).collect();
        let phrase = Phrase::own(format!("{}: {}", count(self.differences.len(), "row"), numbers.join(", ")));
        page.point(Told { tone: Tone::Quiet, phrase }, Vec::new());
        let row = |difference: &Difference| {
            let sign = if difference.moved_from.is_some() { ">" } else { difference.touched.sign() };
            let tone = if difference.touched == Touched::Removed { Tone::Alarm } else { Tone::Step };
            let from = difference.moved_from.as_ref().map(|from| Phrase::name_of(from.to_string())).unwrap_or_default();
            let paths: Vec<String> = difference.attributes.iter().map(|one| one.path.clone()).collect();
            vec![
                Phrase::signed(tone, sign, word(difference)),
                Phrase::name_of(difference.key.to_string()),
                from,
                Phrase::default().names(&paths, NAMED),
            ]
        };
        let rows: Vec<Vec<Phrase>> = self.differences.iter().map(row).collect();
        page.grid(&["What", "Row", "From", "Attributes"], &rows);
        if self.values {
            page.grid(&["Row", "Attribute", "Before", "After"], &self.value_rows());
        }
        page
    }

    fn value_rows(&self) -> Vec<Vec<Phrase>> {
        let short = |path: &str, text: &Option<String>| {
            let Some(text) = text else { return Phrase::own("(none)") };
            let shown = masked_value(path, text);
            let cut: String = shown.chars().take(VALUE).collect();
            let more = if cut.len() < shown.len() { "…" } else { "" };
            Phrase::name_of(format!("{cut}{more}"))
        };
        let cells = |difference: &Difference| {
            let key = difference.key.to_string();
            let values = difference.attributes.iter().filter(|one| one.before.is_some() || one.after.is_some());
            let row = |one: &AttributeDifference| {
                vec![
                    Phrase::name_of(key.clone()),
                    Phrase::name_of(one.path.clone()),
                    short(&one.path, &one.before),
                    short(&one.path, &one.after),
                ]
            };
            values.map(row).collect::<Vec<_>>()
        };
        self.differences.iter().flat_map(cells).collect()
    }

    /// For programs.
    #[must_use]
    pub fn document(&self) -> Value {
        json!({ "state": self.state, "from": self.from, "to": self.to, "rows": self.rows() })
    }

    /// The rows for programs.
    #[must_use]
    pub fn rows(&self) -> Vec<Value> {
        let attribute = |one: &AttributeDifference| {
            let text = |text: &Option<String>| text.as_deref().map(|text| masked_value(&one.path, text));
            if self.values {
                json!({ "path": one.path, "before": text(&one.before), "after": text(&one.after) })
            } else {
                json!({ "path": one.path })
            }
        };
        let row = |difference: &Difference| {
            json!({
                "row": difference.key.to_string(),
                "kind": difference.key.kind(),
                "what": word(difference),
                "moved_from": difference.moved_from.as_ref().map(ToString::to_string),
                "attributes": difference.attributes.iter().map(attribute).collect::<Vec<_>>(),
            })
        };
        self.differences.iter().map(row).collect()
    }
}
