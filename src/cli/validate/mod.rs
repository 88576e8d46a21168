//! `metier validate`: checks skills against the specification, contracts, plans, and the folders they are in.

mod contract;
mod folder_checks;
mod handler_source;
mod lints;
mod project_skills;
mod references;
mod runtime_location;
mod script_texts;
mod sequence;
mod skill;
mod skill_file;
mod target;
mod unused_steps;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use metier::error::Result;
use metier::skill::Profile;

use self::project_skills::ProjectSkills;
use self::skill::SkillValidation;
use super::output;
use super::session::Session;
use super::trust_words::untrusted_sentence;
use crate::cli::diagnostics;

/// The options of `metier validate`.
#[derive(clap::Args)]
pub struct Args {
    /// Skill folders, their SKILL.md, folders with skills somewhere below, or names of skills
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Whose rules decide: those of the specification's text, those of the reference validator, or both, as clients of Agent
    /// Plugins must
    #[arg(long, value_name = "PROFILE", default_value = "spec", value_parser = profile_parser())]
    profile: Profile,
}

/// Exits with 0 when everything is valid, with 1 otherwise.
pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let project = ProjectSkills::new(session);
    let targets = args.paths.iter().flat_map(|path| target::targets(path, &project));
    let checked: Vec<SkillValidation> =
        targets.map(|target| SkillValidation::from_target(target, args.profile, &project)).collect();
    session.exit_watchdog().finish();
    let is_untrusted = |checked: &&SkillValidation| checked.trust.is_some_and(|trust| trust != "trusted");
    let untrusted = checked.iter().filter(is_untrusted).filter_map(|checked| checked.name.clone());
    if let Some(sentence) = untrusted_sentence(&untrusted.collect::<Vec<_>>()) {
        output::eprint(&format!("note: {sentence}"));
    }
    let checked = checked.into_iter();
    let invalid = if session.json() { print_json(checked)? } else { print_text(checked)? };
    Ok(u8::from(invalid > 0))
}

fn profile_parser() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(["spec", "skills-ref", "agent-plugins"]).try_map(|name| name.parse::<Profile>())
}

/// Prints all results; the number of invalid skills.
fn print_json(checked: impl Iterator<Item = SkillValidation>) -> Result<usize> {
    let without_text = |checked| SkillValidation { text: String::new(), ..checked };
    let checked: Vec<SkillValidation> = checked.map(without_text).collect();
    output::print_json(&checked)?;
    Ok(checked.iter().filter(|checked| !checked.valid).count())
}

fn print_text(checked: impl Iterator<Item = SkillValidation>) -> Result<usize> {
    let (mut valid, mut invalid) = (0, 0);
    for SkillValidation { diagnostics, file, text, contract, sequences, valid: is_valid, .. } in checked {
        let contract = contract.iter().flat_map(|contract| {
            contract
                .diagnostics
                .iter()
                .map(|found| diagnostics::render(&contract.path, &contract.text, found))
        });
        let steps = sequences.iter().flat_map(|steps| {
            steps.diagnostics.iter().map(|found| diagnostics::render(&steps.path, &steps.text, found))
        });
        let own = diagnostics.iter().map(|found| diagnostics::render(&file, &text, found));
        for shown in own.chain(contract).chain(steps) {
            output::print(&format!("{shown}\n"))?;
        }
        *(if is_valid { &mut valid } else { &mut invalid }) += 1;
    }
    output::print(&summary(valid, invalid))?;
    Ok(invalid)
}

fn summary(valid: usize, invalid: usize) -> String {
    let skills = match valid + invalid {
        1 => "1 skill".to_owned(),
        count => format!("{count} skills"),
    };
    match (valid, invalid) {
        (_, 0) => format!("{skills} checked: {valid} valid"),
        _ => format!("{skills} checked: {valid} valid, {invalid} invalid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_valid_and_invalid_skills() {
        assert_eq!(summary(1, 0), "1 skill checked: 1 valid");
        assert_eq!(summary(2, 1), "3 skills checked: 2 valid, 1 invalid");
        assert_eq!(summary(0, 1), "1 skill checked: 0 valid, 1 invalid");
    }
}
