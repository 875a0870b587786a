//! Patterns for display: a module stands for everything in it when everything in it is meant (design §6). What is
//! stored and compared stays exact.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::address::{Address, ModulePath, ModuleScope, Pattern};

/// Replaces patterns below a module by `module.NAME.*` where every known address below it is covered.
///
/// `known` are the addresses in the trunk; those of the patterns themselves are added. Modules as high up as
/// possible are taken, and only where they stand for more than one pattern.
#[must_use]
pub fn compact(patterns: &[Pattern], known: &[Address]) -> Vec<Pattern> {
    let exact: BTreeSet<&Pattern> = patterns.iter().collect();
    let wide: Vec<&Pattern> = patterns.iter().filter(|pattern| is_wide(pattern)).collect();
    let covered = |address: &Address| {
        let pattern = Pattern::Resource(address.clone());
        exact.contains(&pattern) || wide.iter().any(|wide| wide.covers(&pattern))
    };
    // How many patterns stand below each module, and which modules hold something that is not covered.
    let mut below: BTreeMap<ModulePath, usize> = BTreeMap::new();
    let mut broken: BTreeSet<ModulePath> = BTreeSet::new();
    for pattern in patterns {
        if let Pattern::Resource(address) = pattern {
            for module in above(&address.module) {
                *below.entry(module).or_default() += 1;
            }
        }
    }
    for address in known.iter().filter(|address| !covered(address)) {
        broken.extend(above(&address.module));
    }
    let stands_for =
        |module: &ModulePath| below.get(module).is_some_and(|count| *count > 1) && !broken.contains(module);
    let mut shown: BTreeSet<Pattern> = BTreeSet::new();
    for pattern in patterns {
        let module = match pattern {
            Pattern::Resource(address) => above(&address.module).into_iter().find(stands_for),
            _ => None,
        };
        shown.insert(module.map_or_else(|| pattern.clone(), |module| Pattern::Module(ModuleScope(module))));
    }
    shown.into_iter().collect()
}

/// A pattern that covers more than the one address that it spells.
fn is_wide(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Everything | Pattern::Module(_) => true,
        Pattern::Resource(address) => address.key.is_none() || address.module.0.iter().any(|step| step.key.is_none()),
        Pattern::Output(_) => false,
    }
}

/// The module and those above it, from the top; without the root.
fn above(module: &ModulePath) -> Vec<ModulePath> {
    (1..=module.0.len()).map(|steps| ModulePath(module.0[..steps].to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(patterns: &[&str], known: &[&str]) -> Vec<String> {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let known: Vec<Address> = known.iter().map(|text| Address::parse(text).unwrap()).collect();
        compact(&patterns, &known).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_module_stands_for_everything_in_it() {
        let all = ["module.web.x.a", "module.web.x.b[0]", "module.web.module.in.x.c"];
        assert_eq!(shown(&all, &all), ["module.web.*"]);
        assert_eq!(
            shown(&["module.web.x.a", "output.o", "x.r"], &["module.web.x.a"]),
            ["x.r", "module.web.x.a", "output.o"]
        );
    }

    #[test]
    fn a_module_with_something_else_in_it_does_not() {
        let held = ["module.web.module.in.x.c", "module.web.module.in.x.d", "module.web.x.a"];
        let known = ["module.web.x.free"];
        assert_eq!(shown(&held, &known), ["module.web.module.in.*", "module.web.x.a"]);
    }

    #[test]
    fn a_pattern_over_all_instances_covers_each_of_them() {
        let held = ["module.web.x.a", "module.web.x.b"];
        assert_eq!(shown(&held, &["module.web.x.a[0]", "module.web.x.a[1]", "module.web.x.b"]), ["module.web.*"]);
    }
}
