//! `metier diff`: what is different between two versions of a skill, and how large the change of the version must be.

use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::{Registry, Skill};
use metier::skill::comparison::{Change, Comparison, Finding, VersionChange, compare};
use metier::skill::contract::Contract;
use metier_skill::comparison::contract_of_skill;
use metier_skill::contract::CONTRACT_FILES;
use semver::Version;
use serde_json::{Value, json};

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier diff`.
#[derive(clap::Args)]
pub struct Args {
    /// The old version: a skill's folder, its SKILL.md or its contract, or the name of a skill, with NAME@VERSION for one of several
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The new version, in the same way
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Fail also where a difference cannot be judged, and where a version is missing
    #[arg(long)]
    strict: bool,
}

/// Exits with 0 if the change of the version is large enough, with 1 if it is too small.
pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let (old, new) = (skill(&args.old, session)?, skill(&args.new, session)?);
    let (old_contract, new_contract) = (contract(&old)?, contract(&new)?);
    let comparison = compare(&old_contract, &new_contract);
    session.exit_watchdog().finish();
    if session.json() {
        output::print_json(&record(&old, &new, &comparison))?;
    } else {
        output::print(&page(&old, &new, &comparison))?;
    }
    let is_judged = comparison.declared.is_some() && comparison.unknown == 0;
    let is_enough = comparison.is_sufficient().unwrap_or(true) && (is_judged || !args.strict);
    Ok(u8::from(!is_enough))
}

/// The skill at a path, or else with that name.
fn skill(target: &Path, session: &Session) -> Result<Skill> {
    if let Some(skill) = skill_folder(target).and_then(Registry::load_skill_in) {
        return skill;
    }
    let unknown = || {
        let sentence = format!("there is no skill in {}", target.display());
        SkillError::new(ErrorKind::UnknownSkill, sentence).with_help(
            "name a skill's folder, its SKILL.md, its contract, or a skill that `metier list` shows",
        )
    };
    let name = target.to_str().ok_or_else(unknown)?;
    let engine = session.engine()?;
    let registry = engine.registry();
    let found = registry.find(name).cloned();
    // What is there and no skill was not meant as a name.
    let is_path = target.symlink_metadata().is_ok() || target.components().count() > 1;
    found.map_err(|error| if is_path && error.kind() == ErrorKind::UnknownSkill { unknown() } else { error })
}

/// The folder that a path means: itself, or that of a file of a skill.
fn skill_folder(target: &Path) -> Option<&Path> {
    if target.is_dir() {
        return Some(target);
    }
    let name = target.file_name()?.to_str()?;
    let is_skill_file = name.eq_ignore_ascii_case("SKILL.md") || CONTRACT_FILES.contains(&name);
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (is_skill_file && target.symlink_metadata().is_ok()).then_some(parent)
}

/// The contract of a skill, with what its `SKILL.md` says; what is wrong with one prevents a comparison as it prevents a run.
fn contract(skill: &Skill) -> Result<Contract> {
    if let Some(error) = skill.contract_error() {
        return Err(error);
    }
    let contract = skill.contract();
    for tool in contract.into_iter().flat_map(|contract| &contract.tools) {
        let mut schemas = tool.input_schema.iter().chain(&tool.output_schema);
        if let Some(fault) = schemas.find_map(|schema| schema.fault()) {
            let sentence =
                format!("the tool {} of skill {} has an invalid schema: {fault}", tool.name, skill.name());
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        }
    }
    Ok(contract_of_skill(contract, skill.manifest()))
}

fn record(old: &Skill, new: &Skill, comparison: &Comparison) -> Value {
    let skill = |skill: &Skill| {
        json!({
            "name": skill.name(),
            "version": stated_version(skill).map(ToString::to_string),
            "path": skill.path(),
        })
    };
    json!({
        "old": skill(old),
        "new": skill(new),
        "findings": comparison.findings,
        "left_out": comparison.left_out,
        "unknown": comparison.unknown,
        "required": comparison.required,
        "declared": comparison.declared,
        "needed_version": comparison.needed_version.as_ref().map(ToString::to_string),
        "sufficient": comparison.is_sufficient(),
    })
}

/// A skill without a version has 0.0.0.
fn stated_version(skill: &Skill) -> Option<&Version> {
    Some(skill.version()).filter(|version| **version != Version::new(0, 0, 0))
}

fn page(old: &Skill, new: &Skill, comparison: &Comparison) -> String {
    let mut lines: Vec<String> = comparison.findings.iter().map(line).collect();
    if comparison.left_out > 0 {
        lines.push(format!("and {} more", output::plural(comparison.left_out, "difference")));
    }
    if comparison.unknown > 0 {
        let count = output::plural(comparison.unknown, "difference");
        lines.push(format!("{count} cannot be judged here: look whether callers go on as before"));
    }
    lines.push(result_line(stated_version(old), stated_version(new), comparison));
    lines.join("\n")
}

fn line(finding: &Finding) -> String {
    let (name, color) = match finding.change {
        Change::Major => ("major", AnsiColor::Red),
        Change::Unknown => ("unknown", AnsiColor::Yellow),
        Change::Minor => ("minor", AnsiColor::Cyan),
        _ => ("patch", AnsiColor::White),
    };
    let style = color.on_default();
    let place = if finding.path.is_empty() { "/" } else { &finding.path };
    format!("{style}{name:7}{style:#}  {}: {}", escape_line(place), escape_line(&finding.message))
}

fn result_line(old: Option<&Version>, new: Option<&Version>, comparison: &Comparison) -> String {
    let needs = match comparison.required {
        VersionChange::None => "the contracts need no new version".to_owned(),
        required => {
            let size = change_name(required);
            match &comparison.needed_version {
                Some(version) => format!("the changes need at least {version} ({size})"),
                None if old.is_some() => {
                    format!("the changes are {size}, and no number is left for a version")
                }
                None => format!("the changes are {size}"),
            }
        }
    };
    let (Some(old), Some(new)) = (old, new) else {
        let missing = match (old, new) {
            (None, None) => "neither has a version",
            (None, _) => "the old one has no version",
            _ => "the new one has no version",
        };
        return format!("{missing}, so the change of the version cannot be judged; {needs}");
    };
    match comparison.declared {
        Some(VersionChange::Lower) => format!("version {old} -> {new}, which is lower; {needs}"),
        _ => format!("version {old} -> {new}; {needs}"),
    }
}

fn change_name(change: VersionChange) -> &'static str {
    match change {
        VersionChange::Major => "major",
        VersionChange::Minor => "minor",
        VersionChange::Patch => "patch",
        _ => "none",
    }
}
