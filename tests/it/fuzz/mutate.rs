//! Mutations: from texts that are well-formed to such as nobody has thought of.

/// Random numbers from a seed: the same ones on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit; 0 when there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    /// One of them.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// The longest text that mutation makes, in bytes.
pub(super) const LONGEST: usize = 256 * 1024;

/// What means something to one of the readers.
const WORDS: [&str; 58] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e999",
    "-0",
    "18446744073709551616",
    "0.1e-400",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "é",
    "e\u{301}",
    "\u{1f600}",
    "${",
    "%{",
    "$${",
    "\"",
    "\\",
    "\\\"",
    "[0]",
    "[\"0\"]",
    "[*]",
    ".*",
    "*",
    "module.",
    "data.",
    "output.",
    "[99999999999999999999]",
    "..",
    "\n",
    "\r\n",
    "\t",
    "<<EOT\n",
    "EOT\n",
    "/*",
    "*/",
    "#",
    "//",
    "&a",
    "*a",
    "<<: *a",
    "!!binary",
    "---\n",
    "? ",
    "- ",
    "|\n",
    "{{",
    ":",
    ",",
    "=",
    "=>",
    "?",
];

/// Numbers and values that replace others.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "[]",
    "{}",
    "\"x\"",
    "0",
    "-1",
    "1",
    "1.5",
    "1e400",
    "-1e400",
    "123456789012345678901234567890",
    "9223372036854775808",
    "[[[[[[]]]]]]",
    "{\"a\":{\"a\":{}}}",
    "\"${a.b}\"",
];

/// Openings that nest, with their endings.
const NESTS: [(&str, &str); 12] = [
    ("[", "]"),
    ("{\"a\":", "}"),
    ("(", ")"),
    ("{a=", "}"),
    ("\"${", "}\""),
    ("- ", ""),
    ("{a: ", "}"),
    ("f(", ")"),
    ("!", ""),
    ("a ? ", " : b"),
    ("module.a.", ""),
    ("a {\n", "}\n"),
];

/// A text made of the seeds: one of them, changed at a few places.
pub(crate) fn mutant(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut text = seeds[dice.below(seeds.len())].clone();
    // Few changes leave much that is well-formed, and so reach deep.
    let changes = 1 + dice.below(4) * dice.below(3);
    for _ in 0..changes {
        change(dice, &mut text, seeds);
        text.truncate(LONGEST);
    }
    text
}

fn change(dice: &mut Dice, text: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = dice.below(text.len() + 1);
    let longest = 1 << dice.below(14);
    let end = at + dice.below((text.len() - at).min(longest) + 1);
    match dice.below(14) {
        // Cut short, as a full disk or a broken connection leaves it.
        0 => text.truncate(at),
        1 => drop(text.drain(at..end)),
        2 => {
            let copy = text[at..end].to_vec();
            insert(text, end, &copy);
        }
        3 => {
            let count = 1 << dice.below(12);
            let copy = text[at..end].to_vec().repeat(count.min(LONGEST / (end - at).max(1)));
            insert(text, end, &copy);
        }
        4 => insert(text, at, dice.pick(&WORDS).as_bytes()),
        5 => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len() + 1);
            let to = from + dice.below(other.len() - from + 1);
            let part = other[from..to].to_vec();
            text.splice(at..end, part);
        }
        6 => {
            // Not Unicode any more, most of the time.
            let byte = u8::try_from(dice.below(256)).unwrap_or(0);
            insert(text, at, &[byte]);
        }
        7 if at < text.len() => text[at] ^= 1 << dice.below(8),
        8 => {
            let (open, close) = NESTS[dice.below(NESTS.len())];
            let depth = 1 << dice.below(16);
            insert(text, end, close.repeat(depth).as_bytes());
            insert(text, at, open.repeat(depth).as_bytes());
        }
        9 | 10 => replace_value(dice, text, at),
        11 => repeat_member(text, at),
        12 => {
            // A long run of one letter: names, numbers, space.
            let letter = *dice.pick(&[&b'a', &b'9', &b' ', &b'-', &b'.', &b'"']);
            insert(text, at, &vec![letter; 1 << dice.below(16)]);
        }
        _ => {
            let word = dice.pick(&WORDS).as_bytes().to_vec();
            text.splice(at..end.min(at + 8), word);
        }
    }
}

fn insert(text: &mut Vec<u8>, at: usize, part: &[u8]) {
    text.splice(at..at, part.iter().copied());
}

/// Puts another value behind the next colon or equals sign: of a wrong type, or huge.
fn replace_value(dice: &mut Dice, text: &mut Vec<u8>, from: usize) {
    let Some(sign) = text[from..].iter().position(|byte| matches!(byte, b':' | b'=')) else { return };
    let start = from + sign + 1;
    let stops = |byte: &u8| matches!(byte, b',' | b'\n' | b'}' | b']');
    let end = text[start..].iter().position(stops).map_or(text.len(), |length| start + length);
    let value = dice.pick(&VALUES).as_bytes().to_vec();
    text.splice(start..end, value);
}

/// Says a line, and with it a key, twice.
fn repeat_member(text: &mut Vec<u8>, from: usize) {
    let start =
        text[..from].iter().rposition(|byte| matches!(byte, b'\n' | b',' | b'{')).map_or(0, |before| before + 1);
    let end = text[from..]
        .iter()
        .position(|byte| matches!(byte, b'\n' | b','))
        .map_or(text.len(), |length| from + length + 1);
    let copy = text[start..end].to_vec();
    insert(text, end, &copy);
}
