//! The migrations, and whether a database's schema fits this binary.

use std::borrow::Cow;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::StoreError;

/// The newest version that this binary knows, which is also the one that it needs.
pub(in crate::store) const VERSION: i64 = 14;

/// The migrations of PostgreSQL.
pub(in crate::store) fn postgres() -> Migrator {
    migrator(&[
        (1, "init", include_str!("../../migrations/postgres/0001_init.sql")),
        (2, "requests", include_str!("../../migrations/postgres/0002_requests.sql")),
        (3, "leftovers", include_str!("../../migrations/postgres/0003_leftovers.sql")),
        (4, "gc", include_str!("../../migrations/postgres/0004_gc.sql")),
        (5, "views", include_str!("../../migrations/postgres/0005_views.sql")),
        (6, "plain_locks", include_str!("../../migrations/postgres/0006_plain_locks.sql")),
        (7, "tokens", include_str!("../../migrations/postgres/0007_tokens.sql")),
        (8, "travel", include_str!("../../migrations/postgres/0008_travel.sql")),
        (9, "modes", include_str!("../../migrations/postgres/0009_modes.sql")),
        (10, "lives", include_str!("../../migrations/postgres/0010_lives.sql")),
        (11, "trunk", include_str!("../../migrations/postgres/0011_trunk.sql")),
        (12, "touched", include_str!("../../migrations/postgres/0012_touched.sql")),
        (13, "overview", include_str!("../../migrations/postgres/0013_overview.sql")),
        (14, "whole_runs", include_str!("../../migrations/postgres/0014_whole_runs.sql")),
    ])
}

/// The migrations of `SQLite`: the same numbers and names.
pub(in crate::store) fn sqlite() -> Migrator {
    migrator(&[
        (1, "init", include_str!("../../migrations/sqlite/0001_init.sql")),
        (2, "requests", include_str!("../../migrations/sqlite/0002_requests.sql")),
        (3, "leftovers", include_str!("../../migrations/sqlite/0003_leftovers.sql")),
        (4, "gc", include_str!("../../migrations/sqlite/0004_gc.sql")),
        (5, "views", include_str!("../../migrations/sqlite/0005_views.sql")),
        (6, "plain_locks", include_str!("../../migrations/sqlite/0006_plain_locks.sql")),
        (7, "tokens", include_str!("../../migrations/sqlite/0007_tokens.sql")),
        (8, "travel", include_str!("../../migrations/sqlite/0008_travel.sql")),
        (9, "modes", include_str!("../../migrations/sqlite/0009_modes.sql")),
        (10, "lives", include_str!("../../migrations/sqlite/0010_lives.sql")),
        (11, "trunk", include_str!("../../migrations/sqlite/0011_trunk.sql")),
        (12, "touched", include_str!("../../migrations/sqlite/0012_touched.sql")),
        (13, "overview", include_str!("../../migrations/sqlite/0013_overview.sql")),
        (14, "whole_runs", include_str!("../../migrations/sqlite/0014_whole_runs.sql")),
    ])
}

fn migrator(files: &[(i64, &'static str, &'static str)]) -> Migrator {
    let one = |(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(files.iter().map(one).collect());
    // A name of our own: the database may be shared with another program that uses sqlx.
    migrator.dangerous_set_table_name("kl_migrations");
    migrator
}

/// Refuses a schema that another version of kl needs.
pub(in crate::store) fn check(found: i64) -> Result<(), StoreError> {
    not_newer(found)?;
    if found < VERSION { Err(StoreError::SchemaTooOld { found, needed: VERSION }) } else { Ok(()) }
}

/// Refuses a schema that a newer kl has made.
pub(in crate::store) fn not_newer(found: i64) -> Result<(), StoreError> {
    if found > VERSION { Err(StoreError::SchemaTooNew { found, known: VERSION }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations_and_version_names_the_last() {
        let names = |migrator: &Migrator| -> Vec<(i64, String)> {
            migrator.iter().map(|one| (one.version, one.description.to_string())).collect()
        };
        assert_eq!(names(&postgres()), names(&sqlite()));
        assert_eq!(postgres().iter().map(|one| one.version).max(), Some(VERSION));
    }
}
