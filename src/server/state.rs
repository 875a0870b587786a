//! GET, POST and DELETE: a state as a document, written as the rows that changed.

use std::collections::BTreeMap;

use axum::http::HeaderMap;

use super::Server;
use super::access::Pass;
use super::answer::{Answer, md5};
use super::lock;
use super::request::from_terraform;
use crate::clock;
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::id::{Serial, StateName};
use crate::domain::state::RowKey;
use crate::domain::state::document::{self, DocumentError, StateDocument};
use crate::domain::state::incoming::{Incoming, Known, judge, unclear};
use crate::domain::state::projection;
use crate::store::StoreError;
use crate::store::model::{
    Commit, CommitMode, LineageRule, LockOnce, LockWrite, RowWrite, Snapshot, Source, StateHead,
};

/// How often a write is tried when the state has moved under it: it cannot while the lock is held, so this is for
/// requests that were under way when a lock was taken away.
const TRIES: u32 = 3;

/// So many states are remembered while their locks are held; others are read again at each write.
const MAX_KNOWN: usize = 64;

/// GET: the newest version, as Terraform would have written it; 404 where there is none.
pub(super) async fn read(server: &Server, name: &StateName) -> Result<Answer, Answer> {
    let none = || Answer::text(404, "there is no such state yet");
    let head = server.store.state_find(name).await?.ok_or_else(none)?;
    let snapshot = server.store.snapshot(head.id, None).await?;
    if snapshot.head.serial == Serial(0) {
        return Err(none());
    }
    let document = StateDocument {
        head: snapshot.document,
        lineage: snapshot.head.lineage,
        serial: snapshot.head.serial,
        rows: snapshot.rows.into_iter().map(|(row, _)| row).collect(),
    };
    let text = blocking(move || projection::write(&document)).await?;
    Ok(Answer::json(200, text))
}

/// What a write needs to be taken: the state, and the lock on it that the client holds. Looked at before the document
/// is read, which may be large.
pub(super) struct Writing {
    head: StateHead,
    lock: LockId,
}

impl Writing {
    /// Looks whether the client may write now.
    ///
    /// # Errors
    /// 409 where the client does not hold the lock.
    pub(super) async fn find(server: &Server, name: &StateName, lock: Option<LockId>) -> Result<Self, Answer> {
        let lock = lock.ok_or_else(|| {
            Answer::text(409, "a state is written under its lock only, and the address names none (-lock=false?)")
        })?;
        let head = server.store.state_find(name).await?.ok_or_else(not_locked)?;
        match server.store.lock_find(head.id).await? {
            None => Err(not_locked()),
            Some(held) if held.id != lock => Err(lock::other(&held)),
            Some(_) => Ok(Self { head, lock }),
        }
    }

    /// POST: a whole document, under the lock that the client holds.
    pub(super) async fn write(self, server: &Server, headers: &HeaderMap, body: Vec<u8>) -> Result<Answer, Answer> {
        let digest = headers.get("content-md5").and_then(|digest| digest.to_str().ok()).map(str::to_owned);
        let document = blocking(move || parsed(&body, digest.as_deref())).await??;
        put(server, &self.head, &self.lock, document).await
    }
}

/// Reads a document that came over the network.
fn parsed(body: &[u8], digest: Option<&str>) -> Result<StateDocument, Answer> {
    if digest.is_some_and(|digest| digest != md5(body)) {
        return Err(Answer::text(400, "the document is not the one that Content-MD5 is of; nothing was changed"));
    }
    let refused =
        |error: String| Answer::text(400, format!("the document is not a state: {error}; nothing was changed"));
    let text = std::str::from_utf8(body).map_err(|_| refused("it is not text".to_owned()))?;
    if text.trim().is_empty() {
        return Err(refused("it is empty".to_owned()));
    }
    document::read_sound(text).map_err(|error: DocumentError| refused(error.to_string()))
}

fn not_locked() -> Answer {
    Answer::text(409, "nobody holds a lock on the state: it was taken away, or never taken; nothing was changed")
}

/// What a document changes; nothing at all where the trunk is that document already.
async fn changes(
    server: &Server,
    head: &StateHead,
    known: &Known,
    document: &StateDocument,
) -> Result<Option<Vec<RowWrite>>, Answer> {
    let unclear: Vec<(RowKey, Serial)> = unclear(known, document).into_iter().map(|key| (key, known.serial)).collect();
    let mut written = BTreeMap::new();
    if !unclear.is_empty() {
        let found = server.store.row_contents(head.id, &unclear).await?;
        written = unclear.into_iter().zip(found).filter_map(|((key, _), body)| Some((key, body?))).collect();
    }
    match judge(known, &written, document) {
        Ok(Incoming::Same) => Ok(None),
        Ok(Incoming::Changes(rows)) => Ok(Some(rows.into_iter().map(|(key, body)| RowWrite { key, body }).collect())),
        Err(unfit) => Err(Answer::text(409, format!("{unfit}; nothing was changed"))),
    }
}

fn commit(known: &Known, document: &StateDocument, writes: Vec<RowWrite>) -> Commit {
    Commit {
        source: Source::Http,
        mode: CommitMode::Snapshot,
        source_serial: known.serial,
        lineage: match &document.lineage {
            Some(lineage) => LineageRule::Must(lineage.clone()),
            None => LineageRule::OrNew(known.lineage.clone().unwrap_or_else(clock::new_lineage)),
        },
        at_least: Some(document.serial),
        document: Some(document.head.clone()),
        providers: BTreeMap::new(),
        writes,
        soft: Vec::new(),
        as_planned: None,
    }
}

/// Writes a document as the rows that it changes.
async fn put(server: &Server, head: &StateHead, lock: &LockId, document: StateDocument) -> Result<Answer, Answer> {
    let mut tries = 0;
    loop {
        tries += 1;
        let known = known(server, head, tries > 1).await?;
        let Some(changes) = changes(server, head, &known, &document).await? else { return Ok(Answer::done()) };
        let commit = commit(&known, &document, changes);
        match server.store.lock_write(head.id, lock, known.serial, &commit).await {
            Ok(LockWrite::Committed(done)) => {
                // What the lineage became where nobody gave one is read when it is needed.
                if document.lineage.is_some() {
                    let mut all = server.known();
                    // A lock that ended elsewhere left its own here.
                    if all.len() >= MAX_KNOWN
                        && let Some(any) = all.keys().next().copied()
                    {
                        all.remove(&any);
                    }
                    all.insert(head.id, known.after(&document, done.serial));
                }
                return Ok(Answer::done());
            }
            Ok(LockWrite::NotLocked) => return Err(not_locked()),
            Ok(LockWrite::Other(other)) => return Err(lock::other(&other)),
            Err(StoreError::Stale(_)) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What the trunk is now: from the last write that came through here, when it is still the newest.
async fn known(server: &Server, head: &StateHead, again: bool) -> Result<Known, Answer> {
    let remembered = server.known().remove(&head.id);
    if let Some(known) = remembered.filter(|known| known.serial == head.serial && !again) {
        return Ok(known);
    }
    let Snapshot { head, document, rows, .. } = server.store.snapshot(head.id, None).await?;
    Ok(Known {
        serial: head.serial,
        lineage: head.lineage,
        head: document,
        rows: rows.into_iter().map(|(row, _)| (row.key, row.body.hash())).collect(),
    })
}

/// Refuses a DELETE that is meant to unlock. Terraform never removes a state of an HTTP backend: it has no workspaces.
///
/// # Errors
/// 400 where it comes from Terraform, or brings a lock document; and for a server that is there for one command.
pub(super) fn removes(server: &Server, headers: &HeaderMap, body: &[u8]) -> Result<(), Answer> {
    let why = if !body.trim_ascii().is_empty() {
        "this is an unlock: it brings a lock document"
    } else if from_terraform(headers) {
        "this is an unlock: Terraform never removes a state"
    } else if server.access.is_for_one() {
        "no state is removed under `kl exec`, and an unlock is no DELETE"
    } else {
        return Ok(());
    };
    Err(Answer::text(
        400,
        format!(
            "{why}. DELETE would remove all of its rows: leave unlock_method out, or set it to UNLOCK; nothing was changed"
        ),
    ))
}

/// DELETE: a new version without any row, unless there is none already: an answer can get lost. History, lineage and serial
/// stay. Without a lock of the client's own one is taken and given back with it, in one transaction.
pub(super) async fn remove(
    server: &Server,
    pass: &Pass,
    name: &StateName,
    lock: Option<LockId>,
) -> Result<Answer, Answer> {
    let Some(head) = server.store.state_find(name).await?.filter(|head| head.serial > Serial(0)) else {
        return Ok(Answer::done());
    };
    match lock {
        Some(lock) => {
            let Writing { head, lock } = Writing::find(server, name, Some(lock)).await?;
            let known = known(server, &head, true).await?;
            if known.rows.is_empty() { Ok(Answer::done()) } else { put(server, &head, &lock, empty(&known)).await }
        }
        None => remove_at_once(server, pass, &head).await,
    }
}

async fn remove_at_once(server: &Server, pass: &Pass, head: &StateHead) -> Result<Answer, Answer> {
    let info = LockInfo {
        id: LockId(clock::new_token()),
        operation: "delete".to_owned(),
        ..LockInfo::refusal("", "", "", chrono::DateTime::default())
    };
    let run = lock::run(server, pass, head, &info);
    let mut tries = 0;
    loop {
        tries += 1;
        let known = known(server, head, true).await?;
        if known.rows.is_empty() {
            return Ok(Answer::done());
        }
        let document = empty(&known);
        let commit = commit(&known, &document, changes(server, head, &known, &document).await?.unwrap_or_default());
        match server.store.lock_once(&run, &info, known.serial, &commit).await {
            Ok(LockOnce::Committed(_)) => return Ok(Answer::done()),
            Ok(LockOnce::Blocked { blockers, lock }) => {
                return Err(server.refusal(&blockers, lock.as_ref(), head.name.as_str()));
            }
            Err(StoreError::Stale(_)) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The document without rows that follows the newest version.
fn empty(known: &Known) -> StateDocument {
    StateDocument {
        head: known.head.clone(),
        lineage: known.lineage.clone(),
        serial: known.serial.next(),
        rows: Vec::new(),
    }
}

/// Work on a large text, on a thread where it holds up nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Answer> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Answer::text(500, "the document could not be worked on"))
}
