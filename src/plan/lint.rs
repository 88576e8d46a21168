//! The diagnostics that parsing and checking a plan can report: one row each, with its stable code.

use crate::skill::{Rule, Severity};

/// The plan does not load.
const BLOCKS: bool = true;
/// The plan loads, but may not run well.
const ADVISORY: bool = false;

macro_rules! rules {
    ($($name:ident = $code:literal, $severity:ident, $blocks:ident, $meaning:literal;)*) => {
        $(pub(super) const $name: Rule =
            Rule { code: $code, severity: Severity::$severity, blocks: $blocks, meaning: $meaning };)*

        /// The codes of plan diagnostics, in the order in which a plan is parsed.
        #[doc(hidden)]
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    NOT_UTF8 = "plan-not-utf8", Error, BLOCKS, "The file is not UTF-8 text.";
    TOO_LARGE = "plan-too-large", Error, BLOCKS, "The file is larger than 4 MiB, or has more than 10,000 steps.";
    SYNTAX = "plan-syntax", Error, BLOCKS, "The file is not JSON.";
    SHAPE = "plan-shape", Error, BLOCKS, "The plan is no list of steps.";
    BOUND = "plan-concurrency", Error, BLOCKS, "The number of steps side by side is none from 1 to 16.";
    STEP = "step-shape", Error, BLOCKS, "A step is no object.";
    KEY = "step-key-unknown", Error, BLOCKS, "A key of a step is nobody's.";
    CALL = "step-call", Error, BLOCKS, "A step does not name exactly one tool or skill.";
    ARGS = "step-args", Error, BLOCKS, "What a step is given is no object, or no value that JSON has.";
    ID = "step-id", Error, BLOCKS, "The id of a step is no plain name.";
    ID_TWICE = "step-id-twice", Error, BLOCKS, "Two steps have one id.";
    ON_FAILURE = "step-on-failure", Error, BLOCKS, "What comes of a failure is none of the known words.";
    WHEN = "step-when", Error, BLOCKS, "A condition cannot be read.";
    FOR_EACH = "step-for-each", Error, BLOCKS, "A loop does not say what it is for, or not how often.";
    AFTER = "step-after", Error, BLOCKS, "What a step comes after is no earlier step.";
    TIMEOUT = "step-timeout", Error, BLOCKS, "A time is none.";
    REFERENCE = "reference-syntax", Error, BLOCKS, "A reference cannot be read.";
    BRACES = "text-braces", Warning, ADVISORY, "A reference stands in double braces, and is only text.";
    REFERENCE_UNKNOWN = "reference-unknown", Error, BLOCKS, "A reference names no step and no variable there is.";
    REFERENCE_FORWARD = "reference-forward", Error, BLOCKS, "A reference names the step itself or a later one.";
    INPUT = "reference-input", Error, BLOCKS, "A reference names an input that the skill does not declare.";
    OUTPUT = "reference-output", Error, BLOCKS, "A reference names an output that the step does not have.";
    OUTPUTS_FROM = "outputs-from", Error, BLOCKS, "The outputs of the plan cannot be read.";
    SKILL_UNKNOWN = "skill-unknown", Error, BLOCKS, "A step calls a skill there is not.";
    TOOL_SLIP = "tool-slip", Error, ADVISORY, "A step calls a tool that nobody is known to offer, and whose name is nearly that of a function.";
    TOOL_UNTOLD = "tool-untold", Warning, ADVISORY, "A step calls a tool that nobody is known to offer.";
    TOOL_UNKNOWN = "tool-unknown", Error, BLOCKS, "A step calls a tool there is not.";
    PARAMETER_UNKNOWN = "parameter-unknown", Error, BLOCKS, "A step gives a parameter that what it calls does not have.";
    PARAMETER_MISSING = "parameter-missing", Error, BLOCKS, "A step leaves out a parameter that what it calls must be given.";
    PARAMETER_OPTIONAL = "parameter-optional", Warning, ADVISORY, "What a step must give comes from an input that may be left out.";
    PARAMETER_TYPE = "parameter-type", Error, BLOCKS, "What a reference leads to is declared as a type that what the step calls cannot take.";
    PARAMETER_VALUE = "parameter-value", Error, BLOCKS, "A plain value is none that what the step calls can take.";
    TOO_DEEP = "skill-depth", Error, BLOCKS, "Skills call one another deeper than they may.";
    CIRCLE = "skill-circle", Error, BLOCKS, "Skills call one another in a circle.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_also_beside_those_of_skill_md() {
        let mut codes: Vec<_> = RULES.iter().chain(crate::skill::RULES).map(|rule| rule.code).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
