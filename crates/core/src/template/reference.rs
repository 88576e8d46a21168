//! References to a part of the inputs, of an earlier step's outputs, of a loop's item, or of another variable.
//!
//! `$inputs.path`, `$steps.fetch.outputs.pages[0].title`, `$result[0][2].file` (`$step_0` is the same as `$result[0]`), and
//! `$item.name` for the variable of a loop. A key that is not a plain name is quoted: `$inputs["a key"]`.

use std::fmt;

use serde_json::Value;

/// A parsed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The value that the path starts from.
    pub root: ReferenceRoot,
    /// The path into that value.
    pub path: Vec<PathSegment>,
}

/// The root of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceRoot {
    /// The input of the run.
    Inputs,
    /// The outputs of the step of that id.
    Step(String),
    /// The outputs of the step with that index, from 0.
    Result(usize),
    /// The variable of a loop.
    Variable(String),
}

/// One segment of a path into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The value of an object under that key.
    Field(String),
    /// The item of a list with that index, from 0.
    Index(usize),
}

/// A syntax error in a reference, template or condition; the offset is in bytes of that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The byte offset of the error.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// The hint.
    pub help: &'static str,
}

/// Names that a loop variable must not have.
pub const RESERVED_NAMES: [&str; 3] = ["inputs", "steps", "result"];

impl Reference {
    /// Whether the reference names its whole root.
    pub fn is_whole_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The part of a value at the path.
    pub fn resolve_in<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(value, |value, segment| match segment {
            PathSegment::Field(key) => value.as_object()?.get(key),
            PathSegment::Index(at) => value.as_array()?.get(*at),
        })
    }
}

/// Parses the reference that begins at `start`, after its `$` and any brace. Also returns the offset of the byte after it.
pub fn parse_reference_body(text: &str, start: usize) -> Result<(Reference, usize), ExpressionError> {
    let mut reader = ReferenceParser { text, at: start };
    let root = reader.parse_root()?;
    let mut path = Vec::new();
    while let Some(segment) = reader.parse_segment()? {
        path.push(segment);
    }
    Ok((Reference { root, path }, reader.at))
}

/// The plain name that begins at `start`: letters, digits, `_`, and hyphens between them.
pub fn name_at(text: &str, start: usize) -> &str {
    let rest = &text[start..];
    let mut characters = rest.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let goes_on = characters.peek().is_some_and(|(_, next)| is_name_char(*next));
        let joins = c == '-' && at > 0 && goes_on;
        if !is_name_char(c) && !joins {
            return &rest[..at];
        }
    }
    rest
}

/// Whether a text is one plain name.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && name_at(text, 0).len() == text.len()
}

/// Whether a name may contain the character.
pub fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct ReferenceParser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> ReferenceParser<'a> {
    fn parse_root(&mut self) -> Result<ReferenceRoot, ExpressionError> {
        let start = self.at;
        let word = self.parse_name();
        match word {
            "inputs" => Ok(ReferenceRoot::Inputs),
            "steps" => self.parse_step_root(),
            "result" => match self.parse_segment()? {
                Some(PathSegment::Index(at)) => Ok(ReferenceRoot::Result(at)),
                _ => Err(fault(start, "$result is followed by the number of a step", "write $result[0]")),
            },
            word if !word.starts_with(|c: char| is_name_char(c) && !c.is_numeric()) => {
                Err(fault(start, "a reference has a name", "write $$ for a dollar sign"))
            }
            word => match word.strip_prefix("step_").map(str::parse) {
                Some(Ok(at)) => Ok(ReferenceRoot::Result(at)),
                _ => Ok(ReferenceRoot::Variable(word.to_owned())),
            },
        }
    }

    fn parse_step_root(&mut self) -> Result<ReferenceRoot, ExpressionError> {
        let start = self.at;
        let Some(PathSegment::Field(id)) = self.parse_segment()? else {
            return Err(fault(start, "$steps is followed by the id of a step", OUTPUTS_HELP));
        };
        let start = self.at;
        match self.parse_segment()? {
            Some(PathSegment::Field(word)) if word == "outputs" => Ok(ReferenceRoot::Step(id)),
            _ => Err(fault(start, "the id of a step is followed by .outputs", OUTPUTS_HELP)),
        }
    }

    fn parse_segment(&mut self) -> Result<Option<PathSegment>, ExpressionError> {
        let rest = &self.text[self.at..];
        if rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_name_char)) {
            self.at += 1;
            return Ok(Some(PathSegment::Field(self.parse_name().to_owned())));
        }
        if rest.starts_with("[\"") {
            return self.parse_quoted_key().map(Some);
        }
        if rest.starts_with('[') {
            return self.parse_index().map(Some);
        }
        Ok(None)
    }

    fn parse_name(&mut self) -> &'a str {
        let word = name_at(self.text, self.at);
        self.at += word.len();
        word
    }

    fn parse_index(&mut self) -> Result<PathSegment, ExpressionError> {
        let inside = &self.text[self.at + 1..];
        let digits = inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len());
        let number = inside[..digits].parse().ok().filter(|_| inside[digits..].starts_with(']'));
        let Some(number) = number else {
            let message = "a place in a list is a number in brackets";
            return Err(fault(self.at, message, "write [0], or ${…} around the reference to end it here"));
        };
        self.at += digits + 2;
        Ok(PathSegment::Index(number))
    }

    fn parse_quoted_key(&mut self) -> Result<PathSegment, ExpressionError> {
        let start = self.at + 1;
        let unclosed = || fault(self.at, "a key in quotes has no end", "write [\"a key\"]");
        let length = json_string_len(&self.text[start..]).ok_or_else(unclosed)?;
        let key = serde_json::from_str(&self.text[start..start + length]).map_err(|_| unclosed())?;
        if !self.text[start + length..].starts_with(']') {
            return Err(unclosed());
        }
        self.at = start + length + 1;
        Ok(PathSegment::Field(key))
    }
}

const OUTPUTS_HELP: &str = "write $steps.ID.outputs";

/// The length in bytes of the JSON string that a text begins with, including its quotes.
pub fn json_string_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map(|(at, _)| at + 1)
}

/// An error at that byte of the text.
pub fn fault(at: usize, message: impl Into<String>, help: &'static str) -> ExpressionError {
    ExpressionError { at, message: message.into(), help }
}

/// The source text of a reference, without the `$`.
pub struct ReferenceBody<'a>(pub &'a Reference);

impl fmt::Display for ReferenceBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.root {
            ReferenceRoot::Inputs => f.write_str("inputs")?,
            ReferenceRoot::Step(id) => write!(f, "steps{}.outputs", FieldSuffix(id))?,
            ReferenceRoot::Result(at) => write!(f, "result[{at}]")?,
            ReferenceRoot::Variable(name) => f.write_str(name)?,
        }
        self.0.path.iter().try_for_each(|segment| match segment {
            PathSegment::Field(key) => write!(f, "{}", FieldSuffix(key)),
            PathSegment::Index(at) => write!(f, "[{at}]"),
        })
    }
}

struct FieldSuffix<'a>(&'a str);

impl fmt::Display for FieldSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_name(self.0) { write!(f, ".{}", self.0) } else { write!(f, "[{}]", Value::from(self.0)) }
    }
}

/// `$steps.fetch.outputs.pages[0]`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", ReferenceBody(self))
    }
}
