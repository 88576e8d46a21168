//! The cases of a skill.

use super::case::Case;
use super::verdict::Verdict;
use crate::error::Result;
use crate::registry::Skill;

/// Bytes a case may have.
const LARGEST: u64 = 1 << 20;

/// The cases of a skill by name, and what cannot be run.
#[derive(Debug, Default)]
pub struct Collected {
    /// Those that can be run.
    pub cases: Vec<Case>,
    /// What lies where cases do and is none, and a contract by which nothing runs: each with the reason.
    pub not_run: Vec<Verdict>,
}

/// The examples of the skill's contract, and `cases/*.json` in its folder; skills inside the binary bring no files.
pub fn cases_of(skill: &Skill) -> Result<Collected> {
    let mut collected = Collected::default();
    let examples = skill.contract().map(|contract| contract.examples.as_slice()).unwrap_or_default();
    collected.cases.extend((1..).zip(examples).map(|(number, example)| Case::of_example(number, example)));
    if let (Some(file), Some(fault)) = (skill.contract_file(), skill.contract_fault()) {
        collected.not_run.push(Verdict::not_run(skill, file, &fault));
    }
    for path in skill.folder().files_in("cases")? {
        let name = path.strip_prefix("cases/").unwrap_or(&path);
        let Some(name) = name.strip_suffix(".json") else { continue };
        let case = skill.folder().read(&path, LARGEST).and_then(|source| Case::parse(name, &path, &source));
        match case {
            Ok(case) => collected.cases.push(case),
            Err(error) => collected.not_run.push(Verdict::not_run(skill, name, &error)),
        }
    }
    Ok(collected)
}
