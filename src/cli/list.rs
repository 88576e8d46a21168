//! `metier list`: the skills there are, shadowed ones included.

use metier::engine::Engine;
use metier::error::{ErrorKind, Result};
use metier::registry::Skill;
use serde_json::{Value, json};

use super::output;
use super::session::Session;
use super::terminal::shorten_line;

pub(super) fn run(session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let skills = engine.registry().skills();
    if session.json() {
        let rows: Vec<Value> = skills.iter().map(|skill| skill_record(&engine, skill)).collect();
        session.exit_watchdog().finish();
        output::print_problems(engine.registry());
        output::print_json(&rows)?;
        return Ok(0);
    }
    let widest = skills.iter().map(|skill| display_name(skill).chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = skills.iter().map(|skill| line(&engine, skill, widest)).collect();
    session.exit_watchdog().finish();
    output::print_problems(engine.registry());
    for line in lines {
        output::print(&line)?;
    }
    if skills.is_empty() {
        output::eprint(&format!("no skills; `metier new NAME` makes one in .{}/skills", session.product()));
    }
    Ok(0)
}

/// One skill as `--json` lists it.
pub(super) fn skill_record(engine: &Engine, skill: &Skill) -> Value {
    let availability = engine.availability(skill);
    json!({
        "name": skill.name(),
        "qualified": skill.qualified_name(),
        "description": skill.description(),
        "version": skill.version().to_string(),
        "scope": skill.scope().to_string(),
        "path": skill.path(),
        "runtime": availability.runtime,
        "runnable": availability.is_runnable(),
        "reason": availability.reason.as_ref().map(ToString::to_string),
        "warnings": availability.warnings,
        "shadowed_by": skill.shadowed_by(),
    })
}

fn line(engine: &Engine, skill: &Skill, width: usize) -> String {
    let availability = engine.availability(skill);
    let runtime = availability.runtime.map_or("-", metier::executor::SkillRuntime::name);
    let note = match (skill.shadowed_by(), &availability.reason) {
        (Some(winner), _) => format!("shadowed by {winner}"),
        // What has no script to run is there to be read.
        (None, Some(reason))
            if availability.runtime.is_some() || reason.kind() == ErrorKind::InvalidSkill =>
        {
            format!("cannot run: {reason}")
        }
        _ => skill.description().to_owned(),
    };
    let name = display_name(skill);
    format!("{name:width$}  {runtime:13}  {}", shorten_line(&note, 100))
}

fn display_name(skill: &Skill) -> String {
    let name = if skill.shadowed_by().is_some() { skill.qualified_name() } else { skill.name().to_owned() };
    shorten_line(&name, 60)
}
