//! A page of facts: titles, sentences with what stands behind them, and tables, written once for the terminal and for
//! Markdown.

use super::markdown::{Block, Inline, Table};
use super::phrase::Phrase;
use super::story::Told;
use super::style::{bold, dim};
use super::table::columns;

/// What a command has found, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Title(Phrase),
    Point(Told, Vec<Phrase>),
    Note(Phrase),
    Items(Vec<Phrase>),
    Facts(Vec<(&'static str, Phrase)>),
    Grid(Vec<&'static str>, Vec<Vec<Phrase>>),
}

impl Page {
    /// Goes on with a title.
    pub fn title(&mut self, title: Phrase) {
        self.0.push(Piece::Title(title));
    }

    /// Goes on with a sentence, and the facts behind it.
    pub fn point(&mut self, told: Told, facts: Vec<Phrase>) {
        self.0.push(Piece::Point(told, facts));
    }

    /// Goes on with something in the background, as where there is more.
    pub fn note(&mut self, note: Phrase) {
        self.0.push(Piece::Note(note));
    }

    /// Says that there is nothing, or, where some of these filters were given, that they leave nothing.
    pub fn nothing(&mut self, none: Phrase, filters: &[(&str, bool)]) {
        let given = filters.iter().filter(|(_, given)| *given);
        let given: Vec<String> = given.map(|(filter, _)| (*filter).to_owned()).collect();
        self.note(if given.is_empty() { none } else { Phrase::own("Nothing is left by ").names(&given, given.len()) });
    }

    /// Goes on with a list.
    pub fn items(&mut self, items: Vec<Phrase>) {
        if !items.is_empty() {
            self.0.push(Piece::Items(items));
        }
    }

    /// Goes on with facts under their names. What is empty is left out.
    pub fn facts(&mut self, facts: Vec<(&'static str, Phrase)>) {
        let facts: Vec<_> = facts.into_iter().filter(|(_, fact)| !fact.is_empty()).collect();
        if !facts.is_empty() {
            self.0.push(Piece::Facts(facts));
        }
    }

    /// Goes on with a table. Columns in which no row has anything are left out.
    pub fn grid(&mut self, head: &[&'static str], rows: &[Vec<Phrase>]) {
        let used = |column: &usize| rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<usize> = (0..head.len()).filter(used).collect();
        let pick = |row: &Vec<Phrase>| {
            kept.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        let head = kept.iter().filter_map(|column| head.get(*column).copied()).collect();
        self.0.push(Piece::Grid(head, rows.iter().map(pick).collect()));
    }

    /// For a terminal.
    #[must_use]
    pub fn terminal(&self) -> String {
        let mut text = String::new();
        for (position, piece) in self.0.iter().enumerate() {
            match piece {
                Piece::Title(title) => {
                    let gap = if position > 0 { "\n" } else { "" };
                    text.push_str(&format!("{gap}{}\n", bold(title.terminal())));
                }
                Piece::Point(told, facts) => {
                    text.push_str(&format!("  {}\n", told.terminal()));
                    for fact in facts {
                        text.push_str(&format!("      {}\n", fact.terminal()));
                    }
                }
                Piece::Note(note) => text.push_str(&format!("{}\n", dim(note.terminal()))),
                Piece::Items(items) => {
                    for item in items {
                        text.push_str(&format!("  {}\n", item.terminal()));
                    }
                }
                Piece::Facts(facts) => {
                    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
                    for (name, fact) in facts {
                        text.push_str(&format!("  {name:<width$}  {}\n", fact.terminal()));
                    }
                }
                Piece::Grid(head, rows) => {
                    let head: Vec<String> = head.iter().map(|cell| cell.to_uppercase()).collect();
                    let head: Vec<&str> = head.iter().map(String::as_str).collect();
                    let cells = |row: &Vec<Phrase>| row.iter().map(Phrase::terminal).collect();
                    text.push_str(&columns(&head, &rows.iter().map(cells).collect::<Vec<_>>()));
                }
            }
        }
        text
    }

    /// For Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut blocks = Vec::new();
        let mut points: Vec<(Inline, Vec<Inline>)> = Vec::new();
        for piece in &self.0 {
            if let Piece::Point(told, facts) = piece {
                points.push((sentence(told), facts.iter().map(Phrase::markdown).collect()));
                continue;
            }
            blocks.extend(outline(&mut points));
            blocks.push(match piece {
                Piece::Title(title) => Block::heading(3, &title.markdown()),
                Piece::Note(note) => Block::paragraph(&note.markdown()),
                Piece::Items(items) => Block::list(&items.iter().map(Phrase::markdown).collect::<Vec<_>>()),
                Piece::Facts(facts) => {
                    let line = |(name, fact): &(&'static str, Phrase)| {
                        Inline::own(name).bold().own_and(": ").and(&fact.markdown())
                    };
                    Block::list(&facts.iter().map(line).collect::<Vec<_>>())
                }
                Piece::Grid(head, rows) => {
                    let mut table = Table::new(head);
                    for row in rows {
                        table.row(row.iter().map(Phrase::markdown));
                    }
                    table.block()
                }
                Piece::Point(..) => continue,
            });
        }
        blocks.extend(outline(&mut points));
        format!("{}\n", Block::stack(&blocks).as_str())
    }
}

/// The points that have come together, as one list.
fn outline(points: &mut Vec<(Inline, Vec<Inline>)>) -> Option<Block> {
    (!points.is_empty()).then(|| Block::outline(&std::mem::take(points)))
}

fn sentence(told: &Told) -> Inline {
    match told.tone.sign() {
        "" => told.phrase.markdown(),
        sign => Inline::own(sign).own_and(" ").and(&told.phrase.markdown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::Tone;

    fn page() -> Page {
        let mut page = Page::default();
        page.title(Phrase::own("State ").strong("a|b"));
        let told = Told { tone: Tone::Alarm, phrase: Phrase::own("Held by ").strong("bob <b>") };
        page.point(told, vec![Phrase::own("run ").name("x`y"), Phrase::own("since 3s")]);
        let row = |a: &str, b: &str| vec![Phrase::name_of(a), Phrase::default(), Phrase::own(b.to_owned())];
        page.grid(&["Row", "Empty", "By"], &[row("a.x[\"|\"]", "bob"), row("output.o\n", "alice")]);
        page.note(Phrase::own("older: ").name("kl runs --before 1"));
        page
    }

    #[test]
    fn a_terminal_gets_columns() {
        let text = anstream::adapter::strip_str(&page().terminal()).to_string();
        assert_eq!(
            text,
            "State a|b\n  ! Held by bob <b>\n      run x`y\n      since 3s\nROW        BY\na.x[\"|\"]   bob\n\
             output.o\u{FFFD}  alice\nolder: kl runs --before 1\n"
        );
    }

    #[test]
    fn markdown_keeps_what_comes_from_outside_harmless() {
        insta::assert_snapshot!(page().markdown());
    }
}
