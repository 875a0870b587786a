//! Migrations on `SQLite`.

use sqlx::query_scalar;

use super::{Connection, Pool, begin_write};
use crate::store::fault::Fault;
use crate::store::schema;

/// The schema's version; 0 when there is none.
pub(in crate::store) async fn version(pool: &Pool) -> Result<i64, Fault> {
    let mut connection = pool.acquire().await?;
    read_version(&mut connection).await
}

async fn read_version(db: &mut Connection) -> Result<i64, Fault> {
    let tables: i64 =
        query_scalar("SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'kl_migrations'")
            .fetch_one(&mut *db)
            .await?;
    if tables == 0 {
        return Ok(0);
    }
    Ok(query_scalar("SELECT COALESCE(MAX(version), 0) FROM kl_migrations WHERE success").fetch_one(db).await?)
}

/// Applies what is missing. sqlx does not lock `SQLite`, so all of it is one transaction that holds the write lock:
/// another process waits, and then finds nothing to do.
pub(in crate::store) async fn run(pool: &Pool) -> Result<(i64, i64), Fault> {
    let mut transaction = begin_write(pool).await?;
    let before = read_version(&mut transaction).await?;
    schema::not_newer(before)?;
    schema::sqlite().run_direct(None, &mut *transaction, false).await.map_err(sqlx::Error::from)?;
    let after = read_version(&mut transaction).await?;
    transaction.commit().await?;
    Ok((before, after))
}
