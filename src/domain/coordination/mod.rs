//! What keeps runs apart: reservations, stale checks, lanes and slices.

pub mod reservation;
