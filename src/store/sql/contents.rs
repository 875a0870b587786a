//! What stood in single rows at single serials, by one step into an index each.

use std::collections::HashMap;

use sqlx::query_as;

use super::{Connection, states};
use crate::domain::id::{Serial, StateId};
use crate::domain::state::{Body, RowKey};
use crate::store::codec;
use crate::store::fault::Fault;
use crate::store::values::Id;

/// So many rows are asked for at once.
const PAGE: usize = 500;

pub(super) async fn row_contents(
    db: &mut Connection,
    state: StateId,
    at: &[(RowKey, Serial)],
) -> Result<Vec<Option<Body>>, Fault> {
    states::by_id(db, state).await?;
    // The digest of a row's key has 64 hex digits; its serial follows.
    let asked: Vec<String> = at.iter().map(|(key, serial)| format!("{}{serial}", key.digest())).collect();
    let mut found: HashMap<String, Body> = HashMap::new();
    for page in asked.chunks(PAGE) {
        // `SQLite` takes a `CROSS JOIN` in its order. The lifecycles of a row follow each other.
        let rows: Vec<(String, Vec<u8>, String)> = query_as(concat!(
            "SELECT keys.value, r.content_hash, b.body FROM ",
            json_list!("$2"),
            " AS keys CROSS JOIN resources r CROSS JOIN resource_bodies b
             WHERE r.state_id = $1 AND r.row_key = ",
            unhex!("substr(keys.value, 1, 64)"),
            " AND r.from_serial = (SELECT MAX(q.from_serial) FROM resources q
                                   WHERE q.state_id = $1 AND q.from_serial <= CAST(substr(keys.value, 65) AS bigint)
                                     AND q.row_key = ",
            unhex!("substr(keys.value, 1, 64)"),
            ")
              AND (r.to_serial IS NULL OR r.to_serial > CAST(substr(keys.value, 65) AS bigint))
              AND b.content_hash = r.content_hash"
        ))
        .bind(Id(state.0))
        .bind(codec::json(&page)?)
        .fetch_all(&mut *db)
        .await?;
        for (asked, hash, body) in rows {
            found.insert(asked, Body::stored(body, codec::content_hash(&hash)?));
        }
    }
    Ok(asked.iter().map(|asked| found.get(asked).cloned()).collect())
}
