//! The store on PostgreSQL.
//!
//! The statements that both databases understand alike stand in `store/sql/`, and are compiled here against this
//! one's types. Here is what differs: how a transaction begins, the words for now and for a row's lock, statements over
//! many rows, migrations, opening.

mod migration;
mod open;

use sqlx::{Postgres, Transaction};

pub(in crate::store) use open::connect;
pub(in crate::store) use sql::Database;

use crate::store::care::{Fate, Mark};
use crate::store::fault::Fault;

type Connection = sqlx::PgConnection;
type Pool = sqlx::PgPool;

/// The time, also within a transaction.
macro_rules! now {
    () => {
        "clock_timestamp()"
    };
}

/// What makes a SELECT lock its row until the end of the transaction, without holding up foreign keys to it.
macro_rules! lock_row {
    () => {
        " FOR NO KEY UPDATE"
    };
}

/// A new id.
macro_rules! new_id {
    () => {
        "gen_random_uuid()"
    };
}

/// 244 random bits in hex.
macro_rules! new_secret {
    () => {
        "replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')"
    };
}

/// The texts of a parameter that is a JSON list, as a table.
macro_rules! json_list {
    ($parameter:literal) => {
        concat!("json_array_elements_text(", $parameter, ")")
    };
}

/// The ids of a parameter that is a JSON list, as a subquery.
macro_rules! id_list {
    ($parameter:literal) => {
        concat!("SELECT CAST(value AS uuid) FROM json_array_elements_text(", $parameter, ")")
    };
}

/// The bytes of a text of hex digits.
macro_rules! unhex {
    ($text:literal) => {
        concat!("decode(", $text, ", 'hex')")
    };
}

/// Whether a column of `t` holds no JSON: its type does not let it.
macro_rules! not_json {
    ($column:literal) => {
        "FALSE"
    };
}

/// How many bytes a text has.
macro_rules! octets {
    ($column:literal) => {
        concat!("CAST(octet_length(CAST(", $column, " AS text)) AS bigint)")
    };
}

/// A transaction that changes something. It sees what others have committed, whatever the database has for a default; the
/// lock on the state does the rest.
async fn begin_write(pool: &Pool) -> Result<Transaction<'static, Postgres>, Fault> {
    Ok(pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?)
}

/// A transaction that reads one consistent view.
async fn begin_read(pool: &Pool) -> Result<Transaction<'static, Postgres>, Fault> {
    Ok(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
}

/// An answer can be lost on its way.
const COMMIT_HAS_AN_ANSWER: bool = false;

/// The mark of a transaction that has written something: its id, which the server remembers (PostgreSQL 13 and newer).
async fn mark(db: &mut Connection) -> Result<Option<Mark>, Fault> {
    let id: Option<String> = sqlx::query_scalar("SELECT pg_current_xact_id_if_assigned()::text").fetch_one(db).await?;
    Ok(id.map(Mark))
}

/// What became of a transaction.
async fn fate(pool: &Pool, mark: &Mark) -> Result<Fate, Fault> {
    let asked = sqlx::query_scalar("SELECT pg_xact_status(CAST($1 AS text)::xid8)").bind(&mark.0).fetch_one(pool).await;
    let status: Option<String> = match asked.map_err(Fault::from) {
        // A server that took over without having heard of it.
        Err(fault) if fault.unknown_transaction() => return Ok(Fate::TakenBack),
        asked => asked?,
    };
    Ok(match status.as_deref() {
        Some("committed") => Fate::Committed,
        Some("in progress") => Fate::Open,
        _ => Fate::TakenBack,
    })
}

mod bulk;
#[expect(clippy::duplicate_mod, reason = "compiled against each database's types: see store/sql/mod.rs")]
#[path = "../sql/mod.rs"]
mod sql;
