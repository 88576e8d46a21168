//! The arguments of a step: JSON whose texts may contain references.

use std::fmt;
use std::ops::Range;

use serde_json::Value;

use metier_core::template::Reference;
use metier_core::template::Template;

/// A JSON value in a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value without references.
    Constant(Value),
    /// A text with references.
    Text(Template, SourceSpan),
    /// A list, some of its items with references.
    List(Vec<Argument>),
    /// An object, some of its values with references.
    Object(Vec<NamedArgument>),
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedArgument {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Argument,
    /// Where the name stands.
    pub span: SourceSpan,
}

/// The position of something, as a range of bytes in the plan's file.
pub type SourceSpan = Range<usize>;

impl Argument {
    /// Calls `found` with every reference and the position of the text that contains it.
    pub(crate) fn visit_references<'a>(&'a self, found: &mut impl FnMut(&'a Reference, &'a SourceSpan)) {
        match self {
            Self::Constant(_) => {}
            Self::Text(template, place) => {
                template.references().for_each(|reference| found(reference, place));
            }
            Self::List(items) => items.iter().for_each(|item| item.visit_references(found)),
            Self::Object(entries) => entries.iter().for_each(|entry| entry.value.visit_references(found)),
        }
    }
}

/// One line of JSON with references in it.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Text(Template::Reference(reference), _) => write!(f, "{reference}"),
            Self::Text(template, _) => write!(f, "{}", Value::from(template.to_string())),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(entries) => {
                f.write_str("{")?;
                for (at, NamedArgument { name, value, .. }) in entries.iter().enumerate() {
                    write!(f, "{}{}: {value}", if at > 0 { ", " } else { "" }, Value::from(name.as_str()))?;
                }
                f.write_str("}")
            }
        }
    }
}
