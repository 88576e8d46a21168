//! What became of single keywords: those whose values are no schemas.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::choices::{Choices, accepts, canonical_text, list_values, show_value};
use super::difference::{Difference, DifferenceKind, Effect, Place};
use super::numbers::{self, Bound};
use super::types::TypeSet;
use super::view::View;

/// Both views of the same part.
#[derive(Clone, Copy)]
pub(super) struct Pair<'s> {
    pub(super) old: View<'s>,
    pub(super) new: View<'s>,
}

/// A difference of what is accepted.
pub(super) fn difference(at: &Place<'_>, effect: Effect, message: impl Into<String>) -> Difference {
    Difference { path: at.pointer(), kind: DifferenceKind::Values, effect, message: message.into() }
}

/// Differences that are for readers only. A default is more where missing fields get it.
pub(super) fn notes(pair: Pair<'_>, at: &Place<'_>, fills_defaults: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    let (old_notes, new_notes) = (pair.old.notes(), pair.new.notes());
    let keywords: BTreeSet<&str> = old_notes.keys().chain(new_notes.keys()).copied().collect();
    for keyword in keywords {
        let (old, new) = (old_notes.get(keyword).copied(), new_notes.get(keyword).copied());
        if old.map(canonical_text) == new.map(canonical_text) {
            continue;
        }
        let is_default = fills_defaults && keyword == "default";
        let message = match (old, new) {
            (Some(old), Some(new)) if is_default => {
                format!("the default is {}; it was {}", show_value(new), show_value(old))
            }
            (None, Some(new)) if is_default => format!("the default {} is new", show_value(new)),
            (Some(old), None) if is_default => format!("the default {} is gone", show_value(old)),
            (None, _) => format!("`{keyword}` is new"),
            (_, None) => format!("`{keyword}` is gone"),
            _ => format!("`{keyword}` is different"),
        };
        let kind = if is_default { DifferenceKind::Default } else { DifferenceKind::Note };
        found.push(Difference { path: at.below(keyword).pointer(), kind, effect: Effect::None, message });
    }
    found
}

pub(super) fn compare_types((old, new): (TypeSet, TypeSet), at: &Place<'_>) -> Vec<Difference> {
    let (gone, added) = (old.without(new), new.without(old));
    let effect = match (gone.is_empty(), added.is_empty()) {
        (true, true) => return Vec::new(),
        (true, false) => Effect::Wider,
        (false, true) => Effect::Narrower,
        (false, false) => Effect::Both,
    };
    let message = format!("the type is {}; it was {}", new.describe(), old.describe());
    vec![difference(&at.below("type"), effect, message)]
}

/// Compares two lists of all values.
pub(super) fn compare_choices(
    pair: Pair<'_>,
    old: &Choices,
    new: &Choices,
    at: &Place<'_>,
) -> Vec<Difference> {
    let at = at.below(choice_keyword(pair));
    let mut found = Vec::new();
    let gone = old.values().iter().filter(|value| !new.contains(value));
    let added = new.values().iter().filter(|value| !old.contains(value));
    let (gone, added) = (list_values(gone), list_values(added));
    if !gone.is_empty() {
        found.push(difference(&at, Effect::Narrower, format!("no longer one of the choices: {gone}")));
    }
    if !added.is_empty() {
        found.push(difference(&at, Effect::Wider, format!("a new choice: {added}")));
    }
    found.extend(undecided_choices(pair, old.types().union(new.types()), &at));
    found
}

/// The difference where there were only these values, and now are infinitely many.
pub(super) fn released_choices(pair: Pair<'_>, old: &Choices, at: &Place<'_>) -> Vec<Difference> {
    let at = at.below(choice_keyword(pair));
    let refused = old.values().iter().filter(|value| !accepts(pair.new.keywords, value));
    let refused = list_values(refused);
    let mut found =
        vec![difference(&at, Effect::Wider, "other values than the listed ones are possible now")];
    if !refused.is_empty() {
        found.push(difference(&at, Effect::Narrower, format!("no longer possible: {refused}")));
    }
    found.extend(undecided_choices(pair, old.types(), &at));
    found
}

/// The difference where there were infinitely many values, and now are only these.
pub(super) fn limited_choices(pair: Pair<'_>, new: &Choices, at: &Place<'_>) -> Vec<Difference> {
    let at = at.below(choice_keyword(pair));
    let listed = list_values(new.values().iter());
    let mut found =
        vec![difference(&at, Effect::Narrower, format!("only these values are possible now: {listed}"))];
    let added = new.values().iter().filter(|value| !accepts(pair.old.keywords, value));
    let added = list_values(added);
    if !added.is_empty() {
        found.push(difference(&at, Effect::Wider, format!("possible now: {added}")));
    }
    found.extend(undecided_choices(pair, new.types(), &at));
    found
}

/// What says more about listed values, and is not decided for each of them.
fn undecided_choices(pair: Pair<'_>, types: TypeSet, at: &Place<'_>) -> Vec<Difference> {
    let is_fraction =
        |value: &Json| matches!(value, Json::Number(factor) if numbers::whole(factor).is_none());
    let decides = |view: View<'_>, keyword: &str| {
        view.get(keyword).filter(|value| keyword == "pattern" || is_fraction(value)).map(canonical_text)
    };
    let keywords = [("pattern", TypeSet::STRINGS), ("multipleOf", TypeSet::NUMBERS)];
    let differs = |(keyword, of_types): &(&str, TypeSet)| {
        types.overlaps(*of_types) && decides(pair.old, keyword) != decides(pair.new, keyword)
    };
    let message = |keyword: &str| format!("cannot tell which of the values fit the `{keyword}`");
    let undecided = keywords.into_iter().filter(differs);
    undecided.map(|(keyword, _)| difference(at, Effect::Unknown, message(keyword))).collect()
}

/// The keyword that lists the choices.
fn choice_keyword(pair: Pair<'_>) -> &'static str {
    let keywords = ["enum", "const", "anyOf", "oneOf"];
    let is_in = |view: View<'_>| keywords.into_iter().find(|keyword| view.get(keyword).is_some());
    is_in(pair.new).or_else(|| is_in(pair.old)).unwrap_or("type")
}

/// Compares lower and upper limits of a count, with the value of the lower one where it is absent.
pub(super) fn compare_limits(
    pair: Pair<'_>,
    at: &Place<'_>,
    (least, absent): (&'static str, i128),
    most: &'static str,
) -> Vec<Difference> {
    let count = |view: View<'_>, keyword: &str| match view.get(keyword) {
        Some(Json::Number(number)) => numbers::whole(number),
        _ => None,
    };
    let lower = [pair.old, pair.new].map(|view| count(view, least).unwrap_or(absent));
    let upper = [pair.old, pair.new].map(|view| count(view, most).unwrap_or(i128::MAX));
    let tightened = [(least, lower[1].cmp(&lower[0])), (most, upper[0].cmp(&upper[1]))];
    let difference = |(keyword, tightness): (&'static str, Ordering)| {
        let effect = effect_of_tightness(tightness)?;
        Some(difference(&at.below(keyword), effect, changed_keyword(pair, keyword)))
    };
    tightened.into_iter().filter_map(difference).collect()
}

fn effect_of_tightness(tightness: Ordering) -> Option<Effect> {
    match tightness {
        Ordering::Less => Some(Effect::Wider),
        Ordering::Equal => None,
        Ordering::Greater => Some(Effect::Narrower),
    }
}

/// What became of a keyword with a plain value.
fn changed_keyword(pair: Pair<'_>, keyword: &str) -> String {
    match (pair.old.get(keyword), pair.new.get(keyword)) {
        (None, Some(new)) => format!("{keyword} {} is new", show_value(new)),
        (Some(old), None) => format!("{keyword} {} is gone", show_value(old)),
        (Some(old), Some(new)) => format!("{keyword} is {}; it was {}", show_value(new), show_value(old)),
        (None, None) => format!("{keyword} is different"),
    }
}

pub(super) fn compare_numbers(pair: Pair<'_>, types: TypeSet, at: &Place<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_whole = !types.has_fractions();
    for bound in [Bound::lower, Bound::upper] {
        let (old, new) = (bound(pair.old.keywords), bound(pair.new.keywords));
        let (keyword, effect, message) = match (old, new) {
            (None, None) => continue,
            (None, Some(new)) => {
                (new.keyword, Effect::Narrower, format!("{} {} is new", new.keyword, new.value))
            }
            (Some(old), None) => {
                (old.keyword, Effect::Wider, format!("{} {} is gone", old.keyword, old.value))
            }
            (Some(old), Some(new)) => {
                let Some(effect) = effect_of_tightness(new.compare(&old, is_whole)) else { continue };
                let message = format!("{} is {}; {} was {}", new.keyword, new.value, old.keyword, old.value);
                (new.keyword, effect, message)
            }
        };
        found.push(difference(&at.below(keyword), effect, message));
    }
    found.extend(compare_multiples(pair, is_whole, at));
    found
}

fn compare_multiples(pair: Pair<'_>, is_whole: bool, at: &Place<'_>) -> Option<Difference> {
    let keyword = "multipleOf";
    let factor = |view: View<'_>| match view.get(keyword) {
        Some(Json::Number(number)) => Some(numbers::whole(number)),
        _ => None,
    };
    let divides = |one: i128, other: i128| one != 0 && other % one == 0;
    let effect = match (factor(pair.old), factor(pair.new)) {
        (None, None) => return None,
        (None, Some(Some(1))) | (Some(Some(1)), None) if is_whole => return None,
        (None, Some(_)) => Effect::Narrower,
        (Some(_), None) => Effect::Wider,
        (Some(Some(old)), Some(Some(new))) => match (divides(new, old), divides(old, new)) {
            (true, true) => return None,
            (true, false) => Effect::Wider,
            (false, true) => Effect::Narrower,
            (false, false) => Effect::Both,
        },
        _ if pair.old.get(keyword) == pair.new.get(keyword) => return None,
        _ => Effect::Unknown,
    };
    Some(difference(&at.below(keyword), effect, changed_keyword(pair, keyword)))
}

/// Compares a keyword whose values say nothing about one another.
pub(super) fn compare_opaque(pair: Pair<'_>, keyword: &'static str, at: &Place<'_>) -> Option<Difference> {
    let (old, new) = (pair.old.get(keyword), pair.new.get(keyword));
    if old.map(canonical_text) == new.map(canonical_text) {
        return None;
    }
    let (effect, message) = match (old, new) {
        (None, _) => (Effect::Narrower, format!("`{keyword}` is new")),
        (_, None) => (Effect::Wider, format!("`{keyword}` is gone")),
        _ => (Effect::Unknown, format!("cannot tell: `{keyword}` is different")),
    };
    Some(difference(&at.below(keyword), effect, message))
}

pub(super) fn compare_unique_items(pair: Pair<'_>, at: &Place<'_>) -> Option<Difference> {
    let is_unique = |view: View<'_>| view.get("uniqueItems") == Some(&Json::Bool(true));
    let (effect, message) = match (is_unique(pair.old), is_unique(pair.new)) {
        (false, true) => (Effect::Narrower, "items must differ from each other now"),
        (true, false) => (Effect::Wider, "items may be equal now"),
        _ => return None,
    };
    Some(difference(&at.below("uniqueItems"), effect, message))
}

/// Compares the names that a value must have; on each side, missing ones may get their defaults.
pub(super) fn compare_required(
    pair: Pair<'_>,
    at: &Place<'_>,
    (fills_old, fills_new): (bool, bool),
) -> Vec<Difference> {
    let (old, new) = (pair.old.required_names(fills_old), pair.new.required_names(fills_new));
    let (old_fields, new_fields) = (pair.old.map("properties"), pair.new.map("properties"));
    let place = at.below("required");
    let is_new_field = |name: &str| new_fields.contains_key(name) && !old_fields.contains_key(name);
    let added = new.difference(&old).filter(|name| !is_new_field(name));
    let added = added
        .map(|name| difference(&place.below(name), Effect::Narrower, format!("`{name}` is required now")));
    let is_removed_field = |name: &str| old_fields.contains_key(name) && !new_fields.contains_key(name);
    let gone = old.difference(&new).filter(|name| !is_removed_field(name));
    let gone = gone
        .map(|name| difference(&place.below(name), Effect::Wider, format!("`{name}` is no longer required")));
    added.chain(gone).collect()
}

pub(super) fn compare_dependent_names(pair: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
    let (old, new) = (pair.old.map("dependentRequired"), pair.new.map("dependentRequired"));
    let place = at.below("dependentRequired");
    let mut found = Vec::new();
    for name in all_names(old, new) {
        let names = |map: &Map<String, Json>| {
            let listed = map.get(name).and_then(Json::as_array).cloned().unwrap_or_default();
            Choices::from_values(listed)
        };
        let (old, new) = (names(old), names(new));
        let at = place.below(name);
        if new.values().iter().any(|needed| !old.contains(needed)) {
            found.push(difference(&at, Effect::Narrower, format!("`{name}` requires more fields now")));
        }
        if old.values().iter().any(|needed| !new.contains(needed)) {
            found.push(difference(&at, Effect::Wider, format!("`{name}` requires fewer fields now")));
        }
    }
    found
}

/// The names of both maps, each once: first those of the new one.
pub(super) fn all_names<'s>(
    old: &'s Map<String, Json>,
    new: &'s Map<String, Json>,
) -> impl Iterator<Item = &'s String> {
    new.keys().chain(old.keys().filter(|name| !new.contains_key(*name)))
}
