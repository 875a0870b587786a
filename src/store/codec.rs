//! Between stored columns and values of the domain: words, JSON, rows.

pub(in crate::store) mod request;

use std::collections::{BTreeMap, HashMap};

use secrecy::SecretString;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use serde::{Deserialize, Serialize};

use super::decide::Unreleased;
use super::model::{Checkpoint, NewSpec, StateHead, StoredSpec, StoredToken, Version};
use super::values::{Id, JsonText, Time};
use super::{StoreError, decide};
use crate::domain::address::{Mode, Pattern};
use crate::domain::coordination::reservation::{AccessMode, Claim, HeldAs, Reservation};
use crate::domain::id::{Actor, Lineage, RunId, Serial, SpecId, StateId, StateName};
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::domain::run::workplace::{ProcessGroup, Workplace};
use crate::domain::run::{Origin, Run, RunKind, RunStatus};
use crate::domain::state::{Body, ContentHash, Row, RowKey, RowKeyDigest};
use crate::domain::token::{Role, StatePattern, TokenHash, TokenId, TokenName};

/// `id, name, lineage, serial, secret` of a state.
pub(in crate::store) type StateColumns = (Id, String, Option<String>, i64, String);

/// `id, state_id, source_serial, actor, origin, digest, document, created_at` of a spec.
pub(in crate::store) type SpecColumns = (Id, Id, i64, String, JsonText, String, String, Time);

/// `id, state_id, kind, status, actor, origin, spec_id, source_serial, tools, claims, started_at, ended_at,
/// result_serial, error, conflict` of a run.
pub(in crate::store) type RunColumns = (
    Id,
    Id,
    String,
    String,
    String,
    JsonText,
    Option<Id>,
    i64,
    JsonText,
    JsonText,
    Time,
    Option<Time>,
    Option<i64>,
    Option<String>,
    JsonText,
);

/// `id, run_id, pattern, mode, held_as, asked_at, acquired_at, expires_at, ticket` of a reservation.
pub(in crate::store) type ReservationColumns = (i64, Id, String, String, String, Time, Option<Time>, Option<Time>, i64);

/// `serial, source_serial, committed_at, actor, origin, run_id, spec_id, source, mode, terraform_version,
/// rows_opened, rows_closed, rows_touched` of a version.
pub(in crate::store) type VersionColumns =
    (i64, i64, Time, String, JsonText, Option<Id>, Option<Id>, String, String, String, i64, i64, i64);

/// `host, dir, process_group, group_started, slice_serial` of a workplace.
pub(in crate::store) type WorkplaceColumns = (JsonText, String, Option<i64>, Option<i64>, i64);

/// `id, name, role, states, hash, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by` of a token, and
/// the time.
pub(in crate::store) type TokenColumns = (
    String,
    String,
    String,
    String,
    String,
    Time,
    String,
    Option<Time>,
    Option<Time>,
    Option<Time>,
    Option<String>,
    Time,
);

/// `kind, address, qualifier` of a row.
pub(in crate::store) type KeyColumns = (String, String, String);

fn corrupt(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what}: {error}"))
}

/// The stored word of a value whose JSON is one word.
pub(in crate::store) fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Reads such a word.
pub(in crate::store) fn from_word<'a, T: Deserialize<'a>>(word: &'a str) -> Result<T, StoreError> {
    let deserializer: StrDeserializer<'a, WordError> = word.into_deserializer();
    T::deserialize(deserializer).map_err(|error| corrupt("a word", error))
}

/// The JSON text of a value.
pub(in crate::store) fn json<T: Serialize>(value: &T) -> Result<JsonText, StoreError> {
    serde_json::to_string(value).map(JsonText).map_err(|error| corrupt("a value without JSON", error))
}

/// Reads such a text.
pub(in crate::store) fn from_json<T: DeserializeOwned>(text: &JsonText) -> Result<T, StoreError> {
    // The error of serde_json quotes words of the text; what kl stores as JSON holds no secret.
    serde_json::from_str(&text.0).map_err(|error| corrupt("a JSON column", error))
}

/// A text for people, without the one character that PostgreSQL's text cannot hold.
pub(in crate::store) fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The JSON text of an origin, from which PostgreSQL takes columns: without that character, too.
pub(in crate::store) fn origin(origin: &Origin) -> Result<JsonText, StoreError> {
    let plain = |text: &Option<String>| text.as_deref().map(self::plain);
    json(&Origin {
        forge: plain(&origin.forge),
        repository: plain(&origin.repository),
        request: origin.request,
        commit: plain(&origin.commit),
        job_url: plain(&origin.job_url),
        job: plain(&origin.job),
    })
}

pub(in crate::store) fn status(word: &str) -> Result<RunStatus, StoreError> {
    RunStatus::from_word(word).ok_or_else(|| corrupt("a run's status", word))
}

pub(in crate::store) fn state((id, name, lineage, serial, secret): StateColumns) -> Result<StateHead, StoreError> {
    Ok(StateHead {
        id: StateId(id.0),
        name: StateName::new(name).map_err(|error| corrupt("a state", error))?,
        lineage: lineage.map(Lineage),
        serial: Serial(serial),
        secret: SecretString::from(secret),
    })
}

pub(in crate::store) fn spec(columns: SpecColumns) -> Result<StoredSpec, StoreError> {
    let (id, state, source_serial, actor, origin, digest, document, created_at) = columns;
    Ok(StoredSpec {
        spec: NewSpec {
            id: SpecId(id.0),
            state: StateId(state.0),
            source_serial: Serial(source_serial),
            actor: Actor(actor),
            origin: from_json(&origin)?,
            digest,
            document,
        },
        created_at: created_at.0,
    })
}

pub(in crate::store) fn run(columns: RunColumns) -> Result<Run, StoreError> {
    let (
        id,
        state,
        kind,
        status_word,
        actor,
        origin,
        spec,
        source_serial,
        tools,
        claims,
        started,
        ended,
        serial,
        error,
        conflict,
    ) = columns;
    Ok(Run {
        id: RunId(id.0),
        state: StateId(state.0),
        kind: RunKind::from_word(&kind).ok_or_else(|| corrupt("a run's kind", kind))?,
        status: status(&status_word)?,
        actor: Actor(actor),
        origin: from_json(&origin)?,
        spec: spec.map(|id| SpecId(id.0)),
        source_serial: Serial(source_serial),
        tools: from_json(&tools)?,
        claims: from_json(&claims)?,
        started_at: started.0,
        ended_at: ended.map(|time| time.0),
        result_serial: serial.map(Serial),
        error,
        // Of a plain Terraform that waits it is what stands in the way until now; nothing has come of that yet.
        conflict: if ended.is_some() { from_json(&conflict)? } else { Vec::new() },
    })
}

/// Reads reservations; `runs` has the actor and origin of each run in them.
pub(in crate::store) fn standing(
    rows: Vec<ReservationColumns>,
    runs: Vec<(Id, String, JsonText)>,
) -> Result<Vec<Unreleased>, StoreError> {
    let mut known = HashMap::new();
    for (id, actor, origin) in runs {
        known.insert(id.0, (Actor(actor), from_json(&origin)?));
    }
    let read = |(id, run, pattern, mode, held_as, asked, acquired, expires, ticket): ReservationColumns| {
        let (holder, origin) =
            known.get(&run.0).cloned().ok_or_else(|| corrupt("a reservation without its run", run.0))?;
        let claim = Claim { pattern: self::pattern(&pattern)?, mode: from_word::<AccessMode>(&mode)? };
        let reservation = Reservation {
            run: RunId(run.0),
            holder,
            origin,
            claim,
            held_as: from_word::<HeldAs>(&held_as)?,
            asked_at: asked.0,
            acquired_at: acquired.map(|time| time.0),
            expires_at: expires.map(|time| time.0),
            ticket,
        };
        Ok(Unreleased { id, reservation })
    };
    rows.into_iter().map(read).collect()
}

fn pattern(text: &str) -> Result<Pattern, StoreError> {
    Pattern::parse(text).map_err(|error| corrupt("a pattern", error))
}

pub(in crate::store) fn version(columns: VersionColumns) -> Result<Version, StoreError> {
    let (serial, source_serial, at, actor, origin, run, spec, source, mode, terraform_version, opened, closed, touched) =
        columns;
    Ok(Version {
        serial: Serial(serial),
        source_serial: Serial(source_serial),
        at: at.0,
        actor: Actor(actor),
        origin: from_json(&origin)?,
        run: run.map(|id| RunId(id.0)),
        spec: spec.map(|id| SpecId(id.0)),
        source: from_word(&source)?,
        mode: from_word(&mode)?,
        terraform_version,
        rows_opened: opened,
        rows_closed: closed,
        rows_touched: touched,
        rows: Vec::new(),
    })
}

pub(in crate::store) fn row_key((kind, address, qualifier): &KeyColumns) -> Result<RowKey, StoreError> {
    RowKey::from_parts(kind, address, qualifier).map_err(|error| corrupt("a row's address", error))
}

fn digest(bytes: &[u8]) -> Result<[u8; 32], StoreError> {
    bytes.try_into().map_err(|_| corrupt("a digest of another length", bytes.len()))
}

pub(in crate::store) fn content_hash(bytes: &[u8]) -> Result<ContentHash, StoreError> {
    digest(bytes).map(ContentHash)
}

pub(in crate::store) fn row_digest(bytes: &[u8]) -> Result<RowKeyDigest, StoreError> {
    digest(bytes).map(RowKeyDigest)
}

/// Reads a row and the serial since when it has its content.
pub(in crate::store) fn row(
    (kind, address, qualifier, hash, body, since): (String, String, String, Vec<u8>, String, i64),
) -> Result<(Row, Serial), StoreError> {
    let key = row_key(&(kind, address, qualifier))?;
    Ok((Row { key, body: Body::stored(body, content_hash(&hash)?) }, Serial(since)))
}

pub(in crate::store) fn event((seq, at, event): (i64, Time, JsonText)) -> Result<RecordedEvent, StoreError> {
    Ok(RecordedEvent { seq, at: at.0, event: from_json(&event)? })
}

/// The word for what happened, and the event as JSON.
pub(in crate::store) fn event_columns(event: &RunEvent) -> Result<(String, JsonText), StoreError> {
    #[derive(Deserialize)]
    struct Tag {
        kind: String,
    }
    let text = json(event)?;
    let Tag { kind } = from_json(&text)?;
    Ok((kind, text))
}

pub(in crate::store) fn checkpoint(
    (state, changed, in_flight, slice_serial): (String, JsonText, JsonText, Option<i64>),
) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint {
        state,
        changed: from_json(&changed)?,
        in_flight: from_json(&in_flight)?,
        slice_serial: slice_serial.map(Serial),
    })
}

pub(in crate::store) fn workplace(
    (host, dir, group, started, slice_serial): WorkplaceColumns,
) -> Result<Workplace, StoreError> {
    let group = match group {
        None => None,
        Some(id) => Some(ProcessGroup {
            id: id.try_into().map_err(|error| corrupt("a process group", error))?,
            started: started.map(u64::try_from).transpose().map_err(|error| corrupt("a process's start", error))?,
        }),
    };
    Ok(Workplace { host: from_json(&host)?, dir, group, slice_serial: Serial(slice_serial) })
}

pub(in crate::store) fn token_id(text: &str) -> Result<TokenId, StoreError> {
    text.parse().map_err(|error| corrupt("the id of a token", error))
}

pub(in crate::store) fn token(columns: TokenColumns) -> Result<StoredToken, StoreError> {
    let (id, name, role, states, hash, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by, now) =
        columns;
    let id = token_id(&id)?;
    Ok(StoredToken {
        name: TokenName::new(name).map_err(|error| corrupt("the name of a token", error))?,
        role: Role::from_word(&role).ok_or_else(|| corrupt("the role of a token", role))?,
        states: StatePattern::new(states).map_err(|error| corrupt("the states of a token", error))?,
        hash: TokenHash::from_hex(&hash).ok_or_else(|| corrupt("the digest of a token", &id))?,
        id,
        created_at: created_at.0,
        created_by: Actor(created_by),
        expires_at: expires_at.map(|at| at.0),
        last_used_at: last_used_at.map(|at| at.0),
        revoked_at: revoked_at.map(|at| at.0),
        revoked_by: revoked_by.map(Actor),
        now: now.0,
    })
}

/// Reads a JSON object of texts.
pub(in crate::store) fn text_map(text: &JsonText) -> Result<BTreeMap<String, String>, StoreError> {
    from_json(text)
}

/// The structured columns beside a row's address.
pub(in crate::store) struct AddressColumns {
    pub(in crate::store) module_path: String,
    pub(in crate::store) resource_key: Option<String>,
    pub(in crate::store) mode: Option<&'static str>,
    pub(in crate::store) type_name: Option<String>,
    pub(in crate::store) name: Option<String>,
}

/// A row to open, as columns.
pub(in crate::store) struct RowColumns {
    pub(in crate::store) digest: Vec<u8>,
    pub(in crate::store) kind: &'static str,
    pub(in crate::store) address: String,
    pub(in crate::store) qualifier: String,
    pub(in crate::store) parts: AddressColumns,
    pub(in crate::store) hash: Vec<u8>,
}

/// The columns of the rows that a commit opens.
pub(in crate::store) fn row_columns(open: &[decide::Opened<'_>]) -> Vec<RowColumns> {
    open.iter()
        .map(|opened| RowColumns {
            digest: opened.digest.0.to_vec(),
            kind: opened.key.kind(),
            address: opened.key.address_text(),
            qualifier: opened.key.qualifier().to_owned(),
            parts: address_columns(opened.key),
            hash: opened.body.hash().0.to_vec(),
        })
        .collect()
}

fn address_columns(key: &RowKey) -> AddressColumns {
    match key {
        RowKey::Object { address, .. } | RowKey::Husk(address) => AddressColumns {
            module_path: address.module.to_string(),
            resource_key: Some(address.config().to_string()),
            mode: Some(match address.mode {
                Mode::Managed => "managed",
                Mode::Data => "data",
                Mode::Ephemeral => "ephemeral",
            }),
            type_name: Some(address.type_name.clone()),
            name: Some(address.name.clone()),
        },
        RowKey::Output(name) => AddressColumns {
            module_path: String::new(),
            resource_key: None,
            mode: None,
            type_name: None,
            name: Some(name.clone()),
        },
        RowKey::Check { .. } => {
            AddressColumns { module_path: String::new(), resource_key: None, mode: None, type_name: None, name: None }
        }
    }
}
