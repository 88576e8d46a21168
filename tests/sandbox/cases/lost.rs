//! Restrictions that a machine supports and that something in the project takes away, by using up what they need.

use std::fs;

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::policy::SandboxMode;

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{self, Fixture, RunResult};

pub const CASES: &[Case] = &[
    case("F36", "more folders on the way to secrets than the helper may have files open", many_pins),
    case(
        "F36b",
        "more to write than the helper may have files open, where a sandbox is required",
        refused_where_required,
    ),
    case("F36c", "the same, where it is not", reported_where_best_effort),
];

/// Files the helper may have open.
const MAX_OPEN_FILES: usize = 64;

/// Runs it by a helper that may have few files open.
fn run_with_few_files(fixture: &Fixture, invocation: Invocation) -> Result<RunResult, SkipReason> {
    let Some(helper) = fixture::helper() else {
        return Err(SkipReason::Unsupported("the host is its own helper".into()));
    };
    let program = fixture.at("helper");
    fixture.write(
        "helper",
        format!("#!/bin/bash\nulimit -n {MAX_OPEN_FILES}; exec '{}' \"$@\"\n", helper.display()),
    );
    let engine = fixture.builder().helper(program).build().unwrap();
    Ok(fixture.result(engine.run(invocation)))
}

fn many_pins() -> CaseResult {
    let fixture = Fixture::bash(
        "exec 2>/dev/null
        try() { (eval \"$1\") >/dev/null && echo \"$1: done\" || echo \"$1: refused\"; }
        try 'cat d1/a/b/c/e/.env'; try 'cat d39/a/b/c/e/.env'; try 'echo x > .git/config'; try 'mv d1/a d1/z'",
    )
    .grant("write")
    .file("project/.git/config", "theirs\n");
    (0..40).for_each(|number| fixture.write(&format!("project/d{number}/a/b/c/e/.env"), "secret\n"));
    let ran = run_with_few_files(&fixture, fixture.invocation())?;
    ran.assert_ok();
    if ran.sandbox().level.name() == "namespaces" {
        assert!(ran.sandbox().protected_paths, "{ran:?}");
        ran.assert_refused(4, &["refused"]);
    }
    Ok(())
}

/// A script that may write to more folders than there are descriptors for.
fn many_writes() -> (Fixture, Invocation) {
    let fixture = Fixture::bash("echo ran > w1/ran; echo ran");
    let folders = (0..MAX_OPEN_FILES).map(|number| format!("w{number}"));
    let invocation = folders.fold(fixture.invocation(), |invocation, folder| {
        fs::create_dir_all(fixture.at("project").join(&folder)).unwrap();
        invocation.grant(format!("write:{folder}").parse().unwrap())
    });
    (fixture, invocation)
}

/// Nothing runs with less than this machine gives.
fn refused_where_required() -> CaseResult {
    let (fixture, invocation) = many_writes();
    let ran = run_with_few_files(&fixture, invocation)?;
    if ran.is_in_namespaces() {
        assert_eq!(ran.error().kind(), ErrorKind::SandboxUnavailable, "{ran:?}");
        assert!(ran.error().to_string().contains("Too many open files"), "{ran:?}");
        assert!(!fixture.at("project/w1/ran").exists());
    } else {
        ran.assert_stdout("ran\n");
    }
    Ok(())
}

/// What is lost is in the outcome and in the log.
fn reported_where_best_effort() -> CaseResult {
    let (fixture, invocation) = many_writes();
    let ran = run_with_few_files(&fixture, invocation.sandbox_mode(SandboxMode::BestEffort))?;
    assert_eq!((ran.stdout(), ran.sandbox().level.name()), ("ran\n", "landlock"), "{ran:?}");
    assert_eq!(ran.has_warning("could not create any for it"), ran.is_in_namespaces(), "{ran:?}");
    Ok(())
}
