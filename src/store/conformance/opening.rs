//! Opening a database: what is made, what is refused, and what an error says.

use std::error::Error as _;
use std::os::unix::fs::PermissionsExt as _;

use super::support::Database;
use crate::store::{DatabaseUrl, StoreError, open, open_unchecked};

async fn why(url: &str) -> String {
    match open(&url.parse().unwrap()).await.map(drop) {
        Err(error @ StoreError::Open { .. }) => {
            let mut told = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                told = format!("{told}: {error}");
                cause = error.source();
            }
            told
        }
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn a_sqlite_file_is_made_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = camino::Utf8PathBuf::try_from(directory.path().join(".kl/kl.db")).unwrap();
    let store = open(&DatabaseUrl::sqlite(&path)).await.unwrap();
    assert!(store.state_list().await.unwrap().is_empty());
    for file in ["kl.db", "kl.db-wal", "kl.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::read_to_string(path.with_file_name(".gitignore")).unwrap(), "*\n");
    // A link says where it is to be.
    let link = path.with_file_name("link.db");
    std::os::unix::fs::symlink("linked.db", &link).unwrap();
    drop(open(&DatabaseUrl::sqlite(&link)).await.unwrap());
    let mode = std::fs::metadata(path.with_file_name("linked.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_is_no_database_of_kl_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("text"), "not a database, but longer than the header of one: ".repeat(40)).unwrap();
    let other = Database::sqlite();
    {
        use sqlx::{Connection as _, Executor as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path("other")).create_if_missing(true);
        let mut raw = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        raw.execute("CREATE TABLE states (id INTEGER)").await.unwrap();
        raw.close().await.unwrap();
    }
    for (url, reason) in [
        (path(""), "it is a directory"),
        (path("no/where.db"), "does not exist"),
        (path("text"), "not a SQLite database"),
        (path("text/kl.db"), "the file cannot be read and written: Not a directory"),
        (path("other"), "of another program"),
    ] {
        let told = why(&url).await;
        assert!(told.starts_with(&format!("cannot open the database sqlite:{url}: ")), "{told}");
        assert!(told.contains(reason), "{told}");
    }
    assert!(std::fs::read_to_string(path("text")).unwrap().starts_with("not a database"));
    open_unchecked(&other.url().parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn an_error_of_postgres_never_shows_the_password() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        format!("postgres://kl:hunter2@{nobody}/kl"),
        format!("postgres://kl@{nobody}/kl?password=hunter2"),
        "postgres://kl:hunter2@localhost/kl?host=/no/such/directory".to_owned(),
        "postgres://kl:hunter2@localhost/kl?sslmode=wrong".to_owned(),
        "postgres://kl:hunter2@localhost:wrong/kl".to_owned(),
    ] {
        let told = why(&url).await;
        assert!(!told.contains("hunter2") && !told.contains("kl@"), "{told}");
    }
}
