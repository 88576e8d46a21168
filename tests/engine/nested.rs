//! Skills that call skills: what they may do, how long, how deep, and what their caller hears.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::{Invocation, Outcome};
use metier::error::ErrorKind;
use metier::host::{Event, EventKind, Observer};
use metier::policy::{CancelToken, Limits};
use serde_json::json;

use crate::support::engine::{ENDLESS, Project, deadline, granted, kind, sentence, value};

impl Project {
    /// Adds a skill that asks for these permissions and has this Lua script.
    fn callee(self, name: &str, asks: &str, script: &str) -> Self {
        let asks = if asks.is_empty() { String::new() } else { format!("allowed-tools: {asks}\n") };
        self.skill(name, &asks).file(&format!(".metier/skills/{name}/scripts/main.lua"), script)
    }
}

const CALLS_Y: &str = "return ctx.skill('y', input)";
const WRITES: &str = "ctx.write('out.txt', 'y was here') return true";

#[test]
fn a_skill_calls_another_with_an_input_and_gets_its_value() {
    let project = Project::lua_with_tools("skill:y", "return {ctx.skill('y', {n = 20}), ctx.skill('y')}")
        .callee("y", "", "return {got = input, sum = (input.n or 0) + 1}");
    let answer = value(project.run(&["skill:y"]));
    assert_eq!(answer, json!([{"got": {"n": 20}, "sum": 21}, {"got": {}, "sum": 1}]));
}

#[test]
fn a_callee_may_what_it_asks_and_its_caller_may() {
    for (caller_asks, callee_asks, grants, may) in [
        ("skill:y write", "write", &["skill:y", "write"][..], true),
        ("skill:y write:out.txt", "write", &["skill:y", "write"], true),
        ("skill:y", "write", &["skill:y", "write"], false),
        ("skill:y write", "", &["skill:y", "write"], false),
        ("skill:y write", "write", &["skill:y"], false),
        ("skill:y write", "write:src", &["skill:y", "write"], false),
        ("skill:y write:src", "write", &["skill:y", "write"], false),
        ("write", "write", &["skill:y", "write"], false),
        ("skill:y write", "write", &["write"], false),
        ("skill:y write", "write", &["skill:Y", "write"], false),
    ] {
        let project = Project::lua_with_tools(caller_asks, CALLS_Y).callee("y", callee_asks, WRITES);
        let outcome = project.run(grants);
        let case = format!("{caller_asks} / {callee_asks} / {grants:?}: {:?}", outcome.result);
        assert_eq!(outcome.result.is_ok(), may, "{case}");
        assert_eq!(project.path("out.txt").exists(), may, "{case}");
        assert!(may || kind(&outcome) == ErrorKind::Denied, "{case}");
    }
}

#[test]
fn permissions_narrow_two_levels_down() {
    for (asks, may) in [
        (["skill:y skill:z write", "skill:z write", "write"], true),
        (["skill:y skill:z", "skill:z write", "write"], false),
        (["skill:y skill:z write", "skill:z", "write"], false),
        (["skill:y skill:z write", "skill:z write", ""], false),
        (["skill:y write", "skill:z write", "write"], false),
    ] {
        let project = Project::lua_with_tools(asks[0], CALLS_Y)
            .callee("y", asks[1], "return ctx.skill('z')")
            .callee("z", asks[2], WRITES);
        let outcome = project.run(&["skill:y", "skill:z", "write"]);
        assert_eq!(outcome.result.is_ok(), may, "{asks:?}: {:?}", outcome.result);
        assert!(may || kind(&outcome) == ErrorKind::Denied, "{asks:?}");
        assert_eq!(project.path("out.txt").exists(), may, "{asks:?}");
    }
}

#[test]
fn a_refusal_in_a_callee_names_the_skill_that_does_not_ask() {
    let project = Project::lua_with_tools("skill:y", CALLS_Y).callee("y", "write", WRITES);
    assert_eq!(
        sentence(&project.run(&["skill:y"])),
        "skill y failed at scripts/main.lua:1: failed to write out.txt: not permitted; \
         list write under allowed-tools in the SKILL.md of x and grant write"
    );
}

#[test]
fn protected_places_stay_protected_in_a_callee() {
    let project = Project::lua_with_tools("skill:y write write:.git", CALLS_Y).callee(
        "y",
        "write",
        "ctx.write(input.path, 'owned') return true",
    );
    for path in [".metier/skills/x/SKILL.md", ".git/config", ".env"] {
        let invocation = Invocation::new("x").input(json!({"path": path}));
        let outcome = project.engine().run(granted(invocation, &["skill:y", "write", "write:.git"]));
        assert_eq!(kind(&outcome), ErrorKind::Denied, "{path}");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_script_that_asks_for_everything_gets_no_more_than_its_caller() {
    let project = |asks: &str| {
        Project::lua_with_tools(asks, CALLS_Y)
            .skill("y", "")
            .file(".metier/skills/y/scripts/main.sh", "echo 1 > made && echo 1\n")
    };
    let outcome = project("skill:y").run(&["skill:y", "write"]);
    assert_eq!(kind(&outcome), ErrorKind::Script, "the caller did not ask to write");
    let sandboxed = project("skill:y write").run(&["skill:y", "write"]);
    assert!(
        sandboxed.sandbox.is_some_and(
            |report| crate::support::engine::is_sandbox_level(report.level.name()) && report.files
        ),
        "{:?}",
        sandboxed.sandbox
    );
    assert_eq!(value(sandboxed), json!(1));
    let outcome = project("skill:y exec:unsandboxed").run(&["skill:y", "exec:unsandboxed"]);
    assert_eq!(
        outcome.sandbox,
        Some(metier::host::SandboxReport::NONE),
        "what the callee lacked, the whole run lacked"
    );
    assert_eq!(
        outcome.log[0].message,
        "y: scripts/main.sh runs without a sandbox, with all the rights of the user"
    );
    assert_eq!(value(outcome), json!(1));
}

#[test]
fn a_skill_that_calls_itself_ends_at_the_eighth() {
    let script = "ctx.log('info', 'in') return ctx.skill('x')";
    let outcome = Project::lua_with_tools("skill:x", script).run(&["skill:x"]);
    assert_eq!(kind(&outcome), ErrorKind::Script);
    let told = sentence(&outcome);
    assert!(told.ends_with("skills may call one another 8 deep, and this would be 9 deep"), "{told}");
    assert_eq!(outcome.log.len(), 9, "the first, and eight calls");
}

#[test]
fn two_skills_that_call_each_other_end_too() {
    let project = Project::lua_with_tools("skill:x skill:y", CALLS_Y).callee(
        "y",
        "skill:x skill:y",
        "return ctx.skill('x')",
    );
    let outcome = project.run(&["skill:x", "skill:y"]);
    assert!(sentence(&outcome).contains("8 deep"), "{}", sentence(&outcome));
}

#[test]
fn a_tree_of_calls_ends_with_the_deadline() {
    let script = "for _ = 1, 1000 do pcall(ctx.skill, 'x') end return 1";
    let project = Project::lua_with_tools("skill:x", script);
    let begun = Instant::now();
    let outcome = project.engine().run(granted(Invocation::new("x"), &["skill:x"]).limits(deadline(300)));
    assert_eq!((kind(&outcome), outcome.limits.hit), (ErrorKind::Timeout, Some(ErrorKind::Timeout)));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn the_callers_deadline_and_cancel_reach_a_callee() {
    let project = Project::lua_with_tools("skill:y skill:z", "pcall(ctx.skill, 'y') return ctx.skill('y')")
        .callee("y", "skill:z", "return ctx.skill('z')")
        .callee("z", "", ENDLESS);
    let run = |limits: Limits, token: &CancelToken| {
        let begun = Instant::now();
        let invocation = granted(Invocation::new("x"), &["skill:y", "skill:z"]);
        let outcome = project.engine().run(invocation.limits(limits).cancel(token.clone()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        outcome
    };
    let outcome = run(deadline(100), &CancelToken::new());
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    assert!(sentence(&outcome).starts_with("the run did not end"), "{}", sentence(&outcome));
    let token = CancelToken::new();
    let canceller = token.clone();
    let cancels = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        canceller.cancel();
    });
    assert_eq!(kind(&run(Limits::default(), &token)), ErrorKind::Cancelled);
    cancels.join().unwrap();
}

#[test]
fn a_callee_has_no_more_memory_or_output_than_its_caller_was_given() {
    let grows = "local t = {} while true do t[#t + 1] = {#t} end";
    let project = Project::lua_with_tools("skill:y", CALLS_Y).callee("y", "", grows);
    let limited = |limits| granted(Invocation::new("x"), &["skill:y"]).limits(limits);
    let outcome = project.engine().run(limited(Limits::default().memory(2 << 20)));
    assert_eq!((kind(&outcome), outcome.limits.memory_bytes), (ErrorKind::Memory, Some(2 << 20)));
    let project = Project::lua_with_tools("skill:y", "return #ctx.skill('y')").callee(
        "y",
        "",
        "return ('x'):rep(2000)",
    );
    assert_eq!(kind(&project.engine().run(limited(Limits::default().output(1000)))), ErrorKind::Output);
    assert_eq!(value(project.engine().run(limited(Limits::default()))), json!(2000));
}

#[test]
fn a_callees_log_fills_its_callers() {
    let floods = "while true do print(('x'):rep(100)) end";
    let project = Project::lua_with_tools("skill:y", CALLS_Y).callee("y", "", floods);
    let invocation = granted(Invocation::new("x"), &["skill:y"]).limits(Limits::default().output(10_000));
    let outcome = project.engine().run(invocation);
    assert_eq!(kind(&outcome), ErrorKind::Output);
    assert!(outcome.log.len() < 100, "{}", outcome.log.len());
}

#[test]
fn what_a_callee_is_refused_is_in_the_outcome_of_its_caller() {
    let script = "#!/bin/bash\n{ echo a >reports/a.md; } 2>/dev/null\necho '\"done\"'\n";
    let project = Project::lua_with_tools("skill:y", "return {ctx.skill('y'), ctx.skill('y')}")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.sh", script)
        .file("reports/b.md", "");
    let outcome = project.engine().run(granted(Invocation::new("x"), &["skill:y"]).watch());
    let refused: Vec<_> = outcome.refused.iter().map(|one| (one.permission.as_deref(), one.count)).collect();
    assert_eq!(refused, [(Some("write:reports"), 2)], "{outcome:?}");
}

#[test]
fn what_a_callee_says_is_heard_under_its_name() {
    #[derive(Default)]
    struct Ear(Mutex<Vec<String>>);
    impl Observer for Ear {
        fn on_event(&self, event: &Event) {
            let text = match &event.kind {
                EventKind::Log(line) => line.message.clone(),
                EventKind::Progress(progress) => format!("{} {:?}", progress.message, progress.done),
                _ => return,
            };
            self.0.lock().unwrap().push(text);
        }
    }
    let project = Project::lua_with_tools("skill:y skill:z", "print('before') return ctx.skill('y')")
        .callee("y", "skill:z", "print('in y') return ctx.skill('z')")
        .callee("z", "", "ctx.log('warn', 'in z') ctx.progress('half', 1, 2) return 1");
    let ear = Arc::new(Ear::default());
    let invocation = granted(Invocation::new("x"), &["skill:y", "skill:z"]).observer(ear.clone());
    let outcome = project.engine().run(invocation);
    let lines = |outcome: &Outcome| outcome.log.iter().map(|line| line.message.clone()).collect::<Vec<_>>();
    assert_eq!(lines(&outcome), ["before", "y: in y", "y: z: in z"]);
    assert_eq!(*ear.0.lock().unwrap(), ["before", "y: in y", "y: z: in z", "y: z: half Some(1.0)"]);
}

#[test]
fn a_callees_error_keeps_its_kind_and_says_whose_it_is() {
    let project = Project::lua_with_tools("skill:y skill:broken skill:none", "return ctx.skill(input.name)")
        .callee("y", "", "error('no luck')")
        .callee("broken", "", "return +");
    for (name, expected, words) in [
        ("y", ErrorKind::Script, "skill y failed at scripts/main.lua:1: no luck"),
        ("broken", ErrorKind::InvalidSkill, "skill broken failed"),
        ("none", ErrorKind::UnknownSkill, "no skill is called `none`"),
    ] {
        let invocation = granted(
            Invocation::new("x").input(json!({"name": name})),
            &["skill:y", "skill:broken", "skill:none"],
        );
        let outcome = project.engine().run(invocation);
        assert_eq!(kind(&outcome), expected, "{name}");
        assert!(sentence(&outcome).starts_with(words), "{name}: {}", sentence(&outcome));
        let place = outcome.result.unwrap_err().location().cloned().unwrap();
        assert_eq!((place.file.as_str(), place.line), ("scripts/main.lua", Some(1)), "the caller's own line");
    }
}

#[test]
fn a_failure_deep_down_is_reported_once_with_the_chain_of_skills() {
    let project = Project::lua_with_tools("skill:y skill:z", CALLS_Y)
        .callee("y", "skill:z", "\nreturn ctx.skill('z')")
        .callee("z", "", "\n\nerror('no luck')");
    assert_eq!(
        sentence(&project.run(&["skill:y", "skill:z"])),
        "skill y > z failed at scripts/main.lua:3: no luck"
    );
    let endless = Project::lua_with_tools("skill:x", "return ctx.skill('x')").run(&["skill:x"]);
    let sentence = sentence(&endless);
    assert_eq!(sentence.matches("failed").count(), 2, "{sentence}");
    assert!(
        sentence.starts_with("skill x > x > x > x > x > x > x > x failed at scripts/main.lua:1: "),
        "{sentence}"
    );
    assert!(sentence.contains("8 deep"), "{sentence}");
}

#[test]
fn a_chain_with_a_secret_in_it_names_the_skills_all_the_same() {
    let project =
        Project::lua_with_tools("skill:y skill:z secret:KEY", "ctx.secret('KEY') return ctx.skill('y')")
            .callee("y", "skill:z", "return ctx.skill('z')")
            .callee("z", "", "error('no luck with s3cret')");
    let engine =
        project.builder().secrets(crate::engine::leaks::FixedSecret("s3cret".into())).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["skill:y", "skill:z", "secret:KEY"]));
    assert_eq!(sentence(&outcome), "skill y > z failed at scripts/main.lua:1: no luck with [secret:KEY]");
}

#[test]
#[cfg(feature = "rhai-runtime")]
fn vfs_is_an_object_in_lua_and_in_rhai() {
    for (file, script) in [
        ("main.lua", "return vfs.read('a.txt') .. ctx.vfs_read('a.txt') .. vfs.list('.')[1]"),
        ("main.rhai", "vfs.read(\"a.txt\") + ctx.vfs_read(\"a.txt\") + vfs.list(\".\")[0]"),
    ] {
        let project = Project::new()
            .skill("x", "")
            .file(&format!(".metier/skills/x/scripts/{file}"), script)
            .file("a.txt", "a");
        let answer = value(project.run(&[]));
        assert_eq!(answer, json!("aa.metier"), "{file}");
    }
}

#[test]
fn calls_nest_in_async_runs_on_small_stacks() {
    let deep = "local function f(n) if n == 0 then return ctx.skill('x', {n = input.n - 1}) end
        local ok, v = pcall(f, n - 1) if not ok then error(v, 0) end return v end
        if input.n == 0 then return 'bottom' end return f(150)";
    let project = Project::lua_with_tools("skill:x", deep);
    let engine = project.engine();
    let invocation = granted(Invocation::new("x").input(json!({"n": 8})), &["skill:x"]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(value(runtime.block_on(engine.run_async(invocation))), json!("bottom"));
}

/// A Rhai script may take half of a thread's stack; nine of them in one another may not take a whole one.
#[test]
#[cfg(feature = "rhai-runtime")]
fn every_callee_has_a_stack_of_its_own() {
    let script = "fn f(ctx, input, n) {
            if n > 0 { return f(ctx, input, n - 1); }
            if input.calls == 0 { return \"bottom\"; }
            ctx.skill(\"x\", #{calls: input.calls - 1, depth: input.depth})
        }
        f(ctx, input, input.depth)";
    let project = Project::new()
        .skill("x", "allowed-tools: skill:x\n")
        .file(".metier/skills/x/scripts/main.rhai", script);
    let engine = project.engine();
    let run = |calls: u32, depth: u32| {
        let invocation = Invocation::new("x").input(json!({"calls": calls, "depth": depth}));
        engine.run(granted(invocation, &["skill:x"])).result
    };
    let deepest = (1..500).map(|step| step * 4).take_while(|depth| run(0, *depth).is_ok()).last().unwrap();
    assert_eq!(run(8, deepest).unwrap(), json!("bottom"), "{deepest} deep");
}
