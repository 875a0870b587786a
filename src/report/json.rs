//! `--format json`: one document a command, with names of their own, so that inner types can change.

use serde_json::{Value, json};

use super::plan::Counts;
use crate::domain::coordination::reservation::{Blocker, HeldAs, Reservation};
use crate::domain::plan::spec::PlanSpec;

/// The version of every document below; it grows when a member changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// A document with its version in front.
#[must_use]
pub fn document(mut body: Value) -> String {
    if let Value::Object(members) = &mut body {
        members.insert("kl_json_version".into(), json!(VERSION));
    }
    format!("{body:#}")
}

/// A spec's summary with the spec itself.
#[must_use]
pub fn plan(spec: &PlanSpec, file: Option<&str>) -> Value {
    let counts = Counts::of(spec);
    json!({
        "spec": spec,
        "file": file,
        "has_changes": spec.has_changes(),
        "counts": {
            "create": counts.create,
            "update": counts.update,
            "destroy": counts.destroy,
            "move": counts.moved,
            "import": counts.import,
            "forget": counts.forget,
            "outputs": counts.outputs,
        },
    })
}

/// A reservation.
#[must_use]
pub fn reservation(reservation: &Reservation) -> Value {
    json!({
        "run": reservation.run,
        "holder": reservation.holder,
        "origin": reservation.origin,
        "pattern": reservation.claim.pattern,
        "mode": reservation.claim.mode,
        "held_as": held_as(reservation.held_as),
        "asked_at": reservation.asked_at,
        "acquired_at": reservation.acquired_at,
        "expires_at": reservation.expires_at,
    })
}

/// A reservation in the way, with what of ours met it.
#[must_use]
pub fn blocker(blocker: &Blocker) -> Value {
    let mut value = reservation(&blocker.reservation);
    if let Value::Object(members) = &mut value {
        members.insert("met".into(), json!(blocker.met));
        members.insert("at".into(), json!(blocker.at));
    }
    value
}

fn held_as(held: HeldAs) -> &'static str {
    match held {
        HeldAs::Run => "run",
        HeldAs::Quarantine => "quarantine",
        HeldAs::Lock => "lock",
    }
}
