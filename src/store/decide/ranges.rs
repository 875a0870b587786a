//! Where the rows that a pattern meets stand among all rows, by the bytes of their addresses.

use crate::domain::address::{ModulePath, Pattern};

/// Texts from one on, up to another one that is not among them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Range {
    /// The first text.
    pub(in crate::store) from: String,
    /// The first text behind.
    pub(in crate::store) to: String,
}

impl Range {
    fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into() }
    }

    /// This text alone: no address has a control character.
    fn only(text: &str) -> Self {
        Self::new(text, format!("{text}\u{1}"))
    }

    /// What begins with a text and one more letter; `behind` is the one that follows it.
    fn below(text: &str, letter: char, behind: char) -> Self {
        Self::new(format!("{text}{letter}"), format!("{text}{behind}"))
    }
}

/// The ranges, in their order, that hold the addresses of all rows that a pattern meets. Wide is only the range of a step
/// without a key that has instances: what else is in it is for the pattern to tell.
pub(in crate::store) fn ranges(pattern: &Pattern) -> Vec<Range> {
    let text = pattern.to_string();
    let mut ranges = match pattern {
        Pattern::Everything => vec![Range::new("", "\u{10ffff}")],
        Pattern::Output(_) => vec![Range::only(&text)],
        Pattern::Module(scope) => {
            let mut ranges = instances(&scope.0);
            ranges.push(Range::below(&scope.0.to_string(), '.', '/'));
            ranges
        }
        Pattern::Resource(address) => {
            let mut ranges = instances(&address.module);
            ranges.push(Range::only(&text));
            if address.key.is_none() {
                ranges.push(Range::below(&text, '[', '\\'));
            }
            ranges
        }
    };
    ranges.sort();
    ranges
}

/// Where the instances of each step stand that is given without a key; '/' and '\\' are the bytes that follow '.' and '['.
fn instances(module: &ModulePath) -> Vec<Range> {
    let steps = module.0.iter().enumerate().filter(|(_, step)| step.key.is_none());
    let known = |place: usize| ModulePath(module.0.iter().take(place + 1).cloned().collect()).to_string();
    steps.map(|(place, _)| Range::below(&known(place), '[', '\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FROM … TO` of each.
    fn told(pattern: &str) -> Vec<String> {
        let ranges = ranges(&Pattern::parse(pattern).unwrap());
        ranges.into_iter().map(|range| format!("{} … {}", range.from, range.to.escape_default())).collect()
    }

    #[test]
    fn a_range_is_wide_for_steps_without_a_key_alone() {
        for (pattern, expected) in [
            ("a.x[0]", vec![r"a.x[0] … a.x[0]\u{1}"]),
            ("a.x", vec![r"a.x … a.x\u{1}", r"a.x[ … a.x\\"]),
            ("output.o", vec![r"output.o … output.o\u{1}"]),
            ("module.m[0].a.x[1]", vec![r"module.m[0].a.x[1] … module.m[0].a.x[1]\u{1}"]),
            ("module.m[0].*", vec!["module.m[0]. … module.m[0]/"]),
            ("module.m.*", vec!["module.m. … module.m/", r"module.m[ … module.m\\"]),
            ("module.m.a.x[1]", vec![r"module.m.a.x[1] … module.m.a.x[1]\u{1}", r"module.m[ … module.m\\"]),
            (
                "module.m[0].module.n.module.o[1].a.x[2]",
                vec![
                    r"module.m[0].module.n.module.o[1].a.x[2] … module.m[0].module.n.module.o[1].a.x[2]\u{1}",
                    r"module.m[0].module.n[ … module.m[0].module.n\\",
                ],
            ),
        ] {
            assert_eq!(told(pattern), expected, "{pattern}");
        }
    }
}
