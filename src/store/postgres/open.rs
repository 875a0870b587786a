//! Connecting to PostgreSQL.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, Executor as _, query_as};

use super::Database;
use crate::store::open::Unusable;

/// How long to wait for the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The oldest major version, as `server_version_num` has it.
const OLDEST: i32 = 130_000;
/// A transaction that its runner abandoned must not keep its locks; and nobody waits for a lock for ever.
const LIMITS: &str = "SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '30s'";

/// Connects, and checks that the server is one that kl can use.
pub(in crate::store) async fn connect(url: &str, connections: u32) -> Result<Database, Unusable> {
    let mut options = PgConnectOptions::from_str(url).map_err(Unusable::Sql)?;
    if !url.contains("application_name=") {
        options = options.application_name("kl");
    }
    // One connection outside the pool: a pool hides why it could not connect.
    let first = tokio::time::timeout(CONNECT_TIMEOUT, check(&options)).await;
    first.map_err(|_| Unusable::Silent(CONNECT_TIMEOUT))??;
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(30))
        .after_connect(|connection, _| Box::pin(async move { connection.execute(LIMITS).await.map(drop) }))
        .connect_lazy_with(options);
    Ok(Database::new(pool, None))
}

async fn check(options: &PgConnectOptions) -> Result<(), Unusable> {
    let mut connection = sqlx::PgConnection::connect_with(options).await.map_err(Unusable::Sql)?;
    let (number, version, encoding): (i32, String, String) = query_as(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                current_setting('server_encoding')",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(Unusable::Sql)?;
    connection.close().await.map_err(Unusable::Sql)?;
    if number < OLDEST {
        return Err(Unusable::OldServer { found: version, needed: OLDEST / 10_000 });
    }
    if encoding != "UTF8" {
        return Err(Unusable::Encoding(encoding));
    }
    Ok(())
}
