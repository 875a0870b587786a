//! The tokens of the HTTP backend.

use sqlx::{query, query_as, query_scalar};

use super::reservations::after;
use super::{Connection, states};
use crate::domain::id::Actor;
use crate::domain::token::TokenId;
use crate::store::codec::{self, TokenColumns};
use crate::store::fault::Fault;
use crate::store::model::{NewToken, StoredToken, TokenMade};
use crate::store::values::Time;
use crate::store::{StoreError, not_found};

/// `TokenColumns`, in their order.
macro_rules! columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, role, states, hash, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by, ",
            now!(),
            " FROM access_tokens ",
            $rest
        )
    };
}

pub(super) async fn insert(db: &mut Connection, new: &NewToken) -> Result<TokenMade, Fault> {
    let now = states::now(db).await?;
    let made = query(
        "INSERT INTO access_tokens (id, name, role, states, hash, created_at, created_by, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
    )
    .bind(new.id.as_str())
    .bind(new.name.as_str())
    .bind(new.role.word())
    .bind(new.states.as_str())
    .bind(new.hash.to_hex())
    .bind(Time(now))
    .bind(codec::plain(&new.by.0))
    .bind(new.lifetime.map(|lifetime| Time(after(now, lifetime))))
    .execute(&mut *db)
    .await?;
    if made.rows_affected() == 0 {
        let taken: Option<String> =
            query_scalar("SELECT id FROM access_tokens WHERE name = $1 AND revoked_at IS NULL AND id <> $2")
                .bind(new.name.as_str())
                .bind(new.id.as_str())
                .fetch_optional(&mut *db)
                .await?;
        let taken = taken.ok_or_else(|| StoreError::Stale(format!("there is a token {} already", new.id)))?;
        return Ok(TokenMade::NameTaken(codec::token_id(&taken)?));
    }
    let token = find(db, &new.id).await?.ok_or_else(|| not_found("token", &new.id))?;
    Ok(TokenMade::Made(token))
}

pub(super) async fn find(db: &mut Connection, id: &TokenId) -> Result<Option<StoredToken>, Fault> {
    let found: Option<TokenColumns> = query_as(columns!("WHERE id = $1")).bind(id.as_str()).fetch_optional(db).await?;
    Ok(found.map(codec::token).transpose()?)
}

pub(super) async fn list(db: &mut Connection) -> Result<Vec<StoredToken>, Fault> {
    let found: Vec<TokenColumns> = query_as(columns!("ORDER BY created_at, id")).fetch_all(db).await?;
    Ok(found.into_iter().map(codec::token).collect::<Result<_, _>>()?)
}

pub(super) async fn used(db: &mut Connection, id: &TokenId) -> Result<(), Fault> {
    query(concat!("UPDATE access_tokens SET last_used_at = ", now!(), " WHERE id = $1"))
        .bind(id.as_str())
        .execute(db)
        .await?;
    Ok(())
}

pub(super) async fn revoke(db: &mut Connection, id: &TokenId, by: &Actor) -> Result<StoredToken, Fault> {
    query(concat!(
        "UPDATE access_tokens SET revoked_at = ",
        now!(),
        ", revoked_by = $2 WHERE id = $1 AND revoked_at IS NULL"
    ))
    .bind(id.as_str())
    .bind(codec::plain(&by.0))
    .execute(&mut *db)
    .await?;
    Ok(find(db, id).await?.ok_or_else(|| not_found("token", id))?)
}
