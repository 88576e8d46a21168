//! `metier show`: one skill, with its signature, requested permissions and instructions.

use metier::engine::{Availability, Engine, NamedScript, SkillContent};
use metier::error::Result;
use metier::executor::RuntimeId;
use metier::plan::Plan;
use metier::registry::Skill;
use metier::skill::contract::{Contract, ResourceSource};
use metier::trust::RememberedGrant;
use serde_json::{Value, json};

use super::prompt::output_columns;
use super::requirement::requirement_row;
use super::session::Session;
use super::skill_record::{permission_names, script_list, skill_record};
use super::terminal::{escape_text, with_margin, wrap_lines};
use super::trust_words::{configured_grant_line, grant_line, grants_of_skill, trust_line};
use super::{output, table};

mod signature;
mod tools;

/// The options of `metier show`.
#[derive(clap::Args)]
pub struct Args {
    /// The name of the skill: NAME, NAME@RANGE or SCOPE/ROOT:NAME@VERSION
    name: String,
    /// Also look for the services and files that the skill requires: connects to the hosts that it names, for at most ten seconds
    #[arg(long)]
    probe: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let skill = registry.find(&args.name)?;
    let availability =
        if args.probe { engine.probed_availability(skill) } else { engine.availability(skill) };
    if session.json() {
        let record = record(&engine, skill, &availability)?;
        session.exit_watchdog().finish();
        output::print_json(&record)?;
    } else {
        let page = page(&engine, skill, availability)?;
        session.exit_watchdog().finish();
        output::print(&page)?;
    }
    Ok(0)
}

fn record(engine: &Engine, skill: &Skill, availability: &Availability) -> Result<Value> {
    let manifest = skill.manifest();
    let mut record = skill_record(skill, availability, &engine.trust_state(skill));
    let more = json!({
        "license": manifest.license,
        "compatibility": manifest.compatibility,
        "metadata": manifest.metadata,
        "allowed_tools": manifest.allowed_tools,
        "requested_permissions": permission_names(engine, skill),
        "scripts": engine.scripts(skill)?,
        "script_runtimes": engine.named_scripts(skill).iter().map(script_record).collect::<Vec<_>>(),
        "tools": tools::records(engine, skill),
        "diagnostics": skill.diagnostics(),
        "signature": signature::function_signature(skill),
        "input_schema": skill.contract().and_then(|contract| contract.inputs.as_ref()),
        "output_schema": skill.contract().and_then(|contract| contract.outputs.as_ref()),
        "contract": skill.contract(),
        "plan": plan(engine, skill).map(|plan| plan.json()),
        "contract_diagnostics": skill.contract_diagnostics(),
        "body": skill.body()?,
        "grants": remembered_grants(engine, skill),
        "configured_grants": engine.configured_grants(skill),
    });
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    Ok(record)
}

fn page(engine: &Engine, skill: &Skill, availability: Availability) -> Result<String> {
    let named = engine.named_scripts(skill);
    let runnable = runs_text(&availability, &named);
    let with_runtime = |path: String| {
        let known = named.iter().find(|script| script.path == path);
        known.map_or_else(|| path.clone(), |script| format!("{path} ({})", script.runtime.name()))
    };
    let scripts: Vec<String> = engine.scripts(skill)?.into_iter().map(with_runtime).collect();
    let mut rows = vec![
        ("name", skill.qualified_name()),
        ("description", skill.description().to_owned()),
        ("path", skill.path()),
        ("runs", runnable),
        ("scripts", if scripts.is_empty() { "none".into() } else { scripts.join(", ") }),
        ("requests", permission_names(engine, skill).join(", ")),
        ("granted", granted_lines(engine, skill)),
        ("trusted", trust_line(&engine.trust_state(skill))),
        ("shadowed by", skill.shadowed_by().unwrap_or("nothing").to_owned()),
    ];
    rows.extend(availability.requirements.iter().map(|found| requirement_row(skill.name(), found)));
    rows.extend(availability.warnings.into_iter().map(|warning| ("missing", warning)));
    rows.extend(skill.contract().into_iter().flat_map(contract_rows));
    let columns = output_columns();
    let signature = format!("{}{}", signature::section(skill), tools::section(engine, skill));
    let plan = plan(engine, skill).map_or(String::new(), |plan| format!("\n{plan}\n"));
    let sections = wrap_lines(&escape_text(&format!("{signature}{plan}")), columns);
    Ok(format!(
        "{}\n{sections}\n{}",
        table::two_columns(&rows),
        with_margin(&skill.body()?, columns).trim_end()
    ))
}

/// Whether the skill can run, and how; nothing is wrong with one that only has to be used in another way.
fn runs_text(availability: &Availability, scripts: &[NamedScript]) -> String {
    if let Some(reason) = availability.cannot_run() {
        return format!("no: {reason}");
    }
    match (availability.content, &availability.reason) {
        (Some(SkillContent::Scripts), _) => {
            format!("yes, one script that is named: {}", script_list(scripts))
        }
        (Some(SkillContent::Tools), _) => "by its tools: it has no other script".to_owned(),
        (Some(SkillContent::Instructions), _) => "nothing: it holds instructions for a model".to_owned(),
        (_, Some(reason)) => format!("no: {reason}"),
        (_, None) => format!("yes, in {}", availability.runtime.map_or("-", RuntimeId::name)),
    }
}

/// What is remembered as granted to the skill as it is now, in this project or in all; the configuration may grant more.
fn remembered_grants(engine: &Engine, skill: &Skill) -> Vec<RememberedGrant> {
    engine.skill_files(skill).map(|files| grants_of_skill(engine, skill, &files)).unwrap_or_default()
}

fn granted_lines(engine: &Engine, skill: &Skill) -> String {
    let is_trusted = engine.trust_state(skill).is_trusted();
    let mut lines: Vec<String> = remembered_grants(engine, skill).iter().map(grant_line).collect();
    lines
        .extend(engine.configured_grants(skill).iter().map(|grant| configured_grant_line(grant, is_trusted)));
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n") }
}

/// The plan of a skill that has a valid one; an error in a plan is the reason why the skill cannot run.
fn plan(engine: &Engine, skill: &Skill) -> Option<Plan> {
    engine.plan(skill).ok().flatten()
}

/// What the contract declares besides inputs and outputs.
fn contract_rows(contract: &Contract) -> Vec<(&'static str, String)> {
    let named = |(name, entrypoint): &(String, metier::skill::contract::Entrypoint)| {
        let description = entrypoint.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        ("entrypoint", format!("{name} ({}){description}", entrypoint.path))
    };
    let mut facts: Vec<_> = contract.entrypoints.iter().map(named).collect();
    let unknown = contract.permissions.iter().flatten().filter(|entry| entry.permission.is_none());
    facts.extend(unknown.map(|entry| ("ignored", format!("{} is not a permission", entry.text))));
    facts.extend(
        contract
            .forms
            .iter()
            .map(|form| ("asks for", format!("{} (form {})", form.inputs.join(", "), form.name))),
    );
    facts.extend(contract.resources.iter().map(|resource| {
        let source = match &resource.source {
            ResourceSource::File(path) => path.clone(),
            ResourceSource::Tool(tool) => format!("tool {tool}"),
            _ => "-".to_owned(),
        };
        ("resource", format!("{} ({source})", resource.uri))
    }));
    facts.extend(contract.attachments.iter().map(|path| ("attaches", path.clone())));
    let metadata = &contract.metadata;
    let estimates = [
        ("duration", &metadata.estimated_duration),
        ("cost", &metadata.cost),
        ("risk", &metadata.risk_level),
    ];
    facts.extend(estimates.into_iter().filter_map(|(name, fact)| Some((name, fact.clone()?))));
    facts
}

fn script_record(script: &NamedScript) -> Value {
    json!({"path": script.path, "runtime": script.runtime})
}
