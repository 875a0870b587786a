//! The sticky comment of a request: what was posted, and whose turn it is to render it.

use std::time::Duration;

use sqlx::{query, query_as};
use uuid::Uuid;

use super::reservations::after;
use super::{Connection, states};
use crate::domain::request::RequestRef;
use crate::store::StoreError;
use crate::store::codec;
use crate::store::codec::request::{number, posted};
use crate::store::fault::Fault;
use crate::store::model::{CommentLock, PostedComment};
use crate::store::values::{Id, Time};

pub(super) async fn find(db: &mut Connection, request: &RequestRef) -> Result<Option<PostedComment>, Fault> {
    let found: Option<(Option<String>, Option<String>, Option<String>)> =
        query_as("SELECT comment_id, url, digest FROM comments WHERE forge = $1 AND repository = $2 AND request = $3")
            .bind(request.forge.word())
            .bind(&request.repository)
            .bind(number(request))
            .fetch_optional(db)
            .await?;
    Ok(found.and_then(posted))
}

/// Who has the lock, and until when. The row stays locked until the end of the transaction.
async fn locked(db: &mut Connection, request: &RequestRef) -> Result<Option<(Uuid, Time)>, Fault> {
    let found: Option<(Option<Id>, Option<Time>)> = query_as(concat!(
        "SELECT locked_by, locked_until FROM comments WHERE forge = $1 AND repository = $2 AND request = $3",
        lock_row!()
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .fetch_optional(db)
    .await?;
    Ok(found.and_then(|(by, until)| Some((by?.0, until?))))
}

pub(super) async fn lock(
    db: &mut Connection,
    request: &RequestRef,
    owner: Uuid,
    ttl: Duration,
) -> Result<CommentLock, Fault> {
    query(
        "INSERT INTO comments (forge, repository, request) VALUES ($1, $2, $3)
         ON CONFLICT (forge, repository, request) DO NOTHING",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .execute(&mut *db)
    .await?;
    let held = locked(db, request).await?;
    let now = states::now(db).await?;
    if let Some((by, Time(until))) = held
        && by != owner
        && let Ok(remaining) = (until - now).to_std()
        && !remaining.is_zero()
    {
        return Ok(CommentLock::Busy { until, remaining });
    }
    let until = after(now, ttl);
    query(
        "UPDATE comments SET locked_by = $4, locked_until = $5 WHERE forge = $1 AND repository = $2 AND request = $3",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(Id(owner))
    .bind(Time(until))
    .execute(&mut *db)
    .await?;
    Ok(CommentLock::Granted { posted: find(db, request).await?, until })
}

pub(super) async fn save(
    db: &mut Connection,
    request: &RequestRef,
    owner: Uuid,
    posted: &PostedComment,
) -> Result<(), Fault> {
    let saved = query(concat!(
        "UPDATE comments SET comment_id = $5, url = $6, digest = $7, updated_at = ",
        now!(),
        " WHERE forge = $1 AND repository = $2 AND request = $3 AND locked_by = $4"
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(Id(owner))
    .bind(codec::plain(&posted.id))
    .bind(posted.url.as_deref().map(codec::plain))
    .bind(codec::plain(&posted.digest))
    .execute(db)
    .await?;
    match saved.rows_affected() {
        0 => Err(StoreError::CommentLockLost { request: request.clone() }.into()),
        _ => Ok(()),
    }
}

pub(super) async fn unlock(db: &mut Connection, request: &RequestRef, owner: Uuid) -> Result<(), Fault> {
    query(
        "UPDATE comments SET locked_by = NULL, locked_until = NULL
         WHERE forge = $1 AND repository = $2 AND request = $3 AND locked_by = $4",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(Id(owner))
    .execute(db)
    .await?;
    Ok(())
}
