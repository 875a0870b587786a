//! What happened to rows, in tables: since a plan, in the life of one resource, and who changed each row last.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use super::cells;
use super::changed_row::BACK;
use super::page::Page;
use super::phrase::Phrase;
use super::story::Tone;
use super::style::{count, quoted};
use crate::domain::id::{Actor, RunId, Serial, SpecId, StateName};
use crate::domain::run::Origin;
use crate::domain::state::Touched;

/// So many names of attributes stand in a cell; the rest is counted.
const NAMED: usize = 8;

/// The version that something happened in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its serial.
    pub serial: Serial,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// The run.
    pub run: Option<RunId>,
    /// The spec.
    pub spec: Option<SpecId>,
}

/// What a changed row is to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The plan writes it.
    Write,
    /// The plan reads it.
    Read,
    /// The plan does neither.
    Outside,
}

/// A row that changed since a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is to the plan.
    pub meaning: Meaning,
    /// Which row.
    pub row: String,
    /// Whether applying this very plan, or recovering such an apply, has touched it last.
    pub own: bool,
    /// What happened to it since the plan, all in all.
    pub touched: Touched,
    /// Whether it came and went since: it was not there when the plan was made, and is not there now.
    pub passed: bool,
    /// The address at which what stands there now stood when the plan was made.
    pub moved_from: Option<String>,
    /// The address at which what stood there when the plan was made stands now.
    pub moved_to: Option<String>,
    /// Whether it is again as it was when the plan was made.
    pub back: bool,
    /// The names of the attributes that differ from what the plan saw.
    pub attributes: Vec<String>,
    /// The newest version that changed it.
    pub cause: Cause,
    /// The versions that changed it, the oldest first: the newest ones when there are many.
    pub versions: Vec<Step>,
    /// How many versions came before these.
    pub earlier: usize,
}

/// What one version did to a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What.
    pub touched: Touched,
    /// Where applying this very plan did so: `apply`, or `recover`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<&'static str>,
    /// The address that it moved the row from.
    pub moved_from: Option<String>,
    /// The address that it moved the row to.
    pub moved_to: Option<String>,
    /// The names of the attributes that it changed.
    pub attributes: Vec<String>,
    /// The version.
    pub cause: Cause,
}

/// What changed since a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SincePlan {
    /// The plan.
    pub spec: SpecId,
    /// Its state.
    pub state: StateName,
    /// The serial that it was made at.
    pub planned_at: Serial,
    /// The serial of the trunk now.
    pub now: Serial,
    /// The version that has applied it, while what it did is still so.
    pub applied: Option<Cause>,
    /// What is left of applying it, where that is not all of it.
    pub partly: Option<Partly>,
    /// What changed: what it writes, what it reads, everything else.
    pub changes: Vec<Change>,
}

/// What is left of applying a plan that was cut off or failed and was recovered, or whose rows others have changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partly {
    /// The newest version of it.
    pub cause: Cause,
    /// Whether a recovery made that one.
    pub recovered: bool,
    /// So many rows are as this plan's versions left them.
    pub rows: usize,
}

/// Which of the rows that changed since a plan are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// How many come before them.
    pub from: usize,
    /// At most so many.
    pub limit: usize,
}

impl SincePlan {
    /// How many rows come up to this one, and with it.
    #[must_use]
    pub fn behind(&self, row: &str) -> Option<usize> {
        self.changes.iter().position(|change| change.row == row).map(|place| place + 1)
    }

    /// The rows that are shown, and the last of them where there are more.
    fn told(&self, shown: Shown) -> (&[Change], Option<&str>) {
        let rest = self.changes.get(shown.from..).unwrap_or_default();
        let told = rest.get(..shown.limit).unwrap_or(rest);
        (told, told.last().filter(|_| told.len() < rest.len()).map(|last| last.row.as_str()))
    }

    /// How many changes mean this for the plan.
    #[must_use]
    pub fn number(&self, meaning: Meaning) -> usize {
        self.changes.iter().filter(|change| change.meaning == meaning).count()
    }

    /// How many rows that it writes, and that it reads, others have changed last: these stand against it.
    fn against(&self) -> [usize; 2] {
        [Meaning::Write, Meaning::Read]
            .map(|meaning| self.changes.iter().filter(|change| change.meaning == meaning && !change.own).count())
    }

    /// For people: the rows that matter most to the plan first.
    #[must_use]
    pub fn page(&self, shown: Shown) -> Page {
        let mut page = Page::default();
        let line = Phrase::own("Plan ")
            .name(self.spec.to_string())
            .and(", made at serial ")
            .strong(self.planned_at.to_string());
        page.title(line.and(format!("; {} is at serial ", self.state.as_str())).strong(self.now.to_string()));
        let [write, read, outside] = [Meaning::Write, Meaning::Read, Meaning::Outside].map(|one| self.number(one));
        let tell = |tone, text: String| super::story::Told { tone, phrase: Phrase::own(text) };
        if let Some(version) = &self.applied {
            page.point(applied(version), vec![]);
            if write + read > 0 {
                let rows = format!("{} that it writes, {read} that it reads", count(write, "row"));
                page.point(tell(Tone::Quiet, format!("Others have changed since it was made: {rows}")), vec![]);
            }
        } else if write + read == 0 {
            let text = match &self.partly {
                Some(_) => "The plan still holds: nobody else has changed anything that it reads or writes",
                None => "The plan still holds: nothing that it reads or writes has changed",
            };
            page.point(tell(Tone::Good, text.to_owned()), vec![]);
        } else if self.against() == [0, 0] {
            let rows = format!("{} that it writes, {read} that it reads", count(write, "row"));
            let text = format!("Others have changed {rows}, before this plan's own apply came upon them");
            page.point(tell(Tone::Careful, text), vec![]);
        } else {
            let [write, read] = self.against();
            let rows = format!("{} that it writes, {read} that it reads", count(write, "row"));
            page.point(
                tell(Tone::Alarm, format!("The plan no longer holds as it was reviewed: changed are {rows}")),
                vec![],
            );
        }
        if let Some(partly) = &self.partly {
            page.point(partly.told(), vec![]);
        }
        if outside > 0 {
            let rows = count(outside, "row");
            page.point(
                tell(
                    Tone::Good,
                    format!("Outside of what it reads and writes, {rows} changed; that does not matter to it"),
                ),
                vec![],
            );
        }
        if self.changes.is_empty() {
            return page;
        }
        let line = |change: &Change, step: &Step, newest: bool| {
            let meaning = match change.meaning {
                _ if step.own.is_some() => Phrase::own("its own"),
                Meaning::Write => Phrase::toned(Tone::Alarm, "it writes"),
                Meaning::Read => Phrase::toned(Tone::Alarm, "it reads"),
                Meaning::Outside => Phrase::toned(Tone::Good, "outside"),
            };
            let moved = step.moved_from.is_some() || step.moved_to.is_some();
            let what = happened(step.moved_from.as_ref(), step.moved_to.as_ref(), step.touched);
            let what = match (newest, change.passed && !moved, change.back && !change.passed) {
                (true, true, _) => Phrase::own("came and went"),
                // As what a move passed by: a beginning and an end of nothing.
                (false, true, _) if step.touched == Touched::Created => Phrase::own("came"),
                (false, true, _) if step.touched == Touched::Removed => Phrase::own("went"),
                (true, false, true) => what.and(format!(", {BACK}")),
                _ => what,
            };
            let what = match step.own {
                Some("recover") => what.and(", by a recovery of this plan's apply"),
                Some(_) => what.and(", by this plan's own apply"),
                None => what,
            };
            let mut cells = vec![meaning, Phrase::name_of(change.row.clone()), what];
            cells.push(Phrase::default().names(&step.attributes, NAMED));
            cells.extend(cause(&step.cause));
            cells
        };
        let head = ["Plan", "Row", "What", "Attributes", "Serial", "When", "Actor", "Request", "Run"];
        let (told, more) = self.told(shown);
        let mut lines = Vec::new();
        for change in told {
            let steps = change.versions.iter().rev().enumerate();
            lines.extend(steps.map(|(place, step)| line(change, step, place == 0)));
        }
        page.grid(&head, &lines);
        for change in told.iter().filter(|change| change.earlier > 0) {
            let versions = count(change.earlier, "earlier version");
            page.note(Phrase::name_of(change.row.clone()).and(format!(": {versions} since the plan, too")));
        }
        if let Some(after) = more {
            page.note(Phrase::own("More: the same with ").name(format!("--after {}", quoted(after))));
        }
        page
    }

    /// For programs.
    #[must_use]
    pub fn document(&self, shown: Shown) -> Value {
        let (told, more) = self.told(shown);
        let of = |meaning| told.iter().filter(|change| change.meaning == meaning).collect::<Vec<_>>();
        json!({
            "spec": self.spec,
            "state": self.state,
            "planned_at": self.planned_at,
            "serial": self.now,
            "applied": self.applied,
            "partly": self.partly,
            "fresh": self.number(Meaning::Write) + self.number(Meaning::Read) == 0,
            "write": of(Meaning::Write),
            "read": of(Meaning::Read),
            "outside": of(Meaning::Outside),
            "left_out": self.changes.len().saturating_sub(shown.from + told.len()),
            "next_after": more,
        })
    }
}

impl Partly {
    fn told(&self) -> super::story::Told {
        let Self { cause, recovered, rows } = self;
        let rows = format!(" ({} by now as that left them)", count(*rows, "row"));
        let serial = cause.serial.to_string();
        let (tone, phrase) = if *recovered {
            (Tone::Careful, Phrase::own("Part of it is done: recovered as serial ").strong(serial))
        } else {
            let phrase = Phrase::own("It was applied as serial ").strong(serial);
            (Tone::Careful, phrase.and(", and some of what that wrote was changed since without a plan"))
        };
        super::story::Told { tone, phrase: phrase.and(rows) }
    }
}

/// A plan that has been applied: as which version, by whom and by which run.
#[must_use]
pub fn applied(version: &Cause) -> super::story::Told {
    let phrase = Phrase::own("It has been applied already: as serial ").strong(version.serial.to_string());
    let phrase = phrase.and(" by ").strong(version.actor.0.clone());
    let phrase = match version.run {
        Some(run) => phrase.and(", run ").name(run.to_string()),
        None => phrase,
    };
    super::story::Told { tone: Tone::Good, phrase }
}

/// What happened to a row, in a cell.
pub(super) fn happened(from: Option<&String>, to: Option<&String>, touched: Touched) -> Phrase {
    match (from, to) {
        (Some(from), _) => Phrase::own("moved from ").name(from),
        (None, Some(to)) => Phrase::own("moved to ").name(to),
        (None, None) => Phrase::own(touched.word()),
    }
}

/// `Serial, When, Actor, Request, Run`.
fn cause(cause: &Cause) -> Vec<Phrase> {
    vec![
        Phrase::own(cause.serial.to_string()),
        cells::time(cause.at),
        Phrase::own(cause.actor.0.clone()),
        cells::request(&cause.origin),
        cause.run.map(cells::run).unwrap_or_default(),
    ]
}

/// Something that happened to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Which row.
    pub row: String,
    /// What happened to it.
    pub touched: Touched,
    /// What its plan did, where that says more: `imported`, `replaced`, `no longer managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<&'static str>,
    /// The address that it moved from.
    pub moved_from: Option<String>,
    /// The address that it moved to.
    pub moved_to: Option<String>,
    /// The names of the attributes that the version changed; none where it created or removed the row.
    pub attributes: Vec<String>,
    /// How the version came to be, in a word: `apply`, `import`, `http`, `move`, …
    pub source: &'static str,
    /// The version.
    pub cause: Cause,
}

/// The life of a resource for people; the filters that there are, and whether each was given.
#[must_use]
pub fn life(moments: &[Moment], more: Option<Serial>, filters: &[(&str, bool)]) -> Page {
    let mut page = Page::default();
    if moments.is_empty() {
        page.nothing(Phrase::own("Nothing is known of it."), filters);
        return page;
    }
    let row = |moment: &Moment| {
        let moved = happened(moment.moved_from.as_ref(), moment.moved_to.as_ref(), moment.touched);
        let what = match moment.planned {
            Some(planned) if moment.moved_from.is_some() || moment.moved_to.is_some() => moved.and(", ").and(planned),
            Some(planned) => Phrase::own(planned),
            None => moved,
        };
        let mut cells = cause(&moment.cause);
        cells.splice(2..2, [what, Phrase::name_of(moment.row.clone())]);
        cells.push(Phrase::own(moment.source));
        cells.push(Phrase::default().names(&moment.attributes, NAMED));
        cells
    };
    let head = ["Serial", "When", "What", "Row", "Actor", "Request", "Run", "Source", "Attributes"];
    page.grid(&head, &moments.iter().map(row).collect::<Vec<_>>());
    if let Some(serial) = more {
        page.note(Phrase::own("Older ones: the same with ").name(format!("--before {serial}")));
    }
    page
}

/// A row of the trunk and who changed it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blame {
    /// Which row.
    pub row: String,
    /// How the version came to be.
    pub source: &'static str,
    /// The version.
    pub cause: Cause,
}

/// Who changed each row last, for people; the filters that there are, and whether each was given.
#[must_use]
pub fn blame(rows: &[Blame], more: Option<&str>, filters: &[(&str, bool)]) -> Page {
    let mut page = Page::default();
    if rows.is_empty() {
        page.nothing(Phrase::own("No row."), filters);
        return page;
    }
    let row = |one: &Blame| {
        let mut cells = vec![Phrase::name_of(one.row.clone())];
        cells.extend(cause(&one.cause));
        cells.insert(5, Phrase::own(one.source));
        cells
    };
    let head = ["Row", "Serial", "When", "Actor", "Request", "Source", "Run"];
    page.grid(&head, &rows.iter().map(row).collect::<Vec<_>>());
    if let Some(after) = more {
        page.note(Phrase::own("More: the same with ").name(format!("--after {}", quoted(after))));
    }
    page
}
