//! The host API means the same in every language: each row's example, run in each, against one answer.
#![cfg(any(feature = "lua-runtime", feature = "rhai-runtime"))]
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, Result};
use metier::executor::{Script, SkillInput, SkillRuntime};
use metier::host::{Access, Canned, Example, Files, HostFunction, SkillContext, functions};
use metier::policy::{Asked, CancelToken, Limits, Permission, Permissions, Protection, Watchdog};
use serde_json::{Value, json};

/// A language, and in it: a script that calls the function named by `input.name` with the list `input.args`, one that
/// answers with its input, and the same promises broken in the ways every language knows.
struct Language {
    runtime: SkillRuntime,
    call: &'static str,
    echo: &'static str,
    handled: &'static str,
    endless: &'static str,
    growing: &'static str,
    flooding: &'static str,
    too_much: &'static str,
    /// The largest integer it holds exactly, and the next one, which it refuses.
    exact: (i64, u64),
}

const LANGUAGES: &[Language] = &[
    #[cfg(feature = "lua-runtime")]
    Language {
        runtime: SkillRuntime::Lua,
        call: "local args = input.args return ctx[input.name](table.unpack(args, 1, #args))",
        echo: "return input",
        handled: "local ok, e = pcall(ctx.write, 'a.txt', 'x') return {e.kind, e.message == tostring(e)}",
        endless: "while true do pcall(function() while true do end end) end",
        growing: "local t = {} while true do t[#t + 1] = {#t} end",
        flooding: "while true do print(('x'):rep(1000)) end",
        too_much: "local t = {1} for i = 1, 20 do t = {t, t} end return t",
        exact: (1 << 53, (1 << 53) + 1),
    },
    #[cfg(feature = "rhai-runtime")]
    Language {
        runtime: SkillRuntime::Rhai,
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
        flooding: "let s = \"\"; s.pad(1000, 'x'); loop { print(s); }",
        too_much: "let a = [1]; for i in 0..20 { a = [a, a]; } a",
        exact: (i64::MAX, i64::MAX as u64 + 1),
    },
];

#[test]
fn every_example_gives_its_answer_in_every_language() {
    for language in LANGUAGES {
        for function in functions() {
            let answer =
                call(language.runtime, language.call, function, function.name, function.example.allow);
            let expected: Value = serde_json::from_str(function.example.answer).unwrap();
            assert_eq!(answer.unwrap(), expected, "{} in {}", function.name, language.runtime);
        }
    }
}

#[test]
fn every_function_that_needs_a_permission_is_refused_without_it_in_the_same_words() {
    let needs = |access| !matches!(access, Access::Free | Access::Read(_) | Access::ReadRoot);
    for function in functions().iter().filter(|function| needs(function.access)) {
        // The example may be granted less than the remedy names: `write:out`, where `write` is what a person would grant.
        let permission = match function.access {
            Access::Write(_) => "write",
            _ => function.example.allow.first().expect(function.name),
        };
        let sentences = LANGUAGES.iter().map(|language| {
            let error = call(language.runtime, language.call, function, function.name, &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{} in {}: {error}", function.name, language.runtime);
            let way_out = format!("run with --allow {permission}");
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
    for language in LANGUAGES {
        let write = functions().iter().find(|function| function.name == "write").unwrap();
        let error = call(language.runtime, language.call, write, "write", &[]).unwrap_err();
        assert!(error.location().is_some_and(|at| at.file == "scripts/main"), "{error:?}");
        let handled = call(language.runtime, language.handled, write, "write", &[]).unwrap();
        assert_eq!(handled, json!(["denied", true]), "{}", language.runtime);
    }
}

#[test]
fn json_comes_back_as_it_went_in() {
    let deep = (0..100).fold(json!([]), |inner, _| json!([inner]));
    for language in LANGUAGES {
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
            assert_eq!(answer.unwrap(), value, "{}", language.runtime);
        }
    }
}

#[test]
fn integers_are_exact_or_refused_and_never_rounded() {
    for language in LANGUAGES {
        let (largest, beyond) = language.exact;
        let answer = run(language, language.echo, json!([largest, -largest]), Limits::default());
        assert_eq!(answer.unwrap(), json!([largest, -largest]), "{}", language.runtime);
        let error = run(language, language.echo, json!({"id": beyond}), Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}: {error}", language.runtime);
        assert!(error.message().starts_with("input.id"), "{}: {error}", language.runtime);
    }
}

#[test]
fn limits_mean_the_same_in_every_language() {
    let limits = || Limits::default().deadline(Duration::from_millis(300)).operations(u64::MAX);
    for language in LANGUAGES {
        for (source, limits, kind) in [
            (language.endless, limits(), ErrorKind::Deadline),
            (language.growing, Limits::default().memory(1 << 20).operations(u64::MAX), ErrorKind::Memory),
            (language.flooding, Limits::default(), ErrorKind::Output),
            (language.too_much, Limits::default().output(1 << 16), ErrorKind::Output),
        ] {
            let started = Instant::now();
            let over = limits.deadline + Duration::from_millis(500);
            let error = run(language, source, Value::Null, limits).unwrap_err();
            assert_eq!(error.kind(), kind, "{source}: {error}");
            assert!(started.elapsed() < over, "{source}: {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_cancelled_run_ends_as_cancelled_in_every_language() {
    for language in LANGUAGES {
        let token = CancelToken::new();
        let context = SkillContext::builder("conformance")
            .limits(Limits::default().operations(u64::MAX))
            .cancel(token.clone())
            .build();
        let executor = metier::load(language.runtime, &script(language.endless)).unwrap();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            token.cancel();
        });
        let error = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
        canceller.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{}", language.runtime);
    }
}

/// Runs a script under limits, its deadline included.
fn run(language: &Language, source: &str, input: Value, limits: Limits) -> Result<Value> {
    let (watchdog, token) = (Watchdog::new(), CancelToken::new());
    let _armed = watchdog.arm(Instant::now() + limits.deadline, &token);
    let context = SkillContext::builder("conformance").limits(limits).cancel(token).build();
    let executor = metier::load(language.runtime, &script(source))?;
    Ok(executor.execute_with_context(input.into(), Some(&context))?.value)
}

fn script(source: &str) -> Script {
    Script {
        skill: "conformance".into(),
        path: "scripts/main".into(),
        folder: None,
        source: source.as_bytes().into(),
        function: None,
    }
}

fn call(
    language: SkillRuntime,
    source: &str,
    function: &HostFunction,
    name: &str,
    allow: &[&str],
) -> Result<Value> {
    let folder = tempfile::tempdir().unwrap();
    let (project, skill) = (folder.path().join("project"), folder.path().join("skill"));
    lay_out(&project, &function.example);
    lay_out(&skill, &function.example);
    let permissions: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let context = SkillContext::builder("conformance")
        .project(Files::open(&project).unwrap())
        .skill_files(Files::open(&skill).unwrap())
        .permissions(Permissions::new(Asked::Everything, permissions, Protection::default()))
        .providers(Canned::new(function.example.given).unwrap().providers())
        .build();
    let args: Value = serde_json::from_str(function.example.args).unwrap();
    let input = SkillInput::from(json!({"name": name, "args": args}));
    Ok(metier::load(language, &script(source))?.execute_with_context(input, Some(&context))?.value)
}

fn lay_out(root: &Path, example: &Example) {
    std::fs::create_dir_all(root).unwrap();
    for (path, content) in example.files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}
