//! Where time-ordered ids and random bytes come from. Timestamps are the database's (design §4).

use uuid::Uuid;

use crate::domain::id::{Lineage, RunId, SpecId};

/// An id that grows with time.
#[expect(clippy::disallowed_methods, reason = "the one place where ids are made")]
fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// A new run id; ids grow with time.
#[must_use]
pub fn new_run_id() -> RunId {
    RunId(new_id())
}

/// A new spec id; ids grow with time.
#[must_use]
pub fn new_spec_id() -> SpecId {
    SpecId(new_id())
}

/// An id by which a job holds a lock.
#[must_use]
pub fn new_lock_owner() -> Uuid {
    new_id()
}

/// A text that nobody can guess, for fences around what others wrote.
#[must_use]
pub fn new_token() -> String {
    new_id().simple().to_string()
}

/// Bytes that nobody can guess, from the system.
///
/// # Errors
/// When the system has none to give.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| std::io::Error::other("its source of them has failed"))?;
    Ok(bytes)
}

/// A lineage for a state that has none yet.
#[must_use]
pub fn new_lineage() -> Lineage {
    Lineage(new_id().to_string())
}
