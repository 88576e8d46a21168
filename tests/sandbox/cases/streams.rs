//! Floods, in both directions, and bytes that are no text.

use std::time::Duration;

use metier::error::ErrorKind;

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::Fixture;
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("E8", "a flood of output", flood),
    case("E9", "ten megabytes of input that nobody reads, with as much output", unread),
    case("E45", "a flood of errors alone, cut text, bytes that are no text, nothing at all", bytes),
];

fn flood() -> CaseResult {
    for script in ["yes", "yes >&2", "yes & yes >&2", "cat /dev/zero"] {
        let fixture = Fixture::bash(script).output(1 << 20).deadline(10_000);
        let ran = fixture.run();
        assert_eq!(ran.error().kind(), ErrorKind::Output, "{script}: {:?}", ran.error());
        assert!(ran.0.duration < Duration::from_secs(10), "{script}: {:?}", ran.0.duration);
        let process = ran.process();
        assert!(process.stdout_truncated || process.stderr_truncated);
        assert!(process.stdout.len() <= 4 << 20 && process.stderr.len() <= 1 << 20);
        survivors::assert_none(fixture.mark());
    }
    Ok(())
}

fn unread() -> CaseResult {
    let much = "x".repeat(10 << 20);
    let fixture =
        Fixture::bash("head -c 10000000 /dev/zero | tr '\\0' y").input(much.clone()).output(16 << 20);
    let ran = fixture.run();
    assert_eq!(ran.assert_ok().stdout().len(), 10_000_000);
    Fixture::bash("exit 0").input(much.clone()).run().assert_stdout("");
    Fixture::bash("wc -c").input(much).run().assert_stdout("10485762\n");
    Ok(())
}

fn bytes() -> CaseResult {
    let ran = Fixture::bash("printf 'a\\xffb\\0c'").run();
    assert_eq!(ran.assert_ok().stdout(), "a\u{fffd}b\0c");
    let ran = Fixture::bash("printf '%s' ää").output(3).run();
    assert_eq!((ran.error().kind(), ran.process().stdout_truncated), (ErrorKind::Output, true));
    assert_eq!(ran.stdout(), "ä", "a letter that was cut in half is left out");
    Fixture::bash(":").run().assert_stdout("");
    Fixture::bash("printf last").run().assert_stdout("last");
    let ran = Fixture::bash("yes e >&2").output(1 << 16).run();
    assert_eq!((ran.error().kind(), ran.process().stderr_truncated), (ErrorKind::Output, true));
    Ok(())
}
