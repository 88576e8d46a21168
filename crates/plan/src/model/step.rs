//! One step of a plan: its call, arguments, condition, loop, and what happens when it fails.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use metier_core::host::{AccessRule, function};
use metier_core::template::{Reference, Template};
use serde_json::Value;

use super::condition::Condition;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The id by which other steps refer to it.
    pub id: String,
    /// The function, tool or skill that it calls.
    pub call: CallTarget,
    /// The arguments of the call.
    pub args: Vec<NamedArgument>,
    /// The condition under which it runs.
    pub when: Option<Condition>,
    /// The list over which it loops, with one call for each item.
    pub for_each: Option<ForEach>,
    /// What happens when it fails.
    pub on_failure: OnFailure,
    /// Ids of steps that must end before it, although it refers to none of their outputs.
    pub after: Vec<String>,
    /// The timeout of one call; the deadline of the run holds in any case.
    pub timeout: Option<Duration>,
    /// The positions of its parts.
    pub places: StepSpans,
}

/// The positions of the parts of a step in the plan's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSpans {
    /// The step.
    pub step: SourceSpan,
    /// The name of the function, tool or skill that it calls.
    pub call: SourceSpan,
    /// Its id, or the part that its id is derived from.
    pub id: SourceSpan,
    /// Its arguments.
    pub args: SourceSpan,
    /// Its condition.
    pub when: SourceSpan,
    /// The steps that it must run after.
    pub after: SourceSpan,
}

/// The target of a step's call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallTarget {
    /// A function of the host API, by its name in the function table.
    Function(&'static str),
    /// A tool of the embedder.
    Tool(String),
    /// Another skill, by its plain or qualified name.
    Skill(String),
    /// A person, who is shown what the steps so far have changed, with this text of the plan.
    Review(String),
}

/// A loop: the step runs once for each item of a list. Its value is the list of the results.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// The list.
    pub list: Argument,
    /// The variable by which references name the item; `$item` by default.
    pub variable: String,
    /// The maximum number of items; more are an error.
    pub max_items: usize,
}

/// What happens when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The run fails.
    #[default]
    Abort,
    /// The step has no value, and the run goes on.
    Continue,
    /// The steps that have not started are skipped, and the run succeeds.
    SkipRest,
    /// The call is retried up to this many times, after a wait that doubles each time; then the run fails.
    Retry {
        /// Retries after the first attempt.
        times: u32,
        /// The wait before the first retry.
        backoff: Duration,
    },
}

impl Step {
    /// The skill that it calls, if its name is fixed text: the skill it names, or the argument of the function that calls
    /// skills.
    pub fn skill(&self) -> Option<&str> {
        match &self.call {
            CallTarget::Skill(name) => Some(name),
            CallTarget::Function(name) => {
                let function = function(name)?;
                let AccessRule::Skill(at) = function.access else { return None };
                let parameter = function.params.get(at)?;
                match &self.args.iter().find(|given| given.name == parameter.name)?.value {
                    Argument::Constant(name) => name.as_str(),
                    _ => None,
                }
            }
            CallTarget::Tool(_) | CallTarget::Review(_) => None,
        }
    }
}

impl OnFailure {
    /// The maximum number of retries of a step.
    pub const MAX_RETRIES: u32 = 10;
    /// The maximum wait between two attempts.
    pub const MAX_BACKOFF: Duration = Duration::from_mins(1);
    /// The default wait before the first retry.
    pub const DEFAULT_BACKOFF: Duration = Duration::from_millis(200);
}

impl ForEach {
    /// The default maximum number of items.
    pub const DEFAULT_MAX_ITEMS: usize = 1_000;
    /// The largest maximum that a plan may set.
    pub const MAX_ITEMS: usize = 10_000;
}

/// `grep`, `tool search`, `skill word-count`, `review`.
impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => f.write_str(name),
            Self::Tool(name) => write!(f, "tool {name}"),
            Self::Skill(name) => write!(f, "skill {name}"),
            Self::Review(_) => f.write_str("review"),
        }
    }
}

/// In the syntax of `on_failure`.
impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abort => f.write_str("abort"),
            Self::Continue => f.write_str("continue"),
            Self::SkipRest => f.write_str("skip_rest"),
            Self::Retry { times, backoff } => write!(f, "retry({times}, {}ms)", backoff.as_millis()),
        }
    }
}

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
