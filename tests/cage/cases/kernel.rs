//! Doors into the kernel, and the numbers of other machines.

use super::{alone_with_descriptors, case};
use crate::case::{Case, NotRun, Tried};
use crate::stage::{self, Stage};

pub const CASES: &[Case] = &[
    case(
        "E32",
        "rings, calls that filters cannot see into, memory and mounts that nobody counts; numbers of x32",
        absent,
    ),
    case("E33", "the calls of an older machine", old_numbers),
    case("E34", "rooms of its own: namespaces, mounts, roots", rooms),
    case("E35", "bpf, keys, modules, clocks, handles, terminals (E36)", doors),
    case("E37", "a program that no folder holds", nameless),
    case("E41", "cages in cages, deeper than the kernel goes", nested),
];

fn absent() -> Tried {
    let attempts = if cfg!(target_arch = "x86_64") { 9 } else { 7 };
    Stage::attacker("kernel", &["absent"])?.run().refused(attempts, &["ENOSYS"]);
    Ok(())
}

fn old_numbers() -> Tried {
    if !cfg!(target_arch = "x86_64") {
        return NotRun::because("this machine has no other numbers");
    }
    let ran = Stage::attacker("kernel", &["old-numbers"])?.run();
    assert_eq!(ran.said(), "");
    // SIGSYS; SIGSEGV where the kernel does not know them at all.
    assert!(matches!(ran.process().signal, Some(31 | 11)), "{ran:?}");
    Ok(())
}

fn rooms() -> Tried {
    Stage::attacker("kernel", &["rooms"])?.grant("write").run().refused(28, &["EPERM"]);
    Ok(())
}

fn doors() -> Tried {
    let attempts = if cfg!(target_arch = "x86_64") { 28 } else { 25 };
    Stage::attacker("kernel", &["doors"])?.run().refused(attempts, &["EPERM", "ENOTTY"]);
    Ok(())
}

fn nameless() -> Tried {
    let program = ["/usr/bin/true", "/bin/true"].into_iter().find(|path| std::path::Path::new(path).exists());
    let Some(program) = program else { return NotRun::because("there is no true") };
    Stage::attacker("kernel", &["nameless", program])?.run().says("");
    Ok(())
}

/// Each level is a whole metier that runs a skill which runs the next.
fn nested() -> Tried {
    let _alone = alone_with_descriptors();
    let Some(metier) = stage::helper() else { return NotRun::because("the command line is not built in") };
    let script = "level=${1:-0}
        echo \"level $level\"
        [ $level -lt 12 ] || exit 0
        \"$METIER_PROJECT_DIR/metier\" run x --project . --allow write -- $((level + 1))";
    let stage = Stage::bash("true").grant("write").deadline(60_000);
    stage.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: nests\n---\n");
    stage.write("project/.metier/skills/x/scripts/run.bash", script);
    stage.write("skills/x/scripts/run.bash", script);
    std::fs::copy(metier, stage.at("project/metier")).unwrap();
    let ran = stage.run();
    let process = ran.process();
    let said = format!("{}\n{}", process.stdout, process.stderr);
    let deepest = (0..13).rev().find(|level| said.contains(&format!("level {level}\n")));
    assert!(matches!(deepest, Some(4..12)), "{said}");
    assert!(said.contains("a cage inside of more cages than the kernel allows"), "{said}");
    crate::survivors::none(stage.mark());
    Ok(())
}
