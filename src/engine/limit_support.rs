//! Which limits each runtime supports. A limit that is set but not supported is reported as not applied, never as enforced.

use crate::config::LimitCaps;
use crate::engine::contract_validation::narrow_runtime_limits;
use crate::engine::script_selection::SelectedScript;
use crate::registry::Skill;
use crate::runtimes::{Runtime, Runtimes};
use metier_core::error::Result;
use metier_core::executor::RuntimeId;
use metier_core::policy::{Limits, RuntimeLimit};

/// The limits that apply to a run of this script with the given limits, and those that are not applied.
pub(super) fn effective_limits(
    runtimes: &Runtimes,
    skill: &Skill,
    selected: &SelectedScript,
    given: Limits,
    caps: Option<&LimitCaps>,
) -> Result<(Limits, Vec<RuntimeLimit>)> {
    let runtime = runtimes.get(selected.runtime)?;
    let narrow = |limits| {
        let limits = narrow_runtime_limits(skill, selected.runtime, limits);
        match caps {
            Some(caps) => caps.narrow_of_runtime(limits),
            None => limits,
        }
    };
    let named = narrow(given.clone());
    let settled = narrow(selected.with_runtime_defaults(given));
    Ok(split_by_support(runtime, &named, settled))
}

/// The limits that are enforced, and those that were set but that the runtime does not support.
fn split_by_support(runtime: &Runtime, named: &Limits, settled: Limits) -> (Limits, Vec<RuntimeLimit>) {
    let (mut limits, mut not_applied) = (settled, Vec::new());
    for limit in RuntimeLimit::ALL.into_iter().filter(|limit| !runtime.has_limit(*limit)) {
        limit.remove(&mut limits);
        not_applied.extend(limit.is_set(named).then_some(limit));
    }
    (limits, not_applied)
}

/// The log line about limits that are not applied.
pub(super) fn unsupported_warning(runtime: RuntimeId, not_applied: &[RuntimeLimit]) -> Option<String> {
    let (noun, verb) = match not_applied {
        [] => return None,
        [_] => ("limit", "is"),
        _ => ("limits", "are"),
    };
    let names = not_applied.iter().map(|limit| limit.name()).collect::<Vec<_>>().join(", ");
    let rest = if runtime == RuntimeId::TOOL_SEQUENCE {
        "; it applies to the skills that it calls where their runtimes enforce it"
    } else {
        ""
    };
    Some(format!("the {noun} {names} {verb} not applied: the runtime {runtime} does not enforce it{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_named() -> Limits {
        Limits::default()
            .memory(1)
            .operations(2)
            .cpu(std::time::Duration::from_secs(3))
            .file_size(4)
            .open_files(5)
    }

    #[test]
    fn the_table_is_that_of_the_documentation() {
        let page = include_str!("../../docs/limits.md");
        let (_, table) = page
            .split_once("| runtime | memory | operations | processor time | one file written | open files |")
            .unwrap();
        let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows: Vec<(&str, Vec<bool>)> = lines
            .map(|line| {
                let mut cells = line.trim_matches('|').split('|').map(str::trim);
                (cells.next().unwrap(), cells.map(|cell| cell != "no").collect())
            })
            .collect();
        let named = [
            "Lua",
            "Rhai",
            "WebAssembly",
            "plans",
            "[declared HTTP calls](tools.md#declared-http-calls)",
            "processes, on Linux",
            "[own runtimes](embedding.md#own-runtimes)",
        ];
        let mut runtimes = Runtimes::built_in();
        runtimes.register(own("calc")).unwrap();
        assert_eq!((rows.len(), runtimes.iter().count()), (named.len(), named.len()));
        for ((runtime, (name, documented)), expected) in runtimes.iter().zip(rows).zip(named) {
            assert_eq!(name, expected);
            if runtime.id() != RuntimeId::EXTERNAL || cfg!(target_os = "linux") {
                assert_eq!(supported(runtime), documented, "{}", runtime.id());
            }
        }
    }

    #[test]
    fn what_is_named_is_enforced_or_reported_as_not_applied() {
        for runtime in Runtimes::built_in().iter() {
            let (limits, not_applied) = split_by_support(runtime, &all_named(), all_named());
            assert_eq!(RuntimeLimit::ALL.map(|limit| limit.is_set(&limits)), supported(runtime)[..]);
            let missing = RuntimeLimit::ALL.into_iter().filter(|limit| !runtime.has_limit(*limit));
            assert_eq!(not_applied, missing.collect::<Vec<_>>());
            assert_eq!(unsupported_warning(runtime.id(), &not_applied).is_none(), not_applied.is_empty());
        }
    }

    #[test]
    fn what_nobody_named_is_not_missed() {
        for runtime in Runtimes::built_in().iter() {
            assert_eq!(split_by_support(runtime, &Limits::default(), all_named()).1, []);
        }
    }

    #[test]
    fn a_replaced_loader_enforces_what_the_built_in_one_did_unless_it_says_otherwise() {
        for (runtime, memory) in [(own("lua"), true), (own("lua").enforces(&[]), false)] {
            let mut runtimes = Runtimes::built_in();
            runtimes.register(runtime).unwrap();
            assert_eq!(runtimes.get(RuntimeId::LUA).unwrap().has_limit(RuntimeLimit::Memory), memory);
        }
    }

    fn own(name: &'static str) -> Runtime {
        Runtime::new(name, |_| {
            Err(metier_core::error::SkillError::new(metier_core::error::ErrorKind::Script, "unused"))
        })
    }

    fn supported(runtime: &Runtime) -> Vec<bool> {
        RuntimeLimit::ALL.iter().map(|limit| runtime.has_limit(*limit)).collect()
    }
}
