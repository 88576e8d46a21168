//! Trees of processes that do not want to end.

use std::time::Duration;

use metier::error::ErrorKind;
use metier::policy::CancelToken;

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{Fixture, RunResult};
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("E1", "a bomb of forks", bomb),
    case("E2", "lineages that fork, leave their session and exit, for ever", hydra),
    case("E3", "daemons, when the leader exits", daemons),
    case("E4", "grandchildren that hold the streams open", held_streams),
    case("E5", "a script that closes its streams and stays", closed_streams),
    case("E6", "traps for every signal, and stopped processes", stopped),
    case("E39", "the stub killed from outside", killed_supervisor),
    case("E39b", "the stub of lineages that never rest, killed from outside", killed_supervisor_of_a_hydra),
    case("E48", "ids that are used again", reused_ids),
    case("M7", "a reaper of its own above the daemons", own_reaper),
    case("M8", "a leader that gives up the signal of its parent's death", no_death_signal),
];

/// Both the deadline's error and its time.
#[track_caller]
fn assert_stopped_in_time(fixture: &Fixture, ran: &RunResult, most: u64) {
    assert_eq!(ran.error().kind(), ErrorKind::Timeout, "{:?}", ran.0);
    assert!(ran.0.duration < Duration::from_millis(most), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
}

fn bomb() -> CaseResult {
    let fixture = Fixture::python(
        "import os, time
for _ in range(8):
    os.fork()
time.sleep(100)",
    )
    .deadline(1500);
    let ran = fixture.run();
    assert_stopped_in_time(&fixture, &ran, 6000);
    Ok(())
}

fn hydra() -> CaseResult {
    let fixture = Fixture::attacker("processes", &["hydra", "20"])?.deadline(1000);
    let ran = fixture.run();
    assert_stopped_in_time(&fixture, &ran, 4000);
    Ok(())
}

fn daemons() -> CaseResult {
    let fixture = Fixture::bash(
        "for i in 1 2 3 4 5; do (setsid sleep 1000 >/dev/null 2>&1 </dev/null &); done
        (setsid bash -c 'setsid sleep 1000 & exec -c sleep 1000' >/dev/null 2>&1 &)
        nohup sleep 1000 >/dev/null 2>&1 &
        echo gone",
    );
    let ran = fixture.run();
    ran.assert_stdout("gone\n");
    assert!(ran.0.duration < Duration::from_secs(3), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
    Ok(())
}

fn held_streams() -> CaseResult {
    for script in [
        "sleep 1000 & echo out",
        "setsid sleep 1000 & echo out",
        "(sleep 1000; echo late) & disown; echo out",
    ] {
        let fixture = Fixture::bash(script);
        let ran = fixture.run();
        ran.assert_stdout("out\n");
        assert!(ran.0.duration < Duration::from_secs(3), "{script}: {:?}", ran.0.duration);
        survivors::assert_none(fixture.mark());
    }
    Ok(())
}

fn closed_streams() -> CaseResult {
    let fixture = Fixture::bash("exec 0<&- 1>&- 2>&-; while :; do sleep 1; done").deadline(700);
    let ran = fixture.run();
    assert_stopped_in_time(&fixture, &ran, 3000);
    Ok(())
}

fn stopped() -> CaseResult {
    for script in [
        "trap '' TERM INT HUP QUIT PIPE ALRM USR1 USR2; while :; do sleep 1; done",
        "kill -STOP $$; sleep 1000",
        "for i in 1 2 3; do (kill -STOP $BASHPID) & done; setsid bash -c 'kill -STOP $$' & sleep 1000",
    ] {
        let fixture = Fixture::bash(script).deadline(500);
        let ran = fixture.run();
        assert_stopped_in_time(&fixture, &ran, 3000);
    }
    Ok(())
}

/// In namespaces everybody dies with the first process. Elsewhere the leader does, and the rest is the helper's to kill.
fn killed_supervisor() -> CaseResult {
    let fixture = Fixture::bash(
        "for i in 1 2 3; do (setsid bash -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &); done
        echo $$ > pid; sleep 1000",
    );
    let fixture = fixture.grant("write").deadline(20_000);
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        let leader = loop {
            let said = std::fs::read_to_string(fixture.at("project/pid")).unwrap_or_default();
            match said.trim().parse::<u32>() {
                // Inside of a namespace its number is another one.
                Ok(_) => break survivors::first_process(fixture.mark()),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let stub = survivors::parent(leader);
        rustix::process::kill_process(stub, rustix::process::Signal::KILL).unwrap();
        run.join().unwrap()
    });
    let error = outcome.result.expect_err("its watcher was killed");
    assert!(error.message().contains("killed"), "{error:?}");
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// The same with lineages that never rest, while the next run goes on.
fn killed_supervisor_of_a_hydra() -> CaseResult {
    let fixture = Fixture::attacker("processes", &["hydra", "10"])?.deadline(20_000);
    let engine = fixture.engine();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        std::thread::sleep(Duration::from_millis(300));
        let leader = survivors::first_process(fixture.mark());
        rustix::process::kill_process(survivors::parent(leader), rustix::process::Signal::KILL).unwrap();
        assert!(run.join().unwrap().result.is_err());
    });
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// The leader's id is free as soon as it is reaped; the rest of its tree takes ids as fast as it can.
fn reused_ids() -> CaseResult {
    let most: u32 = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    if most > 100_000 {
        return SkipReason::unsupported(format!("{most} ids are not used up in a test"));
    }
    let fixture = Fixture::attacker("processes", &["hydra", "8"])?;
    fixture.write("skills/x/scripts/run.bash", "\"$METIER_SKILL_DIR/processes\" hydra 8 & sleep 0.3; exit 7");
    for _ in 0..5 {
        let ran = fixture.run();
        assert_eq!(ran.process().exit_code, Some(7), "{:?}", ran.0.result);
        survivors::assert_none(fixture.mark());
    }
    Ok(())
}

fn own_reaper() -> CaseResult {
    let fixture = Fixture::python(
        "import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(1000)
    os._exit(0)
time.sleep(0.2)
print('gone', flush=True)",
    );
    let ran = fixture.run();
    ran.assert_stdout("gone\n");
    survivors::assert_none(fixture.mark());
    Ok(())
}

fn no_death_signal() -> CaseResult {
    let fixture = Fixture::python(
        "import ctypes, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
time.sleep(1000)",
    )
    .deadline(20_000);
    let (engine, token) = (fixture.engine(), CancelToken::new());
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation().cancel(token.clone())));
        std::thread::sleep(Duration::from_millis(400));
        token.cancel();
        run.join().unwrap()
    });
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Cancelled);
    survivors::assert_none(fixture.mark());
    Ok(())
}
