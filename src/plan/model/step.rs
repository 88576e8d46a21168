//! One step of a plan: what it calls, with what, when, how often, and what comes of a failure.

use std::fmt;
use std::time::Duration;

use super::argument::{Argument, NamedArgument, SourceSpan};
use super::condition::Condition;
use crate::host::{AccessRule, function};

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What other steps call it by.
    pub id: String,
    /// What it calls.
    pub call: CallTarget,
    /// What the call is given.
    pub args: Vec<NamedArgument>,
    /// Whether it runs at all.
    pub when: Option<Condition>,
    /// What it runs for, once for each.
    pub for_each: Option<ForEach>,
    /// What comes of a failure.
    pub on_failure: OnFailure,
    /// Ids of steps that come before it, although it names nothing of theirs.
    pub after: Vec<String>,
    /// How long one call may take; the deadline of the run holds in any case.
    pub timeout: Option<Duration>,
    /// Where the parts stand.
    pub places: StepSpans,
}

/// Where the parts of a step stand in the plan's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSpans {
    /// The step.
    pub step: SourceSpan,
    /// The name of what it calls.
    pub call: SourceSpan,
    /// Its id, or what stands for one.
    pub id: SourceSpan,
    /// Its arguments.
    pub args: SourceSpan,
    /// Its condition.
    pub when: SourceSpan,
    /// What it comes after.
    pub after: SourceSpan,
}

/// What a step calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallTarget {
    /// A function of the host API, by its name in the table.
    Function(&'static str),
    /// A tool of the embedder.
    Tool(String),
    /// Another skill, plain or qualified.
    Skill(String),
}

/// A step that runs once for each item of a list. Its value is the list of what each came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// The list.
    pub list: Argument,
    /// What the item is called in references: `$item` when never said.
    pub variable: String,
    /// The most items there may be; more are an error.
    pub max_items: usize,
}

/// What comes of a step that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The run fails.
    #[default]
    Abort,
    /// The step has no value, and the run goes on.
    Continue,
    /// The steps that have not started are skipped, and the run ends well.
    SkipRest,
    /// It is tried again so many times, after a wait that doubles; then the run fails.
    Retry {
        /// How often after the first time.
        times: u32,
        /// How long it waits the first time.
        backoff: Duration,
    },
}

impl Step {
    /// The skill it calls, where its name is fixed text: one that it names, or that the function which calls skills is given.
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
            CallTarget::Tool(_) => None,
        }
    }
}

impl OnFailure {
    /// The most times a step is tried again.
    pub const MAX_RETRIES: u32 = 10;
    /// The longest wait between two tries.
    pub const MAX_BACKOFF: Duration = Duration::from_mins(1);
    /// The first wait when none is named.
    pub const DEFAULT_BACKOFF: Duration = Duration::from_millis(200);
}

impl ForEach {
    /// Items when no bound is named.
    pub const DEFAULT_MAX_ITEMS: usize = 1_000;
    /// The most items a bound may allow.
    pub const MAX_ITEMS: usize = 10_000;
}

/// `grep`, `tool search`, `skill word-count`.
impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => f.write_str(name),
            Self::Tool(name) => write!(f, "tool {name}"),
            Self::Skill(name) => write!(f, "skill {name}"),
        }
    }
}

/// As it is written under `on_failure`.
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
