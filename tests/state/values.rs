//! The values that skills keep under keys: `ctx.store_get` and the like, in every language.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::state::{LEVELS, metier_at, only_state, store};
use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

const PLUG_IN: &[u8] = include_bytes!("../plugins/conformance.wasm");

/// Calls the function that the input names, with its arguments, one call after another, and returns the answers.
const LUA: &str = "local answers = {}
for at, call in ipairs(input) do
    local ok, answer = pcall(ctx[call[1]], table.unpack(call, 2, #call))
    answers[at] = if ok then answer else {kind = answer.kind, message = answer.message}
end
return answers";

/// A skill of the project with that script, which requests these permissions.
fn skill(project: Project, name: &str, permissions: &str, (script, text): (&str, &[u8])) -> Project {
    let folder = format!(".metier/skills/{name}");
    let about = format!("---\nname: {name}\ndescription: d\nallowed-tools: {permissions}\n---\n");
    project.file(&format!("{folder}/SKILL.md"), about).file(&format!("{folder}/scripts/{script}"), text)
}

fn lua(project: Project, name: &str, permissions: &str) -> Project {
    skill(project, name, permissions, ("main.lua", LUA.as_bytes()))
}

/// The answers of these calls by a skill in Lua, with these grants.
fn calls(project: &Project, name: &str, grants: &[&str], calls: &Value) -> Value {
    let answer = run(project, name, grants, calls);
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.json()
}

fn run(project: &Project, name: &str, grants: &[&str], input: &Value) -> Answer {
    let input = input.to_string();
    let grants = grants.iter().flat_map(|grant| ["--allow", grant]);
    let args: Vec<&str> = ["run", name].into_iter().chain(grants).chain(["--input", &input]).collect();
    project.metier(&args)
}

#[test]
fn every_language_reads_what_the_one_before_it_has_stored() {
    const PYTHON: &[u8] = b"from metier import ctx
ctx.store_set('list', ctx.store_get('list', 'team') + ['python'], 'team')
ctx.store_set('own', ctx.store_get('own'))";
    const NODE: &[u8] = b"const {ctx} = require('metier');
ctx.store_set('list', [...ctx.store_get('list', 'team'), 'node'], 'team');";
    const SHELL: &[u8] = b"before=$(metier ctx --json store_get list team)
metier ctx store_set --args \"[\\\"list\\\", ${before%]},\\\"shell\\\"], \\\"team\\\"]\"";
    const RHAI: &[u8] = b"let list = ctx.store_get(\"list\", \"team\"); list.push(\"rhai\"); ctx.store_set(\"list\", list, \"team\")";
    const LUA: &[u8] = b"local list = ctx.store_get('list', 'team') table.insert(list, 'lua') ctx.store_set('list', list, 'team')";
    const PLAN: &[u8] = br#"[
        {"id": "before", "tool": "store_get", "args": {"key": "list", "store": "team"}},
        {"id": "after", "tool": "store_set", "args": {"key": "list", "store": "team", "value":
            ["$steps.before.outputs[0]", "$steps.before.outputs[1]", "plan"]}}
    ]"#;
    let mut project = lua(Project::new(), "first", "store:team");
    for (name, script, text) in [
        ("rhai", "main.rhai", RHAI),
        ("plan", "sequence.json", PLAN),
        ("lua", "main.lua", LUA),
        ("python", "main.py", PYTHON),
        ("node", "main.js", NODE),
        ("shell", "main.sh", SHELL),
        ("wasm", "main.wasm", PLUG_IN),
    ] {
        project = skill(project, name, "state store:team", (script, text));
    }
    let project = project
        .file(".metier/skills/wasm/skill.yaml", "entrypoint: {path: scripts/main.wasm, function: call}\n");
    let grants = ["state", "store:team"];
    calls(&project, "first", &grants, &json!([["store_set", "list", ["first"], "team"]]));
    let mut expected = vec!["first"];
    for (name, program) in [
        ("rhai", None),
        ("plan", None),
        ("lua", None),
        ("python", Some("python3")),
        ("node", Some("node")),
        ("shell", None),
    ] {
        if let Some(program) = program.filter(|program| find_program(program).is_none()) {
            not_run(&format!("the store in {name}"), &format!("{program} is not on PATH"));
            continue;
        }
        let answer = run(&project, name, &grants, &json!({}));
        assert_eq!(answer.code, 0, "{name}: {answer:?}");
        expected.push(name);
    }
    let call = json!({"name": "store_get", "args": ["list", "team"]});
    let answer = run(&project, "wasm", &grants, &call);
    assert_eq!(answer.json(), json!(expected), "{answer:?}");
}

#[test]
fn a_value_is_that_of_its_skill_and_its_project() {
    let project =
        ["one", "other"].into_iter().fold(Project::new(), |project, name| lua(project, name, "state"));
    let elsewhere = lua(Project::new(), "one", "state");
    calls(&project, "one", &["state"], &json!([["store_set", "a", "of one"]]));
    let read = json!([["store_get", "a"], ["store_list"], ["store_delete", "a"]]);
    assert_eq!(calls(&project, "other", &["state"], &read), json!([null, [], false]));
    let input = read.to_string();
    let mut command = elsewhere.command(&["run", "one", "--allow", "state", "--input", &input]);
    let answer: Answer = command.env("HOME", project.home()).output().unwrap().into();
    assert_eq!(answer.json(), json!([null, [], false]), "{answer:?}");
    assert_eq!(calls(&project, "one", &["state"], &read), json!(["of one", ["a"], true]));
}

#[test]
fn without_the_permission_nothing_is_read_or_stored() {
    let project = lua(lua(Project::new(), "listed", "state"), "unlisted", "read");
    let all = json!([["store_get", "a"], ["store_set", "a", 1], ["store_list"], ["store_delete", "a"]]);
    for (name, grants, words) in [
        ("listed", &[][..], "run with --allow state"),
        ("unlisted", &["state"], "list state under allowed-tools in SKILL.md"),
    ] {
        let answers = calls(&project, name, grants, &all);
        for answer in answers.as_array().unwrap() {
            let expected = "failed to use the store of the skill: not permitted; ";
            let message = answer["message"].as_str().unwrap();
            assert!(answer["kind"] == "denied" && message.starts_with(expected), "{answers}");
        }
        write(&project.path(&format!(".metier/skills/{name}/scripts/main.lua")), "return ctx.store_get('a')");
        let answer = run(&project, name, grants, &json!({}));
        assert!(answer.code == 4 && answer.stderr.contains(words), "{answer:?}");
    }
    assert!(!store(&project).exists());
}

#[test]
fn a_shared_store_is_that_of_the_skills_which_are_granted_it_by_its_name() {
    let project = lua(Project::new(), "one", "store:team");
    let project = lua(lua(project, "other", "store:team state"), "outsider", "state store:teams");
    let set = json!([["store_set", "a", "shared", "team"]]);
    let read = json!([["store_get", "a", "team"]]);
    calls(&project, "one", &["store:team"], &set);
    assert_eq!(calls(&project, "other", &["store:team"], &read), json!(["shared"]));
    let own = json!([["store_get", "a"], ["store_list"]]);
    assert_eq!(calls(&project, "other", &["state"], &own), json!([null, []]), "its own is another one");
    for (name, grants) in [
        ("one", &[][..]),
        ("one", &["state", "store:teams"]),
        ("other", &["state"]),
        ("outsider", &["state", "store:team", "store:teams"]),
    ] {
        let denied = calls(&project, name, grants, &json!([read[0], set[0]]));
        for answer in denied.as_array().unwrap() {
            assert_eq!(answer["kind"], "denied", "{name}: {denied}");
            assert!(
                answer["message"].as_str().unwrap().contains("the store team: not permitted"),
                "{denied}"
            );
        }
    }
    let elsewhere = lua(Project::new(), "one", "store:team");
    let input = read.to_string();
    let mut command = elsewhere.command(&["run", "one", "--allow", "store:team", "--input", &input]);
    let answer: Answer = command.env("HOME", project.home()).output().unwrap().into();
    assert_eq!(answer.json(), json!([null]), "another project: {answer:?}");
    for grant in ["store", "store:", "store:tea", "store:*", "store:TEAM"] {
        assert_eq!(calls(&project, "one", &[grant], &read)[0]["kind"], "denied", "{grant}");
    }
}

#[test]
fn a_called_skill_has_its_own_store_and_no_more_permissions_than_its_caller() {
    let caller = "local function kind(f) local ok, e = pcall(f) return if ok then e else e.kind end
ctx.store_set('whose', 'the caller')
return {kind(function() return ctx.skill('callee', input) end), ctx.store_get('whose')}";
    let project = lua(Project::new(), "callee", "state store:team");
    let project = skill(project, "caller", "state skill:callee", ("main.lua", caller.as_bytes()));
    let input =
        json!([["store_set", "whose", "the callee"], ["store_get", "whose"], ["store_get", "a", "team"]]);
    let grants = ["state", "store:team", "skill:callee"];
    let answer = run(&project, "caller", &grants, &input).json();
    assert_eq!((&answer[0][1], &answer[1]), (&"the callee".into(), &"the caller".into()), "{answer}");
    assert_eq!(answer[0][2]["kind"], "denied", "{answer}");
    write(
        &project.path(".metier/skills/callee/SKILL.md"),
        "---\nname: callee\ndescription: d\nallowed-tools: read\n---\n",
    );
    let answer = run(&project, "caller", &grants, &input).json();
    assert!(answer[0].as_array().unwrap().iter().all(|answer| answer["kind"] == "denied"), "{answer}");
}

#[test]
fn keys_and_values_are_bounded_and_a_key_names_no_file() {
    let project = lua(Project::new(), "one", "state");
    let long = "x".repeat(256);
    let keys = [
        "../../../escape",
        "/etc/passwd",
        "..",
        ".",
        "new",
        "a/b",
        "C:\\x",
        "$(id)",
        long.as_str(),
        "\u{202e}",
    ];
    let set: Value = keys.iter().map(|key| json!(["store_set", key, key])).collect();
    assert_eq!(calls(&project, "one", &["state"], &set), json!(vec![Value::Null; keys.len()]));
    let get: Value = keys.iter().map(|key| json!(["store_get", key])).collect();
    assert_eq!(calls(&project, "one", &["state"], &get), json!(keys));
    for entry in walkdir::WalkDir::new(project.home()).into_iter().map(Result::unwrap) {
        let name = entry.file_name().to_str().unwrap().to_owned();
        assert!(!keys.contains(&name.as_str()) && !name.contains("escape"), "{name}");
    }
    let refused = json!([
        ["store_set", "", 1],
        ["store_set", "x".repeat(257), 1],
        ["store_set", "a\nb", 1],
        ["store_set", "a\u{0}", 1],
        ["store_set", "a", "x".repeat(65_536)],
        ["store_get", ""],
        ["store_delete", "x".repeat(300)],
        ["store_set", "a", 1, ""],
        ["store_set", "a", 1, "a\nb"],
        ["store_set", 5, 1],
    ]);
    let answers = calls(&project, "one", &["state"], &refused);
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["kind"], "invalid-argument", "{answers}");
        assert!(answer["message"].as_str().unwrap().len() < 400, "{answer}");
    }
    let largest = json!([["store_set", "a", "x".repeat(65_534)], ["store_get", "a"]]);
    assert_eq!(calls(&project, "one", &["state"], &largest)[1].as_str().unwrap().len(), 65_534);
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let fill = "local big, stored = string.rep('x', 60000), 0
local ok, e
repeat
    ok, e = pcall(ctx.store_set, tostring(stored), big)
    if ok then stored += 1 end
until not ok
local kind = e.kind
ctx.store_delete('0')
ctx.store_set('another', 1)
return {stored, kind, e.message, #ctx.store_list()}";
    let project = skill(Project::new(), "fill", "state", ("main.lua", fill.as_bytes()));
    let answer = run(&project, "fill", &["state"], &json!({})).json();
    let stored = (16_usize << 20) / 60_010;
    assert!(answer[0].as_u64().unwrap().abs_diff(stored as u64) <= 1, "{answer}");
    assert_eq!((&answer[1], &answer[3]), (&"state".into(), &answer[0]), "{answer}");
    assert!(answer[2].as_str().unwrap().contains("more than 16777216 bytes"), "{answer}");
}

#[test]
fn what_is_stored_stays_however_the_run_ends() {
    for level in LEVELS {
        let project = lua(Project::new(), "read", "store:team");
        let endings = [("fail", "exit 3"), ("slow", "sleep 60"), ("killed", "kill -9 $$")];
        let project = endings.iter().fold(project, |project, (name, end)| {
            let script = format!("metier ctx store_set {name} stored team; echo x > \"$HOME/lost\"; {end}");
            skill(project, name, "store:team", ("main.sh", script.as_bytes()))
        });
        for (name, _) in endings {
            let args = ["run", name, "--allow", "store:team", "--timeout", "3s"];
            let answer = metier_at(&project, level, &args);
            assert_ne!(answer.code, 0, "{level} {name}: {answer:?}");
        }
        let list = json!([["store_list", Value::Null, "team"]]);
        assert_eq!(
            calls(&project, "read", &["store:team"], &list),
            json!([["fail", "killed", "slow"]]),
            "{level}"
        );
    }
}

#[test]
fn a_script_reaches_its_store_while_its_home_is_kept_and_never_its_files() {
    let script = "metier ctx store_set a secret-value; echo x > \"$HOME/x\"; cd \"$HOME\"
cat ../values/* ../../*/values/* \"$1\"/*/*/values/* 2>&1; ls .. \"$1\" 2>&1
echo planted 2> /dev/null > ../values/planted; metier ctx store_list; true";
    for level in LEVELS {
        let project = skill(Project::new(), "one", "state write", ("main.sh", script.as_bytes()));
        let place = store(&project);
        for _ in 0..2 {
            let args = ["run", "one", "--allow", "state", "--allow", "write", "--", place.to_str().unwrap()];
            let answer = metier_at(&project, level, &args);
            assert_eq!(answer.code, 0, "{level}: {answer:?}");
            assert!(
                !answer.stdout.contains("secret-value") && answer.stdout.contains("[\"a\"]"),
                "{level}: {answer:?}"
            );
        }
        let state = only_state(&project);
        assert!(state.join("current/x").exists() && !state.join("values/planted").exists());
    }
}

#[test]
fn processes_that_store_at_once_lose_nothing() {
    let script = "for number = 1, 25 do
    ctx.store_set(input.name .. '/' .. number, {number})
    ctx.store_set('shared', {input.name, string.rep(input.name, 1000)})
    local shared = ctx.store_get('shared')
    assert(shared[2] == string.rep(shared[1], 1000))
end";
    let project =
        skill(lua(Project::new(), "read", "store:team"), "many", "state", ("main.lua", script.as_bytes()));
    let names = ["a", "b", "c", "d"];
    let running = names.map(|name| {
        let input = json!({"name": name}).to_string();
        let mut command = project.command(&["run", "many", "--allow", "state", "--input", &input]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for run in running {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    write(&project.path(".metier/skills/many/scripts/main.lua"), LUA);
    let listed = calls(&project, "many", &["state"], &json!([["store_list"], ["store_get", "shared"]]));
    assert_eq!(listed[0].as_array().unwrap().len(), names.len() * 25 + 1, "{listed}");
    let shared = listed[1][0].as_str().unwrap();
    assert_eq!(listed[1][1], shared.repeat(1000));
}

/// A host that is killed at any moment leaves the old value or the new one, and nothing in the way of the next.
#[test]
fn a_host_that_is_killed_leaves_whole_values() {
    const KILLS: u32 = 50;
    let script = "local last = ctx.store_get('a')
local number = if last == null then 0 else last.number
while true do
    number += 1
    ctx.store_set('a', {number = number, text = string.rep(tostring(number % 10), 60000)})
    ctx.store_set('b' .. number % 5, string.rep('b', 1000))
end";
    let project = skill(Project::new(), "one", "state", ("main.lua", script.as_bytes()));
    let folder = ".metier/skills/one/scripts";
    write(&project.path(&format!("{folder}/read.lua")), "return {ctx.store_get('a'), ctx.store_list()}");
    let args = |script: &'static str| ["run", "one", "--allow", "state", "--script", script];
    let read = || {
        let answer = project.metier(&args("scripts/read.lua"));
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.json()
    };
    let first = "ctx.store_set('a', {number = 0, text = string.rep('0', 60000)})";
    write(&project.path(&format!("{folder}/first.lua")), first);
    assert_eq!(project.metier(&args("scripts/first.lua")).code, 0);
    let values = only_state(&project).join("values");
    let changed = || fs::metadata(&values).and_then(|folder| folder.modified()).ok();
    let (mut last, mut moved) = (0, 0);
    for kill in 0..KILLS {
        let before = changed();
        let mut command = project.command(&[&args("scripts/main.lua")[..], &["--timeout", "60s"]].concat());
        let mut run = command.stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while changed() == before && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(u64::from(kill * 37 % 50)));
        run.kill().unwrap();
        run.wait().unwrap();
        let found = read();
        let number = found[0]["number"].as_u64().unwrap();
        assert_eq!(found[0]["text"], (number % 10).to_string().repeat(60_000), "{number}");
        assert!(number >= last, "{number} after {last}");
        moved += u32::from(number > last);
        last = number;
    }
    assert!(moved > KILLS / 2, "{moved} of {KILLS} runs stored something before they were killed");
    assert!(fs::read_dir(&values).unwrap().count() <= 7, "old drafts are replaced");
}

#[test]
fn a_full_disk_is_an_error_and_the_values_stay() {
    if find_program("unshare").is_none() {
        return not_run("a store on a full disk", "unshare is not installed");
    }
    let fill = "local big, kinds = string.rep('x', 60000), {}
for number = 1, 6 do
    local ok, e = pcall(ctx.store_set, tostring(number), big)
    kinds[number] = if ok then 'ok' else e.kind .. ': ' .. e.message
    local found = ctx.store_get(tostring(number))
    assert(if ok then found == big else found == null)
end
ctx.store_set('1', 'x')
assert(ctx.store_get('1') == 'x' and ctx.store_get('2') == big)
return kinds";
    let project = skill(Project::new(), "fill", "state", ("main.lua", fill.as_bytes()));
    let disk = project.home().join("disk");
    fs::create_dir_all(&disk).unwrap();
    let steps = "mount -t tmpfs -o size=200k,mode=700 tmpfs \"$1\" && shift && \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", steps, "sh"]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_metier")).args(["run", "fill", "--allow", "state"]);
    command.current_dir(project.path(".")).env("HOME", project.home()).env("METIER_DATA_DIR", &disk);
    let answer: Answer = command.stdin(Stdio::null()).output().unwrap().into();
    if answer.code != 0 && answer.stderr.contains("unshare") {
        return not_run("a store on a full disk", &answer.stderr);
    }
    assert_eq!(answer.code, 0, "{answer:?}");
    let kinds = answer.json();
    let is_full = |kind: &Value| kind.as_str().unwrap().starts_with("io: failed to change the store of");
    assert!(kinds[1] == "ok" && is_full(&kinds[5]) && kinds.to_string().contains("No space left"), "{kinds}");
}

#[test]
fn a_secret_of_the_run_is_not_stored() {
    let project = lua(Project::new(), "one", "state secret:TOKEN");
    let shell = "metier ctx store_set a \"token=$TOKEN\"; metier ctx store_get a";
    let project = skill(project, "shell", "state secret:TOKEN", ("main.sh", shell.as_bytes()));
    let run = |name: &str, input: Option<&Value>| -> Answer {
        let input = input.map(ToString::to_string);
        let mut args = vec!["run", name, "--allow", "state", "--secret", "TOKEN"];
        args.extend(input.iter().flat_map(|input| ["--input", input.as_str()]));
        project.command(&args).env("TOKEN", "hunter2hunter2").output().unwrap().into()
    };
    let input =
        json!([["secret", "TOKEN"], ["store_set", "a", {"b": ["x hunter2hunter2"]}], ["store_get", "a"]]);
    let answers = run("one", Some(&input)).json();
    assert_eq!((&answers[1]["kind"], &answers[2]), (&"denied".into(), &Value::Null), "{answers}");
    let answer = run("shell", None);
    assert!(answer.stderr.contains("a store keeps no secrets"), "{answer:?}");
    for entry in walkdir::WalkDir::new(project.home()).into_iter().map(Result::unwrap) {
        let text = fs::read(entry.path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"), "{}", entry.path().display());
    }
}

#[test]
fn the_command_lists_shows_and_clears_the_values() {
    let project = lua(Project::new(), "one", "state store:team");
    let set = json!([["store_set", "a", 1], ["store_set", "b\u{202e}", 2], ["store_set", "c", 3, "team"]]);
    calls(&project, "one", &["state", "store:team"], &set);
    let listed = project.metier(&["state", "--json"]).json();
    let rows = listed.as_array().unwrap();
    let of = |is_shared: bool| rows.iter().find(|row| row["store"].is_string() == is_shared).unwrap();
    assert_eq!(
        (&of(false)["values"], &of(false)["skill"]),
        (&2.into(), &"project/.metier:one".into()),
        "{listed}"
    );
    assert_eq!((&of(true)["values"], &of(true)["store"]), (&1.into(), &"team".into()), "{listed}");
    let text = project.metier(&["state"]).stdout;
    assert!(
        text.contains("store:team  6 bytes in 1 values") && text.contains(" bytes in 2 values"),
        "{text}"
    );
    let shown = project.metier(&["state", "one"]).stdout;
    assert!(shown.contains("value a  6 bytes") && !shown.contains('\u{202e}'), "{shown}");
    let shown = project.metier(&["state", "store:team", "--json"]).json();
    assert_eq!(shown[0]["values"], json!([{"key": "c", "bytes": 6}]), "{shown}");
    assert_eq!(project.metier(&["state", "--clear", "store:other", "--yes"]).code, 3);
    assert_eq!(project.metier(&["state", "--clear", "one", "--yes"]).code, 0);
    let left = json!([["store_list"], ["store_list", Value::Null, "team"]]);
    assert_eq!(calls(&project, "one", &["state", "store:team"], &left), json!([[], ["c"]]));
    assert_eq!(project.metier(&["state", "--clear", "store:team", "--yes"]).code, 0);
    assert_eq!(calls(&project, "one", &["state", "store:team"], &left), json!([[], []]));
    calls(&project, "one", &["state", "store:team"], &set);
    assert_eq!(project.metier(&["state", "--clear", "--all", "--yes"]).code, 0);
    assert_eq!(fs::read_dir(store(&project)).unwrap().count(), 0);
}

#[test]
fn a_link_in_the_place_of_the_values_is_refused_and_only_the_user_reads_them() {
    let project = lua(Project::new(), "one", "state");
    calls(&project, "one", &["state"], &json!([["store_set", "a", 1]]));
    let state = only_state(&project);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(state.clone()), mode(state.join("values"))), (0o700, 0o700));
    let elsewhere = project.path("elsewhere");
    fs::rename(state.join("values"), &elsewhere).unwrap();
    symlink(&elsewhere, state.join("values")).unwrap();
    let answers = calls(
        &project,
        "one",
        &["state"],
        &json!([["store_get", "a"], ["store_set", "b", 1], ["store_list"]]),
    );
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["kind"] == "io"), "{answers}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    let place = store(&project);
    fs::rename(&place, place.with_file_name("moved")).unwrap();
    symlink(place.with_file_name("moved"), &place).unwrap();
    let answers = calls(&project, "one", &["state"], &json!([["store_get", "a"]]));
    assert_eq!(answers[0]["kind"], "denied", "{answers}");
}

#[test]
fn a_case_of_a_skill_has_a_store_of_its_own() {
    let script = "local last = ctx.store_get('n') ctx.store_set('n', 1) return last";
    let project = skill(Project::new(), "one", "state", ("main.lua", script.as_bytes()))
        .file(".metier/skills/one/cases/first.json", r#"{"expect": {"value": null}}"#)
        .file(
            ".metier/skills/one/cases/later.json",
            r#"{"given": {"store": {"n": 4}}, "expect": {"value": 4}}"#,
        );
    assert_eq!(run(&project, "one", &["state"], &json!({})).code, 0);
    for _ in 0..2 {
        let answer = project.metier(&["test", "one"]);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
}

#[test]
fn a_value_is_read_and_stored_without_a_wait() {
    let script = "for number = 1, 100 do ctx.store_set('a', number) ctx.store_get('a') end";
    let project = skill(Project::new(), "one", "state", ("main.lua", script.as_bytes()));
    let began = Instant::now();
    assert_eq!(run(&project, "one", &["state"], &json!({})).code, 0);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
