//! The store's statements and stories that both databases understand alike, written once.
//!
//! This folder is compiled twice: as `sqlite::sql` and as `postgres::sql`. Each of those two gives it, from the module
//! above: `Connection` and `Pool`, `begin_read` and `begin_write`, `mark` and `fate` of a transaction, `migration`, the
//! statements over many rows in `bulk`, and the macros `now!`, `lock_row!`, `new_id!`, `new_secret!`, `json_list!`,
//! `unhex!`, `not_json!` and `octets!` for words that differ. `store::values` does the same
//! for types of columns. A generic function over sqlx's `Database` would need a page of bounds for each statement.
//!
//! Every function takes a connection and leaves transactions to `database`.

use super::{COMMIT_HAS_AN_ANSWER, Connection, Pool, begin_read, begin_write, bulk, fate, mark, migration};

#[macro_use]
mod transaction;

mod check;
mod comments;
mod commit;
mod contents;
mod database;
mod ending;
mod footprint;
mod garbage;
mod locks;
mod origins;
mod requests;
mod reservations;
mod runs;
mod states;
mod timeline;
mod tokens;
mod versions;
mod workplaces;

pub(in crate::store) use database::Database;
pub(super) use reservations::Place;
