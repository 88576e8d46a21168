//! Generates every form of references, templates and conditions that the grammar allows, for property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Condition, Operand, PathSegment, Reference, ReferenceRoot, Template, TemplatePiece};
use crate::plan::model::reference::RESERVED_NAMES;

pub(super) fn any_reference() -> impl Strategy<Value = Reference> {
    let name = "[a-z_][a-z0-9_]{0,6}(-[a-z0-9]{1,3})?";
    let variable = name.prop_filter("a word of its own", |name| {
        !RESERVED_NAMES.contains(&name.as_str()) && !name.starts_with("step_")
    });
    let root = prop_oneof![
        Just(ReferenceRoot::Inputs),
        any::<String>().prop_map(ReferenceRoot::Step),
        any::<u16>().prop_map(|at| ReferenceRoot::Result(at.into())),
        variable.prop_map(ReferenceRoot::Variable),
    ];
    let segment = prop_oneof![
        name.prop_map(PathSegment::Field),
        any::<String>().prop_map(PathSegment::Field),
        any::<u16>().prop_map(|at| PathSegment::Index(at.into())),
    ];
    (root, prop::collection::vec(segment, 0..6)).prop_map(|(root, path)| Reference { root, path })
}

pub(super) fn any_template() -> impl Strategy<Value = Template> {
    let text = ".{1,12}".prop_map(TemplatePiece::Text);
    let pair = (any_reference().prop_map(TemplatePiece::Reference), text.clone());
    prop_oneof![
        any::<String>().prop_map(Template::Literal),
        any_reference().prop_map(Template::Reference),
        prop::collection::vec(pair, 1..5).prop_map(|pairs| {
            Template::Pieces(pairs.into_iter().flat_map(|(reference, text)| [reference, text]).collect())
        }),
    ]
}

pub(super) fn any_condition() -> impl Strategy<Value = Condition> {
    let constant = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        any::<String>().prop_map(Value::from),
    ];
    let operand =
        prop_oneof![constant.prop_map(Operand::Constant), any_reference().prop_map(Operand::Reference),];
    let leaf = prop_oneof![
        operand.clone().prop_map(Condition::Truthy),
        (operand.clone(), operand.clone()).prop_map(|(left, right)| Condition::Equal(left, right)),
        (operand.clone(), operand).prop_map(|(left, right)| Condition::NotEqual(left, right)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::All),
            prop::collection::vec(inner, 2..4).prop_map(Condition::Any),
        ]
    })
}
