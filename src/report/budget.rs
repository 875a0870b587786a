//! Fitting a page into what a forge takes: whole blocks and whole rows are left out, the least important first, never
//! bytes; and the page says how many, and where they stand.

use super::markdown::{Block, Inline, Table, details};
use super::style::count;
use crate::domain::request::ForgeKind;

/// How large a page may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Unicode characters.
    pub chars: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
}

impl Budget {
    /// The summary or the text of a GitHub check.
    pub const CHECK: Self = Self { chars: 65_000, bytes: 65_535 };
    /// The summary of a step on GitHub: 1 MiB, less what the runner may add.
    pub const SUMMARY: Self = Self { chars: 1_000_000, bytes: 1_000_000 };

    /// A comment, less a marker line of up to 400 characters.
    #[must_use]
    pub fn comment(forge: ForgeKind) -> Self {
        match forge {
            // 65,536 characters are promised, 262,144 bytes were measured.
            ForgeKind::Github => Self { chars: 65_000, bytes: 250_000 },
            ForgeKind::Gitlab => Self { chars: 999_000, bytes: 3_900_000 },
        }
    }
}

/// How much a block matters. Those that matter least go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Always there: it has to be small.
    Head,
    /// What a reader must know.
    Vital,
    /// What is about to change, or happened.
    Change,
    /// Who else is near.
    Near,
    /// Background.
    Background,
    /// A picture of what is also told in words.
    Picture,
}

const DROPPED_FIRST: [Rank; 5] = [Rank::Picture, Rank::Background, Rank::Near, Rank::Change, Rank::Vital];

/// One thing of those that a node counts, as `change`, for the sentence on what was left out.
pub type Unit = &'static str;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// One block, there or not.
    Block {
        /// How much it matters.
        rank: Rank,
        /// What it is, as `graph`.
        unit: Unit,
        /// The Markdown.
        block: Block,
    },
    /// A table, of which the first rows may stay.
    Rows {
        /// How much it matters.
        rank: Rank,
        /// What a row is, as `change`.
        unit: Unit,
        /// The table.
        table: Table,
        /// How many rows there are at most, however much room there is: more is nobody's reading.
        most: usize,
    },
    /// Parts that go together: without any of them it vanishes.
    Group {
        /// The summary line of a block to be folded out; none for a plain sequence.
        summary: Option<String>,
        /// The parts.
        nodes: Vec<Node>,
    },
}

impl Node {
    /// A block.
    #[must_use]
    pub fn block(rank: Rank, unit: Unit, block: Block) -> Self {
        Self::Block { rank, unit, block }
    }

    /// A block that is always there.
    #[must_use]
    pub fn head(block: Block) -> Self {
        Self::Block { rank: Rank::Head, unit: "heading", block }
    }

    /// A table with as many rows as there are, up to some.
    #[must_use]
    pub fn rows(rank: Rank, unit: Unit, table: Table, most: usize) -> Self {
        Self::Rows { rank, unit, table, most }
    }

    /// Parts that are folded away under a summary line.
    #[must_use]
    pub fn details(summary: impl Into<String>, nodes: Vec<Self>) -> Self {
        Self::Group { summary: Some(summary.into()), nodes }
    }

    /// Parts one after the other.
    #[must_use]
    pub fn all(nodes: Vec<Self>) -> Self {
        Self::Group { summary: None, nodes }
    }
}

/// The caps in force: which ranks are cut down, and to what.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Ranks after this one are gone.
    gone_after: Rank,
    /// Tables of this very rank have so many rows at most.
    rows: usize,
    /// Of the blocks of this very rank, so many stay.
    blocks: usize,
}

impl Cut {
    const NONE: Self = Self { gone_after: Rank::Picture, rows: usize::MAX, blocks: usize::MAX };
}

/// What was left out, by unit.
type Left = Vec<(Unit, usize)>;

/// The page within the budget. `elsewhere` says where everything stands, for a page from which something is missing.
#[must_use]
pub fn fit(nodes: &[Node], budget: Budget, elsewhere: &Inline) -> String {
    let fits = |cut: Cut| {
        let page = page(nodes, cut, elsewhere);
        (page.len() <= budget.bytes && page.chars().count() <= budget.chars).then_some(page)
    };
    if let Some(page) = fits(Cut::NONE) {
        return page;
    }
    let longest = longest(nodes);
    for rank in DROPPED_FIRST {
        let cut = |rows, blocks| Cut { gone_after: rank, rows, blocks };
        if fits(cut(0, 0)).is_none() {
            continue;
        }
        // Rows go before blocks of the same rank: a shorter table is still a table.
        if let Some(rows) = largest(longest, |rows| fits(cut(rows, usize::MAX)).is_some()) {
            return fits(cut(rows, usize::MAX)).unwrap_or_default();
        }
        let blocks = largest(nodes.len() + longest, |blocks| fits(cut(0, blocks)).is_some()).unwrap_or(0);
        return fits(cut(0, blocks)).unwrap_or_default();
    }
    page(nodes, Cut { gone_after: Rank::Head, rows: 0, blocks: usize::MAX }, elsewhere)
}

/// The largest number up to `most` for which something holds that holds for all smaller ones, too; none when not even
/// for 0.
fn largest(most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    if !holds(0) {
        return None;
    }
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if holds(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

fn longest(nodes: &[Node]) -> usize {
    let of = |node: &Node| match node {
        Node::Block { .. } => 1,
        Node::Rows { table, most, .. } => table.rows().len().min(*most),
        Node::Group { nodes, .. } => longest(nodes).max(nodes.len()),
    };
    nodes.iter().map(of).max().unwrap_or(0)
}

fn page(nodes: &[Node], cut: Cut, elsewhere: &Inline) -> String {
    let mut writer = Writer { cut, blocks: 0, left: Vec::new() };
    let mut parts: Vec<String> = nodes.iter().filter_map(|node| writer.write(node)).collect();
    if !writer.left.is_empty() {
        let left: Vec<String> = writer.left.iter().map(|(unit, number)| count(*number, unit)).collect();
        let line = Inline::own("Not shown here: ").and(&Inline::text(&left.join(", ")));
        let line = line.own_and(". ").and(elsewhere);
        parts.push(Block::paragraph(&line).as_str().to_owned());
    }
    parts.join("\n\n")
}

struct Writer {
    cut: Cut,
    /// Blocks of the rank that is cut, so far.
    blocks: usize,
    left: Left,
}

impl Writer {
    fn write(&mut self, node: &Node) -> Option<String> {
        match node {
            Node::Block { rank, unit, block } => {
                let mut stays = *rank <= self.cut.gone_after;
                if *rank == self.cut.gone_after && *rank != Rank::Head {
                    self.blocks += 1;
                    stays = self.blocks <= self.cut.blocks;
                }
                if !stays {
                    self.leave(unit, 1);
                }
                stays.then(|| block.as_str().to_owned())
            }
            Node::Rows { rank, unit, table, most } => {
                let cap = match rank.cmp(&self.cut.gone_after) {
                    std::cmp::Ordering::Less => usize::MAX,
                    std::cmp::Ordering::Equal => self.cut.rows,
                    std::cmp::Ordering::Greater => 0,
                };
                let rows = table.rows();
                let shown = rows.len().min(cap).min(*most);
                if shown < rows.len() {
                    self.leave(unit, rows.len() - shown);
                }
                (shown > 0)
                    .then(|| std::iter::once(table.head()).chain(rows[..shown].iter().map(String::as_str)))
                    .map(|lines| lines.collect::<Vec<_>>().join("\n"))
            }
            Node::Group { summary, nodes } => {
                let parts: Vec<String> = nodes.iter().filter_map(|node| self.write(node)).collect();
                if parts.is_empty() {
                    return None;
                }
                let inner = parts.join("\n\n");
                Some(match summary {
                    Some(summary) => {
                        let (open, close) = details(summary);
                        format!("{open}\n\n{inner}\n\n{close}")
                    }
                    None => inner,
                })
            }
        }
    }

    fn leave(&mut self, unit: Unit, number: usize) {
        match self.left.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, sum)) => *sum += number,
            None => self.left.push((unit, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(rows: usize, width: usize) -> Table {
        let mut table = Table::new(&["Address"]);
        (0..rows).for_each(|row| table.row([Inline::code(&format!("x.{row:0width$}"))]));
        table
    }

    fn document(rows: usize, width: usize) -> Vec<Node> {
        vec![
            Node::head(Block::heading(3, &Inline::own("Head"))),
            Node::rows(Rank::Change, "change", table(3, 1), 500),
            Node::details(
                "All",
                vec![
                    Node::rows(Rank::Background, "change", table(rows, width), usize::MAX),
                    Node::block(Rank::Background, "note", Block::fence(super::super::markdown::Language::Text, "```")),
                ],
            ),
            Node::details("Graph", vec![Node::block(Rank::Picture, "graph", Block::paragraph(&Inline::own("graph")))]),
        ]
    }

    fn elsewhere() -> Inline {
        Inline::own("All of it is on the job's page.")
    }

    fn balanced(page: &str) -> bool {
        page.matches("<details>").count() == page.matches("</details>").count()
            && page.lines().filter(|line| line.starts_with("````")).count().is_multiple_of(2)
            && page.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|'))
    }

    #[test]
    fn what_fits_is_left_alone_and_nothing_is_said() {
        let page = fit(&document(10, 3), Budget::CHECK, &elsewhere());
        assert!(page.contains("graph") && page.contains("`x.009`") && !page.contains("Not shown"));
    }

    #[test]
    fn pictures_go_first_then_rows_and_the_page_says_how_many_and_where() {
        let page = fit(&document(5_000, 30), Budget::CHECK, &elsewhere());
        let shown = page.lines().filter(|line| line.starts_with("| `x.")).count() - 3;
        assert!(page.ends_with(&format!(
            "Not shown here: {} changes, 1 graph. All of it is on the job's page.",
            5_000 - shown
        )));
        assert!(!page.contains("<summary>Graph") && page.contains("````text"));
        assert!(page.len() > 64_000, "the room is used: {}", page.len());
    }

    #[test]
    fn bytes_count_as_well_as_characters() {
        let mut table = Table::new(&["A"]);
        (0..1_000).for_each(|_| table.row([Inline::text(&"🙂".repeat(100))]));
        let nodes = [Node::rows(Rank::Change, "change", table, usize::MAX)];
        let page = fit(&nodes, Budget { chars: 65_000, bytes: 100_000 }, &elsewhere());
        assert!(page.len() <= 100_000 && page.len() > 98_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        /// A cut inside a fence, a details block or a row is what budgets near every border would provoke.
        #[test]
        fn a_page_is_within_its_budget_and_balanced(rows in 0_usize..60, width in 1_usize..40, chars in 300_usize..2_000) {
            let budget = Budget { chars, bytes: chars };
            let page = fit(&document(rows, width), budget, &elsewhere());
            prop_assert!(page.chars().count() <= chars && page.len() <= chars);
            prop_assert!(balanced(&page), "{page}");
        }
    }
}
