//! What keeps runs apart: reservations, stale checks, lanes and slices.

pub mod claim_index;
pub mod compact;
pub mod forecast;
pub mod lane;
pub mod lock;
pub mod reservation;
pub mod slice;
pub mod staleness;
