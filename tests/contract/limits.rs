//! Limits of a contract: they lower what the caller or the engine allows, and never raise it.

use std::time::Duration;

use metier::engine::{Invocation, LimitsReport, Outcome};
use metier::error::ErrorKind;
use metier::policy::{Limits, RuntimeLimit};

use crate::support::engine::{ENDLESS, Project, deadline, kind};

fn report(contract: &str, limits: Option<Limits>) -> LimitsReport {
    let invocation = Invocation::new("x");
    let invocation = match limits {
        Some(limits) => invocation.limits(limits),
        None => invocation,
    };
    let outcome: Outcome = Project::with_contract(contract, "return 1").engine().run(invocation);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    outcome.limits
}

#[test]
fn a_contract_lowers_every_limit() {
    let told = report("timeout: 5s\nlimits: {memory: 16MB, output: 1MB}", None);
    assert_eq!(
        (told.timeout, told.memory_bytes, told.output_bytes),
        (Duration::from_secs(5), Some(16 << 20), 1 << 20)
    );
}

#[test]
fn a_contract_raises_none() {
    let told = report("timeout: 10m\nlimits: {memory: 4GB, output: 1GB}", None);
    assert_eq!(
        (told.timeout, told.memory_bytes, told.output_bytes),
        (Duration::from_secs(30), Some(64 << 20), 8 << 20)
    );
    let named = Limits::default().timeout(Duration::from_secs(7)).memory(8 << 20).output(1000);
    let told = report("timeout: 10m\nlimits: {memory: 16MB, output: 1MB}", Some(named));
    assert_eq!(
        (told.timeout, told.memory_bytes, told.output_bytes),
        (Duration::from_secs(7), Some(8 << 20), 1000)
    );
}

#[test]
fn a_caller_who_allows_more_does_not_lift_the_contracts_own() {
    let generous = Limits::default().timeout(Duration::from_mins(10)).memory(1 << 30);
    let told = report("timeout: 5s\nlimits: {memory: 16MB}", Some(generous));
    assert_eq!((told.timeout, told.memory_bytes), (Duration::from_secs(5), Some(16 << 20)));
}

#[test]
fn a_contracts_timeout_stops_the_run() {
    let outcome = Project::with_contract("timeout: 100ms", ENDLESS).run(&[]);
    assert_eq!((kind(&outcome), outcome.limits.hit), (ErrorKind::Timeout, Some(ErrorKind::Timeout)));
    let outcome = Project::with_contract("timeout: 1h", ENDLESS)
        .engine()
        .run(Invocation::new("x").limits(deadline(100)));
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
}

#[test]
fn a_contracts_memory_and_output_end_the_run() {
    let grows = "local t = {} while true do t[#t + 1] = {#t} end";
    assert_eq!(kind(&Project::with_contract("limits: {memory: 2MB}", grows).run(&[])), ErrorKind::Memory);
    let long = "return ('x'):rep(2000)";
    assert_eq!(kind(&Project::with_contract("limits: {output: 1000}", long).run(&[])), ErrorKind::Output);
}

#[test]
fn a_callee_keeps_within_its_callers_contract() {
    let project = Project::lua_with_tools("skill:y", "return ctx.skill('y')")
        .contract("x", "timeout: 100ms\nlimits: {output: 1000}")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", ENDLESS)
        .contract("y", "timeout: 1h");
    assert_eq!(kind(&project.run(&["skill:y"])), ErrorKind::Timeout);
}

#[test]
fn a_limit_that_a_runtime_does_not_hold_is_not_applied() {
    let named = Limits::default().cpu(Duration::from_secs(1)).file_size(6).open_files(7).memory(1 << 20);
    let told = report("description: d", Some(named));
    assert_eq!(told.not_applied, [RuntimeLimit::Cpu, RuntimeLimit::OpenFiles]);
    assert_eq!(
        (told.memory_bytes, told.cpu, told.file_bytes, told.open_files),
        (Some(1 << 20), None, Some(6), None)
    );
    assert!(report("description: d", None).not_applied.is_empty());
}

#[test]
fn lua_counts_operations_where_a_limit_of_them_is_named() {
    let told = report("limits: {operations: 1000}", None);
    assert_eq!((told.operations, told.not_applied), (Some(1000), vec![]));
    assert_eq!(report("description: d", None).operations, None);
    let outcome = Project::with_contract("limits: {operations: 1000}", ENDLESS).run(&[]);
    assert_eq!((kind(&outcome), outcome.limits.hit), (ErrorKind::Operations, Some(ErrorKind::Operations)));
}

#[test]
fn limits_that_are_not_applied_are_in_the_log_once() {
    let project =
        Project::lua_with_tools("skill:y", "for i = 1, 3 do ctx.skill('y') end").skill("y", "").contract(
            "y",
            "limits: {operations: 1000}\nsteps:\n- {id: a, tool: glob, args: {pattern: '*.none'}}",
        );
    let outcome = project.run(&["skill:y"]);
    let said: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with(
            "y: the limit operations is not applied: the runtime tool-sequence does not enforce it"
        ),
        "{said:?}"
    );
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_process_counts_no_operations_and_says_so() {
    let project = Project::shell("", "echo 1").contract("x", "limits: {operations: 1000}");
    let outcome = project.run(&["exec"]);
    assert_eq!(
        (outcome.limits.operations, outcome.limits.not_applied),
        (None, vec![RuntimeLimit::Operations])
    );
    assert!(
        outcome.log.iter().any(|line| line.message.contains("the runtime external does not enforce it")),
        "{:?}",
        outcome.log
    );
    let engine = project.engine();
    let explained = engine.explain(&Invocation::new("x")).unwrap();
    assert_eq!(explained.limits.not_applied, [RuntimeLimit::Operations]);
}

#[test]
#[cfg(feature = "rhai-runtime")]
fn operations_are_lowered_and_not_raised() {
    let run = |operations: &str, rounds: u32| {
        let script = format!("let n = 0; for i in 0..{rounds} {{ n += 1; }} n");
        let project = Project::new()
            .skill("x", "")
            .file(".metier/skills/x/scripts/main.rhai", script)
            .contract("x", &format!("limits: {{operations: {operations}}}"));
        project.run(&[])
    };
    assert!(run("100k", 100).result.is_ok());
    assert_eq!(kind(&run("1000", 100_000)), ErrorKind::Operations);
    assert_eq!(kind(&run("100000m", 20_000_000)), ErrorKind::Operations);
}
