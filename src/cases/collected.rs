//! The cases of a skill.

use super::case::Case;
use crate::error::{Result, SkillError};
use crate::registry::Skill;

/// Bytes a case may have.
const LARGEST: u64 = 1 << 20;

/// The cases of a skill by name, and what is no case although it lies where cases do.
#[derive(Debug, Default)]
pub struct Collected {
    /// Those that can be run.
    pub cases: Vec<Case>,
    /// Why the others cannot.
    pub errors: Vec<SkillError>,
}

/// The examples of the skill's contract, and `cases/*.json` in its folder; skills inside the binary bring no files.
pub fn cases_of(skill: &Skill) -> Result<Collected> {
    let mut collected = Collected::default();
    let examples = skill.contract().map(|contract| contract.examples.as_slice()).unwrap_or_default();
    collected.cases.extend((1..).zip(examples).map(|(number, example)| Case::of_example(number, example)));
    for path in skill.folder().files_in("cases")? {
        let name = path.strip_prefix("cases/").unwrap_or(&path);
        let Some(name) = name.strip_suffix(".json") else { continue };
        let case = skill.folder().read(&path, LARGEST).and_then(|source| Case::parse(name, &path, &source));
        match case {
            Ok(case) => collected.cases.push(case),
            Err(error) => collected.errors.push(error),
        }
    }
    Ok(collected)
}
