//! The tokenizer behind [`Address::parse`] and its relatives.

use unicode_general_category::{GeneralCategory, get_general_category};

use super::{Address, ConfigAddress, ConfigModule, Key, Mode, ModulePath, ModuleStep};

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{:?}{} is not a resource address: {expected} expected at byte {at}", shown(text), if shown(text) == text { "" } else { "…" })]
pub struct ParseAddressError {
    /// The text as it was given.
    pub text: String,
    /// Where it stops making sense, in bytes.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
}

/// The longest part of a text that an error repeats, in bytes.
const SHOWN: usize = 300;

/// The beginning of a text that is no address.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN)]
}

/// A position in a text, with the few questions that the grammar of addresses asks.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn fail<T>(&self, expected: &'static str) -> Result<T, ParseAddressError> {
        Err(ParseAddressError { text: self.text.to_owned(), at: self.at, expected })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn done(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(super) fn end(&self) -> Result<(), ParseAddressError> {
        if self.done() { Ok(()) } else { self.fail("the end") }
    }

    /// A name of a module, type, resource or output, as HCL's identifiers are.
    pub(super) fn name(&mut self) -> Result<String, ParseAddressError> {
        let rest = self.rest();
        let length = rest.find(|letter| !continues_name(letter)).unwrap_or(rest.len());
        if !rest.chars().next().is_some_and(starts_name) {
            return self.fail("a name");
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    /// An instance key in brackets, if one stands here.
    pub(super) fn key(&mut self) -> Result<Option<Key>, ParseAddressError> {
        if !self.eat("[") {
            return Ok(None);
        }
        let key = if self.eat("\"") { Key::Str(self.string()?) } else { Key::Int(self.integer()?) };
        if self.eat("]") { Ok(Some(key)) } else { self.fail("\"]\"") }
    }

    fn integer(&mut self) -> Result<u64, ParseAddressError> {
        let rest = self.rest();
        let length = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &rest[..length];
        // One number has one spelling, or parse and print would not be inverse.
        if digits.len() > 1 && digits.starts_with('0') {
            return self.fail("an index without leading zeros");
        }
        match digits.parse() {
            Ok(index) => {
                self.at += length;
                Ok(index)
            }
            Err(_) => self.fail("an index or a quoted key"),
        }
    }

    /// The rest of a quoted string, after its opening quote.
    fn string(&mut self) -> Result<String, ParseAddressError> {
        let mut out = String::new();
        loop {
            let Some(letter) = self.rest().chars().next() else {
                return self.fail("a closing quote");
            };
            match letter {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => out.push(self.escape()?),
                '$' | '%' => {
                    self.template_marker(letter, &mut out)?;
                }
                '\n' | '\r' => return self.fail("an escaped line break"),
                _ => {
                    out.push(letter);
                    self.at += letter.len_utf8();
                }
            }
        }
    }

    /// `$${` is a literal `${`; a bare `${` would be an interpolation, which an address cannot hold.
    fn template_marker(&mut self, marker: char, out: &mut String) -> Result<(), ParseAddressError> {
        let mut doubled = [0_u8; 3];
        doubled[0] = marker as u8;
        doubled[1] = marker as u8;
        doubled[2] = b'{';
        let rest = self.rest().as_bytes();
        if rest.starts_with(&doubled) {
            out.push(marker);
            out.push('{');
            self.at += 3;
            Ok(())
        } else if rest.starts_with(&doubled[1..]) {
            self.fail("an escaped template marker (\"$${\" or \"%%{\")")
        } else {
            out.push(marker);
            self.at += 1;
            Ok(())
        }
    }

    fn escape(&mut self) -> Result<char, ParseAddressError> {
        let rest = self.rest();
        let (letter, length) = match rest.as_bytes().get(1) {
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'"') => ('"', 2),
            Some(b'\\') => ('\\', 2),
            Some(b'u') => (self.code_point(4)?, 6),
            Some(b'U') => (self.code_point(8)?, 10),
            _ => return self.fail("a known escape"),
        };
        self.at += length;
        Ok(letter)
    }

    fn code_point(&self, digits: usize) -> Result<char, ParseAddressError> {
        let code = self.rest().get(2..2 + digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32) {
            Some(letter) => Ok(letter),
            None => self.fail("a Unicode code point"),
        }
    }

    /// Module steps, each with its trailing dot eaten, up to what is not a module.
    pub(super) fn modules(&mut self) -> Result<ModulePath, ParseAddressError> {
        let mut steps = Vec::new();
        while self.eat("module.") {
            let name = self.name()?;
            let key = self.key()?;
            steps.push(ModuleStep { name, key });
            if !self.eat(".") {
                break;
            }
        }
        Ok(ModulePath(steps))
    }

    /// `[data.]TYPE.NAME`, or the same for an ephemeral resource.
    pub(super) fn resource(&mut self) -> Result<(Mode, String, String), ParseAddressError> {
        let mode = if self.eat("data.") {
            Mode::Data
        } else if self.eat("ephemeral.") {
            Mode::Ephemeral
        } else {
            Mode::Managed
        };
        let start = self.at;
        let type_name = self.name()?;
        if !self.eat(".") {
            return self.fail("a dot and the resource's name");
        }
        // No provider can have it: `output.NAME` is a root output wherever a pattern may stand.
        if type_name == "output" {
            self.at = start;
            return self.fail("a resource type");
        }
        Ok((mode, type_name, self.name()?))
    }

    /// Whether the text just read ended in a dot: `module.a.` alone is no module path.
    pub(super) fn after_dot(&self) -> bool {
        self.text[..self.at].ends_with('.')
    }
}

/// Letters that Unicode counts to identifiers by name and not by their category, except for those in the middle only.
const OTHER_START: [char; 4] = ['\u{2118}', '\u{212e}', '\u{309b}', '\u{309c}'];

fn starts_name(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || OTHER_START.contains(&letter)
}

/// Letters, marks (a decomposed "é" has one), digits, `_` and `-`. Somewhat wider than HCL's rule, which is tied to
/// one version of Unicode; nothing that means something in an address is in it.
fn continues_name(letter: char) -> bool {
    use GeneralCategory as C;
    letter.is_alphanumeric()
        || matches!(letter, '-' | '\u{b7}' | '\u{387}')
        || OTHER_START.contains(&letter)
        || matches!(get_general_category(letter), C::NonspacingMark | C::SpacingMark | C::ConnectorPunctuation)
}

pub(super) fn address(text: &str) -> Result<Address, ParseAddressError> {
    let mut cursor = Cursor::new(text);
    let module = cursor.modules()?;
    let (mode, type_name, name) = resource_after(&mut cursor, &module)?;
    let key = cursor.key()?;
    cursor.end()?;
    Ok(Address { module, mode, type_name, name, key })
}

/// The resource part after a module path; a path that is the whole text is not an address.
pub(super) fn resource_after(
    cursor: &mut Cursor<'_>,
    module: &ModulePath,
) -> Result<(Mode, String, String), ParseAddressError> {
    if !module.is_root() && !cursor.after_dot() {
        return cursor.fail("a dot and a resource in the module");
    }
    cursor.resource()
}

pub(super) fn module_path(text: &str) -> Result<ModulePath, ParseAddressError> {
    let mut cursor = Cursor::new(text);
    let path = cursor.modules()?;
    if !path.is_root() && cursor.after_dot() {
        return cursor.fail("\"module.\"");
    }
    cursor.end()?;
    Ok(path)
}

pub(super) fn config_address(text: &str) -> Result<ConfigAddress, ParseAddressError> {
    let mut cursor = Cursor::new(text);
    let module = cursor.modules()?;
    let (mode, type_name, name) = resource_after(&mut cursor, &module)?;
    cursor.end()?;
    if module.0.iter().any(|step| step.key.is_some()) {
        return cursor.fail("a module without instance keys");
    }
    let module = ConfigModule(module.0.into_iter().map(|step| step.name).collect());
    Ok(ConfigAddress { module, mode, type_name, name })
}
