//! What a script takes from others though it may only read: their files, their quotas, and memory that no process has.

use std::time::Duration;

use metier::error::ErrorKind;
use metier::policy::SandboxLevel;
use rustix::fs::FlockOperation;

use super::{assert_stopped_for_memory, case, lock_user_quotas};
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, level};

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
    case(
        "Q13",
        "locks on files that others lock, while the supervisor looks whose they are",
        exchanged_locks,
    ),
];

fn leases() -> CaseResult {
    let fixture = Fixture::attacker("quotas", &[])?;
    let skill = fixture.name("skills/x/SKILL.md");
    let ran = fixture.args(&["leases", "own", &skill, "/usr/bin/env"]).run();
    ran.assert_refused(3 * 8 + 4, &["EPERM"]);
    Ok(())
}

fn flags() -> CaseResult {
    Fixture::attacker("quotas", &["flags", "own"])?.run().assert_refused(13, &["ENOTTY"]);
    Fixture::attacker("quotas", &["flags", "own"])?.grant("write").run().assert_refused(13, &["ENOTTY"]);
    Ok(())
}

fn attributes() -> CaseResult {
    let fixture = Fixture::attacker("quotas", &[])?;
    let outside = fixture.name("outside/secret");
    fixture.args(&["attributes", &outside]).run().assert_refused(10, &["ENOTSUP"]);
    Fixture::attacker("quotas", &["attributes", "own"])?
        .grant("write")
        .run()
        .assert_refused(10, &["ENOTSUP"]);
    Fixture::attacker("quotas", &["attributes", "/dev/shm"])?
        .grant("shm")
        .run()
        .assert_refused(10, &["ENOTSUP"]);
    Ok(())
}

fn calls() -> CaseResult {
    Fixture::attacker("quotas", &["calls"])?.run().assert_refused(14, &["EPERM", "ENOSYS"]);
    Ok(())
}

fn unknown() -> CaseResult {
    Fixture::attacker("quotas", &["unknown"])?.grant("write").run().assert_refused(21, &["ENOSYS"]);
    Ok(())
}

/// Who may write where others do may lock there as well. Who may not is told that there are no locks.
fn locks() -> CaseResult {
    for (grant, answer) in [("read", "ENOSYS"), ("write", "EAGAIN")] {
        let fixture = Fixture::attacker("quotas", &["locks", "own"])?.grant(grant);
        let held = std::fs::File::open(fixture.at("project/own")).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        fixture.run().assert_refused(3, &[answer]);
    }
    Ok(())
}

/// A script that may lock its own files locks no other one: by a link, by a path that was its own, or by a descriptor that changes while the
/// supervisor looks at it.
fn exchanged_locks() -> CaseResult {
    const SCRIPT: &str = "import fcntl, os, threading
home, tmp = os.environ['HOME'], os.environ['TMPDIR']
theirs = os.open('own', os.O_RDONLY)
os.symlink(os.path.abspath('own'), tmp + '/link')
for place in [tmp + '/link', f'/proc/self/fd/{theirs}', 'own']:
    try: fcntl.flock(open(place), fcntl.LOCK_EX); print('locked', place)
    except OSError as error: assert error.errno == 38, error
try: os.link('own', tmp + '/hard'); print('linked')
except OSError: pass
mine = os.open(home + '/mine', os.O_RDWR | os.O_CREAT)
used, ended = os.dup(mine), False
def exchange():
    while not ended:
        os.dup2(theirs, used); os.dup2(mine, used)
thread = threading.Thread(target=exchange); thread.start()
counts = {'yes': 0, 'no': 0}
while min(counts.values()) < 50:
    try: fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB); counts['yes'] += 1
    except OSError: counts['no'] += 1
ended = True; thread.join()
print('done')
";
    let fixture = Fixture::python(SCRIPT).file("project/own", "").deadline(120_000);
    if level() != SandboxLevel::Namespaces {
        return Ok(());
    }
    let file = std::fs::File::open(fixture.at("project/own")).unwrap();
    let engine = fixture.engine();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !run.is_finished() {
            // It would be refused while the script has one.
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
            std::thread::yield_now();
        }
        fixture.result(run.join().unwrap()).assert_stdout("done\n");
    });
    Ok(())
}

fn counted() -> CaseResult {
    let _alone = lock_user_quotas();
    Fixture::attacker("quotas", &["counted"])?
        .run()
        .assert_stdout("timers few\nsignals few\ndescriptors few\n");
    Ok(())
}

/// Those that others see: the script is in the middle of it.
fn in_flight() -> CaseResult {
    let _alone = lock_user_quotas();
    let fixture = Fixture::attacker("quotas", &["in-flight"])?.deadline(5_000);
    let engine = fixture.engine();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        std::thread::sleep(Duration::from_secs(1));
        for _ in 0..3 {
            Fixture::bash("echo started").run().assert_stdout("started\n");
        }
        let outcome = run.join().unwrap();
        assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Timeout);
    });
    Ok(())
}

const MAX_MEMORY: u64 = 256 << 20;

#[track_caller]
fn assert_stopped(how: &str) -> CaseResult {
    assert_stopped_for_memory(
        &Fixture::attacker("quotas", &[])?.args(&[how]).memory(MAX_MEMORY).deadline(60_000),
        MAX_MEMORY,
        40,
    )
}

fn tables() -> CaseResult {
    assert_stopped("tables")
}

fn areas() -> CaseResult {
    assert_stopped("areas")
}

fn unread() -> CaseResult {
    assert_stopped("unread")
}

fn unread_pipes() -> CaseResult {
    assert_stopped("unread-pipes")
}
