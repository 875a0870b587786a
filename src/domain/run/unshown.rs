//! What Terraform has done and its state does not show: a disk that was full, a write that failed, a word that was lost.

use std::collections::{BTreeMap, BTreeSet};

use super::in_flight::{Effect, InFlight};
use crate::domain::json::{Json, JsonError};
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::WriteEntry;
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::{Body, Row, RowKey};

/// What an apply was to do, by address: the effects on current objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intent(BTreeMap<String, Effect>);

impl Intent {
    /// What a plan does.
    #[must_use]
    pub fn of(write: &[WriteEntry]) -> Self {
        let of = |actions: Action| match actions {
            Action::Create
            | Action::DeleteCreate
            | Action::CreateDelete
            | Action::CreateForget
            | Action::ForgetCreate => Some(Effect::Created),
            Action::Update => Some(Effect::Updated),
            Action::Delete => Some(Effect::Deleted),
            Action::NoOp | Action::Read | Action::Forget => None,
        };
        let current = write.iter().filter(|entry| entry.deposed.is_none());
        Self(current.filter_map(|entry| Some((entry.address.to_string(), of(entry.actions)?))).collect())
    }

    /// The effect that was meant for an address.
    #[must_use]
    pub fn effect(&self, address: &str) -> Option<Effect> {
        self.0.get(address).copied()
    }

    /// Without what earlier applies of the same plan have brought to its end: what they have `made` or `updated`, as
    /// Terraform said, where the state before shows it.
    ///
    /// # Errors
    /// When a body is not JSON.
    pub fn without(
        self,
        made: &BTreeSet<String>,
        updated: &BTreeSet<String>,
        before: &[Row],
    ) -> Result<Self, JsonError> {
        let before = current(before);
        let mut left = BTreeMap::new();
        for (address, effect) in self.0 {
            let ended = match (effect, before.get(&address)) {
                (Effect::Deleted, now) => now.is_none(),
                (Effect::Created, Some(now)) => made.contains(&address) && !tainted(now)?,
                (Effect::Updated, Some(now)) => updated.contains(&address) && !tainted(now)?,
                (Effect::Created | Effect::Updated, None) => false,
            };
            if !ended {
                left.insert(address, effect);
            }
        }
        Ok(Self(left))
    }
}

/// Whether an object was made, and not to its end.
fn tainted(body: &Body) -> Result<bool, JsonError> {
    let body = Json::parse(body.text())?;
    let Some(Json::Array(instances)) = body.get("instances") else { return Ok(false) };
    Ok(instances.iter().any(|instance| instance.get("status").and_then(Json::as_str) == Some("tainted")))
}

/// What is in flight together with what has been done, or may have been, and is not shown by the state that Terraform
/// left: what it said that it did, and where it was not heard to its end, whatever it was to do.
///
/// # Errors
/// When a body is not JSON.
pub fn with_unshown(
    in_flight: &InFlight,
    intent: &Intent,
    before: &[Row],
    after: &[Row],
) -> Result<InFlight, JsonError> {
    let (before, after) = (current(before), current(after));
    let doubted = in_flight.state_may_be_old();
    let mut found = in_flight.clone();
    for (address, effect) in effects(in_flight, intent) {
        if !shown(effect, before.get(address).copied(), after.get(address).copied(), doubted)? {
            found.may_have(address, effect);
        }
    }
    Ok(found)
}

/// The same for whom the state was lost: nothing is shown but the rows that are `recorded`.
#[must_use]
pub fn without_a_state(in_flight: &InFlight, intent: &Intent, recorded: &BTreeSet<String>) -> InFlight {
    let mut found = in_flight.without_a_state(recorded);
    for (address, effect) in effects(in_flight, intent).filter(|(address, _)| !recorded.contains(*address)) {
        found.may_have(address, effect);
    }
    found
}

fn effects<'a>(in_flight: &'a InFlight, intent: &'a Intent) -> impl Iterator<Item = (&'a str, Effect)> {
    let meant = intent.0.iter().map(|(address, effect)| (address.as_str(), *effect));
    // Terraform's events do not tell the deletion of a deposed object, or of the one that is replaced, from that of the
    // current one.
    let told = in_flight
        .effects()
        .filter(|(address, effect)| *effect != Effect::Deleted || intent.effect(address) == Some(Effect::Deleted));
    told.chain(meant.filter(|_| in_flight.may_be_more()))
}

/// The current objects, by address.
fn current(rows: &[Row]) -> BTreeMap<String, &Body> {
    let current = rows.iter().filter(|row| matches!(row.key, RowKey::Object { deposed: None, .. }));
    current.map(|row| (row.key.address_text(), &row.body)).collect()
}

fn shown(effect: Effect, before: Option<&Body>, after: Option<&Body>, doubted: bool) -> Result<bool, JsonError> {
    Ok(match (effect, before, after) {
        (Effect::Created, _, None) => false,
        // A new object can have the very attributes of the old one; an old state has them, too.
        (Effect::Created, Some(before), Some(after)) => !doubted || distance(before, after)? != Distance::Same,
        (Effect::Updated, Some(before), Some(after)) => distance(before, after)? != Distance::Same,
        (Effect::Created | Effect::Updated, None, Some(_)) | (Effect::Updated, _, None) => true,
        (Effect::Deleted, _, after) => after.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::run::in_flight::ErrorSource;
    use crate::domain::state::document;

    /// The rows of a state with these instances of `a.x`, each with an id.
    fn rows(objects: &[(&str, &str)]) -> Vec<Row> {
        let resource = |(name, id): &(&str, &str)| {
            format!(
                r#"{{"mode":"managed","type":"a","name":"{name}","provider":"provider[\"p/p/p\"]","instances":[{{"schema_version":0,"attributes":{{"id":"{id}"}}}}]}}"#
            )
        };
        let resources: Vec<String> = objects.iter().map(resource).collect();
        let text =
            format!(r#"{{"version":4,"serial":1,"lineage":"l","outputs":{{}},"resources":[{}]}}"#, resources.join(","));
        document::read(&text).unwrap().rows
    }

    fn intent(effects: &[(&str, Effect)]) -> Intent {
        Intent(effects.iter().map(|(address, effect)| ((*address).to_owned(), *effect)).collect())
    }

    fn open(found: &InFlight) -> Vec<(&str, &str)> {
        found.addresses().map(|address| (address, found.action(address).unwrap())).collect()
    }

    fn completed(done: &[(&str, &str)]) -> InFlight {
        let mut in_flight = InFlight::default();
        for (address, action) in done {
            in_flight.began(address, action);
            in_flight.completed(address, 0);
        }
        in_flight
    }

    #[test]
    fn what_was_done_and_is_not_in_the_state_is_in_flight() {
        let before = rows(&[("u", "1"), ("d", "1"), ("r", "1")]);
        let in_flight = completed(&[("a.c", "create"), ("a.u", "update"), ("a.d", "delete"), ("a.r", "create")]);
        let after = rows(&[("c", "1"), ("u", "2"), ("r", "2")]);
        let meant = intent(&[("a.d", Effect::Deleted)]);
        assert_eq!(open(&with_unshown(&in_flight, &meant, &before, &after).unwrap()), []);
        // The old state is still there: nothing of it was written. A replacement may look the same.
        let found = with_unshown(&in_flight, &meant, &before, &before).unwrap();
        assert_eq!(open(&found), [("a.c", "create"), ("a.d", "delete"), ("a.u", "update")]);
        let mut unwritten = in_flight.clone();
        unwritten.error_told(None, ErrorSource::StateNotWritten);
        let found = with_unshown(&unwritten, &meant, &before, &before).unwrap();
        assert_eq!(open(&found), [("a.c", "create"), ("a.d", "delete"), ("a.r", "create"), ("a.u", "update")]);
    }

    #[test]
    fn what_is_deleted_beside_the_current_object_does_not_count() {
        let before = rows(&[("x", "1")]);
        let meant = intent(&[("a.x", Effect::Created)]);
        // A deposed object of it was deleted.
        let deposed = completed(&[("a.x", "delete")]);
        assert_eq!(open(&with_unshown(&deposed, &meant, &before, &before).unwrap()), []);
        assert_eq!(open(&with_unshown(&deposed, &Intent::default(), &before, &before).unwrap()), []);
        // A replacement whose second half failed half-way: the state has the new object, tainted.
        let mut half = completed(&[("a.x", "delete")]);
        half.began("a.x", "create");
        half.errored("a.x");
        half.error_told(Some("a.x"), ErrorSource::Answer);
        half.ended_by_itself(false);
        assert_eq!(open(&with_unshown(&half, &meant, &before, &before).unwrap()), []);
        // One that was heard up to the deletion and no further may have made the new one, too.
        let mut cut = completed(&[("a.x", "delete")]);
        cut.line_lost();
        assert_eq!(open(&with_unshown(&cut, &meant, &before, &before).unwrap()), [("a.x", "create")]);
        assert_eq!(open(&without_a_state(&cut, &meant, &BTreeSet::new())), [("a.x", "create")]);
    }

    #[test]
    fn of_what_was_not_heard_to_its_end_all_that_was_meant_may_have_been_done() {
        let before = rows(&[("u", "1"), ("d", "1")]);
        let meant = intent(&[("a.c", Effect::Created), ("a.u", Effect::Updated), ("a.d", Effect::Deleted)]);
        let mut heard = InFlight::default();
        heard.ended_by_itself(false);
        let found = with_unshown(&heard, &meant, &before, &before).unwrap();
        assert_eq!(open(&found), [("a.c", "create"), ("a.d", "delete"), ("a.u", "update")]);
        let found = without_a_state(&heard, &meant, &BTreeSet::from(["a.c".to_owned()]));
        assert_eq!(open(&found), [("a.d", "delete"), ("a.u", "update")]);
        // One that was heard to its end had not begun with the rest.
        let mut heard = InFlight::default();
        heard.error_told(None, ErrorSource::Answer);
        heard.ended_by_itself(false);
        assert_eq!(open(&with_unshown(&heard, &meant, &before, &before).unwrap()), []);
    }

    #[test]
    fn what_an_earlier_apply_had_brought_to_its_end_is_not_meant_any_more() {
        let meant = || {
            let effects = ["a.made", "a.gone", "a.tainted", "a.replaced", "a.not_begun"].map(|a| (a, Effect::Created));
            let mut all = effects.to_vec();
            all.extend([("a.deleted", Effect::Deleted), ("a.kept", Effect::Deleted), ("a.updated", Effect::Updated)]);
            intent(&all)
        };
        let mut before = rows(&[("made", "1"), ("tainted", "1"), ("replaced", "2"), ("kept", "1"), ("updated", "2")]);
        let tainted = before.iter_mut().find(|row| row.key.address_text() == "a.tainted").unwrap();
        let text = tainted.body.text().replacen("{\"schema_version\"", "{\"status\":\"tainted\",\"schema_version\"", 1);
        tainted.body = Body::new(text).unwrap();
        let made = ["a.made", "a.gone", "a.tainted", "a.replaced"].map(str::to_owned).into();
        let left = meant().without(&made, &BTreeSet::from(["a.updated".to_owned()]), &before).unwrap();
        let left: Vec<&str> = left.0.keys().map(String::as_str).collect();
        assert_eq!(left, ["a.gone", "a.kept", "a.not_begun", "a.tainted"]);
        // What is there and was said of nothing may have been found like that.
        let left = meant().without(&BTreeSet::new(), &BTreeSet::new(), &before).unwrap();
        assert_eq!(left.0.len(), meant().0.len() - 1, "only what is gone is surely deleted");
    }
}
