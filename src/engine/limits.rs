//! The limits of a run: who lowers them, in which order, and which of them its runtime enforces. A limit that is set but not enforced is
//! reported as not applied.

use std::time::{Duration, Instant};

use super::EngineInner;
use crate::engine::run_target::RunTarget;
use crate::engine::script_selection::SelectedScript;
use crate::registry::Skill;
use crate::runtimes::Runtime;
use metier_core::executor::RuntimeId;
use metier_core::policy::{
    Limits, RuntimeLimit, in_process_limits, is_limit_set, process_limits, remove_limit,
};
use metier_skill::ManifestFacts;

/// The limits of a run.
pub(super) struct RunLimits {
    /// Those that do not depend on its runtime, and what was set of the others: its deadline, and the limits of what it calls.
    pub(super) given: Limits,
    /// Those that are enforced.
    pub(super) enforced: Limits,
    /// Those that were set and that its runtime does not enforce.
    pub(super) not_applied: Vec<RuntimeLimit>,
}

impl EngineInner {
    /// Settles the limits of a run: those of its caller or else of the engine, lowered by the contract, the tool and the user's
    /// configuration; then those that depend on the runtime of its script, once that is known, with their defaults.
    pub(super) fn settle_limits(
        &self,
        target: RunTarget<'_>,
        of_caller: Option<&Limits>,
        script: Option<(&SelectedScript, &Runtime)>,
    ) -> RunLimits {
        let caps = self.skill_settings(target.skill).map(|settings| &settings.caps);
        let mut given = of_caller.unwrap_or(&self.limits).clone();
        if let Some(contract) = target.skill.contract() {
            let of_tool = target.tool.and_then(|tool| tool.timeout);
            let timeout = contract.limits.timeout.into_iter().chain(of_tool).min();
            given.timeout = timeout.map_or(given.timeout, |own| own.min(given.timeout));
            given.output = contract.limits.output.map_or(given.output, |own| own.min(given.output));
        }
        if let Some(caps) = caps {
            given = caps.narrow(given);
        }
        let Some((selected, runtime)) = script else {
            return RunLimits { enforced: given.clone(), given, not_applied: Vec::new() };
        };
        let lowered = |limits| {
            let limits = lowered_by_skill(target.skill, selected.runtime, limits);
            match caps {
                Some(caps) => caps.narrow_of_runtime(limits),
                None => limits,
            }
        };
        let named = lowered(given.clone());
        let settled = lowered(with_runtime_defaults(selected.runtime, &given));
        let (enforced, not_applied) = split_by_support(runtime, &named, settled);
        RunLimits { given, enforced, not_applied }
    }
}

/// The deadline of a run that began at `began`.
pub(super) fn run_deadline(began: Instant, limits: &Limits) -> Instant {
    /// The clock cannot represent more; a century is as good as no deadline.
    const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);
    began + limits.timeout.min(MAX_TIMEOUT)
}

/// What contract and manifest lower of the limits that depend on the runtime, whose defaults are an upper bound too.
fn lowered_by_skill(skill: &Skill, runtime: RuntimeId, mut limits: Limits) -> Limits {
    let own = skill.contract().map(|contract| &contract.limits);
    let named = skill.manifest().limits();
    let memory = own.and_then(|own| own.memory).into_iter().chain(named.memory).min();
    let operations = own.and_then(|own| own.operations).into_iter().chain(named.operations).min();
    let default = if runtime == RuntimeId::RHAI { Limits::OPERATIONS } else { u64::MAX };
    let least =
        |own: Option<u64>, given: Option<u64>, default| own.map(|own| own.min(given.unwrap_or(default)));
    limits.memory = least(memory, limits.memory, u64::MAX).or(limits.memory);
    limits.operations = least(operations, limits.operations, default).or(limits.operations);
    limits
}

/// The limits with the runtime's defaults where the caller set none.
fn with_runtime_defaults(runtime: RuntimeId, limits: &Limits) -> Limits {
    match runtime {
        RuntimeId::EXTERNAL => process_limits(limits),
        RuntimeId::RHAI => {
            let operations = limits.operations.unwrap_or(Limits::OPERATIONS);
            in_process_limits(limits).operations(operations)
        }
        _ => in_process_limits(limits),
    }
}

/// The limits that are enforced, and those that were set but that the runtime does not support.
fn split_by_support(runtime: &Runtime, named: &Limits, settled: Limits) -> (Limits, Vec<RuntimeLimit>) {
    let (mut limits, mut not_applied) = (settled, Vec::new());
    for limit in RuntimeLimit::ALL.into_iter().filter(|limit| !runtime.has_limit(*limit)) {
        remove_limit(limit, &mut limits);
        not_applied.extend(is_limit_set(limit, named).then_some(limit));
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
    use crate::runtimes::Runtimes;

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
            assert_eq!(RuntimeLimit::ALL.map(|limit| is_limit_set(limit, &limits)), supported(runtime)[..]);
            let missing = RuntimeLimit::ALL.into_iter().filter(|limit| !runtime.has_limit(*limit));
            assert_eq!(not_applied, missing.collect::<Vec<_>>());
            assert_eq!(unsupported_warning(runtime.id(), &not_applied).is_none(), not_applied.is_empty());
        }
    }

    #[test]
    fn a_runtime_brings_its_own_memory_limit_where_none_was_named() {
        let settled = |runtime, limits: Limits| with_runtime_defaults(runtime, &limits).memory;
        assert_eq!(settled(RuntimeId::LUA, Limits::default()), Some(64 << 20));
        assert_eq!(settled(RuntimeId::EXTERNAL, Limits::default()), Some(2 << 30));
        assert_eq!(settled(RuntimeId::EXTERNAL, Limits::default().memory(5)), Some(5));
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
