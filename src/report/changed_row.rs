//! A row that changed since a plan, by each version that did so: one wording for timelines, errors, comments and pages.

use super::conflict;
use super::life;
use super::phrase::Phrase;
use super::style::count;
use crate::domain::run::event::{ChangedRow, RowVersion};
use crate::domain::state::Touched;

/// What is said of a row that changed and changed back.
pub const BACK: &str = "back as it was when planned";

/// So many versions stand in a line; the rest is counted.
const SHORT: usize = 3;

/// So many names of attributes stand in a line; the rest is counted.
const NAMED: usize = 8;

/// In a line: `ADDRESS (serial 13 by ann for org/infra#17, serial 14 by ben)`.
#[must_use]
pub fn line(row: &ChangedRow) -> String {
    let known = row.known();
    let told = known.len().min(SHORT);
    let mut words: Vec<String> = known[known.len() - told..].iter().map(by).collect();
    let earlier = known.len() - told + row.earlier;
    if earlier > 0 {
        words.insert(0, count(earlier, "earlier version"));
    }
    if row.back {
        words.push(BACK.to_owned());
    }
    format!("{} ({})", row.row, words.join(", "))
}

/// `serial 13 by ann for org/infra#17`.
fn by(version: &RowVersion) -> String {
    let request = conflict::request(&version.origin).map(|request| format!(" for {request}")).unwrap_or_default();
    format!("serial {} by {}{request}", version.serial, version.actor)
}

/// What a version did: `changed`, `moved to ADDRESS`.
fn what(version: &RowVersion) -> Phrase {
    let touched = version.touched.unwrap_or(Touched::Changed);
    life::happened(version.moved_from.as_ref(), version.moved_to.as_ref(), touched)
}

/// The attributes that a version changed, with those counted that are not named.
#[must_use]
pub fn attributes(version: &RowVersion, most: usize) -> Phrase {
    let more = version.more + version.attributes.len().saturating_sub(most);
    let named = &version.attributes[..version.attributes.len().min(most)];
    let phrase = Phrase::default().names(named, most);
    if more > 0 { phrase.and(format!(" and {more} more")) } else { phrase }
}

/// Where a version moved what stood at the row, or what stands there now; none where it moved nothing.
#[must_use]
pub fn moved(version: &RowVersion) -> Option<Phrase> {
    (version.moved_from.is_some() || version.moved_to.is_some()).then(|| what(version))
}

/// A line for each version that changed a row, the oldest first, behind what the row is to a plan: `it reads`, say.
#[must_use]
pub fn facts(row: &ChangedRow, why: &str) -> Vec<Phrase> {
    let begin = || Phrase::own(format!("{why} ")).name(row.row.clone()).and(": ");
    let fact = |version: &RowVersion| {
        let line = begin().then(did(version));
        match version.run {
            Some(run) => line.and(", run ").name(run.to_string()),
            None => line,
        }
    };
    let mut facts: Vec<Phrase> = row.known().iter().map(fact).collect();
    if row.earlier > 0 {
        facts.insert(0, begin().and(format!("{} since the plan, too", count(row.earlier, "earlier version"))));
    }
    if row.back {
        facts.push(begin().and(BACK));
    }
    facts
}

/// `changed in serial 13 by ann for org/infra#17 (input, output)`.
#[must_use]
pub fn did(version: &RowVersion) -> Phrase {
    let request = conflict::request(&version.origin).map(|request| format!(" for {request}")).unwrap_or_default();
    let phrase = what(version).and(format!(" in serial {} by ", version.serial));
    let phrase = phrase.strong(version.actor.0.clone()).and(request);
    if version.attributes.is_empty() { phrase } else { phrase.and(" (").then(attributes(version, NAMED)).and(")") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{changed_row, changed_twice};

    fn bare(row: &ChangedRow) -> Vec<String> {
        facts(row, "it reads").iter().map(Phrase::bare).collect()
    }

    #[test]
    fn every_version_is_told_with_who_made_it_and_what_it_changed() {
        let row = changed_twice("aws_vpc.main");
        assert_eq!(line(&row), "aws_vpc.main (serial 41 by ann for acme/infra#17, serial 42 by bob)");
        let told = bare(&row);
        assert!(told[0].starts_with("it reads aws_vpc.main: changed in serial 41 by ann for acme/infra#17 (input, "));
        assert!(told[1].starts_with("it reads aws_vpc.main: changed in serial 42 by bob (tags), run "), "{told:?}");
        let many = ChangedRow { earlier: 4, back: true, ..row };
        assert_eq!(
            line(&many),
            "aws_vpc.main (4 earlier versions, serial 41 by ann for acme/infra#17, serial 42 by bob, \
             back as it was when planned)"
        );
        assert_eq!(bare(&many)[0], "it reads aws_vpc.main: 4 earlier versions since the plan, too");
        assert_eq!(bare(&many)[3], "it reads aws_vpc.main: back as it was when planned");
    }

    #[test]
    fn a_move_is_told_as_one() {
        let mut row = changed_twice("aws_vpc.main");
        row.versions[0].moved_from = Some("aws_vpc.old".to_owned());
        row.versions[1] = RowVersion {
            touched: Some(Touched::Removed),
            moved_to: Some("aws_vpc.new".to_owned()),
            attributes: Vec::new(),
            ..row.versions[1].clone()
        };
        let told = bare(&row);
        let first =
            "it reads aws_vpc.main: moved from aws_vpc.old in serial 41 by ann for acme/infra#17 (input, output)";
        assert!(told[0].starts_with(first), "{told:?}");
        assert!(told[1].starts_with("it reads aws_vpc.main: moved to aws_vpc.new in serial 42 by bob"), "{told:?}");
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<ChangedRow>(&text).unwrap(), row);
        assert!(text.contains(r#""moved_to":"aws_vpc.new""#) && text.matches("moved_from").count() == 1, "{text}");
    }

    #[test]
    fn what_was_told_before_versions_were_is_read_as_it_was_meant() {
        let old = r#"{"row":"aws_vpc.main","serial":42,"run":null,"actor":"bob"}"#;
        let row: ChangedRow = serde_json::from_str(old).unwrap();
        assert_eq!(row, ChangedRow { run: None, ..changed_row("aws_vpc.main") });
        assert_eq!(line(&row), "aws_vpc.main (serial 42 by bob)");
        assert_eq!(bare(&row), ["it reads aws_vpc.main: changed in serial 42 by bob"]);
        assert_eq!(serde_json::to_string(&row).unwrap(), old);
    }
}
