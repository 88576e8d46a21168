//! Finds secrets that are known by their form.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::edit::Edit;
use super::private_key;
use crate::secret_family::{BodyEnd, FAMILIES, SecretFamily, Surroundings, begins_word};

/// The search for all prefixes, and the families of each.
struct PrefixSearch {
    prefixes: Option<AhoCorasick>,
    /// Of each prefix; none for that of private keys.
    families: Vec<Vec<&'static SecretFamily>>,
}

static PREFIX_SEARCH: LazyLock<PrefixSearch> = LazyLock::new(|| {
    let mut prefixes: Vec<&str> = vec![private_key::BEGIN];
    let mut families: Vec<Vec<&SecretFamily>> = vec![Vec::new()];
    for family in FAMILIES {
        for prefix in family.prefixes {
            let known = prefixes.iter().position(|known| known == prefix);
            if let Some(at) = known {
                families[at].push(family);
            } else {
                prefixes.push(prefix);
                families.push(vec![family]);
            }
        }
    }
    let search = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(prefixes);
    // It fails only for more prefixes than a number can count.
    PrefixSearch { prefixes: search.ok(), families }
});

/// The secrets in a text, in its order: each with the name of its family, but for the beginning of one at the end of a cut text, which
/// is removed.
pub(super) fn known_secret_edits(text: &str, around: &Surroundings<'_>) -> Vec<Edit> {
    let search = &*PREFIX_SEARCH;
    let Some(prefixes) = &search.prefixes else { return Vec::new() };
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(found) = prefixes.find(Input::new(text).range(at..)) {
        let start = found.start();
        let families = &search.families[found.pattern().as_usize()];
        match secret_edit(text, (start, found.end()), families, around) {
            Some(edit) => {
                at = edit.range.end;
                edits.push(edit);
            }
            // Another prefix may begin within this one.
            None => at = start + 1,
        }
    }
    edits
}

/// The secret whose prefix stands there, if one follows.
fn secret_edit(
    text: &str,
    (start, prefix_end): (usize, usize),
    families: &[&SecretFamily],
    around: &Surroundings<'_>,
) -> Option<Edit> {
    if families.is_empty() {
        let end = private_key::end_of_key(text, start)?;
        return Some(Edit::new(start..end, "[secret:private-key]"));
    }
    let bytes = text.as_bytes();
    if !begins_word(bytes, start) && !around.is_junction(start) {
        return None;
    }
    let ends =
        families.iter().filter_map(|family| Some((family, family.body_end(bytes, prefix_end, around)?)));
    // A complete one says more than one that was cut.
    let (family, end) = ends.max_by_key(|(_, end)| matches!(end, BodyEnd::Complete(_)))?;
    Some(match end {
        BodyEnd::Complete(end) => Edit::new(start..end, format!("[secret:{}]", family.name)),
        BodyEnd::Cut(end) => Edit::removal(start..end),
    })
}
