//! Skills that would call one another for ever.

use std::collections::HashSet;

use super::callees::{Callee, Callees, Lookup};

/// The names along a circle that a call of `first` leads into, the first again at the end. `own` is who calls.
pub(super) fn circle(own: &str, first: &str, callees: &dyn Callees) -> Option<Vec<String>> {
    let mut done = HashSet::new();
    let mut way = vec![Stop { identity: own.to_owned(), name: None, calls: vec![first.to_owned()] }];
    while let Some(stop) = way.last_mut() {
        let Some(name) = stop.calls.pop() else {
            done.extend(way.pop().map(|stop| stop.identity));
            continue;
        };
        let Lookup::Found(Callee { identity, calls, .. }) = callees.skill(&name) else { continue };
        if let Some(start) = way.iter().position(|stop| stop.identity == identity) {
            let mut names: Vec<String> =
                way[start + 1..].iter().filter_map(|stop| stop.name.clone()).collect();
            names.insert(0, name.clone());
            names.push(name);
            return Some(names);
        }
        if !done.contains(&identity) {
            way.push(Stop { identity, name: Some(name), calls });
        }
    }
    None
}

/// A skill on the way, and those it calls that were not looked at.
struct Stop {
    identity: String,
    name: Option<String>,
    calls: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::check::tests::Table;

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
