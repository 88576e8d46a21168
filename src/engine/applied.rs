//! Which limits each runtime holds. One that is named and not held is reported as not applied, and never as one that held.

use super::contract::narrowed_in;
use super::select::Selected;
use crate::executor::SkillRuntime;
use crate::policy::Limits;
use crate::registry::Skill;

/// The names of the limits that not every runtime holds, as outcomes have them.
const LIMITS: [&str; 5] = ["memory", "operations", "cpu", "file_size", "open_files"];

/// What the system holds of a process. Elsewhere nothing limits one that runs already.
const PROCESS: bool = cfg!(target_os = "linux");

/// The table in docs/limits.md.
const HELD: [(SkillRuntime, [bool; 5]); 5] = [
    //                           memory   operations cpu    file_size open_files
    (SkillRuntime::Lua, [true, true, false, true, false]),
    (SkillRuntime::Rhai, [true, true, false, true, false]),
    (SkillRuntime::Wasm, [true, true, false, true, false]),
    (SkillRuntime::ToolSequence, [true, false, false, true, false]),
    (SkillRuntime::External, [PROCESS, false, PROCESS, PROCESS, PROCESS]),
];

/// The limits of a run of this script for which these were given, and the names of those that are not applied.
pub(super) fn limits_of(skill: &Skill, selected: &Selected, given: Limits) -> (Limits, Vec<&'static str>) {
    let runtime = selected.runtime;
    let named = narrowed_in(skill, runtime, given.clone());
    applied(runtime, &named, &narrowed_in(skill, runtime, selected.settled(given)))
}

/// The limits that a run is held to, and the names of those that were named for it and that its runtime does not hold.
fn applied(runtime: SkillRuntime, named: &Limits, settled: &Limits) -> (Limits, Vec<&'static str>) {
    let held = HELD.into_iter().find(|(known, _)| *known == runtime).map_or([true; 5], |(_, held)| held);
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
    let rows = LIMITS.into_iter().zip(held).zip(are_named);
    let not_applied =
        rows.filter(|((_, is_held), is_named)| *is_named && !is_held).map(|((name, _), _)| name);
    (limits, not_applied.collect())
}

/// What the log says of limits that are not applied.
pub(super) fn warning(runtime: SkillRuntime, not_applied: &[&str]) -> Option<String> {
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
        let rows: Vec<SkillRuntime> = HELD.into_iter().map(|(runtime, _)| runtime).collect();
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
        assert_eq!(rows.len(), HELD.len());
        for (((runtime, held), (name, documented)), expected) in HELD.into_iter().zip(rows).zip(named) {
            assert_eq!(name, expected);
            if runtime != SkillRuntime::External || cfg!(target_os = "linux") {
                assert_eq!(held[..], documented, "{runtime}");
            }
        }
    }

    #[test]
    fn what_is_named_is_held_or_not_applied() {
        for (runtime, held) in HELD {
            let (limits, not_applied) = applied(runtime, &all_named(), &all_named());
            let reported = [
                limits.memory.is_some(),
                limits.operations.is_some(),
                limits.cpu.is_some(),
                limits.file_size.is_some(),
                limits.open_files.is_some(),
            ];
            assert_eq!(reported, held, "{runtime}");
            let missing: Vec<&str> =
                LIMITS.into_iter().zip(held).filter(|(_, held)| !held).map(|(name, _)| name).collect();
            assert_eq!(not_applied, missing, "{runtime}");
            assert_eq!(warning(runtime, &not_applied).is_none(), missing.is_empty());
        }
    }

    #[test]
    fn what_nobody_named_is_not_missed() {
        for (runtime, _) in HELD {
            assert_eq!(applied(runtime, &Limits::default(), &all_named()).1, [""; 0]);
        }
    }
}
