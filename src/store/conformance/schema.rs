//! The schema: migrations, versions, documentation.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::str::FromStr as _;

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, SqliteConnection};

use super::fixture::Fixture;
use super::support::Database;
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::Serial;
use crate::domain::request::{ForgeKind, RequestRef};
use crate::domain::run::{RunKind, RunStatus};
use crate::store::model::{CommitMode, PostedComment, Source};
use crate::store::schema::{VERSION, postgres, sqlite};
use crate::store::{StoreError, open, open_unchecked};

pub(super) async fn migrating_again_does_nothing(f: &Fixture) {
    assert_eq!(f.store.migrate().await.unwrap(), (VERSION, VERSION));
    f.store.schema_check().await.unwrap();
    f.state("prod").await;
    assert_eq!(f.another().await.migrate().await.unwrap(), (VERSION, VERSION));
}

pub(super) async fn a_newer_schema_is_refused(f: &Fixture) {
    f.corrupted_on_purpose();
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

/// Every word that a value of the type can be.
fn words_of<T: DeserializeOwned + Debug>() -> Vec<String> {
    let error = serde_json::from_str::<T>("\"?\"").unwrap_err().to_string();
    let words: Vec<String> = error.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(words.len() > 1, "{error}");
    words
}

#[test]
fn the_words_in_a_column_are_those_that_the_page_lists() {
    let known = [
        ("kind", ["runs", "run_overview"].as_slice(), words_of::<RunKind>()),
        ("status", &["runs", "apply_runs", "refresh_runs", "run_overview"], words_of::<RunStatus>()),
        (
            "source",
            &["state_versions", "current_resources", "resource_changes", "version_overview"],
            words_of::<Source>(),
        ),
        ("mode", &["state_versions", "version_overview"], words_of::<CommitMode>()),
        ("held_as", &["resource_reservations", "run_conflicts"], words_of::<HeldAs>()),
    ];
    for (column, tables, words) in known {
        for table in tables {
            let section = include_str!("../../../docs/schema.md").split(&format!("## `{table}`\n")).nth(1).unwrap();
            let section = section.split("\n## ").next().unwrap();
            let line = section.lines().find(|line| line.starts_with(&format!("| `{column}` |"))).unwrap();
            let listed: BTreeSet<&str> = line
                .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
                .filter(|word| !word.is_empty())
                .collect();
            let missing: Vec<&String> = words.iter().filter(|word| !listed.contains(word.as_str())).collect();
            assert!(missing.is_empty(), "docs/schema.md, {table}.{column} lacks {missing:?}");
        }
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
        include_str!("../../../migrations/sqlite/0003_leftovers.sql"),
        include_str!("../../../migrations/sqlite/0004_gc.sql"),
        include_str!("../../../migrations/sqlite/0005_views.sql"),
        include_str!("../../../migrations/sqlite/0006_plain_locks.sql"),
        include_str!("../../../migrations/sqlite/0007_tokens.sql"),
        include_str!("../../../migrations/sqlite/0008_travel.sql"),
        include_str!("../../../migrations/sqlite/0009_modes.sql"),
        include_str!("../../../migrations/sqlite/0010_lives.sql"),
        include_str!("../../../migrations/sqlite/0011_trunk.sql"),
        include_str!("../../../migrations/sqlite/0012_touched.sql"),
        include_str!("../../../migrations/sqlite/0013_overview.sql"),
        include_str!("../../../migrations/sqlite/0014_whole_runs.sql"),
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
        // What comes in the place of another view has its comment before both.
        if !line.starts_with("DROP VIEW") {
            before = line;
        }
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

/// What stands in a database of the first schema: a comment, a run of a request, a run from a laptop, and one that was
/// ended after it had made two versions.
const OLD: [&str; 6] = [
    "INSERT INTO comments (forge, repository, request, comment_id, digest, updated_at) VALUES ('gitlab', 'g/r', 7, '1', 'd', NOW)",
    "INSERT INTO states (id, name, secret, created_at) VALUES ('0189a000-0000-7000-8000-000000000000', 'prod', '', NOW)",
    "INSERT INTO runs (id, state_id, kind, status, actor, origin, source_serial, tools, claims, started_at)
     SELECT '0189a000-0000-7000-8000-000000000001', id, 'apply', 'started', 'alice',
            '{\"forge\":\"gitlab\",\"repository\":\"g/r\",\"request\":7}', 0,
            '{\"program\":\"tofu\",\"version\":\"1\",\"providers\":{}}', '[]', NOW FROM states
     UNION ALL
     SELECT '0189a000-0000-7000-8000-000000000002', id, 'apply', 'started', 'bob', '{}', 0,
            '{\"program\":\"tofu\",\"version\":\"1\",\"providers\":{}}', '[]', NOW FROM states",
    "UPDATE runs SET status = 'aborted', ended_at = NOW WHERE actor = 'bob'",
    "UPDATE states SET serial = 2",
    "INSERT INTO state_versions (state_id, serial, source_serial, committed_at, actor, origin, run_id, source, mode,
                                 terraform_version, document, providers, rows_opened, rows_closed)
     SELECT s.id, n.serial, 0, NOW, 'bob', '{}', r.id, 'apply', 'row-delta', '1', '[]', '{}', 0, 0
     FROM states s JOIN runs r ON r.actor = 'bob' CROSS JOIN (SELECT 1 AS serial UNION ALL SELECT 2) n",
];

/// What stood in a database of the first schema is there after the migration.
async fn upgraded(url: &str) {
    let store = open_unchecked(&url.parse().unwrap()).await.unwrap();
    assert_eq!(store.migrate().await.unwrap(), (1, VERSION));
    let request = RequestRef { forge: ForgeKind::Gitlab, repository: "g/r".to_owned(), number: 7 };
    let posted = PostedComment { id: "1".to_owned(), url: None, digest: "d".to_owned() };
    assert_eq!(store.comment_find(&request).await.unwrap(), Some(posted));
    let runs = store.runs_of_request(&request, 10).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.actor.0.as_str()).collect::<Vec<_>>(), ["alice"]);
    let bob = store.run_search("0002").await.unwrap().remove(0);
    assert_eq!((bob.status, bob.result_serial), (RunStatus::Aborted, Some(Serial(2))));
}

#[tokio::test]
async fn a_sqlite_database_of_the_first_schema_keeps_what_it_holds() {
    let database = Database::sqlite();
    let options = SqliteConnectOptions::from_str(database.url()).unwrap().create_if_missing(true);
    let mut raw = SqliteConnection::connect_with(&options).await.unwrap();
    let mut first = sqlite();
    first.migrations.to_mut().truncate(1);
    first.run_direct(None, &mut raw, false).await.unwrap();
    for sql in OLD {
        raw.execute(AssertSqlSafe(sql.replace("NOW", "0"))).await.unwrap();
    }
    raw.close().await.unwrap();
    upgraded(database.url()).await;
}

#[tokio::test]
async fn a_postgres_database_of_the_first_schema_keeps_what_it_holds() {
    let Some(database) = Database::postgres_empty().await else {
        return;
    };
    let mut raw = PgConnection::connect(database.url()).await.unwrap();
    let mut first = postgres();
    first.migrations.to_mut().truncate(1);
    first.run_direct(None, &mut raw, false).await.unwrap();
    for sql in OLD {
        raw.execute(AssertSqlSafe(
            sql.replace("NOW", "now()")
                .replace("SELECT '0189", "SELECT uuid '0189")
                .replace("'{", "json '{")
                .replace("'[]'", "json '[]'"),
        ))
        .await
        .unwrap();
    }
    raw.close().await.unwrap();
    upgraded(database.url()).await;
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
