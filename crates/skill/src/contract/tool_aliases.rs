//! Which names of tools mean the same, by what several skills declare.

use std::collections::{BTreeMap, BTreeSet};

/// Names of tools in groups that mean the same: each name with its other names, in both directions and on to theirs.
///
/// Another name that two skills declare stands for none of them, so that no skill takes the name of a tool of another one.
///
/// ```
/// # mod metier { pub use metier_core::*; pub use metier_skill as skill; pub use metier_skill::formats; }
/// use metier::skill::contract::ToolAliases;
///
/// let github = [("search".to_owned(), vec!["search_code".to_owned(), "get_issue".to_owned()])];
/// let linear = [("issue".to_owned(), vec!["get_issue".to_owned()])];
/// let aliases = ToolAliases::new([("github", &github[..]), ("linear", &linear[..])]);
/// assert_eq!(aliases.equivalents("search_code").collect::<Vec<_>>(), ["search"]);
/// assert_eq!(aliases.equivalents("get_issue").count(), 0);
/// assert_eq!(aliases.ambiguous()["get_issue"].iter().collect::<Vec<_>>(), ["github", "linear"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAliases {
    group_by_name: BTreeMap<String, usize>,
    groups: Vec<BTreeSet<String>>,
    ambiguous: BTreeMap<String, BTreeSet<String>>,
}

impl ToolAliases {
    /// The table of what these skills declare, each with its name.
    pub fn new<'a>(declared: impl IntoIterator<Item = (&'a str, &'a [(String, Vec<String>)])>) -> Self {
        let mut claims: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut pairs = Vec::new();
        for (skill, aliases) in declared {
            for (name, other) in
                aliases.iter().flat_map(|(name, others)| others.iter().map(move |other| (name, other)))
            {
                if name != other {
                    claims.entry(other).or_default().insert(skill.to_owned());
                    pairs.push((name, other));
                }
            }
        }
        let is_ambiguous = |name: &str| claims.get(name).is_some_and(|skills| skills.len() > 1);
        let mut table = Self::default();
        for (name, other) in pairs.into_iter().filter(|(_, other)| !is_ambiguous(other)) {
            table.join(name, other);
        }
        let ambiguous = claims.into_iter().filter(|(_, skills)| skills.len() > 1);
        table.ambiguous = ambiguous.map(|(name, skills)| (name.to_owned(), skills)).collect();
        table
    }

    fn join(&mut self, name: &str, other: &str) {
        let (kept, moved) = (self.group(name), self.group(other));
        if kept == moved {
            return;
        }
        let names = std::mem::take(&mut self.groups[moved]);
        for name in &names {
            self.group_by_name.insert(name.clone(), kept);
        }
        self.groups[kept].extend(names);
    }

    /// The group of a name, or a new one.
    fn group(&mut self, name: &str) -> usize {
        let next = self.groups.len();
        let group = *self.group_by_name.entry(name.to_owned()).or_insert(next);
        if group == next {
            self.groups.push(BTreeSet::from([name.to_owned()]));
        }
        group
    }

    /// The other names of a tool, sorted.
    pub fn equivalents<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let group = self.group_by_name.get(name).map(|group| &self.groups[*group]);
        group.into_iter().flatten().map(String::as_str).filter(move |other| *other != name)
    }

    /// The names that several skills declare for theirs, with these skills.
    pub fn ambiguous(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(pairs: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        pairs.iter().map(|(name, others)| ((*name).to_owned(), owned(others))).collect()
    }

    fn others<'a>(table: &'a ToolAliases, name: &'a str) -> Vec<&'a str> {
        table.equivalents(name).collect()
    }

    #[test]
    fn sw_27_names_mean_the_same_in_both_directions_and_on() {
        let one = declared(&[("a", &["b", "c"]), ("c", &["d"]), ("x", &["x"])]);
        let two = declared(&[("e", &["a"])]);
        let table = ToolAliases::new([("one", &one[..]), ("two", &two[..])]);
        assert_eq!(others(&table, "a"), ["b", "c", "d", "e"]);
        assert_eq!(others(&table, "d"), ["a", "b", "c", "e"]);
        assert!(others(&table, "x").is_empty() && others(&table, "nothing").is_empty());
        assert!(table.ambiguous().is_empty());
    }

    #[test]
    fn sw_27_a_name_of_two_skills_stands_for_none() {
        let one = declared(&[("a", &["get", "find"]), ("a2", &["get"])]);
        let two = declared(&[("b", &["get", "list"])]);
        let table = ToolAliases::new([("one", &one[..]), ("two", &two[..])]);
        assert_eq!((others(&table, "a"), others(&table, "b")), (vec!["find"], vec!["list"]));
        assert!(others(&table, "get").is_empty() && others(&table, "a2").is_empty());
        assert_eq!(table.ambiguous().keys().collect::<Vec<_>>(), ["get"], "once");
    }
}
