//! `metier list`: all skills, including shadowed ones.

use metier::engine::{Availability, NamedScript, Requirement, RequirementKind, RequirementState, TrustState};
use metier::error::Result;
use metier::registry::{Scope, Skill};
use serde_json::Value;

use super::output;
use super::session::Session;
use super::skill_record::{runtime_names, skill_record};
use super::terminal::shorten_line;

/// The options of `metier list`.
#[derive(clap::Args)]
pub struct Args {
    /// Also list the skills of metier that lack settings or secrets which they need
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let skills: Vec<&Skill> = registry.skills().iter().collect();
    let availabilities = engine.availabilities(&skills);
    let states = engine.trust_states(&skills);
    let is_shown = |(skill, answer): &(&Skill, &Availability)| args.all || !is_unconfigured(skill, answer);
    let hidden = skills.iter().copied().zip(&availabilities).filter(|pair| !is_shown(pair)).count();
    let answers = || {
        let pairs = skills.iter().copied().zip(&availabilities).zip(&states);
        pairs.filter(|(pair, _)| is_shown(pair))
    };
    if session.json() {
        let rows: Vec<Value> =
            answers().map(|((skill, answer), state)| skill_record(skill, answer, state)).collect();
        session.exit_watchdog().finish();
        output::print_problems(&registry);
        output::print_json(&rows)?;
        return Ok(0);
    }
    let widest = answers().map(|((skill, _), _)| display_name(skill).chars().count()).max().unwrap_or(0);
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
    if hidden > 0 {
        output::eprint(&format!(
            "{hidden} skills of metier lack their settings: `metier doctor` says which, `metier list --all` lists them"
        ));
    }
    if skills.is_empty() {
        output::eprint(&format!(
            "no skills found; `metier new NAME` creates one in .{}/skills",
            session.product()
        ));
    }
    Ok(0)
}

/// Whether it is a skill of metier for a service that nobody set up: of such skills, only those are listed that can be used.
fn is_unconfigured(skill: &Skill, answer: &Availability) -> bool {
    let is_setting = |found: &Requirement| {
        matches!(found.kind, RequirementKind::Setting | RequirementKind::Secret)
            && found.required
            && found.state == RequirementState::Missing
    };
    skill.scope() == Scope::Builtin && answer.requirements.iter().any(is_setting)
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
