//! `metier doctor`: what this machine, this build and these skills offer, and what is amiss.

use anstyle::AnsiColor;
use metier::engine::{Diagnosis, Finding};
use metier::error::Result;
use metier::skill::Severity;

use super::session::Session;
use super::terminal::{visible_line, visible_sentence};
use super::{facts, output};

/// What a finding is called, and its colour.
const LEVELS: [(Severity, &str, AnsiColor); 3] = [
    (Severity::Error, "error", AnsiColor::Red),
    (Severity::Warning, "warning", AnsiColor::Yellow),
    (Severity::Info, "note", AnsiColor::Blue),
];

/// Exit code 0, or 1 where something keeps skills from running.
pub(super) fn run(session: &Session) -> Result<u8> {
    let diagnosis = session.engine()?.diagnosis();
    session.last_resort().answered();
    if session.json() {
        output::say_json(&diagnosis)?;
    } else {
        output::say(&page(&diagnosis))?;
        diagnosis.findings.iter().for_each(tell);
    }
    Ok(u8::from(!diagnosis.ok))
}

fn page(of: &Diagnosis) -> String {
    let mut rows = vec![
        ("metier", of.version.to_owned()),
        ("features", features(of)),
        ("system", system(of)),
        ("landlock", of.cage.landlock_abi.map_or("none".into(), |abi| format!("ABI {abi}"))),
        ("sandbox", tiers(of)),
        ("helper", helper(of)),
        ("interpreters", interpreters(of)),
        ("project", of.project.display().to_string()),
        ("skills in", roots(of)),
    ];
    if !of.shadowed.is_empty() {
        let shadowed =
            of.shadowed.iter().map(|skill| format!("{} by {}", line(&skill.skill), line(&skill.by)));
        rows.push(("shadowed", shadowed.collect::<Vec<_>>().join("\n")));
    }
    if let Some(cache) = &of.cache {
        rows.push((
            "cache",
            format!("{}: {} files, {} bytes", cache.path.display(), cache.files, cache.bytes),
        ));
    }
    facts::table(&rows)
}

fn line(text: &str) -> String {
    visible_line(text)
}

fn features(of: &Diagnosis) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        of.features.iter().filter(|feature| feature.built_in == wanted).map(|feature| feature.name).collect()
    };
    match named(false).as_slice() {
        [] => named(true).join(", "),
        missing => format!("{}; not built in: {}", named(true).join(", "), missing.join(", ")),
    }
}

fn system(of: &Diagnosis) -> String {
    let kernel = of.system.kernel.as_deref().unwrap_or_default();
    format!("{} {kernel} on {}", of.system.os, of.system.arch).replace("  ", " ")
}

fn tiers(of: &Diagnosis) -> String {
    let tier = |tier: &metier::engine::Tier| {
        let is_used = tier.available && tier.name == of.cage.sandbox.tier;
        let word = match (tier.available, is_used) {
            (true, true) => "yes, by default",
            (true, false) => "yes",
            (false, _) => "no",
        };
        format!("{:10} {word:16} takes {}", tier.name, tier.needs)
    };
    of.tiers.iter().map(tier).collect::<Vec<_>>().join("\n")
}

fn helper(of: &Diagnosis) -> String {
    of.cage.helper.as_ref().map_or("a copy of this process".into(), |path| line(&path.display().to_string()))
}

fn interpreters(of: &Diagnosis) -> String {
    let found = of.interpreters.iter().filter_map(|interpreter| {
        let path = line(&interpreter.path.as_ref()?.display().to_string());
        let version = interpreter.version.as_deref().map_or("does not say its version".into(), line);
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

fn roots(of: &Diagnosis) -> String {
    let root = |root: &metier::engine::RootReport| {
        let place =
            root.path.as_ref().map_or("inside the program".into(), |path| line(&path.display().to_string()));
        let what = match (root.exists, root.problems) {
            (false, _) => "not there".to_owned(),
            (true, 0) => format!("{} skills", root.skills),
            (true, problems) => format!("{} skills, {problems} problems", root.skills),
        };
        format!("{place} ({}/{}): {what}", root.scope, line(&root.label))
    };
    of.roots.iter().map(root).collect::<Vec<_>>().join("\n")
}

fn tell(finding: &Finding) {
    let (_, name, color) = LEVELS.iter().find(|(level, ..)| *level == finding.severity).unwrap_or(&LEVELS[0]);
    let style = color.on_default().bold();
    output::talk(&format!("{style}{name}{style:#}: {}", visible_sentence(&finding.message)));
    output::talk(&format!("  help: {}", visible_sentence(&finding.help)));
}
