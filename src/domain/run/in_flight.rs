//! What Terraform has begun with and what it has ended, told by its events in their order.

use std::collections::{BTreeMap, BTreeSet};

/// The actions in flight, by address, and the addresses that are done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InFlight {
    open: BTreeMap<String, String>,
    finished: BTreeSet<String>,
}

impl InFlight {
    /// Terraform began with a resource. Reading changes nothing, so it does not count.
    pub fn began(&mut self, address: &str, action: &str) {
        if action != "read" {
            self.open.insert(address.to_owned(), action.to_owned());
        }
    }

    /// It ended with it, well or not.
    pub fn ended(&mut self, address: &str) {
        if self.open.remove(address).is_some() {
            self.finished.insert(address.to_owned());
        }
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

    /// Whether nothing was ended so far.
    #[must_use]
    pub fn nothing_finished(&self) -> bool {
        self.finished.is_empty()
    }

    /// Terraform came to its end by itself: it waits for what it has begun, even where its events do not say so.
    pub fn all_ended(&mut self) {
        self.finished.extend(std::mem::take(&mut self.open).into_keys());
    }

    /// The same for whom the state was lost: what was ended and is not in `recorded` may or may not be what it was.
    #[must_use]
    pub fn without_a_state(&self, recorded: &BTreeSet<String>) -> Self {
        let mut open = self.open.clone();
        for address in self.finished.difference(recorded) {
            open.entry(address.clone()).or_default();
        }
        Self { open, finished: self.finished.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ended_counts_as_open_when_no_state_has_it() {
        let mut in_flight = InFlight::default();
        for (address, action) in [("a.x", "create"), ("a.y", "update"), ("a.z", "create"), ("data.a.b", "read")] {
            in_flight.began(address, action);
        }
        assert!(in_flight.nothing_finished());
        in_flight.ended("a.x");
        in_flight.ended("a.y");
        in_flight.ended("data.a.b");
        assert_eq!(in_flight.addresses().collect::<Vec<_>>(), ["a.z"]);
        let lost = in_flight.without_a_state(&BTreeSet::from(["a.x".to_owned()]));
        assert_eq!(lost.addresses().collect::<Vec<_>>(), ["a.y", "a.z"]);
        assert_eq!((lost.action("a.y"), lost.action("a.z")), (Some(""), Some("create")));
        in_flight.all_ended();
        assert_eq!(in_flight.addresses().count(), 0);
    }
}
