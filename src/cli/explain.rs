//! `metier run --explain`: what a run would reach, for a person to read before it runs.

use metier::engine::{CalleeExplanation, Explanation, FunctionAvailability, LimitsReport};
use metier::error::Result;
use metier::host::{LaunchPreview, SandboxPath, SandboxReport};

use super::session::Session;
use super::terminal::escape_line;
use crate::cli::{output, table};

/// Says it, with the exit code of a run that would not start.
pub(super) fn print(explanation: &Explanation, session: &Session) -> Result<u8> {
    if session.json() {
        output::print_json(explanation)?;
    } else {
        output::print(&page(explanation))?;
        if let Some(reason) = &explanation.reason {
            output::print_error(reason);
        }
    }
    Ok(explanation.reason.as_ref().map_or(0, |reason| reason.kind().exit_code()))
}

fn page(of: &Explanation) -> String {
    let mut rows = vec![
        ("skill", of.skill.clone()),
        ("script", format!("{}, in {}", of.script, of.runtime)),
        ("project", of.project.display().to_string()),
        ("may", of.permissions.join(", ")),
        ("limits", limits_line(&of.limits)),
        ("sandbox", sandbox_line(of)),
    ];
    if let Some(process) = &of.process {
        rows.extend(process_rows(process));
    }
    if !of.callees.is_empty() {
        rows.push(("calls", of.callees.iter().map(callee_line).collect::<Vec<_>>().join("\n")));
    }
    if of.process.as_ref().is_none_or(|process| process.has_api) {
        rows.extend(function_rows(&of.functions));
    } else {
        rows.push(("host API", "none: there is one in a sandbox only".into()));
    }
    table::two_columns(&rows)
}

/// What a callee may do, and what holds it.
fn callee_line(of: &CalleeExplanation) -> String {
    let held = match (&of.reason, &of.process, of.sandbox) {
        (Some(reason), ..) => format!("would not start: {}", escape_line(&reason.to_string())),
        (None, Some(process), Some(held)) => {
            let words: Vec<String> = process.command.iter().map(|word| escape_line(word)).collect();
            let sandbox = if held.level == "none" {
                "without a sandbox, with all the rights of the user".to_owned()
            } else {
                format!("in a sandbox ({}), which holds {}", held.level, restrictions(held))
            };
            format!("a process, {} ({sandbox})", words.join(" "))
        }
        _ => of.runtime.map_or_else(String::new, |runtime| format!("in {runtime}")),
    };
    let script = of.script.as_ref().map_or_else(String::new, |script| format!(", {}", escape_line(script)));
    let may = of.permissions.join(", ");
    let may = if may.is_empty() { may } else { format!("; may {may}") };
    format!("{}{script}: {held}{may}", escape_line(&of.skill))
}

fn process_rows(process: &LaunchPreview) -> Vec<(&'static str, String)> {
    let words: Vec<String> = process.command.iter().map(|word| escape_line(word)).collect();
    let network =
        if process.network { "open" } else { "shut, but for what the host API reaches; net opens it" };
    let mut rows = vec![
        ("command", words.join(" ")),
        (
            "interpreter",
            process.interpreter_version.clone().unwrap_or_else(|| "does not say its version".into()),
        ),
        ("runs in", process.working_dir.display().to_string()),
        ("network", network.to_owned()),
        ("reads", path_lines(&process.reads)),
        ("writes", path_lines(&process.writes)),
        ("but for", protected_paths(process)),
        ("variables", process.environment.join(", ")),
    ];
    if !process.missing.is_empty() {
        let missing = process.missing.join(", ");
        rows.push((
            "not there",
            format!("{missing}: granted, but a sandbox opens what exists; make it before"),
        ));
    }
    if let Some(worker) = process.worker {
        let seconds = worker.idle_timeout.as_secs();
        rows.push((
            "kept",
            format!("for up to {} runs with the same grants, {seconds} s after the last", worker.runs),
        ));
    }
    if process.temp_dir.is_some() {
        rows.push(("home", "a temp dir of the run, gone afterwards".into()));
    }
    rows
}

/// What a grant to change the project leaves alone.
fn protected_paths(process: &LaunchPreview) -> String {
    let paths: Vec<String> =
        process.protected.iter().map(|path| escape_line(&path.display().to_string())).collect();
    match paths.as_slice() {
        [] => "nothing".into(),
        paths if process.sandbox.protected_paths => paths.join("\n"),
        paths => format!("{}\nwhich this machine holds for the host API alone", paths.join("\n")),
    }
}

/// A line each, those of the system together.
fn path_lines(places: &[SandboxPath]) -> String {
    let named = places.iter().filter(|place| !matches!(place.why, "system" | "device" | "network"));
    let mut lines: Vec<String> = named
        .map(|place| format!("{} ({})", escape_line(&place.path.display().to_string()), place.why))
        .collect();
    for why in ["system", "network", "device"] {
        let of: Vec<String> = places
            .iter()
            .filter(|place| place.why == why)
            .map(|place| escape_line(&place.path.display().to_string()))
            .collect();
        if !of.is_empty() {
            lines.push(format!("{why}: {}", of.join(" ")));
        }
    }
    lines.join("\n")
}

fn function_rows(functions: &[FunctionAvailability]) -> Vec<(&'static str, String)> {
    let open = functions.iter().filter(|function| function.allowed).map(|function| {
        // What is open in part says which.
        if function.help.is_some() {
            format!("{} ({})", function.name, function.granted_by.join(", "))
        } else {
            function.name.to_owned()
        }
    });
    let mut ways: Vec<(&str, Vec<&str>)> = Vec::new();
    for function in functions.iter().filter(|function| !function.allowed) {
        let way_out = function.help.as_deref().unwrap_or_default();
        match ways.iter_mut().find(|(way, _)| *way == way_out) {
            Some((_, names)) => names.push(function.name),
            None => ways.push((way_out, vec![function.name])),
        }
    }
    let shut: Vec<String> = ways.iter().map(|(way, names)| format!("{}: {way}", names.join(", "))).collect();
    let mut rows = vec![("may call", open.collect::<Vec<_>>().join(", "))];
    if !shut.is_empty() {
        rows.push(("may not call", shut.join("\n")));
    }
    rows
}

fn sandbox_line(of: &Explanation) -> String {
    let asked = of.sandbox_mode;
    match of.sandbox {
        None if of.reason.is_some() => format!("cannot be put up, and is {asked}"),
        None if of.callees.iter().any(|callee| callee.reason.is_some()) => {
            "cannot be told: not all that it calls would start".into()
        }
        None => "that of the program which runs it".into(),
        Some(held) if held.level == "in-process" => {
            "none is needed: it reaches nothing but the host API".into()
        }
        Some(held) if held.level == "none" => "none: it has all the rights of the user".into(),
        Some(held) => format!("{} ({asked}), which holds {}", held.level, restrictions(held)),
    }
}

/// What is out of reach, and what is not.
fn restrictions(held: SandboxReport) -> String {
    let walls = [
        ("files outside", held.files),
        ("the network", held.network),
        ("local sockets", held.unix_sockets),
        ("signals", held.signals),
        ("what it leaves running", held.tree_kill),
        ("protected paths in what it may write", held.protected_paths),
        ("modes and times outside", held.metadata_outside),
    ];
    let of = |wanted: bool| -> Vec<&str> {
        walls.iter().filter(|(_, holds)| *holds == wanted).map(|(name, _)| *name).collect()
    };
    match of(false).as_slice() {
        [] => of(true).join(", "),
        open => format!("{}; not {}", of(true).join(", "), open.join(", ")),
    }
}

fn limits_line(limits: &LimitsReport) -> String {
    let seconds = |milliseconds: u64| format!("{} s", milliseconds / 1000);
    let time = if limits.timeout_ms.is_multiple_of(1000) {
        seconds(limits.timeout_ms)
    } else {
        format!("{} ms", limits.timeout_ms)
    };
    let not_applied = limits.not_applied.join(", ");
    let not_applied =
        (!not_applied.is_empty()).then(|| format!("not applied in this runtime: {not_applied}"));
    let all = [
        Some(time),
        limits.memory_bytes.map(|bytes| format!("{bytes} bytes of memory")),
        limits.operations.map(|count| format!("{count} operations")),
        limits.cpu_ms.map(|time| format!("{} of processor time a process", seconds(time))),
        limits.file_bytes.map(|bytes| format!("{bytes} bytes a file")),
        limits.open_files.map(|count| format!("{count} open files")),
        Some(format!("{} bytes of output ({})", limits.output_bytes, limits.on_output)),
        not_applied,
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
