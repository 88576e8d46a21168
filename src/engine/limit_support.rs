//! Which limits each runtime supports. A limit that is set but not supported is reported as not applied, never as enforced.

use crate::engine::contract_validation::narrow_runtime_limits;
use crate::engine::script_selection::SelectedScript;
use crate::executor::SkillRuntime;
use crate::policy::Limits;
use crate::registry::Skill;

/// The names of the limits that some runtimes do not support, as in outcomes.
const LIMIT_NAMES: [&str; 5] = ["memory", "operations", "cpu", "file_size", "open_files"];

/// Whether the system can limit a process. Only Linux can limit a process that already runs.
const PROCESS_LIMITS_SUPPORTED: bool = cfg!(target_os = "linux");

/// As in the table of docs/limits.md.
const SUPPORTED_LIMITS: [(SkillRuntime, [bool; 5]); 5] = [
    //                           memory   operations cpu    file_size open_files
    (SkillRuntime::Lua, [true, true, false, true, false]),
    (SkillRuntime::Rhai, [true, true, false, true, false]),
    (SkillRuntime::Wasm, [true, true, false, true, false]),
    (SkillRuntime::ToolSequence, [true, false, false, true, false]),
    (
        SkillRuntime::External,
        [
            PROCESS_LIMITS_SUPPORTED,
            false,
            PROCESS_LIMITS_SUPPORTED,
            PROCESS_LIMITS_SUPPORTED,
            PROCESS_LIMITS_SUPPORTED,
        ],
    ),
];

/// The limits that apply to a run of this script with the given limits, and the names of those that are not applied.
pub(super) fn effective_limits(
    skill: &Skill,
    selected: &SelectedScript,
    given: Limits,
) -> (Limits, Vec<&'static str>) {
    let runtime = selected.runtime;
    let named = narrow_runtime_limits(skill, runtime, given.clone());
    split_by_support(
        runtime,
        &named,
        &narrow_runtime_limits(skill, runtime, selected.with_runtime_defaults(given)),
    )
}

/// The limits that are enforced, and the names of those that were set but that the runtime does not support.
fn split_by_support(runtime: SkillRuntime, named: &Limits, settled: &Limits) -> (Limits, Vec<&'static str>) {
    let held =
        SUPPORTED_LIMITS.into_iter().find(|(known, _)| *known == runtime).map_or([true; 5], |(_, held)| held);
    let [memory, operations, cpu, file_size, open_files] = held;
    let limits = Limits {
        memory: settled.memory.filter(|_| memory),
        operations: settled.operations.filter(|_| operations),
        cpu: settled.cpu.filter(|_| cpu),
        file_size: settled.file_size.filter(|_| file_size),
        open_files: settled.open_files.filter(|_| open_files),
        ..settled.clone()
    };
    let are_named = [
        named.memory.is_some(),
        named.operations.is_some(),
        named.cpu.is_some(),
        named.file_size.is_some(),
        named.open_files.is_some(),
    ];
    let rows = LIMIT_NAMES.into_iter().zip(held).zip(are_named);
    let not_applied = rows
        .filter(|((_, is_held), is_write_granted)| *is_write_granted && !is_held)
        .map(|((name, _), _)| name);
    (limits, not_applied.collect())
}

/// The log line about limits that are not applied.
pub(super) fn unsupported_warning(runtime: SkillRuntime, not_applied: &[&str]) -> Option<String> {
    let (noun, verb) = match not_applied {
        [] => return None,
        [_] => ("limit", "is"),
        _ => ("limits", "are"),
    };
    let names = not_applied.join(", ");
    let rest = if runtime == SkillRuntime::ToolSequence {
        "; the skills that it calls are held to it where their runtimes hold it"
    } else {
        ""
    };
    Some(format!("the {noun} {names} {verb} not applied: the runtime {runtime} does not hold it{rest}"))
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
    fn the_table_has_a_row_for_each_runtime() {
        let rows: Vec<SkillRuntime> = SUPPORTED_LIMITS.into_iter().map(|(runtime, _)| runtime).collect();
        assert_eq!(rows, SkillRuntime::all().collect::<Vec<_>>());
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
        let named = ["Lua", "Rhai", "WebAssembly", "plans", "processes, on Linux"];
        assert_eq!(rows.len(), SUPPORTED_LIMITS.len());
        for (((runtime, held), (name, documented)), expected) in
            SUPPORTED_LIMITS.into_iter().zip(rows).zip(named)
        {
            assert_eq!(name, expected);
            if runtime != SkillRuntime::External || cfg!(target_os = "linux") {
                assert_eq!(held[..], documented, "{runtime}");
            }
        }
    }

    #[test]
    fn what_is_named_is_held_or_not_applied() {
        for (runtime, held) in SUPPORTED_LIMITS {
            let (limits, not_applied) = split_by_support(runtime, &all_named(), &all_named());
            let reported = [
                limits.memory.is_some(),
                limits.operations.is_some(),
                limits.cpu.is_some(),
                limits.file_size.is_some(),
                limits.open_files.is_some(),
            ];
            assert_eq!(reported, held, "{runtime}");
            let missing: Vec<&str> =
                LIMIT_NAMES.into_iter().zip(held).filter(|(_, held)| !held).map(|(name, _)| name).collect();
            assert_eq!(not_applied, missing, "{runtime}");
            assert_eq!(unsupported_warning(runtime, &not_applied).is_none(), missing.is_empty());
        }
    }

    #[test]
    fn what_nobody_named_is_not_missed() {
        for (runtime, _) in SUPPORTED_LIMITS {
            assert_eq!(split_by_support(runtime, &Limits::default(), &all_named()).1, [""; 0]);
        }
    }
}
