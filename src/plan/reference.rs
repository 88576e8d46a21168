//! References: which part of the inputs, of an earlier step's outputs or of a loop's item is meant.
//!
//! `$inputs.path`, `$steps.fetch.outputs.pages[0].title`, `$result[0][2].file` (`$step_0` is the same as `$result[0]`), and
//! `$item.name` for the variable of a loop. A key that is no plain name stands in quotes: `$inputs["a key"]`.

use std::fmt;

use serde_json::Value;

/// A reference as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Whose value it is.
    pub root: Root,
    /// The way into that value.
    pub path: Vec<Segment>,
}

/// What a reference starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The input of the run.
    Inputs,
    /// The outputs of the step of that id.
    Step(String),
    /// The outputs of the step at that place, from 0.
    Result(usize),
    /// The variable of a loop.
    Variable(String),
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The value under that key of an object.
    Field(String),
    /// The item at that place of a list, from 0.
    Index(usize),
}

/// Why a text holds no reference where one begins; the place is in bytes of that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte where it shows.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: &'static str,
}

/// Words that are no variables of loops.
pub(super) const RESERVED: [&str; 3] = ["inputs", "steps", "result"];

impl Reference {
    /// Whether the whole of its root is meant.
    pub fn is_whole_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The part of `value` that the path leads to.
    pub(super) fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(value, |value, segment| match segment {
            Segment::Field(key) => value.as_object()?.get(key),
            Segment::Index(at) => value.as_array()?.get(*at),
        })
    }
}

/// The reference that begins at `start`, after its `$` and any brace, and the byte after it.
pub(super) fn read(text: &str, start: usize) -> Result<(Reference, usize), Fault> {
    let mut reader = Reader { text, at: start };
    let root = reader.root()?;
    let mut path = Vec::new();
    while let Some(segment) = reader.segment()? {
        path.push(segment);
    }
    Ok((Reference { root, path }, reader.at))
}

/// The plain name that begins at `start`: letters, digits, `_`, and hyphens between them.
pub(super) fn name(text: &str, start: usize) -> &str {
    let rest = &text[start..];
    let mut characters = rest.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let goes_on = characters.peek().is_some_and(|(_, next)| is_letter(*next));
        let joins = c == '-' && at > 0 && goes_on;
        if !is_letter(c) && !joins {
            return &rest[..at];
        }
    }
    rest
}

/// Whether a text is one plain name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && name(text, 0).len() == text.len()
}

pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn root(&mut self) -> Result<Root, Fault> {
        let start = self.at;
        let word = self.name();
        match word {
            "inputs" => Ok(Root::Inputs),
            "steps" => self.step(),
            "result" => match self.segment()? {
                Some(Segment::Index(at)) => Ok(Root::Result(at)),
                _ => Err(fault(start, "$result is followed by the number of a step", "write $result[0]")),
            },
            word if !word.starts_with(|c: char| is_letter(c) && !c.is_numeric()) => {
                Err(fault(start, "a reference has a name", "write $$ for a dollar sign"))
            }
            word => match word.strip_prefix("step_").map(str::parse) {
                Some(Ok(at)) => Ok(Root::Result(at)),
                _ => Ok(Root::Variable(word.to_owned())),
            },
        }
    }

    fn step(&mut self) -> Result<Root, Fault> {
        let start = self.at;
        let Some(Segment::Field(id)) = self.segment()? else {
            return Err(fault(start, "$steps is followed by the id of a step", OUTPUTS));
        };
        let start = self.at;
        match self.segment()? {
            Some(Segment::Field(word)) if word == "outputs" => Ok(Root::Step(id)),
            _ => Err(fault(start, "the id of a step is followed by .outputs", OUTPUTS)),
        }
    }

    fn segment(&mut self) -> Result<Option<Segment>, Fault> {
        let rest = &self.text[self.at..];
        if rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_letter)) {
            self.at += 1;
            return Ok(Some(Segment::Field(self.name().to_owned())));
        }
        if rest.starts_with("[\"") {
            return self.quoted().map(Some);
        }
        if rest.starts_with('[') {
            return self.index().map(Some);
        }
        Ok(None)
    }

    fn name(&mut self) -> &'a str {
        let word = name(self.text, self.at);
        self.at += word.len();
        word
    }

    fn index(&mut self) -> Result<Segment, Fault> {
        let inside = &self.text[self.at + 1..];
        let digits = inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len());
        let number = inside[..digits].parse().ok().filter(|_| inside[digits..].starts_with(']'));
        let Some(number) = number else {
            let message = "a place in a list is a number in brackets";
            return Err(fault(self.at, message, "write [0], or ${…} around the reference to end it here"));
        };
        self.at += digits + 2;
        Ok(Segment::Index(number))
    }

    fn quoted(&mut self) -> Result<Segment, Fault> {
        let start = self.at + 1;
        let unclosed = || fault(self.at, "a key in quotes has no end", "write [\"a key\"]");
        let length = quoted_len(&self.text[start..]).ok_or_else(unclosed)?;
        let key = serde_json::from_str(&self.text[start..start + length]).map_err(|_| unclosed())?;
        if !self.text[start + length..].starts_with(']') {
            return Err(unclosed());
        }
        self.at = start + length + 1;
        Ok(Segment::Field(key))
    }
}

const OUTPUTS: &str = "write $steps.ID.outputs";

/// The bytes of the JSON string a text begins with, its quotes included.
pub(super) fn quoted_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map(|(at, _)| at + 1)
}

pub(super) fn fault(at: usize, message: impl Into<String>, help: &'static str) -> Fault {
    Fault { at, message: message.into(), help }
}

/// As it is written, without the `$`.
pub(super) struct Body<'a>(pub(super) &'a Reference);

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.root {
            Root::Inputs => f.write_str("inputs")?,
            Root::Step(id) => write!(f, "steps{}.outputs", Key(id))?,
            Root::Result(at) => write!(f, "result[{at}]")?,
            Root::Variable(name) => f.write_str(name)?,
        }
        self.0.path.iter().try_for_each(|segment| match segment {
            Segment::Field(key) => write!(f, "{}", Key(key)),
            Segment::Index(at) => write!(f, "[{at}]"),
        })
    }
}

struct Key<'a>(&'a str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_name(self.0) { write!(f, ".{}", self.0) } else { write!(f, "[{}]", Value::from(self.0)) }
    }
}

/// `$steps.fetch.outputs.pages[0]`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", Body(self))
    }
}
