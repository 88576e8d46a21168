//! How runs end: codes, signals, names, and races with the clock.

use std::time::Duration;

use metier::error::ErrorKind;
use metier::policy::CancelToken;

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::Fixture;
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("E43", "every exit code and many signals", codes),
    case("E43b", "scripts with strange names and first lines", names),
    case("E44", "an end at the very deadline, and cancels before, twice and after", races),
];

fn codes() -> CaseResult {
    let fixture = Fixture::bash("exit $1");
    let engine = fixture.engine();
    for code in 0..=255 {
        let outcome = engine.run(fixture.invocation().args([code.to_string()]));
        assert_eq!(outcome.process.as_ref().unwrap().exit_code, Some(code), "{outcome:?}");
        assert_eq!(outcome.result.is_ok(), code == 0);
    }
    for signal in [1, 2, 6, 9, 10, 11, 13, 14, 15, 31] {
        let ran = Fixture::bash(&format!("kill -{signal} $$; sleep 5")).run();
        assert_eq!(ran.process().signal, Some(signal), "{ran:?}");
        assert_eq!(ran.error().kind(), ErrorKind::Script);
    }
    Ok(())
}

fn names() -> CaseResult {
    for name in
        ["with space.bash", "two\nlines.bash", "-rf.bash", "$(touch x).bash", "ü.bash", "'quote\".bash"]
    {
        Fixture::new(name, "echo ran").run().assert_stdout("ran\n");
    }
    for (name, text) in [
        ("a.sh", "#!/bin/sh\r\nprintf ran\n"),
        ("b.sh", "echo ran"),
        ("c", "#!/usr/bin/env bash\necho ran"),
        ("d", "#!/usr/bin/env -S bash -e\necho ran"),
    ] {
        let ran = Fixture::new(name, text).run();
        assert_eq!(ran.assert_ok().stdout().trim(), "ran", "{name}");
    }
    let missing = Fixture::new("e", "#!/usr/bin/env no-such-interpreter\n").run();
    assert_eq!(missing.error().kind(), ErrorKind::InvalidSkill, "{missing:?}");
    Ok(())
}

fn races() -> CaseResult {
    let fixture = Fixture::bash("sleep 0.1; echo done").deadline(105);
    let engine = fixture.engine();
    for _ in 0..20 {
        let outcome = engine.run(fixture.invocation());
        match outcome.result {
            Ok(_) => assert_eq!(outcome.process.unwrap().stdout, "done\n"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
    }
    let token = CancelToken::new();
    token.cancel();
    token.cancel();
    let outcome = engine.run(fixture.invocation().cancel(token.clone()));
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(outcome.process.is_none(), "what was cancelled before does not start");
    let slow = Fixture::bash("sleep 1000");
    let engine = slow.engine();
    for after in [0, 1, 3, 10, 50] {
        let token = CancelToken::new();
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| engine.run(slow.invocation().cancel(token.clone())));
            std::thread::sleep(Duration::from_millis(after));
            token.cancel();
            token.cancel();
            run.join().unwrap()
        });
        assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Cancelled, "after {after} ms");
        survivors::assert_none(slow.mark());
    }
    dropped()
}

/// The future of a run is dropped while it runs.
fn dropped() -> CaseResult {
    let fixture = Fixture::bash("sleep 1000");
    let engine = fixture.engine();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let run = engine.run_async(fixture.invocation());
        assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err());
    });
    survivors::assert_none(fixture.mark());
    Ok(())
}
