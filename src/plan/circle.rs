//! Where calls lead: skills that would call one another for ever, or deeper than they may.

use std::collections::HashMap;

use super::callees::{Callee, Lookup};
use super::known::Known;

/// The ways from skill to skill, each skill walked once however many lead to it.
#[derive(Default)]
pub(super) struct Ways(HashMap<String, Below>);

/// The longest way on from a skill: how many skills stand on it, and the first of them by name and identity.
#[derive(Clone, Default)]
struct Below {
    count: usize,
    first: Option<(String, String)>,
}

/// A skill on the way, and those it calls that were not looked at.
struct Stop {
    identity: String,
    name: Option<String>,
    calls: Vec<String>,
    below: Below,
}

impl Stop {
    fn leads_to(&mut self, name: &str, identity: &str, count: usize) {
        if count > self.below.count {
            self.below = Below { count, first: Some((name.to_owned(), identity.to_owned())) };
        }
    }
}

impl Ways {
    /// The names along the longest way that begins with a call of `first`; or else, along a circle that it leads into, the first
    /// again at the end. `own` is who calls.
    pub(super) fn from(
        &mut self,
        own: &str,
        first: &str,
        known: &mut Known<'_>,
    ) -> Result<Vec<String>, Vec<String>> {
        let calls = vec![first.to_owned()];
        let mut way = vec![Stop { identity: own.to_owned(), name: None, calls, below: Below::default() }];
        while let Some(stop) = way.last_mut() {
            let Some(name) = stop.calls.pop() else {
                let Some(Stop { identity, name, below, .. }) = way.pop() else { break };
                let Some((caller, name)) = way.last_mut().zip(name) else { return Ok(self.names(&below)) };
                caller.leads_to(&name, &identity, below.count + 1);
                self.0.insert(identity, below);
                continue;
            };
            let found = known.skill(&name);
            let Lookup::Found(Callee { identity, calls, .. }) = &*found else { continue };
            if let Some(below) = self.0.get(identity) {
                stop.leads_to(&name, identity, below.count + 1);
                continue;
            }
            if let Some(start) = way.iter().position(|stop| stop.identity == *identity) {
                let mut names: Vec<String> =
                    way[start + 1..].iter().filter_map(|stop| stop.name.clone()).collect();
                names.insert(0, name.clone());
                names.push(name);
                return Err(names);
            }
            let (identity, calls) = (identity.clone(), calls.clone());
            way.push(Stop { identity, name: Some(name), calls, below: Below::default() });
        }
        Ok(Vec::new())
    }

    fn names(&self, below: &Below) -> Vec<String> {
        let mut names = Vec::new();
        let mut next = below.first.as_ref();
        while let Some((name, identity)) = next {
            names.push(name.clone());
            next = self.0.get(identity).and_then(|below| below.first.as_ref());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::check::tests::Table;

    fn circle(own: &str, first: &str, table: &Table) -> Option<Vec<String>> {
        Ways::default().from(own, first, &mut Known::new(table)).err()
    }

    #[test]
    fn a_circle_is_told_by_its_names() {
        let table = Table::calling(&[
            ("a", &["b", "d"]),
            ("b", &["c", "d"]),
            ("c", &["a"]),
            ("d", &[]),
            ("e", &["e"]),
        ]);
        let told = |own: &str, first: &str| circle(own, first, &table).map(|names| names.join(" > "));
        assert_eq!(told("a", "b").as_deref(), Some("a > b > c > a"));
        assert_eq!(told("x", "b").as_deref(), Some("b > c > a > b"));
        assert_eq!(told("x", "e").as_deref(), Some("e > e"));
        assert_eq!(told("e", "e").as_deref(), Some("e > e"));
        assert_eq!(told("a", "d"), None);
        assert_eq!(told("a", "nobody"), None);
    }

    #[test]
    fn the_longest_way_is_told_by_its_names() {
        let table = Table::calling(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["b"]), ("d", &[])]);
        let mut ways = Ways::default();
        let mut known = Known::new(&table);
        let mut told = |first: &str| ways.from("x", first, &mut known).map(|names| names.join(" > "));
        assert_eq!(told("a").as_deref(), Ok("a > c > b > d"));
        assert_eq!(told("b").as_deref(), Ok("b > d"), "what was walked is known");
        assert_eq!(told("d").as_deref(), Ok("d"));
        assert_eq!(told("nobody").as_deref(), Ok(""));
    }

    #[test]
    fn a_chain_of_ten_thousand_and_a_dense_crowd_are_walked_once() {
        let names: Vec<String> = (0..10_000).map(|at| format!("s{at}")).collect();
        let rows: Vec<(&str, Vec<&str>)> =
            names.windows(2).map(|pair| (pair[0].as_str(), vec![pair[1].as_str()])).collect();
        let rows: Vec<(&str, &[&str])> = rows.iter().map(|(name, calls)| (*name, calls.as_slice())).collect();
        assert_eq!(circle("x", "s0", &Table::calling(&rows)), None);
        let names = &names[..60];
        let later: Vec<Vec<&str>> =
            (0..60).map(|at| names[at + 1..].iter().map(String::as_str).collect()).collect();
        let rows: Vec<(&str, &[&str])> =
            names.iter().zip(&later).map(|(name, calls)| (name.as_str(), calls.as_slice())).collect();
        assert_eq!(circle("x", "s0", &Table::calling(&rows)), None);
    }
}
