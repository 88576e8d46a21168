//! The value that a declared call makes of its response: a template, with lists of which each item is made anew.

use metier_core::template::{Reference, ValueTemplate};

/// What a value is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultTemplate {
    /// A value whose texts are templates, without lists to go through.
    Value(ValueTemplate),
    /// A list.
    List(Vec<ResultTemplate>),
    /// An object, its keys in written order.
    Object(Vec<(String, ResultTemplate)>),
    /// A list with one value for each item of another one.
    ForEach {
        /// The other list; an absent one counts as empty.
        items: Reference,
        /// By which name `value` refers to the item.
        name: String,
        /// What is made of it.
        value: Box<ResultTemplate>,
    },
}
