//! What the frontmatter of Synwire says besides that of the specification.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::skill::{SkillLocation, parse};
#[cfg(feature = "wasm-runtime")]
use metier::{engine::EngineBuilder, policy::ExecutionMode};
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};

const BUSY: &str = "local n = 0 for i = 1, 3000000 do n = n + i end return n";

#[test]
fn sy_08_limits_of_the_frontmatter_hold() {
    let project = |metadata: &str| {
        Project::new()
            .skill("x", &format!("metadata: {{{metadata}}}\n"))
            .file(".metier/skills/x/scripts/main.lua", BUSY)
    };
    assert_eq!(kind(&project("max_operations: 1000").run(&[])), ErrorKind::Operations);
    value(project("max_operations: 100000000").run(&[]));
    let large = Project::new().skill("x", "metadata: {max_memory_mb: 2}\n").file(
        ".metier/skills/x/scripts/main.lua",
        "local t = {} for i = 1, 1000000 do t[i] = {i} end return #t",
    );
    assert_eq!(kind(&large.run(&[])), ErrorKind::Memory);
}

#[test]
fn sy_08_a_limit_that_cannot_be_read_is_not_left_out() {
    for limit in ["max_operations: many", "max_memory_mb: 0", "max_operations: -1", "max_memory_mb: [1]"] {
        let project = Project::new()
            .skill("x", &format!("metadata: {{{limit}}}\n"))
            .file(".metier/skills/x/scripts/main.lua", BUSY);
        let outcome = project.engine().run(Invocation::new("x"));
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{limit}");
        assert!(sentence(&outcome).contains("whole number of at least 1"), "{limit}: {}", sentence(&outcome));
    }
}

#[test]
fn sy_04_a_range_of_versions_is_compared_and_warned_of() {
    let codes = |compatibility: &str| {
        let text = format!("---\nname: x\ndescription: d\ncompatibility: \"{compatibility}\"\n---\n");
        let parsed = parse(text.as_bytes(), SkillLocation { directory: "x", file_name: "SKILL.md" });
        assert!(parsed.is_loadable());
        parsed.diagnostics.iter().map(|found| found.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(">=99.0"), ["compatibility-version"]);
    for fitting in [">=0.0.1", "Requires git", "^not a range", "<= a few words"] {
        assert_eq!(codes(fitting), [""; 0], "{fitting}");
    }
}

#[test]
fn sy_09_a_runtime_that_does_not_exist_is_refused() {
    let project =
        Project::new().skill("x", "runtime: cobol\n").file(".metier/skills/x/scripts/main.lua", "return 1");
    assert_eq!(kind(&project.run(&[])), ErrorKind::InvalidSkill);
}

#[test]
fn sy_14_what_lies_in_a_skill_with_a_runtime_is_no_skill() {
    let inner = "---\nname: inner\ndescription: d\n---\n";
    let names = |frontmatter: &str| {
        let project = Project::new()
            .skill("x", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", "return 1")
            .file(".metier/skills/x/assets/inner/SKILL.md", inner);
        let engine = project.engine();
        let mut names: Vec<String> =
            engine.registry().skills().iter().map(|skill| skill.name().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("runtime: lua\n"), ["x"]);
    assert_eq!(names("metadata: {runtime: lua}\n"), ["x"]);
    assert_eq!(names(""), ["inner", "x"], "elsewhere skills may lie in each other");
}

#[test]
fn sy_09_validate_refuses_a_runtime_that_does_not_exist() {
    let text = "---\nname: x\ndescription: d\nruntime: cobol\n---\n";
    let parsed = parse(text.as_bytes(), SkillLocation { directory: "x", file_name: "SKILL.md" });
    assert_eq!(parsed.manifest.unwrap().runtime.as_deref(), Some("cobol"), "kept as written");
    let project = Project::new().file(".metier/skills/x/SKILL.md", text);
    let engine = project.engine();
    let registry = engine.registry();
    let reason = engine.availability(&registry.skills()[0]).reason.unwrap();
    assert_eq!(reason.kind(), ErrorKind::InvalidSkill, "{reason}");
    assert!(reason.message().contains("cobol"), "{reason}");
}

/// The skill `x` with this frontmatter and script, in a project with a file.
pub(super) fn script(runtime: &str, name: &str, source: &str) -> Project {
    Project::new()
        .skill("x", &format!("runtime: {runtime}\nallowed-tools: write\n"))
        .file(&format!(".metier/skills/x/scripts/{name}"), source)
        .file("notes/a.txt", "one\ntwo\n")
}

#[test]
fn sy_31_scripts_of_synwire_find_the_input_and_files_without_ctx() {
    let lua = "return {args.n, read_file('notes/a.txt'), list_dir('notes')}";
    let expected = json!([1, "one\ntwo\n", ["a.txt"]]);
    let run = |project: &Project| project.engine().run(Invocation::new("x").input(json!({"n": 1})));
    assert_eq!(value(run(&script("synwire-lua", "main.lua", lua))), expected, "SY-T06");
    assert_ne!(
        run(&script("lua", "main.lua", lua)).result.ok(),
        Some(expected.clone()),
        "only where it says so"
    );
    // Every line keeps its number.
    let failing = run(&script("synwire-lua", "main.lua", "\n\nerror('here')"));
    let error = failing.result.unwrap_err();
    assert_eq!(error.location().and_then(|at| at.line), Some(3), "{error}");
    let outside = run(&script("synwire-lua", "main.lua", "return read_file('../../etc/passwd')"));
    assert!(outside.result.is_err(), "SY-T11");
}

#[cfg(feature = "rhai-runtime")]
#[test]
fn sy_31_rhai_of_synwire_finds_the_same() {
    let rhai = "[args.n, read_file(\"notes/a.txt\"), list_dir(\"notes\")]";
    let run = |project: &Project| project.engine().run(Invocation::new("x").input(json!({"n": 1})));
    assert_eq!(
        value(run(&script("synwire-rhai", "main.rhai", rhai))),
        json!([1, "one\ntwo\n", ["a.txt"]]),
        "SY-T06"
    );
    assert!(run(&script("rhai", "main.rhai", rhai)).result.is_err(), "only where it says so");
    let own = "fn read_file(path) { \"mine\" } read_file(\"notes/a.txt\")";
    assert_eq!(value(run(&script("synwire-rhai", "main.rhai", own))), json!("mine"));
    let called = "fn inner() { read_file(\"notes/a.txt\") } inner()";
    assert_eq!(value(run(&script("synwire-rhai", "main.rhai", called))), json!("one\ntwo\n"));
}

#[test]
fn sy_33_a_numbered_list_of_the_text_is_a_plan() {
    let plan = |body: &str| {
        let text = format!("---\nname: x\ndescription: d\nruntime: tool-sequence\n---\n# Steps\n\n{body}");
        Project::new().file(".metier/skills/x/SKILL.md", text).file("notes/a.txt", "one\ntwo\n")
    };
    let run = |project: &Project| project.engine().run(Invocation::new("x"));
    let steps = "1. Find: `grep {\"pattern\": \"two\", \"path\": \"notes\"}`\n2. Read `read_file {\"path\": \"$result[0][0].file\"}` of it.\n";
    assert_eq!(value(run(&plan(steps))), json!("one\ntwo\n"), "SY-T30");
    for (wrong, line, words) in [
        ("1. Look around.\n", 8, "calls no tool"),
        ("1. `stat {\"path\": }`\n", 8, "the parameters of a step"),
        ("1. `read_file {\"path\": \"$result[1]\"}`\n", 8, "$result[1]"),
    ] {
        let outcome = run(&plan(wrong));
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
        assert!(error.message().contains(words), "{error}");
        let place = error.location().unwrap();
        assert_eq!((place.file.as_str(), place.line), ("SKILL.md", Some(line)), "{error}");
    }
    let none = run(&plan("No list.\n"));
    assert!(sentence(&none).contains("has no steps"), "{}", sentence(&none));
    // Where nothing says that it is a plan, a list is a text.
    let text = Project::new()
        .file(".metier/skills/x/SKILL.md", format!("---\nname: x\ndescription: d\n---\n{steps}"));
    assert_eq!(kind(&text.run(&[])), ErrorKind::Unavailable);
}

/// A plug-in that passes its path to this function of the host and answers with what it gets.
#[cfg(feature = "wasm-runtime")]
fn plugin(function: &str, path: &str, content: Option<&str>) -> String {
    let store = |name: &str, text: &str| {
        let bytes: Vec<String> = text
            .bytes()
            .enumerate()
            .map(|(at, byte)| {
                format!("(call $store (i64.add (local.get {name}) (i64.const {at})) (i32.const {byte}))")
            })
            .collect();
        format!("(local.set {name} (call $alloc (i64.const {}))) {}", text.len(), bytes.concat())
    };
    let (parameters, second, argument) = match content {
        Some(content) => ("i64 i64", store("$content", content), "(local.get $content)"),
        None => ("i64", String::new(), ""),
    };
    format!(
        "(module
          (import \"extism:host/env\" \"alloc\" (func $alloc (param i64) (result i64)))
          (import \"extism:host/env\" \"length\" (func $length (param i64) (result i64)))
          (import \"extism:host/env\" \"store_u8\" (func $store (param i64 i32)))
          (import \"extism:host/env\" \"output_set\" (func $output (param i64 i64)))
          (import \"extism:host/user\" \"{function}\" (func $host (param {parameters}) (result i64)))
          (import \"extism:host/user\" \"host_log\" (func $log (param i64 i64)))
          (func (export \"run\") (result i32)
            (local $path i64) (local $content i64) (local $answer i64) (local $level i64)
            {level}
            {path}
            {second}
            (call $log (local.get $level) (local.get $path))
            (local.set $answer (call $host (local.get $path) {argument}))
            (call $output (local.get $answer) (call $length (local.get $answer)))
            (i32.const 0)))",
        level = store("$level", "warn"),
        path = store("$path", path),
    )
}

#[cfg(feature = "wasm-runtime")]
#[test]
fn sy_32_plug_ins_of_synwire_pass_text() {
    check_text_passing(ExecutionMode::InProcess);
}

#[cfg(all(feature = "wasm-runtime", feature = "cli", feature = "sandboxed", target_os = "linux"))]
#[test]
fn sy_32_plug_ins_of_synwire_pass_text_in_worker_processes() {
    check_text_passing(ExecutionMode::Worker);
}

#[cfg(feature = "wasm-runtime")]
fn check_text_passing(mode: ExecutionMode) {
    let project =
        |runtime: &str, source: &str| script(runtime, "main.wat", source).file("n.json", "{\"n\": 1}");
    let engine = |project: &Project| {
        let builder = project.builder().compile_in_process(true).execution_mode(mode);
        let helper = option_env!("CARGO_BIN_EXE_metier").into_iter();
        helper.fold(builder, EngineBuilder::helper).build().unwrap()
    };
    let run = |project: &Project, grants: &[&str]| {
        engine(project).run(crate::support::engine::granted(Invocation::new("x"), grants))
    };
    let read = project("synwire-wasm", &plugin("vfs_read_file", "n.json", None));
    let outcome = run(&read, &[]);
    assert!(outcome.log.iter().any(|entry| entry.message == "n.json"), "host_log: {:?}", outcome.log);
    assert_eq!(value(outcome), json!({"n": 1}));
    let listed = project("synwire-wasm", &plugin("vfs_list_dir", "notes", None));
    assert_eq!(value(run(&listed, &[])), json!(["a.txt"]));
    // SY-28, SY-T32: a refused call is an answer, here one that is no JSON.
    let write = project("synwire-wasm", &plugin("vfs_write", "out.txt", Some("\"text\"")));
    let refused = run(&write, &[]);
    assert!(sentence(&refused).contains("ERROR") || refused.result.is_err(), "{refused:?}");
    assert!(!write.path("out.txt").exists());
    run(&write, &["write"]);
    assert_eq!(write.read("out.txt"), "\"text\"", "the bytes themselves");
    // Another failure of a read ends the run.
    let missing = project("synwire-wasm", &plugin("vfs_read_file", "missing.json", None));
    assert!(sentence(&run(&missing, &[])).contains("missing.json"));
    // Without the dialect an argument is JSON, also in an engine that has run the same plug-in with it.
    let strict = project("wasm", &plugin("vfs_read_file", "n.json", None));
    assert!(value(run(&strict, &[])).to_string().contains("is not JSON"));
    let changed = project("synwire-wasm", &plugin("vfs_read_file", "n.json", None));
    let engine = engine(&changed);
    assert_eq!(value(engine.run(Invocation::new("x"))), json!({"n": 1}));
    let file = changed.path(".metier/skills/x/SKILL.md");
    std::fs::write(&file, changed.read(".metier/skills/x/SKILL.md").replace("synwire-wasm", "wasm")).unwrap();
    assert!(value(engine.run(Invocation::new("x"))).to_string().contains("is not JSON"));
}
