//! Two versions of a schema: what became of the values that it accepts, and what that means for callers.
//!
//! What goes in may become more, and what comes out may become less: a caller that passes what was accepted, and takes what was
//! promised, goes on as before.

mod choices;
mod difference;
mod keywords;
mod numbers;
mod types;
mod view;
mod walk;

use serde_json::{Value as Json, json};

use self::difference::{Difference, DifferenceKind, Effect, Place, TotalEffect};
use self::view::Root;
use self::walk::{DefaultFilling, SchemaWalk, TOO_LARGE};
use super::finding::{Change, FindingList};
use crate::contract::{Schema, parse_schema};

/// Whether the values of a schema go in or come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Inputs,
    Outputs,
}

/// The work that the schemas of one comparison may take together: keywords that are looked at.
pub(super) struct WorkBudget(usize);

impl Default for WorkBudget {
    fn default() -> Self {
        Self(400_000)
    }
}

/// Compares two schemas at that place. A schema that is absent accepts everything that goes in, and promises nothing of what comes
/// out.
pub(super) fn compare(
    (old, new): (Option<&Schema>, Option<&Schema>),
    direction: Direction,
    at: &str,
    budget: &mut WorkBudget,
    list: &mut FindingList,
) {
    match (old, new) {
        (None, None) => {}
        (Some(old), Some(new)) => {
            compare_dialects((old, new), at, list);
            for found in differences(old, new, direction, at, budget) {
                let change = change_of(&found, direction);
                list.add(found.path, change, found.message);
            }
        }
        (None, Some(new)) => add_declared(new, direction, at, budget, list),
        (Some(old), None) => add_undeclared(old, direction, at, list),
    }
}

/// Whether all values are still accepted, and whether no others are: what is certain.
#[cfg(test)]
#[allow(dead_code, reason = "only the tests with every kind of schema use it")]
pub(super) fn total_effect(old: &Schema, new: &Schema) -> (bool, bool) {
    let found = differences(old, new, Direction::Outputs, "", &mut WorkBudget::default());
    let total = TotalEffect::from_differences(&found);
    (total.keeps_all, total.adds_none)
}

fn differences(
    old: &Schema,
    new: &Schema,
    direction: Direction,
    at: &str,
    budget: &mut WorkBudget,
) -> Vec<Difference> {
    let mut walk = SchemaWalk::new(Root::new(old), Root::new(new), budget.0);
    let is_filled = direction == Direction::Inputs;
    let filling = DefaultFilling { old: is_filled, new: is_filled };
    let mut found = walk.compare(old.json(), new.json(), &Place::root(at), filling);
    budget.0 = walk.steps_left();
    let mut is_first = true;
    found.retain(|difference| difference.message != TOO_LARGE || std::mem::take(&mut is_first));
    found
}

/// How large the change of the version must be.
fn change_of(found: &Difference, direction: Direction) -> Change {
    match (direction, found.kind) {
        (Direction::Inputs, DifferenceKind::FieldAdded { is_required, was_open }) => {
            // Where the old schema said that other fields are accepted, callers may have passed one of that name.
            let is_refused = was_open && matches!(found.effect, Effect::Narrower | Effect::Both);
            if is_required || is_refused { Change::Major } else { Change::Minor }
        }
        (Direction::Outputs, DifferenceKind::FieldAdded { .. })
        | (Direction::Inputs, DifferenceKind::Default) => Change::Minor,
        (_, DifferenceKind::FieldRemoved) => Change::Major,
        (Direction::Outputs, DifferenceKind::Default) | (_, DifferenceKind::Note) => Change::Patch,
        (direction, DifferenceKind::Values) => match (direction, found.effect) {
            (_, Effect::None) => Change::Patch,
            (_, Effect::Unknown) => Change::Unknown,
            (_, Effect::Both)
            | (Direction::Inputs, Effect::Narrower)
            | (Direction::Outputs, Effect::Wider) => Change::Major,
            (Direction::Inputs, Effect::Wider) | (Direction::Outputs, Effect::Narrower) => Change::Minor,
        },
    }
}

/// A keyword may mean something else in another dialect.
fn compare_dialects((old, new): (&Schema, &Schema), at: &str, list: &mut FindingList) {
    if Root::new(old).dialect != Root::new(new).dialect {
        let message = "cannot tell all of it: the schemas are in different dialects";
        list.add(format!("{at}/$schema"), Change::Unknown, message);
    }
}

fn add_declared(
    new: &Schema,
    direction: Direction,
    at: &str,
    budget: &mut WorkBudget,
    list: &mut FindingList,
) {
    if direction == Direction::Outputs {
        return list.add(at, Change::Minor, "the output has a schema now");
    }
    let accepts_all = parse_schema(json!({})).is_ok_and(|anything| {
        TotalEffect::from_differences(&differences(&anything, new, direction, at, budget)).keeps_all
    });
    if accepts_all {
        list.add(at, Change::Minor, "the input has a schema now, which accepts everything");
    } else {
        list.add(at, Change::Major, "the input has a schema now; before, every input was accepted");
    }
}

fn add_undeclared(old: &Schema, direction: Direction, at: &str, list: &mut FindingList) {
    let has_fields =
        old.json().get("properties").and_then(Json::as_object).is_some_and(|fields| !fields.is_empty());
    match direction {
        Direction::Outputs => list.add(at, Change::Major, "the output has no schema any more"),
        Direction::Inputs if has_fields => {
            list.add(
                at,
                Change::Major,
                "the input has no schema any more, so none of its fields is declared",
            );
        }
        Direction::Inputs => {
            list.add(at, Change::Minor, "the input has no schema any more, so every input is accepted");
        }
    }
}
