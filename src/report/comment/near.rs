//! Who else is near: reservations, other open requests, what changed since the plan, and who was here before.

use std::collections::HashMap;

use super::place::{self, Place};
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::compact::compact;
use crate::domain::coordination::forecast::{ForecastRelation, Meeting};
use crate::domain::coordination::reservation::{AccessMode, Blocker, Claim, HeldAs, Reservation};
use crate::domain::coordination::staleness::Staleness;
use crate::domain::plan::spec::Via;
use crate::domain::run::event::{ChangedRow, RowVersion};
use crate::report::budget::{Node, Rank};
use crate::report::changed_row::{self, BACK};
use crate::report::markdown::{Block, Inline, Table};
use crate::report::style::count;
use crate::report::view::{ForecastView, HistoryLine, PlannedView};
use crate::report::{conflict, forecast, plan};

/// So many rows of a table about others.
const MOST: usize = 20;
/// So many patterns are named in a cell; the rest is counted.
const NAMED: usize = 4;

fn paragraph(rank: Rank, unit: &'static str, line: &Inline) -> Node {
    Node::block(rank, unit, Block::paragraph(line))
}

/// Some patterns in a cell, and how many more.
fn named(patterns: &[Pattern]) -> Inline {
    let shown = patterns.iter().take(NAMED).map(|pattern| Inline::code(&pattern.to_string()));
    let more = patterns.len().saturating_sub(NAMED);
    Inline::join(shown.chain((more > 0).then(|| Inline::text(&format!("{more} more")))), ", ")
}

/// Compacted for display, when it is known what else there is.
fn shown(patterns: &[Pattern], known: Option<&Vec<Address>>) -> Vec<Pattern> {
    known.map_or_else(|| patterns.to_vec(), |known| compact(patterns, known))
}

/// The table of a conflict: who holds what, since when, until when, what of ours met it.
#[must_use]
pub fn blockers(blockers: &[Blocker], place: &Place, rank: Rank) -> Node {
    let mut table = Table::new(&["What", "Who", "How long", "Meets our"]);
    for blocker in blockers {
        let told = conflict::told(blocker);
        let reservation = &blocker.reservation;
        let request = place.origin(&reservation.origin).map(|request| Inline::own(" for ").and(&request));
        let met = told
            .met
            .iter()
            .map(|(pattern, mode)| Inline::code(pattern).own_and(" (").and(&Inline::text(mode)).own_and(")"));
        let more = (told.more > 0).then(|| Inline::text(&format!("{} more", told.more)));
        let since = reservation.acquired_at.unwrap_or(reservation.asked_at);
        table.row([
            Inline::code(&told.pattern).own_and(" (").and(&Inline::text(told.mode)).own_and(")"),
            Inline::own(told.verb)
                .own_and(" ")
                .and(&Inline::text(&told.holder).bold())
                .and(&request.unwrap_or_default())
                .own_and(", run ")
                .and(&place::run(reservation.run)),
            Inline::text(&told.since)
                .own_and(", since ")
                .and(&place::time(since))
                .own_and("; ")
                .and(&Inline::text(&told.until)),
            Inline::join(met.chain(more), ", "),
        ]);
    }
    Node::rows(rank, "reservation", table, MOST)
}

/// What would block an apply right now.
#[must_use]
pub fn in_the_way(planned: &PlannedView, place: &Place) -> Option<Node> {
    (!planned.in_the_way.is_empty()).then(|| {
        let line = Inline::own("**In the way right now.** An apply that started now would find this reserved:");
        let mut nodes = vec![paragraph(Rank::Vital, "note", &line), blockers(&planned.in_the_way, place, Rank::Vital)];
        let hints: Vec<Inline> = conflict::hints(&planned.in_the_way).iter().map(|hint| Inline::hint(hint)).collect();
        nodes.push(Node::block(Rank::Vital, "hint", Block::list(&hints)));
        Node::all(nodes)
    })
}

/// Other open requests: those that meet this one in a table, the others in one calm line.
#[must_use]
pub fn others(planned: &PlannedView, place: &Place) -> Node {
    let (calm, meets): (Vec<&ForecastView>, Vec<&ForecastView>) =
        planned.forecast.iter().partition(|other| other.relation == ForecastRelation::Independent);
    let mut nodes = Vec::new();
    if !meets.is_empty() {
        let mut meets = meets;
        meets.sort_by_key(|other| std::cmp::Reverse(other.relation));
        nodes.push(paragraph(Rank::Near, "note", &Inline::own("**Other open requests that meet this one**")));
        let mut table = Table::new(&["", "Request", "By", "What it means", "Where"]);
        for other in meets {
            let title = if other.title.trim().is_empty() {
                Inline::default()
            } else {
                Inline::own(" ").and(&Inline::text(&short(&other.title)))
            };
            let words = Inline::own(forecast::title(other.relation)).bold();
            table.row([
                Inline::own(forecast::sign(other.relation)),
                place.request(&other.request, true).bold().and(&title),
                Inline::text(&other.actor.0),
                words.own_and(": ").own_and(forecast::advice(other.relation)),
                named(&meeting(&other.meetings, planned.known.as_ref())),
            ]);
        }
        nodes.push(Node::rows(Rank::Near, "other request", table, MOST));
    }
    let line = match calm.len() {
        0 if nodes.is_empty() => Inline::own("✓ No other open request has a plan on this state."),
        0 => return Node::all(nodes),
        number => {
            let names = calm
                .iter()
                .take(MOST)
                .map(|other| place.request(&other.request, false).own_and(" by ").and(&Inline::text(&other.actor.0)));
            let more = number.saturating_sub(MOST);
            let more = (more > 0).then(|| Inline::text(&format!("{more} more")));
            Inline::own("✓ Independent of ")
                .and(&Inline::text(&count(number, "other open request")))
                .own_and(", ")
                .own_and(forecast::advice(ForecastRelation::Independent))
                .own_and(": ")
                .and(&Inline::join(names.chain(more), ", "))
                .own_and(".")
        }
    };
    nodes.push(paragraph(Rank::Near, "note", &line));
    Node::all(nodes)
}

/// Where two requests meet, in our words for it: the worst kind of meeting alone.
pub(in crate::report) fn meeting(meetings: &[Meeting], known: Option<&Vec<Address>>) -> Vec<Pattern> {
    let worst = meetings.iter().map(|meeting| meeting.relation).max();
    let narrower = |meeting: &Meeting| {
        // What both mean is the narrower of the two.
        if meeting.theirs.covers(&meeting.ours) { meeting.ours.clone() } else { meeting.theirs.clone() }
    };
    let mut patterns: Vec<Pattern> =
        meetings.iter().filter(|meeting| Some(meeting.relation) == worst).map(narrower).collect();
    patterns.sort();
    patterns.dedup();
    shown(&patterns, known)
}

fn short(title: &str) -> String {
    let short: String = title.chars().take(80).collect();
    if short.len() < title.len() { format!("{short}…") } else { short }
}

/// What changed in the state since the plan: loud where it makes the plan stale.
#[must_use]
pub fn since(since: &Staleness) -> Option<Node> {
    if since.fresh() {
        return None;
    }
    let line = Inline::own(
        "**Changed since the plan.** The plan used these rows as they were; run the plan job again before merging:",
    );
    let mut table = Table::new(&["Row", "This plan", "In serial", "By", "Attributes"]);
    let kinds = [(&since.write, "writes it"), (&since.read, "reads it")];
    for (row, kind) in kinds.into_iter().flat_map(|(rows, kind)| rows.iter().map(move |row| (row, kind))) {
        for line in changed(row, kind) {
            table.row(line);
        }
    }
    Some(Node::all(vec![paragraph(Rank::Vital, "note", &line), Node::rows(Rank::Vital, "changed row", table, MOST)]))
}

/// A line for each version that changed a row.
fn changed(row: &ChangedRow, kind: &'static str) -> Vec<[Inline; 5]> {
    let known = row.known();
    let line = |(place, version): (usize, &RowVersion)| {
        let request =
            conflict::request(&version.origin).map(|request| Inline::own(" for ").and(&Inline::text(&request)));
        let run = version.run.map(|run| Inline::own(" (run ").and(&place::run(run)).own_and(")")).unwrap_or_default();
        let back =
            if row.back && place + 1 == known.len() { Inline::own("; ").own_and(BACK) } else { Inline::default() };
        [
            Inline::code(&row.row),
            Inline::own(kind).and(&back),
            Inline::text(&version.serial.to_string()),
            Inline::text(&version.actor.0).and(&request.unwrap_or_default()).and(&run),
            match changed_row::moved(version) {
                Some(moved) if version.attributes.is_empty() => moved.markdown(),
                Some(moved) => moved.and(": ").then(changed_row::attributes(version, NAMED)).markdown(),
                None => changed_row::attributes(version, NAMED).markdown(),
            },
        ]
    };
    known.iter().enumerate().map(line).collect()
}

/// What a run of this plan reserves, and what is reserved now.
#[must_use]
pub fn reservations(planned: &PlannedView, place: &Place) -> Node {
    let spec = &planned.spec;
    let claims = spec.claims();
    let of = |mode: AccessMode| -> Vec<Pattern> {
        let patterns: Vec<Pattern> =
            claims.iter().filter(|claim| claim.mode == mode).map(|claim: &Claim| claim.pattern.clone()).collect();
        shown(&patterns, planned.known.as_ref())
    };
    let (writes, reads) = (of(AccessMode::Write), of(AccessMode::Read));
    let mut written = Table::new(&["To write: while it is applied, nobody else reads or writes these"]);
    for pattern in &writes {
        written.row([Inline::code(&pattern.to_string())]);
    }
    let of_data = spec.data.iter().filter_map(|entry| Some((&entry.pattern, entry.via.as_ref()?)));
    let via: HashMap<&Pattern, &Via> =
        of_data.chain(spec.read.iter().map(|entry| (&entry.pattern, &entry.via))).collect();
    let mut read = Table::new(&["To read: others may read them, too", "Because it is used by"]);
    for pattern in &reads {
        let because = via.get(pattern).map(|via| Inline::code(&plan::via_words(via)));
        read.row([Inline::code(&pattern.to_string()), because.unwrap_or_else(|| Inline::own("what changes"))]);
    }
    let title = format!("Reservations: {} to write, {} to read", writes.len(), reads.len());
    let mut nodes = Vec::new();
    for table in [written, read] {
        nodes.push(Node::rows(Rank::Background, "reservation", table, 200));
    }
    if !planned.beside.is_empty() {
        nodes.push(paragraph(Rank::Background, "note", &Inline::own("Reserved by others now, and not in the way:")));
        nodes.push(beside(&planned.beside, place));
    }
    let outside = &planned.since.outside;
    if !outside.is_empty() {
        let rows: Vec<Inline> = outside
            .iter()
            .take(NAMED)
            .map(|row| {
                Inline::code(&row.row).own_and(" (serial ").and(&Inline::text(&row.serial.to_string())).own_and(")")
            })
            .collect();
        let more = outside.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| Inline::text(&format!("{more} more")));
        let line = Inline::own("✓ Changed since the plan, outside of what it reads and writes: ")
            .and(&Inline::join(rows.into_iter().chain(more), ", "));
        nodes.push(paragraph(Rank::Background, "note", &line));
    }
    Node::details(title, nodes)
}

fn beside(all: &[Reservation], place: &Place) -> Node {
    let mut table = Table::new(&["Reserved", "By", "Request and run", "Since"]);
    for reservation in all {
        let request = place.origin(&reservation.origin).map(|request| request.own_and(", ")).unwrap_or_default();
        let kind = match reservation.held_as {
            HeldAs::Run => "",
            HeldAs::Quarantine => " (quarantine)",
            HeldAs::Lock => " (lock)",
        };
        let mode = Inline::own(" (").and(&Inline::text(reservation.claim.mode.word())).own_and(")").own_and(kind);
        table.row([
            Inline::code(&reservation.claim.pattern.to_string()).and(&mode),
            Inline::text(&reservation.holder.0),
            request.and(&place::run(reservation.run)),
            place::time(reservation.acquired_at.unwrap_or(reservation.asked_at)),
        ]);
    }
    Node::rows(Rank::Background, "reservation of others", table, MOST)
}

/// The newest versions that touched the footprint.
#[must_use]
pub fn history(lines: &[HistoryLine], place: &Place) -> Option<Node> {
    if lines.is_empty() {
        return None;
    }
    let mut table = Table::new(&["Serial", "When", "Who", "What", "Rows of this plan"]);
    for line in lines {
        let request = line.request.as_ref().map(|request| Inline::own(" of ").and(&place.request(request, true)));
        let rows = line.rows.iter().take(NAMED).map(|row| Inline::code(row));
        let more = line.rows.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| Inline::text(&format!("{more} more")));
        table.row([
            Inline::text(&line.serial.to_string()),
            place::time(line.at),
            Inline::text(&line.actor.0),
            Inline::own(line.source).and(&request.unwrap_or_default()),
            Inline::join(rows.chain(more), ", "),
        ]);
    }
    let nodes = vec![Node::rows(Rank::Background, "version", table, MOST)];
    Some(Node::details("History of what this plan touches", nodes))
}
