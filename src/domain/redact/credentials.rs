//! The second line of defence: values that nobody marked as sensitive and that look like credentials all the same
//! (cases B24). It knows names of keys and shapes of tokens, and would rather hide too much.

use super::MASK;
use crate::domain::json::Json;

/// Parts of names whose values are credentials, in small letters without separators.
const SECRET_NAMES: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "credential",
    "connectionstring",
    "authorization",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "sastoken",
    "pgpass",
    "cookie",
    "clientkey",
];

/// Names that hold one of those parts and are about it, rather than being it.
const OPEN_ENDINGS: [&str; 14] = [
    "arn", "name", "id", "ids", "version", "length", "enabled", "required", "policy", "type", "ttl", "expiry", "path",
    "url",
];

/// How tokens of known services begin, and how long they are at least.
const PREFIXES: [(&str, usize); 30] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("ABIA", 16),
    ("ACCA", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("gldt-", 16),
    ("glptt-", 16),
    ("glrt-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxa-", 16),
    ("xapp-", 16),
    ("sk-", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("dop_v1_", 30),
    ("hvs.", 20),
    ("SG.", 30),
    ("eyJ", 30),
];

/// Whether the value of a key or an attribute of this name is a credential. Only the last step of a path counts.
#[must_use]
pub fn secret_name(name: &str) -> bool {
    let last = name.rsplit(['.', '[']).find(|step| step.chars().any(char::is_alphabetic)).unwrap_or(name);
    let words: Vec<String> = split_words(last);
    let joined = words.concat();
    let named =
        SECRET_NAMES.iter().any(|part| joined.contains(part)) || matches!(joined.as_str(), "pwd" | "pw" | "auth");
    named && !words.last().is_some_and(|word| OPEN_ENDINGS.contains(&word.as_str()))
}

/// `SOME_API_KEY`, `someApiKey` and `some-api-key` as words in small letters.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for letter in name.chars() {
        let breaks = !letter.is_alphanumeric() || (lower && letter.is_uppercase());
        if breaks && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        lower = letter.is_lowercase() || letter.is_ascii_digit();
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A text with every word masked that has the shape of a credential. For messages and for values.
#[must_use]
pub fn scrubbed(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") {
        return MASK.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let part_of_word = |letter: char| letter.is_alphanumeric() || "_-.+/=~:@%".contains(letter);
    let mut rest = text;
    let mut after_bearer = false;
    while let Some(first) = rest.chars().next() {
        let word = part_of_word(first);
        let end = rest.find(|letter| part_of_word(letter) != word).unwrap_or(rest.len());
        let (piece, next) = rest.split_at(end);
        if !word {
            out.push_str(piece);
        } else if after_bearer && piece.len() >= 8 {
            out.push_str(MASK);
        } else {
            out.push_str(&scrubbed_word(piece));
        }
        if word {
            after_bearer = ["bearer", "basic"].contains(&piece.trim_end_matches(':').to_lowercase().as_str());
        }
        rest = next;
    }
    out
}

fn scrubbed_word(word: &str) -> String {
    if let Some(hidden) = without_password(word) {
        return hidden;
    }
    // `KEY=VALUE` and `key: value` written together: each side by itself.
    for sign in ['=', ':', '/', '@'] {
        if let Some((name, value)) = word.split_once(sign)
            && !value.is_empty()
            && !value.starts_with('/')
        {
            if sign == '=' && value.len() >= 4 && secret_name(name) {
                return format!("{name}={MASK}");
            }
            if known_token(value) || known_token(name) {
                return format!("{}{sign}{}", scrubbed_word(name), scrubbed_word(value));
            }
        }
    }
    if known_token(word) || random(word) { MASK.to_owned() } else { word.to_owned() }
}

/// An address of the form `scheme://user:password@host`, without the password.
fn without_password(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (user, host) = authority.rsplit_once('@')?;
    let (user, _) = user.split_once(':')?;
    Some(format!("{scheme}://{user}:{MASK}@{host}{}", &rest[authority.len()..]))
}

fn known_token(word: &str) -> bool {
    PREFIXES.iter().any(|(prefix, least)| word.starts_with(prefix) && word.len() >= *least)
}

/// Whether a word looks as if a machine had drawn it: long, of one piece, and in a constant change between small
/// letters, capital ones and digits. Names change less often, digests have only one kind of letters.
fn random(word: &str) -> bool {
    let core = word.trim_end_matches('=');
    let class = |letter: char| match letter {
        'a'..='z' => 0,
        'A'..='Z' => 1,
        '0'..='9' => 2,
        _ => 3,
    };
    let classes: Vec<u8> = core.chars().map(class).collect();
    let changes = classes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    core.len() >= 32
        && core.chars().all(|letter| letter.is_ascii_alphanumeric() || "+/_-".contains(letter))
        && [0, 1, 2].iter().all(|class| classes.contains(class))
        && changes * 3 >= core.len()
        && core.split(['/', '_', '-']).any(|step| step.len() >= 12 && step.chars().any(char::is_uppercase))
}

/// The JSON text of an attribute's value, with everything masked that looks like a credential. A text that is no JSON
/// is masked as a whole.
#[must_use]
pub fn masked_value(attribute: &str, text: &str) -> String {
    let Ok(mut value) = Json::parse(text) else {
        return Json::String(MASK.to_owned()).to_string();
    };
    if secret_name(attribute) {
        hide(&mut value);
    } else {
        mask(&mut value);
    }
    value.to_string()
}

/// Masks what is there; what is empty or a mere flag tells nothing.
fn hide(value: &mut Json) {
    if !matches!(value, Json::Null | Json::Bool(_)) {
        *value = Json::String(MASK.to_owned());
    }
}

fn mask(value: &mut Json) {
    match value {
        Json::String(text) => {
            // Documents in strings, as container definitions and policies are.
            let inner = text.trim_start().starts_with(['{', '[']).then(|| Json::parse(text).ok()).flatten();
            *text = match inner {
                Some(mut inner) => {
                    mask(&mut inner);
                    inner.to_string()
                }
                None => scrubbed(text),
            };
        }
        Json::Array(items) => items.iter_mut().for_each(mask),
        Json::Object(members) => {
            // `{name = "API_KEY", value = "…"}`: the name says what the value is.
            let named = members.iter().any(|(key, name)| {
                ["name", "key"].contains(&key.to_lowercase().as_str())
                    && matches!(name, Json::String(name) if secret_name(name))
            });
            for (key, member) in members.iter_mut() {
                if secret_name(key) || (named && key.to_lowercase().starts_with("value")) {
                    hide(member);
                } else {
                    mask(member);
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_that_its_value_is_a_credential() {
        for name in
            ["password", "db_password", "SOME_API_KEY", "someApiKey", "tags.Secret", "env[0].auth_token", "PGPASSWORD"]
        {
            assert!(secret_name(name), "{name}");
        }
        for name in
            ["secret_arn", "token_ttl", "password_length", "key_name", "name", "author", "tags.Name", "tokens_enabled"]
        {
            assert!(!secret_name(name), "{name}");
        }
    }

    #[test]
    fn tokens_are_masked_by_their_shape_wherever_they_stand() {
        for token in [
            "AKIAEXAMPLENOTREAL00",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "glpat-abcdefghij0123456789",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ] {
            let text = scrubbed(&format!("error: \"{token}\" was refused"));
            assert_eq!(text, format!("error: \"{MASK}\" was refused"));
        }
        assert_eq!(scrubbed("postgres://kl:hunter2@db/x"), format!("postgres://kl:{MASK}@db/x"));
        assert_eq!(scrubbed("Authorization: Bearer abcdefgh123"), format!("Authorization: Bearer {MASK}"));
        assert_eq!(scrubbed("API_KEY=abcd1234"), format!("API_KEY={MASK}"));
        assert_eq!(scrubbed("-----BEGIN RSA PRIVATE KEY-----\nMII"), MASK);
    }

    #[test]
    fn ordinary_values_stay_readable() {
        for text in [
            "arn:aws:iam::123456789012:role/service-role/deploy",
            "ami-0123456789abcdef0",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "https://example.com/a/b?c=d",
            "modules/network/subnets/private/eu-central-1a/Main2",
            "0190c0de-0000-7000-8000-000000000001",
            "Error: creating EC2 instance: timeout while waiting",
        ] {
            assert_eq!(scrubbed(text), text);
        }
    }

    #[test]
    fn the_environment_of_a_container_is_masked_by_its_names_even_inside_a_string() {
        let env = r#"[{"name":"SOME_API_KEY","value":"hunter2"},{"name":"MODE","value":"open"}]"#;
        let shown = masked_value("environment", env);
        assert!(!shown.contains("hunter2") && shown.contains("open"), "{shown}");
        let inside = serde_json::to_string(env).unwrap();
        let shown = masked_value("container_definitions", &inside);
        assert!(!shown.contains("hunter2") && shown.contains("open"), "{shown}");
    }

    #[test]
    fn what_cannot_be_read_is_masked_as_a_whole() {
        assert_eq!(masked_value("x", "hunter2"), format!("\"{MASK}\""));
        assert_eq!(masked_value("password", "null"), "null");
        assert_eq!(masked_value("password", "12"), format!("\"{MASK}\""));
    }
}
