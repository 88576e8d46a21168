//! What the user can do about an error, in the words of the command line: the library names no option of it.

use metier::cases::{CaseResult, CaseStatus};
use metier::engine::{Diagnosis, Explanation, Outcome};
use metier::error::{Hint, LimitKind, SkillError};
use metier::host::{EnforcedLevel, LeftoverPath};
use metier::policy::Permission;

use super::terminal::shell_word;

/// The name of the command.
pub const COMMAND: &str = "metier";

/// The option or the command that does what the hint says.
fn option(hint: &Hint) -> Option<String> {
    Some(match hint {
        Hint::Limit(limit) => limit_option(*limit)?.to_owned(),
        Hint::Grant(permission) => match permission.strip_prefix("env:") {
            Some(variable) => format!("--env {variable}"),
            None => format!("--allow {permission}"),
        },
        Hint::Autonomy(score) => format!("`{COMMAND} autonomy {score}`"),
        Hint::Pending(id) => format!("`{COMMAND} pending approve {id}`"),
        Hint::PendingCalls => format!("`{COMMAND} pending`"),
        Hint::Trust(_) => format!("`{COMMAND} trust`"),
        Hint::Secret(name) => format!("--secret {name}"),
        Hint::Setting(name) => format!("--config {name}=VALUE"),
        Hint::Prepare(name) => format!("`{COMMAND} prepare {name}`"),
        Hint::PrepareWith(name, packages) => {
            let added = packages.iter().map(|package| format!(" --with {}", shell_word(package)));
            format!("`{COMMAND} prepare {name}{}`", added.collect::<String>())
        }
        Hint::Script => "--script".into(),
        Hint::Tool => "--tool".into(),
        Hint::Confirm => "--confirm".into(),
        Hint::Journal => "--journal".into(),
        Hint::NoJournal => "without --journal".into(),
        Hint::InProcess => "--execution in-process".into(),
        Hint::BestEffortSandbox => "--sandbox best-effort".into(),
        Hint::NoSandbox => "--sandbox off".into(),
        Hint::ShowSkill(name) => format!("`{COMMAND} show {name}`"),
        Hint::Validate => format!("`{COMMAND} validate`"),
        Hint::ListFunctions => format!("`{COMMAND} api`"),
        Hint::OperationChoice => "--only".into(),
        Hint::BaseUrl => "--base-url".into(),
        Hint::Authentication => "--auth bearer".into(),
        Hint::SkillName => "--name".into(),
        Hint::Diagnosis => format!("`{COMMAND} doctor`"),
        Hint::ApparmorProfile => format!("`{COMMAND} doctor --apparmor`"),
        _ => return None,
    })
}

fn limit_option(limit: LimitKind) -> Option<&'static str> {
    Some(match limit {
        LimitKind::Timeout => "--timeout",
        LimitKind::Memory => "--memory",
        LimitKind::Operations => "--operations",
        LimitKind::Cpu => "--cpu",
        LimitKind::FileSize => "--file-size",
        LimitKind::StateSize => "--state-size",
        LimitKind::OpenFiles => "--open-files",
        LimitKind::Output => "--output, or --on-output truncate",
        _ => return None,
    })
}

/// The help of the library, with the option that it means.
pub fn help_with_option(help: &str, hint: Option<&Hint>) -> String {
    let Some((hint, option)) = hint.and_then(|hint| Some((hint, option(hint)?))) else {
        return help.to_owned();
    };
    let replaced = match hint {
        Hint::Grant(permission) => help_with_grants(help, permission, &option),
        // Only what is a text can be cut.
        Hint::Limit(LimitKind::Output) if !help.contains("truncated") => Some(format!("{help} (--output)")),
        Hint::ApparmorProfile => {
            Some(help.replacen("an AppArmor profile", &format!("the AppArmor profile of {option}"), 1))
        }
        _ => None,
    };
    replaced.unwrap_or_else(|| format!("{help} ({option})"))
}

/// The help with options in place of `grant PERMISSION` at its end, and of the variables or hosts that it lists after that one.
fn help_with_grants(help: &str, permission: &str, option: &str) -> Option<String> {
    let grant = format!("grant {permission}");
    let at = help.rfind(&grant)?;
    let rest = &help[at + grant.len()..];
    let names = rest.split([',', ' ']).filter(|word| !word.is_empty() && *word != "and");
    let options = names.map(|name| {
        let is_alike =
            ["env:", "net:"].iter().any(|kind| permission.starts_with(kind) && name.starts_with(kind));
        let permission = name.parse::<Permission>().ok().filter(|_| is_alike)?;
        self::option(&Hint::Grant(permission.to_string()))
    });
    let options = std::iter::once(Some(option.to_owned())).chain(options).collect::<Option<Vec<_>>>()?;
    Some(format!("{}run with {}", &help[..at], options.join(" ")))
}

/// A sentence of the library, such as a warning, with the option for each grant that it names: `grant state` becomes
/// `run with --allow state`.
pub fn sentence_with_options(sentence: &str) -> String {
    const GRANT: &str = "grant ";
    let mut text = String::new();
    let mut rest = sentence;
    while let Some(at) = rest.find(GRANT) {
        let (before, named) = rest.split_at(at);
        let named = &named[GRANT.len()..];
        let name = named.split([' ', ',', ';']).next().unwrap_or_default();
        let begins_word = !before.ends_with(|c: char| c.is_alphanumeric());
        // What stands in quotes is somebody else's text.
        let quotes = text.matches('"').count() + before.matches('"').count();
        let permission = name.parse::<Permission>().ok().filter(|_| begins_word && quotes.is_multiple_of(2));
        rest = &named[name.len()..];
        let option = |permission: Permission| option(&Hint::Grant(permission.to_string()));
        let Some(first) = permission.and_then(option) else {
            text.extend([before, GRANT, name]);
            continue;
        };
        text.extend([before, "run with ", first.as_str()]);
        // Further hosts of the same list.
        while let Some((permission, after)) = next_host(rest) {
            let Some(further) = option(permission) else { break };
            text.extend([" ", further.as_str()]);
            rest = after;
        }
    }
    with_watch_command(with_keep_option(text + rest))
}

/// The sentence with the command in place of `a watched run of NAME`, with which its last part begins. What stands in quotes is somebody
/// else's text.
fn with_watch_command(sentence: String) -> String {
    const WATCH: &str = "; a watched run of ";
    let Some((before, named)) = sentence.rsplit_once(WATCH).filter(|(before, _)| !before.contains('"'))
    else {
        return sentence;
    };
    let (name, rest) = named.split_at(named.find(' ').unwrap_or(named.len()));
    match name {
        "exec" => format!("{before}; `{COMMAND} exec --watch`{rest}"),
        _ => format!("{before}; `{COMMAND} try {name}`{rest}"),
    }
}

/// The sentence with the option in place of `keep tmp:PATH`, which stands at its end.
fn with_keep_option(sentence: String) -> String {
    const KEEP: &str = "; keep ";
    let Some((before, named)) = sentence.rsplit_once(KEEP) else { return sentence };
    let path = named.split(' ').next().unwrap_or_default();
    match path.parse::<LeftoverPath>() {
        Ok(_) => format!("{before}; run with --keep {named}"),
        Err(_) => sentence,
    }
}

/// The permission after a comma that opens a host, and what stands after it.
fn next_host(text: &str) -> Option<(Permission, &str)> {
    let text = text.strip_prefix(", ").filter(|text| text.starts_with("net:"))?;
    let (name, rest) = text.split_at(text.find([' ', ',', ';']).unwrap_or(text.len()));
    Some((name.parse().ok()?, rest))
}

/// The same for the help of an error, if it has one.
pub fn error_help(error: &SkillError) -> Option<String> {
    error.help().map(|help| help_with_all_options(help, error.hint()))
}

/// The help of the library, with the option that it means and with those for the grants that it names.
fn help_with_all_options(help: &str, hint: Option<&Hint>) -> String {
    match hint {
        // Where the error says which grant it means, no other word of it is taken for one: it may repeat what a script wrote.
        Some(Hint::Grant(_)) => help_with_option(help, hint),
        _ => sentence_with_options(&help_with_option(help, hint)),
    }
}

/// The sentence of an error; where one of its parts is the help, that names the option too.
pub fn error_message(error: &SkillError) -> String {
    let (message, help) = (error.message(), format!("; {}", error.help().unwrap_or_default()));
    let place = message.rfind(&help).map(|at| (at, &message[at + help.len()..]));
    match place.filter(|(_, rest)| rest.is_empty() || rest.starts_with(';')) {
        Some((at, rest)) => format!("{}{}{rest}", &message[..at], help_with_option(&help, error.hint())),
        None => message.to_owned(),
    }
}

/// The error with the option in its help.
pub fn error_with_option(error: SkillError) -> SkillError {
    match error_help(&error) {
        Some(help) => error.with_help(help).with_hint(None),
        None => error,
    }
}

/// The outcome with the option in the help of its error.
pub fn outcome_with_option(outcome: Outcome) -> Outcome {
    let mut outcome = outcome;
    outcome.result = outcome.result.map_err(error_with_option);
    outcome
}

/// The explanation with the options in what would allow more.
pub fn explanation_with_options(mut explanation: Explanation) -> Explanation {
    explanation.reason = explanation.reason.map(error_with_option);
    for callee in &mut explanation.callees {
        callee.reason = callee.reason.take().map(error_with_option);
    }
    for function in &mut explanation.functions {
        let hint = function.hint.take();
        function.help = function.help.as_deref().map(|help| help_with_option(help, hint.as_ref()));
    }
    explanation
}

/// The result of a case with the option that would let it run.
pub fn result_with_option(mut result: CaseResult) -> CaseResult {
    if let CaseStatus::NotRun(reason) = &mut result.status {
        *reason = help_with_option(reason, result.hint.take().as_ref());
    }
    result
}

/// The diagnosis with the options in its findings, and in what the levels of the sandbox need.
pub fn diagnosis_with_options(mut diagnosis: Diagnosis) -> Diagnosis {
    for finding in &mut diagnosis.findings {
        finding.help = help_with_all_options(&finding.help, finding.hint.take().as_ref());
    }
    for level in diagnosis.sandbox_levels.iter_mut().filter(|level| level.name == EnforcedLevel::None) {
        level.needs = "--allow exec:unsandboxed, or --sandbox off";
    }
    diagnosis
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier::error::ErrorKind;

    #[test]
    fn the_help_names_the_option() {
        for (help, hint, expected) in [
            ("give it more time", Hint::Limit(LimitKind::Timeout), "give it more time (--timeout)"),
            ("grant write:out", Hint::Grant("write:out".into()), "run with --allow write:out"),
            ("grant env:A, env:B and env:C", Hint::Grant("env:A".into()), "run with --env A --env B --env C"),
            ("grant env:A and wait", Hint::Grant("env:A".into()), "grant env:A and wait (--env A)"),
            ("list x and grant x", Hint::Grant("x".into()), "list x and run with --allow x"),
            ("grant it", Hint::Grant("x".into()), "grant it (--allow x)"),
            ("validate it", Hint::Validate, "validate it (`metier validate`)"),
            (
                "load an AppArmor profile; or wait",
                Hint::ApparmorProfile,
                "load the AppArmor profile of `metier doctor --apparmor`; or wait",
            ),
        ] {
            assert_eq!(help_with_option(help, Some(&hint)), expected);
            assert_eq!(help_with_option(help, None), help);
        }
    }

    #[test]
    fn a_sentence_names_the_option_for_each_grant() {
        for (sentence, expected) in [
            (
                "x was thrown away; to keep it, grant state",
                "x was thrown away; to keep it, run with --allow state",
            ),
            ("grant write and write:.env, or", "run with --allow write and write:.env, or"),
            ("x tried a.b: no; grant net:a.b", "x tried a.b: no; run with --allow net:a.b"),
            ("grant env:KEY", "run with --env KEY"),
            ("x; keep tmp:a.svg to have it", "x; run with --keep tmp:a.svg to have it"),
            ("x; keep calm", "x; keep calm"),
            ("x; a watched run of y shows it", "x; `metier try y` shows it"),
            ("\"a\\\"; a watched run of y\" lies outside", "\"a\\\"; a watched run of y\" lies outside"),
            ("x; a watched run of exec shows it", "x; `metier exec --watch` shows it"),
            ("emigrant state", "emigrant state"),
            ("grant nothing", "grant nothing"),
            (
                "\"x and grant net\" is outside; grant read",
                "\"x and grant net\" is outside; run with --allow read",
            ),
            ("no grant", "no grant"),
        ] {
            assert_eq!(sentence_with_options(sentence), expected);
        }
    }

    #[test]
    fn the_sentence_names_the_option_where_it_ends_with_the_help() {
        let error = |message: &str| {
            let error = SkillError::new(ErrorKind::Denied, message).with_help("grant x");
            error_message(&error.with_hint(Hint::Grant("x".into())))
        };
        assert_eq!(error("failed: not permitted; grant x"), "failed: not permitted; run with --allow x");
        assert_eq!(error("failed to grant x"), "failed to grant x");
        assert_eq!(error("failed; grant x; and more"), "failed; run with --allow x; and more");
        assert_eq!(error("failed; grant xy"), "failed; grant xy");
    }
}
