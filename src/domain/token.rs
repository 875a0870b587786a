//! Tokens of the HTTP backend: how one is written, which states it opens, and what it allows there.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::digest::hex;
use super::id::{StateName, is_label};

/// What every token begins with, so that whoever finds one knows what it is.
const PREFIX: &str = "klt_";

/// The public part of a token: 16 hexadecimal digits. It may stand in logs and lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TokenId(String);

/// A whole token, with its secret. Nothing prints it but [`Token::expose`].
#[derive(Clone)]
pub struct Token {
    id: TokenId,
    secret: [u8; 32],
}

/// The digest of a token, which is all that is kept of it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// Why a text is no token, or no id of one. The text is never repeated: it may be most of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the id of a token: 16 hexadecimal digits, as `kl token list` shows them")]
pub struct TokenError;

/// What a token allows in the states that it opens. Each allows all that the ones before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read the newest version.
    Read,
    /// Lock, write, and give the lock back.
    Write,
    /// Take a lock away from whoever holds it, and remove the state's rows.
    Admin,
}

/// Which states a token opens: `*` stands for any text without a `/`, `**` for any text, and everything else for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct StatePattern(String);

/// Why a text is no pattern of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern of states has 1 to {MAX_PATTERN} characters, no control characters, and no space at its ends")]
pub struct StatePatternError;

/// The longest pattern, in characters: as long as the longest name of a state.
const MAX_PATTERN: usize = 200;

/// What a token is called by people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TokenName(String);

/// Why a text names no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token's name has 1 to {MAX_NAME} characters, no control characters, and no space at its ends")]
pub struct TokenNameError;

/// The longest name, in characters: it stands beside runs and versions.
const MAX_NAME: usize = 80;

impl TokenId {
    /// The id in what somebody shows as a token, whatever stands in the place of the secret.
    #[must_use]
    pub fn shown_in(text: &str) -> Option<Self> {
        let (id, _) = text.strip_prefix(PREFIX)?.split_once('_')?;
        unhex::<8>(id).map(|_| Self(id.to_owned()))
    }

    /// The id as text, without the prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = TokenError;

    /// Takes the id, with or without the prefix, or the whole token: who has found one should not have to cut it.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if let Some(token) = Token::parse(text) {
            return Ok(token.id);
        }
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        unhex::<8>(text).map(|_| Self(text.to_owned())).ok_or(TokenError)
    }
}

impl Token {
    /// A token out of random bytes: 8 for its id, 32 for its secret.
    #[must_use]
    pub fn of(id: [u8; 8], secret: [u8; 32]) -> Self {
        Self { id: TokenId(hex(&id)), secret }
    }

    /// Reads a token; nothing for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        unhex::<8>(id)?;
        Some(Self { id: TokenId(id.to_owned()), secret: unhex(secret)? })
    }

    /// Its public part.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// The token with its secret, for whoever is to have it.
    #[must_use]
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, hex(&self.secret))
    }

    /// What is kept of it. 256 random bits need no slow digest: nobody can try them all.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.expose().as_bytes()).into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, …)", self.id)
    }
}

impl TokenHash {
    /// The digest as hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }

    /// Whether it is the digest of this token. Takes as long for a wrong one as for the right one.
    #[must_use]
    pub fn is_of(&self, token: &Token) -> bool {
        let other = token.hash();
        let differs = self.0.iter().zip(&other.0).fold(0, |differs, (a, b)| differs | (a ^ b));
        std::hint::black_box(differs) == 0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The role in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// The role of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl StatePattern {
    /// Takes a text as a pattern.
    ///
    /// # Errors
    /// When no state could have a name like it.
    pub fn new(text: impl Into<String>) -> Result<Self, StatePatternError> {
        let text = text.into();
        if is_label(&text, MAX_PATTERN) { Ok(Self(text)) } else { Err(StatePatternError) }
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it covers a state. The work is bounded by the lengths of both.
    #[must_use]
    pub fn covers(&self, name: &StateName) -> bool {
        let name: Vec<char> = name.as_str().chars().collect();
        // Which beginnings of the name the pattern so far can stand for, by their length.
        let mut reached = vec![false; name.len() + 1];
        reached[0] = true;
        let mut rest = self.0.as_str();
        while let Some(letter) = rest.chars().next() {
            let (stops_at_slash, length) = if rest.starts_with("**") { (false, 2) } else { (true, letter.len_utf8()) };
            rest = &rest[length..];
            let mut next = vec![false; name.len() + 1];
            if letter == '*' {
                next[0] = reached[0];
                for (at, found) in name.iter().enumerate() {
                    next[at + 1] = reached[at + 1] || (next[at] && !(stops_at_slash && *found == '/'));
                }
            } else {
                for (at, found) in name.iter().enumerate() {
                    next[at + 1] = reached[at] && *found == letter;
                }
            }
            reached = next;
        }
        reached[name.len()]
    }
}

impl FromStr for StatePattern {
    type Err = StatePatternError;

    fn from_str(text: &str) -> Result<Self, StatePatternError> {
        Self::new(text)
    }
}

impl TokenName {
    /// Takes a text as a name.
    ///
    /// # Errors
    /// When it is empty, too long, begins or ends with a space, or holds control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, TokenNameError> {
        let text = text.into();
        if is_label(&text, MAX_NAME) { Ok(Self(text)) } else { Err(TokenNameError) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = TokenNameError;

    fn from_str(text: &str) -> Result<Self, TokenNameError> {
        Self::new(text)
    }
}

/// The bytes of exactly so many lower-case hexadecimal digits: a token is written in one way only.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    let digit = |at: usize| match text.get(at) {
        Some(digit @ b'0'..=b'9') => Some(digit - b'0'),
        Some(digit @ b'a'..=b'f') => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = digit(2 * at)? << 4 | digit(2 * at + 1)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(pattern: &str, name: &str) -> bool {
        StatePattern::new(pattern).unwrap().covers(&StateName::new(name).unwrap())
    }

    #[test]
    fn the_id_of_what_is_shown_is_known_whatever_its_secret() {
        let token = Token::of([7; 8], [0xab; 32]);
        let whole = token.expose();
        for shown in [whole.as_str(), &whole[..25], &whole[..21], &format!("{whole}00"), "klt_0707070707070707_:?"] {
            assert_eq!(TokenId::shown_in(shown).as_ref(), Some(token.id()), "{shown}");
        }
        for none in ["", "klt_", "klt_07_ab", "0707070707070707_ab", "klt_070707070707070x_ab"] {
            assert_eq!(TokenId::shown_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_token_is_written_in_one_way_and_its_id_in_several() {
        let token = Token::of([7; 8], [0xab; 32]);
        let text = token.expose();
        assert!(text.starts_with("klt_0707070707070707_abab") && text.len() == 85, "{text}");
        let read = Token::parse(&text).unwrap();
        assert!(read.hash() == token.hash() && token.hash().is_of(&read) && read.expose() == text);
        assert!(TokenHash::from_hex(&token.hash().to_hex()) == Some(token.hash()));
        for name in ["0707070707070707", "klt_0707070707070707", &text, &format!(" {text}\n")] {
            assert_eq!(name.parse::<TokenId>().unwrap(), *token.id(), "{name}");
        }
        for other in ["", "klt_", &text[..84], &text.to_uppercase(), &text.replace("ab", "ag"), &format!("{text}0")] {
            assert!(Token::parse(other).is_none(), "{other}");
            assert!(other.parse::<TokenId>().is_err(), "{other}");
        }
        let other = Token::of([7; 8], [0xac; 32]);
        assert!(!token.hash().is_of(&other) && !token.hash().is_of(&Token::of([8; 8], [0xab; 32])));
    }

    #[test]
    fn nothing_prints_a_secret_by_accident() {
        let token = Token::of([1; 8], [2; 32]);
        let said = format!("{token:?} {:?} {TokenError}", token.hash());
        assert!(!said.contains("0202") && !said.contains(&token.hash().to_hex()), "{said}");
    }

    #[test]
    fn one_star_stops_at_a_slash_and_two_do_not() {
        for (pattern, name, expected) in [
            ("live", "live", true),
            ("live", "Live", false),
            ("live", "live:dev", false),
            ("live:*", "live:dev", true),
            ("live/*", "live/web", true),
            ("live/*", "live/web/eu", false),
            ("live/*", "live", false),
            ("live/**", "live/web/eu", true),
            ("live/**", "lives/web", false),
            ("*", "live/web", false),
            ("**", "live/web:dev", true),
            ("*/web", "live/web", true),
            ("**/web", "a/b/web", true),
            ("**/web", "web", false),
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*c", "a/c", false),
            ("a?", "ab", false),
            ("[ab]", "a", false),
            ("x*y", "x*y", true),
            ("ü*", "über", true),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} {name}");
        }
        assert!(covers(&"*a".repeat(100), &"a".repeat(200)));
        assert!(!covers(&"*a".repeat(99), &format!("{}b", "a".repeat(199))));
    }

    #[test]
    fn what_no_list_could_show_is_refused() {
        for text in ["", " a", "a ", "a\nb", "\u{1b}[31m", &"a".repeat(201)] {
            assert!(StatePattern::new(text).is_err() && TokenName::new(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_without_stars_is_a_name_and_two_stars_are_all(name in "[a-c/:*]{1,12}", other in "[a-c/:]{1,12}") {
            prop_assert!(covers("**", &name));
            prop_assert!(covers(&name, &name));
            prop_assert_eq!(covers(&other, &name), other == name);
            // A part that is replaced by a star is covered still, unless it had a slash.
            let half = other.len() / 2;
            prop_assert_eq!(covers(&format!("{}*", &other[..half]), &other), !other[half..].contains('/'));
            let open = format!("{}**", &other[..half]);
            prop_assert!(covers(&open, &other), "{}", open);
        }

        #[test]
        fn whatever_a_password_is_reading_it_does_no_harm(text in "(klt_)?[0-9a-f]{0,20}_?.{0,70}") {
            if let Some(token) = Token::parse(&text) {
                prop_assert_eq!(token.expose(), text);
            }
        }
    }
}
