//! Walks through two schemas side by side, and lists their differences with what each means for the values that are accepted.
//!
//! Both schemas are bounded before: no reference leads in a circle, and with all references followed they have at most 10,000 parts.
//! Alternatives are compared each with each, so the steps of a comparison are bounded as well.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::choices::{Choices, canonical_text};
use super::difference::{Difference, DifferenceKind, Effect, Place, TotalEffect};
use super::keywords::{
    Pair, all_names, compare_choices, compare_dependent_names, compare_limits, compare_numbers,
    compare_opaque, compare_required, compare_types, compare_unique_items, difference, limited_choices,
    notes, released_choices,
};
use super::types::TypeSet;
use super::view::{ANYTHING, Alternatives, Root, View};

/// What is reported where the steps did not suffice.
pub(super) const TOO_LARGE: &str = "cannot tell: the schemas are too large to compare";
/// Bytes of text that are as much work as a keyword.
const TEXT_BYTES_PER_STEP: usize = 64;
/// The most alternatives of which each is compared with each to see that no value fits two.
const MAX_DISJOINT: usize = 64;

/// Two schemas that are compared.
pub(super) struct SchemaWalk<'a> {
    old: Root<'a>,
    new: Root<'a>,
    /// The keywords that it may still look at.
    steps_left: usize,
}

/// On which sides missing fields of a value get their defaults before it is validated: in the properties of inputs, and not behind
/// references or in alternatives.
#[derive(Clone, Copy)]
pub(super) struct DefaultFilling {
    pub(super) old: bool,
    pub(super) new: bool,
}

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

impl DefaultFilling {
    const NONE: Self = Self { old: false, new: false };
}

impl<'a> SchemaWalk<'a> {
    pub(super) fn new(old: Root<'a>, new: Root<'a>, steps_left: usize) -> Self {
        Self { old, new, steps_left }
    }

    /// The keywords that it may still look at; none if it could not finish.
    pub(super) fn steps_left(&self) -> usize {
        self.steps_left
    }

    fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }

    fn is_exhausted(&self) -> bool {
        self.steps_left == 0
    }

    /// The differences between two parts at that place.
    pub(super) fn compare(
        &mut self,
        old: &Json,
        new: &Json,
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> Vec<Difference> {
        let pair = Pair { old: self.old.view(old), new: self.new.view(new) };
        self.spend(1 + pair.old.keywords.len() + pair.new.keywords.len());
        if self.is_exhausted() {
            return vec![difference(at, Effect::Unknown, TOO_LARGE)];
        }
        match (pair.old.is_false, pair.new.is_false) {
            (true, true) => return Vec::new(),
            (true, false) => {
                return vec![difference(at, Effect::Wider, "values are accepted now; none was")];
            }
            (false, true) => return vec![difference(at, Effect::Narrower, "no value is accepted any more")],
            (false, false) => {}
        }
        let filling = DefaultFilling {
            old: filling.old && !pair.old.is_referenced,
            new: filling.new && !pair.new.is_referenced,
        };
        let mut found = notes(pair, at, (filling.old || filling.new) && !at.is_root());
        // What accepts everything has parts that accept everything, without an end.
        if pair.old.restricts() || pair.new.restricts() {
            found.extend(self.compare_values(pair, at, filling));
        }
        found
    }

    fn effect(&mut self, old: &Json, new: &Json, at: &Place<'_>) -> TotalEffect {
        self.effect_with((old, new), at, DefaultFilling::NONE)
    }

    fn effect_with(
        &mut self,
        (old, new): (&Json, &Json),
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> TotalEffect {
        TotalEffect::from_differences(&self.compare(old, new, at, filling))
    }

    fn view<'s>(&self, side: Side, schema: &'s Json) -> View<'s>
    where
        'a: 's,
    {
        match side {
            Side::Old => self.old.view(schema),
            Side::New => self.new.view(schema),
        }
    }

    /// The differences of what is accepted.
    fn compare_values(&mut self, pair: Pair<'_>, at: &Place<'_>, filling: DefaultFilling) -> Vec<Difference> {
        let Pair { old, new } = pair;
        let choices = (self.choices(Side::Old, old), self.choices(Side::New, new));
        let alternatives = (self.alternatives(Side::Old, old), self.alternatives(Side::New, new));
        let both_finite = choices.0.is_some() && choices.1.is_some();
        if !both_finite && let Some(found) = self.compare_branches(pair, alternatives, at, filling) {
            return found;
        }
        let (mut found, types) = match &choices {
            (Some(old_choices), Some(new_choices)) => (
                compare_choices(pair, old_choices, new_choices, at),
                old_choices.types().intersection(new_choices.types()).without(TypeSet::SIMPLE),
            ),
            (Some(old_choices), None) if old_choices.is_listed() => (
                released_choices(pair, old_choices, at),
                old_choices.types().intersection(TypeSet::from_schema(new.keywords)).without(TypeSet::SIMPLE),
            ),
            (None, Some(new_choices)) if new_choices.is_listed() => (
                limited_choices(pair, new_choices, at),
                new_choices.types().intersection(TypeSet::from_schema(old.keywords)).without(TypeSet::SIMPLE),
            ),
            _ => {
                let types = (TypeSet::from_schema(old.keywords), TypeSet::from_schema(new.keywords));
                (compare_types(types, at), types.0.intersection(types.1))
            }
        };
        if types.overlaps(TypeSet::STRINGS) {
            found.extend(compare_limits(pair, at, ("minLength", 0), "maxLength"));
            found.extend(compare_opaque(pair, "pattern", at));
        }
        if types.overlaps(TypeSet::NUMBERS) {
            found.extend(compare_numbers(pair, types, at));
        }
        let in_place = self.compare_in_place(pair, both_finite, alternatives, at);
        let is_changed_in_place = !TotalEffect::from_differences(&in_place).is_none();
        found.extend(in_place);
        if types.overlaps(TypeSet::ARRAYS) {
            found.extend(self.compare_arrays(pair, is_changed_in_place, at));
        }
        if types.overlaps(TypeSet::OBJECTS) {
            found.extend(self.compare_objects(pair, is_changed_in_place, at, filling));
        }
        found
    }

    /// The values of a part that accepts only a few.
    fn choices(&mut self, side: Side, view: View<'_>) -> Option<Choices> {
        if let Some(choices) = Choices::from_schema(view.keywords) {
            self.spend(choices.values().len());
            return Some(choices);
        }
        let (keyword, members) = view.listed_alternatives()?;
        if !view.restricts_only_by(keyword) {
            return None;
        }
        self.spend(members.len());
        let of_members = members.iter().map(|member| {
            let member = self.view(side, member);
            Choices::from_schema(member.keywords).filter(|_| member.is_decided_by_value())
        });
        let of_members: Vec<Choices> = of_members.collect::<Option<_>>()?;
        let all = Choices::from_values(of_members.iter().flat_map(Choices::values).cloned());
        // A value of two members is no choice of `oneOf`.
        let count: usize = of_members.iter().map(|choices| choices.values().len()).sum();
        (keyword == "anyOf" || count == all.values().len()).then_some(all)
    }

    /// The schemas of which a value must fit one, no matter whether it fits others.
    fn alternatives<'s>(&mut self, side: Side, view: View<'s>) -> Alternatives<'s>
    where
        'a: 's,
    {
        let (keyword, members) = view.listed_alternatives()?;
        (keyword == "anyOf" || self.are_disjoint(side, members)).then_some((keyword, members))
    }

    /// Whether no value fits two of these schemas, as far as their types and choices show it.
    fn are_disjoint(&mut self, side: Side, members: &[Json]) -> bool {
        if members.len() > MAX_DISJOINT {
            return false;
        }
        self.spend(members.len() * members.len());
        let views: Vec<View<'_>> = members.iter().map(|member| self.view(side, member)).collect();
        let are_apart = |one: &View<'_>, other: &View<'_>| {
            if !one.types().overlaps(other.types()) {
                return true;
            }
            match (Choices::from_schema(one.keywords), Choices::from_schema(other.keywords)) {
                (Some(one), Some(other)) => !one.values().iter().any(|value| other.contains(value)),
                _ => false,
            }
        };
        views.iter().enumerate().all(|(at, one)| views[at + 1..].iter().all(|other| are_apart(one, other)))
    }

    /// The comparison where one side has alternatives and nothing else, and the other side has none.
    fn compare_branches(
        &mut self,
        Pair { old, new }: Pair<'_>,
        alternatives: (Alternatives<'_>, Alternatives<'_>),
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> Option<Vec<Difference>> {
        let has_none = |view: View<'_>| view.listed_alternatives().is_none() && view.target.is_none();
        match alternatives {
            (None, Some((keyword, members))) if has_none(old) && new.restricts_only_by(keyword) => {
                let filling = DefaultFilling { new: false, ..filling };
                Some(self.compare_members((&old.branches(), members), &at.below(keyword), filling))
            }
            (Some((keyword, members)), None) if has_none(new) && old.restricts_only_by(keyword) => {
                let filling = DefaultFilling { old: false, ..filling };
                Some(self.compare_members((members, &new.branches()), &at.below(keyword), filling))
            }
            _ => None,
        }
    }

    /// Compares two lists of schemas of which a value must fit one.
    fn compare_members(
        &mut self,
        (old, new): (&[Json], &[Json]),
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> Vec<Difference> {
        let (old_rest, new_rest) = self.without_equal_members((old, new), at, filling);
        match (&old_rest[..], &new_rest[..]) {
            ([], []) => return Vec::new(),
            ([one], [other]) => {
                let position = other.to_string();
                return self.compare(&old[*one], &new[*other], &at.below(&position), filling);
            }
            _ => {}
        }
        let is_lost = |walk: &mut Self, one: &usize| {
            !new.iter().any(|other| {
                !walk.is_exhausted() && walk.effect_with((&old[*one], other), at, filling).keeps_all
            })
        };
        let lost: Vec<usize> = old_rest.into_iter().filter(|one| is_lost(self, one)).collect();
        let is_new = |walk: &mut Self, other: &usize| {
            !old.iter().any(|one| {
                !walk.is_exhausted() && walk.effect_with((one, &new[*other]), at, filling).adds_none
            })
        };
        let gained: Vec<usize> = new_rest.into_iter().filter(|other| is_new(self, other)).collect();
        if self.is_exhausted() {
            return vec![difference(at, Effect::Unknown, TOO_LARGE)];
        }
        match (&lost[..], &gained[..]) {
            ([], []) => Vec::new(),
            ([], _) => vec![difference(at, Effect::Wider, "more alternatives are accepted")],
            (_, []) => vec![difference(at, Effect::Narrower, "fewer alternatives are accepted")],
            _ => {
                let types = |walk: &Self, side, members: &[Json]| {
                    let of_member = |member: &Json| walk.view(side, member).types();
                    members.iter().map(of_member).fold(TypeSet::NONE, TypeSet::union)
                };
                let (old_types, new_types) = (types(self, Side::Old, old), types(self, Side::New, new));
                let certainly_lost =
                    lost.iter().any(|one| !types(self, Side::Old, &old[*one..=*one]).overlaps(new_types));
                let certainly_gained = gained
                    .iter()
                    .any(|other| !types(self, Side::New, &new[*other..=*other]).overlaps(old_types));
                let effect = if certainly_lost && certainly_gained { Effect::Both } else { Effect::Unknown };
                let message = match effect {
                    Effect::Both => "some alternatives are gone, and others are new",
                    _ => "cannot tell: the alternatives are others",
                };
                let mut found = vec![difference(at, effect, message)];
                if certainly_lost != certainly_gained {
                    let effect = if certainly_lost { Effect::Narrower } else { Effect::Wider };
                    found.push(difference(at, effect, "the types of the alternatives are others"));
                }
                found
            }
        }
    }

    /// The positions of the members that have no equal one on the other side; one left on each side may be equal.
    fn without_equal_members(
        &mut self,
        (old, new): (&[Json], &[Json]),
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> (Vec<usize>, Vec<usize>) {
        let texts = |members: &[Json]| members.iter().map(canonical_text).collect::<Vec<String>>();
        let (old_texts, new_texts) = (texts(old), texts(new));
        let length: usize = old_texts.iter().chain(&new_texts).map(String::len).sum();
        self.spend(length / TEXT_BYTES_PER_STEP);
        let mut by_text: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, text) in new_texts.iter().enumerate().rev() {
            by_text.entry(text).or_default().push(position);
        }
        let mut is_matched = vec![false; new.len()];
        let mut old_rest = Vec::new();
        for (position, text) in old_texts.iter().enumerate() {
            // The same text may mean another schema behind its references.
            let same = by_text.get_mut(text.as_str()).and_then(Vec::pop);
            match same.filter(|other| self.effect_with((&old[position], &new[*other]), at, filling).is_none())
            {
                Some(other) => is_matched[other] = true,
                None => old_rest.push(position),
            }
        }
        // Of one on each side, the caller asks what is different; asking twice would double the work of each level.
        if old_rest.len() == 1 && is_matched.iter().filter(|is_matched| !**is_matched).count() == 1 {
            return (old_rest, (0..new.len()).filter(|other| !is_matched[*other]).collect());
        }
        let mut rest = Vec::new();
        for position in old_rest {
            let mut others =
                (0..new.len()).filter(|other| !is_matched[*other]).collect::<Vec<_>>().into_iter();
            let is_equal = |other: &usize| {
                !self.is_exhausted()
                    && self.effect_with((&old[position], &new[*other]), at, filling).is_none()
            };
            match others.find(is_equal) {
                Some(other) => is_matched[other] = true,
                None => rest.push(position),
            }
        }
        (rest, (0..new.len()).filter(|other| !is_matched[*other]).collect())
    }

    /// Compares what applies to the same value: references beside other keywords, and the combining keywords.
    fn compare_in_place(
        &mut self,
        pair: Pair<'_>,
        both_finite: bool,
        alternatives: (Alternatives<'_>, Alternatives<'_>),
        at: &Place<'_>,
    ) -> Vec<Difference> {
        let mut found = self.compare_all_of(pair, at);
        found.extend(self.compare_not(pair, at));
        found.extend(self.compare_conditions(pair, at));
        // Alternatives that are choices are compared as such.
        let are_choices = |view: View<'_>| {
            view.listed_alternatives().is_none_or(|(keyword, _)| view.restricts_only_by(keyword))
        };
        if both_finite && are_choices(pair.old) && are_choices(pair.new) {
            return found;
        }
        let listed = (pair.old.listed_alternatives(), pair.new.listed_alternatives());
        match (alternatives, listed) {
            (_, (None, None)) => {}
            ((Some((_, old)), Some((keyword, new))), _) => {
                found.extend(self.compare_members((old, new), &at.below(keyword), DefaultFilling::NONE));
            }
            (_, (None, Some((keyword, _)))) => {
                found.push(difference(&at.below(keyword), Effect::Narrower, format!("`{keyword}` is new")));
            }
            (_, (Some((keyword, _)), None)) => {
                found.push(difference(&at.below(keyword), Effect::Wider, format!("`{keyword}` is gone")));
            }
            (_, (Some((_, old)), Some((keyword, new)))) => {
                let at = at.below(keyword);
                let (old_rest, new_rest) = self.without_equal_members((old, new), &at, DefaultFilling::NONE);
                let are_equal = match (&old_rest[..], &new_rest[..]) {
                    ([one], [other]) => self.effect(&old[*one], &new[*other], &at).is_none(),
                    (old_rest, new_rest) => old_rest.is_empty() && new_rest.is_empty(),
                };
                // The same list means something else where a value may fit several.
                if !are_equal || alternatives.0.is_some() || alternatives.1.is_some() {
                    found.push(difference(
                        &at,
                        Effect::Unknown,
                        format!("cannot tell: `{keyword}` is different"),
                    ));
                }
            }
        }
        // `oneOf` beside `anyOf`.
        let both = |view: View<'_>| view.get("anyOf").is_some() && view.get("oneOf").is_some();
        if both(pair.old) || both(pair.new) {
            found.extend(compare_opaque(pair, "oneOf", at));
        }
        found
    }

    fn compare_all_of(&mut self, Pair { old, new }: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
        let members = |view: View<'_>| -> Vec<Json> {
            view.target.into_iter().chain(view.list("allOf")).cloned().collect()
        };
        let (old, new) = (members(old), members(new));
        if old.is_empty() && new.is_empty() {
            return Vec::new();
        }
        let at = at.below("allOf");
        let (old_rest, new_rest) = self.without_equal_members((&old, &new), &at, DefaultFilling::NONE);
        let mut found = Vec::new();
        for (one, other) in old_rest.iter().zip(&new_rest) {
            let position = other.to_string();
            found.extend(self.compare(&old[*one], &new[*other], &at.below(&position), DefaultFilling::NONE));
        }
        if old_rest.len() < new_rest.len() {
            found.push(difference(&at, Effect::Narrower, "more is required of the value"));
        } else if old_rest.len() > new_rest.len() {
            found.push(difference(&at, Effect::Wider, "less is required of the value"));
        }
        found
    }

    fn compare_not(&mut self, Pair { old, new }: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
        let at = at.below("not");
        let effect = match (old.get("not"), new.get("not")) {
            (None, None) => return Vec::new(),
            (None, Some(_)) => Effect::Narrower,
            (Some(_), None) => Effect::Wider,
            (Some(old), Some(new)) => match self.effect(old, new, &at).effect() {
                Effect::None => return Vec::new(),
                Effect::Wider => Effect::Narrower,
                Effect::Narrower => Effect::Wider,
                Effect::Both | Effect::Unknown => Effect::Unknown,
            },
        };
        let message = match effect {
            Effect::Narrower => "more values are excluded",
            Effect::Wider => "fewer values are excluded",
            _ => "cannot tell: other values are excluded",
        };
        vec![difference(&at, effect, message)]
    }

    fn compare_conditions(&mut self, Pair { old, new }: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
        let branch = |view: View<'_>, keyword| view.get(keyword).unwrap_or(&ANYTHING).clone();
        let message = |text: &str, effect| vec![difference(&at.below("if"), effect, text)];
        match (old.get("if"), new.get("if")) {
            (None, None) => Vec::new(),
            (None, Some(_)) => message("a condition is new", Effect::Narrower),
            (Some(_), None) => message("a condition is gone", Effect::Wider),
            (Some(one), Some(other)) => {
                if !self.effect(one, other, &at.below("if")).is_none() {
                    return message("cannot tell: the condition is different", Effect::Unknown);
                }
                let mut found = Vec::new();
                for keyword in ["then", "else"] {
                    let (old, new) = (branch(old, keyword), branch(new, keyword));
                    found.extend(self.compare(&old, &new, &at.below(keyword), DefaultFilling::NONE));
                }
                found
            }
        }
    }

    fn compare_arrays(
        &mut self,
        pair: Pair<'_>,
        is_changed_in_place: bool,
        at: &Place<'_>,
    ) -> Vec<Difference> {
        let mut found = compare_limits(pair, at, ("minItems", 0), "maxItems");
        found.extend(compare_unique_items(pair, at));
        let ((old_first, old_rest), (new_first, new_rest)) = (pair.old.items(), pair.new.items());
        let mut of_items = Vec::new();
        for position in 0..old_first.len().max(new_first.len()) {
            let old = old_first.get(position).unwrap_or(old_rest);
            let new = new_first.get(position).unwrap_or(new_rest);
            let name = position.to_string();
            of_items.extend(self.compare(
                old,
                new,
                &at.below("prefixItems").below(&name),
                DefaultFilling::NONE,
            ));
        }
        of_items.extend(self.compare(old_rest, new_rest, &at.below("items"), DefaultFilling::NONE));
        of_items.extend(self.compare_contains(pair, at));
        let is_changed = is_changed_in_place || !TotalEffect::from_differences(&of_items).is_none();
        found.extend(of_items);
        found.extend(self.compare_unevaluated(pair, "unevaluatedItems", is_changed, at));
        found
    }

    fn compare_contains(&mut self, pair: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
        let place = at.below("contains");
        let (old, new) = match (pair.old.get("contains"), pair.new.get("contains")) {
            (None, None) => return Vec::new(),
            (None, Some(_)) => return vec![difference(&place, Effect::Narrower, "an item is required")],
            (Some(_), None) => {
                return vec![difference(&place, Effect::Wider, "no item is required any more")];
            }
            (Some(old), Some(new)) => (old, new),
        };
        let found = self.compare(old, new, &place, DefaultFilling::NONE);
        if TotalEffect::from_differences(&found).is_none() {
            return compare_limits(pair, at, ("minContains", 1), "maxContains");
        }
        let has_count =
            |view: View<'_>| view.get("minContains").or_else(|| view.get("maxContains")).is_some();
        if has_count(pair.old) || has_count(pair.new) {
            return vec![difference(&place, Effect::Unknown, "cannot tell: other items are counted")];
        }
        found
    }

    fn compare_objects(
        &mut self,
        pair: Pair<'_>,
        is_changed_in_place: bool,
        at: &Place<'_>,
        filling: DefaultFilling,
    ) -> Vec<Difference> {
        let mut found = self.compare_fields(pair, at, filling);
        found.extend(compare_required(pair, at, (filling.old, filling.new)));
        found.extend(self.compare_other_fields(pair, is_changed_in_place, at));
        found.extend(self.compare_patterns(pair, at));
        found.extend(compare_limits(pair, at, ("minProperties", 0), "maxProperties"));
        found.extend(compare_dependent_names(pair, at));
        let or_anything = |schema: Option<&Json>| schema.unwrap_or(&ANYTHING).clone();
        let names = pair.old.get("propertyNames").or_else(|| pair.new.get("propertyNames"));
        if names.is_some() {
            let [old, new] = [pair.old, pair.new].map(|view| or_anything(view.get("propertyNames")));
            found.extend(self.compare(&old, &new, &at.below("propertyNames"), DefaultFilling::NONE));
        }
        let (old, new) = (pair.old.map("dependentSchemas"), pair.new.map("dependentSchemas"));
        for name in all_names(old, new) {
            let [old, new] = [old, new].map(|schemas| or_anything(schemas.get(name)));
            found.extend(self.compare(
                &old,
                &new,
                &at.below("dependentSchemas").below(name),
                DefaultFilling::NONE,
            ));
        }
        found.extend(compare_opaque(pair, "dependencies", at));
        found
    }

    /// Compares the declared fields.
    fn compare_fields(&mut self, pair: Pair<'_>, at: &Place<'_>, filling: DefaultFilling) -> Vec<Difference> {
        let (old, new) = (pair.old.map("properties"), pair.new.map("properties"));
        let (old_required, new_required) =
            (pair.old.required_names(filling.old), pair.new.required_names(filling.new));
        let place = at.below("properties");
        let mut found = Vec::new();
        for name in all_names(old, new) {
            let at = place.below(name);
            match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => found.extend(self.compare(old, new, &at, filling)),
                (None, Some(field)) => {
                    let is_required =
                        new_required.contains(name.as_str()) && !old_required.contains(name.as_str());
                    let total = pair.old.other_fields().map(|other| self.effect(other, field, &at));
                    let effect = match total {
                        Some(total) if is_required && total.adds_none => Effect::Narrower,
                        _ if is_required => Effect::Both,
                        Some(total) => total.effect(),
                        None => Effect::Unknown,
                    };
                    let was_open = ["additionalProperties", "unevaluatedProperties"]
                        .iter()
                        .any(|key| pair.old.get(key).is_some_and(|other| *other != Json::Bool(false)));
                    let need = if is_required { "required" } else { "optional" };
                    found.push(Difference {
                        path: at.pointer(),
                        kind: DifferenceKind::FieldAdded { is_required, was_open },
                        effect,
                        message: format!("`{name}` is new, and {need}"),
                    });
                }
                (Some(field), None) => {
                    let was_required =
                        old_required.contains(name.as_str()) && !new_required.contains(name.as_str());
                    let total = pair.new.other_fields().map(|other| self.effect(field, other, &at));
                    let effect = match total {
                        Some(total) if was_required && total.keeps_all => Effect::Wider,
                        _ if was_required => Effect::Both,
                        Some(total) => total.effect(),
                        None => Effect::Unknown,
                    };
                    found.push(Difference {
                        path: at.pointer(),
                        kind: DifferenceKind::FieldRemoved,
                        effect,
                        message: format!("`{name}` is gone"),
                    });
                }
                (None, None) => {}
            }
        }
        found
    }

    /// Compares what is said about fields that are not declared.
    fn compare_other_fields(
        &mut self,
        pair: Pair<'_>,
        is_changed_in_place: bool,
        at: &Place<'_>,
    ) -> Vec<Difference> {
        if let (Some(old), Some(new)) = (pair.old.other_fields(), pair.new.other_fields()) {
            let is_unevaluated =
                [pair.new, pair.old].iter().any(|view| view.get("unevaluatedProperties").is_some())
                    && pair.new.get("additionalProperties").is_none();
            let keyword = if is_unevaluated { "unevaluatedProperties" } else { "additionalProperties" };
            return self.compare_rest(old, new, &at.below(keyword));
        }
        let or_anything = |view: View<'_>| view.get("additionalProperties").unwrap_or(&ANYTHING).clone();
        let (old, new) = (or_anything(pair.old), or_anything(pair.new));
        let mut found = self.compare_rest(&old, &new, &at.below("additionalProperties"));
        found.extend(self.compare_unevaluated(pair, "unevaluatedProperties", is_changed_in_place, at));
        found
    }

    fn compare_rest(&mut self, old: &Json, new: &Json, at: &Place<'_>) -> Vec<Difference> {
        let accepts_all =
            |schema: &Json| *schema == Json::Bool(true) || schema.as_object().is_some_and(Map::is_empty);
        match (old, new) {
            (old, Json::Bool(false)) if accepts_all(old) => {
                vec![difference(at, Effect::Narrower, "other fields are refused now")]
            }
            (Json::Bool(false), new) if accepts_all(new) => {
                vec![difference(at, Effect::Wider, "other fields are accepted now")]
            }
            _ => self.compare(old, new, at, DefaultFilling::NONE),
        }
    }

    /// Compares what is said about what the rest of the schema does not evaluate. If the rest says other things about the same value,
    /// it is not decided what that means here.
    fn compare_unevaluated(
        &mut self,
        pair: Pair<'_>,
        keyword: &'static str,
        is_rest_changed: bool,
        at: &Place<'_>,
    ) -> Vec<Difference> {
        let (old, new) = match (pair.old.get(keyword), pair.new.get(keyword)) {
            (None, None) => return Vec::new(),
            (old, new) => (old.unwrap_or(&ANYTHING).clone(), new.unwrap_or(&ANYTHING).clone()),
        };
        let at = at.below(keyword);
        let mut found = self.compare_rest(&old, &new, &at);
        if is_rest_changed {
            found.push(difference(
                &at,
                Effect::Unknown,
                format!("cannot tell what else `{keyword}` covers now"),
            ));
        }
        found
    }

    fn compare_patterns(&mut self, pair: Pair<'_>, at: &Place<'_>) -> Vec<Difference> {
        let (old, new) = (pair.old.map("patternProperties"), pair.new.map("patternProperties"));
        let place = at.below("patternProperties");
        let mut found = Vec::new();
        for pattern in all_names(old, new) {
            let at = place.below(pattern);
            match (old.get(pattern), new.get(pattern)) {
                (Some(old), Some(new)) => found.extend(self.compare(old, new, &at, DefaultFilling::NONE)),
                _ => found.push(difference(
                    &at,
                    Effect::Unknown,
                    "cannot tell: the patterns of names are others",
                )),
            }
        }
        found
    }
}
