//! `metier doctor`: what this machine, this build and these skills offer, and what is amiss.

use anstyle::AnsiColor;
use metier::engine::{Diagnosis, Finding};
use metier::error::Result;
use metier::skill::Severity;

use super::session::Session;
use super::terminal::{escape_line, escape_sentence};
use crate::cli::{output, table};

/// What a finding is called, and its colour.
const LEVELS: [(Severity, &str, AnsiColor); 3] = [
    (Severity::Error, "error", AnsiColor::Red),
    (Severity::Warning, "warning", AnsiColor::Yellow),
    (Severity::Info, "note", AnsiColor::Blue),
];

/// Exit code 0, or 1 where something keeps skills from running.
pub(super) fn run(session: &Session) -> Result<u8> {
    let diagnosis = session.engine()?.diagnosis();
    session.exit_watchdog().finish();
    if session.json() {
        output::print_json(&diagnosis)?;
    } else {
        output::print(&page(&diagnosis))?;
        diagnosis.findings.iter().for_each(print_finding);
    }
    Ok(u8::from(!diagnosis.ok))
}

fn page(of: &Diagnosis) -> String {
    let mut rows = vec![
        ("metier", of.version.to_owned()),
        ("features", feature_list(of)),
        ("system", system_line(of)),
        ("landlock", of.sandbox.landlock_abi.map_or("none".into(), |abi| format!("ABI {abi}"))),
        ("sandbox", sandbox_levels(of)),
        ("helper", helper_line(of)),
        ("interpreters", interpreter_lines(of)),
        ("project", of.project.display().to_string()),
        ("skills in", root_lines(of)),
    ];
    if !of.shadowed.is_empty() {
        let shadowed =
            of.shadowed.iter().map(|skill| format!("{} by {}", escaped(&skill.skill), escaped(&skill.by)));
        rows.push(("shadowed", shadowed.collect::<Vec<_>>().join("\n")));
    }
    if let Some(cache) = &of.cache {
        rows.push((
            "cache",
            format!("{}: {} files, {} bytes", cache.path.display(), cache.files, cache.bytes),
        ));
    }
    table::two_columns(&rows)
}

fn escaped(text: &str) -> String {
    escape_line(text)
}

fn feature_list(of: &Diagnosis) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        of.features.iter().filter(|feature| feature.built_in == wanted).map(|feature| feature.name).collect()
    };
    match named(false).as_slice() {
        [] => named(true).join(", "),
        missing => format!("{}; not built in: {}", named(true).join(", "), missing.join(", ")),
    }
}

fn system_line(of: &Diagnosis) -> String {
    let kernel = of.system.kernel.as_deref().unwrap_or_default();
    format!("{} {kernel} on {}", of.system.os, of.system.arch).replace("  ", " ")
}

fn sandbox_levels(of: &Diagnosis) -> String {
    let tier = |tier: &metier::engine::SandboxLevelReport| {
        let is_used = tier.available && tier.name == of.sandbox.sandbox.level;
        let word = match (tier.available, is_used) {
            (true, true) => "yes, by default",
            (true, false) => "yes",
            (false, _) => "no",
        };
        format!("{:10} {word:16} takes {}", tier.name, tier.needs)
    };
    of.sandbox_levels.iter().map(tier).collect::<Vec<_>>().join("\n")
}

fn helper_line(of: &Diagnosis) -> String {
    of.sandbox
        .helper
        .as_ref()
        .map_or("a copy of this process".into(), |path| escaped(&path.display().to_string()))
}

fn interpreter_lines(of: &Diagnosis) -> String {
    let found = of.interpreters.iter().filter_map(|interpreter| {
        let path = escaped(&interpreter.path.as_ref()?.display().to_string());
        let version = interpreter.version.as_deref().map_or("does not say its version".into(), escaped);
        Some(format!("{:8} {version} ({path})", interpreter.command))
    });
    let missing = of.interpreters.iter().filter(|interpreter| interpreter.path.is_none());
    let missing: Vec<&str> = missing.map(|interpreter| interpreter.command.as_str()).collect();
    let mut lines: Vec<String> = found.collect();
    if !missing.is_empty() {
        lines.push(format!("not found: {}", missing.join(", ")));
    }
    lines.join("\n")
}

fn root_lines(of: &Diagnosis) -> String {
    let root = |root: &metier::engine::RootReport| {
        let place = root
            .path
            .as_ref()
            .map_or("inside the program".into(), |path| escaped(&path.display().to_string()));
        let what = match (root.exists, root.problems) {
            (false, _) => "not there".to_owned(),
            (true, 0) => format!("{} skills", root.skills),
            (true, problems) => format!("{} skills, {problems} problems", root.skills),
        };
        format!("{place} ({}/{}): {what}", root.scope, escaped(&root.label))
    };
    of.roots.iter().map(root).collect::<Vec<_>>().join("\n")
}

fn print_finding(finding: &Finding) {
    let (_, name, color) = LEVELS.iter().find(|(level, ..)| *level == finding.severity).unwrap_or(&LEVELS[0]);
    let style = color.on_default().bold();
    output::eprint(&format!("{style}{name}{style:#}: {}", escape_sentence(&finding.message)));
    output::eprint(&format!("  help: {}", escape_sentence(&finding.help)));
}
