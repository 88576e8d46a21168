//! Runtimes of an embedder: `calc`, whose scripts are sums such as `1 + n`, beside those of metier.

use std::time::{Duration, Instant};

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome, Runtime};
use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput, SkillOutput};
use metier::host::SkillContext;
use metier::policy::{ExecutionMode, Limits, RuntimeLimit};
use serde_json::{Value, json};

use crate::support::engine::{Project, deadline, granted, kind, sentence, value, write};

/// A sum of integers and keys of the input; some words do what an executor should not.
struct Calc(String);

impl SkillExecutor for Calc {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let (input, context) = (input.value_or_empty(), context.unwrap());
        let mut sum = 0;
        for term in self.0.split('+').map(str::trim) {
            sum += match term.split_once(' ').unwrap_or((term, "")) {
                ("panic", _) => panic!("on purpose"),
                ("sleep", milliseconds) => {
                    std::thread::sleep(Duration::from_millis(milliseconds.parse().unwrap()));
                    0
                }
                ("until-stopped", _) => loop {
                    context.cancel().check()?;
                    std::thread::sleep(Duration::from_millis(1));
                },
                ("memory-limit", _) => context.limits().memory.unwrap_or_default(),
                ("size", path) => {
                    context.call("read_file", vec![json!(path)])?.as_str().unwrap().len() as u64
                }
                ("write", path) => context.call("write", vec![json!(path), json!("x")]).map(|_| 0)?,
                ("skill", name) => context.call("skill", vec![json!(name)])?.as_u64().unwrap(),
                (term, _) => term.parse().ok().or(input[term].as_u64()).ok_or_else(|| {
                    SkillError::new(ErrorKind::Script, format!("{term} is neither a number nor in the input"))
                })?,
            };
        }
        Ok(json!(sum).into())
    }
}

fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    let source = String::from_utf8_lossy(&script.source).trim().to_owned();
    match source.as_str() {
        "load: panic" => panic!("on purpose"),
        "load: fail" => {
            Err(SkillError::new(ErrorKind::InvalidSkill, format!("{} is not a sum", script.path)))
        }
        "load: sleep" => {
            std::thread::sleep(Duration::from_millis(300));
            Ok(Box::new(Calc("1".into())))
        }
        _ => Ok(Box::new(Calc(source))),
    }
}

/// An engine that knows `calc`.
pub fn with_calc(project: &Project) -> EngineBuilder {
    project.builder().runtime("calc", &["calc"], load)
}

fn engine(project: &Project) -> Engine {
    with_calc(project).build().unwrap()
}

impl Project {
    /// A project with one skill called `x`, whose only script is this sum.
    fn calc(script: &str) -> Self {
        Self::new().skill("x", "").file(".metier/skills/x/scripts/main.calc", script)
    }

    fn run_calc(&self, input: Value) -> Outcome {
        engine(self).run(Invocation::new("x").input(input))
    }
}

fn run(script: &str) -> Outcome {
    Project::calc(script).run_calc(json!({}))
}

#[test]
fn an_own_runtime_is_selected_by_the_extension_of_a_script() {
    let project = Project::calc("1 + n");
    assert_eq!(value(project.run_calc(json!({"n": 41}))), json!(42));
    let upper = Project::new().skill("x", "").file(".metier/skills/x/scripts/Sum.CALC", "2");
    assert_eq!(value(upper.run_calc(json!({}))), json!(2));
    let beside = Project::calc("3").file(".metier/skills/x/scripts/notes.md", "");
    assert_eq!(value(beside.run_calc(json!({}))), json!(3), "what nothing runs is not a script");
    let outcome = project.engine().run(Invocation::new("x"));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable, "another engine knows no such extension");
}

#[test]
fn an_own_runtime_is_selected_by_its_name() {
    let named = |frontmatter: &str| {
        let project = Project::new().skill("x", frontmatter);
        project.file(".metier/skills/x/scripts/sum.txt", "4 + n").run_calc(json!({"n": 1}))
    };
    assert_eq!(value(named("metadata:\n  runtime: calc\n  entrypoint: scripts/sum.txt\n")), json!(5));
    let project = Project::calc("6").skill("x", "runtime: calc\n");
    assert_eq!(value(project.run_calc(json!({}))), json!(6));
    let outcome = project.engine().run(Invocation::new("x"));
    assert_eq!(sentence(&outcome), "no runtime is called `calc`", "in an engine without it");
}

#[test]
fn a_name_alone_is_no_runtime() {
    let calc = RuntimeId::new("calc");
    assert_eq!(metier::supports(calc).unwrap_err().kind(), ErrorKind::Unavailable);
    let script = Script::new("x", "a.calc", *b"1");
    let error = metier::ScriptLoader::new().load(calc, &script).err().unwrap();
    assert_eq!(error.to_string(), "no runtime called `calc` is registered");
}

#[test]
fn a_contract_names_it_and_validates_what_goes_in_and_comes_out() {
    let contract = |more: &str| {
        let contract = format!(
            "runtime: calc\nentrypoint: scripts/main.calc\ninputs: {{n: {{type: integer, maximum: 10, default: 7}}}}\noutputs: {{type: integer, maximum: 9}}\n{more}"
        );
        Project::calc("n + 1").file(".metier/skills/x/skill.yaml", contract)
    };
    let project = contract("");
    assert_eq!(value(project.run_calc(json!({}))), json!(8), "with the default");
    assert_eq!(kind(&project.run_calc(json!({"n": 11}))), ErrorKind::InvalidInput);
    assert_eq!(kind(&project.run_calc(json!({"n": 10}))), ErrorKind::InvalidOutput);
    let function = Project::calc("1")
        .file(".metier/skills/x/skill.yaml", "entrypoint: {path: scripts/main.calc, function: main}\n");
    let outcome = function.run_calc(json!({}));
    assert!(sentence(&outcome).contains("calc scripts run from their first line"), "{outcome:?}");
}

#[test]
fn entrypoints_are_in_it_beside_those_in_other_languages() {
    let project = Project::calc("1").file(".metier/skills/x/scripts/two.calc", "2").file(
        ".metier/skills/x/skill.yaml",
        "entrypoint: scripts/main.calc\nentrypoints: {two: scripts/two.calc, three: scripts/three.lua, four: {path: scripts/four.txt, runtime: calc}}\n",
    );
    let project = project
        .file(".metier/skills/x/scripts/three.lua", "return 3")
        .file(".metier/skills/x/scripts/four.txt", "4");
    let engine = engine(&project);
    for (name, expected) in [("two", 2), ("three", 3), ("four", 4), ("scripts/two.calc", 2)] {
        assert_eq!(value(engine.run(Invocation::new("x").script(name))), json!(expected), "{name}");
    }
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(1));
}

#[test]
fn a_script_in_another_language_than_the_declared_runtime_is_refused() {
    for (runtime, script) in [("calc", "main.lua"), ("lua", "main.calc")] {
        let frontmatter = format!("runtime: {runtime}\nmetadata:\n  entrypoint: scripts/{script}\n");
        let project =
            Project::new().skill("x", &frontmatter).file(&format!(".metier/skills/x/scripts/{script}"), "1");
        let outcome = project.run_calc(json!({}));
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{runtime}: {outcome:?}");
        assert!(sentence(&outcome).contains(&format!("says runtime: {runtime}")), "{outcome:?}");
    }
}

#[test]
fn an_unknown_runtime_is_corrected_by_spelling_or_by_the_list_of_all() {
    for (name, help) in [
        ("clac", "did you mean `calc`?"),
        ("cobol", "the runtimes are lua, rhai, wasm, tool-sequence, http-call, external, calc"),
    ] {
        let project = Project::calc("1").skill("x", &format!("runtime: {name}\n"));
        let error = project.run_calc(json!({})).result.unwrap_err();
        assert_eq!((error.kind(), error.help()), (ErrorKind::InvalidSkill, Some(help)), "{name}");
    }
}

#[test]
fn availability_explain_and_diagnosis_know_it() {
    let project = Project::calc("1");
    let engine = engine(&project);
    let registry = engine.registry();
    let skill = registry.find("x").unwrap();
    let availability = engine.availability(skill);
    assert_eq!((availability.runtime.unwrap().name(), availability.is_runnable()), ("calc", true));
    let explanation = engine.explain(&Invocation::new("x")).unwrap();
    assert_eq!((explanation.runtime, explanation.script.as_str()), ("calc".into(), "scripts/main.calc"));
    assert!(explanation.reason.is_none() && explanation.sandbox.is_none(), "{explanation:?}");
    assert_eq!(serde_json::to_value(&explanation).unwrap()["runtime"], "calc");
    let diagnosis = engine.diagnosis();
    let report = serde_json::to_value(diagnosis.runtimes.last().unwrap()).unwrap();
    assert_eq!(report, json!({"name": "calc", "extensions": ["calc"], "available": true}));
    let is_about_skills = |message: &str| message.contains("cannot run");
    assert!(!diagnosis.findings.iter().any(|finding| is_about_skills(&finding.message)), "{diagnosis:?}");
    let without = project.builder().build().unwrap();
    assert!(!without.availability(skill).is_runnable());
    let needs = Project::calc("1").skill("x", "runtime: calc\n").engine().diagnosis().findings;
    assert!(needs.iter().any(|finding| is_about_skills(&finding.message)), "{needs:?}");
}

#[test]
fn what_is_taken_or_malformed_is_refused_when_the_engine_is_built() {
    let project = Project::new();
    let refused = |builder: EngineBuilder| {
        let error = builder.build().map(drop).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.help().is_some(), "{error:?}");
        error.to_string()
    };
    let extension =
        |extension: &'static str| refused(project.builder().runtime("calc", &["ok", extension], load));
    for taken in ["lua", "LUAU", "rhai", "Wat"] {
        let sentence = extension(taken);
        assert!(
            sentence.contains(&format!("files that end in .{taken} belong to the runtime")),
            "{sentence}"
        );
    }
    for malformed in ["", ".calc", "a.b", "a/b", "a\\b", "a b", "\u{1b}[2J", "ä"] {
        let sentence = extension(malformed);
        assert!(sentence.ends_with("is not the extension of a file"), "{sentence}");
        assert!(!sentence.contains('\u{1b}'), "{sentence:?}");
    }
    let too_long: &'static str = Box::leak("a".repeat(65).into_boxed_str());
    for malformed in ["", "Calc", "cal c", "c/d", "calc\n", "\u{1b}[2J", "kalkül", too_long] {
        let sentence = refused(project.builder().runtime(malformed, &["calc"], load));
        assert!(sentence.ends_with("no runtime can have this name"), "{sentence}");
        assert!(!sentence.contains(char::is_control), "{sentence:?}");
    }
    assert!(
        refused(with_calc(&project).runtime("calc", &["other"], load)).contains("another one has its name")
    );
    let two = with_calc(&project).runtime("sum", &["CALC"], load);
    assert!(refused(two).contains("files that end in .CALC belong to the runtime calc"));
    let both = project.builder().runtime("lua", &[], load).runtime("lua", &[], load);
    assert!(refused(both).contains("the runtime lua: another one has its name"));
    assert!(project.builder().runtime(&too_long[1..], &["c++"], load).build().is_ok());
}

#[test]
fn a_built_in_runtime_is_replaced_and_keeps_its_extensions() {
    let project = Project::lua("1 + 1").skill("y", "").file(".metier/skills/y/scripts/main.sum", "3");
    let engine = project.builder().runtime(RuntimeId::LUA, &["sum", "lua"], load).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(2));
    assert_eq!(value(engine.run(Invocation::new("y"))), json!(3));
    let lua = engine.runtimes().iter().next().unwrap();
    assert_eq!((lua.id(), lua.file_extensions()), (RuntimeId::LUA, &["lua", "luau", "sum"][..]));
    assert_eq!(engine.explain(&Invocation::new("y")).unwrap().runtime, RuntimeId::LUA);
}

#[test]
fn an_extension_of_an_interpreter_can_be_taken_and_a_plan_keeps_its_file() {
    let project = Project::new()
        .skill("python", "")
        .file(".metier/skills/python/scripts/main.py", "5")
        .skill("data", "")
        .file(".metier/skills/data/scripts/main.json", "6")
        .skill("plan", "")
        .file(".metier/skills/plan/scripts/sequence.json", r#"[{"skill": "python"}]"#);
    let engine = project.builder().runtime("calc", &["py", "json"], load).build().unwrap();
    for (name, expected) in [("python", 5), ("data", 6), ("plan", 5)] {
        let outcome = engine.run(granted(Invocation::new(name), &["skill:python"]));
        assert_eq!(value(outcome), json!(expected), "{name}");
    }
}

#[test]
fn plans_and_scripts_call_its_skills_and_it_calls_theirs() {
    let project = Project::calc("1 + n")
        .skill("plan", "allowed-tools: skill:x\n")
        .file(
            ".metier/skills/plan/scripts/sequence.json",
            r#"[{"skill": "x", "args": {"n": 1}}, {"skill": "x", "args": {"n": "$result[0]"}}]"#,
        )
        .skill("script", "allowed-tools: skill:x\n")
        .file(".metier/skills/script/scripts/main.lua", "return ctx.skill('x', {n = 9})")
        .skill("caller", "allowed-tools: skill:plan skill:x\n")
        .file(".metier/skills/caller/scripts/main.calc", "100 + skill plan");
    let engine = engine(&project);
    let grants = ["skill:x", "skill:plan"];
    for (name, expected) in [("plan", 3), ("script", 10), ("caller", 103)] {
        let outcome = engine.run(granted(Invocation::new(name), &grants));
        assert_eq!(value(outcome), json!(expected), "{name}");
    }
    let explanation = engine.explain(&granted(Invocation::new("plan"), &grants)).unwrap();
    let callee = explanation.callees.iter().find(|callee| callee.skill.contains(":x@")).unwrap();
    assert_eq!(callee.runtime.map(RuntimeId::name), Some("calc"), "{explanation:?}");
}

#[test]
fn its_scripts_get_what_they_request_and_the_caller_grants() {
    let project = Project::calc("size a.txt + write out.txt");
    write(&project.path("a.txt"), "four");
    let write_granted = || granted(Invocation::new("x"), &["write"]);
    assert_eq!(kind(&engine(&project).run(write_granted())), ErrorKind::Denied, "not requested");
    let project = project.skill("x", "allowed-tools: write\n");
    assert_eq!(kind(&engine(&project).run(Invocation::new("x"))), ErrorKind::Denied, "not granted");
    assert!(!project.path("out.txt").exists());
    assert_eq!(value(engine(&project).run(write_granted())), json!(4));
    assert_eq!(project.read("out.txt"), "x");
}

#[test]
fn its_executors_are_stopped_and_their_panics_caught_like_those_of_metier() {
    let outcome = run("panic");
    assert_eq!(
        (kind(&outcome), sentence(&outcome).as_str()),
        (ErrorKind::Script, "the runtime panicked: on purpose")
    );
    for (script, longest) in [("until-stopped", 1000), ("1 + sleep 2000", 3000)] {
        let project = Project::calc(script);
        let began = Instant::now();
        let outcome = engine(&project).run(Invocation::new("x").limits(deadline(100)));
        assert_eq!(
            (kind(&outcome), outcome.limits.hit),
            (ErrorKind::Timeout, Some(ErrorKind::Timeout)),
            "{script}"
        );
        assert!(began.elapsed() < Duration::from_millis(longest), "{script}: {:?}", began.elapsed());
    }
    assert_eq!(kind(&run("nothing")), ErrorKind::Script);
}

#[test]
fn its_loader_may_panic_fail_or_be_late() {
    let outcome = run("load: panic");
    assert_eq!(
        (kind(&outcome), sentence(&outcome).as_str()),
        (ErrorKind::Script, "the runtime panicked: on purpose")
    );
    let outcome = run("load: fail");
    assert_eq!(
        (kind(&outcome), sentence(&outcome).as_str()),
        (ErrorKind::InvalidSkill, "scripts/main.calc is not a sum")
    );
    let project = Project::calc("load: sleep");
    let engine = engine(&project);
    assert_eq!(kind(&engine.run(Invocation::new("x").limits(deadline(100)))), ErrorKind::Timeout);
    assert_eq!(value(engine.run(Invocation::new("x").limits(deadline(10_000)))), json!(1));
}

#[test]
fn limits_that_it_does_not_enforce_are_reported_as_not_applied() {
    let named = || {
        let limits = Limits::default().memory(1 << 20).operations(9).cpu(Duration::from_secs(1));
        Invocation::new("x").limits(limits.file_size(5).open_files(6))
    };
    let project = Project::calc("memory-limit");
    let outcome = engine(&project).run(named());
    let unsupported =
        [RuntimeLimit::Memory, RuntimeLimit::Operations, RuntimeLimit::Cpu, RuntimeLimit::OpenFiles];
    assert_eq!(outcome.limits.not_applied, unsupported);
    assert!(outcome.log.iter().any(|line| line.message.contains("the runtime calc does not enforce it")));
    assert_eq!(value(outcome), json!(0), "so its executor does not see one");
    assert_eq!(engine(&project).explain(&named()).unwrap().limits.not_applied.len(), 4);
    let enforces =
        Runtime::new("calc", load).extensions(&["calc"]).enforces(&[RuntimeLimit::Memory, RuntimeLimit::Cpu]);
    let outcome = project.builder().runtime_with(enforces).build().unwrap().run(named());
    assert_eq!(outcome.limits.not_applied, [RuntimeLimit::Operations, RuntimeLimit::OpenFiles]);
    assert_eq!(value(outcome), json!(1 << 20));
}

#[test]
fn a_file_that_it_writes_through_the_host_has_the_limit_of_a_file() {
    let project = Project::calc("write out.txt").skill("x", "allowed-tools: write\n");
    let invocation = granted(Invocation::new("x"), &["write"]).limits(Limits::default().file_size(0));
    assert!(engine(&project).run(invocation).result.is_err());
    assert_eq!(project.read("out.txt"), "");
}

#[test]
fn it_runs_in_this_process_where_lua_runs_in_a_worker() {
    let project = Project::calc("7");
    let engine = with_calc(&project).execution_mode(ExecutionMode::Worker).build().unwrap();
    let outcome = engine.run(Invocation::new("x"));
    assert!(outcome.process.is_none() && outcome.sandbox.is_none(), "{outcome:?}");
    assert_eq!(value(outcome), json!(7));
}

#[test]
fn a_skill_cannot_choose_a_runtime_by_a_hostile_name() {
    let long = "c".repeat(5000);
    for name in ["calc\\u001b[2J", "calc\\u0000", "\\u202ecalc", "CALC", " calc\\n", "../calc", &long] {
        for (path, text) in [
            ("SKILL.md", format!("---\nname: x\ndescription: d\nruntime: \"{name}\"\n---\n")),
            ("skill.yaml", format!("runtime: \"{name}\"\n")),
            ("skill.yaml", format!("entrypoint: {{path: scripts/main.calc, runtime: \"{name}\"}}\n")),
        ] {
            let project = Project::calc("1").file(&format!(".metier/skills/x/{path}"), &text);
            let outcome = project.run_calc(json!({}));
            // White space around a name in SKILL.md is not part of it.
            if name == " calc\\n" && outcome.result.is_ok() {
                continue;
            }
            let (kind, sentence) = (kind(&outcome), sentence(&outcome));
            assert!(matches!(kind, ErrorKind::InvalidSkill), "{text}: {sentence}");
            let is_hidden = |c: char| c.is_control() || c == '\u{202e}';
            assert!(!sentence.contains(is_hidden) && sentence.len() < 1000, "{text}: {sentence:?}");
        }
    }
}
