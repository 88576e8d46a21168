//! The diagnostics that parsing and checking a plan can report: one row each, with its stable code.

use metier_skill::{Rule, Severity};

/// The plan does not load.
const BLOCKS: bool = true;
/// The plan loads, but may not run well.
const ADVISORY: bool = false;

macro_rules! rules {
    ($($name:ident = $code:literal, $severity:ident, $blocks:ident, $meaning:literal;)*) => {
        $(pub(super) const $name: Rule =
            Rule { code: $code, severity: Severity::$severity, blocks: $blocks, meaning: $meaning };)*

        /// The codes of plan diagnostics, in the order in which a plan is parsed.
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    NOT_UTF8 = "plan-not-utf8", Error, BLOCKS, "The file is not UTF-8 text.";
    TOO_LARGE = "plan-too-large", Error, BLOCKS, "The file is larger than 4 MiB, or has more than 10,000 steps.";
    SYNTAX = "plan-syntax", Error, BLOCKS, "The file is not JSON.";
    SHAPE = "plan-shape", Error, BLOCKS, "The plan is not a list of steps.";
    BOUND = "plan-concurrency", Error, BLOCKS, "The number of steps that may run at the same time is not between 1 and 16.";
    STEP = "step-shape", Error, BLOCKS, "A step is not an object.";
    KEY = "step-key-unknown", Error, BLOCKS, "A key of a step is unknown.";
    CALL = "step-call", Error, BLOCKS, "A step does not name exactly one tool, skill or review.";
    REVIEW = "step-review", Error, BLOCKS, "A review has a key that is only for calls, no text, or stands in a skill that the plan calls.";
    ARGS = "step-args", Error, BLOCKS, "The arguments of a step are not an object, or contain a value that JSON does not have.";
    ID = "step-id", Error, BLOCKS, "The id of a step is not a plain name.";
    ID_TWICE = "step-id-twice", Error, BLOCKS, "Two steps have the same id.";
    ON_FAILURE = "step-on-failure", Error, BLOCKS, "The value of `on_failure` is not one of the known words.";
    WHEN = "step-when", Error, BLOCKS, "A condition cannot be read.";
    FOR_EACH = "step-for-each", Error, BLOCKS, "A loop names no list, or its maximum is not valid.";
    AFTER = "step-after", Error, BLOCKS, "A name in `after` is not an earlier step.";
    TIMEOUT = "step-timeout", Error, BLOCKS, "A timeout is not a time.";
    REFERENCE = "reference-syntax", Error, BLOCKS, "A reference cannot be read.";
    BRACES = "text-braces", Warning, ADVISORY, "A reference in double braces is only text.";
    REFERENCE_UNKNOWN = "reference-unknown", Error, BLOCKS, "A reference names a step or a variable that does not exist.";
    REFERENCE_FORWARD = "reference-forward", Error, BLOCKS, "A reference names the step itself or a later one.";
    INPUT = "reference-input", Error, BLOCKS, "A reference names an input that the skill does not declare.";
    OUTPUT = "reference-output", Error, BLOCKS, "A reference names an output that the step does not have.";
    OUTPUTS_FROM = "outputs-from", Error, BLOCKS, "The outputs of the plan cannot be read.";
    SKILL_UNKNOWN = "skill-unknown", Error, BLOCKS, "A step calls a skill that does not exist.";
    TOOL_SLIP = "tool-slip", Error, ADVISORY, "A step calls a tool that is not known, and its name is almost that of a host function.";
    TOOL_UNTOLD = "tool-untold", Warning, ADVISORY, "A step calls a tool that is not known; the host may have it.";
    TOOL_UNKNOWN = "tool-unknown", Error, BLOCKS, "A step calls a tool that does not exist.";
    PARAMETER_UNKNOWN = "parameter-unknown", Error, BLOCKS, "A step passes a parameter that its callee does not have.";
    PARAMETER_MISSING = "parameter-missing", Error, BLOCKS, "A step does not pass a parameter that its callee requires.";
    PARAMETER_OPTIONAL = "parameter-optional", Warning, ADVISORY, "A required parameter gets its value from an optional input.";
    PARAMETER_TYPE = "parameter-type", Error, BLOCKS, "The declared type of a reference does not fit the parameter.";
    PARAMETER_VALUE = "parameter-value", Error, BLOCKS, "A plain value does not fit the parameter.";
    TOO_DEEP = "skill-depth", Error, BLOCKS, "Skills call one another too deep.";
    CIRCLE = "skill-circle", Error, BLOCKS, "Skills call one another in a circle.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_also_beside_those_of_skill_md() {
        let mut codes: Vec<_> = RULES.iter().chain(metier_skill::RULES).map(|rule| rule.code).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
