//! `metier list`: the skills there are, shadowed ones included.

use metier::engine::Engine;
use metier::error::{ErrorKind, Result};
use metier::registry::Skill;
use serde_json::{Value, json};

use super::output;
use super::session::Session;
use super::terminal::brief;

pub(super) fn run(session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let skills = engine.registry().skills();
    if session.json() {
        let rows: Vec<Value> = skills.iter().map(|skill| row(&engine, skill)).collect();
        session.last_resort().answered();
        output::talk_of_problems(engine.registry());
        output::say_json(&rows)?;
        return Ok(0);
    }
    let widest = skills.iter().map(|skill| shown_name(skill).chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = skills.iter().map(|skill| line(&engine, skill, widest)).collect();
    session.last_resort().answered();
    output::talk_of_problems(engine.registry());
    for line in lines {
        output::say(&line)?;
    }
    if skills.is_empty() {
        output::talk(&format!("no skills; `metier new NAME` makes one in .{}/skills", session.product()));
    }
    Ok(0)
}

/// One skill as `--json` lists it.
pub(super) fn row(engine: &Engine, skill: &Skill) -> Value {
    let availability = engine.availability(skill);
    json!({
        "name": skill.name(),
        "qualified": skill.qualified(),
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
    let name = shown_name(skill);
    format!("{name:width$}  {runtime:13}  {}", brief(&note, 100))
}

fn shown_name(skill: &Skill) -> String {
    let name = if skill.shadowed_by().is_some() { skill.qualified() } else { skill.name().to_owned() };
    brief(&name, 60)
}
