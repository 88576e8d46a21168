//! Which skill shadows which: nearer roots before versions, versions within a root, the path when all else is equal.

use std::cmp::{Ordering, Reverse};

use super::problem::Problem;
use super::skill::Skill;
use metier_skill::Severity;

/// Sorts the skills by name and precedence and marks those that are shadowed. Returns the problems found.
pub(super) fn rank_skills(skills: &mut [Skill]) -> Vec<Problem> {
    skills.sort_by(|a, b| compare_precedence(a, b).then_with(|| a.file_path().cmp(&b.file_path())));
    let mut problems = Vec::new();
    for skill in &mut *skills {
        (skill.has_duplicate, skill.shadowed_by) = (false, None);
    }
    for namesakes in skills.chunk_by_mut(|a, b| a.name() == b.name()) {
        for at in 1..namesakes.len() {
            namesakes[at].has_duplicate =
                compare_precedence(&namesakes[at - 1], &namesakes[at]) == Ordering::Equal;
        }
        let Some((winner, shadowed)) = namesakes.split_first_mut() else { continue };
        for loser in shadowed {
            loser.shadowed_by = Some(winner.qualified_name().into());
            problems.push(shadowed_problem(winner, loser));
        }
    }
    problems
}

fn compare_precedence(a: &Skill, b: &Skill) -> Ordering {
    let key = |skill: &Skill| skill.address().origin.rank;
    a.name()
        .cmp(b.name())
        .then_with(|| key(a).cmp(&key(b)))
        .then_with(|| Reverse(a.version()).cmp(&Reverse(b.version())))
}

fn shadowed_problem(winner: &Skill, loser: &Skill) -> Problem {
    let (name, mine, theirs) = (loser.name(), loser.qualified_name(), winner.qualified_name());
    let is_tie = compare_precedence(winner, loser) == Ordering::Equal;
    let (severity, why) = if is_tie {
        (Severity::Warning, ", which has the same version and comes first")
    } else {
        (Severity::Info, "")
    };
    let message = format!("{mine} is shadowed: `{name}` means {theirs}{why}");
    Problem::note(loser.file_path(), severity, message).with_help(format!("call it {mine}"))
}
