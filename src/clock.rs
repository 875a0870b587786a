//! Where time-ordered ids come from. Timestamps are the database's (design §4).

use uuid::Uuid;

use crate::domain::id::{Lineage, RunId, SpecId};

/// A new run id; ids grow with time.
#[must_use]
pub fn new_run_id() -> RunId {
    RunId(Uuid::now_v7())
}

/// A new spec id; ids grow with time.
#[must_use]
pub fn new_spec_id() -> SpecId {
    SpecId(Uuid::now_v7())
}

/// A lineage for a state that has none yet.
#[must_use]
pub fn new_lineage() -> Lineage {
    Lineage(Uuid::now_v7().to_string())
}
