//! What a skill asks for: the permissions of its contract, or else its `allowed-tools` read as permissions.

use crate::executor::SkillRuntime;
use crate::policy::{Asked, Permission};
use crate::registry::Skill;
use crate::skill::contract::Ask;

/// What a script of this runtime asks for in that skill.
pub fn asks_of(skill: &Skill, runtime: SkillRuntime) -> Asked {
    let tools = &skill.manifest().allowed_tools;
    match skill.contract().and_then(|contract| contract.permissions.as_deref()) {
        Some(permissions) => asked_in(permissions),
        None => asked_by(tools, runtime),
    }
}

/// What a contract that names permissions asks for: those of ours, and no more. Where `allowed-tools` names some of ours too
/// they agree, and words of other clients there say nothing. An empty list asks for nothing, for an external script too.
fn asked_in(permissions: &[Ask]) -> Asked {
    let mut asked: Vec<Permission> = Vec::new();
    for permission in permissions.iter().filter_map(|ask| ask.permission.as_ref()) {
        if !asked.contains(permission) {
            asked.push(permission.clone());
        }
    }
    Asked::These(asked)
}

/// What a script of this runtime asks for, given its skill's `allowed-tools`.
///
/// Permissions of ours count as they are; other clients' names where they plainly mean one (`Bash` is `exec`); the rest
/// asks for nothing. An external script in a skill that names none of ours asks for everything: it was written for a
/// shell that asked nothing, and the caller's grants decide.
pub fn asked_by(allowed_tools: &[String], runtime: SkillRuntime) -> Asked {
    let own: Vec<Permission> = allowed_tools.iter().filter_map(|tool| tool.parse().ok()).collect();
    if own.is_empty() && runtime == SkillRuntime::External {
        return Asked::Everything;
    }
    let foreign = allowed_tools.iter().filter_map(|tool| Permission::from_foreign(tool));
    Asked::These(own.into_iter().chain(foreign).collect())
}

/// The skills that these permissions let call, by the names in them.
pub(super) fn skills_in(permissions: &[Permission]) -> Vec<String> {
    let named = permissions.iter().filter(|permission| permission.is_called("skill"));
    named.filter_map(|permission| Some(permission.to_string().strip_prefix("skill:")?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(tools: &[&str], runtime: SkillRuntime) -> Asked {
        asked_by(&tools.iter().map(|&tool| tool.to_owned()).collect::<Vec<_>>(), runtime)
    }

    #[test]
    fn other_clients_names_map_where_they_plainly_match() {
        let expected = ["write:out", "read", "exec"].map(|text| text.parse().unwrap());
        assert_eq!(
            asked(&["write:out", "Read", "Bash(git:*)", "mcp__x__y", "rewrite"], SkillRuntime::Lua),
            Asked::These(expected.to_vec())
        );
    }

    #[test]
    fn only_an_external_script_without_our_words_asks_for_everything() {
        assert_eq!(asked(&["Read", "Bash"], SkillRuntime::External), Asked::Everything);
        assert_eq!(asked(&[], SkillRuntime::Lua), Asked::These(vec![]));
        assert_eq!(asked(&["exec"], SkillRuntime::External), Asked::These(vec![Permission::EXEC]));
    }
}
