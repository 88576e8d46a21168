//! The entries of two lists, matched by their names.

use std::collections::HashMap;

/// An entry in both lists, or in one of them.
pub(super) struct NamedPair<'c, T> {
    pub(super) name: &'c str,
    pub(super) old: Option<&'c T>,
    pub(super) new: Option<&'c T>,
}

/// The entries of both lists by name: those of the new one first, each in written order. Of several with one name the last counts.
pub(super) fn named_pairs<'c, T>(
    old: &'c [T],
    new: &'c [T],
    name: impl Fn(&'c T) -> &'c str,
) -> Vec<NamedPair<'c, T>> {
    let by_name = |list: &'c [T]| list.iter().map(|entry| (name(entry), entry)).collect::<HashMap<_, _>>();
    let (old_by_name, new_by_name) = (by_name(old), by_name(new));
    let mut seen = std::collections::HashSet::new();
    let names = new.iter().chain(old).map(&name).filter(|name| seen.insert(*name));
    names
        .map(|name| NamedPair {
            name,
            old: old_by_name.get(name).copied(),
            new: new_by_name.get(name).copied(),
        })
        .collect()
}
