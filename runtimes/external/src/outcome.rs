//! Evaluates how a run ended, from what its process did: one outcome, and a report in every case.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::audience::is_for_person;
use crate::error_line::{error_line, error_place};
use crate::hints::complaint::{Complaint, mentions_refusal};
use crate::hints::network::{RunNetwork, is_ungranted, refused_hosts_hint, tried_hosts, unobserved_hint};
use crate::hints::refused_path::{missed_path_hint, passed_home_hint, refused_change_hint, says_absence};
use crate::hints::run_output::RunOutput;
use crate::hints::script_text::ScriptText;
use crate::hints::user_home::{folder_grant, unseen_home_hint};
use crate::hints::variable::{
    unpassed_variable_hint, unpassed_variable_warnings, unpassed_variables, variable_hint,
};
use crate::hints::words::{last_text, searched_end};
use crate::local_module::{neighbour_with_file, neighbour_with_module};
use crate::missing_package::{ModuleSearch, advised_package_help, missing_package_help};
use crate::observation::{PathCheck, RunFiles};
use crate::permission_hint::watch_advice;
use crate::permission_hint::{Help, permission_hint};
use crate::placeholder_variables::has_placeholder;
use crate::process::pipes::CapturedOutput;
use crate::process::run::ProcessExit;
use crate::process::setup_error::SandboxSetupError;
use crate::python_imports::{PackageFolders, imported_modules};
use crate::shell_text::{MisreadText, misread_shell_text};
use crate::shown_path::shown_path;
use crate::{denial_hints, limit_errors, packages, stdout, user_packages};
use metier_core::error::{ErrorKind, Hint, Location, Result, SkillError};
use metier_core::executor::{SkillOutput, WatchedAccess, process_output};
use metier_core::host::{
    EnforcedLevel, Files, NetworkReport, ProcessReport, Redacted, RefusedAccess, RefusedTarget, RunContext,
    RunMessages, RunReporting, SandboxReport, SkillContext, misplaced_text, refused_with_permission,
    refused_with_reason,
};
use metier_core::policy::{Access, RunPermissions, StopCause};
use metier_sandbox::{
    Enforcement, LaunchRequest, NetworkAccess, Refusal, Restrictions, SandboxPolicy, SupervisorReport,
};

/// Exit codes by which shells report that they could not run a command.
const SHELL_EXIT_CODES: [(i32, &str); 2] = [
    (
        126,
        "126 is how a shell says that a command could not be executed; look for a file that is not executable",
    ),
    (127, "127 is how a shell says that a command was not found; install it, or put it on PATH"),
];

/// How many bytes of a script that ended well are searched for variables.
const MAX_SEARCHED_SOURCE: usize = 64 << 10;

/// How many characters of the line that says why the script failed go into the message.
const MAX_LINE_CHARS: usize = 300;

/// The script that ended, as far as its error has to know it.
pub(super) struct EndedScript<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a [u8],
    pub(super) args: &'a [String],
    /// Its home folder in the sandbox; `None` if it had that of the user.
    pub(super) home: Option<&'a Path>,
    /// What it could read and change, if it had a sandbox.
    pub(super) files: Option<&'a RunFiles>,
    /// Where its packages are, if that is known.
    pub(super) package_folders: Option<&'a PackageFolders>,
}

impl<'a> EndedScript<'a> {
    /// A worker, whose text is not at hand.
    pub(super) fn of_worker(name: &'a str, files: Option<&'a RunFiles>) -> Self {
        Self { name, source: &[], args: &[], home: None, files, package_folders: None }
    }

    /// The rules by which a path was refused.
    fn path_check(&self, ctx: &'a SkillContext, ended: &ProcessExit) -> Option<PathCheck<'a>> {
        Some(PathCheck::new(ctx, self.files?, ended.report.as_ref()?))
    }

    /// The modules that it imports and its interpreter does not have.
    fn missing_imports(&self, ctx: &SkillContext) -> Vec<String> {
        let Some(folders) = self.package_folders else { return Vec::new() };
        let text = ScriptText::new(ctx, self.name, self.source, &[]);
        let missing = folders.without_present(imported_modules(text.text()));
        missing.into_iter().map(str::to_owned).collect()
    }
}

/// Reports the process and returns the run's outcome. A cancellation takes precedence over a limit, a limit over the exit code.
pub(super) fn evaluate_exit(
    ctx: &SkillContext,
    script: &EndedScript<'_>,
    mut ended: ProcessExit,
) -> Result<SkillOutput> {
    let had_network =
        ended.report.as_ref().is_some_and(|report| report.enforcement.has(Restrictions::OWN_NETWORK));
    let lost = if had_network { None } else { ended.network.take() };
    let (name, cause) = (script.name, ctx.cancel().cause());
    let is_text = std::str::from_utf8(&ended.stdout.bytes).is_ok();
    let failure = cause
        .map(|cause| stop_error(ctx, cause, &ended))
        .or_else(|| limit_errors::limit_error(ctx.limits(), name, &ended))
        .or_else(|| exit_error(ctx, script, &ended));
    if failure.is_none() {
        warn_of_refused_changes(ctx, script, &ended);
        warn_of_lost_network(ctx, script, &ended);
        warn_of_unread_files(ctx, script, &ended);
        warn_of_unpassed_variables(ctx, script, &ended);
    }
    if let Some(sandboxed) = &ended.report {
        ctx.report_sandbox(sandbox_report(sandboxed));
        warn_of_weaker_sandbox(ctx, name, sandboxed);
    }
    let help = failure.as_ref().and_then(SkillError::help).unwrap_or_default();
    warn_of_refusals(ctx, name, ended.network.as_ref(), help);
    if lost.is_some_and(|network| !network.hosts.is_empty()) {
        ctx.warn(format!("{name} ran without a network: to reach granted hosts only takes namespaces"));
    }
    ctx.report_refused_accesses(refused_accesses(ctx, script, &ended));
    let report = process_report(ended);
    let outcome = match failure {
        Some(error) => Err(error),
        None if ctx.output_sinks().is_some() => Ok(SkillOutput::from(Value::Null)),
        // The truncated beginning of a JSON text is not JSON, even if it can be parsed.
        None if report.stdout_truncated => Ok(SkillOutput::from(Value::from(report.stdout.as_str()))),
        None => stdout::parse(&report.stdout, ctx.limits()).map(|parsed| {
            if parsed.has_replacements {
                ctx.warn(format!(
                    "{name} wrote halves of characters (`\\ud83d` alone); U+FFFD replaced them"
                ));
            }
            process_output(parsed.value, parsed.number)
        }),
    };
    ctx.report_process(report);
    if outcome.is_ok() && !is_text && ctx.output_sinks().is_none() {
        ctx.warn(format!("{name} wrote bytes that are not UTF-8; they were replaced"));
    }
    outcome
}

/// The error of a run whose process never started. `gaps` are what may explain a failure of the sandbox.
pub(super) fn start_error(
    name: &str,
    project: &Path,
    gaps: &ProtectionGaps,
    source: std::io::Error,
) -> SkillError {
    let attempt = format!("failed to run {name}");
    if !project.is_dir() {
        let sentence = format!("{attempt}: the project {} is gone", project.display());
        return SkillError::new(ErrorKind::Unavailable, sentence);
    }
    if let Some(failed) = source.get_ref().and_then(|inner| inner.downcast_ref::<SandboxSetupError>()) {
        let refusal = failed.refusal();
        if failed.is_about_hosts() {
            return hosts_error(&attempt, failed, refusal);
        }
        if let Some(refusal) = refusal {
            return refused_error(&attempt, &refusal);
        }
        let cause = gaps.cause_of(failed).map(|cause| format!(": {cause}")).unwrap_or_default();
        let sentence = format!("{attempt}: the sandbox could not be set up ({failed}){cause}");
        return match failed.hint() {
            Some(help) => SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help(help)
                .with_hint(Hint::BestEffortSandbox),
            None if failed.is_resource_shortage() => SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("give it more memory or open files, or run it when the machine is less busy"),
            None => sandbox_unavailable(sentence),
        };
    }
    let wrong_arguments = match source.kind() {
        std::io::ErrorKind::Unsupported => {
            return sandbox_unavailable(format!(
                "{attempt}: this build has no sandbox for processes on this system"
            ));
        }
        std::io::ErrorKind::ArgumentListTooLong => "the arguments are too long",
        std::io::ErrorKind::InvalidInput => "an argument contains a NUL character",
        _ => return SkillError::io(attempt, source),
    };
    SkillError::new(ErrorKind::Usage, format!("{attempt}: {wrong_arguments}"))
        .with_help("pass the data as input")
        .with_source(source)
}

/// What can keep the process of a request from being started: why some protected paths may not have been found, and which
/// directories of metier have to be covered.
#[derive(Default)]
pub(super) struct ProtectionGaps {
    incomplete_reason: Option<String>,
    metier_dir: Option<String>,
}

impl ProtectionGaps {
    pub(super) fn in_request(request: &LaunchRequest, project: &Path) -> Self {
        let found = &request.sandbox.files.protected_paths;
        let metier_dir = found.own.first().map(Path::new);
        let display = |folder: &Path| {
            folder.strip_prefix(project).unwrap_or(folder).to_string_lossy().escape_debug().to_string()
        };
        Self { incomplete_reason: found.incomplete_reason.clone(), metier_dir: metier_dir.map(display) }
    }

    pub(super) fn incomplete_reason(&self) -> Option<&str> {
        self.incomplete_reason.as_deref()
    }

    fn cause_of(&self, error: &SandboxSetupError) -> Option<&str> {
        let incomplete = self.incomplete_reason().filter(|_| error.is_about_protected_paths());
        incomplete.or_else(|| self.metier_dir.as_deref().filter(|_| error.is_about_metier_dirs()))
    }
}

fn sandbox_unavailable(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::SandboxUnavailable, sentence)
        .with_help(UNSANDBOXED_HELP)
        .with_hint(Hint::Grant("exec:unsandboxed".into()))
}

const UNSANDBOXED_HELP: &str = "if you trust it with all rights of the user, grant exec:unsandboxed";

/// What a program can offer against a refusal.
pub(super) fn refusal_hint(refusal: &Refusal) -> Option<Hint> {
    refusal.needs_apparmor_profile.then_some(Hint::ApparmorProfile)
}

/// The error of a run for whose sandbox the machine lacks something.
fn refused_error(attempt: &str, refusal: &Refusal) -> SkillError {
    let Refusal { reason, help, .. } = refusal;
    let error = sandbox_unavailable(format!("{attempt}: the sandbox could not be set up: {reason}"));
    let hint = refusal_hint(refusal).or_else(|| error.hint().cloned());
    error.with_help(format!("{help}; or, {UNSANDBOXED_HELP}")).with_hint(hint)
}

/// The error of a script that could not get a network with granted hosts only.
fn hosts_error(attempt: &str, failed: &SandboxSetupError, refusal: Option<Refusal>) -> SkillError {
    const HELP: &str =
        "grant net, which opens every host; permissions such as net:HOST hold for ctx.http everywhere";
    let refusal = refusal.unwrap_or_else(|| Refusal {
        reason: failed.error().to_string(),
        help: "run it where a process can have namespaces".into(),
        needs_apparmor_profile: false,
    });
    let hint = refusal_hint(&refusal);
    let Refusal { reason, help, .. } = refusal;
    let sentence = format!("{attempt}: the sandbox could not be set up: {failed}: {reason}");
    SkillError::new(ErrorKind::Unavailable, sentence).with_help(format!("{help}; or {HELP}")).with_hint(hint)
}

/// The error of a run that was stopped. One that had no network may have waited for it until its deadline.
fn stop_error(ctx: &SkillContext, cause: StopCause, ended: &ProcessExit) -> SkillError {
    let error = cause.error();
    let (StopCause::Timeout, Some(network)) = (cause, run_network(ended)) else { return error };
    let observed = || refused_hosts_hint(ctx, network.report?);
    let by_words = || {
        let streams = [&ended.stderr, &ended.stdout].map(|output| redacted_text(ctx, output));
        streams.iter().find_map(|said| unobserved_hint(ctx, searched_end(said.as_inner()), network))
    };
    match observed().or_else(by_words) {
        Some((help, hint)) => {
            let text = format!("it may have waited for the network until then: {help}");
            error.with_help(text).with_hint(hint)
        }
        None => error,
    }
}

/// What is known of the network of a process that ran in a sandbox.
fn run_network(ended: &ProcessExit) -> Option<RunNetwork<'_>> {
    let is_observable = ended.report.as_ref()?.enforcement.has(Restrictions::NAMESPACES);
    Some(RunNetwork { report: ended.network.as_ref(), is_observable })
}

/// Warns of a change that the sandbox refused, and that the script went on after as if nothing was.
fn warn_of_refused_changes(ctx: &SkillContext, script: &EndedScript<'_>, ended: &ProcessExit) {
    let Some(check) = script.path_check(ctx, ended) else { return };
    // What is printed may be any data; the words of a read-only place are rarely about another one.
    let outputs = [
        (&ended.stderr, &[Complaint::ReadOnly, Complaint::Denied][..]),
        (&ended.stdout, &[Complaint::ReadOnly][..]),
    ];
    let refused = outputs.into_iter().find_map(|(output, complaints)| {
        // Most scripts write nothing of the kind, and nothing more is done for them.
        if !mentions_refusal(&last_text(&output.bytes)) {
            return None;
        }
        refused_change_hint(check, searched_end(redacted_text(ctx, output).as_inner()), complaints)
    });
    if let Some((help, _)) = refused {
        ctx.warn(format!("{} ended well, but {help}", script.name));
    }
}

/// Warns of a network that a script missed where nothing is observed, and that it went on without as if nothing was.
fn warn_of_lost_network(ctx: &SkillContext, script: &EndedScript<'_>, ended: &ProcessExit) {
    let Some(network) = run_network(ended) else { return };
    let mut outputs = [&ended.stderr, &ended.stdout].into_iter();
    if let Some((help, _)) =
        outputs.find_map(|output| unobserved_hint(ctx, &last_text(&output.bytes), network))
    {
        ctx.warn(format!("{} ended well, but {help}", script.name));
    }
}

/// Warns of a file that the script says is not there, and that it could not read. Nothing of the output is repeated, so that it need
/// not be redacted.
fn warn_of_unread_files(ctx: &SkillContext, script: &EndedScript<'_>, ended: &ProcessExit) {
    let Some(check) = script.path_check(ctx, ended).filter(|_| is_for_person(ctx)) else { return };
    let said = [&ended.stderr, &ended.stdout].map(|output| last_text(&output.bytes)).join("\n");
    let passed = passed_home_hint(check, script.args);
    // Most scripts write nothing of the kind, and nothing more is done for them.
    if passed.is_none() && !is_about_absence(&said) {
        return;
    }
    let of_home = || {
        let text = ScriptText::new(ctx, script.name, script.source, script.args);
        unseen_home_hint(check, &text)
    };
    let missed = passed.or_else(|| missed_path_hint(check, &said)).map(|(help, _)| help);
    if let Some(warning) = missed.or_else(of_home) {
        ctx.warn(warning);
    }
}

/// Whether an output may be that of a script which found nothing where there is something.
fn is_about_absence(said: &str) -> bool {
    said.trim().is_empty() || says_absence(&said.to_lowercase())
}

/// Warns of variables that the script reads and was not given.
fn warn_of_unpassed_variables(ctx: &SkillContext, script: &EndedScript<'_>, ended: &ProcessExit) {
    if let Some(text) = searched_text(ctx, script, ended) {
        for warning in unpassed_variable_warnings(ctx, &text) {
            ctx.warn(warning);
        }
    }
}

/// The text of a script whose variables are looked for: not one that is not at hand, and never a long one, since most scripts miss nothing.
fn searched_text<'a>(
    ctx: &'a SkillContext,
    script: &EndedScript<'_>,
    ended: &ProcessExit,
) -> Option<ScriptText<'a>> {
    let is_short = !script.source.is_empty() && script.source.len() <= MAX_SEARCHED_SOURCE;
    (ended.report.is_some() && is_short && is_for_person(ctx))
        .then(|| ScriptText::new(ctx, script.name, script.source, &[]))
}

/// What is known of what the run was refused besides files: hosts that it tried, and variables that it reads. Those with secrets only of a
/// run that is watched, after which a person looks at the list.
fn refused_accesses(ctx: &SkillContext, script: &EndedScript<'_>, ended: &ProcessExit) -> Vec<RefusedAccess> {
    let is_watched = ctx.extensions().get::<WatchedAccess>().is_some();
    let variables = searched_text(ctx, script, ended).map(|text| unpassed_variables(ctx, &text, is_watched));
    let variables = variables.into_iter().flatten().map(|(name, _)| {
        let permission = Access::env(&name).narrowest_permission(ctx.permissions().protection()).to_string();
        let reason = has_placeholder(ctx, &name).then(|| "a random placeholder stood in for it".to_owned());
        let mut refused = refused_with_permission(permission, RefusedTarget::Variable(name), 1);
        refused.reason = reason;
        refused
    });
    let hosts = ended.network.iter().flat_map(|network| &network.refused).map(|refused| {
        let (host, reason) = (RefusedTarget::Host(refused.to_string()), refused.reason.clone());
        match refused.permission.clone() {
            Some(permission) => refused_with_permission(permission, host, refused.count),
            None => refused_with_reason(reason, host, refused.count),
        }
    });
    hosts.chain(variables).collect()
}

/// The error of a process that failed.
pub(super) fn exit_error(
    ctx: &SkillContext,
    script: &EndedScript<'_>,
    ended: &ProcessExit,
) -> Option<SkillError> {
    if ended.status.success() {
        return None;
    }
    let name = script.name;
    let end = match ended.status.code() {
        Some(code) => format!("exited with code {code}"),
        // The system's text is `signal: 9 (SIGKILL)`.
        None => format!("was ended by {}", ended.status.to_string().replacen("signal: ", "signal ", 1)),
    };
    // A program that writes nothing to standard error may have said on standard output why it failed.
    let output = RunOutput::new(redacted_text(ctx, &ended.stdout), redacted_text(ctx, &ended.stderr));
    let is_reason = |line: &str| !output.is_printed_only() || line.contains(char::is_alphabetic);
    let line = output.error_text().part(error_line).filter(|line| is_reason(line.as_inner()));
    let line = line.map(|line| line.map(|line| with_short_home(line, script.home)));
    let reason = line.map(|line| format!(": {}", line.truncate(MAX_LINE_CHARS))).unwrap_or_default();
    let error = SkillError::new(ErrorKind::Script, format!("{name} {end}{reason}"));
    let error = with_place(ctx, error, name, output.error_text().as_inner());
    let by_code = || {
        let row = SHELL_EXIT_CODES.into_iter().find(|(code, _)| ended.status.code() == Some(*code));
        row.map(|(_, help)| (help.to_owned(), None))
    };
    let misread = || {
        let MisreadText { reason, help } = misread_shell_text(name, script.source)?;
        Some((format!("{reason}; {help}"), None))
    };
    let help = limit_errors::limit_hint(ctx.limits(), ended)
        .or_else(misread)
        .or_else(|| output_hint(ctx, script, ended, &output))
        .or_else(by_code);
    Some(match help {
        Some((help, hint)) => error.with_help(help).with_hint(hint),
        None => error,
    })
}

/// The error of an answer, with its place in the script if standard error names it.
pub(super) fn with_written_place(
    ctx: &SkillContext,
    error: SkillError,
    name: &str,
    stderr: &CapturedOutput,
) -> SkillError {
    with_place(ctx, error, name, redacted_text(ctx, stderr).as_inner())
}

fn with_place(ctx: &SkillContext, error: SkillError, name: &str, written: &str) -> SkillError {
    match error_place(written, name, ctx.skill_files().ok().map(Files::root)) {
        Some(line) => error.with_location(Location::new(name, Some(line), None)),
        None => error,
    }
}

/// The hint about what the script wrote.
fn output_hint(
    ctx: &SkillContext,
    script: &EndedScript<'_>,
    ended: &ProcessExit,
    output: &RunOutput,
) -> Option<Help> {
    let text = ScriptText::new(ctx, script.name, script.source, script.args);
    let (said, printed) = (output.error_text().as_inner(), output.printed());
    let check = script.path_check(ctx, ended);
    variable_hint(ctx, &text, said)
        .or_else(|| variable_hint(ctx, &text, printed?))
        .or_else(|| package_hint(ctx, script, ended, said))
        .or_else(|| denial_hints::denial_hint(ctx, said, check, run_network(ended)?))
        .or_else(|| package_hint(ctx, script, ended, printed?))
        .or_else(|| unpassed_variable_hint(ctx, &text, said))
        .or_else(|| unpassed_variable_hint(ctx, &text, printed?))
        .or_else(|| watch_hint(ctx, script, ended, output, &text))
}

/// What is said where nothing is known, of a failure that looks like one of the sandbox.
fn watch_hint(
    ctx: &SkillContext,
    script: &EndedScript<'_>,
    ended: &ProcessExit,
    output: &RunOutput,
    text: &ScriptText<'_>,
) -> Option<Help> {
    ended.report.as_ref()?;
    let outputs = [output.stderr(), output.stdout()];
    // An error that names a path is about that one.
    let line = error_line(output.error_text().as_inner()).unwrap_or_default();
    let is_about_home = is_about_absence(line) && !line.contains('/');
    let of_home = || unseen_home_hint(script.path_check(ctx, ended)?, text).filter(|_| is_about_home);
    let of_refusal = || {
        let is_refusal = outputs.iter().any(|said| mentions_refusal(searched_end(said)));
        let advice = watch_advice(ctx, "shows what it was").filter(|_| is_refusal)?;
        Some(format!("the sandbox may have refused the script something; {advice}"))
    };
    of_home().or_else(of_refusal).map(|text| (text, None))
}

/// The hint about a package that is not installed, if that is why the script failed.
fn package_hint(
    ctx: &SkillContext,
    script: &EndedScript<'_>,
    ended: &ProcessExit,
    said: &str,
) -> Option<Help> {
    let project = ctx.project().ok().map(Files::root);
    let skill = ctx.skill_files().ok().map(Files::root);
    let folders: Vec<&Path> = project.into_iter().chain(skill).collect();
    // The permission is missing where they are there and not granted.
    let user_help = |module: &str| {
        // What the user has is only for the user.
        let help = permission_hint(ctx, &Access::user_packages()).filter(|_| is_for_person(ctx));
        help.filter(|_| user_packages::has_module(module))
    };
    let (said, packages) = (searched_end(said), packages::skill_packages(ctx));
    let has_hosts = ended.network.as_ref().is_some_and(|network| !network.hosts.is_empty());
    let has_no_network =
        ended.report.is_some() && !has_hosts && !ctx.permissions().allows(&Access::network());
    let search = ModuleSearch {
        folders: &folders,
        packages,
        user_help: &user_help,
        neighbour_help: &|module| {
            let folder = neighbour_with_module(skill?, module)?;
            let in_project = "it is found there once the script adds that folder to sys.path";
            neighbour_help(ctx, &format!("Python module {module}"), &folder, in_project)
        },
        neighbour_file_help: &|path| {
            let folder = neighbour_with_file(skill?, path)?;
            let in_project = "the path counts from the folder of the file that names it";
            neighbour_help(ctx, &format!("file {}", path.escape_debug()), &folder, in_project)
        },
        missing_imports: &|| script.missing_imports(ctx),
    };
    let (help, hint) = missing_package_help(error_line(said)?, &search)
        .or_else(|| advised_package_help(said, has_no_network, packages, user_help))?;
    let is_complete = ctx.facts().untrusted_projects.is_empty();
    let help = if is_complete { help } else { format!("{help}; {NO_PROJECT_PACKAGES}") };
    Some((help, hint))
}

/// The help for a module or file that lies in a folder beside the skill, outside of what the run may read; `in_project` if it may. What is
/// there is only for the user.
fn neighbour_help(ctx: &SkillContext, what: &str, folder: &Path, in_project: &str) -> Option<Help> {
    if !is_for_person(ctx) {
        return None;
    }
    let place = format!(
        "the script says that it needs the {what}, which lies in {}, outside of the folder of the skill",
        shown_path(&folder.to_string_lossy())
    );
    if ctx.project_root().is_some_and(|project| folder.starts_with(project)) {
        return Some((format!("{place}; {in_project}"), None));
    }
    let (help, hint) = folder_grant(ctx, folder)
        .unwrap_or_else(|| ("copy it into the folder of the skill".to_owned(), None));
    Some((format!("{place}; {help}"), hint))
}

/// What a script that misses a package in a run for a model may not know.
const NO_PROJECT_PACKAGES: &str = "in a run for a model, no packages come from a .venv or node_modules of the project, unless the project is \
                                   trusted as a whole";

/// The line with `~` for the home folder of the script, whose path means nothing to anybody after the run.
fn with_short_home(line: String, home: Option<&Path>) -> String {
    match home.and_then(Path::to_str) {
        Some(home) => line.replace(home, "~"),
        None => line,
    }
}

/// Warns of the connections that were refused in the network of a script: of all that a grant would open in one line.
/// Not of what the help of the run says.
pub(super) fn warn_of_refusals(ctx: &SkillContext, name: &str, network: Option<&NetworkReport>, help: &str) {
    /// The maximum number of warnings.
    const MAX_WARNINGS: usize = 8;
    let Some(network) = network else { return };
    if let Some((tried, grants)) = tried_hosts(network).filter(|(_, grants)| !help.contains(grants)) {
        ctx.warn(format!("{name} tried {tried}; {grants}"));
    }
    let ungrantable = || network.refused.iter().filter(|refused| !is_ungranted(refused));
    for refused in ungrantable().take(MAX_WARNINGS) {
        let grant = refused.permission.as_ref().map(|permission| format!("; grant {permission}"));
        ctx.warn(format!("{name} tried {refused}: {}{}", refused.reason, grant.unwrap_or_default()));
    }
    for sent in network.misplaced.iter().take(MAX_WARNINGS) {
        ctx.warn(misplaced_text(&sent.secret, &sent.host));
    }
    for host in &network.opened {
        ctx.warn(format!("the connections of {name} to {host} were opened, to put its secret into them"));
    }
    for host in &network.unopened {
        ctx.warn(format!(
            "{name} connected to {host} over TLS, where its secret stays a placeholder; with the base address http://{host} the host program puts it in and encrypts the connection, and with a TLS broker it opens this one"
        ));
    }
    let others = ungrantable().count().saturating_sub(MAX_WARNINGS);
    if others > 0 {
        ctx.warn(format!("{name} tried {others} other hosts in a way that is not granted"));
    }
}

/// What the script wrote, without orders to a terminal and without secrets, redacted as a whole: in a part of it a cut secret would
/// not be recognised.
fn redacted_text(ctx: &SkillContext, output: &CapturedOutput) -> Redacted<String> {
    ctx.redaction().plain_text(&String::from_utf8_lossy(&output.bytes), output.truncated)
}

/// Warns if the sandbox was weaker than this machine supports, or than a required one.
fn warn_of_weaker_sandbox(ctx: &SkillContext, name: &str, sandboxed: &SupervisorReport) {
    for sentence in missing_restrictions(name, sandboxed.enforcement) {
        ctx.warn(sentence);
    }
}

fn missing_restrictions(name: &str, held: Enforcement) -> Vec<String> {
    let lowered = held.is_downgraded.then(|| {
        format!(
            "{name} ran at the level landlock: this machine has namespaces, but could not create any for it"
        )
    });
    // Without namespaces this is true of every run.
    let open = (held.has(Restrictions::NAMESPACES) && !held.has(Restrictions::PROTECTED_PATHS)).then(|| {
        format!("{name} ran where not all that is protected could be covered: a mount failed, or shows the project elsewhere too")
    });
    // Whether the network had to be blocked depends on the grants.
    let sandbox = SandboxPolicy { network: NetworkAccess::Open, ..SandboxPolicy::default() };
    let missing =
        held.missing(&sandbox).map(|part| format!("{name} ran in a sandbox that does not restrict {part}"));
    lowered.into_iter().chain(open).chain(missing).collect()
}

/// What the sandbox enforced, as reported by the script's process before it started and by the supervisor when it ended.
pub(super) fn sandbox_report(sandboxed: &SupervisorReport) -> SandboxReport {
    let held = sandboxed.enforcement;
    let has_namespaces = held.has(Restrictions::NAMESPACES);
    let mut report = SandboxReport::NONE;
    report.level = if has_namespaces { EnforcedLevel::Namespaces } else { EnforcedLevel::Landlock };
    report.files = held.restricts_files();
    report.network = held.has(Restrictions::NETWORK);
    report.unix_sockets = held.has(Restrictions::SECCOMP);
    report.signals = held.restricts_signals();
    report.tree_kill = held.has(Restrictions::TREE_GONE);
    report.protected_paths = held.has(Restrictions::PROTECTED_PATHS);
    report.metadata_outside = has_namespaces;
    report.process_count = held.has(Restrictions::PROCESS_COUNT);
    report
}

fn process_report(ended: ProcessExit) -> ProcessReport {
    let used = ended.report.as_ref().map(|report| report.usage);
    let mut report = ProcessReport::default();
    report.exit_code = ended.status.code();
    report.signal = ended.signal();
    report.usage.cpu = used.map(|used| Duration::from_micros(used.cpu_us));
    report.usage.memory_bytes = used.map(|used| used.memory);
    report.usage.tree_memory_bytes = used.map(|used| used.peak_tree_memory);
    report.usage.left_behind = used.map(|used| used.left_behind);
    report.usage.stdout_bytes = ended.stdout.total_bytes;
    report.usage.stderr_bytes = ended.stderr.total_bytes;
    report.stdout_truncated = ended.stdout.truncated;
    report.stderr_truncated = ended.stderr.truncated;
    report.stdout = lossy_utf8(ended.stdout.bytes);
    report.stderr = lossy_utf8(ended.stderr.bytes);
    let has_news = |network: &NetworkReport| !network.hosts.is_empty() || network.refused_count > 0;
    report.network = ended.network.filter(has_news);
    report
}

pub(super) fn lossy_utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_lacked_is_reported() {
        let with = |more: Restrictions| Enforcement {
            landlock_abi: 6,
            restrictions: Restrictions::SECCOMP | more,
            ..Enforcement::default()
        };
        let whole = with(Restrictions::empty());
        assert_eq!(missing_restrictions("x", whole), [""; 0]);
        let protected = with(Restrictions::NAMESPACES | Restrictions::PROTECTED_PATHS);
        assert_eq!(missing_restrictions("x", protected), [""; 0]);
        let said = missing_restrictions("x", with(Restrictions::NAMESPACES)).join("\n");
        assert!(said.starts_with("x ran where not all that is protected"), "{said}");
        let said = missing_restrictions("x", Enforcement { is_downgraded: true, ..whole }).join("\n");
        assert!(said.starts_with("x ran at the level landlock"), "{said}");
        let said = missing_restrictions("x", Enforcement::default());
        let unrestricted = ["files", "local sockets", "signals"];
        assert_eq!(
            said,
            unrestricted.map(|part| format!("x ran in a sandbox that does not restrict {part}"))
        );
    }
}
