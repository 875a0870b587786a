//! What Terraform has begun with and what it has ended, told by its events in their order, and how far they can be
//! believed.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::address::{Address, ConfigAddress};

/// What was done at an address, of what has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// There is a new object.
    Created,
    /// The object has changed.
    Updated,
    /// The object is gone.
    Deleted,
}

impl Effect {
    /// The effect of an action, by Terraform's word for it; none where it changes nothing.
    #[must_use]
    pub fn of(action: &str) -> Option<Self> {
        match action {
            "create" => Some(Self::Created),
            "update" => Some(Self::Updated),
            "delete" => Some(Self::Deleted),
            _ => None,
        }
    }

    /// Terraform's word for the action that has it.
    #[must_use]
    pub fn action(self) -> &'static str {
        match self {
            Self::Created => "create",
            Self::Updated => "update",
            Self::Deleted => "delete",
        }
    }
}

/// Whom an error of Terraform comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorSource {
    /// A provider, a provisioner or Terraform itself: what it is about has ended.
    Answer,
    /// A provider that died before it had answered: what it was asked for may have been done.
    Silence,
    /// Terraform could not write its state.
    StateNotWritten,
    /// A second interrupt: Terraform did not wait for what it had begun.
    Cancelled,
}

/// The actions in flight, by address, and the addresses that are done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InFlight {
    /// What has begun and has no end yet, with its action.
    open: BTreeMap<String, String>,
    /// The resources of which an object was made, and then provisioned.
    provisioned: BTreeSet<ConfigAddress>,
    /// Among these, what has ended badly: whether the provider has answered is told only when the walk is over.
    errored: BTreeSet<String>,
    /// What has ended: with which effect, where it ended well.
    finished: BTreeMap<String, Option<Effect>>,
    /// How long it took, in whole seconds.
    seconds: BTreeMap<String, u64>,
    /// Addresses that an error names.
    answered: BTreeSet<String>,
    /// A provider died before it had answered.
    silent: bool,
    /// Terraform has said something at all.
    spoke: bool,
    /// Terraform has told its errors or its counts, which come when the walk is over.
    over: bool,
    /// Something that Terraform said was lost, so there may be more than is known here.
    torn: bool,
    /// Terraform could not write its state: what it has on disk may be an old one.
    unwritten: bool,
}

impl InFlight {
    /// Terraform began with a resource. Reading changes nothing, so it does not count.
    pub fn began(&mut self, address: &str, action: &str) {
        if action != "read" {
            self.errored.remove(address);
            // Of a replacement, the new object is what counts from here on.
            if let Some(effect @ Some(Effect::Deleted)) = self.finished.get_mut(address) {
                *effect = None;
            }
            self.open.insert(address.to_owned(), action.to_owned());
        }
    }

    /// A provisioner began to work on it.
    pub fn provisions(&mut self, address: &str) {
        let made = self.open.get(address).and_then(|action| Effect::of(action)) == Some(Effect::Created);
        if let Some(resource) = resource(address).filter(|_| made) {
            self.provisioned.insert(resource);
        }
    }

    /// The objects that were being made and have provisioners: whether these have all come to their end is not known. One that
    /// was not heard to begin with them is among these where another object of the same resource was.
    pub fn half_made(&self) -> impl Iterator<Item = &str> {
        let made = |(address, action): &(&String, &String)| {
            Effect::of(action) == Some(Effect::Created)
                && resource(address).is_some_and(|resource| self.provisioned.contains(&resource))
        };
        self.open.iter().filter(made).map(|(address, _)| address.as_str())
    }

    /// It ended with it well, after so many seconds.
    pub fn completed(&mut self, address: &str, seconds: u64) {
        if let Some(action) = self.open.remove(address) {
            self.seconds.insert(address.to_owned(), seconds);
            let effect = Effect::of(&action);
            let before = self.finished.get(address).copied().flatten();
            // What was created and whose predecessor is deleted after that is still a new object.
            let effect = if before == Some(Effect::Created) { before } else { effect };
            self.finished.insert(address.to_owned(), effect);
        }
    }

    /// It ended with it badly. When its provider died, what was asked for may have been done all the same.
    pub fn errored(&mut self, address: &str) {
        if self.open.contains_key(address) {
            self.errored.insert(address.to_owned());
        }
    }

    /// It told an error, about an address or about none.
    pub fn error_told(&mut self, address: Option<&str>, source: ErrorSource) {
        match source {
            ErrorSource::Answer => self.answered.extend(address.map(str::to_owned)),
            ErrorSource::Silence => self.silent = true,
            ErrorSource::StateNotWritten => self.unwritten = true,
            ErrorSource::Cancelled => return,
        }
        self.over = true;
    }

    /// It told its counts, which come after a success.
    pub fn counts_told(&mut self) {
        self.over = true;
    }

    /// It said something, whatever it was.
    pub fn spoke(&mut self) {
        self.spoke = true;
    }

    /// Whether it has said anything.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        self.spoke
    }

    /// A line that it said is not whole: the disk is full, and more may be lost.
    pub fn line_lost(&mut self) {
        self.torn = true;
    }

    /// It said that it cannot write its state.
    pub fn state_not_written(&mut self) {
        self.unwritten = true;
    }

    /// Whether Terraform has told how the whole walk ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The addresses in flight, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// What was being done at an address.
    #[must_use]
    pub fn action(&self, address: &str) -> Option<&str> {
        self.open.get(address).map(String::as_str)
    }

    /// What has ended well, with its effect.
    pub fn effects(&self) -> impl Iterator<Item = (&str, Effect)> {
        self.finished.iter().filter_map(|(address, effect)| Some((address.as_str(), (*effect)?)))
    }

    /// How many seconds the last action took that ended well at an address.
    #[must_use]
    pub fn seconds(&self, address: &str) -> Option<u64> {
        self.seconds.get(address).copied()
    }

    /// Whether nothing was ended so far.
    #[must_use]
    pub fn nothing_finished(&self) -> bool {
        self.finished.is_empty()
    }

    /// Whether Terraform may have done more than it was heard to say.
    #[must_use]
    pub fn may_be_more(&self) -> bool {
        self.torn
    }

    /// Whether the state on disk may be older than what was done.
    #[must_use]
    pub fn state_may_be_old(&self) -> bool {
        self.unwritten || self.torn
    }

    /// Terraform succeeded: nothing is in flight.
    pub fn all_ended(&mut self) {
        self.end(|_, _| true);
    }

    /// Terraform came to its end by itself: it waits for what it has begun, even where its events do not say so. Only for
    /// what a provider that died had been asked, nobody waits.
    ///
    /// `explained` says whether it was heard in another way why: one that has not told it was not heard to its end.
    pub fn ended_by_itself(&mut self, explained: bool) {
        self.torn |= !explained && !self.over;
        let (silent, answered) = (self.silent, std::mem::take(&mut self.answered));
        self.end(|address, errored| !silent || answered.contains(address) || !errored);
    }

    fn end(&mut self, has_ended: impl Fn(&str, bool) -> bool) {
        let errored = std::mem::take(&mut self.errored);
        let open = std::mem::take(&mut self.open);
        for (address, action) in open {
            if has_ended(&address, errored.contains(&address)) {
                self.finished.entry(address).or_default();
            } else {
                self.open.insert(address, action);
            }
        }
    }

    /// Something is in flight, or may be: this effect was asked for, and nothing shows it.
    pub fn may_have(&mut self, address: &str, effect: Effect) {
        let action = self.open.entry(address.to_owned()).or_insert_with(|| effect.action().to_owned());
        // That an object may exist unseen is worse than that one may be gone.
        if effect == Effect::Created {
            effect.action().clone_into(action);
        }
    }

    /// The same for whom the state was lost: what was ended and is not in `recorded` may or may not be what it was.
    #[must_use]
    pub fn without_a_state(&self, recorded: &BTreeSet<String>) -> Self {
        let mut lost = self.clone();
        for (address, effect) in self.finished.iter().filter(|(address, _)| !recorded.contains(*address)) {
            let action = effect.map(Effect::action).unwrap_or_default();
            lost.open.entry(address.clone()).or_insert_with(|| action.to_owned());
        }
        lost
    }
}

/// The resource of an instance.
fn resource(address: &str) -> Option<ConfigAddress> {
    Address::parse(address).ok().map(|address| address.config())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(in_flight: &InFlight) -> Vec<&str> {
        in_flight.addresses().collect()
    }

    fn begun() -> InFlight {
        let mut in_flight = InFlight::default();
        for (address, action) in [("a.x", "create"), ("a.y", "update"), ("a.z", "create"), ("data.a.b", "read")] {
            in_flight.began(address, action);
        }
        in_flight
    }

    #[test]
    fn what_was_ended_counts_as_open_when_no_state_has_it() {
        let mut in_flight = begun();
        assert!(in_flight.nothing_finished());
        in_flight.completed("a.x", 2);
        in_flight.completed("a.y", 2);
        in_flight.completed("data.a.b", 2);
        assert_eq!(open(&in_flight), ["a.z"]);
        let lost = in_flight.without_a_state(&BTreeSet::from(["a.x".to_owned()]));
        assert_eq!(open(&lost), ["a.y", "a.z"]);
        assert_eq!((lost.action("a.y"), lost.action("a.z")), (Some("update"), Some("create")));
        in_flight.all_ended();
        assert_eq!(in_flight.addresses().count(), 0);
    }

    #[test]
    fn a_terraform_that_says_why_it_failed_left_nothing_in_flight() {
        let mut in_flight = begun();
        in_flight.errored("a.x");
        assert_eq!(open(&in_flight), ["a.x", "a.y", "a.z"], "its provider may have died");
        in_flight.error_told(Some("a.x"), ErrorSource::Answer);
        in_flight.ended_by_itself(false);
        assert_eq!((open(&in_flight), in_flight.may_be_more()), (vec![], false));
    }

    #[test]
    fn what_a_provider_was_asked_for_when_it_died_stays_in_flight() {
        let mut in_flight = begun();
        in_flight.errored("a.x");
        in_flight.errored("a.y");
        in_flight.error_told(Some("a.x"), ErrorSource::Answer);
        in_flight.error_told(None, ErrorSource::Silence);
        in_flight.ended_by_itself(false);
        // a.z has no end, but another provider may have waited for it; a.x has an error of its own.
        assert_eq!(open(&in_flight), ["a.y"]);
    }

    #[test]
    fn one_that_does_not_say_why_was_not_heard_to_its_end() {
        let mut in_flight = begun();
        in_flight.ended_by_itself(false);
        assert!(in_flight.may_be_more() && in_flight.state_may_be_old());
        let mut stopped = begun();
        stopped.ended_by_itself(true);
        assert!(!stopped.may_be_more());
        let mut cancelled = begun();
        cancelled.error_told(None, ErrorSource::Cancelled);
        assert!(!cancelled.is_over());
    }

    #[test]
    fn a_replacement_that_creates_first_ends_with_a_new_object() {
        let mut in_flight = InFlight::default();
        for action in ["create", "delete"] {
            in_flight.began("a.x", action);
            in_flight.completed("a.x", 2);
        }
        assert_eq!(in_flight.effects().collect::<Vec<_>>(), [("a.x", Effect::Created)]);
        assert_eq!((in_flight.seconds("a.x"), in_flight.seconds("a.y")), (Some(2), None));
        in_flight.began("a.y", "delete");
        in_flight.completed("a.y", 2);
        assert_eq!(in_flight.effects().collect::<Vec<_>>(), [("a.x", Effect::Created), ("a.y", Effect::Deleted)]);
        // The old one is gone, and what counts is whether there is a new one.
        in_flight.began("a.y", "create");
        in_flight.errored("a.y");
        in_flight.error_told(Some("a.y"), ErrorSource::Answer);
        in_flight.ended_by_itself(false);
        assert_eq!(in_flight.effects().collect::<Vec<_>>(), [("a.x", Effect::Created)]);
    }

    #[test]
    fn an_object_is_half_made_until_its_provisioners_have_ended() {
        let mut in_flight = InFlight::default();
        for address in ["a.many[0]", "a.many[1]", "a.bare", "module.m[\"x\"].a.many[0]"] {
            in_flight.began(address, "create");
        }
        in_flight.began("a.gone", "delete");
        in_flight.provisions("a.gone");
        assert_eq!(in_flight.half_made().count(), 0);
        in_flight.provisions("a.many[0]");
        // Of the second one the log does not tell yet that its provisioners have begun, but it has some.
        assert_eq!(in_flight.half_made().collect::<Vec<_>>(), ["a.many[0]", "a.many[1]"]);
        in_flight.completed("a.many[0]", 1);
        assert_eq!(in_flight.half_made().collect::<Vec<_>>(), ["a.many[1]"]);
    }
}
