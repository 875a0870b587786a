//! Migrations on PostgreSQL.

use sqlx::query_scalar;

use super::Pool;
use crate::store::fault::Fault;
use crate::store::schema;

/// The schema's version; 0 when there is none.
pub(in crate::store) async fn version(pool: &Pool) -> Result<i64, Fault> {
    let table: Option<String> = query_scalar("SELECT to_regclass('kl_migrations')::text").fetch_one(pool).await?;
    if table.is_none() {
        return Ok(0);
    }
    Ok(query_scalar("SELECT COALESCE(MAX(version), 0) FROM kl_migrations WHERE success").fetch_one(pool).await?)
}

/// Applies what is missing. sqlx holds an advisory lock meanwhile, so that others wait and then find nothing to do.
pub(in crate::store) async fn run(pool: &Pool) -> Result<(i64, i64), Fault> {
    let before = version(pool).await?;
    schema::not_newer(before)?;
    // A connection of its own: after a failure the advisory lock goes away with it.
    let mut connection = pool.acquire().await?.detach();
    schema::postgres().run_direct(None, &mut connection, false).await.map_err(sqlx::Error::from)?;
    Ok((before, version(pool).await?))
}
