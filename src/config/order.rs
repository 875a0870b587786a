//! The order in which projects are planned and applied: what is depended on comes first.

use std::collections::BTreeSet;

/// Sorts things, numbered from 0, that come after others: `before[i]` are those that `i` needs. Among those that may come
/// next, the first in the given order does, so that the result depends on nothing else.
///
/// # Errors
/// Gives things that need each other, each the next, and the last the first.
pub fn sorted(before: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut done = BTreeSet::new();
    let mut order = Vec::new();
    while order.len() < before.len() {
        let next = (0..before.len()).find(|index| !done.contains(index) && before[*index].is_subset(&done));
        match next {
            Some(index) => {
                done.insert(index);
                order.push(index);
            }
            None => return Err(cycle(before, &done)),
        }
    }
    Ok(order)
}

/// A way round, beginning with the first thing that is on it. Everything left needs something that is left.
fn cycle(before: &[BTreeSet<usize>], done: &BTreeSet<usize>) -> Vec<usize> {
    let mut way: Vec<usize> = Vec::new();
    let mut next = (0..before.len()).find(|index| !done.contains(index));
    while let Some(index) = next {
        if let Some(start) = way.iter().position(|seen| *seen == index) {
            way.drain(..start);
            break;
        }
        way.push(index);
        next = before[index].iter().find(|needed| !done.contains(needed)).copied();
    }
    let first = way.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(at, _)| at);
    way.rotate_left(first);
    way
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(lists: &[&[usize]]) -> Vec<BTreeSet<usize>> {
        lists.iter().map(|list| list.iter().copied().collect()).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_the_rest_keeps_its_order() {
        assert_eq!(sorted(&needs(&[&[], &[], &[]])), Ok(vec![0, 1, 2]));
        assert_eq!(sorted(&needs(&[&[2], &[], &[]])), Ok(vec![1, 2, 0]));
        assert_eq!(sorted(&needs(&[&[1, 2], &[2], &[]])), Ok(vec![2, 1, 0]));
    }

    #[test]
    fn a_circle_is_shown_without_what_leads_to_it() {
        assert_eq!(sorted(&needs(&[&[2], &[0], &[3], &[2]])), Err(vec![2, 3]));
        assert_eq!(sorted(&needs(&[&[0]])), Err(vec![0]));
    }

    proptest! {
        #[test]
        fn every_order_respects_what_is_needed(edges in proptest::collection::vec((0..12_usize, 0..12_usize), 0..30)) {
            let mut before = vec![BTreeSet::new(); 12];
            for (later, earlier) in edges {
                before[later].insert(earlier);
            }
            match sorted(&before) {
                Ok(order) => {
                    prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), 12);
                    for (index, needed) in before.iter().enumerate() {
                        let at = |thing: usize| order.iter().position(|other| *other == thing);
                        prop_assert!(needed.iter().all(|needed| at(*needed) < at(index)));
                    }
                }
                Err(cycle) => {
                    let next = cycle.iter().cycle().skip(1);
                    prop_assert!(!cycle.is_empty());
                    prop_assert!(cycle.iter().zip(next).all(|(thing, needed)| before[*thing].contains(needed)));
                }
            }
        }
    }
}
