//! `metier show`: one skill, with what it asks for and what it can do.

use metier::engine::{Engine, asked_by};
use metier::error::Result;
use metier::executor::SkillRuntime;
use metier::policy::Asked;
use metier::registry::Skill;
use serde_json::{Value, json};

use super::list::row;
use super::output;
use super::session::Session;
use super::terminal::visible;

/// The options of `metier show`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill, plain or qualified
    name: String,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let skill = engine.registry().find(&args.name)?;
    if session.json() {
        output::say_json(&record(&engine, skill)?)?;
    } else {
        output::say(&visible(&page(&engine, skill)?))?;
    }
    Ok(0)
}

fn record(engine: &Engine, skill: &Skill) -> Result<Value> {
    let manifest = skill.manifest();
    let mut record = row(engine, skill);
    let more = json!({
        "license": manifest.license,
        "compatibility": manifest.compatibility,
        "metadata": manifest.metadata,
        "allowed_tools": manifest.allowed_tools,
        "asks": asks(engine, skill),
        "scripts": skill.scripts()?,
        "diagnostics": skill.diagnostics(),
        "body": skill.body()?,
    });
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    Ok(record)
}

fn page(engine: &Engine, skill: &Skill) -> Result<String> {
    let availability = engine.availability(skill);
    let runnable = match (&availability.runtime, &availability.reason) {
        (_, Some(reason)) => format!("no: {reason}"),
        (runtime, None) => format!("yes, in {}", runtime.map_or("-", SkillRuntime::name)),
    };
    let scripts = skill.scripts()?;
    let rows = [
        ("name", skill.qualified()),
        ("description", skill.description().to_owned()),
        ("path", skill.path()),
        ("runs", runnable),
        ("scripts", if scripts.is_empty() { "none".into() } else { scripts.join(", ") }),
        ("asks for", asks(engine, skill).join(", ")),
        ("shadowed by", skill.shadowed_by().unwrap_or("nothing").to_owned()),
    ];
    let facts: Vec<String> = rows.iter().map(|(name, fact)| format!("{name:12} {fact}")).collect();
    Ok(format!("{}\n\n{}", facts.join("\n"), skill.body()?.trim_end()))
}

/// What the skill asks for, as permissions; `everything` for an external script that names none.
fn asks(engine: &Engine, skill: &Skill) -> Vec<String> {
    let runtime = engine.availability(skill).runtime.unwrap_or(SkillRuntime::Lua);
    match asked_by(&skill.manifest().allowed_tools, runtime) {
        Asked::Everything => vec!["everything".into()],
        Asked::These(permissions) => {
            let mut names = vec!["read".to_owned()];
            names.extend(permissions.iter().map(ToString::to_string));
            names.dedup();
            names
        }
    }
}
