//! What the indexes go by to find the history of a set of claims: rows, resources, resources in an instance of their module.

use crate::domain::address::{Address, ModulePath, ModuleScope, Pattern};
use crate::domain::coordination::reservation::Claim;
use crate::domain::state::RowKey;

/// So many letters of an address stand in an index: an address can be longer than an index entry.
pub(in crate::store) const INDEXED: usize = 500;

/// What the indexes go by to find the history of a set of claims.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Footprint {
    /// Whether the whole state is claimed.
    pub(in crate::store) everything: bool,
    /// Digests, in hex, of the keys of single rows.
    pub(in crate::store) rows: Vec<String>,
    /// Instances whose deposed objects are rows, too.
    pub(in crate::store) instances: Vec<String>,
    /// Resources of which all instances in all instances of their module are claimed, without instance keys.
    pub(in crate::store) resources: Vec<String>,
    /// Resources in one instance of their module, of which all instances are claimed.
    pub(in crate::store) groups: Vec<String>,
    /// Where the database has to be asked which resources there are.
    pub(in crate::store) searches: Vec<Search>,
}

/// A range of an index in which everything that a pattern may cover stands.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct Search {
    /// What is wanted.
    pub(in crate::store) pattern: Pattern,
    /// Whether resources in instances of their modules are looked for, and not resources without instance keys.
    pub(in crate::store) keyed: bool,
    /// The first text of the range.
    pub(in crate::store) from: String,
    /// The first text behind it.
    pub(in crate::store) to: String,
}

impl Footprint {
    /// Takes in a resource that a search has found, as the index has it: perhaps cut.
    pub(in crate::store) fn found(&mut self, search: &Search, name: String) {
        if !search.keyed {
            self.resources.push(name);
            return;
        }
        // What is cut says too little: its rows are looked at.
        let Some(group) = Some(&name).filter(|name| name.chars().count() < INDEXED).map(|name| Address::parse(name))
        else {
            self.groups.push(name);
            return;
        };
        let Ok(group) = group else { return };
        if !search.pattern.intersects(&Pattern::Resource(group.clone())) {
            return;
        }
        match &search.pattern {
            Pattern::Resource(Address { key: Some(key), .. }) => {
                self.instance(Address { key: Some(key.clone()), ..group });
            }
            _ => self.groups.push(name),
        }
    }

    /// Each key once.
    pub(in crate::store) fn tidy(&mut self) {
        for keys in [&mut self.rows, &mut self.instances, &mut self.resources, &mut self.groups] {
            keys.sort_unstable();
            keys.dedup();
        }
    }

    fn instance(&mut self, address: Address) {
        self.instances.push(address.to_string());
        self.row(&RowKey::object(address));
    }

    fn row(&mut self, key: &RowKey) {
        self.rows.push(key.digest().to_string());
    }

    fn resource(&mut self, address: &Address) {
        let steps = &address.module.0;
        if steps.iter().all(|step| step.key.is_some()) {
            match address.key {
                Some(_) => self.instance(address.clone()),
                None if steps.is_empty() => self.resources.push(address.config().to_string()),
                None => self.groups.push(address.to_string()),
            }
        } else if address.key.is_none() && steps.iter().all(|step| step.key.is_none()) {
            self.resources.push(address.config().to_string());
        } else {
            if steps.iter().all(|step| step.key.is_none()) {
                // Modules that have no instances.
                self.instance(address.clone());
            }
            self.search(&Pattern::Resource(address.clone()), &address.module);
        }
    }

    fn module(&mut self, scope: &ModuleScope) {
        let pattern = Pattern::Module(scope.clone());
        if scope.0.0.iter().all(|step| step.key.is_none()) {
            let (from, to) = (format!("{}.", scope.0), format!("{}/", scope.0));
            self.searches.push(Search { pattern, keyed: false, from, to });
        } else {
            self.search(&pattern, &scope.0);
        }
    }

    /// Looks for resources in instances of a module: behind the steps that are given with their keys.
    fn search(&mut self, pattern: &Pattern, module: &ModulePath) {
        let given = module.0.iter().take_while(|step| step.key.is_some()).count();
        let known = ModulePath(module.0.iter().take(given + 1).cloned().collect());
        // '/' and '\\' are the bytes that follow '.' and '['.
        let mut range = |begin: char, end: char| {
            let (from, to) = (format!("{known}{begin}"), format!("{known}{end}"));
            self.searches.push(Search { pattern: pattern.clone(), keyed: true, from, to });
        };
        range('.', '/');
        if given < module.0.len() {
            range('[', '\\');
        }
    }
}

/// Sorts claims by what finds their rows.
pub(in crate::store) fn footprint(claims: &[Claim]) -> Footprint {
    let mut footprint = Footprint::default();
    for claim in claims {
        match &claim.pattern {
            Pattern::Everything => footprint.everything = true,
            Pattern::Module(scope) => footprint.module(scope),
            Pattern::Output(name) => footprint.row(&RowKey::Output(name.clone())),
            Pattern::Resource(address) => footprint.resource(address),
        }
    }
    footprint
}
