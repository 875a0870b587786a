//! One page for a browser, with everything in it and no need of a network: who worked when, what met what, what was written
//! and read, and the story of every run. It can be read without its script, too.

mod aftermath;
mod embed;
mod index;
mod plain;
#[cfg(test)]
mod tests;
mod view;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::domain::coordination::reservation::Reservation;
use crate::domain::id::{Serial, StateName};
use crate::report::cells;
use crate::report::style::count;
use aftermath::meetings;
pub use view::RunView;

/// The frame of the page, its looks, and what brings it to life: one block, so that its names stay its own.
const FRAME: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    "\"use strict\";\n{\n",
    include_str!("page/words.js"),
    include_str!("page/filter.js"),
    include_str!("page/timeline.js"),
    include_str!("page/lists.js"),
    include_str!("page/story.js"),
    include_str!("page/page.js"),
    "}\n"
);

/// What a page is about.
#[derive(Debug, Clone)]
pub struct Report {
    /// The database's time when everything was read.
    pub now: DateTime<Utc>,
    /// The states, each at its serial.
    pub states: Vec<(StateName, Serial)>,
    /// The runs, in the order of their beginning.
    pub runs: Vec<RunView>,
    /// The reservations that stand.
    pub standing: Vec<Reservation>,
    /// Only runs that began since then.
    pub since: Option<DateTime<Utc>>,
    /// Whether there are older runs that were asked for and had no room.
    pub cut: bool,
}

impl Report {
    /// What the page covers, in a sentence.
    fn scope(&self) -> String {
        let runs = count(self.runs.len(), "run");
        let newest = if self.cut { format!("The newest {runs}; older ones were left out (--limit)") } else { runs };
        let since = self.since.map(|since| format!(", begun since {}", cells::time(since).bare())).unwrap_or_default();
        format!("{newest}{since}. Written at {} by kl {}.", cells::time(self.now).bare(), env!("CARGO_PKG_VERSION"))
    }
}

/// The page. The same facts give the same bytes.
#[must_use]
pub fn page(report: &Report) -> String {
    let meetings = meetings(&report.runs, &report.standing, report.now);
    let title = match report.states.as_slice() {
        [(name, _)] => format!("Runs on {}", name.as_str()),
        states => format!("Runs on {}", count(states.len(), "state")),
    };
    let stories: Vec<String> = report.runs.iter().map(|view| embed::json(&view.story)).collect();
    let mut out = String::new();
    let mut rest = FRAME;
    // Only the frame has slots: what is put into one is never searched for another.
    while let Some((before, (slot, after))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        out.push_str(before);
        match slot {
            "policy" => out.push_str(&policy()),
            "title" => out.push_str(&embed::text(&title)),
            "scope" => out.push_str(&embed::text(&report.scope())),
            "style" => out.push_str(STYLE),
            "script" => out.push_str(SCRIPT),
            "states" => out.push_str(&plain::states(report)),
            "conflicts" => out.push_str(&plain::conflicts(report, &meetings)),
            "runs" => out.push_str(&plain::runs(report)),
            "index" => out.push_str(&embed::json(&index::index(report, &meetings))),
            "stories" => out.push_str(&stories.join("\n")),
            _ => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What the browser may do with the page: apply its own style, run its own script, and nothing else.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}
