//! One difference between two versions of a skill, the list of all of them, and the entries of two lists matched by their names.

use std::collections::HashMap;

use serde::Serialize;

use crate::contract::escape_token;

/// The most findings of one kind that a list holds; how many more there are, it counts.
const MAX_LISTED: usize = 250;

/// How large the change of the version must be for one difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Change {
    /// Callers notice nothing.
    Patch,
    /// Callers go on as before, and can do more.
    Minor,
    /// It cannot be told whether callers go on as before.
    Unknown,
    /// A caller of the old version may fail, or must decide something anew.
    Major,
}

/// One difference between two versions of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Where it is: a JSON Pointer into the contract, with names instead of positions in its lists, such as
    /// `/tools/forecast/inputs/properties/city/type`. References of schemas are followed.
    pub path: String,
    /// The change that it needs.
    pub change: Change,
    /// What is different, in a sentence.
    pub message: String,
}

/// Findings by their changes, each kind up to a bound: a hostile contract has more differences than anybody reads.
#[derive(Debug, Default)]
pub(super) struct FindingList {
    findings: Vec<Finding>,
    counts: [usize; 4],
}

impl FindingList {
    pub(super) fn add(&mut self, path: impl Into<String>, change: Change, message: impl Into<String>) {
        let count = &mut self.counts[change as usize];
        *count += 1;
        if *count <= MAX_LISTED {
            self.findings.push(Finding { path: path.into(), change, message: message.into() });
        }
    }

    /// Adds a finding if the two are not the same.
    pub(super) fn add_if_changed<T: PartialEq + ?Sized>(
        &mut self,
        path: &str,
        (old, new): (&T, &T),
        change: Change,
        message: &str,
    ) {
        if old != new {
            self.add(path, change, message);
        }
    }

    /// How many findings there are of that kind, listed or not.
    pub(super) fn count(&self, change: Change) -> usize {
        self.counts[change as usize]
    }

    /// The listed findings, those first that need the largest change, and how many are left out.
    pub(super) fn finish(mut self) -> (Vec<Finding>, usize) {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.change));
        let left_out = self.counts.iter().sum::<usize>() - self.findings.len();
        (self.findings, left_out)
    }
}

/// The JSON Pointer of the entry with that name.
pub(super) fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", escape_token(name))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_holds_the_most_severe_and_counts_the_rest() {
        let mut list = FindingList::default();
        for at in 0..10_000 {
            list.add(format!("/{at}"), Change::Patch, "a");
        }
        list.add("/last", Change::Major, "b");
        list.add("/unknown", Change::Unknown, "c");
        assert_eq!((list.count(Change::Patch), list.count(Change::Minor)), (10_000, 0));
        let (findings, left_out) = list.finish();
        assert_eq!((findings[0].path.as_str(), findings[1].path.as_str()), ("/last", "/unknown"));
        assert_eq!((findings.len(), left_out), (252, 9_750));
    }

    #[test]
    fn names_with_slashes_are_one_token() {
        assert_eq!(pointer("/permissions", "write:a/b~c"), "/permissions/write:a~1b~0c");
    }
}
