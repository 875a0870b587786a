//! Which version each row of a trunk comes from.

use chrono::DateTime;
use sqlx::query_as;

use super::{Connection, states, versions};
use crate::domain::address::Pattern;
use crate::domain::id::{Serial, StateId};
use crate::store::StoreError;
use crate::store::codec;
use crate::store::decide::ranges::{Range, ranges};
use crate::store::fault::Fault;
use crate::store::model::{OriginQuery, RowMark, RowOrigin};
use crate::store::values::{Id, Time};

/// `kind, address, qualifier, id, from_serial` of a lifecycle.
type OriginColumns = (String, String, String, i64, i64);

/// At least so many rows are read at once.
const PAGE: u32 = 200;

pub(super) async fn row_origins(
    db: &mut Connection,
    state: StateId,
    query: &OriginQuery,
) -> Result<Vec<RowOrigin>, Fault> {
    states::by_id(db, state).await?;
    let mut found = Vec::new();
    for range in ranges(&query.within) {
        let mut after = query.after.clone();
        while found.len() < query.limit as usize {
            // Many at once: not all of a range need be met.
            let page = page(db, state, query, &range, after.as_ref(), query.limit.max(PAGE)).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.mark.clone());
            found.extend(page.into_iter().filter(|row| meets(&query.within, row)));
        }
    }
    found.truncate(query.limit as usize);
    Ok(found)
}

/// The results of checks are met by the whole state alone.
fn meets(within: &Pattern, row: &RowOrigin) -> bool {
    row.key.pattern().map_or(*within == Pattern::Everything, |own| within.intersects(&own))
}

/// The rows of a range of addresses, met or not.
async fn page(
    db: &mut Connection,
    state: StateId,
    query: &OriginQuery,
    range: &Range,
    after: Option<&RowMark>,
    limit: u32,
) -> Result<Vec<RowOrigin>, Fault> {
    let resource = query.within.resource().map(|resource| resource.to_string()).unwrap_or_default();
    let mark = after.map_or("", |mark| &mark.address);
    // `SQLite` takes a `CROSS JOIN` in its order.
    let found: Vec<OriginColumns> = query_as(
        "SELECT r.kind, r.address, r.qualifier, r.id, r.from_serial
         FROM resources r CROSS JOIN state_versions v
         WHERE r.state_id = $1 AND r.to_serial IS NULL
           AND substr(r.address, 1, 500) >= substr($2, 1, 500) AND substr(r.address, 1, 500) <= substr($3, 1, 500)
           AND r.address >= $2 AND r.address < $3 AND (r.address, r.id) > ($4, $5)
           AND ($6 = '' OR r.resource_key = $6)
           AND v.state_id = r.state_id AND v.serial = r.from_serial AND v.committed_at >= $7
         ORDER BY substr(r.address, 1, 500), r.address, r.id LIMIT $8",
    )
    .bind(Id(state.0))
    .bind(range.from.as_str().max(mark))
    .bind(&range.to)
    .bind(mark)
    .bind(after.map_or(i64::MIN, |mark| mark.number))
    .bind(resource)
    .bind(Time(query.since.unwrap_or(DateTime::UNIX_EPOCH)))
    .bind(i64::from(limit))
    .fetch_all(&mut *db)
    .await?;
    let mut serials: Vec<Serial> = found.iter().map(|(.., serial)| Serial(*serial)).collect();
    serials.sort_unstable();
    serials.dedup();
    let versions = versions::of_serials(db, state, &serials).await?;
    let read = |(kind, address, qualifier, number, serial): OriginColumns| {
        let mark = RowMark { address: address.clone(), number };
        let key = codec::row_key(&(kind, address, qualifier))?;
        let version = versions.get(&Serial(serial)).cloned();
        let missing = || StoreError::Corrupt(format!("a row changed at serial {serial}, which is no version"));
        Ok(RowOrigin { key, mark, version: version.ok_or_else(missing)? })
    };
    Ok(found.into_iter().map(read).collect::<Result<_, StoreError>>()?)
}
