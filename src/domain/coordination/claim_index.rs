//! Claims, indexed so that thousands can be compared with thousands, also when all of them are instances of one resource.

use std::collections::HashMap;

use super::reservation::Claim;
use crate::domain::address::{Address, ConfigAddress, Key, Pattern};

/// A set of claims.
#[derive(Debug, Default)]
pub struct ClaimIndex<'a> {
    by_resource: HashMap<ConfigAddress, Vec<Group<'a>>>,
    outputs: HashMap<&'a str, Vec<Entry<'a>>>,
    /// What may meet patterns of any resource.
    wide: Vec<Entry<'a>>,
    all: Vec<Entry<'a>>,
}

/// A claim with its place among all.
type Entry<'a> = (usize, &'a Claim);

/// Claims to one resource that give keys at the same steps of their address. Whoever gives at least these keys meets
/// exactly those claims that give the same.
#[derive(Debug)]
struct Group<'a> {
    steps: Vec<bool>,
    by_keys: HashMap<Vec<&'a Key>, Vec<Entry<'a>>>,
}

/// The keys of an address, step by step, with that of the resource at the end.
fn keys(address: &Address) -> impl Iterator<Item = Option<&Key>> {
    address.module.0.iter().map(|step| step.key.as_ref()).chain([address.key.as_ref()])
}

impl<'a> ClaimIndex<'a> {
    /// Indexes the claims of one side.
    pub fn new(claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let mut index = Self::default();
        for (place, claim) in claims.into_iter().enumerate() {
            index.all.push((place, claim));
            match &claim.pattern {
                Pattern::Resource(address) => index.add(address, (place, claim)),
                Pattern::Output(name) => index.outputs.entry(name).or_default().push((place, claim)),
                Pattern::Everything | Pattern::Module(_) => index.wide.push((place, claim)),
            }
        }
        index
    }

    fn add(&mut self, address: &'a Address, entry: Entry<'a>) {
        let groups = self.by_resource.entry(address.config()).or_default();
        let steps: Vec<bool> = keys(address).map(|key| key.is_some()).collect();
        let place = groups.iter().position(|group| group.steps == steps).unwrap_or_else(|| {
            groups.push(Group { steps, by_keys: HashMap::new() });
            groups.len() - 1
        });
        groups[place].by_keys.entry(keys(address).flatten().collect()).or_default().push(entry);
    }

    /// The indexed claims whose patterns meet this one, whatever their modes, in their order.
    pub fn meeting(&self, pattern: &Pattern) -> impl Iterator<Item = &'a Claim> {
        let mut near: Vec<Entry<'a>> = Vec::new();
        match pattern {
            Pattern::Resource(address) => {
                for group in self.by_resource.get(&address.config()).into_iter().flatten() {
                    group.near(address, &mut near);
                }
                near.extend(&self.wide);
            }
            Pattern::Output(name) => {
                near.extend(self.outputs.get(name.as_str()).into_iter().flatten());
                near.extend(&self.wide);
            }
            Pattern::Everything | Pattern::Module(_) => near.extend(&self.all),
        }
        near.retain(|(_, claim)| claim.pattern.intersects(pattern));
        near.sort_unstable_by_key(|(place, _)| *place);
        near.into_iter().map(|(_, claim)| claim)
    }
}

impl<'a> Group<'a> {
    /// Adds the claims of the group that may meet an address of the same resource.
    fn near(&self, address: &Address, out: &mut Vec<Entry<'a>>) {
        let given: Option<Vec<&Key>> =
            keys(address).zip(&self.steps).filter(|(_, asked)| **asked).map(|(key, _)| key).collect();
        match given {
            Some(given) => out.extend(self.by_keys.get(&given).into_iter().flatten()),
            // A missing key means every instance: most of the group.
            None => out.extend(self.by_keys.values().flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::coordination::reservation::AccessMode;

    /// Few names and keys, so that many patterns meet.
    fn pattern() -> impl Strategy<Value = Pattern> {
        let key = || prop_oneof![Just(""), Just("[0]"), Just("[\"0\"]"), Just("[1]")];
        let module =
            || (prop_oneof![Just("a"), Just("b")], key()).prop_map(|(name, key)| format!("module.{name}{key}."));
        let path = proptest::collection::vec(module(), 0..3).prop_map(|steps| steps.concat());
        let resource = (path.clone(), prop_oneof![Just("x.y"), Just("data.x.y"), Just("x.z")], key());
        prop_oneof![
            8 => resource.prop_map(|(path, name, key)| format!("{path}{name}{key}")),
            1 => path.prop_map(|path| if path.is_empty() { "*".to_owned() } else { format!("{path}*") }),
            1 => prop_oneof![Just("output.o".to_owned()), Just("output.p".to_owned())],
        ]
        .prop_map(|text| Pattern::parse(&text).unwrap())
    }

    proptest! {
        #[test]
        fn it_finds_what_looking_at_each_would_find(claims in proptest::collection::vec(pattern(), 0..30), asked in pattern()) {
            let claims: Vec<Claim> =
                claims.into_iter().map(|pattern| Claim { pattern, mode: AccessMode::Read }).collect();
            let index = ClaimIndex::new(&claims);
            let found: Vec<&Claim> = index.meeting(&asked).collect();
            let expected: Vec<&Claim> = claims.iter().filter(|claim| claim.pattern.intersects(&asked)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn each_instance_of_a_large_resource_meets_few_claims() {
        let claims: Vec<Claim> = (0..20_000)
            .map(|number| Claim::write(Pattern::parse(&format!("module.m[\"a\"].x.y[\"{number}\"]")).unwrap()))
            .collect();
        let index = ClaimIndex::new(&claims);
        for claim in &claims {
            let Pattern::Resource(address) = &claim.pattern else { panic!("a resource") };
            let mut near = Vec::new();
            for group in &index.by_resource[&address.config()] {
                group.near(address, &mut near);
            }
            assert_eq!(near.len(), 1);
        }
    }
}
