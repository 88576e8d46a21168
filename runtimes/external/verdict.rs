//! How a run ended, from what its process did: one outcome, the report in every case.

use std::path::Path;

use serde_json::Value;

use super::super::sandbox::{Cage, Enforced, Order, Report};
use super::process::{Ended, Kept, OWN_IN_SIGHT, PROTECTED, Refused};
use super::{denial, exceeded, value};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillOutput;
use crate::host::{ProcessReport, Redacted, SandboxReport, SkillContext, Usage};
use crate::policy::StopCause;

/// Exit codes by which shells say what they could not do.
const SHELL_CODES: [(i32, &str); 2] = [
    (
        126,
        "126 is how a shell says that a command could not be executed; look for a file that is not executable",
    ),
    (127, "127 is how a shell says that a command was not found; install it, or put it on PATH"),
];

/// How many characters of the script's last line of error output go into the message.
const LAST_LINE: usize = 300;

/// Reports the process and gives the run's outcome. A stop counts before a limit, a limit before the exit code.
pub(super) fn of(ctx: &SkillContext, name: &str, ended: Ended) -> Result<SkillOutput> {
    let cause = ctx.cancel().cause();
    let is_text = std::str::from_utf8(&ended.stdout.bytes).is_ok();
    let failure = cause
        .map(StopCause::error)
        .or_else(|| exceeded::stopped(ctx.limits(), name, &ended))
        .or_else(|| failed(ctx, name, &ended));
    if let Some(caged) = &ended.report {
        ctx.report_sandbox(held(caged));
        warn_of_less(ctx, name, caged);
    }
    let report = report(ended);
    let outcome = match failure {
        Some(error) => Err(error),
        // The beginning of a JSON text is none, even where it can be read as one.
        None if report.stdout_truncated => Ok(SkillOutput::from(Value::from(report.stdout.as_str()))),
        None => value::of(&report.stdout, ctx.limits()).map(SkillOutput::from),
    };
    ctx.report_process(report);
    if outcome.is_ok() && !is_text {
        super::run::warn(ctx, format!("{name} wrote bytes that are not UTF-8; they were replaced"));
    }
    outcome
}

/// The error of a run whose process never started.
pub(super) fn not_started(name: &str, project: &Path, source: std::io::Error) -> SkillError {
    let attempt = format!("failed to run {name}");
    if !project.is_dir() {
        let sentence = format!("{attempt}: the project {} is gone", project.display());
        return SkillError::new(ErrorKind::Unavailable, sentence);
    }
    if let Some(refused) = source.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
        let sentence = format!("{attempt}: the sandbox could not be put up ({refused})");
        return match refused.advice() {
            Some(help) => SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(help),
            None if refused.is_for_want() => SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("give it more memory or open files, or run it when the machine is less busy"),
            None => unavailable(sentence),
        };
    }
    let wrong_arguments = match source.kind() {
        std::io::ErrorKind::Unsupported => {
            return unavailable(format!("{attempt}: this build has no sandbox for processes on this system"));
        }
        std::io::ErrorKind::ArgumentListTooLong => "the arguments are too long",
        std::io::ErrorKind::InvalidInput => "an argument contains a NUL character",
        _ => return SkillError::io(attempt, source),
    };
    SkillError::new(ErrorKind::Usage, format!("{attempt}: {wrong_arguments}"))
        .with_help("pass the data as input")
        .with_source(source)
}

/// What of an order can keep its process from being started: why not all could be found that is to be protected, and which
/// folders of metier's own are to be covered.
pub(super) struct Obstacles {
    more: Option<String>,
    own: Option<String>,
}

impl Obstacles {
    pub(super) fn of(order: &Order, project: &Path) -> Self {
        let guarded = order.cage.files.as_ref().map(|files| &files.guarded);
        let own = guarded.and_then(|guarded| guarded.own.first()).map(Path::new);
        let shown = |own: &Path| {
            own.strip_prefix(project).unwrap_or(own).to_string_lossy().escape_debug().to_string()
        };
        Self { more: guarded.and_then(|guarded| guarded.more.clone()), own: own.map(shown) }
    }

    pub(super) fn more(&self) -> Option<&str> {
        self.more.as_deref()
    }
}

/// The same error with what stood in the way, where that is what failed.
pub(super) fn with_obstacles(error: SkillError, obstacles: Obstacles) -> SkillError {
    let says = |what: &str| error.kind() == ErrorKind::SandboxUnavailable && error.message().contains(what);
    let Obstacles { more, own } = obstacles;
    let more = more.filter(|_| says(PROTECTED)).or_else(|| own.filter(|_| says(OWN_IN_SIGHT)));
    let Some(more) = more else { return error };
    let with_more = SkillError::new(ErrorKind::SandboxUnavailable, format!("{}: {more}", error.message()));
    match error.help() {
        Some(help) => with_more.with_help(help),
        None => with_more,
    }
}

fn unavailable(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(
        "run it with the rights of the user by --allow exec:unsandboxed, if you trust it with them",
    )
}

/// The error of a process that did not end well.
pub(super) fn failed(ctx: &SkillContext, name: &str, ended: &Ended) -> Option<SkillError> {
    if ended.status.success() {
        return None;
    }
    let end = match ended.status.code() {
        Some(code) => format!("exited with code {code}"),
        // The system's words are `signal: 9 (SIGKILL)`.
        None => format!("was ended by {}", ended.status.to_string().replacen("signal: ", "signal ", 1)),
    };
    let said = said(ctx, &ended.stderr);
    let reason = said.last_line().map(|line| format!(": {}", line.shortened(LAST_LINE))).unwrap_or_default();
    let error = SkillError::new(ErrorKind::Script, format!("{name} {end}{reason}"));
    let by_code = || {
        let row = SHELL_CODES.into_iter().find(|(code, _)| ended.status.code() == Some(*code));
        row.map(|(_, help)| help.to_owned())
    };
    Some(
        match exceeded::advice(ctx.limits(), ended).or_else(|| by_cage(ctx, ended, &said)).or_else(by_code) {
            Some(help) => error.with_help(help),
            None => error,
        },
    )
}

/// What the cage has to say to it, where there was one.
fn by_cage(ctx: &SkillContext, ended: &Ended, said: &Redacted<String>) -> Option<String> {
    ended.report.as_ref()?;
    denial::explained(ctx, ctx.project().ok()?.root(), said.shown())
}

/// What it said on standard error, without secrets: a part of it would not show that it is one of a secret.
fn said(ctx: &SkillContext, stderr: &Kept) -> Redacted<String> {
    let said = String::from_utf8_lossy(&stderr.bytes).into_owned();
    if stderr.truncated { ctx.redaction().beginning(said) } else { ctx.redaction().text(said) }
}

/// Says where the cage was less than what this machine gives, or than one that is required.
fn warn_of_less(ctx: &SkillContext, name: &str, caged: &Report) {
    for sentence in lacks(name, &caged.enforced) {
        super::run::warn(ctx, sentence);
    }
}

fn lacks(name: &str, held: &Enforced) -> Vec<String> {
    let lowered = held.lowered.then(|| {
        format!("{name} ran in the tier landlock: this machine gives namespaces, but could not give it any")
    });
    // Where there are no namespaces that holds of every run.
    let open = (held.namespaces && !held.guarded).then(|| {
        format!("{name} ran where not all that is protected could be covered: a mount failed, or shows the project elsewhere too")
    });
    // Whether the network was to be shut is the grants' matter.
    let cage = Cage { guard_calls: true, ..Cage::default() };
    let missing = held.missing(&cage).map(|wall| format!("{name} ran in a cage that does not hold {wall}"));
    lowered.into_iter().chain(open).chain(missing).collect()
}

/// What the cage enforced, as the script's own process said it before it began and the stub when it was over.
pub(super) fn held(caged: &Report) -> SandboxReport {
    let held = caged.enforced;
    SandboxReport {
        tier: if held.namespaces { "namespaces" } else { "landlock" },
        files: held.holds_files(),
        network: held.shut_network,
        unix_sockets: held.calls,
        signals: held.holds_signals(),
        tree_kill: held.tree_gone,
        protected_paths: held.guarded,
        metadata_outside: held.read_only,
        process_count: held.processes,
    }
}

fn report(ended: Ended) -> ProcessReport {
    let used = ended.report.as_ref().map(|report| report.used);
    let usage = Usage {
        cpu_ms: used.map(|used| used.cpu_us / 1000),
        memory_bytes: used.map(|used| used.memory),
        tree_memory_bytes: used.map(|used| used.tree_memory),
        stdout_bytes: ended.stdout.came,
        stderr_bytes: ended.stderr.came,
        left_behind: used.map(|used| used.left_behind),
    };
    ProcessReport {
        usage,
        exit_code: ended.status.code(),
        signal: ended.signal,
        stdout_truncated: ended.stdout.truncated,
        stderr_truncated: ended.stderr.truncated,
        stdout: text(ended.stdout.bytes),
        stderr: text(ended.stderr.bytes),
    }
}

pub(super) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cage_lacked_is_told() {
        let whole = Enforced { files_abi: 6, scope: true, calls: true, ..Enforced::default() };
        assert_eq!(lacks("x", &whole), [""; 0]);
        assert_eq!(lacks("x", &Enforced { namespaces: true, guarded: true, ..whole }), [""; 0]);
        let said = lacks("x", &Enforced { namespaces: true, ..whole }).join("\n");
        assert!(said.starts_with("x ran where not all that is protected"), "{said}");
        let said = lacks("x", &Enforced { lowered: true, ..whole }).join("\n");
        assert!(said.starts_with("x ran in the tier landlock"), "{said}");
        let said = lacks("x", &Enforced::default());
        let held_by_none = ["files", "local sockets", "signals"];
        assert_eq!(said, held_by_none.map(|wall| format!("x ran in a cage that does not hold {wall}")));
    }
}
