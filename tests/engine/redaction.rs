//! Secrets leave a run by name and never by value.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, SkillExecutor, SkillInput, SkillOutput};
use metier::host::{ClosureTools, Event, EventKind, Observer, ProcessReport, SecretProvider, SkillContext};
use metier::policy::Limits;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};
use metier_core::host::RunReporting;

const VALUE: &str = "hunter2";

/// Secrets by skill and name.
struct SecretTable(BTreeMap<(&'static str, &'static str), &'static str>);

impl SecretProvider for SecretTable {
    fn secret(&self, ctx: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok(self.0.get(&(ctx.skill(), name)).map(|&value| value.to_owned()))
    }
}

fn engine(project: &Project, secrets: &[((&'static str, &'static str), &'static str)]) -> Engine {
    project.builder().secrets(SecretTable(secrets.iter().copied().collect())).build().unwrap()
}

/// Runs `x`, which reads its secret KEY first.
fn run(script: &str) -> Outcome {
    let project = Project::lua_with_tools("secret:KEY", &format!("local key = ctx.secret('KEY')\n{script}"));
    engine(&project, &[(("x", "KEY"), VALUE)]).run(granted(Invocation::new("x"), &["secret:KEY"]))
}

#[track_caller]
fn assert_redacted(outcome: &Outcome) {
    let json = serde_json::to_string(outcome).unwrap();
    assert!(!json.contains(VALUE), "{json}");
}

#[test]
fn a_script_has_the_value_and_its_answer_the_name() {
    let outcome = run("return {#key, key, {['the ' .. key] = {key .. key}}, json.encode({key})}");
    assert_redacted(&outcome);
    let expected =
        json!([7, "[secret:KEY]", {"the [secret:KEY]": ["[secret:KEY][secret:KEY]"]}, "[\"[secret:KEY]\"]"]);
    assert_eq!(value(outcome), expected);
}

#[test]
fn log_and_progress_are_clean_before_anybody_hears_them() {
    #[derive(Default)]
    struct Ear(Mutex<String>);
    impl Observer for Ear {
        fn on_event(&self, event: &Event) {
            match &event.kind {
                EventKind::Log(line) => self.0.lock().unwrap().push_str(&line.message),
                EventKind::Progress(progress) => self.0.lock().unwrap().push_str(&progress.message),
                _ => {}
            }
        }
    }
    let script =
        "local k = ctx.secret('KEY') print('a', k) ctx.log('warn', k) ctx.progress('p ' .. k) return 1";
    let project = Project::lua_with_tools("secret:KEY", script);
    let ear = Arc::new(Ear::default());
    let invocation = granted(Invocation::new("x"), &["secret:KEY"]).observer(ear.clone());
    let outcome = engine(&project, &[(("x", "KEY"), VALUE)]).run(invocation);
    assert_redacted(&outcome);
    assert_eq!(*ear.0.lock().unwrap(), "a\t[secret:KEY][secret:KEY]p [secret:KEY]");
}

/// With a colour after each letter, in whatever leaves a run.
#[test]
fn a_secret_with_colours_in_its_midst_leaves_in_nothing() {
    #[derive(Default)]
    struct Heard(Mutex<String>);
    impl Observer for Heard {
        fn on_event(&self, event: &Event) {
            self.0.lock().unwrap().extend([format!("{:?}\n", event.kind)]);
        }
    }
    let check = |project: &Project, what: &str| {
        let heard = Arc::new(Heard::default());
        let invocation = granted(Invocation::new("x"), &["secret:KEY"]).observer(heard.clone());
        let outcome = engine(project, &[(("x", "KEY"), VALUE)]).run(invocation);
        let mut shown = format!("{}{}", serde_json::to_string(&outcome).unwrap(), heard.0.lock().unwrap());
        for colour in [r"\\\\u001b[31m", r"\\u001b[31m", r"\u001b[31m", r"\u{1b}[31m", "\u{1b}[31m"] {
            shown = shown.replace(colour, "");
        }
        assert!(!shown.contains(VALUE), "{what}: {shown}");
        assert!(shown.contains("[secret:KEY]") || what.contains("return ctx."), "{what}: {shown}");
    };
    for script in [
        "return {c, {[c] = {c}}}",
        "print(c) ctx.log('warn', c) ctx.progress(c) return 1",
        "return json.encode({c})",
        "error('bad ' .. c)",
        "local function f() error({c}) end f()",
        "return ctx.read_file(c)",
        "return ctx.tool(c)",
    ] {
        let script = format!("local c = (ctx.secret('KEY'):gsub('.', '%0\\27[31m')) {script}");
        check(&Project::lua_with_tools("secret:KEY", &script), &script);
    }
    if cfg!(unix) {
        for (printed, colour) in [("%s\\n", r"'\033'[31m"), (r#"{"a":"%s"}\n"#, r"'\\\\u001b'[31m")] {
            for end in ["exit 0", "say >&2; exit 1"] {
                let say = format!(
                    "say() {{ printf '{printed}' \"$(printf %s \"$KEY\" | sed \"s/./&C/g\")\" | sed \"s/C/$(printf {colour})/g\"; }}"
                );
                let script = format!("{say}\nsay; {end}\n");
                check(&Project::shell("allowed-tools: secret:KEY\n", &script), &script);
            }
        }
    }
}

#[test]
fn lines_from_before_the_secret_was_read_are_clean_in_the_outcome() {
    let script = "print(ctx.read_file('found')) return ctx.secret('KEY')";
    let project = Project::lua_with_tools("secret:KEY", script).file("found", VALUE);
    let outcome =
        engine(&project, &[(("x", "KEY"), VALUE)]).run(granted(Invocation::new("x"), &["secret:KEY"]));
    assert_redacted(&outcome);
    assert_eq!(outcome.log[0].message, "[secret:KEY]");
}

#[test]
fn errors_are_clean_whoever_raised_them() {
    for script in [
        "error('bad ' .. key)",
        "error({key})",
        "return ctx.read_file(key)",
        "return ctx.read_file(key .. '/../../..')",
        "return ctx.tool(key)",
        "return ctx.glob(key .. '[')",
        "return {[{}] = key}",
        "local function hunter() error(key) end hunter()",
    ] {
        let outcome = run(script);
        assert!(outcome.result.is_err(), "{script}");
        assert_redacted(&outcome);
    }
}

#[test]
fn what_a_secret_is_for_gets_its_value() {
    let heard = Arc::new(Mutex::new(Value::Null));
    let ear = heard.clone();
    let tools = ClosureTools::new().tool("send", "Sends", json!({}), move |_, args| {
        *ear.lock().unwrap() = args.clone();
        Ok(json!(format!("sent {args}")))
    });
    let script = "local k = ctx.secret('KEY') ctx.write('key', k) return ctx.tool('send', {auth = k})";
    let asks = "secret:KEY tool:send write";
    let project = Project::lua_with_tools(asks, script);
    let engine =
        project.builder().tools(tools).secrets(SecretTable([(("x", "KEY"), VALUE)].into())).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &asks.split(' ').collect::<Vec<_>>()));
    assert_redacted(&outcome);
    assert_eq!(value(outcome), json!("sent {\"auth\":\"[secret:KEY]\"}"));
    assert_eq!(*heard.lock().unwrap(), json!({"auth": VALUE}));
    assert_eq!(std::fs::read_to_string(project.path("key")).unwrap(), VALUE);
}

#[test]
fn the_secrets_of_one_skill_are_not_anothers() {
    let project = Project::lua_with_tools("secret:KEY skill:y", "return {pcall(ctx.skill, 'y')}")
        .skill("y", "allowed-tools: secret:KEY\n")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.secret('KEY')");
    let engine = engine(&project, &[(("x", "KEY"), VALUE)]);
    let outcome = engine.run(granted(Invocation::new("y"), &["secret:KEY"]));
    assert_eq!(
        (kind(&outcome), sentence(&outcome).as_str()),
        (ErrorKind::Unavailable, "the secret KEY of skill y is not set")
    );
    let outcome = engine.run(granted(Invocation::new("x"), &["secret:KEY", "skill:y"]));
    assert!(!serde_json::to_string(&outcome).unwrap().contains(VALUE));
}

#[test]
fn a_run_forgets_the_secrets_of_the_run_before() {
    let script = "if input.read then ctx.secret('KEY') end return 'hunter2 is a plain word'";
    let project = Project::lua_with_tools("secret:KEY", script);
    let engine = engine(&project, &[(("x", "KEY"), VALUE)]);
    let run = |read: bool| {
        let invocation = Invocation::new("x").input(json!({"read": read}));
        value(engine.run(granted(invocation, &["secret:KEY"])))
    };
    assert_eq!(run(true), json!("[secret:KEY] is a plain word"));
    assert_eq!(run(false), json!("hunter2 is a plain word"));
}

#[test]
fn a_callees_secrets_leave_neither_the_callee_nor_its_caller() {
    let in_y = "local k = ctx.secret('Y') print('log ' .. k) ctx.write('left', k)
        if input.fail then error('with ' .. k) end return {k}";
    let in_x = "local ok, v = pcall(ctx.skill, 'y', {fail = input.fail})
        local direct = ok and v[1] or v.message
        return {direct, direct:find('hunter2') ~= nil, ctx.read_file('left')}";
    let asks = "secret:Y skill:y write";
    let project = Project::lua_with_tools(asks, in_x)
        .skill("y", "allowed-tools: secret:Y write\n")
        .file(".metier/skills/y/scripts/main.lua", in_y);
    let engine = engine(&project, &[(("y", "Y"), VALUE)]);
    for (fail, direct) in
        [(false, "[secret:Y]"), (true, "skill y failed at scripts/main.lua:2: with [secret:Y]")]
    {
        let invocation = Invocation::new("x").input(json!({"fail": fail}));
        let outcome = engine.run(granted(invocation, &asks.split(' ').collect::<Vec<_>>()));
        assert_redacted(&outcome);
        assert_eq!(outcome.log[0].message, "y: log [secret:Y]");
        assert_eq!(value(outcome), json!([direct, false, "[secret:Y]"]), "the caller never had it");
    }
}

#[test]
fn a_secret_a_caller_hands_on_is_clean_in_the_callees_log_too() {
    let python =
        "import json, sys\nk = json.load(sys.stdin)['k']\nprint('got', k)\nprint(k, file=sys.stderr)\n";
    let shell = "read line; echo \"got $line\"; echo \"$line\" >&2; exit 3\n";
    let caller = "local k = ctx.secret('KEY') print('handing on')
        local ok, v = pcall(ctx.skill, 'y', {k = k}) return ok and v or v.message";
    for (file, script) in [("main.py", python), ("main.sh", shell)] {
        let asks = "secret:KEY skill:y exec";
        let project = Project::lua_with_tools(asks, caller)
            .skill("y", "allowed-tools: exec\n")
            .file(&format!(".metier/skills/y/scripts/{file}"), script);
        let engine = engine(&project, &[(("x", "KEY"), VALUE)]);
        let outcome = engine.run(granted(Invocation::new("x"), &asks.split(' ').collect::<Vec<_>>()));
        assert_redacted(&outcome);
        assert!(value(outcome).as_str().unwrap().contains("[secret:KEY]"), "{file}");
    }
    let logs = Project::lua_with_tools("secret:KEY skill:y", "return ctx.skill('y', ctx.secret('KEY'))")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "print(input) return 1");
    let outcome = engine(&logs, &[(("x", "KEY"), VALUE)])
        .run(granted(Invocation::new("x"), &["secret:KEY", "skill:y"]));
    assert_eq!(outcome.log[0].message, "y: [secret:KEY]");
}

#[test]
fn the_report_of_a_process_is_clean() {
    struct Process;
    impl SkillExecutor for Process {
        fn execute_with_context(&self, _: SkillInput, ctx: Option<&SkillContext>) -> Result<SkillOutput> {
            let key = ctx.unwrap().call("secret", vec![json!("KEY")])?;
            let said = format!("token={}", key.as_str().unwrap());
            let mut report = ProcessReport::default();
            (report.stdout, report.stderr) = (said.clone(), said);
            ctx.unwrap().report_process(report);
            Ok(key.into())
        }
    }
    let project = Project::lua_with_tools("secret:KEY", "");
    let builder = project.builder().runtime(RuntimeId::LUA, &[], |_| Ok(Box::new(Process)));
    let engine = builder.secrets(SecretTable([(("x", "KEY"), VALUE)].into())).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["secret:KEY"]));
    assert_redacted(&outcome);
    assert_eq!(outcome.process.unwrap().stderr, "token=[secret:KEY]");
}

#[test]
fn the_cap_counts_what_leaves() {
    let script = "local k = ctx.secret('KEY') return {k, k, k, k, k, k, k, k}";
    let project = Project::lua_with_tools("secret:KEY", script);
    let engine = engine(&project, &[(("x", "KEY"), "ab")]);
    let run = |cap| {
        engine.run(granted(Invocation::new("x"), &["secret:KEY"]).limits(Limits::default().output(cap)))
    };
    assert_eq!(kind(&run(100)), ErrorKind::Output);
    assert!(run(121).result.is_ok());
}
