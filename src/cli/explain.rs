//! `metier run --explain`: what a run could reach, shown before it runs.

use std::time::Duration;

use metier::engine::{
    AutonomyReport, CalleeExplanation, Explanation, FunctionAvailability, GateReport, LimitsReport,
};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{
    AccessReason, ConsentReason, EnforcedLevel, LaunchPreview, SandboxPath, SandboxReport, ScriptGuesses,
};
use metier::policy::{GrantOrigin, GrantReport, Permission};

use super::hint::{COMMAND, explanation_with_options};
use super::requirement::requirement_row;
use super::session::Session;
use super::terminal::escape_line;
use super::trust_words::trust_line;
use crate::cli::{output, table};

/// Prints the explanation; the exit code is 0, or that of the reason why the run would not start.
pub(super) fn print(explanation: Explanation, session: &Session) -> Result<u8> {
    let explanation = explanation_with_options(explanation);
    if session.json() {
        output::print_json(&explanation)?;
    } else {
        output::print(&page(&explanation))?;
        if let Some(reason) = &explanation.reason {
            output::print_error(reason);
        }
    }
    Ok(explanation.reason.as_ref().map_or(0, |reason| reason.kind().exit_code()))
}

fn page(explanation: &Explanation) -> String {
    let mut rows = vec![("skill", explanation.skill.clone())];
    rows.extend(explanation.tool.iter().map(|tool| ("tool", escape_line(tool))));
    rows.extend([
        ("script", format!("{}, in {}", explanation.script, explanation.runtime)),
        ("project", explanation.project.display().to_string()),
        ("permissions", permission_list(&explanation.permissions)),
        ("grants", grant_lines(&explanation.grants)),
        (
            "trusted",
            explanation
                .trust
                .as_ref()
                .map_or("not asked for".to_owned(), |state| escape_line(&trust_line(state))),
        ),
        ("limits", limits_line(&explanation.limits)),
        ("sandbox", sandbox_line(explanation)),
    ]);
    rows.extend(gate_words(explanation.gates).map(|gates| ("gates", gates)));
    rows.extend((!explanation.reviews.is_empty()).then(|| ("reviews", review_words(&explanation.reviews))));
    if let Some(process) = &explanation.process {
        rows.extend(process_rows(process));
    }
    if !explanation.callees.is_empty() {
        rows.push(("calls", explanation.callees.iter().map(callee_line).collect::<Vec<_>>().join("\n")));
    }
    rows.extend(explanation.requirements.iter().map(|found| requirement_row(&explanation.skill, found)));
    if explanation.process.as_ref().is_none_or(|process| process.has_api) {
        rows.extend(function_rows(&explanation.functions));
    } else {
        rows.push(("host API", "none; only scripts in a sandbox have it".into()));
    }
    table::two_columns(&rows)
}

/// Who has to agree before the run starts; `None` if nobody has.
fn gate_words(gates: GateReport) -> Option<String> {
    let autonomy = |AutonomyReport { score, required, .. }: AutonomyReport| {
        format!("it takes an autonomy of {required}, and the model has {score}")
    };
    let consent = |reason: ConsentReason| match reason {
        ConsentReason::ElevatedSkill => "a person agrees to each run, for the skill is elevated",
        ConsentReason::CriticalSkill => "a person agrees to each run, for its risk is critical",
        _ => "a person agrees to each call of the tool",
    };
    let rules = gates.authorizer.then(|| "the program decides by rules of its own".to_owned());
    let words: Vec<String> = rules
        .into_iter()
        .chain(gates.autonomy.map(autonomy))
        .chain(gates.consent.map(|reason| consent(reason).to_owned()))
        .collect();
    (!words.is_empty()).then(|| words.join("\n"))
}

/// Where a plan waits for a person.
fn review_words(reviews: &[String]) -> String {
    let listed: Vec<String> = reviews.iter().map(|step| escape_line(step)).collect();
    format!(
        "{}: until then it runs in a copy of the project, whose changes a person agrees to",
        listed.join(", ")
    )
}

/// Where a callee runs, in which sandbox, and with which permissions.
fn callee_line(callee: &CalleeExplanation) -> String {
    let place = match (&callee.reason, &callee.process, callee.sandbox) {
        (Some(reason), ..) => format!("would not start: {}", escape_line(&reason.to_string())),
        (None, Some(process), Some(sandbox)) => {
            let words: Vec<String> = process.command.iter().map(|word| escape_line(word)).collect();
            let sandbox = if sandbox.level == EnforcedLevel::None {
                "without a sandbox, with all the rights of the user".to_owned()
            } else {
                format!("in a sandbox at level {}, {}", sandbox.level, restrictions(sandbox))
            };
            format!("a process, {} ({sandbox})", words.join(" "))
        }
        _ => callee.runtime.map_or_else(String::new, |runtime| format!("in {runtime}")),
    };
    let script =
        callee.script.as_ref().map_or_else(String::new, |script| format!(", {}", escape_line(script)));
    let permissions = permission_list(&callee.permissions);
    let permissions =
        if permissions.is_empty() { permissions } else { format!("; permissions: {permissions}") };
    let tool = callee.tool.as_ref().map_or_else(String::new, |tool| format!(", tool {}", escape_line(tool)));
    format!("{}{tool}{script}: {place}{permissions}", escape_line(&callee.skill))
}

fn permission_list(permissions: &[Permission]) -> String {
    permissions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Each grant with its origin.
fn grant_lines(grants: &[GrantReport]) -> String {
    let line = |grant: &GrantReport| {
        let origin = match &grant.origin {
            GrantOrigin::Caller => "for this run".to_owned(),
            GrantOrigin::Remembered { since, everywhere, by } => {
                let place = if *everywhere { "in all projects" } else { "in this project" };
                format!("remembered since {since}, {place}, by {}", escape_line(by))
            }
            GrantOrigin::Configuration { file } => format!("by {}", escape_line(&file.display().to_string())),
            _ => "by the approver".to_owned(),
        };
        format!("{} ({origin})", escape_line(&grant.permission.to_string()))
    };
    if grants.is_empty() { "none".to_owned() } else { grants.iter().map(line).collect::<Vec<_>>().join("\n") }
}

fn process_rows(process: &LaunchPreview) -> Vec<(&'static str, String)> {
    let words: Vec<String> = process.command.iter().map(|word| escape_line(word)).collect();
    let hosts: Vec<String> = process.hosts.iter().map(|host| escape_line(host)).collect();
    let network = match hosts.as_slice() {
        _ if process.network => "open".to_owned(),
        [] => {
            "closed, except for ctx.http; the permission net:HOST opens it for a host, net for all".to_owned()
        }
        hosts => format!("hosts {}", hosts.join(", ")),
    };
    let mut rows = vec![
        ("command", words.join(" ")),
        ("interpreter", process.interpreter_version.clone().unwrap_or_else(|| "unknown version".into())),
        ("works in", process.working_dir.display().to_string()),
        ("network", network),
        ("reads", path_lines(&process.reads)),
        ("writes", path_lines(&process.writes)),
        ("except", protected_paths(process)),
        ("variables", process.environment.join(", ")),
    ];
    if !process.missing.is_empty() {
        let missing = process.missing.join(", ");
        rows.push((
            "missing",
            format!("{missing}: granted; a folder is created when the run begins, a name with a dot is not: create it before the run"),
        ));
    }
    if let Some(worker) = process.worker {
        let seconds = worker.idle_timeout.as_secs();
        rows.push((
            "worker",
            format!(
                "kept for up to {} runs with the same grants, until {seconds} s after the last",
                worker.runs
            ),
        ));
    }
    if process.temp_dir.is_some() {
        rows.push(("home", "a temp dir of the run, removed afterwards".into()));
    }
    rows.extend(process.guesses.as_ref().and_then(guess_lines).map(|lines| ("guesses", lines)));
    rows
}

/// What the text of the script names; `None` if that is nothing.
fn guess_lines(guesses: &ScriptGuesses) -> Option<String> {
    let kinds = [
        ("hosts", &guesses.hosts),
        ("variables", &guesses.variables),
        ("paths", &guesses.paths),
        ("imports", &guesses.imports),
        ("programs", &guesses.commands),
    ];
    let line = |(kind, names): (&str, &Vec<String>)| {
        let names: Vec<String> = names.iter().map(|name| escape_line(name)).collect();
        (!names.is_empty()).then(|| format!("{kind}: {}", names.join(", ")))
    };
    let lines: Vec<String> = kinds.into_iter().filter_map(line).collect();
    let part = if guesses.is_cut { " (of its first 64 KiB)" } else { "" };
    let heading = format!("its text{part} names the following; `{COMMAND} try` says what it does want");
    (!lines.is_empty()).then(|| format!("{heading}\n{}", lines.join("\n")))
}

/// The protected paths inside what the process may write.
fn protected_paths(process: &LaunchPreview) -> String {
    let paths: Vec<String> =
        process.protected.iter().map(|path| escape_line(&path.display().to_string())).collect();
    match paths.as_slice() {
        [] => "nothing".into(),
        paths if process.sandbox.protected_paths => paths.join("\n"),
        paths => format!(
            "{}\n(on this machine only the host API protects these, not the sandbox)",
            paths.join("\n")
        ),
    }
}

/// A line for each path, and one for all paths of the system.
fn path_lines(places: &[SandboxPath]) -> String {
    const GROUPED: [AccessReason; 3] = [AccessReason::System, AccessReason::Network, AccessReason::Device];
    let named = places.iter().filter(|place| !GROUPED.contains(&place.why));
    let mut lines: Vec<String> = named
        .map(|place| format!("{} ({})", escape_line(&place.path.display().to_string()), place.why))
        .collect();
    for why in GROUPED {
        let paths: Vec<String> = places
            .iter()
            .filter(|place| place.why == why)
            .map(|place| escape_line(&place.path.display().to_string()))
            .collect();
        if !paths.is_empty() {
            lines.push(format!("{why}: {}", paths.join(" ")));
        }
    }
    lines.join("\n")
}

fn function_rows(functions: &[FunctionAvailability]) -> Vec<(&'static str, String)> {
    let allowed = functions.iter().filter(|function| function.allowed).map(|function| {
        // A function that is allowed in part is shown with its grants.
        if function.help.is_some() {
            format!("{} ({})", function.name, permission_list(&function.granted_by))
        } else {
            function.name.to_owned()
        }
    });
    let mut denied: Vec<(&str, Vec<&str>)> = Vec::new();
    for function in functions.iter().filter(|function| !function.allowed) {
        let help = function.help.as_deref().unwrap_or_default();
        match denied.iter_mut().find(|(known, _)| *known == help) {
            Some((_, names)) => names.push(function.name),
            None => denied.push((help, vec![function.name])),
        }
    }
    let denied: Vec<String> =
        denied.iter().map(|(help, names)| format!("{}: {help}", names.join(", "))).collect();
    let mut rows = vec![("may call", allowed.collect::<Vec<_>>().join(", "))];
    if !denied.is_empty() {
        rows.push(("may not call", denied.join("\n")));
    }
    rows
}

fn sandbox_line(explanation: &Explanation) -> String {
    let mode = explanation.sandbox_mode.name();
    let is_refused = |reason: &SkillError| reason.kind() == ErrorKind::SandboxUnavailable;
    match explanation.sandbox {
        None if explanation.reason.as_ref().is_some_and(is_refused) => {
            format!("cannot be set up; mode: {mode}")
        }
        None if explanation.reason.is_some() => format!("not needed: the run would not start; mode: {mode}"),
        None if explanation.callees.iter().any(|callee| callee.reason.is_some()) => {
            "unknown: not every skill that it calls would start".into()
        }
        None => "that of the program that runs it".into(),
        Some(sandbox) if sandbox.level == EnforcedLevel::InProcess => {
            "not needed: the script reaches only the host API".into()
        }
        Some(sandbox) if sandbox.level == EnforcedLevel::None => {
            "none: the script has all the rights of the user".into()
        }
        Some(sandbox) => format!("{} ({mode}), {}", sandbox.level, restrictions(sandbox)),
    }
}

/// What the sandbox restricts, and what it does not.
fn restrictions(sandbox: SandboxReport) -> String {
    let restrictions = [
        ("files outside", sandbox.files),
        ("the network", sandbox.network),
        ("local sockets", sandbox.unix_sockets),
        ("signals", sandbox.signals),
        ("processes it leaves behind", sandbox.tree_kill),
        ("protected paths", sandbox.protected_paths),
        ("modes and times outside", sandbox.metadata_outside),
    ];
    let named = |wanted: bool| -> Vec<&str> {
        restrictions.iter().filter(|(_, is_enforced)| *is_enforced == wanted).map(|(name, _)| *name).collect()
    };
    match named(false).as_slice() {
        [] => format!("restricts {}", named(true).join(", ")),
        open => format!("restricts {}; does not restrict {}", named(true).join(", "), open.join(", ")),
    }
}

fn limits_line(limits: &LimitsReport) -> String {
    let seconds = |time: Duration| format!("{} s", time.as_secs());
    let time = if limits.timeout.as_millis().is_multiple_of(1000) {
        seconds(limits.timeout)
    } else {
        format!("{} ms", limits.timeout.as_millis())
    };
    let not_applied = limits.not_applied.iter().map(|limit| limit.name()).collect::<Vec<_>>().join(", ");
    let not_applied =
        (!not_applied.is_empty()).then(|| format!("this runtime does not enforce: {not_applied}"));
    let all = [
        Some(time),
        limits.memory_bytes.map(|bytes| format!("{} of memory", size(bytes))),
        limits.operations.map(|count| format!("{count} operations")),
        limits.cpu.map(|time| format!("{} of processor time for each process", seconds(time))),
        limits.file_bytes.map(|bytes| format!("{} in a file", size(bytes))),
        limits.open_files.map(|count| format!("{count} open files")),
        Some(format!("{} of output ({})", size(limits.output_bytes), limits.on_output.name())),
        not_applied,
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number of bytes in the largest unit that it is a multiple of.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}
