//! Which script runs by a contract: the entrypoint, the named ones, and never one outside of the folder.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};

fn skill(contract: &str) -> Project {
    Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/a.lua", "return 'a'")
        .file(".metier/skills/x/scripts/b.lua", "return 'b'")
        .file(".metier/skills/x/lib/c.luau", "return 'c'")
        .file(".metier/skills/x/scripts/a.wasm", "a stand-in")
        .file("outside.lua", "return 'outside'")
        .contract("x", contract)
}

fn run_script(project: &Project, script: &str) -> metier::engine::Outcome {
    project.engine().run(Invocation::new("x").script(script))
}

/// The file and line of an error.
fn location(outcome: &metier::engine::Outcome) -> (String, Option<u32>) {
    let place = outcome.result.as_ref().unwrap_err().location().expect("a place");
    (place.file.clone(), place.line)
}

#[test]
fn the_entrypoint_runs_when_nobody_names_a_script() {
    assert_eq!(value(skill("entrypoint: scripts/b.lua").run(&[])), json!("b"));
    assert_eq!(value(skill("entrypoint: {path: lib/c.luau}").run(&[])), json!("c"));
    assert_eq!(value(skill("entrypoints: {only: scripts/b.lua}").run(&[])), json!("b"));
    assert_eq!(value(skill("entrypoints: {main: scripts/a.lua, other: scripts/b.lua}").run(&[])), json!("a"));
    assert_eq!(kind(&skill("name: x").run(&[])), ErrorKind::Usage, "several, and none is told");
}

#[test]
fn named_entrypoints_run_by_their_names_and_scripts_by_their_paths() {
    let project = skill("entrypoint: scripts/a.lua\nentrypoints: {check: scripts/b.lua, see: lib/c.luau}");
    for (name, answer) in
        [("check", "b"), ("see", "c"), ("main", "a"), ("scripts/b.lua", "b"), ("a.lua", "a")]
    {
        assert_eq!(value(run_script(&project, name)), json!(answer), "{name}");
    }
    let unknown = run_script(&project, "chekc");
    assert_eq!(kind(&unknown), ErrorKind::UnknownSkill);
    assert_eq!(unknown.result.unwrap_err().help(), Some("its entrypoints are check, see"));
}

#[test]
fn an_entrypoint_lies_in_the_folder() {
    for outside in ["../../../outside.lua", "/etc/passwd", "scripts/../../../../outside.lua"] {
        let outcome = skill(&format!("entrypoint: {outside}")).run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{outside}");
        assert!(sentence(&outcome).contains("is not a path in the skill's folder"), "{}", sentence(&outcome));
    }
    let linked = skill("entrypoint: scripts/linked.lua")
        .link("../../../../outside.lua", ".metier/skills/x/scripts/linked.lua");
    assert_eq!(kind(&linked.run(&[])), ErrorKind::InvalidSkill);
    let missing = skill("entrypoint: scripts/none.lua").run(&[]);
    assert_eq!(sentence(&missing), "skill x enters at scripts/none.lua, and has no such file");
    assert_eq!(location(&missing), ("skill.yaml".to_owned(), Some(1)));
    let above =
        Project::new().skill("x", "metadata:\n  entrypoint: scripts/none.lua\n").contract("x", "name: x");
    assert_eq!(location(&above.run(&[])), ("SKILL.md".to_owned(), Some(5)));
}

#[test]
fn the_runtime_is_the_contracts_word() {
    let project = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/main.txt", "return 'lua after all'")
        .contract("x", "runtime: lua\nentrypoint: scripts/main.txt");
    assert_eq!(value(project.run(&[])), json!("lua after all"));
    for (contract, line) in [
        ("name: x\nruntime: cobol\nentrypoint: scripts/a.lua", 2),
        ("name: x\nentrypoint:\n  path: scripts/a.lua\n  runtime: cobol", 3),
    ] {
        let unknown = skill(contract).run(&[]);
        assert_eq!(
            (kind(&unknown), sentence(&unknown)),
            (ErrorKind::InvalidSkill, "no runtime is called `cobol`".into())
        );
        assert_eq!(location(&unknown), ("skill.yaml".to_owned(), Some(line)));
    }
    let named_above =
        Project::new().skill("x", "runtime: cobol\n").file(".metier/skills/x/scripts/a.lua", "");
    assert_eq!(location(&named_above.run(&[])), ("SKILL.md".to_owned(), Some(4)));
}

#[test]
fn a_function_is_handed_to_the_runtime_that_can_call_it() {
    use metier::executor::{RuntimeId, Script, SkillInput, SkillOutput};
    struct Says(Option<String>);
    impl metier::executor::SkillExecutor for Says {
        fn execute_with_context(
            &self,
            _: SkillInput,
            _: Option<&metier::host::SkillContext>,
        ) -> metier::error::Result<SkillOutput> {
            Ok(json!(self.0).into())
        }
    }
    let project = skill(
        "entrypoint: {path: scripts/a.wasm, function: first}\nentrypoints: {b: {path: scripts/a.wasm, function: second}, c: scripts/a.wasm}",
    );
    let load = |script: &Script| {
        Ok(Box::new(Says(script.function.clone())) as Box<dyn metier::executor::SkillExecutor>)
    };
    let engine = project.builder().runtime(RuntimeId::WASM, &[], load).build().unwrap();
    let run = |name: Option<&str>| {
        let invocation = Invocation::new("x");
        value(engine.run(match name {
            Some(name) => invocation.script(name),
            None => invocation,
        }))
    };
    assert_eq!((run(None), run(Some("b")), run(Some("c"))), (json!("first"), json!("second"), json!(null)));
    let process = skill("entrypoint: {path: scripts/a.lua, function: first, runtime: external}").run(&[]);
    assert_eq!(kind(&process), ErrorKind::InvalidSkill, "what cannot be entered so is not entered otherwise");
    assert_eq!(location(&process), ("skill.yaml".to_owned(), Some(1)));
}

#[test]
fn an_entrypoint_is_the_path_as_it_is_written() {
    let above = Project::lua("return 1").contract("x", "version: 1.0.0");
    let above = above.file(
        ".metier/skills/x/SKILL.md",
        "---\nname: x\ndescription: d\nmetadata:\n  entrypoint: main.lua\n---\n",
    );
    for project in [Project::with_contract("entrypoint: main.lua", "return 1"), above] {
        let outcome = project.run(&[]);
        assert_eq!(sentence(&outcome), "skill x enters at main.lua, and has no such file");
        assert_eq!(outcome.result.unwrap_err().help(), Some("write scripts/main.lua"));
        assert_eq!(value(run_script(&project, "main.lua")), json!(1), "a script is named without its folder");
    }
}
