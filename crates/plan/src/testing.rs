//! Generates every form of conditions that the grammar allows, for property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Condition, Operand};
use metier_core::template::testing::any_reference;

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
