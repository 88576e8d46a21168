//! Every way out of a run, for secrets of every shape: no part of one leaves.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ClosureTools, Event, Observer, SecretProvider, SkillContext};
use metier::policy::{Limits, OutputPolicy};
use serde_json::{Value, json};

use crate::support::engine::{Project, granted};

/// One secret, whatever it is called.
#[derive(Clone)]
pub struct FixedSecret(pub String);

impl SecretProvider for FixedSecret {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(Some(self.0.clone()))
    }
}

/// Letters that look like a key, the same every time.
fn letters(count: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let alphabet: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        alphabet[usize::try_from(state % alphabet.len() as u64).unwrap()]
    };
    (0..count).map(|_| next()).collect()
}

/// Secrets of every shape.
fn shapes() -> Vec<(&'static str, String)> {
    let key = letters(400);
    let wrapped = |end: &str| {
        key.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(end)
    };
    let with = |between: &str| format!("{}{between}{}", &key[..30], &key[30..60]);
    vec![
        ("plain", key[..40].to_owned()),
        (
            "a key of many lines",
            format!("-----BEGIN PRIVATE KEY-----\n{}\nQwAb12==\n-----END PRIVATE KEY-----\n", wrapped("\n")),
        ),
        (
            "its lines end as on Windows",
            format!("-----BEGIN KEY-----\r\n{}\r\n-----END KEY-----\r\n", wrapped("\r\n")),
        ),
        ("a tab in it", with("\t")),
        ("a carriage return in it", with("\r")),
        ("a line's end in it", with("\n")),
        ("a NUL in it", with("\0")),
        ("an escape sequence in it", with("\u{1b}[31m")),
        ("a DEL and a C1 in it", with("\u{7f}\u{9b}")),
        ("a zero-width space in it", with("\u{200b}")),
        ("blanks around it", format!("  {}\t\n", &key[..40])),
        ("quotes and backslashes in it", with("\"'\\\\`$(x)/")),
        ("letters beyond ASCII in it", with("ß東é😀")),
        ("signs of pages in it", with("&<>+%20 ~")),
        ("long", letters(6000)),
        ("longer than what is looked for as a whole", letters(20_000)),
    ]
}

/// Six letters of the secret that follow one another, blanks aside: what must stand nowhere.
fn pieces(secret: &str) -> HashSet<String> {
    let body: String = secret.lines().filter(|line| !line.starts_with("-----")).collect();
    let solid: Vec<char> = body.chars().filter(char::is_ascii_alphanumeric).collect();
    // Of the signs in the midst there may be as many letters as there are on one side of them.
    let sides = [&solid[..30], &solid[solid.len() - 30..]];
    let all = if solid.len() > 100 { vec![&solid[..]] } else { sides.to_vec() };
    all.iter().flat_map(|side| side.windows(6)).map(|six| six.iter().collect()).collect()
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            found.push(key.clone());
            texts(value, found);
        }),
        _ => {}
    }
}

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl Observer for RecordingObserver {
    fn on_event(&self, event: &Event) {
        texts(&serde_json::to_value(event).unwrap(), &mut self.0.lock().unwrap());
    }
}

#[track_caller]
fn assert_no_part_of(secret: &str, outcome: &Outcome, ear: &RecordingObserver, what: &str) {
    let mut said = ear.0.lock().unwrap().clone();
    texts(&serde_json::to_value(outcome).unwrap(), &mut said);
    said.push(format!("{outcome:?}"));
    let pieces = pieces(secret);
    for text in said {
        let solid: Vec<char> = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let leak =
            solid.windows(6).map(|six| six.iter().collect::<String>()).find(|six| pieces.contains(six));
        assert_eq!(leak, None, "{what}: {text}");
    }
}

fn tools() -> ClosureTools {
    ClosureTools::new()
        .tool("fail", "fails", json!({}), |_, args| {
            let said = args["say"].as_str().unwrap_or_default();
            Err(SkillError::new(ErrorKind::Tool, format!("no {said}")).with_help(format!("not {said}")))
        })
        .tool("whole", "takes a number", json!({"properties": {"n": {"type": "integer"}}}), |_, _| {
            Ok(json!(1))
        })
        .tool("echo", "answers", json!({}), |_, args| Ok(args.clone()))
}

const ALLOWED_TOOLS: [&str; 8] =
    ["secret:KEY", "write", "tool:fail", "tool:whole", "tool:echo", "skill:y", "exec", "exec:unsandboxed"];

fn run(project: &Project, secret: &str, limits: Limits, what: &str) -> Outcome {
    let ear = Arc::new(RecordingObserver::default());
    let engine = project.builder().secrets(FixedSecret(secret.to_owned())).tools(tools()).build().unwrap();
    let outcome =
        engine.run(granted(Invocation::new("x"), &ALLOWED_TOOLS).observer(ear.clone()).limits(limits));
    assert_no_part_of(secret, &outcome, &ear, what);
    outcome
}

/// Lua, in which `key` is the secret and `pad(n)` so many signs.
const LUA_LEAKS: [&str; 34] = [
    "return key",
    "return {list = {key, {[key] = key}}, text = 'a' .. key .. 'b'}",
    "return pad(290) .. key",
    "return json.encode({key})",
    "return json.encode({json.encode({key})})",
    "return string.format('%q', key)",
    "return (key:gsub('%c', ''))",
    "return (key:gsub('%c', ' '))",
    "return (key:gsub('%s+', ' '))",
    "return (key:gsub('%s', ''))",
    "return key:match('^%s*(.-)%s*$')",
    "return (key:gsub('\\n', '\\r\\n'))",
    "return (key:gsub('\\n', '\\n    '))",
    "return key:split('\\n')",
    "error(key)",
    "error(key, 0)",
    "error({key})",
    "error({message = key})",
    "error(pad(190) .. key, 0)",
    "error(pad(290) .. key, 0)",
    "error(pad(1990) .. key, 0)",
    "error(pad(4090) .. key, 0)",
    "error(pad(4060) .. key)",
    "print(key) print(pad(4090) .. key) ctx.log('warn', key)",
    "for line in key:gmatch('[^\\n]+') do print(line) end",
    "for line in key:gmatch('[^\\n]+') do ctx.log('info', (line:gsub('%c', ''))) end",
    "ctx.progress(key, 1, 2) ctx.progress(pad(300) .. key)",
    "ctx.write('big', pad(1990) .. key:gsub('%s', '')) return ctx.grep('x', 'big')",
    "ctx.write('big', pad(1990) .. key:gsub('%s', '') .. '\\nfind\\n') return ctx.grep('find', 'big', {context = 2})",
    "ctx.write('f', key) return {ctx.read_file('f'), ctx.edit('f', key, 'x')}",
    "ctx.edit('f', key, key)",
    "ctx.tool('fail', {say = pad(4080) .. key})",
    "ctx.tool('whole', {n = key})",
    "ctx.http({url = 'https://' .. key})",
];

#[test]
fn lua_has_no_way_out_for_a_part_of_a_secret() {
    for (shape, secret) in shapes() {
        for way in LUA_LEAKS {
            let script =
                format!("local key = ctx.secret('KEY') local function pad(n) return ('x'):rep(n) end\n{way}");
            let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), &script);
            run(&project, &secret, Limits::default(), &format!("{shape}, {way}"));
        }
    }
}

/// Shell, in which `$key` is the secret as a file has it: `cat key`.
const SHELL_LEAKS: [&str; 8] = [
    "cat key",
    "cat key >&2; exit 3",
    "printf %0290d 0 >&2; cat key >&2; exit 3",
    "echo begins >&2; cat key >&2; echo >&2; exit 1",
    "tr -d '\\r\\t\\n' < key >&2; exit 1",
    "cat key >&2; echo \"$(tail -n 2 key): Permission denied\" >&2; exit 1",
    "head -c 100 key; echo; cat key; exit 5",
    "printf '{\"k\": 1}'; cat key >&2",
];

#[test]
fn a_process_has_no_way_out_for_a_part_of_a_secret() {
    for (shape, secret) in shapes() {
        // A shell cannot hold NUL, but files do.
        let caller = "local key = ctx.secret('KEY') ctx.write('key', key) return {pcall(ctx.skill, 'y')}";
        for said in SHELL_LEAKS {
            let said = if said.starts_with("head -c 100") { "cat key; exit 5" } else { said };
            let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), caller)
                .skill("y", "allowed-tools: exec exec:unsandboxed\n")
                .file(".metier/skills/y/scripts/main.sh", said);
            run(&project, &secret, Limits::default(), &format!("{shape}, {said}"));
        }
    }
}

#[test]
fn the_cap_on_output_cuts_through_no_secret() {
    let secret = letters(400);
    let caller = "local key = ctx.secret('KEY') ctx.write('key', key) local ok, e = pcall(ctx.skill, 'y')
        if ok then return e end error(e.message, 0)";
    for cap in [20, 100, 300, 399, 410] {
        for said in ["printf 'it is '; cat key", "printf 'it is ' >&2; cat key >&2; exit 1"] {
            let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), caller)
                .skill("y", "allowed-tools: exec exec:unsandboxed\n")
                .file(".metier/skills/y/scripts/main.sh", said);
            let limits = Limits::default().output(cap).on_output(OutputPolicy::Truncate);
            run(&project, &secret, limits, &format!("{cap}, {said}"));
        }
    }
}

#[test]
fn a_plan_has_no_way_out_for_a_part_of_a_secret() {
    let key = "$steps.k.outputs";
    let get = json!({"id": "k", "tool": "secret", "args": {"name": "KEY"}});
    let padded = |width: usize| format!("{}${{steps.k.outputs}}", "x".repeat(width));
    let endings = [
        json!([get, {"id": "e", "tool": "echo", "args": {"k": key}}]),
        json!([get, {"id": "f", "tool": "fail", "args": {"say": key}}]),
        json!([get, {"id": "f", "tool": "fail", "args": {"say": padded(180)}}]),
        json!([get, {"id": "f", "tool": "fail", "args": {"say": padded(1985)}}]),
        json!([get, {"id": "f", "tool": "fail", "args": {"other": padded(150), "say": padded(20)}}]),
        json!([get, {"id": "f", "tool": "fail", "args": {"say": padded(1990)}, "on_failure": "continue"}]),
        json!([get, {"id": "e", "tool": "echo", "args": {"k": padded(190)}}, {"id": "f", "tool": "fail", "args": {"say": "$steps.e.outputs.k"}}]),
        json!([get, {"id": "r", "tool": "read_file", "args": {"path": key}}]),
        json!([get, {"id": "e", "tool": "echo", "args": {"n": key}}, {"id": "w", "tool": "whole", "args": {"n": "$steps.e.outputs.n"}}]),
        json!([get, {"id": "l", "tool": "log", "args": {"level": "info", "message": key}}]),
    ];
    for (shape, secret) in shapes() {
        for steps in &endings {
            let ear = Arc::new(RecordingObserver::default());
            let project = Project::new()
                .skill("x", &format!("allowed-tools: {}\n", ALLOWED_TOOLS.join(" ")))
                .file(".metier/skills/x/scripts/sequence.json", json!({"steps": steps}).to_string());
            let engine =
                project.builder().secrets(FixedSecret(secret.clone())).tools(tools()).build().unwrap();
            let journal = project.path("journal");
            let invocation =
                granted(Invocation::new("x"), &ALLOWED_TOOLS).observer(ear.clone()).journal(&journal);
            let outcome = engine.run(invocation);
            assert!(!outcome.steps.is_empty(), "{outcome:?}");
            assert_no_part_of(&secret, &outcome, &ear, &format!("{shape}, {steps}"));
            let written = std::fs::read_to_string(journal.join("x.journal")).unwrap();
            ear.0.lock().unwrap().push(written);
            assert_no_part_of(&secret, &outcome, &ear, &format!("the journal of {shape}, {steps}"));
        }
    }
}

#[test]
fn a_text_that_was_cut_before_the_secret_was_known_loses_its_beginning() {
    let secret = letters(400);
    let script = "local rows = ctx.grep('x', 'big') print(rows[1].content) ctx.secret('KEY') return rows";
    let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), script)
        .file("big", format!("{}{secret}", "x".repeat(1900)));
    let engine = project.builder().secrets(FixedSecret(secret.clone())).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &ALLOWED_TOOLS));
    assert_no_part_of(&secret, &outcome, &RecordingObserver::default(), "a row");
}

#[test]
fn a_secret_over_several_lines_of_the_log_is_gone_from_the_outcome() {
    let script = "local key = ctx.secret('KEY') print('before') print(key:sub(1, 5)) print(key:sub(6, 11))
        print(key:sub(12)) print('after')";
    let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), script);
    let engine = project.builder().secrets(FixedSecret("s3cret-value-of-mine".into())).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &ALLOWED_TOOLS));
    let log: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(log, ["before", "[secret:KEY]", "", "", "after"]);
}

#[test]
fn what_a_callee_answers_may_hold_what_its_caller_handed_in() {
    let caller = "local key = ctx.secret('KEY') local back = ctx.skill('y', {key = key}) return back == 'Bearer ' .. key";
    let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), caller)
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 'Bearer ' .. input.key");
    let outcome = run(&project, &letters(40), Limits::default(), "handed back");
    assert_eq!(outcome.result.unwrap(), json!(true));
}

#[test]
fn a_callees_error_is_cut_through_no_secret_of_its_callers() {
    let caller = "local key = ctx.secret('KEY') ctx.skill('y', {key = key})";
    for said in
        ["error(('x'):rep(4090) .. input.key, 0)", "print(('x'):rep(4090) .. input.key) error(input.key)"]
    {
        let project = Project::lua_with_tools(&ALLOWED_TOOLS.join(" "), caller)
            .skill("y", "")
            .file(".metier/skills/y/scripts/main.lua", said);
        let outcome = run(&project, &letters(400), Limits::default(), said);
        assert!(outcome.result.is_err());
    }
}
