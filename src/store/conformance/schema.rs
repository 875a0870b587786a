//! The schema: migrations, versions, documentation.

use std::collections::BTreeSet;

use super::fixture::Fixture;
use super::support::Database;
use crate::store::schema::VERSION;
use crate::store::{StoreError, open, open_unchecked};

pub(super) async fn migrating_again_does_nothing(f: &Fixture) {
    assert_eq!(f.store.migrate().await.unwrap(), (VERSION, VERSION));
    f.store.schema_check().await.unwrap();
    f.state("prod").await;
    assert_eq!(f.another().await.migrate().await.unwrap(), (VERSION, VERSION));
}

pub(super) async fn a_newer_schema_is_refused(f: &Fixture) {
    let checksum = if f.is_sqlite() { "x''" } else { "''::bytea" };
    f.sql(&format!(
        "INSERT INTO kl_migrations (version, description, success, checksum, execution_time)
         VALUES ({}, 'later', true, {checksum}, 0)",
        VERSION + 1
    ))
    .await
    .unwrap();
    let newer = |error: &StoreError| matches!(error, StoreError::SchemaTooNew { found, known } if *found == VERSION + 1 && *known == VERSION);
    assert!(newer(&f.store.schema_check().await.unwrap_err()));
    assert!(newer(&f.store.migrate().await.unwrap_err()));
    assert!(newer(&open(&f.url()).await.map(drop).unwrap_err()));
}

/// `table.column` of everything in the database.
async fn columns(f: &Fixture) -> BTreeSet<String> {
    let sql = if f.is_sqlite() {
        "SELECT s.name || '.' || c.name FROM sqlite_schema s, pragma_table_xinfo(s.name) c
         WHERE s.type IN ('table', 'view') AND s.name <> 'kl_migrations' AND s.name <> 'sqlite_sequence'"
    } else {
        "SELECT table_name || '.' || column_name FROM information_schema.columns
         WHERE table_schema = 'public' AND table_name <> 'kl_migrations'"
    };
    f.sql(sql).await.unwrap().into_iter().collect()
}

/// `table.column` of everything in docs/schema.md: a heading with the table, then rows with a column each.
fn documented() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut table = "";
    for line in include_str!("../../../docs/schema.md").lines() {
        if let Some(name) = line.strip_prefix("## `").and_then(|rest| rest.strip_suffix('`')) {
            table = name;
        } else if let Some(rest) = line.strip_prefix("| `") {
            let (column, rest) = rest.split_once("` | ").expect("a column and what it means");
            assert!(rest.trim_end_matches(['|', ' ']).len() > 3, "{table}.{column} is not explained");
            found.insert(format!("{table}.{column}"));
        }
    }
    found
}

pub(super) async fn every_column_is_documented(f: &Fixture) {
    f.store.schema_check().await.unwrap();
    let (actual, documented) = (columns(f).await, documented());
    let missing: Vec<_> = actual.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&actual).collect();
    assert!(missing.is_empty() && stale.is_empty(), "docs/schema.md lacks {missing:?} and has in excess {stale:?}");
    if !f.is_sqlite() {
        let silent = f
            .sql(
                "SELECT c.relname::text || '.' || coalesce(a.attname::text, '') FROM pg_class c
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum >= 0 AND NOT a.attisdropped
                 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname <> 'kl_migrations'
                   AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid, 'pg_class') IS NULL)",
            )
            .await
            .unwrap();
        assert!(silent.is_empty(), "without a comment: {silent:?}");
    }
}

/// Every column of the `SQLite` migrations has a comment behind it, and every table one before it.
#[test]
fn the_sqlite_schema_explains_itself() {
    let mut before = "";
    let mut inside = false;
    let migrations = [
        include_str!("../../../migrations/sqlite/0001_init.sql"),
        include_str!("../../../migrations/sqlite/0002_requests.sql"),
    ];
    for line in migrations.iter().flat_map(|migration| migration.lines()) {
        if line.starts_with("CREATE TABLE") || line.starts_with("CREATE VIEW") {
            assert!(before.starts_with("-- "), "{line}");
            inside = line.starts_with("CREATE TABLE");
        } else if line.starts_with(')') {
            inside = false;
        } else if inside {
            let column = line.trim_start().starts_with(|letter: char| letter.is_ascii_lowercase());
            assert!(!column || line.contains("-- "), "{line}");
        }
        before = line;
    }
}

/// Four processes that find an empty database at once.
async fn migrate_together(url: &str) {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let url = url.parse().unwrap();
            tokio::spawn(async move { open_unchecked(&url).await.unwrap().migrate().await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().1, VERSION);
    }
    open(&url.parse().unwrap()).await.unwrap().state_list().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_processes_migrate_at_once() {
    migrate_together(Database::sqlite().url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_processes_open_an_empty_file_at_once() {
    let database = Database::sqlite();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let url = database.url().parse().unwrap();
            tokio::spawn(async move { open(&url).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_processes_migrate_at_once_and_an_older_schema_is_refused() {
    let Some(database) = Database::postgres_empty().await else {
        return;
    };
    let old = open(&database.url().parse().unwrap()).await.map(drop).unwrap_err();
    assert!(matches!(old, StoreError::SchemaTooOld { found: 0, needed: VERSION }), "{old:?}");
    migrate_together(database.url()).await;
}
