//! The host API means the same in a plan as in every language: each row's example, called by the names of its parameters.

use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, Script, SkillInput};
use metier::host::{Files, Fixtures, HostFunction, SkillContext, functions};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::host::{AccessRule, RunContextBuilder};
use metier_core::policy::PathProtection;
use serde_json::{Map, Value, json};

/// What a plan of one step answers with that calls the function as its example does.
fn call_example(function: &HostFunction, name: &str, allow: &[&str]) -> Result<Value> {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in function.example.files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let given: Vec<Value> = serde_json::from_str(function.example.args).unwrap();
    let reference = |at: usize| Value::from(format!("$inputs.args[{at}]"));
    let args: Map<String, Value> = function
        .params
        .iter()
        .take(given.len())
        .enumerate()
        .map(|(at, param)| (param.name.to_owned(), reference(at)))
        .collect();
    let script = Script::new(
        "x",
        "scripts/sequence.json",
        json!([{"tool": name, "args": args}]).to_string().into_bytes(),
    );
    let granted: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let context = SkillContext::builder("x")
        .project(Files::open(folder.path()).unwrap())
        .skill_files(Files::open(folder.path()).unwrap())
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(Fixtures::new(function.example.fixtures).unwrap().providers())
        .build();
    let input = SkillInput::from(json!({"args": given}));
    Ok(metier::ScriptLoader::new()
        .load(RuntimeId::TOOL_SEQUENCE, &script)?
        .execute_with_context(input, Some(&context))?
        .value)
}

#[test]
fn every_example_gives_its_answer_under_every_name() {
    for function in functions() {
        let expected: Value = serde_json::from_str(function.example.answer).unwrap();
        for name in [function.name].iter().chain(function.aliases) {
            assert_eq!(call_example(function, name, function.example.grants).unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn every_function_that_needs_a_permission_is_refused_without_it() {
    let needs =
        |access| !matches!(access, AccessRule::Unrestricted | AccessRule::Read(_) | AccessRule::ReadRoot);
    for function in functions().iter().filter(|function| needs(function.access)) {
        let refused = call_example(function, function.name, &[]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{}: {refused}", function.name);
        assert!(refused.help().unwrap().starts_with("grant "), "{refused}");
    }
}
