//! Doors into the kernel, and the numbers of other machines.

use super::{case, lock_user_quotas};
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{self, Fixture};

pub const CASES: &[Case] = &[
    case(
        "E32",
        "rings, calls that filters cannot see into, memory and mounts that nobody counts; numbers of x32",
        absent,
    ),
    case("E33", "the calls of an older machine", old_numbers),
    case("E34", "namespaces of its own: namespaces, mounts, roots", own_namespaces),
    case("E35", "bpf, keys, modules, clocks, handles, terminals (E36)", privileged_calls),
    case("E37", "a program that no folder holds", nameless),
    case("E41", "sandboxes in sandboxes, deeper than the kernel goes", nested),
];

fn absent() -> CaseResult {
    let attempts = if cfg!(target_arch = "x86_64") { 9 } else { 7 };
    Fixture::attacker("kernel", &["absent"])?.run().assert_refused(attempts, &["ENOSYS"]);
    Ok(())
}

fn old_numbers() -> CaseResult {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return SkipReason::unsupported("this machine has no other numbers");
    }
    let ran = Fixture::attacker("kernel", &["old-numbers"])?.run();
    if ran.stdout() == "none\n" {
        return SkipReason::unsupported("this processor runs no programs of an older one");
    }
    assert_eq!(ran.stdout(), "");
    // SIGSYS; SIGSEGV where the kernel does not know them at all.
    assert!(matches!(ran.process().signal, Some(31 | 11)), "{ran:?}");
    Ok(())
}

fn own_namespaces() -> CaseResult {
    Fixture::attacker("kernel", &["namespaces"])?.grant("write").run().assert_refused(28, &["EPERM"]);
    Ok(())
}

fn privileged_calls() -> CaseResult {
    let attempts = if cfg!(target_arch = "x86_64") { 28 } else { 25 };
    Fixture::attacker("kernel", &["privileged-calls"])?.run().assert_refused(attempts, &["EPERM", "ENOTTY"]);
    Ok(())
}

fn nameless() -> CaseResult {
    let program = ["/usr/bin/true", "/bin/true"].into_iter().find(|path| std::path::Path::new(path).exists());
    let Some(program) = program else { return SkipReason::unsupported("there is no true") };
    Fixture::attacker("kernel", &["nameless", program])?.run().assert_stdout("");
    Ok(())
}

/// Each level is a whole metier that runs a skill which runs the next.
fn nested() -> CaseResult {
    let _alone = lock_user_quotas();
    let Some(metier) = fixture::helper() else {
        return SkipReason::unsupported("the command line is not built in");
    };
    let script = "level=${1:-0}
        echo \"level $level\"
        [ $level -lt 12 ] || exit 0
        \"$METIER_PROJECT_DIR/metier\" run x --project . --allow write -- $((level + 1))";
    let fixture = Fixture::bash("true").grant("write").deadline(60_000);
    fixture.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: nests\n---\n");
    fixture.write("project/.metier/skills/x/scripts/run.bash", script);
    fixture.write("skills/x/scripts/run.bash", script);
    std::fs::copy(metier, fixture.at("project/metier")).unwrap();
    let ran = fixture.run();
    let process = ran.process();
    let said = format!("{}\n{}", process.stdout, process.stderr);
    let deepest = (0..13).rev().find(|level| said.contains(&format!("level {level}\n")));
    assert!(matches!(deepest, Some(4..12)), "{said}");
    assert!(said.contains("a sandbox inside of more sandboxes than the kernel allows"), "{said}");
    crate::sandbox::survivors::assert_none(fixture.mark());
    Ok(())
}
