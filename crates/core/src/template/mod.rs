//! Templates: texts that contain references, as plans and declared HTTP calls have them. A text that is only a reference keeps the
//! type of the value it names; beside other text, `${inputs.name}` ends at its brace. `$[ in ${inputs.repo}]` is left out where a
//! reference in it has no value; of `$[${inputs.a}$|${inputs.b}]` the first alternative counts whose references all have one. `$$` is a
//! dollar sign, and in such a part `$]` is a bracket.

mod reference;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod value;

use std::fmt;
use std::str::FromStr;

pub use self::reference::{ExpressionError, PathSegment, Reference, ReferenceRoot};
pub use self::reference::{
    RESERVED_NAMES, ReferenceBody, fault, is_name, is_name_char, json_string_len, name_at,
    parse_reference_body,
};
pub use self::value::{ResolveError, Resolver, ValueTemplate};

/// A text with references: in a plan, or in a declared HTTP call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// Text without references.
    Literal(String),
    /// Only a reference: the value it names, unchanged.
    Reference(Reference),
    /// Text and references, joined into one text.
    Pieces(Vec<TemplatePiece>),
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// Text.
    Text(String),
    /// The value that a reference names, as text: strings unchanged, everything else as JSON.
    Reference(Reference),
    /// Alternatives of texts and references: the first one counts whose references all have a value that is not null, and without one the
    /// part is left out. None of their pieces is optional.
    Optional(Vec<Vec<TemplatePiece>>),
}

impl Template {
    /// The references in it, in order.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let (whole, pieces) = match self {
            Self::Literal(_) => (None, &[][..]),
            Self::Reference(reference) => (Some(reference), &[][..]),
            Self::Pieces(pieces) => (None, pieces.as_slice()),
        };
        whole.into_iter().chain(pieces.iter().flat_map(TemplatePiece::references))
    }

    /// The texts between its references, in order.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Literal(text) => vec![text],
            Self::Reference(_) => Vec::new(),
            Self::Pieces(pieces) => pieces.iter().flat_map(TemplatePiece::texts).collect(),
        }
    }

    /// Whether it has nothing but optional parts, and all of them are left out.
    pub fn is_left_out(&self, has_value: impl Fn(&Reference) -> bool) -> bool {
        let is_absent = |piece: &TemplatePiece| match piece {
            TemplatePiece::Optional(alternatives) => first_complete(alternatives, &has_value).is_none(),
            _ => false,
        };
        matches!(self, Self::Pieces(pieces) if pieces.iter().all(is_absent))
    }
}

impl TemplatePiece {
    /// The references in it, in order.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.plain_pieces().filter_map(|piece| match piece {
            Self::Reference(reference) => Some(reference),
            Self::Text(_) | Self::Optional(_) => None,
        })
    }

    /// The texts in it, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.plain_pieces().filter_map(|piece| match piece {
            Self::Text(text) => Some(text.as_str()),
            Self::Reference(_) | Self::Optional(_) => None,
        })
    }

    /// Those of an optional part, or the piece itself.
    fn plain_pieces(&self) -> impl Iterator<Item = &Self> {
        let (alternatives, plain) = match self {
            Self::Optional(alternatives) => (alternatives.as_slice(), None),
            plain => (&[][..], Some(plain)),
        };
        alternatives.iter().flatten().chain(plain)
    }
}

/// The pieces of the alternative of an optional part that counts; `None` if the part is left out.
pub fn first_complete(
    alternatives: &[Vec<TemplatePiece>],
    has_value: impl Fn(&Reference) -> bool,
) -> Option<&[TemplatePiece]> {
    let is_complete =
        |pieces: &&Vec<TemplatePiece>| pieces.iter().flat_map(TemplatePiece::references).all(&has_value);
    alternatives.iter().find(is_complete).map(Vec::as_slice)
}

impl FromStr for Template {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let (pieces, _) = parse_pieces(text, 0, false)?;
        Ok(match <[TemplatePiece; 1]>::try_from(pieces) {
            Ok([TemplatePiece::Reference(reference)]) => Self::Reference(reference),
            Ok([TemplatePiece::Text(text)]) => Self::Literal(text),
            Ok([optional]) => Self::Pieces(vec![optional]),
            Err(pieces) if pieces.is_empty() => Self::Literal(String::new()),
            Err(pieces) => Self::Pieces(pieces),
        })
    }
}

/// The pieces of a text from this offset on: up to its end, or of an alternative of an optional part up to the `]` or `$|` that ends it.
/// Also returns the offset of that end.
fn parse_pieces(
    text: &str,
    start: usize,
    is_optional: bool,
) -> Result<(Vec<TemplatePiece>, usize), ExpressionError> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut at = start;
    let ends = |c: char| c == '$' || is_optional && c == ']';
    while let Some(found) = text[at..].find(ends).map(|found| at + found) {
        plain.push_str(&text[at..found]);
        let rest = &text[found..];
        at = found + 2;
        match rest.as_bytes() {
            [b']', ..] => {
                push_text(&mut pieces, &mut plain);
                return Ok((pieces, found));
            }
            [b'$', b'|', ..] if is_optional => {
                push_text(&mut pieces, &mut plain);
                return Ok((pieces, found));
            }
            [b'$', b'$', ..] => plain.push('$'),
            [b'$', b']', ..] if is_optional => plain.push(']'),
            [b'$', b'[', ..] if is_optional => {
                return Err(fault(
                    found,
                    "an optional part stands in another one",
                    "write one after the other",
                ));
            }
            [b'$', b'[', ..] => {
                push_text(&mut pieces, &mut plain);
                let (part, end) = parse_alternatives(text, found)?;
                pieces.push(TemplatePiece::Optional(part));
                at = end;
            }
            _ => {
                let (reference, end) = parse_reference(text, found)?;
                push_text(&mut pieces, &mut plain);
                pieces.push(TemplatePiece::Reference(reference));
                at = end;
            }
        }
    }
    if is_optional {
        return Err(fault(
            start,
            "the bracket of an optional part is not closed",
            "write $[ in ${inputs.name}]",
        ));
    }
    plain.push_str(&text[at..]);
    push_text(&mut pieces, &mut plain);
    Ok((pieces, text.len()))
}

/// The alternatives of the optional part that begins at this offset. Also returns the offset of the byte after its bracket.
fn parse_alternatives(text: &str, start: usize) -> Result<(Vec<Vec<TemplatePiece>>, usize), ExpressionError> {
    let mut alternatives = Vec::new();
    let mut at = start + 2;
    loop {
        let (pieces, end) = parse_pieces(text, at, true)?;
        let has_reference = pieces.iter().any(|piece| matches!(piece, TemplatePiece::Reference(_)));
        let is_last = text[end..].starts_with(']');
        // Text alone stands in for what has no value.
        if !has_reference && (alternatives.is_empty() || !is_last || pieces.is_empty()) {
            let help = "write $[ in ${inputs.name}], or $$[ for a dollar sign and a bracket";
            return Err(fault(start, "an optional part has a reference", help));
        }
        alternatives.push(pieces);
        if is_last {
            return Ok((alternatives, end + 1));
        }
        at = end + 2;
    }
}

fn push_text(pieces: &mut Vec<TemplatePiece>, plain: &mut String) {
    if !plain.is_empty() {
        pieces.push(TemplatePiece::Text(std::mem::take(plain)));
    }
}

/// Parses the reference whose dollar sign is at this offset. Also returns the offset of the byte after it.
pub fn parse_reference(text: &str, dollar: usize) -> Result<(Reference, usize), ExpressionError> {
    let rest = &text[dollar + 1..];
    if rest.starts_with('{') {
        let (reference, end) = parse_reference_body(text, dollar + 2)?;
        if !text[end..].starts_with('}') {
            return Err(fault(end, "the brace of a reference is not closed", "write ${inputs.name}"));
        }
        return Ok((reference, end + 1));
    }
    if !rest.starts_with(is_name_char) {
        return Err(fault(dollar, "a dollar sign begins a reference", "write $$ for a dollar sign"));
    }
    parse_reference_body(text, dollar + 1)
}

/// Written as source text; it parses back to the same template.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(&escape_dollars(text)),
            Self::Reference(reference) => write!(f, "{reference}"),
            Self::Pieces(pieces) => pieces.iter().try_for_each(|piece| write!(f, "{piece}")),
        }
    }
}

impl fmt::Display for TemplatePiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&escape_dollars(text)),
            Self::Reference(reference) => write!(f, "${{{}}}", ReferenceBody(reference)),
            Self::Optional(alternatives) => {
                for (at, pieces) in alternatives.iter().enumerate() {
                    f.write_str(if at == 0 { "$[" } else { "$|" })?;
                    pieces.iter().try_for_each(|piece| match piece {
                        Self::Text(text) => f.write_str(&escape_dollars(text).replace(']', "$]")),
                        plain => write!(f, "{plain}"),
                    })?;
                }
                f.write_str("]")
            }
        }
    }
}

fn escape_dollars(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::template::testing::any_template;

    fn parsed(text: &str) -> Template {
        text.parse().unwrap()
    }

    fn refused(text: &str) -> String {
        text.parse::<Template>().unwrap_err().message
    }

    #[test]
    fn every_way_to_write_a_reference() {
        for (text, printed) in [
            ("$inputs", "$inputs"),
            ("${inputs.x}", "$inputs.x"),
            ("$inputs.chart-path", "$inputs.chart-path"),
            ("$steps.cluster-auth.outputs.kubeconfig", "$steps.cluster-auth.outputs.kubeconfig"),
            ("$steps.id.outputs.f[0].g", "$steps.id.outputs.f[0].g"),
            ("$result[0][2].file", "$result[0][2].file"),
            ("$step_3.x", "$result[3].x"),
            ("$item", "$item"),
            (r#"$inputs["a b"]["c"]"#, r#"$inputs["a b"].c"#),
            (r#"$inputs["}$\"]"]"#, r#"$inputs["}$\"]"]"#),
        ] {
            let template = parsed(text);
            assert!(matches!(template, Template::Reference(_)), "{text}: {template:?}");
            assert_eq!(template.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn beside_text_a_reference_ends_where_a_name_does() {
        for (text, printed) in [
            ("Hello $inputs.name.", "Hello ${inputs.name}."),
            ("$inputs.a-$inputs.b", "${inputs.a}-${inputs.b}"),
            ("${inputs.name}.txt", "${inputs.name}.txt"),
            ("$inputs.a, $inputs.b", "${inputs.a}, ${inputs.b}"),
            ("costs $$5, or $$$inputs.price", "costs $$5, or $$${inputs.price}"),
        ] {
            assert_eq!(parsed(text).to_string(), printed, "{text}");
        }
        assert_eq!(parsed("$$inputs.x"), Template::Literal("$inputs.x".into()));
    }

    #[test]
    fn an_optional_part_ends_at_its_bracket() {
        for (text, printed) in [
            ("$inputs.query$[ repo:$inputs.repo]", "${inputs.query}$[ repo:${inputs.repo}]"),
            ("$[${inputs.a}]", "$[${inputs.a}]"),
            ("$[$inputs.list[0] of [$inputs.x$]]", "$[${inputs.list[0]} of [${inputs.x}$]]"),
            (r#"$[$inputs["a]"]][x]"#, r#"$[${inputs["a]"]}][x]"#),
            ("$[a $inputs.a$|b $inputs.b$|$$]", "$[a ${inputs.a}$|b ${inputs.b}$|$$]"),
            ("$[$inputs.a $$|b]", "$[${inputs.a} $$|b]"),
            ("[x] $$[$inputs.a]", "[x] $$[${inputs.a}]"),
        ] {
            assert_eq!(parsed(text).to_string(), printed, "{text}");
        }
        let template = parsed("$[a $inputs.a]$[b $inputs.b]");
        assert_eq!((template.references().count(), template.texts()), (2, vec!["a ", "b "]));
        assert!(
            template.is_left_out(|_| false)
                && !template.is_left_out(|reference| reference.to_string() == "$inputs.a")
        );
        assert!(!parsed("x$[$inputs.a]").is_left_out(|_| false));
        let either = parsed("$[$inputs.a$|$inputs.b]");
        assert!(either.is_left_out(|_| false) && !either.is_left_out(|it| it.to_string() == "$inputs.b"));
        assert!(!parsed("$[$inputs.a$|none]").is_left_out(|_| false));
    }

    #[test]
    fn what_is_no_reference_is_refused_and_never_taken_for_text() {
        for (text, words) in [
            ("$", "a dollar sign begins"),
            ("costs $5", "a reference has a name"),
            ("${5}", "a reference has a name"),
            ("fn main$", "a dollar sign begins"),
            ("${", "a reference has a name"),
            ("${inputs", "not closed"),
            ("${inputs.x y}", "not closed"),
            ("$result", "followed by the number"),
            ("$result.x", "followed by the number"),
            ("$result[-1]", "a number in brackets"),
            ("$result[99999999999999999999999]", "a number in brackets"),
            ("$inputs.x[a]", "a number in brackets"),
            ("$inputs[\"x", "no end"),
            ("$inputs[\"x\" ]", "no end"),
            ("$steps", "followed by the id"),
            ("$steps[0].outputs", "followed by the id"),
            ("$steps.a", "followed by .outputs"),
            ("$steps.a.output.x", "followed by .outputs"),
            ("$[", "not closed"),
            ("$[$inputs.a", "not closed"),
            ("$[$inputs.a$]", "not closed"),
            ("$[]", "has a reference"),
            ("$[plain]", "has a reference"),
            ("$[$inputs.a$[$inputs.b]]", "stands in another one"),
            ("$]", "a dollar sign begins"),
            ("a$|b", "a dollar sign begins"),
            ("$[$inputs.a$|", "not closed"),
            ("$[$inputs.a$|]", "has a reference"),
            ("$[plain$|$inputs.a]", "has a reference"),
            ("$[$inputs.a$|plain$|$inputs.b]", "has a reference"),
        ] {
            let message = refused(text);
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_the_same(template in any_template()) {
            let printed = template.to_string();
            prop_assert_eq!(printed.parse::<Template>(), Ok(template), "{}", printed);
        }

        #[test]
        fn no_text_makes_it_panic_and_what_is_read_can_be_printed(text in any::<String>()) {
            if let Ok(template) = text.parse::<Template>() {
                prop_assert_eq!(template.to_string().parse::<Template>(), Ok(template));
            }
        }

        #[test]
        fn nor_does_a_text_made_of_what_the_grammar_knows(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "$", "$$", "$[", "$]", "$|", "{", "}", "inputs", "steps", ".", "a", "-", "outputs", "result", "[", "]", "0", "\"", "\\",
                    "step_", "é", " ",
                ]),
                0..20,
            )
        ) {
            let text = words.concat();
            if let Ok(template) = text.parse::<Template>() {
                prop_assert_eq!(template.to_string().parse::<Template>(), Ok(template));
            }
        }
    }
}
