//! Which differences between two plans matter, by example.
#![expect(clippy::needless_pass_by_value, reason = "literals of JSON read best by value")]

use serde_json::{Value, json};

use super::*;
use crate::domain::id::{Actor, Serial, SpecId, StateName};
use crate::domain::plan::leak::{Suspect, name_owners};
use crate::domain::plan::spec::SpecError as E;
use crate::domain::plan::spec::{Digests, LaneFacts, Scope, SpecProject, SpecState};
use crate::domain::request::{ForgeKind, RequestPhase};

pub(in crate::domain::plan) const KEY: DigestKey<'static> = DigestKey(b"key");

pub(in crate::domain::plan) fn plan(changes: Value) -> PlanJson {
    plan_with(changes, json!({}))
}

fn plan_with(changes: Value, outputs: Value) -> PlanJson {
    let text = json!({ "format_version": "1.2", "resource_changes": changes, "output_changes": outputs }).to_string();
    PlanJson::read(&text).unwrap()
}

pub(in crate::domain::plan) fn change(
    address: &str,
    actions: &[&str],
    before: Value,
    after: Value,
    unknown: Value,
) -> Value {
    json!({
        "address": address,
        "mode": "managed",
        "change": {
            "actions": actions, "before": before, "after": after, "after_unknown": unknown,
            "before_sensitive": false, "after_sensitive": {},
        },
    })
}

pub(in crate::domain::plan) fn spec(plan: &PlanJson) -> PlanSpec {
    let found = footprint(plan, false, &KEY, &|_| None).unwrap();
    PlanSpec {
        format_version: 1,
        id: SpecId(uuid::Uuid::nil()),
        state: SpecState { name: StateName::new("s").unwrap(), lineage: None, serial: Serial(1) },
        actor: Actor("alice".into()),
        origin: crate::domain::run::Origin::default(),
        project: SpecProject {
            dir: ".".into(),
            workspace: "default".into(),
            var_files: vec![],
            variables: vec![],
            ephemeral: vec![],
        },
        scope: Scope::default(),
        tools: crate::domain::run::Tools::default(),
        write: found.write,
        outputs: found.outputs,
        read: vec![],
        data: vec![],
        digests: Digests::default(),
        lane: LaneFacts::default(),
        digest: String::new(),
    }
    .sealed()
}

fn relation(reviewed: &PlanJson, now: &PlanJson) -> Relation {
    compare(&spec(reviewed), now, false, &KEY).unwrap().relation
}

#[test]
fn the_same_plan_is_identical_whatever_the_spelling() {
    let a = plan(json!([change("x.a", &["update"], json!({"n": 1, "s": "x"}), json!({"n": 2, "s": "x"}), json!({}))]));
    let text = r#"{"format_version":"1.2","resource_changes":[{"address":"x.a","change":{"actions":["update"],
        "after":{"s":"x","n":2.0},"before":{"s":"x","n":1.00},"after_unknown":{}}}]}"#;
    assert_eq!(relation(&a, &PlanJson::read(text).unwrap()), Relation::Identical);
}

#[test]
fn what_becomes_known_refines_the_plan() {
    let a = plan(json!([change("x.a", &["create"], Value::Null, json!({"n": 1}), json!({"id": true}))]));
    let b = plan(json!([change("x.a", &["create"], Value::Null, json!({"n": 1, "id": "i-1"}), json!({}))]));
    assert_eq!(relation(&a, &b), Relation::Refined);
    // The other way round, something that the reviewer saw is no longer certain.
    assert_eq!(relation(&b, &a), Relation::ValuesDiffer);
}

#[test]
fn a_part_that_becomes_known_refines_and_its_neighbour_must_stay() {
    let reviewed = plan(json!([change(
        "x.a",
        &["update"],
        json!({"tags": {"a": "1", "b": "2"}}),
        json!({"tags": {"a": "9"}}),
        json!({"tags": {"b": true}})
    )]));
    let known = |a: &str| {
        plan(json!([change(
            "x.a",
            &["update"],
            json!({"tags": {"a": "1", "b": "2"}}),
            json!({"tags": {"a": a, "b": "7"}}),
            json!({})
        )]))
    };
    assert_eq!(relation(&reviewed, &known("9")), Relation::Refined);
    assert_eq!(relation(&reviewed, &known("8")), Relation::ValuesDiffer);
}

#[test]
fn an_unknown_item_of_a_list_keeps_its_place() {
    let reviewed =
        plan(json!([change("x.a", &["create"], Value::Null, json!({"l": ["p", null]}), json!({"l": [false, true]}))]));
    let known = |first: &str| {
        plan(json!([change("x.a", &["create"], Value::Null, json!({"l": [first, "q"]}), json!({"l": [false, false]}))]))
    };
    assert_eq!(relation(&reviewed, &known("p")), Relation::Refined);
    assert_eq!(relation(&reviewed, &known("z")), Relation::ValuesDiffer);
}

#[test]
fn other_values_other_attributes_and_other_actions_are_told_apart() {
    let of = |actions: &[&str], after: Value| {
        plan(json!([change("x.a", actions, json!({"n": 1, "m": 1}), after, json!({}))]))
    };
    let reviewed = of(&["update"], json!({"n": 2, "m": 1}));
    assert_eq!(relation(&reviewed, &of(&["update"], json!({"n": 3, "m": 1}))), Relation::ValuesDiffer);
    assert_eq!(relation(&reviewed, &of(&["update"], json!({"n": 2, "m": 2}))), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &of(&["delete", "create"], json!({"n": 2, "m": 1}))), Relation::ShapeDiffers);
    assert_eq!(relation(&reviewed, &plan(json!([]))), Relation::ShapeDiffers);
}

#[test]
fn the_order_of_a_replacement_is_part_of_the_shape() {
    let of = |actions: &[&str]| plan(json!([change("x.a", actions, json!({"n": 1}), json!({"n": 2}), json!({}))]));
    assert_eq!(relation(&of(&["create", "delete"]), &of(&["delete", "create"])), Relation::ShapeDiffers);
}

#[test]
fn a_change_that_nobody_reviewed_is_named() {
    let reviewed = plan(json!([change("x.a", &["delete"], json!({"n": 1}), Value::Null, json!({}))]));
    let now = plan(json!([
        change("x.a", &["delete"], json!({"n": 1}), Value::Null, json!({})),
        change("x.b", &["create"], Value::Null, json!({"n": 1}), json!({})),
    ]));
    let comparison = compare(&spec(&reviewed), &now, false, &KEY).unwrap();
    assert_eq!(comparison.relation, Relation::ShapeDiffers);
    assert_eq!(comparison.differences[0].to_string(), "x.b: not in the reviewed plan: create");
}

#[test]
fn a_move_and_an_import_that_come_or_go_are_called_so() {
    let text = json!({"format_version": "1.2", "resource_changes": [
        {"address": "x.new", "previous_address": "x.old", "change": {"actions": ["no-op"]}},
        {"address": "x.imp", "change": {"actions": ["no-op"], "importing": {"id": "abc"}}},
    ]});
    let (with, without) = (PlanJson::read(&text.to_string()).unwrap(), plan(json!([])));
    let told = |reviewed: &PlanJson, now: &PlanJson| {
        let comparison = compare(&spec(reviewed), now, false, &KEY).unwrap();
        comparison.differences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&with, &without),
        ["x.imp: was to import, now nothing is planned", "x.new: was to move from x.old, now nothing is planned"]
    );
    assert_eq!(
        told(&without, &with),
        ["x.imp: not in the reviewed plan: import", "x.new: not in the reviewed plan: move from x.old"]
    );
}

#[test]
fn a_difference_is_said_to_be_a_requests_only_when_it_can_be() {
    use RequestPhase::{Merged, Open};
    let one = |address: &str, after: i32| change(address, &["update"], json!({"n": 1}), json!({"n": after}), json!({}));
    let reviewed = spec(&plan(json!([one("x.mine", 2)])));
    let now = plan(json!([one("x.mine", 3), one("x.theirs", 2)]));
    let suspect = |number, phase, address: &str| {
        let request = RequestRef { forge: ForgeKind::Gitlab, repository: "g/r".into(), number };
        Suspect::new(request, phase, &spec(&plan(json!([one(address, 2)]))))
    };
    let told = |suspects: &[Suspect]| {
        let mut comparison = compare(&reviewed, &now, false, &KEY).unwrap();
        name_owners(&mut comparison, &reviewed, suspects);
        let owner = |one: &Difference| one.owner.as_ref().map_or(0, |owner| owner.request.number);
        comparison.differences.iter().map(|one| (one.at.clone(), owner(one))).collect::<Vec<_>>()
    };
    for (suspects, mine, theirs) in [
        (vec![], 0, 0),
        (vec![suspect(1, Open, "x.other")], 0, 0),
        (vec![suspect(1, Open, "x.theirs")], 0, 1),
        (vec![suspect(1, Open, "x.theirs"), suspect(2, Merged, "x.theirs")], 0, 2),
        // What an open request plans for our own row has not happened to it.
        (vec![suspect(1, Open, "x.mine")], 0, 0),
        (vec![suspect(1, Open, "x.mine"), suspect(2, Merged, "x.mine")], 2, 0),
    ] {
        assert_eq!(told(&suspects), [("x.mine".to_owned(), mine), ("x.theirs".to_owned(), theirs)], "{suspects:?}");
    }
}

#[test]
fn an_output_that_was_unknown_may_turn_out_to_stay() {
    let output = |after: Value, unknown: Value, actions: &[&str]| {
        plan_with(
            json!([]),
            json!({"o": {"actions": actions, "before": "v1", "after": after, "after_unknown": unknown}}),
        )
    };
    let reviewed = output(Value::Null, json!(true), &["update"]);
    assert_eq!(relation(&reviewed, &output(json!("v2"), json!(false), &["update"])), Relation::Refined);
    assert_eq!(relation(&reviewed, &output(json!("v1"), json!(false), &["no-op"])), Relation::Refined);
    let known = output(json!("v2"), json!(false), &["update"]);
    assert_eq!(relation(&known, &output(json!("v1"), json!(false), &["no-op"])), Relation::ShapeDiffers);
    assert_eq!(relation(&known, &output(json!("v3"), json!(false), &["update"])), Relation::ValuesDiffer);
}

#[test]
fn pure_moves_imports_and_forgets_are_writes() {
    let text = json!({"format_version": "1.2", "resource_changes": [
        {"address": "x.new", "previous_address": "x.old", "change": {"actions": ["no-op"]}},
        {"address": "x.imp", "change": {"actions": ["no-op"], "importing": {"id": "abc", "identity": {"k": 1}}}},
        {"address": "x.gone", "change": {"actions": ["forget"]}},
        {"address": "x.dep", "deposed": "00aabb11", "change": {"actions": ["delete"]}},
        {"address": "x.same", "change": {"actions": ["no-op"]}},
        {"address": "data.x.d", "mode": "data", "change": {"actions": ["read"]}},
    ]})
    .to_string();
    let found = footprint(&PlanJson::read(&text).unwrap(), false, &KEY, &|_| None).unwrap();
    let names: Vec<String> = found.write.iter().map(|entry| entry.address.to_string()).collect();
    assert_eq!(names, ["x.dep", "x.gone", "x.imp", "x.new"]);
    assert_eq!(found.deferred_reads.len(), 1);
    assert_eq!(found.write[2].import_id.as_deref(), Some("abc"));
}

#[test]
fn what_is_no_whole_plan_is_refused() {
    let read = |extra: Value| {
        let mut plan = json!({"format_version": "1.2", "resource_changes": []});
        plan.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        footprint(&PlanJson::read(&plan.to_string()).unwrap(), false, &KEY, &|_| None)
    };
    assert!(matches!(read(json!({"errored": true})), Err(PlanError::Errored)));
    assert!(matches!(read(json!({"complete": false})), Err(PlanError::Incomplete(0))));
    assert!(matches!(read(json!({"deferred_changes": [{}]})), Err(PlanError::Incomplete(1))));
    let odd = json!({"resource_changes": [{"address": "x.a", "change": {"actions": ["transmute"]}}]});
    assert!(matches!(read(odd), Err(PlanError::Action { .. })));
    let both_orders = [["create", "forget"], ["forget", "create"]];
    for order in both_orders {
        assert!(read(json!({"resource_changes": [{"address": "x.a", "change": {"actions": order}}]})).is_ok());
    }
}

#[test]
fn format_versions_are_accepted_by_range() {
    for (version, good) in [
        ("0.1", true),
        ("0.2", true),
        ("1.0", true),
        ("1.2", true),
        ("1.9", true),
        ("2.0", false),
        ("", false),
        ("x", false),
    ] {
        assert_eq!(PlanJson::read(&json!({ "format_version": version }).to_string()).is_ok(), good, "{version:?}");
    }
    assert!(PlanJson::read("{}").is_err());
}

#[test]
fn a_spec_survives_its_file_and_notices_an_edit() {
    let spec = spec(&plan(json!([change("x.a", &["create"], Value::Null, json!({"n": 1}), json!({"id": true}))])));
    let text = spec.to_text();
    assert_eq!(PlanSpec::read(&text).unwrap(), spec);
    assert!(matches!(PlanSpec::read(&text.replace("x.a", "x.b")), Err(E::Edited)));
    assert!(matches!(PlanSpec::read(&text[..text.len() / 2]), Err(E::Syntax(_))));
    assert!(matches!(PlanSpec::read(""), Err(E::Empty)));
    assert!(matches!(PlanSpec::read("{\"format_version\":\"1.2\"}"), Err(E::Foreign(_))));
    assert!(matches!(
        PlanSpec::read(&text.replace("\"format_version\": 1", "\"format_version\": 99")),
        Err(E::Format(99))
    ));
}

#[test]
fn no_value_is_in_a_spec() {
    let secret = "canary-value";
    let reviewed = plan_with(
        json!([{
            "address": "x.a",
            "change": {
                "actions": ["update"],
                "before": {"p": secret, "m": {secret: 1}},
                "after": {"p": "other-canary", "m": {}},
                "after_unknown": {"m": {secret: true}},
                "before_sensitive": {"m": true}, "after_sensitive": {"m": true},
            },
        }]),
        json!({"o": {"actions": ["create"], "after": secret, "after_sensitive": true}}),
    );
    let text = spec(&reviewed).to_text();
    assert!(!text.contains("canary"), "{text}");
}
