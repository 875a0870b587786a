//! Runs that came while a run held something, and what became of them: the other half of who was beside whom.

use serde::Serialize;

use super::facts::other;
use super::{Point, RunFacts, Topic, point};
use crate::domain::coordination::reservation::Relation;
use crate::domain::id::RunId;
use crate::report::phrase::Phrase;
use crate::report::story::Tone;
use crate::report::style::count;

/// A run that came while another one held something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Later {
    /// Which run.
    pub run: RunId,
    /// What it met, by its own record.
    #[serde(flatten)]
    pub met: Met,
}

/// What a run met that came later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "met", rename_all = "snake_case")]
pub enum Met {
    /// It got its reservations beside the run.
    Beside {
        /// Why the two could go together.
        relation: Relation,
    },
    /// It waited behind the run.
    Behind,
    /// It was refused because of the run.
    Refused {
        /// What of the run stood in its way.
        patterns: Vec<String>,
    },
    /// It took over the run's ended lease.
    Took,
}

/// So many patterns stand in one line; the rest is counted.
const NAMED: usize = 5;

/// Why two runs could go together.
pub(super) fn why(relation: Relation) -> &'static str {
    match relation {
        Relation::Disjoint => ": disjoint, no row is touched by both",
        Relation::SharedReads => ": compatible, both only read what they share",
    }
}

/// A sentence for each kind of meeting.
pub(super) fn points(story: &RunFacts) -> Vec<Point> {
    let mut told: Vec<(Tone, &str, Vec<Phrase>)> = vec![
        (Tone::Good, "Came later and went beside it", Vec::new()),
        (Tone::Waits, "Came later and waited behind it", Vec::new()),
        (Tone::Careful, "Came later and was refused because of it", Vec::new()),
        (Tone::Alarm, "Took over its ended lease", Vec::new()),
    ];
    for later in &story.later {
        let line = other(story, later.run, None);
        let (place, line) = match &later.met {
            Met::Beside { relation } => (0, line.and(why(*relation))),
            Met::Behind => (1, line),
            Met::Refused { patterns } => (2, line.and("; in its way was ").names(patterns, NAMED)),
            Met::Took => (3, line),
        };
        if let Some((.., facts)) = told.get_mut(place) {
            facts.push(line);
        }
    }
    let told = told.into_iter().filter(|(.., facts)| !facts.is_empty());
    let cut = story.later_cut.then(|| {
        let text = "So many runs came later that only the newest of them were looked at: `kl runs` lists them all";
        point(Topic::Others, Tone::Quiet, Phrase::own(text), Vec::new())
    });
    let points = told.map(|(tone, text, facts)| {
        let phrase = Phrase::own(format!("{text}: {}", count(facts.len(), "run")));
        point(Topic::Others, tone, phrase, facts)
    });
    points.chain(cut).collect()
}

/// The runs that took over its ended lease, as a fact.
pub(in crate::report) fn taken_by(story: &RunFacts) -> Phrase {
    let took = story.later.iter().find(|later| later.met == Met::Took);
    took.map(|later| other(story, later.run, None)).unwrap_or_default()
}
