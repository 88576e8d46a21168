//! `metier list`: all skills, including shadowed ones.

use metier::engine::{Availability, Engine, TrustState};
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
    let answers = || skills.iter().zip(&availabilities);
    if session.json() {
        let rows: Vec<Value> =
            answers().map(|(skill, answer)| skill_record(&engine, skill, answer)).collect();
        session.exit_watchdog().finish();
        output::print_problems(&registry);
        output::print_json(&rows)?;
        return Ok(0);
    }
    let widest = skills.iter().map(|skill| display_name(skill).chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = answers().map(|(skill, answer)| line(&engine, skill, answer, widest)).collect();
    session.exit_watchdog().finish();
    output::print_problems(&registry);
    for line in lines {
        output::print(&line)?;
    }
    if skills.is_empty() {
        output::eprint(&format!(
            "no skills found; `metier new NAME` creates one in .{}/skills",
            session.product()
        ));
    }
    Ok(0)
}

fn line(engine: &Engine, skill: &Skill, availability: &Availability, width: usize) -> String {
    let runtime = match availability.runtime {
        Some(runtime) => runtime.name().to_owned(),
        None => match engine.named_scripts(skill).as_slice() {
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
    let mark = match engine.trust_state(skill) {
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
