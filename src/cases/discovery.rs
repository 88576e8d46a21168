//! Finds the cases of a skill.

use std::path::Path;

use super::case::Case;
use crate::cases::result::CaseResult;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Location, Result, SkillError};
use metier_skill::contract::unknown_example_key;

/// The maximum size of a case in bytes.
const MAX_CASE_BYTES: u64 = 1 << 20;

/// The cases of a skill by name, and the files that cannot be run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DiscoveredCases {
    /// Those that can be run.
    pub cases: Vec<Case>,
    /// Files in the folder of cases that are not valid cases, and a contract with which nothing can run: each with the
    /// reason.
    pub not_run: Vec<CaseResult>,
}

/// Finds the examples of the skill's contract, and `cases/*.json` in its folder; builtin skills have no files.
pub fn discover_cases(skill: &Skill) -> Result<DiscoveredCases> {
    let mut collected = DiscoveredCases::default();
    let examples = skill.contract().map(|contract| contract.examples.as_slice()).unwrap_or_default();
    for (number, example) in (1..).zip(examples) {
        let case = Case::from_example(number, example);
        match unknown_example_key(example) {
            None => collected.cases.push(case),
            Some(stray) => {
                let file = skill.contract_file().unwrap_or_default().to_owned();
                let place = Location::new(file, Some(stray.line), None);
                let sentence = format!("{}; {}", stray.message, stray.help);
                let error = SkillError::new(ErrorKind::InvalidSkill, sentence).with_location(place);
                collected.not_run.push(CaseResult::not_run(skill, case.name(), &error));
            }
        }
    }
    if let (Some(file), Some(fault)) = (skill.contract_file(), skill.contract_error()) {
        collected.not_run.push(CaseResult::not_run(skill, file, &fault));
    }
    for path in skill.folder().files_under("cases")? {
        let within = path.strip_prefix("cases/").unwrap_or(&path);
        let Some(name) = within.strip_suffix(".json").filter(|name| !name.contains('/')) else {
            if looks_like_a_case(within) {
                let sentence = format!("{path} is not read; a case is a file cases/NAME.json");
                let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
                collected.not_run.push(CaseResult::not_run(skill, within, &error));
            }
            continue;
        };
        let case =
            skill.folder().read(&path, MAX_CASE_BYTES).and_then(|source| Case::parse(name, &path, &source));
        match case {
            Ok(case) => collected.cases.push(case),
            Err(error) => collected.not_run.push(CaseResult::not_run(skill, name, &error)),
        }
    }
    Ok(collected)
}

/// Whether a file below `cases` may be meant as a case. The files in `cases/project` are there in every case.
fn looks_like_a_case(path: &str) -> bool {
    let is_json = Path::new(path).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    is_json && !path.starts_with("project/")
}
