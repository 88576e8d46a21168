//! Memory that no process is told to have, though the tree keeps it.

use metier::policy::Tier;

use super::{case, stopped_for_memory, stopped_or_told};
use crate::case::{Case, NotRun, Tried};
use crate::stage::{self, Stage};

pub const CASES: &[Case] = &[
    case("H1", "files in memory, and descriptors that one thread has alone", calls),
    case("H2", "shared memory that was filled and given back", || stopped("given-back")),
    case("H3", "shared memory that a child filled, which has ended", || stopped("by-a-child")),
    case("H4", "shared memory of which the first page is left", || stopped("first")),
    case("H5", "shared memory of which the last page is left", || stopped("last")),
    case("H6", "the same by a device", || stopped("zero")),
    case("H7", "the same by moving", || stopped("moved")),
    case("H8", "shared memory that was only looked at", || stopped("looked-at")),
    case("H9", "memory of a process whose first thread has ended", || stopped("headless")),
    case("H10", "shared memory of such a process, given back", || stopped("headless-shared")),
    case("H11", "pipes of such a process", || stopped("headless-pipes")),
    case("H12", "files in shared memory that are on their way through sockets", sent),
    case("H13", "a sandbox inside of a sandbox, whose order is long", nested),
    case("H14", "memory of processes whose name is no text", nameless),
];

const MOST: u64 = 256 << 20;

fn calls() -> Tried {
    Stage::attacker("hidden", &["calls"])?.run().refused(12, &["EPERM", "ENOSYS", "EINVAL", "ENOENT"]);
    Ok(())
}

#[track_caller]
fn stopped(how: &str) -> Tried {
    stopped_for_memory(&Stage::attacker("hidden", &[])?.args(&[how]).memory(MOST).deadline(60_000), MOST, 40)
}

fn nameless() -> Tried {
    let stage = Stage::python(
        "import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'\\xff', 0, 0, 0)
for _ in range(3):
    if os.fork() == 0:
        kept = b'x' * (100 << 20)
        time.sleep(100)
time.sleep(100)",
    );
    stopped_for_memory(&stage.memory(MOST).deadline(60_000), MOST, 40)
}

/// Elsewhere than in namespaces it is the machine's, and nobody can tell whose.
fn sent() -> Tried {
    let stage = Stage::attacker("hidden", &["sent"])?.grant("shm").memory(MOST).deadline(60_000);
    if stage::tier() != Tier::Namespaces {
        return Ok(());
    }
    stopped_or_told(&stage, "full\n")
}

fn nested() -> Tried {
    let Some(metier) = stage::helper() else { return NotRun::because("the command line is not built in") };
    let script = "[ $# = 0 ] || { echo \"${#1}\"; exit; }
        \"$METIER_PROJECT_DIR/metier\" run x --project . --allow write -- \"$(printf '%0100000d' 0)\"";
    let stage = Stage::bash(script).grant("write").deadline(60_000);
    stage.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: nests\n---\n");
    stage.write("project/.metier/skills/x/scripts/run.bash", script);
    std::fs::copy(metier, stage.at("project/metier")).unwrap();
    stage.run().says("100000\n");
    Ok(())
}
