//! The store on `SQLite`.
//!
//! The statements that both databases understand alike stand in `store/sql/`, and are compiled here against this
//! one's types. Here is what differs: how a transaction begins, the words for now and for a row's lock, statements over
//! many rows, migrations, opening.

mod migration;
mod open;

use sqlx::{Sqlite, Transaction};

pub(in crate::store) use open::{can_be_made, connect};
pub(in crate::store) use sql::Database;

use crate::store::care::{Fate, Mark};
use crate::store::fault::Fault;

type Connection = sqlx::SqliteConnection;
type Pool = sqlx::SqlitePool;

/// The time in microseconds.
macro_rules! now {
    () => {
        "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"
    };
}

/// Nothing: a transaction that writes holds the whole database.
macro_rules! lock_row {
    () => {
        ""
    };
}

/// A new id: a random UUID (version 4) as text.
macro_rules! new_id {
    () => {
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || \
         substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
    };
}

/// 256 random bits in hex.
macro_rules! new_secret {
    () => {
        "lower(hex(randomblob(32)))"
    };
}

/// The texts of a parameter that is a JSON list, as a table.
macro_rules! json_list {
    ($parameter:literal) => {
        concat!("json_each(", $parameter, ")")
    };
}

/// The ids of a parameter that is a JSON list, as a subquery.
macro_rules! id_list {
    ($parameter:literal) => {
        concat!("SELECT value FROM json_each(", $parameter, ")")
    };
}

/// The bytes of a text of hex digits.
macro_rules! unhex {
    ($text:literal) => {
        concat!("unhex(", $text, ")")
    };
}

/// Whether a column of `t` holds no JSON.
macro_rules! not_json {
    ($column:literal) => {
        concat!("NOT json_valid(t.", $column, ")")
    };
}

/// How many bytes a text has.
macro_rules! octets {
    ($column:literal) => {
        concat!("length(CAST(", $column, " AS blob))")
    };
}

/// A transaction that changes something. It takes the write lock at once: one that reads first and writes later would
/// fail when another has written in between.
async fn begin_write(pool: &Pool) -> Result<Transaction<'static, Sqlite>, Fault> {
    Ok(pool.begin_with("BEGIN IMMEDIATE").await?)
}

/// A transaction that reads one consistent view.
async fn begin_read(pool: &Pool) -> Result<Transaction<'static, Sqlite>, Fault> {
    Ok(pool.begin_with("BEGIN").await?)
}

/// The file is on this machine: a commit has an answer, however long it takes.
const COMMIT_HAS_AN_ANSWER: bool = true;

/// None: a commit always has an answer.
async fn mark(_db: &mut Connection) -> Result<Option<Mark>, Fault> {
    Ok(None)
}

/// What became of a transaction; never asked, as there is no mark.
async fn fate(_pool: &Pool, _mark: &Mark) -> Result<Fate, Fault> {
    Ok(Fate::TakenBack)
}

mod bulk;
#[expect(clippy::duplicate_mod, reason = "compiled against each database's types: see store/sql/mod.rs")]
#[path = "../sql/mod.rs"]
mod sql;
