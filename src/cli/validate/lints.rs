//! The rules for what is around a SKILL.md, one row each; those for its text are in [`metier::skill::RULES`].

use metier::skill::Rule;
use metier::skill::Severity::{self, Error, Info, Warning};

const fn lint(code: &'static str, severity: Severity, blocks: bool, meaning: &'static str) -> Rule {
    Rule { code, severity, blocks, meaning }
}

pub const PATH_MISSING: Rule = lint("path-missing", Error, true, "The path does not exist.");
pub const NOT_A_DIRECTORY: Rule =
    lint("not-a-directory", Error, true, "The path is neither a folder nor a SKILL.md.");
pub const SKILL_FILE_MISSING: Rule = lint("skill-file-missing", Error, true, "The folder has no SKILL.md.");
pub const SKILL_FILE_NAME: Rule = lint(
    "skill-file-name",
    Error,
    true,
    "The file is not called SKILL.md in capitals, as clients of Agent Plugins need it.",
);
pub const UNREADABLE: Rule = lint("unreadable", Error, true, "A folder or SKILL.md cannot be read.");
pub const TOO_MANY_FOLDERS: Rule =
    lint("too-many-folders", Error, false, "The search for skills stopped before its end.");
pub const SKILL_FILE_LARGE: Rule = lint("skill-file-large", Warning, false, "SKILL.md is larger than 1 MiB.");
pub const PLAN_TOO_LARGE: Rule = lint("plan-too-large", Error, true, "A sequence is larger than 4 MiB.");
pub const SKILL_FILE_TWICE: Rule =
    lint("skill-file-twice", Warning, false, "Two files differ from SKILL.md in case only.");
pub const CONTRACT_MISNAMED: Rule =
    lint("contract-misnamed", Warning, false, "A file differs from skill.yaml in case only.");
pub const DEPENDENCY_CIRCLE: Rule =
    lint("dependency-circle", Error, false, "Skills need each other in a circle, so none of them can run.");
pub const LINK_MISSING: Rule =
    lint("link-missing", Warning, false, "A file that SKILL.md names does not exist.");
pub const LINK_OUTSIDE: Rule =
    lint("link-outside", Warning, false, "A file that SKILL.md names is outside the folder.");
pub const RUNTIME_UNKNOWN: Rule = lint(
    "runtime-unknown",
    Warning,
    false,
    "The runtime that is declared does not exist. An error where the skill cannot run by it.",
);
pub const RUNTIME_FOREIGN: Rule = lint(
    "runtime-foreign",
    Warning,
    false,
    "The runtime under metadata does not exist, so it is taken as a word of another client.",
);
pub const WORKER_FOREIGN: Rule = lint(
    "worker-foreign",
    Warning,
    false,
    "The worker under metadata is no protocol, so it is taken as a word of another client.",
);
pub const ENTRYPOINT_FOREIGN: Rule = lint(
    "entrypoint-foreign",
    Warning,
    false,
    "The entrypoint under metadata is no path, so it is taken as a word of another client.",
);
pub const WORKER_UNKNOWN: Rule =
    lint("worker-unknown", Warning, false, "The worker protocol that is declared does not exist.");
pub const RUNTIME_UNFIT: Rule = lint(
    "runtime-unfit",
    Warning,
    false,
    "No script can run in the runtime that is declared. An error where the skill cannot run by it.",
);
pub const SCRIPT_UNFIT: Rule =
    lint("script-unfit", Error, false, "The skill's script cannot run as declared.");
pub const ENTRYPOINT_MISSING: Rule =
    lint("entrypoint-missing", Error, false, "An entrypoint of the contract is not a file in the folder.");
pub const FILE_MISSING: Rule = lint(
    "file-missing",
    Error,
    false,
    "A resource or an attachment of the contract is not a file in the folder.",
);
pub const ENTRYPOINT_UNFIT: Rule =
    lint("entrypoint-unfit", Error, false, "An entrypoint is in another language than the runtime.");
pub const ENTRYPOINT_FUNCTION: Rule = lint(
    "entrypoint-function",
    Error,
    false,
    "An entrypoint names a function, but scripts in its runtime run from their first line.",
);
pub const HANDLER_UNDECLARED: Rule = lint(
    "handler-undeclared",
    Warning,
    false,
    "A handler uses a secret or a capability that its manifest does not list.",
);
pub const STEPS_UNUSED: Rule = lint(
    "steps-unused",
    Warning,
    false,
    "Steps or a sequence do not run, because something else of the skill runs.",
);
pub const STEPS_UNFIT: Rule =
    lint("steps-unfit", Error, true, "A contract with steps names another runtime.");
pub const SCRIPT_MISREAD: Rule = lint(
    "script-misread",
    Warning,
    false,
    "A shell misreads a script, for it has line ends of Windows or a byte order mark.",
);
pub const SOURCE_MISSING: Rule =
    lint("source-missing", Warning, false, "The source of a WebAssembly module is missing.");
pub const TOOL_UNKNOWN: Rule =
    lint("allowed-tool-unknown", Info, false, "An entry of allowed-tools is not a permission of metier.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let here = [
            PATH_MISSING,
            NOT_A_DIRECTORY,
            SKILL_FILE_MISSING,
            UNREADABLE,
            TOO_MANY_FOLDERS,
            SKILL_FILE_LARGE,
            PLAN_TOO_LARGE,
            SKILL_FILE_TWICE,
            CONTRACT_MISNAMED,
            LINK_MISSING,
            LINK_OUTSIDE,
            RUNTIME_UNKNOWN,
            RUNTIME_FOREIGN,
            WORKER_FOREIGN,
            ENTRYPOINT_FOREIGN,
            WORKER_UNKNOWN,
            RUNTIME_UNFIT,
            SCRIPT_UNFIT,
            ENTRYPOINT_MISSING,
            FILE_MISSING,
            ENTRYPOINT_UNFIT,
            ENTRYPOINT_FUNCTION,
            HANDLER_UNDECLARED,
            STEPS_UNUSED,
            STEPS_UNFIT,
            SCRIPT_MISREAD,
            SOURCE_MISSING,
            TOOL_UNKNOWN,
        ];
        let mut codes: Vec<_> = here.iter().chain(metier::skill::RULES).map(|rule| rule.code).collect();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }
}
