//! The page without its script: tables of conflicts and of runs.

use super::aftermath::Meeting;
use super::index::sign;
use super::{Report, embed, view};
use crate::domain::id::{RunId, Serial, StateName};
use crate::domain::run::Run;
use crate::report::markdown::web;
use crate::report::phrase::Phrase;
use crate::report::style::{between, duration};
use crate::report::{cells, conflict};

/// Each state at its serial.
pub(super) fn states(report: &Report) -> String {
    let one = |(name, serial): &(StateName, Serial)| {
        format!("<li><strong>{}</strong> at serial {serial}</li>", embed::text(name.as_str()))
    };
    report.states.iter().map(one).collect()
}

/// The conflicts and what became of them.
pub(super) fn conflicts(report: &Report, meetings: &[Meeting]) -> String {
    if meetings.is_empty() {
        return "<p>No run met another one's work.</p>".to_owned();
    }
    let rows = meetings.iter().map(|meeting| {
        let run = report.runs.iter().find(|view| view.run.id == meeting.run).map(|view| &view.run);
        let by: Vec<String> = meeting.by.iter().map(|by| embed::markup(&by.told)).collect();
        let more = if meeting.more > 0 { format!(" and {} more", meeting.more) } else { String::new() };
        vec![
            embed::markup(&cells::time(meeting.at)),
            run.map(who).unwrap_or_default(),
            embed::markup(&Phrase::toned(meeting.what.tone(), meeting.what.words())),
            format!("{}{more}", by.join("; ")),
            format!("{} {}", meeting.became.tone.sign(), embed::markup(&meeting.became.phrase)),
            cells_run(meeting.run),
        ]
    });
    table("Conflicts and what became of them", &["When", "Who", "What", "Met", "What became of it", "Run"], rows)
}

/// All runs, the newest first.
pub(super) fn runs(report: &Report) -> String {
    let rows = report.runs.iter().rev().map(|view| {
        let run = &view.run;
        let ended = run.ended_at.map(|end| duration(between(run.started_at, end)));
        let result = run.result_serial.map(|serial| format!(" → {serial}")).unwrap_or_default();
        let exact = match view.exact {
            Some(true) => "✓ exactly as planned",
            Some(false) => "! not exactly as planned",
            None => "",
        };
        let status = Phrase::signed(cells::tone(run.status), sign(run.status), run.status.word().replace('_', " "));
        vec![
            cells_run(run.id),
            embed::text(view.state.as_str()),
            embed::text(run.kind.word()),
            embed::markup(&status),
            who(run),
            embed::markup(&cells::time(run.started_at)),
            ended.unwrap_or_else(|| "still going on".to_owned()),
            format!("{}{result}", run.source_serial),
            exact.to_owned(),
        ]
    });
    let head = ["Run", "State", "Kind", "Outcome", "Who", "Started", "Took", "Serial", "As planned"];
    table("Runs, the newest first", &head, rows)
}

fn cells_run(id: RunId) -> String {
    embed::markup(&cells::run(id))
}

/// The actor, and the request with its page.
fn who(run: &Run) -> String {
    let actor = embed::text(&run.actor.0);
    let Some(request) = conflict::request(&run.origin) else { return actor };
    let request = embed::text(&request);
    match view::request_url(&run.origin).as_deref().and_then(web) {
        Some(url) => format!("{actor}, <a href=\"{}\" rel=\"noreferrer\">{request}</a>", embed::text(&url)),
        None => format!("{actor}, {request}"),
    }
}

fn table(caption: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut out = format!("<table><caption>{caption}</caption><thead><tr>");
    for name in head {
        out.push_str(&format!("<th scope=\"col\">{name}</th>"));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            out.push_str(&format!("<td>{cell}</td>"));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>");
    out
}
