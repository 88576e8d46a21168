//! Values whose texts are templates, and what they become with the values that their references name.

use serde_json::{Map, Value};

use super::{Reference, Template, TemplatePiece, first_complete};

/// A JSON value whose texts are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueTemplate {
    /// A value without templates.
    Constant(Value),
    /// A text.
    Text(Template),
    /// A list.
    List(Vec<ValueTemplate>),
    /// An object, its keys in written order.
    Object(Vec<(String, ValueTemplate)>),
}

impl ValueTemplate {
    /// The references in it, in order.
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::Text(template) => template.references().collect(),
            Self::List(items) => items.iter().flat_map(Self::references).collect(),
            Self::Object(entries) => entries.iter().flat_map(|(_, value)| value.references()).collect(),
        }
    }
}

/// Why a template has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum ResolveError {
    /// A reference in the middle of a text that names no value, or null.
    Missing(Reference),
    /// It is larger than it may be.
    TooLarge,
}

/// Resolves templates, in all to at most so many bytes.
pub struct Resolver<'v, L: Fn(&Reference) -> Option<&'v Value>> {
    lookup: L,
    left: u64,
}

/// The bytes that each value counts besides its text.
const NODE_BYTES: u64 = 16;

impl<'v, L: Fn(&Reference) -> Option<&'v Value>> Resolver<'v, L> {
    /// With the values that `lookup` finds.
    pub fn new(lookup: L, max_bytes: u64) -> Self {
        Self { lookup, left: max_bytes }
    }

    /// The bytes that may still be resolved.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The value. A whole text that is a reference without a value is left out of its object, and null in a list; alone it is `None`.
    pub fn value(&mut self, template: &ValueTemplate) -> Result<Option<Value>, ResolveError> {
        Ok(match template {
            ValueTemplate::Constant(value) => {
                self.charge(value)?;
                Some(value.clone())
            }
            ValueTemplate::Text(template) => self.text(template)?,
            ValueTemplate::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    list.push(self.value(item)?.unwrap_or_default());
                }
                Some(list.into())
            }
            ValueTemplate::Object(entries) => {
                let mut object = Map::new();
                for (key, value) in entries {
                    self.take(NODE_BYTES + key.len() as u64)?;
                    object.extend(self.value(value)?.map(|value| (key.clone(), value)));
                }
                Some(object.into())
            }
        })
    }

    /// The value of one text: `None` if it is a reference without a value, or nothing but optional parts that are left out. In the middle
    /// of a text a reference must have a value.
    pub fn text(&mut self, template: &Template) -> Result<Option<Value>, ResolveError> {
        let pieces = match template {
            Template::Literal(text) => {
                self.take(text.len() as u64)?;
                return Ok(Some(text.as_str().into()));
            }
            Template::Reference(reference) => {
                let Some(value) = (self.lookup)(reference) else { return Ok(None) };
                self.charge(value)?;
                return Ok(Some(value.clone()));
            }
            template if template.is_left_out(|reference| self.has_value(reference)) => return Ok(None),
            Template::Pieces(pieces) => pieces,
        };
        let mut text = String::new();
        for piece in pieces {
            self.append(piece, &mut text)?;
        }
        Ok(Some(text.into()))
    }

    fn append(&mut self, piece: &TemplatePiece, text: &mut String) -> Result<(), ResolveError> {
        match piece {
            TemplatePiece::Text(plain) => {
                self.take(plain.len() as u64)?;
                text.push_str(plain);
            }
            TemplatePiece::Reference(reference) => match (self.lookup)(reference) {
                None | Some(Value::Null) => return Err(ResolveError::Missing(reference.clone())),
                Some(Value::String(value)) => {
                    self.take(value.len() as u64)?;
                    text.push_str(value);
                }
                Some(value) => {
                    self.charge(value)?;
                    text.push_str(&value.to_string());
                }
            },
            TemplatePiece::Optional(alternatives) => {
                let pieces = first_complete(alternatives, |reference| self.has_value(reference));
                pieces.unwrap_or_default().iter().try_for_each(|piece| self.append(piece, text))?;
            }
        }
        Ok(())
    }

    fn has_value(&self, reference: &Reference) -> bool {
        (self.lookup)(reference).is_some_and(|value| !value.is_null())
    }

    /// Counts a value before it is copied.
    fn charge(&mut self, value: &Value) -> Result<(), ResolveError> {
        self.take(NODE_BYTES)?;
        match value {
            Value::String(text) => self.take(text.len() as u64),
            Value::Array(items) => items.iter().try_for_each(|item| self.charge(item)),
            Value::Object(entries) => entries.iter().try_for_each(|(key, item)| {
                self.take(key.len() as u64)?;
                self.charge(item)
            }),
            _ => Ok(()),
        }
    }

    fn take(&mut self, bytes: u64) -> Result<(), ResolveError> {
        self.left = self.left.checked_sub(bytes).ok_or(ResolveError::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(template: &str) -> ValueTemplate {
        ValueTemplate::Text(template.parse().unwrap())
    }

    fn resolved(template: &ValueTemplate, max_bytes: u64) -> Result<Option<Value>, ResolveError> {
        let values = json!({"n": 1, "s": "a", "none": null, "list": [1]});
        Resolver::new(|reference: &Reference| reference.resolve_in(&values), max_bytes).value(template)
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_leaves_its_key_out_where_it_has_no_value() {
        let object = ValueTemplate::Object(vec![
            ("n".into(), text("$inputs.n")),
            ("gone".into(), text("$inputs.gone")),
            ("none".into(), text("$inputs.none")),
            ("text".into(), text("${inputs.s}-${inputs.n}-${inputs.list} costs $$5")),
            ("list".into(), ValueTemplate::List(vec![text("$inputs.gone"), text("$inputs.list")])),
            ("constant".into(), ValueTemplate::Constant(json!(true))),
        ]);
        let expected = json!({
            "n": 1, "none": null, "text": "a-1-[1] costs $5", "list": [null, [1]], "constant": true,
        });
        assert_eq!(resolved(&object, 10_000), Ok(Some(expected)));
        assert_eq!(object.references().len(), 8);
        assert_eq!(resolved(&text("$inputs.gone"), 100), Ok(None));
        for missing in ["x${inputs.gone}", "x${inputs.none}"] {
            assert!(matches!(resolved(&text(missing), 100), Err(ResolveError::Missing(_))), "{missing}");
        }
    }

    #[test]
    fn an_optional_part_is_left_out_where_a_reference_in_it_has_no_value() {
        for (template, expected) in [
            ("x$[ in ${inputs.s}]", json!("x in a")),
            ("x$[ in ${inputs.gone}]", json!("x")),
            ("x$[ in ${inputs.none}]y", json!("xy")),
            ("$[${inputs.s}/${inputs.gone}]$[${inputs.s}]", json!("a")),
            ("$[[${inputs.n}$]]", json!("[1]")),
            ("$[${inputs.gone}$|${inputs.s}$|${inputs.n}]", json!("a")),
            ("$[${inputs.s}${inputs.none}$|b]c", json!("bc")),
        ] {
            assert_eq!(resolved(&text(template), 100), Ok(Some(expected)), "{template}");
        }
        assert_eq!(resolved(&text("$[${inputs.gone}]$[a ${inputs.none}]"), 100), Ok(None));
        assert_eq!(resolved(&text("$[${inputs.s}]"), 0), Err(ResolveError::TooLarge));
    }

    #[test]
    fn what_is_put_together_is_bounded_before_it_is_copied() {
        let many = ValueTemplate::List(vec![text("$inputs.list"); 1000]);
        assert_eq!(resolved(&many, 10_000), Err(ResolveError::TooLarge));
        assert!(resolved(&many, 100_000).is_ok());
        assert_eq!(resolved(&text("abc"), 2), Err(ResolveError::TooLarge));
    }
}
