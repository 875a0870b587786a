//! What Terraform has begun with and not yet ended, told by its events in their order.

use std::collections::BTreeMap;

/// The actions in flight, by address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InFlight(BTreeMap<String, String>);

impl InFlight {
    /// Terraform began with a resource. Reading changes nothing, so it does not count.
    pub fn began(&mut self, address: &str, action: &str) {
        if action != "read" {
            self.0.insert(address.to_owned(), action.to_owned());
        }
    }

    /// It ended with it, well or not.
    pub fn ended(&mut self, address: &str) {
        self.0.remove(address);
    }

    /// The addresses, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What was being done at an address.
    #[must_use]
    pub fn action(&self, address: &str) -> Option<&str> {
        self.0.get(address).map(String::as_str)
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
