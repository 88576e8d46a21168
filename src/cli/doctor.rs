//! `metier doctor`: what this machine, this build and these skills support, and what is wrong.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use metier::config::{ConfigFile, LoadedConfiguration};
use metier::engine::{
    Diagnosis, Engine, Finding, PackagesReport, PreviewReport, RootReport, SandboxLevelReport, SettingsReport,
};
use metier::error::{Result, SkillError};
use metier::policy::GrantReport;
use metier::registry::Skill;
use metier::skill::Severity;
use metier::trust::{ProjectIdentity, RememberedGrant};
use serde::Serialize;

use super::apparmor::apparmor_profile;
use super::hint::diagnosis_with_options;
use super::session::Session;
use super::terminal::{escape_line, escape_sentence, shorten_line};
use super::trust_words::configured_grant_line;
use crate::cli::{output, table, unread_skills};

/// The name and the colour of each severity.
const LEVELS: [(Severity, &str, AnsiColor); 3] = [
    (Severity::Error, "error", AnsiColor::Red),
    (Severity::Warning, "warning", AnsiColor::Yellow),
    (Severity::Info, "note", AnsiColor::Blue),
];

/// The options of `metier doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Print an AppArmor profile that allows user namespaces to this program, or to another one that embeds metier
    #[arg(long, value_name = "PROGRAM")]
    #[allow(clippy::option_option, reason = "the type of an option whose value may be left out")]
    apparmor: Option<Option<PathBuf>>,
}

/// Exit code 0, or 1 if a finding is an error.
pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if let Some(program) = &args.apparmor {
        let own = || {
            std::env::current_exe().map_err(|source| SkillError::io("failed to find this program", source))
        };
        output::print(&apparmor_profile(&program.clone().map_or_else(own, Ok)?)?)?;
        return Ok(0);
    }
    let engine = session.engine()?;
    let mut diagnosis = diagnosis_with_options(engine.diagnosis());
    diagnosis.findings.extend(unread_skills::findings(session));
    let trust = trust_report(&engine);
    session.exit_watchdog().finish();
    if session.json() {
        let configuration = ConfigurationReport::new(session.loaded());
        output::print_json(&Report { diagnosis: &diagnosis, trust: &trust, configuration })?;
    } else {
        let texts = [trust_lines(&trust), grant_lines(&trust), config_lines(session.loaded())];
        output::print(&format!("{}\n\n{}", summary(&diagnosis), page(&diagnosis, texts)))?;
        diagnosis.findings.iter().for_each(print_finding);
    }
    let loaded = session.loaded();
    if !session.json() {
        for warning in &loaded.warnings {
            output::print_error_as_warning(warning, "it has no effect");
        }
        loaded.errors.iter().for_each(output::print_error);
    }
    Ok(u8::from(!diagnosis.ok || !loaded.errors.is_empty()))
}

/// The answer in JSON.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    trust: &'a TrustReport,
    configuration: ConfigurationReport<'a>,
}

/// The configuration files, and what is wrong with them and with environment variables.
#[derive(Serialize)]
struct ConfigurationReport<'a> {
    files: Vec<ConfigFileReport<'a>>,
    errors: &'a [SkillError],
    warnings: &'a [SkillError],
}

#[derive(Serialize)]
struct ConfigFileReport<'a> {
    path: &'a Path,
    scope: &'static str,
    exists: bool,
}

impl<'a> ConfigurationReport<'a> {
    fn new(loaded: &'a LoadedConfiguration) -> Self {
        let report = |file: &'a ConfigFile| ConfigFileReport {
            path: &file.path,
            scope: config_scope(file),
            exists: file.exists,
        };
        Self {
            files: loaded.files.iter().map(report).collect(),
            errors: &loaded.errors,
            warnings: &loaded.warnings,
        }
    }
}

fn config_scope(file: &ConfigFile) -> &'static str {
    if file.is_project { "project" } else { "user" }
}

fn config_lines(loaded: &LoadedConfiguration) -> String {
    let line = |file: &ConfigFile| {
        let state = if file.exists { "" } else { ": does not exist" };
        format!("{} ({}){state}", escape_line(&file.path.display().to_string()), config_scope(file))
    };
    let problems = [(&loaded.errors, "error"), (&loaded.warnings, "warning")];
    let counts = problems.iter().filter(|(list, _)| !list.is_empty());
    loaded
        .files
        .iter()
        .map(line)
        .chain(counts.map(|(list, noun)| output::plural(list.len(), noun)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The trust store, the skills that no model may run, and what is granted for later runs.
#[derive(Serialize)]
struct TrustReport {
    store: String,
    /// Why it is not used.
    reason: Option<String>,
    untrusted: Vec<String>,
    /// The remembered grants that apply in this project.
    grants: Vec<RememberedGrantReport>,
    /// The grants of the user's configuration for skills that are here.
    configured_grants: Vec<ConfiguredGrantReport>,
}

/// A grant of the configuration.
#[derive(Serialize)]
struct ConfiguredGrantReport {
    skill: String,
    #[serde(flatten)]
    grant: GrantReport,
    /// Whether the skill is trusted, so that it takes effect.
    current: bool,
}

/// A remembered grant.
#[derive(Serialize)]
struct RememberedGrantReport {
    skill: String,
    permission: String,
    everywhere: bool,
    /// Whether a skill of that name still has the files that it was granted for.
    current: bool,
}

fn trust_lines(trust: &TrustReport) -> String {
    let mut lines = vec![escape_line(&trust.store)];
    lines.extend(trust.reason.iter().map(|reason| format!("not used: {}", escape_line(reason))));
    if !trust.untrusted.is_empty() {
        lines.push(format!("not trusted: {}", trust.untrusted.join(", ")));
    }
    lines.join("\n")
}

fn grant_lines(trust: &TrustReport) -> String {
    let line = |grant: &RememberedGrantReport| {
        let place = if grant.everywhere { "in all projects" } else { "in this project" };
        let state =
            if grant.current { "" } else { "; without effect: its files have changed, or it is gone" };
        escape_line(&format!("{} {} {place}{state}", grant.skill, grant.permission))
    };
    let configured = trust.configured_grants.iter().map(|configured| {
        let line = configured_grant_line(&configured.grant, configured.current);
        escape_line(&format!("{} {line}", configured.skill))
    });
    let lines: Vec<String> = trust.grants.iter().map(line).chain(configured).collect();
    if lines.is_empty() { "none are remembered or configured".to_owned() } else { lines.join("\n") }
}

/// The remembered grants that apply in the engine's project, and those that would if the skill had not changed.
fn remembered_grants(engine: &Engine) -> Vec<RememberedGrantReport> {
    let records = engine.trust_store().and_then(|store| store.records().ok());
    let project = ProjectIdentity::new(engine.project()).ok();
    let registry = engine.registry();
    let is_current = |grant: &RememberedGrant| {
        let first = registry.skills().partition_point(|skill| skill.name() < grant.skill.as_str());
        let mut named = registry.skills()[first..].iter().take_while(|skill| skill.name() == grant.skill);
        named.any(|skill| engine.skill_files(skill).is_ok_and(|files| files.digest == grant.digest))
    };
    let applies = |grant: &&RememberedGrant| grant.project.is_none() || grant.project == project;
    let report = |grant: &RememberedGrant| RememberedGrantReport {
        skill: shorten_line(&grant.skill, 64),
        permission: grant.permission.clone(),
        everywhere: grant.project.is_none(),
        current: is_current(grant),
    };
    records.iter().flat_map(|records| records.grants.iter().filter(applies).map(report)).collect()
}

fn configured_grants(engine: &Engine, skill: &Skill) -> Vec<ConfiguredGrantReport> {
    let grants = engine.configured_grants(skill);
    let current = !grants.is_empty() && engine.trust_state(skill).is_trusted();
    let report = |grant| ConfiguredGrantReport { skill: shorten_line(skill.name(), 64), grant, current };
    grants.into_iter().map(report).collect()
}

fn trust_report(engine: &Engine) -> TrustReport {
    let (registry, store) = (engine.registry(), engine.trust_store());
    let states = engine.trust_states(&registry.skills().iter().collect::<Vec<_>>());
    let untrusted = registry.skills().iter().zip(states).filter(|(_, state)| !state.is_trusted());
    TrustReport {
        store: store.map_or_else(String::new, |store| store.folder().display().to_string()),
        reason: store.and_then(|store| store.records().err()).map(|error| error.to_string()),
        untrusted: untrusted.map(|(skill, _)| shorten_line(skill.name(), 64)).collect(),
        grants: remembered_grants(engine),
        configured_grants: registry
            .skills()
            .iter()
            .flat_map(|skill| configured_grants(engine, skill))
            .collect(),
    }
}

/// Whether external scripts run here, which is what most people want to know.
fn summary(diagnosis: &Diagnosis) -> String {
    let sandbox = &diagnosis.sandbox;
    if let Some(reason) = &sandbox.reason {
        return format!("Python and shell skills do not run here: {}", escape_sentence(reason));
    }
    let is_installed = |commands: &[&str]| {
        let mut interpreters = diagnosis.interpreters.iter().filter(|found| found.path.is_some());
        interpreters.any(|found| commands.contains(&found.command.as_str()))
    };
    let level = sandbox.strongest.level;
    match (is_installed(&["python3"]), is_installed(&["bash", "sh"])) {
        (true, true) => format!("Python and shell skills run here, level {level}"),
        (false, true) => {
            format!("Shell skills run here, level {level}; for Python skills, python3 is missing")
        }
        (true, false) => format!("Python skills run here, level {level}; for shell skills, bash is missing"),
        (false, false) => format!("Scripts run here, level {level}; python3 and bash are missing"),
    }
}

fn page(diagnosis: &Diagnosis, [trust, grants, configuration]: [String; 3]) -> String {
    let mut rows = vec![
        ("metier", diagnosis.version.to_owned()),
        ("features", feature_list(diagnosis)),
        ("runtimes", runtime_list(diagnosis)),
        ("system", system_line(diagnosis)),
        ("landlock", diagnosis.sandbox.landlock_abi.map_or("none".into(), |abi| format!("ABI {abi}"))),
        ("sandbox", sandbox_levels(diagnosis)),
        ("previews", preview_lines(diagnosis)),
        ("helper", helper_line(diagnosis)),
        ("interpreters", interpreter_lines(diagnosis)),
        ("project", diagnosis.project.display().to_string()),
        ("skills in", root_lines(diagnosis)),
        ("trust", trust),
        ("grants", grants),
        ("configuration", configuration),
    ];
    if !diagnosis.shadowed.is_empty() {
        let shadowed = diagnosis
            .shadowed
            .iter()
            .map(|skill| format!("{} by {}", escape_line(&skill.skill), escape_line(&skill.by)));
        rows.push(("shadowed", shadowed.collect::<Vec<_>>().join("\n")));
    }
    let settings = settings_lines(&diagnosis.settings);
    if !settings.is_empty() {
        rows.push(("settings", settings));
    }
    if let Some(cache) = &diagnosis.cache {
        rows.push((
            "cache",
            format!("{}: {} files, {} bytes", cache.path.display(), cache.files, cache.bytes),
        ));
    }
    if let Some(packages) = &diagnosis.packages {
        rows.push(("packages", package_lines(packages)));
    }
    table::two_columns(&rows)
}

/// Which skills have their settings.
fn settings_lines(settings: &SettingsReport) -> String {
    let configured = settings.configured.iter().map(|skill| format!("{}: set", escape_line(skill)));
    let missing = settings.missing.iter().map(|skill| {
        let variables = if skill.missing_env.is_empty() {
            String::new()
        } else {
            format!("; set {}", skill.missing_env.join(", "))
        };
        let category = escape_line(&skill.category);
        format!("{} (category {category}): not set{variables}", escape_line(&skill.skill))
    });
    let problems = settings.problems.iter().map(|problem| escape_line(&problem.message));
    configured.chain(missing).chain(problems).collect::<Vec<_>>().join("\n")
}

fn package_lines(packages: &PackagesReport) -> String {
    let shown = |path: &Path| escape_line(&path.display().to_string());
    let manager = |name: &str, path: &Option<PathBuf>| match path {
        Some(path) => shown(path),
        None => format!("no {name} on PATH, so its packages cannot be prepared"),
    };
    let store = match &packages.reason {
        Some(reason) => escape_line(reason),
        None => format!("{}: {} sets, {} bytes", shown(&packages.path), packages.sets, packages.bytes),
    };
    [store, manager("uv", &packages.uv), manager("npm", &packages.npm)].join("\n")
}

fn feature_list(diagnosis: &Diagnosis) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        diagnosis
            .features
            .iter()
            .filter(|feature| feature.built_in == wanted)
            .map(|feature| feature.name)
            .collect()
    };
    match named(false).as_slice() {
        [] => named(true).join(", "),
        missing => format!("{}; not built in: {}", named(true).join(", "), missing.join(", ")),
    }
}

/// The runtimes of the command are those of metier; which of them a build lacks, its features say.
fn runtime_list(diagnosis: &Diagnosis) -> String {
    let available = diagnosis.runtimes.iter().filter(|runtime| runtime.available);
    available.map(|runtime| runtime.name.name()).collect::<Vec<_>>().join(", ")
}

fn system_line(diagnosis: &Diagnosis) -> String {
    let kernel = diagnosis.system.kernel.as_deref().unwrap_or_default();
    format!("{} {kernel} on {}", diagnosis.system.os, diagnosis.system.arch).replace("  ", " ")
}

fn sandbox_levels(diagnosis: &Diagnosis) -> String {
    let line = |level: &SandboxLevelReport| {
        let is_default = level.available && level.name == diagnosis.sandbox.strongest.level;
        let state = match (level.available, is_default) {
            (true, true) => "yes, by default",
            (true, false) => "yes",
            (false, _) => "no",
        };
        format!("{:10} {state:16} needs {}", level.name, level.needs)
    };
    diagnosis.sandbox_levels.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn preview_lines(diagnosis: &Diagnosis) -> String {
    let line = |preview: &PreviewReport| {
        let runtimes: Vec<String> = preview.runtimes.iter().map(ToString::to_string).collect();
        let state = if preview.available { "yes" } else { "no" };
        format!("{}: {state}, needs {}", runtimes.join(", "), preview.needs)
    };
    diagnosis.previews.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn helper_line(diagnosis: &Diagnosis) -> String {
    diagnosis
        .sandbox
        .helper
        .as_ref()
        .map_or("a copy of this program".into(), |path| escape_line(&path.display().to_string()))
}

fn interpreter_lines(diagnosis: &Diagnosis) -> String {
    let found = diagnosis.interpreters.iter().filter_map(|interpreter| {
        let path = escape_line(&interpreter.path.as_ref()?.display().to_string());
        let version = interpreter.version.as_deref().map_or("unknown version".into(), escape_line);
        Some(format!("{:8} {version} ({path})", interpreter.command))
    });
    let missing = diagnosis.interpreters.iter().filter(|interpreter| interpreter.path.is_none());
    let missing: Vec<&str> = missing.map(|interpreter| interpreter.command.as_str()).collect();
    let mut lines: Vec<String> = found.collect();
    if !missing.is_empty() {
        lines.push(format!("not found: {}", missing.join(", ")));
    }
    lines.join("\n")
}

fn root_lines(diagnosis: &Diagnosis) -> String {
    let line = |root: &RootReport| {
        let folder = root
            .path
            .as_ref()
            .map_or("inside metier".into(), |path| escape_line(&path.display().to_string()));
        let count = match (root.exists, root.problems) {
            (false, _) => "does not exist".to_owned(),
            (true, 0) => output::plural(root.skills, "skill"),
            (true, problems) => {
                format!("{}, {}", output::plural(root.skills, "skill"), output::plural(problems, "problem"))
            }
        };
        format!("{folder} ({}/{}): {count}", root.scope, escape_line(&root.label))
    };
    diagnosis.roots.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn print_finding(finding: &Finding) {
    let (_, name, color) = LEVELS.iter().find(|(level, ..)| *level == finding.severity).unwrap_or(&LEVELS[0]);
    let style = color.on_default().bold();
    output::eprint(&format!("{style}{name}{style:#}: {}", escape_sentence(&finding.message)));
    output::eprint(&format!("  help: {}", escape_sentence(&finding.help)));
}
