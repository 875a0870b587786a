//! Where the database is.

use std::fmt;
use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;

/// The address of a database. It may hold a password, and never shows it.
#[derive(Clone)]
pub struct DatabaseUrl(Place);

#[derive(Clone)]
pub(in crate::store) enum Place {
    Sqlite(Utf8PathBuf),
    Postgres { url: SecretString, shown: String },
}

/// Why a text is not the address of a database. The text itself is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// There is nothing.
    #[error("the database's address is empty")]
    Empty,
    /// It names another kind of database.
    #[error("kl keeps its memory in sqlite:PATH or postgres://HOST/DATABASE, not in {0}:")]
    Scheme(String),
    /// It would be forgotten with the process.
    #[error("a SQLite database in memory would be forgotten at once")]
    InMemory,
    /// It has parameters, and `SQLite` takes none.
    #[error("sqlite:PATH takes no parameters after a \"?\"")]
    Parameters,
}

impl DatabaseUrl {
    /// The database in a `SQLite` file.
    #[must_use]
    pub fn sqlite(path: impl Into<Utf8PathBuf>) -> Self {
        Self(Place::Sqlite(path.into()))
    }

    /// Whether the database is a `SQLite` file on this machine.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        matches!(self.0, Place::Sqlite(_))
    }

    /// The file of a `SQLite` database; none on a server.
    #[must_use]
    pub fn file(&self) -> Option<&Utf8Path> {
        match &self.0 {
            Place::Sqlite(path) => Some(path),
            Place::Postgres { .. } => None,
        }
    }

    /// Whether it is a `SQLite` file that does not exist yet, or that nothing was ever written into.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(&self.0, Place::Sqlite(path) if !path.exists()) || self.is_empty_file()
    }

    /// Whether it is a file without a byte in it: `SQLite` would make a database of it without a word, and it may stand
    /// there in place of the one that is meant.
    #[must_use]
    pub fn is_empty_file(&self) -> bool {
        let empty = |path: &Utf8PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
        matches!(&self.0, Place::Sqlite(path) if empty(path))
    }

    pub(in crate::store) fn place(&self) -> &Place {
        &self.0
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.contains('?') {
                return Err(DatabaseUrlError::Parameters);
            }
            return file(path);
        }
        match text.split_once("://") {
            Some(("postgres" | "postgresql", rest)) => {
                let shown = format!("postgres://{}", without_credentials(rest));
                Ok(Self(Place::Postgres { url: SecretString::from(text), shown }))
            }
            Some((scheme, _)) if scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '+') => {
                Err(DatabaseUrlError::Scheme(scheme.to_owned()))
            }
            _ => file(text),
        }
    }
}

fn file(path: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    match path {
        "" => Err(DatabaseUrlError::Empty),
        ":memory:" => Err(DatabaseUrlError::InMemory),
        path => Ok(DatabaseUrl::sqlite(path)),
    }
}

/// Host, port and database name. A password with a letter that should have been escaped must not slip through: in
/// doubt nothing is shown.
fn without_credentials(rest: &str) -> &str {
    let (head, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    match head.rsplit_once('@') {
        Some((_, host)) => host,
        None if tail.contains('@') => "…",
        None => head,
    }
}

impl fmt::Display for DatabaseUrl {
    /// Without user, password and parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Sqlite(path) => write!(f, "sqlite:{path}"),
            Place::Postgres { shown, .. } => f.write_str(shown),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_user_password_and_parameters() {
        for (text, shown) in [
            ("sqlite:.kl/kl.db", "sqlite:.kl/kl.db"),
            ("sqlite:///var/lib/kl.db", "sqlite:/var/lib/kl.db"),
            ("some/where.db", "sqlite:some/where.db"),
            ("postgres://kl:hunter2@db.example:5433/kl?sslmode=require", "postgres://db.example:5433/kl"),
            ("postgresql://kl@localhost/kl?host=/run/pg&password=hunter2", "postgres://localhost/kl"),
            ("postgres:///kl?password=hunter2", "postgres:///kl"),
            ("postgres://kl:hunter2/hunter2@db/kl", "postgres://db/kl"),
            ("postgres://kl:hunter2@hunter2@db/kl", "postgres://db/kl"),
            ("postgres://kl:hunter2?hunter2@db/kl", "postgres://…"),
            ("postgres://kl:hunter2#hunter2@db/kl", "postgres://…"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown, "{text}");
            assert!(!format!("{url:?}").contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn other_addresses_are_refused_without_repeating_them() {
        for (text, error) in [
            ("", DatabaseUrlError::Empty),
            ("sqlite:", DatabaseUrlError::Empty),
            ("sqlite::memory:", DatabaseUrlError::InMemory),
            ("sqlite:kl.db?mode=ro", DatabaseUrlError::Parameters),
            ("mysql://kl:hunter2@db/kl", DatabaseUrlError::Scheme("mysql".to_owned())),
        ] {
            assert_eq!(text.parse::<DatabaseUrl>().unwrap_err(), error, "{text}");
        }
    }
}
