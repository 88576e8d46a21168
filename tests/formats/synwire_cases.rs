//! The cases of Synwire's own tests, each under its number, as far as they are about what a skill does.

use metier::engine::{Invocation, Outcome};
use metier::error::ErrorKind;
use metier::skill::{SkillLocation, parse};
use serde_json::{Value, json};

use super::synwire::script;
use crate::support::engine::{Project, granted, kind, sentence, value};

/// The same script with this input.
fn run(project: &Project, input: Value, grants: &[&str]) -> Outcome {
    project.engine().run(granted(Invocation::new("x").input(input), grants))
}

/// The value of a script in Lua.
#[track_caller]
fn lua(source: &str, input: Value) -> Value {
    value(run(&script("lua", "main.lua", source), input, &[]))
}

/// The value of a script in Rhai.
#[cfg(feature = "rhai-runtime")]
#[track_caller]
fn rhai(source: &str, input: Value) -> Value {
    value(run(&script("rhai", "main.rhai", source), input, &[]))
}

#[test]
fn sy_t01_to_sy_t04_values_of_scripts_and_an_error_of_syntax() {
    assert_eq!(lua("return input * 2", json!(21)), 42, "SY-T01");
    let two = json!({"a": 10, "b": 32});
    assert_eq!(lua("return input.a + input.b", two.clone()), 42, "SY-T02");
    #[cfg(feature = "rhai-runtime")]
    assert_eq!(rhai("input.a + input.b", two), 42, "SY-T02");
    let table = lua("return {x = input + 1, y = \"hello\"}", json!(1));
    assert_eq!(table, json!({"x": 2, "y": "hello"}), "SY-T03");
    let broken = run(&script("lua", "main.lua", "return return"), json!(1), &[]);
    assert_eq!(kind(&broken), ErrorKind::InvalidSkill, "SY-T04");
    let place = broken.result.as_ref().unwrap_err().location().unwrap();
    assert!(place.file.ends_with("main.lua") && place.line == Some(1), "SY-T04: {place:?}");
}

#[test]
fn sy_t05_a_runtime_without_a_script_cannot_run() {
    let outcome = run(&Project::new().skill("x", "runtime: lua\n"), json!({}), &[]);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(sentence(&outcome).contains("script"), "{}", sentence(&outcome));
}

#[test]
fn sy_t06_to_sy_t09_files_of_the_project() {
    let project = |source: &str| {
        script("lua", "main.lua", source)
            .file("hello.txt", "world")
            .file("lines.txt", "a\nb\nc\nd\ne\n")
            .file("src/main.rs", "// a\nfn main() {}\n")
    };
    let answer = |source: &str| value(run(&project(source), json!({}), &[]));
    assert_eq!(answer("return ctx:read_file('hello.txt')"), "world", "SY-T06");
    assert_eq!(
        answer("return {ctx:head('lines.txt', 2), ctx:tail('lines.txt', 2)}"),
        json!(["a\nb", "d\ne"]),
        "SY-T07"
    );
    assert_eq!(answer("return ctx:stat('hello.txt').is_file"), true, "SY-T08");
    let hits = answer("return ctx:grep('fn main')");
    assert_eq!(hits.as_array().map(Vec::len), Some(1), "SY-T09: {hits}");
}

#[test]
fn sy_t10_to_sy_t12_what_is_not_granted_is_refused() {
    let write = "ctx:write('out.txt', 'text') return 1";
    let project = script("lua", "main.lua", write);
    assert_eq!(kind(&run(&project, json!({}), &[])), ErrorKind::Denied, "SY-T10");
    assert!(!project.path("out.txt").exists(), "SY-T10");
    value(run(&project, json!({}), &["write"]));
    assert_eq!(project.read("out.txt"), "text", "SY-T10");
    for path in ["../../../etc/passwd", "notes/../../../../etc/passwd"] {
        let outcome = run(&script("lua", "main.lua", "return ctx:read_file(input)"), json!(path), &[]);
        assert_eq!(kind(&outcome), ErrorKind::OutsideProject, "SY-T11: {path}");
    }
    // A function by itself is there for scripts that say that they are Synwire's, and for no other.
    assert_eq!(lua("return read_file == nil", json!({})), true, "SY-T12");
}

#[cfg(feature = "rhai-runtime")]
#[test]
fn sy_t10_sy_t11_rhai_refuses_the_same() {
    let kind_of = |source: &str| kind(&run(&script("rhai", "main.rhai", source), json!({}), &[]));
    assert_eq!(kind_of("ctx.write(\"out.txt\", \"text\")"), ErrorKind::Denied, "SY-T10");
    assert_eq!(kind_of("ctx.read_file(\"../../../etc/passwd\")"), ErrorKind::OutsideProject, "SY-T11");
}

#[cfg(feature = "wasm-runtime")]
#[test]
fn sy_t13_a_plug_in_is_called_by_its_default_function() {
    let module = "(module
        (import \"extism:host/env\" \"output_set\" (func $output (param i64 i64)))
        (import \"extism:host/env\" \"alloc\" (func $alloc (param i64) (result i64)))
        (import \"extism:host/env\" \"store_u8\" (func $store (param i64 i32)))
        (func (export \"run\") (result i32)
            (local $at i64)
            (local.set $at (call $alloc (i64.const 2)))
            (call $store (local.get $at) (i32.const 52))
            (call $store (i64.add (local.get $at) (i64.const 1)) (i32.const 50))
            (call $output (local.get $at) (i64.const 2))
            (i32.const 0)))";
    let run = |project: &Project| {
        let engine = project.builder().compile_in_process(true).build().unwrap();
        engine.run(Invocation::new("x").input(json!({"n": 1})))
    };
    assert_eq!(value(run(&script("wasm", "main.wat", module))), 42);
    let without = run(&Project::new().skill("x", "runtime: wasm\n"));
    assert_eq!(kind(&without), ErrorKind::Unavailable);
}

#[cfg(feature = "sandboxed")]
#[test]
fn sy_t14_processes_answer_with_what_they_print() {
    let project = |source: &str| Project::shell("", source);
    assert_eq!(value(run(&project("echo hello"), json!({}), &[])), "hello\n");
    let piped = project("cat").engine().run(Invocation::new("x").stdin(&b"piped data"[..]));
    assert_eq!(value(piped), "piped data");
    let unknown = run(&project("no-such-program-here"), json!({}), &[]);
    assert_eq!(kind(&unknown), ErrorKind::Script);
    assert!(sentence(&unknown).contains("no-such-program-here"), "{}", sentence(&unknown));
}

#[test]
fn sy_t16_the_frontmatter_is_read_whole_or_refused_with_its_reason() {
    let read = |text: &str| parse(text.as_bytes(), SkillLocation { directory: "x", file_name: "SKILL.md" });
    let whole = "---\nname: x\ndescription: d\nlicense: MIT\ncompatibility: any\nruntime: lua\nallowed-tools: read write grep\n\
                 metadata: {author: a, version: 1.0}\n---\nText";
    let manifest = read(whole).manifest.unwrap();
    assert_eq!(manifest.allowed_tools.len(), 3);
    assert_eq!(manifest.metadata["version"], "1.0", "AS-T16: a text, as it is written");
    assert_eq!((manifest.license.as_deref(), manifest.runtime.as_deref()), (Some("MIT"), Some("lua")));
    for (wrong, code) in [
        ("---\nname: MySkill\ndescription: d\n---\n", "name-uppercase"),
        ("---\nname: x\ndescription: \"\"\n---\n", "description-empty"),
        ("name: x\n", "frontmatter-missing"),
    ] {
        let codes: Vec<&str> = read(wrong).diagnostics.iter().map(|found| found.code).collect();
        assert!(codes.contains(&code), "{wrong}: {codes:?}");
    }
}

#[test]
fn sy_t17_paths_stay_in_the_project() {
    let project =
        script("lua", "main.lua", "return ctx:read_file(input)").file("src/main.rs", "fn main() {}");
    assert_eq!(kind(&run(&project, json!("a/../../etc/passwd"), &[])), ErrorKind::OutsideProject);
    assert_eq!(value(run(&project, json!("./src/./main.rs"), &[])), "fn main() {}");
}
