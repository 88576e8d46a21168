//! What a script takes from others though it may only read: their files, their quotas, and memory that no process has.

use std::time::Duration;

use metier::error::ErrorKind;

use super::{alone_with_descriptors, case, stopped_for_memory};
use crate::case::{Case, Tried};
use crate::stage::Stage;

pub const CASES: &[Case] = &[
    case(
        "Q1",
        "to make others wait who open a file: leases; signals for changes, and owners of them",
        leases,
    ),
    case("Q2", "flags and attributes of files, by a descriptor that reads", flags),
    case("Q3", "extended attributes and access lists of files, and of memory", attributes),
    case("Q4", "quotas of all programs of the user, by the calls for them", calls),
    case("Q5", "system calls that nobody has looked at", unknown),
    case("Q6", "locks on files that others lock", locks),
    case("Q7", "timers, signals that wait, descriptors on their way", counted),
    case("Q8", "to keep others from being started, by descriptors on their way", in_flight),
    case("Q9", "tables for memory in which nothing is", tables),
    case("Q10", "areas of memory by the ten thousand", areas),
    case("Q11", "what is sent and never read", unread),
    case("Q12", "what is written to pipes and never read", unread_pipes),
];

fn leases() -> Tried {
    let stage = Stage::attacker("quotas", &[])?;
    let skill = stage.name("skills/x/SKILL.md");
    let ran = stage.args(&["leases", "own", &skill, "/usr/bin/env"]).run();
    ran.refused(3 * 8 + 4, &["EPERM"]);
    Ok(())
}

fn flags() -> Tried {
    Stage::attacker("quotas", &["flags", "own"])?.run().refused(13, &["ENOTTY"]);
    Stage::attacker("quotas", &["flags", "own"])?.grant("write").run().refused(13, &["ENOTTY"]);
    Ok(())
}

fn attributes() -> Tried {
    let stage = Stage::attacker("quotas", &[])?;
    let outside = stage.name("outside/secret");
    stage.args(&["attributes", &outside]).run().refused(10, &["ENOTSUP"]);
    Stage::attacker("quotas", &["attributes", "own"])?.grant("write").run().refused(10, &["ENOTSUP"]);
    Stage::attacker("quotas", &["attributes", "/dev/shm"])?.grant("shm").run().refused(10, &["ENOTSUP"]);
    Ok(())
}

fn calls() -> Tried {
    Stage::attacker("quotas", &["calls"])?.run().refused(14, &["EPERM", "ENOSYS"]);
    Ok(())
}

fn unknown() -> Tried {
    Stage::attacker("quotas", &["unknown"])?.grant("write").run().refused(21, &["ENOSYS"]);
    Ok(())
}

/// Who may write where others do may lock there as well. Who may not is told that there are no locks.
fn locks() -> Tried {
    for (grant, answer) in [("read", "ENOSYS"), ("write", "EAGAIN")] {
        let stage = Stage::attacker("quotas", &["locks", "own"])?.grant(grant);
        let held = std::fs::File::open(stage.at("project/own")).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        stage.run().refused(3, &[answer]);
    }
    Ok(())
}

fn counted() -> Tried {
    let _alone = alone_with_descriptors();
    Stage::attacker("quotas", &["counted"])?.run().says("timers few\nsignals few\ndescriptors few\n");
    Ok(())
}

/// Those that others see: the script is in the middle of it.
fn in_flight() -> Tried {
    let _alone = alone_with_descriptors();
    let stage = Stage::attacker("quotas", &["in-flight"])?.deadline(5_000);
    let engine = stage.engine();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(stage.invocation()));
        std::thread::sleep(Duration::from_secs(1));
        for _ in 0..3 {
            Stage::bash("echo started").run().says("started\n");
        }
        let outcome = run.join().unwrap();
        assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Deadline);
    });
    Ok(())
}

const MOST: u64 = 256 << 20;

#[track_caller]
fn stopped(how: &str) -> Tried {
    stopped_for_memory(&Stage::attacker("quotas", &[])?.args(&[how]).memory(MOST).deadline(60_000), MOST, 40)
}

fn tables() -> Tried {
    stopped("tables")
}

fn areas() -> Tried {
    stopped("areas")
}

fn unread() -> Tried {
    stopped("unread")
}

fn unread_pipes() -> Tried {
    stopped("unread-pipes")
}
