//! The host API means the same in every language: each row's example, run in each, against one answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::{
    FileProvider, Files, Fixtures, FunctionExample, HostFunction, Providers, SkillContext, functions,
};
use metier::policy::{CancelToken, ExecutionMode, Limits, Permission, Permissions, RequestedPermissions};
use metier_core::host::{AccessRule, RunContextBuilder};
use metier_core::policy::{PathProtection, Watchdog};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::not_run::{find_program, not_run};

/// The program behind `metier ctx`, if this build has it; the variable is set for builds that leave it out, too.
const METIER: Option<&str> = if cfg!(feature = "cli") { option_env!("CARGO_BIN_EXE_metier") } else { None };

/// Rhai's memory limit is exact where this counts.
#[global_allocator]
static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;

/// One plug-in with a function for each promise; its source lies beside it.
const PLUG_IN: &[u8] = include_bytes!("plugins/conformance.wasm");

/// A language, and in it: a script that calls the function named by `input.name` with the list `input.args`, one that
/// answers with its input, and the same promises broken in the ways every language knows. For a language that does not
/// read JSON, `{{name}}` and `{{args}}` stand for those two; of WebAssembly, each script is a function of the plug-in.
struct Language {
    runtime: RuntimeId,
    mode: ExecutionMode,
    /// The script's path, whose ending tells an interpreter.
    path: &'static str,
    /// The command without which it is not run, if there is one.
    needs: Option<&'static str>,
    call: &'static str,
    echo: &'static str,
    handled: &'static str,
    endless: &'static str,
    growing: &'static str,
    /// The memory that it outgrows, in bytes, and how that ends.
    memory: (u64, ErrorKind),
    flooding: &'static str,
    too_much: &'static str,
    /// The largest integer it holds exactly, and the next one, which it refuses, if JSON can say it.
    exact: (i64, Option<u64>),
}

const LANGUAGES: &[Language] = &[
    #[cfg(feature = "lua-runtime")]
    Language {
        runtime: RuntimeId::LUA,
        mode: ExecutionMode::InProcess,
        path: "scripts/main",
        needs: None,
        call: "local args = input.args return ctx[input.name](table.unpack(args, 1, #args))",
        echo: "return input",
        handled: "local ok, e = pcall(ctx.write, 'a.txt', 'x') return {e.kind, e.message == tostring(e)}",
        endless: "while true do pcall(function() while true do end end) end",
        growing: "local t = {} while true do t[#t + 1] = {#t} end",
        memory: (1 << 20, ErrorKind::Memory),
        flooding: "while true do print(('x'):rep(1000)) end",
        too_much: "local t = {1} for i = 1, 20 do t = {t, t} end return t",
        exact: (1 << 53, Some((1 << 53) + 1)),
    },
    #[cfg(feature = "rhai-runtime")]
    Language {
        runtime: RuntimeId::RHAI,
        mode: ExecutionMode::InProcess,
        path: "scripts/main",
        needs: None,
        call: "let f = Fn(input.name);
            let a = input.args;
            switch a.len() {
                0 => f.call(ctx),
                1 => f.call(ctx, a[0]),
                2 => f.call(ctx, a[0], a[1]),
                3 => f.call(ctx, a[0], a[1], a[2]),
                4 => f.call(ctx, a[0], a[1], a[2], a[3]),
            }",
        echo: "input",
        handled: "try { ctx.write(\"a.txt\", \"x\") } catch (e) { return [e.kind, e.message == e.to_string()]; }",
        endless: "loop { try { loop {} } catch {} }",
        growing: "let a = []; loop { a.push([a.len()]); }",
        memory: (1 << 20, ErrorKind::Memory),
        flooding: "let s = \"\"; s.pad(1000, 'x'); loop { print(s); }",
        too_much: "let a = [1]; for i in 0..16 { a = [a, a]; } a",
        exact: (i64::MAX, Some(i64::MAX as u64 + 1)),
    },
    #[cfg(feature = "wasm-runtime")]
    Language {
        runtime: RuntimeId::WASM,
        mode: ExecutionMode::InProcess,
        path: "scripts/main",
        needs: None,
        call: "call",
        echo: "echo",
        handled: "handled",
        endless: "endless",
        growing: "growing",
        memory: (1 << 20, ErrorKind::Memory),
        flooding: "flooding",
        too_much: "too_much",
        exact: (i64::MAX, None),
    },
    #[cfg(all(feature = "sandboxed", target_os = "linux"))]
    Language {
        runtime: RuntimeId::EXTERNAL,
        mode: ExecutionMode::InProcess,
        path: "scripts/main.py",
        needs: Some("python3"),
        call: "import json
from metier import ctx, input
print(json.dumps(getattr(ctx, input['name'])(*input['args'])))",
        echo: "import json, metier
print(json.dumps(metier.input))",
        handled: "import json
from metier import ctx, MetierError
try: ctx.write('a.txt', 'x')
except MetierError as e: print(json.dumps([e.kind, e.message == str(e)]))",
        endless: "while True:
    try:
        while True: pass
    except BaseException: pass",
        growing: "kept = []
while True: kept.append(bytearray(1 << 20))",
        memory: (128 << 20, ErrorKind::Script),
        flooding: "while True: print('x' * 1000)",
        too_much: "print([1] * 100000)",
        exact: (i64::MAX, None),
    },
    #[cfg(all(feature = "sandboxed", target_os = "linux"))]
    Language {
        runtime: RuntimeId::EXTERNAL,
        mode: ExecutionMode::InProcess,
        path: "scripts/main.js",
        needs: Some("node"),
        call: "const {ctx, input} = require('metier');
console.log(JSON.stringify(ctx[input.name](...input.args)));",
        echo: "console.log(JSON.stringify(require('metier').input));",
        handled: "const {ctx} = require('metier');
try { ctx.write('a.txt', 'x') } catch (e) { console.log(JSON.stringify([e.kind, `MetierError: ${e.message}` === String(e)])) }",
        endless: "for (;;) { try { for (;;) {} } catch {} }",
        growing: "const kept = []; for (;;) kept.push(Buffer.alloc(1 << 20, 1));",
        memory: (1 << 30, ErrorKind::Script),
        flooding: "for (;;) require('fs').writeSync(1, 'x'.repeat(1000));",
        too_much: "console.log(JSON.stringify(Array(100000).fill(1)));",
        exact: (1 << 53, Some((1 << 53) + 1)),
    },
    #[cfg(all(feature = "sandboxed", target_os = "linux"))]
    Language {
        runtime: RuntimeId::EXTERNAL,
        mode: ExecutionMode::InProcess,
        path: "scripts/main.bash",
        needs: Some("bash"),
        call: "metier ctx --json {{name}} --args {{args}}",
        echo: "metier ctx --json input",
        handled: "metier ctx write a.txt x 2> \"$TMPDIR/said\"
[ $? = 4 ] && read -r said < \"$TMPDIR/said\" && [[ $said == metier:* ]] && echo '[\"denied\", true]'",
        endless: "trap '' TERM; while :; do while :; do :; done; done",
        growing: "x=xxxxxxxx; while :; do x=$x$x; done",
        memory: (64 << 20, ErrorKind::Script),
        flooding: "while :; do printf '%01000d' 0; done",
        too_much: "printf '%0100000d' 0",
        exact: (i64::MAX, None),
    },
];

#[test]
fn every_example_gives_its_answer_in_every_language() {
    for language in languages() {
        for function in functions() {
            let answer = call(language, language.call, function, function.name, function.example.grants);
            let expected: Value = serde_json::from_str(function.example.answer).unwrap();
            assert_eq!(answer.unwrap(), expected, "{} in {}", function.name, language.path);
        }
    }
}

/// An editor with an unsaved `notes.txt`.
struct Editor;

impl FileProvider for Editor {
    fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
        Ok((path == "notes.txt").then(|| b"not saved".to_vec()))
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(vec!["notes.txt".into()])
    }
}

#[test]
fn every_language_reads_what_an_editor_has_not_saved() {
    let read = functions().iter().find(|function| function.name == "read_file").unwrap();
    for language in languages() {
        let editor = Providers::default().files(Editor);
        let answer = call_with(language, language.call, read, (read.name, read.example.args), &[], editor);
        assert_eq!(answer.unwrap(), "not saved", "{}", language.path);
    }
}

#[test]
fn every_language_gets_the_whole_response_of_a_model() {
    let sample = functions().iter().find(|function| function.name == "sample").unwrap();
    let response =
        json!({"text": "Paris", "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 1}});
    let args =
        r#"["", "And of France?", 10, {"messages": [{"role": "user", "content": "Hi"}], "response": true}]"#;
    for language in languages() {
        let fixtures = Fixtures::new(&json!({"model": response}).to_string()).unwrap().providers();
        let answer = call_with(language, language.call, sample, ("sample", args), &["sample"], fixtures);
        assert_eq!(answer.unwrap(), response, "{}", language.path);
    }
}

#[test]
fn every_function_that_needs_a_permission_is_refused_without_it_in_the_same_words() {
    let needs =
        |access| !matches!(access, AccessRule::Unrestricted | AccessRule::Read(_) | AccessRule::ReadRoot);
    for function in functions().iter().filter(|function| needs(function.access)) {
        // The example may be granted less than the hint names: `write:out`, where `write` is what a person would grant.
        let permission = match function.access {
            AccessRule::Write(_) => "write",
            _ => function.example.grants.first().expect(function.name),
        };
        let sentences = languages().map(|language| {
            let error = call(language, language.call, function, function.name, &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{} in {}: {error}", function.name, language.path);
            let way_out = format!("grant {permission}");
            assert!(error.message().ends_with(&format!(": not permitted; {way_out}")), "{error}");
            assert_eq!(error.help(), Some(way_out.as_str()));
            error.message().to_owned()
        });
        let sentences: BTreeSet<String> = sentences.collect();
        assert_eq!(sentences.len(), 1, "{sentences:?}");
    }
}

#[test]
fn a_refusal_a_script_handles_is_no_failure() {
    for language in languages() {
        let write = functions().iter().find(|function| function.name == "write").unwrap();
        let error = call(language, language.call, write, "write", &[]).unwrap_err();
        assert!(error.location().is_some_and(|at| at.file == language.path), "{error:?}");
        let handled = call(language, language.handled, write, "write", &[]).unwrap();
        assert_eq!(handled, json!(["denied", true]), "{}", language.path);
    }
}

#[test]
fn a_path_outside_the_project_is_a_kind_of_its_own_that_no_grant_mends() {
    for language in languages() {
        for (name, args) in [
            ("read_file", r#"["../x"]"#),
            ("read_file", r#"["/etc/passwd"]"#),
            ("asset", r#"["a/../../x"]"#),
            ("write", r#"["../x", "y"]"#),
            ("glob", r#"["/etc/*"]"#),
        ] {
            let function = functions().iter().find(|function| function.name == name).unwrap();
            for grants in [&[][..], &["read", "write", "exec"]] {
                let fixtures = Fixtures::new(function.example.fixtures).unwrap().providers();
                let answer = call_with(language, language.call, function, (name, args), grants, fixtures);
                let error = answer.unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::OutsideProject,
                    "{name}{args} in {}: {error}",
                    language.path
                );
                assert_eq!(
                    (error.missing(), error.hint(), error.kind().exit_code()),
                    (None, None, 4),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn json_comes_back_as_it_went_in() {
    let deep = (0..100).fold(json!([]), |inner, _| json!([inner]));
    for language in languages() {
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!({"a": null, "b": [null, [], {}, [[]], {"": {}}], "c": {"d": [1, 2.5, -3]}}),
            json!([1, "two", false, true, 1e300, -0.25]),
            json!([9_007_199_254_740_992_i64, -9_007_199_254_740_992_i64]),
            json!("grüße 😀 \u{0} \r\n"),
            json!(""),
            json!({"grüße": "", " ": 0}),
            json!("x".repeat(1 << 20)),
            deep.clone(),
        ] {
            let answer = run(language, language.echo, value.clone(), Limits::default());
            assert_eq!(answer.unwrap(), value, "{}", language.path);
        }
    }
}

#[test]
fn integers_are_exact_or_refused_and_never_rounded() {
    for language in languages() {
        let (largest, beyond) = language.exact;
        let answer = run(language, language.echo, json!([largest, -largest]), Limits::default());
        assert_eq!(answer.unwrap(), json!([largest, -largest]), "{}", language.path);
        let Some(beyond) = beyond else { continue };
        let error = run(language, language.echo, json!({"id": beyond}), Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}: {error}", language.path);
        assert!(error.message().starts_with("input.id"), "{}: {error}", language.path);
    }
}

#[test]
fn limits_mean_the_same_in_every_language() {
    let limits = || Limits::default().timeout(Duration::from_millis(300)).operations(u64::MAX);
    for language in languages() {
        let (memory, outgrown) = language.memory;
        for (source, limits, kind) in [
            (language.endless, limits(), ErrorKind::Timeout),
            (language.growing, Limits::default().memory(memory).operations(u64::MAX), outgrown),
            (language.flooding, Limits::default(), ErrorKind::Output),
            (language.too_much, Limits::default().output(1 << 16), ErrorKind::Output),
        ] {
            let started = Instant::now();
            let over = limits.timeout + Duration::from_millis(500);
            let error = run(language, source, Value::Null, limits).unwrap_err();
            assert_eq!(error.kind(), kind, "{source}: {error}");
            assert!(started.elapsed() < over, "{source}: {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_cancelled_run_ends_as_cancelled_in_every_language() {
    for language in languages() {
        let token = CancelToken::new();
        let project = tempfile::tempdir().unwrap();
        let context = SkillContext::builder("conformance")
            .project(Files::open(project.path()).unwrap())
            .limits(Limits::default().operations(u64::MAX))
            .cancel(token.clone())
            .build();
        let loaded = Loaded::new(language, language.endless).unwrap();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            token.cancel();
        });
        let error = loaded.executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
        canceller.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{}", language.path);
    }
}

/// Runs a script under limits, its deadline included.
fn run(language: &Language, source: &str, input: Value, limits: Limits) -> Result<Value> {
    let (watchdog, token) = (Watchdog::new(), CancelToken::new());
    let _armed = watchdog.arm(Instant::now() + limits.timeout, &token);
    let project = tempfile::tempdir().unwrap();
    let files = Files::open(project.path()).unwrap();
    let context = SkillContext::builder("conformance").project(files).limits(limits).cancel(token).build();
    let loaded = Loaded::new(language, source)?;
    Ok(loaded.executor.execute_with_context(input.into(), Some(&context))?.value)
}

/// A script, compiled, and where it lies: processes need a file.
struct Loaded {
    executor: Box<dyn SkillExecutor>,
    _folder: TempDir,
}

impl Loaded {
    fn new(language: &Language, source: &str) -> Result<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(language.path);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, source).unwrap();
        let (bytes, function) = match language.runtime {
            RuntimeId::WASM => (PLUG_IN, Some(source.to_owned())),
            _ => (source.as_bytes(), None),
        };
        let mut script = Script::new("conformance", language.path, bytes);
        (script.folder, script.function) = (Some(folder.path().into()), function);
        let executor = match METIER {
            Some(program) => metier::ScriptLoader::new()
                .helper(program)
                .execution_mode(language.mode)
                .load(language.runtime, &script),
            None => metier::ScriptLoader::new().compile_in_process(true).load(language.runtime, &script),
        };
        Ok(Self { executor: executor?, _folder: folder })
    }
}

/// The embedded languages again, in worker processes.
fn in_workers() -> impl Iterator<Item = &'static Language> {
    static IN_WORKERS: LazyLock<Vec<Language>> = LazyLock::new(|| {
        let embedded = |language: &&Language| language.runtime != RuntimeId::EXTERNAL;
        let can = METIER.is_some() && cfg!(all(feature = "sandboxed", target_os = "linux"));
        let embedded = LANGUAGES.iter().filter(embedded).filter(|_| can);
        embedded.map(|language| Language { mode: ExecutionMode::Worker, ..*language }).collect()
    });
    IN_WORKERS.iter()
}

/// The languages that can run here.
fn languages() -> impl Iterator<Item = &'static Language> {
    let lacks = |language: &Language| match language.needs? {
        "bash" if METIER.is_none() => Some("built without cli".to_owned()),
        command => find_program(command).is_none().then(|| format!("{command} is not on PATH")),
    };
    LANGUAGES.iter().chain(in_workers()).filter(move |language| {
        let lack = lacks(language);
        if let Some(reason) = &lack {
            not_run(&format!("conformance of {}", language.path), reason);
        }
        lack.is_none()
    })
}

fn call(
    language: &Language,
    source: &str,
    function: &HostFunction,
    name: &str,
    allow: &[&str],
) -> Result<Value> {
    let providers = Fixtures::new(function.example.fixtures).unwrap().providers();
    call_with(language, source, function, (name, function.example.args), allow, providers)
}

fn call_with(
    language: &Language,
    source: &str,
    function: &HostFunction,
    (name, args): (&str, &str),
    allow: &[&str],
    providers: Providers,
) -> Result<Value> {
    let folder = tempfile::tempdir().unwrap();
    let (project, skill) = (folder.path().join("project"), folder.path().join("skill"));
    lay_out(&project, &function.example);
    lay_out(&skill, &function.example);
    let permissions: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let context = SkillContext::builder("conformance")
        .project(Files::open(&project).unwrap())
        .skill_files(Files::open(&skill).unwrap())
        .permissions(Permissions::new(RequestedPermissions::All, permissions, PathProtection::default()))
        .providers(providers)
        .build();
    let quoted = format!("'{}'", args.replace('\'', r"'\''"));
    let args: Value = serde_json::from_str(args).unwrap();
    let source = source.replace("{{name}}", name).replace("{{args}}", &quoted);
    let input = SkillInput::from(json!({"name": name, "args": args}));
    Ok(Loaded::new(language, &source)?.executor.execute_with_context(input, Some(&context))?.value)
}

fn lay_out(root: &Path, example: &FunctionExample) {
    std::fs::create_dir_all(root).unwrap();
    for (path, content) in example.files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}
