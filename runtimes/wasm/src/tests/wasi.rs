//! Tests of WASI: refused unless requested and granted, and then without files, output or sleep.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PRELUDE, loaded};
use metier_core::error::{ErrorKind, Result};
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::{PathProtection, Permission, Permissions, RequestedPermissions};

/// A module that imports some of WASI and whose `run` does this.
fn module(body: &str) -> String {
    let wasi = r#"
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
    format!(r#"(module {wasi} {PRELUDE} (func (export "run") {body}))"#)
}

pub(super) fn permissions(asked: &[&str], granted: &[&str]) -> Permissions {
    let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Permission>>();
    Permissions::new(RequestedPermissions::Listed(parsed(asked)), parsed(granted), PathProtection::default())
}

fn run(body: &str, asked: &[&str], granted: &[&str]) -> Result<Value> {
    let context = SkillContext::builder("test").permissions(permissions(asked, granted)).build();
    loaded(module(body))
        .execute_with_context(SkillInput::default(), Some(&context))
        .map(|output| output.value)
}

#[test]
fn it_must_be_asked_and_granted() {
    let refused = |asked: &[&str], granted: &[&str]| run("(call $fine)", asked, granted).unwrap_err();
    let error = refused(&["wasi"], &[]);
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(error.message(), "failed to start scripts/main.wat with WASI: not permitted; grant wasi");
    assert_eq!(refused(&[], &["wasi"]).kind(), ErrorKind::Denied);
    assert_eq!(run("(call $fine)", &["wasi"], &["wasi"]).unwrap(), json!("fine"));
}

#[test]
fn it_has_no_folders_no_environment_no_output_and_no_sleep() {
    let started = Instant::now();
    // A clock subscription of an hour: userdata, tag 0, clock 1, timeout in nanoseconds.
    let body = "(i32.store (i32.const 16) (i32.const 1))
        (i64.store (i32.const 24) (i64.const 3600000000000))
        (if (i32.ne (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)) (i32.const 58)) (then unreachable))
        (if (i32.ne (call $fd_write (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 300)) (i32.const 0)) (then unreachable))
        (if (i32.ne (call $prestat (i32.const 3) (i32.const 400)) (i32.const 8)) (then unreachable))
        (if (i32.ne (call $environ (i32.const 500) (i32.const 504)) (i32.const 0)) (then unreachable))
        (if (i32.load (i32.const 500)) (then unreachable))
        (if (i32.ne (call $random (i32.const 600) (i32.const 8)) (i32.const 0)) (then unreachable))
        (if (i64.eqz (i64.load (i32.const 600))) (then unreachable))
        (call $fine)";
    assert_eq!(run(body, &["wasi"], &["wasi"]).unwrap(), json!("fine"));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn leaving_with_a_code_is_a_failure() {
    let error = run("(call $exit (i32.const 7))", &["wasi"], &["wasi"]).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Script, "the plug-in ended with code 7 and did not say why")
    );
    assert_eq!(run("(call $fine) (call $exit (i32.const 0))", &["wasi"], &["wasi"]).unwrap(), json!("fine"));
}

#[test]
fn a_function_that_wasi_does_not_have_is_a_fault_of_the_module() {
    let text = r#"(module (import "wasi_snapshot_preview1" "fly" (func)) (func (export "run")))"#;
    super::invalid(&super::source(text), "fly");
}
