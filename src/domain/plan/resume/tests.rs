//! What may be left of a reviewed plan after a half-way apply of it, by example.

use serde_json::{Value, json};

use super::*;
use crate::domain::plan::compare::compare;
use crate::domain::plan::compare::tests::{KEY, change, plan, spec};
use crate::domain::plan::plan_json::PlanJson;

/// The relation after earlier applies that changed `changed`; instances of it that end with `!` are gone, those with
/// `?` were only being worked on.
fn relation(reviewed: &PlanJson, now: &PlanJson, changed: &[&str]) -> Relation {
    let name = |text: &&str| text.trim_end_matches(['!', '?']).to_owned();
    let done = Done {
        changed: changed.iter().filter(|text| !text.ends_with('?')).map(name).collect(),
        gone: changed.iter().filter(|text| text.ends_with('!')).map(name).collect(),
        begun: changed.iter().filter(|text| text.ends_with('?')).map(name).collect(),
        made: BTreeSet::new(),
        updated: BTreeSet::new(),
        last: None,
        recovered: false,
    };
    let spec = spec(reviewed);
    resumed(&spec, compare(&spec, now, false, &KEY).unwrap(), &done).relation
}

fn replacement(value: i64) -> Value {
    change("x.a", &["delete", "create"], json!({"n": 1, "id": "old"}), json!({"n": value}), json!({"id": true}))
}

fn creation(value: i64) -> Value {
    change("x.a", &["create"], Value::Null, json!({"n": value}), json!({"id": true}))
}

fn update(address: &str) -> Value {
    change(address, &["update"], json!({"n": 1}), json!({"n": 2}), json!({}))
}

#[test]
fn what_is_at_its_reviewed_end_needs_nothing_more() {
    let reviewed = plan(json!([update("x.a"), update("x.b")]));
    let rest = plan(json!([update("x.b")]));
    assert_eq!(relation(&reviewed, &rest, &["x.a"]), Relation::Refined);
    assert_eq!(relation(&reviewed, &rest, &[]), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &rest, &["x.b"]), Relation::ShapeDiffers);
}

#[test]
fn of_a_replacement_whose_old_object_is_gone_the_creation_is_left() {
    let reviewed = plan(json!([replacement(2)]));
    assert_eq!(relation(&reviewed, &plan(json!([creation(2)])), &["x.a!"]), Relation::Refined);
    // It was not our doing that it is gone, or it is not gone.
    assert_eq!(relation(&reviewed, &plan(json!([creation(2)])), &[]), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &plan(json!([creation(2)])), &["x.a"]), Relation::ShapeDiffers);
    // Something else would be created.
    assert_eq!(relation(&reviewed, &plan(json!([creation(3)])), &["x.a!"]), Relation::ShapeDiffers);
}

#[test]
fn what_was_in_flight_may_turn_out_to_be_done() {
    let delete = change("x.b", &["delete"], json!({"n": 1}), Value::Null, json!({}));
    let reviewed = plan(json!([replacement(2), delete, update("x.c")]));
    let rest = plan(json!([creation(2)]));
    assert_eq!(relation(&reviewed, &rest, &["x.a?", "x.b?", "x.c?"]), Relation::Refined);
    assert_eq!(relation(&reviewed, &rest, &["x.a?", "x.b?"]), Relation::ShapeDiffers);
    let other = plan(json!([creation(3)]));
    assert_eq!(relation(&reviewed, &other, &["x.a?", "x.b?", "x.c?"]), Relation::ShapeDiffers);
}

#[test]
fn a_creation_that_knows_less_than_the_review_is_not_the_same_end() {
    let reviewed = plan(json!([replacement(2)]));
    let vague = change("x.a", &["create"], Value::Null, json!({"n": 2}), json!({"id": true, "m": true}));
    assert_eq!(relation(&reviewed, &plan(json!([vague])), &["x.a!"]), Relation::ShapeDiffers);
}

#[test]
fn a_creation_that_was_not_reviewed_as_a_replacement_is_no_rest() {
    let reviewed = plan(json!([update("x.a")]));
    let again = change("x.a", &["create"], Value::Null, json!({"n": 2}), json!({}));
    assert_eq!(relation(&reviewed, &plan(json!([again])), &["x.a!"]), Relation::ShapeDiffers);
}

#[test]
fn a_half_made_object_is_replaced_by_the_reviewed_one_only() {
    let reviewed = plan(json!([creation(2)]));
    let tainted = |value: i64, reason: &str| {
        let mut again = replacement(value);
        again["action_reason"] = json!(reason);
        plan(json!([again]))
    };
    assert_eq!(relation(&reviewed, &tainted(2, "replace_because_tainted"), &["x.a"]), Relation::Refined);
    assert_eq!(relation(&reviewed, &tainted(3, "replace_because_tainted"), &["x.a"]), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &tainted(2, "replace_because_cannot_update"), &["x.a"]), Relation::ShapeDiffers);
}

#[test]
fn an_old_object_that_was_left_deposed_is_the_rest_of_its_replacement() {
    let deposed = || {
        let mut end = change("x.a", &["delete"], json!({"n": 1, "id": "old"}), Value::Null, json!({}));
        end["deposed"] = json!("0123abcd");
        end
    };
    let mut first = replacement(2);
    first["change"]["actions"] = json!(["create", "delete"]);
    let reviewed = plan(json!([first]));
    assert_eq!(relation(&reviewed, &plan(json!([deposed()])), &["x.a"]), Relation::Refined);
    // Cut off before the new one was there.
    let both = plan(json!([creation(2), deposed()]));
    assert_eq!(relation(&reviewed, &both, &["x.a!"]), Relation::Refined);
    assert_eq!(relation(&plan(json!([update("x.a")])), &plan(json!([deposed()])), &["x.a"]), Relation::ShapeDiffers);
}

#[test]
fn a_change_that_nobody_reviewed_stays_one() {
    let reviewed = plan(json!([update("x.a")]));
    assert_eq!(relation(&reviewed, &plan(json!([update("x.c")])), &["x.a"]), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &plan(json!([update("x.c")])), &["x.a", "x.c"]), Relation::ShapeDiffers);
}

#[test]
fn what_was_replaced_by_command_is_not_replaced_once_more() {
    let done = Done {
        // Of one only a deposed object has gone, or it was only found different in reality.
        changed: ["x.done", "x.gone", "x.only_changed"].map(str::to_owned).into(),
        made: ["x.done", "x.gone"].map(str::to_owned).into(),
        updated: BTreeSet::new(),
        gone: ["x.gone"].map(str::to_owned).into(),
        begun: ["x.begun"].map(str::to_owned).into(),
        last: None,
        recovered: false,
    };
    let by_command = ["x.done", "x.gone", "x.only_changed", "x.begun", "x.not_begun"].map(str::to_owned);
    assert_eq!(done.still_to_replace(&by_command), &by_command[1..]);
}
