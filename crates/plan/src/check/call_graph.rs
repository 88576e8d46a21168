//! The call graph of skills: finds cycles, and chains of calls deeper than allowed.

use std::collections::HashMap;

use crate::callees::{Callee, CalleeLookup};
use crate::check::callee_cache::CalleeCache;

/// The longest call chain of each skill; each skill is visited once, however many others call it.
#[derive(Default)]
pub(crate) struct CallGraph(HashMap<String, LongestChain>);

/// The longest chain of calls that starts at a skill: its length in skills, and its first skill by name and identity.
#[derive(Clone, Default)]
struct LongestChain {
    length: usize,
    next: Option<(String, String)>,
}

/// A skill on the current chain, and those of its callees that were not visited yet.
struct CallFrame {
    identity: String,
    name: Option<String>,
    unvisited: Vec<String>,
    longest_chain: LongestChain,
}

impl CallFrame {
    fn extend_chain(&mut self, name: &str, identity: &str, count: usize) {
        if count > self.longest_chain.length {
            self.longest_chain =
                LongestChain { length: count, next: Some((name.to_owned(), identity.to_owned())) };
        }
    }
}

impl CallGraph {
    /// The names along the longest chain that begins with a call of `first`; or, if that leads into a cycle, the names along
    /// the cycle, with the first one again at the end. `own` is the identity of the caller.
    pub(crate) fn longest_chain_from(
        &mut self,
        own: &str,
        first: &str,
        known: &mut CalleeCache<'_>,
    ) -> Result<Vec<String>, Vec<String>> {
        let calls = vec![first.to_owned()];
        let mut way = vec![CallFrame {
            identity: own.to_owned(),
            name: None,
            unvisited: calls,
            longest_chain: LongestChain::default(),
        }];
        while let Some(stop) = way.last_mut() {
            let Some(name) = stop.unvisited.pop() else {
                let Some(CallFrame { identity, name, longest_chain: below, .. }) = way.pop() else { break };
                let Some((caller, name)) = way.last_mut().zip(name) else {
                    return Ok(self.chain_names(&below));
                };
                caller.extend_chain(&name, &identity, below.length + 1);
                self.0.insert(identity, below);
                continue;
            };
            let found = known.skill(&name);
            let CalleeLookup::Found(Callee { identity, calls, .. }) = &*found else { continue };
            if let Some(below) = self.0.get(identity) {
                stop.extend_chain(&name, identity, below.length + 1);
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
            way.push(CallFrame {
                identity,
                name: Some(name),
                unvisited: calls,
                longest_chain: LongestChain::default(),
            });
        }
        Ok(Vec::new())
    }

    fn chain_names(&self, below: &LongestChain) -> Vec<String> {
        let mut names = Vec::new();
        let mut next = below.next.as_ref();
        while let Some((name, identity)) = next {
            names.push(name.clone());
            next = self.0.get(identity).and_then(|below| below.next.as_ref());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::TestCallees;

    fn circle(own: &str, first: &str, table: &TestCallees) -> Option<Vec<String>> {
        CallGraph::default().longest_chain_from(own, first, &mut CalleeCache::new(table)).err()
    }

    #[test]
    fn a_circle_is_reported_by_its_names() {
        let table = TestCallees::calling(&[
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
    fn the_longest_way_is_reported_by_its_names() {
        let table = TestCallees::calling(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["b"]), ("d", &[])]);
        let mut ways = CallGraph::default();
        let mut known = CalleeCache::new(&table);
        let mut told =
            |first: &str| ways.longest_chain_from("x", first, &mut known).map(|names| names.join(" > "));
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
        assert_eq!(circle("x", "s0", &TestCallees::calling(&rows)), None);
        let names = &names[..60];
        let later: Vec<Vec<&str>> =
            (0..60).map(|at| names[at + 1..].iter().map(String::as_str).collect()).collect();
        let rows: Vec<(&str, &[&str])> =
            names.iter().zip(&later).map(|(name, calls)| (name.as_str(), calls.as_slice())).collect();
        assert_eq!(circle("x", "s0", &TestCallees::calling(&rows)), None);
    }
}
