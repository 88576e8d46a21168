//! Memory that no process is told to have, though the tree keeps it.

use metier::policy::SandboxLevel;

use super::{assert_stopped_for_memory, assert_stopped_or_full, case};
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{self, Fixture};

pub const CASES: &[Case] = &[
    case("H1", "files in memory, and descriptors that one thread has alone", calls),
    case("H2", "shared memory that was filled and given back", || assert_stopped("given-back")),
    case("H3", "shared memory that a child filled, which has ended", || assert_stopped("by-a-child")),
    case("H4", "shared memory of which the first page is left", || assert_stopped("first")),
    case("H5", "shared memory of which the last page is left", || assert_stopped("last")),
    case("H6", "the same by a device", || assert_stopped("zero")),
    case("H7", "the same by moving", || assert_stopped("moved")),
    case("H8", "shared memory that was only looked at", || assert_stopped("looked-at")),
    case("H9", "memory of a process whose first thread has ended", || assert_stopped("headless")),
    case("H10", "shared memory of such a process, given back", || assert_stopped("headless-shared")),
    case("H11", "pipes of such a process", || assert_stopped("headless-pipes")),
    case("H12", "files in shared memory that are on their way through sockets", sent),
    case("H13", "a sandbox inside of a sandbox, whose order is long", nested),
    case("H14", "memory of processes whose name is not text", nameless),
];

const MAX_MEMORY: u64 = 256 << 20;

fn calls() -> CaseResult {
    Fixture::attacker("hidden", &["calls"])?
        .run()
        .assert_refused(12, &["EPERM", "ENOSYS", "EINVAL", "ENOENT"]);
    Ok(())
}

#[track_caller]
fn assert_stopped(how: &str) -> CaseResult {
    assert_stopped_for_memory(
        &Fixture::attacker("hidden", &[])?.args(&[how]).memory(MAX_MEMORY).deadline(60_000),
        MAX_MEMORY,
        40,
    )
}

fn nameless() -> CaseResult {
    let fixture = Fixture::python(
        "import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'\\xff', 0, 0, 0)
for _ in range(3):
    if os.fork() == 0:
        kept = b'x' * (100 << 20)
        time.sleep(100)
time.sleep(100)",
    );
    assert_stopped_for_memory(&fixture.memory(MAX_MEMORY).deadline(60_000), MAX_MEMORY, 40)
}

/// Elsewhere than in namespaces it is the machine's, and nobody can tell whose.
fn sent() -> CaseResult {
    let fixture = Fixture::attacker("hidden", &["sent"])?.grant("shm").memory(MAX_MEMORY).deadline(60_000);
    if fixture::level() != SandboxLevel::Namespaces {
        return Ok(());
    }
    assert_stopped_or_full(&fixture, "full\n")
}

fn nested() -> CaseResult {
    let Some(metier) = fixture::helper() else {
        return SkipReason::unsupported("the command line is not built in");
    };
    let script = "[ $# = 0 ] || { echo \"${#1}\"; exit; }
        \"$METIER_PROJECT_DIR/metier\" run x --project . --allow write -- \"$(printf '%0100000d' 0)\"";
    let fixture = Fixture::bash(script).grant("write").deadline(60_000);
    fixture.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: nests\n---\n");
    fixture.write("project/.metier/skills/x/scripts/run.bash", script);
    std::fs::copy(metier, fixture.at("project/metier")).unwrap();
    fixture.run().assert_stdout("100000\n");
    Ok(())
}
