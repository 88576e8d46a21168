//! `metier list`: all skills, including shadowed ones.

use metier::engine::{Availability, NamedScript, TrustState};
use metier::error::Result;
use metier::registry::Skill;
use serde_json::Value;

use super::output;
use super::session::Session;
use super::skill_record::{runtime_names, skill_record};
use super::terminal::shorten_line;

pub(super) fn run(session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let skills = registry.skills();
    let availabilities = engine.availabilities(&skills.iter().collect::<Vec<_>>());
    let states = engine.trust_states(&skills.iter().collect::<Vec<_>>());
    let answers = || skills.iter().zip(&availabilities).zip(&states);
    if session.json() {
        let rows: Vec<Value> =
            answers().map(|((skill, answer), state)| skill_record(skill, answer, state)).collect();
        session.exit_watchdog().finish();
        output::print_problems(&registry);
        output::print_json(&rows)?;
        return Ok(0);
    }
    let widest = skills.iter().map(|skill| display_name(skill).chars().count()).max().unwrap_or(0);
    let without_main = answers().filter(|((_, answer), _)| answer.runtime.is_none());
    let without_main: Vec<&Skill> = without_main.map(|((skill, _), _)| skill).collect();
    let mut named = engine.named_scripts_of_each(&without_main).into_iter();
    let row = |((skill, answer), state): ((&Skill, &Availability), &TrustState)| {
        let scripts = if answer.runtime.is_none() { named.next() } else { None };
        line(skill, (answer, state), &scripts.unwrap_or_default(), widest)
    };
    let lines: Vec<String> = answers().map(row).collect();
    session.exit_watchdog().finish();
    output::print_problems(&registry);
    if !lines.is_empty() {
        output::print(&lines.join("\n"))?;
    }
    if skills.is_empty() {
        output::eprint(&format!(
            "no skills found; `metier new NAME` creates one in .{}/skills",
            session.product()
        ));
    }
    Ok(0)
}

/// `scripts` are those that a caller can name, where the skill has no main one.
fn line(
    skill: &Skill,
    (availability, state): (&Availability, &TrustState),
    scripts: &[NamedScript],
    width: usize,
) -> String {
    let runtime = match availability.runtime {
        Some(runtime) => runtime.name().to_owned(),
        None => match scripts {
            several @ [_, _, ..] => runtime_names(several),
            _ => "-".to_owned(),
        },
    };
    let note = match (skill.shadowed_by(), availability.cannot_run().map(ToString::to_string)) {
        (Some(other), _) => format!("shadowed by {other}"),
        (None, Some(reason)) => format!("cannot run: {reason}"),
        (None, None) => skill.description().to_owned(),
    };
    let name = display_name(skill);
    let mark = match state {
        TrustState::Trusted { .. } => "",
        TrustState::Changed { .. } => "changed since it was trusted; ",
        _ => "not trusted; ",
    };
    format!("{name:width$}  {runtime:13}  {mark}{}", shorten_line(&note, 100))
}

fn display_name(skill: &Skill) -> String {
    let name = if skill.shadowed_by().is_some() { skill.qualified_name() } else { skill.name().to_owned() };
    shorten_line(&name, 60)
}
