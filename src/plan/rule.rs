//! Every fault that reading and checking a plan can find: one row each, with its stable code.

use crate::skill::{Rule, Severity};

macro_rules! rules {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        $(pub(super) const $name: Rule =
            Rule { code: $code, severity: Severity::Error, blocks: true, meaning: $meaning };)*

        /// The codes of plans, in the order in which a plan is read. Each keeps the plan from loading.
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    NOT_UTF8 = "plan-not-utf8", "The file is not UTF-8 text.";
    TOO_LARGE = "plan-too-large", "The file is larger than 4 MiB, or has more than 10,000 steps.";
    SYNTAX = "plan-syntax", "The file is not JSON.";
    SHAPE = "plan-shape", "The plan is no list of steps.";
    BOUND = "plan-concurrency", "The number of steps side by side is none from 1 to 16.";
    STEP = "step-shape", "A step is no object.";
    KEY = "step-key-unknown", "A key of a step is nobody's.";
    CALL = "step-call", "A step does not name exactly one tool or skill.";
    ARGS = "step-args", "What a step is given is no object, or no value that JSON has.";
    ID = "step-id", "The id of a step is no plain name.";
    ID_TWICE = "step-id-twice", "Two steps have one id.";
    ON_FAILURE = "step-on-failure", "What comes of a failure is none of the known words.";
    WHEN = "step-when", "A condition cannot be read.";
    FOR_EACH = "step-for-each", "A loop does not say what it is for, or not how often.";
    AFTER = "step-after", "What a step comes after is no earlier step.";
    TIMEOUT = "step-timeout", "A time is none.";
    REFERENCE = "reference-syntax", "A reference cannot be read.";
    REFERENCE_UNKNOWN = "reference-unknown", "A reference names no step and no variable there is.";
    REFERENCE_FORWARD = "reference-forward", "A reference names the step itself or a later one.";
    INPUT = "reference-input", "A reference names an input that the skill does not declare.";
    OUTPUT = "reference-output", "A reference names an output that the step does not have.";
    OUTPUTS_FROM = "outputs-from", "The outputs of the plan cannot be read.";
    SKILL_UNKNOWN = "skill-unknown", "A step calls a skill there is not.";
    TOOL_UNKNOWN = "tool-unknown", "A step calls a tool there is not.";
    PARAMETER_UNKNOWN = "parameter-unknown", "A step gives a parameter that what it calls does not have.";
    PARAMETER_MISSING = "parameter-missing", "A step leaves out a parameter that what it calls must be given.";
    PARAMETER_VALUE = "parameter-value", "A plain value is none that what the step calls can take.";
    CIRCLE = "skill-circle", "Skills call one another in a circle.";
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
