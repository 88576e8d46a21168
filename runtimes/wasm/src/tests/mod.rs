//! Tests of plug-ins: what they can see, and how they are stopped. Most are written as text, over the same few imports and
//! helpers.

mod answers;
#[cfg(unix)]
mod cache;
mod limits;
mod linking;
mod loading;
mod parallel;
mod stopping;
mod wasi;
mod wasi_functions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::load as load_under;
use crate::services::PluginServices;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput};
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits, SandboxLevel, Watchdog};
#[cfg(unix)]
use metier_sandbox::{ForkServerSource, Launcher};

/// What the plug-ins here import, one page of memory, and `$text`: bytes of that memory as a block of Extism memory.
const PRELUDE: &str = r#"
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "free" (func $free (param i64)))
    (import "extism:host/env" "length" (func $length (param i64) (result i64)))
    (import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
    (import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
    (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
    (import "extism:host/env" "input_length" (func $input_length (result i64)))
    (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (import "extism:host/env" "error_set" (func $error_set (param i64)))
    (import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
    (import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
    (import "extism:host/env" "http_request" (func $http_request (param i64 i64) (result i64)))
    (import "extism:host/env" "log_warn" (func $log_warn (param i64)))
    (import "extism:host/user" "read_file" (func $read_file (param i64) (result i64)))
    (import "extism:host/user" "write" (func $write (param i64 i64) (result i64)))
    (memory (export "memory") 1)
    (func $text (param $at i32) (param $count i32) (result i64)
        (local $block i64) (local $done i32)
        (local.set $block (call $alloc (i64.extend_i32_u (local.get $count))))
        (loop $next
            (call $store_u8
                (i64.add (local.get $block) (i64.extend_i32_u (local.get $done)))
                (i32.load8_u (i32.add (local.get $at) (local.get $done))))
            (local.set $done (i32.add (local.get $done) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $done) (local.get $count))))
        (local.get $block))
    (func $answer (param $block i64)
        (call $output_set (local.get $block) (call $length (local.get $block))))
    (func $fine (call $answer (call $text (i32.const 65528) (i32.const 6))))
    (data (i32.const 65528) "\22fine\22")
"#;

/// Answers with its input.
const ECHO: &str = r#"(func (export "run") (call $output_set (call $input_offset) (call $input_length)))"#;

/// A whole module: the prelude and this body.
fn module(body: &str) -> String {
    format!("(module {PRELUDE} {body})")
}

/// A module whose `run` does this.
fn running(body: &str) -> String {
    module(&format!(r#"(func (export "run") {body})"#))
}

fn source(source: impl AsRef<[u8]>) -> Script {
    Script::new("test", "scripts/main.wat", source.as_ref())
}

fn plugin_manifest(source: impl AsRef<[u8]>) -> Script {
    Script::new("test", "scripts/plugin.json", source.as_ref())
}

fn entered_at(function: &str, mut script: Script) -> Script {
    script.function = Some(function.to_owned());
    script
}

/// The services of these tests: their program is not a compiler helper, so that they compile in process.
fn shared() -> PluginServices {
    PluginServices {
        #[cfg(unix)]
        launcher: Arc::new(Launcher::new(ForkServerSource::CurrentProgram, SandboxLevel::default())),
        watchdog: Arc::default(),
        compile_in_process: true,
        needs_load_timeout: false,
    }
}

fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    load_under(script, &shared(), &CancelToken::new())
}

fn loaded(text: impl AsRef<[u8]>) -> Box<dyn SkillExecutor> {
    match load(&source(&text)) {
        Ok(executor) => executor,
        Err(error) => panic!("{error:?}: {}", own(&String::from_utf8_lossy(text.as_ref()))),
    }
}

fn run(text: &str, input: Value) -> Result<Value> {
    loaded(text).execute(input.into()).map(|output| output.value)
}

fn fails(text: &str, kind: ErrorKind, sentence: &str) -> SkillError {
    let error = run(text, Value::Null).unwrap_err();
    assert_eq!(error.kind(), kind, "{}: {error:?}", own(text));
    assert!(error.message().contains(sentence), "{}: {error:?}", own(text));
    error
}

/// A module without the common prelude.
fn own(text: &str) -> String {
    text.replace(PRELUDE, "…")
}

fn invalid(script: &Script, sentence: &str) -> SkillError {
    let error = load(script).err().unwrap_or_else(|| panic!("loaded, but {sentence}"));
    assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error:?}");
    assert!(error.message().contains(sentence), "{error:?}");
    error
}

/// Runs with limits, the deadline held.
fn limited(executor: &dyn SkillExecutor, input: Value, limits: Limits) -> Result<Value> {
    let (watchdog, token) = (Watchdog::new(), CancelToken::new());
    let _armed = watchdog.arm(Instant::now() + limits.timeout, &token);
    let context = SkillContext::builder("test").limits(limits).cancel(token).build();
    executor.execute_with_context(SkillInput::from(input), Some(&context)).map(|output| output.value)
}

fn within(deadline: Duration) -> Limits {
    Limits::default().timeout(deadline)
}
