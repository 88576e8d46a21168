//! The host API means the same in every language: each row's example, run in each, against one answer.

use std::path::Path;

use metier::error::{ErrorKind, Result};
use metier::executor::{Script, SkillInput, SkillRuntime};
use metier::host::{Example, Files, HostFunction, SkillContext, functions};
use metier::policy::{Asked, Permission, Permissions, Protection};
use serde_json::{Value, json};

/// A language, and a script in it that calls the function named by `input.name` with the list `input.args`.
const LANGUAGES: &[(SkillRuntime, &str)] = &[
    #[cfg(feature = "lua-runtime")]
    (SkillRuntime::Lua, "local args = input.args return ctx[input.name](table.unpack(args, 1, #args))"),
    #[cfg(feature = "rhai-runtime")]
    (
        SkillRuntime::Rhai,
        "let f = Fn(input.name);
        let a = input.args;
        switch a.len() {
            0 => f.call(ctx),
            1 => f.call(ctx, a[0]),
            2 => f.call(ctx, a[0], a[1]),
            3 => f.call(ctx, a[0], a[1], a[2]),
            4 => f.call(ctx, a[0], a[1], a[2], a[3]),
        }",
    ),
];

#[test]
fn every_example_gives_its_answer_in_every_language() {
    for (language, source) in LANGUAGES {
        for function in functions() {
            let answer = call(*language, source, function, function.name, function.example.allow);
            let expected: Value = serde_json::from_str(function.example.answer).unwrap();
            assert_eq!(answer.unwrap(), expected, "{} in {language}", function.name);
        }
    }
}

#[test]
fn every_function_that_changes_files_is_refused_without_its_grant() {
    for (language, source) in LANGUAGES {
        let changing = functions().iter().filter(|function| !function.example.allow.is_empty());
        let mut refused = 0;
        for function in changing {
            let error = call(*language, source, function, function.name, &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{} in {language}: {error}", function.name);
            assert!(error.message().contains("not permitted; "), "{error}");
            assert!(error.message().contains("--allow write"), "{error}");
            refused += 1;
        }
        assert!(refused >= 5, "write, append, mkdir, edit, remove");
    }
}

#[test]
fn a_refusal_a_script_handles_is_no_failure() {
    for (language, source) in LANGUAGES {
        let write = functions().iter().find(|function| function.name == "write").unwrap();
        let error = call(*language, source, write, "write", &[]).unwrap_err();
        assert!(error.location().is_some_and(|at| at.file == "scripts/main"), "{error:?}");
    }
    #[cfg(feature = "lua-runtime")]
    {
        let handled = "local ok, e = pcall(ctx.write, 'a.txt', 'x') return {ok, e.kind}";
        let write = functions().iter().find(|function| function.name == "write").unwrap();
        assert_eq!(call(SkillRuntime::Lua, handled, write, "write", &[]).unwrap(), json!([false, "denied"]));
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
        .build();
    let script = Script {
        skill: "conformance".into(),
        path: "scripts/main".into(),
        folder: None,
        source: source.as_bytes().into(),
        function: None,
    };
    let args: Value = serde_json::from_str(function.example.args).unwrap();
    let input = SkillInput::from(json!({"name": name, "args": args}));
    Ok(metier::load(language, &script)?.execute_with_context(input, Some(&context))?.value)
}

fn lay_out(root: &Path, example: &Example) {
    std::fs::create_dir_all(root).unwrap();
    for (path, content) in example.files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}
