//! Previews where the machine has no overlays: what works through the host functions alone runs in a delta, and processes do not start.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use metier::changes::{ApplyOptions, ApplyReport};
use metier::engine::{ChangesReport, Engine, EngineBuilder, Invocation, Outcome, Preview};
use metier::error::ErrorKind;
use metier::host::ClosureTools;
use metier::policy::{SandboxLevel, SandboxMode};
use metier::state::StateStore;
use serde_json::{Value, json};

use crate::engine::previews::{changes, kind_of, kinds, project};
use crate::support::engine::{Project, granted, sentence, write};

/// The level without mounts has no overlays.
const WITHOUT_OVERLAYS: SandboxLevel = SandboxLevel::Landlock;

impl Project {
    fn delta_builder(&self) -> EngineBuilder {
        // The compiler of modules runs in a helper, unless the cache of the user has them.
        self.preview_builder().sandbox_level(WITHOUT_OVERLAYS).helper(env!("CARGO_BIN_EXE_metier"))
    }

    fn delta_engine(&self) -> Engine {
        self.delta_builder().build().unwrap()
    }

    /// The run in a delta, after which the project is as it was.
    fn preview_in_delta(&self, invocation: Invocation) -> Outcome {
        self.preview(&self.delta_engine(), invocation).unwrap()
    }

    /// The run in another project that is equal: its folder, which it has changed, and its outcome.
    fn run_in_another(&self, invocation: Invocation) -> (PathBuf, Outcome) {
        let copied = self.root().with_file_name("copied");
        let status = Command::new("cp").arg("-a").args([self.root(), &copied]).status().unwrap();
        assert!(status.success());
        let outcome = Engine::builder(&copied).build().unwrap().run(invocation);
        (copied, outcome)
    }

    fn apply(&self, report: &ChangesReport) -> ApplyReport {
        let store = self.change_store();
        let opened = store.open_project(&store.find(report.id()).unwrap().set).unwrap();
        let options = ApplyOptions { digest: Some(report.digest.clone()), ..ApplyOptions::default() };
        store.apply(report.id(), opened.as_fd(), &options).unwrap()
    }
}

/// The changes of an outcome, and what it refused, without what differs each time.
fn change_set(outcome: &Outcome) -> Value {
    let mut set = changes(outcome).set.clone();
    for change in set["changes"].as_array_mut().unwrap() {
        for state in ["before", "after"] {
            change[state].as_object_mut().and_then(|state| state.shift_remove("identity"));
        }
    }
    json!([set["changes"], set["refused"]])
}

/// The same changes in each language, and what the run sees afterwards.
const LUA: &str = "ctx.write('d/new.txt', 'new') ctx.append('docs/a.txt', 'more\\n') ctx.edit('b.txt', 'two', '2')
    ctx.mkdir('empty') ctx.remove('gone.txt')
    return {ctx.read_file('docs/a.txt'), ctx.list_dir('d'), #ctx.grep('2', '.'), (pcall(ctx.stat, 'gone.txt'))}";
const RHAI: &str = r#"ctx.write("d/new.txt", "new"); ctx.append("docs/a.txt", "more\n"); ctx.edit("b.txt", "two", "2");
    ctx.mkdir("empty"); ctx.remove("gone.txt");
    let seen = true; try { ctx.stat("gone.txt"); } catch { seen = false; }
    [ctx.read_file("docs/a.txt"), ctx.list_dir("d"), ctx.grep("2", ".").len(), seen]"#;

/// The steps of a plan that makes the same changes, each as this names it.
fn steps(step: impl Fn(&str, &[&str]) -> Value) -> String {
    let calls: [(&str, &[&str]); 6] = [
        ("write", &["d/new.txt", "new"]),
        ("append", &["docs/a.txt", "more\n"]),
        ("edit", &["b.txt", "two", "2"]),
        ("mkdir", &["empty"]),
        ("remove", &["gone.txt"]),
        ("read_file", &["docs/a.txt"]),
    ];
    json!(calls.map(|(name, arguments)| step(name, arguments))).to_string()
}

fn tool_step(name: &str, arguments: &[&str]) -> Value {
    let names = match name {
        "edit" => vec!["path", "old", "new"],
        _ => vec!["path", "content"],
    };
    let arguments: serde_json::Map<String, Value> =
        names.into_iter().map(str::to_owned).zip(arguments.iter().map(|text| json!(text))).collect();
    json!({"tool": name, "args": arguments})
}

fn wasm_step(name: &str, arguments: &[&str]) -> Value {
    json!({"skill": "wasm", "args": {"name": name, "args": arguments}})
}

#[test]
fn every_language_inside_the_program_changes_a_delta() {
    let seen = json!(["one\nmore\n", ["new.txt"], 1, false]);
    let mut languages = vec![("lua", "main.lua", LUA.to_owned(), seen.clone())];
    languages.push(("plan", "sequence.json", steps(tool_step), json!("one\nmore\n")));
    if cfg!(feature = "rhai-runtime") {
        languages.push(("rhai", "main.rhai", RHAI.to_owned(), seen));
    }
    if cfg!(feature = "wasm-runtime") {
        languages.push(("modules", "sequence.json", steps(wasm_step), json!("one\nmore\n")));
    }
    for (name, script, text, seen) in languages {
        let project = project()
            .skill_with(name, "allowed-tools: read write skill:wasm\n", script, &text)
            .skill("wasm", "allowed-tools: read write\n")
            .file(".metier/skills/wasm/scripts/main.wasm", include_bytes!("../plugins/conformance.wasm"))
            .file(
                ".metier/skills/wasm/skill.yaml",
                "entrypoint: {path: scripts/main.wasm, function: call}\n",
            );
        let invocation = || granted(Invocation::new(name), &["read", "skill:wasm"]);
        let outcome = project.preview_in_delta(invocation());
        assert_eq!(outcome.result.clone().unwrap(), seen, "{name}: {outcome:?}");
        let expected = [
            "changed b.txt",
            "created d",
            "created d/new.txt",
            "changed docs/a.txt",
            "created empty",
            "deleted gone.txt",
        ];
        assert_eq!(kinds(&outcome), expected, "{name}");
        let report = changes(&outcome);
        let diff = json!({"path": "docs/a.txt", "diff": "@@ -1 +1,2 @@\n one\n+more\n"});
        assert!(report.diffs.contains(&diff), "{:?}", report.diffs);
        assert!(report.is_stored);
        // The same run in an overlay, where there are some.
        let overlaid = project.preview(&project.preview_builder().build().unwrap(), invocation());
        if let Some(overlaid) = overlaid {
            assert_eq!(change_set(&overlaid), change_set(&outcome), "{name}");
        }
        assert_eq!(project.apply(report).conflicts, [], "{name}");
        assert_eq!((project.read("b.txt"), project.read("d/new.txt")), ("2\n".into(), "new".into()));
        assert!(project.path("empty").is_dir() && !project.path("gone.txt").exists());
    }
}

/// Does each operation of the input, and returns its value or the error.
const OPERATIONS: &str = "local answers = {}
    for place, operation in ipairs(input.operations) do
        local ok, value = pcall(function()
            if operation[1] == 'rename' then
                ctx.write(operation[3], ctx.read_file(operation[2]))
                return ctx.remove(operation[2])
            end
            return ctx[operation[1]](table.unpack(operation, 2))
        end)
        if ok and operation[1] == 'stat' then value = {value.is_dir, value.is_symlink, value.is_file and value.size} end
        answers[place] = ok and {value} or string.lower(tostring(value))
    end
    return answers";

/// Operations by chance, the same for a seed: on few paths, so that they meet.
fn operations(mut seed: u64, count: usize) -> Vec<Value> {
    let mut draw = |choices: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % choices
    };
    let mut operation = || {
        let mut path = || {
            let names = ["docs", "a.txt", "b.txt", "link", "x"];
            (0..=draw(3)).map(|_| names[draw(names.len())]).collect::<Vec<_>>().join("/")
        };
        let (path, other) = (path(), path());
        let (contents, views) = (["", "one\n", "long\n"], ["list_dir", "stat", "tree"]);
        match draw(14) {
            0..=2 => json!(["write", path, contents[draw(3)]]),
            3 | 4 => json!(["append", path, "more\n"]),
            5 => json!(["edit", path, "one", "1"]),
            6 => json!(["mkdir", path]),
            7 | 8 => json!(["remove", path]),
            9 => json!(["remove", path, {"recursive": true}]),
            10 => json!(["rename", path, other]),
            11 => json!(["read_file", path]),
            12 => json!([views[draw(3)], path]),
            _ => json!(["grep", "o", path]),
        }
    };
    let mut found: Vec<Value> = (0..count).map(|_| operation()).collect();
    found.extend([json!(["tree", "."]), json!(["grep", "o", "."])]);
    found
}

#[test]
fn a_delta_an_overlay_and_the_project_itself_take_the_same_operations() {
    for seed in 0..25 {
        let project = project()
            .file("docs/x/b.txt", "deep\n")
            .link("docs/x", "link")
            .link("../b.txt", "docs/link")
            .skill_with("lua", "allowed-tools: read write\n", "main.lua", OPERATIONS);
        let invocation = || {
            let input = json!({"operations": operations(seed, 25)});
            granted(Invocation::new("lua"), &["read"]).input(input)
        };
        let in_delta = project.preview_in_delta(invocation());
        let overlaid = project.preview(&project.preview_builder().build().unwrap(), invocation());
        if let Some(overlaid) = overlaid {
            assert_eq!(in_delta.result.clone().unwrap(), overlaid.result.clone().unwrap(), "{seed}");
            assert_eq!(change_set(&in_delta), change_set(&overlaid), "{seed}");
        }
        let (copied, direct) = project.run_in_another(granted(invocation(), &["write"]));
        let roots = [project.root(), &copied].map(|root| root.canonicalize().unwrap().display().to_string());
        let text = |outcome: &Outcome, root: &String| {
            outcome.result.as_ref().unwrap().to_string().replace(root, "ROOT")
        };
        assert_eq!(text(&in_delta, &roots[0]), text(&direct, &roots[1]), "{seed}");
        assert_eq!(project.apply(changes(&in_delta)).conflicts, [], "{seed}");
        let mut diff = Command::new("diff");
        let same = diff.args(["-r", "--no-dereference"]).args([project.root(), &copied]).output().unwrap();
        assert!(same.status.success(), "{seed}: {}", String::from_utf8_lossy(&same.stdout));
    }
}

#[test]
fn a_process_does_not_start_in_a_delta() {
    let lua =
        "ctx.write('by-lua.txt', 'x') local ok, why = pcall(ctx.skill, 'sh', nil) return {ok, tostring(why)}";
    let plan = json!([{"tool": "write", "args": {"path": "by-plan.txt", "content": "x"}}, {"skill": "sh"}]);
    let project = project()
        .skill_with("lua", "allowed-tools: read write skill:sh\n", "main.lua", lua)
        .skill_with("plan", "allowed-tools: write skill:sh\n", "sequence.json", &plan.to_string())
        .skill_with("sh", "allowed-tools: exec:unsandboxed\n", "main.sh", "#!/bin/sh\necho x > by-sh.txt");
    let sentence_of_overlays = "failed to run in a copy of the project: an overlay needs mounts, which the sandbox level \
                                landlock does not have";
    for mode in [SandboxMode::Required, SandboxMode::BestEffort, SandboxMode::Off] {
        let grants = ["read", "skill:sh", "exec:unsandboxed"];
        let invocation = |name: &str| granted(Invocation::new(name), &grants).sandbox_mode(mode);
        let outcome = project.preview_in_delta(invocation("lua"));
        let value = outcome.result.clone().unwrap();
        assert_eq!(value[0], false, "{outcome:?}");
        assert!(value[1].as_str().unwrap().contains(sentence_of_overlays), "{value}");
        assert_eq!(kinds(&outcome), ["created by-lua.txt"]);
        // The run has failed, and what it changed before is reported.
        let outcome = project.delta_engine().run(invocation("plan").preview(Preview::Report));
        assert!(sentence(&outcome).contains(sentence_of_overlays), "{outcome:?}");
        assert_eq!(kinds(&outcome), ["created by-plan.txt"]);
        let outcome = project.delta_engine().run(invocation("sh").preview(Preview::Report));
        assert_eq!(kind_of(&outcome), Some(ErrorKind::SandboxUnavailable));
        assert_eq!(sentence(&outcome), sentence_of_overlays);
        let command = Invocation::command("sh", ["-c", "echo x > by-sh.txt"]).sandbox_mode(mode);
        let outcome = project.delta_engine().run(command.preview(Preview::Report));
        assert_eq!(sentence(&outcome), sentence_of_overlays);
        for path in ["by-lua.txt", "by-plan.txt", "by-sh.txt"] {
            assert!(!project.path(path).exists(), "{path}");
        }
    }
}

#[test]
fn what_is_protected_is_protected_in_a_delta() {
    let lua = "local function try(name, ...) return (pcall(ctx[name], ...)) end
        ctx.write('sub/HEAD', 'x') ctx.mkdir('sub/objects')
        return {try('write', '.git/config', 'x'), try('append', '.git/config', 'x'), try('remove', '.git/config'),
            try('remove', '.git', {recursive = true}), try('write', '.git/hooks/pre-commit', 'x'), try('read_file', '.env'),
            try('write', '.env', 'x'), try('read_file', 'second'), try('append', 'second', 'x'),
            try('read_file', 'by-link'), try('write', 'by-link', 'x'),
            try('write', '.vscode/tasks.json', 'x'), try('write', '.metier/skills/lua/scripts/main.lua', 'x'),
            try('mkdir', 'sub/refs'), try('read_file', 'out/passwd'), try('write', 'out/x', 'x'),
            try('write', '../beside.txt', 'x'), try('write', 'in/../../beside.txt', 'x')}";
    let project = project().link(".env", "by-link").link("/etc", "out").skill_with(
        "lua",
        "allowed-tools: read write\n",
        "main.lua",
        lua,
    );
    std::fs::hard_link(project.path(".env"), project.path("second")).unwrap();
    let invocation = || granted(Invocation::new("lua"), &["read"]);
    let outcome = project.preview_in_delta(invocation());
    let answers = outcome.result.clone().unwrap();
    let (_, direct) = project.run_in_another(granted(invocation(), &["write"]));
    assert_eq!(answers, direct.result.unwrap(), "it is as outside");
    assert_eq!(answers, json!(vec![false; 18]));
    assert_eq!(kinds(&outcome), ["created sub", "created sub/HEAD", "created sub/objects"]);
}

#[test]
fn a_link_of_the_project_is_no_way_around_a_delta() {
    // The links of the project lead into it, by relative and absolute targets; a removed one makes way for a folder.
    let lua = "ctx.write('absolute/a.txt', '1') ctx.append('relative', '2') ctx.remove('relative')
        ctx.write('relative/x.txt', '3') ctx.remove('absolute') ctx.write('absolute/a.txt', '4')
        return {ctx.read_file('docs/a.txt'), ctx.read_file('b.txt'), ctx.read_file('absolute/a.txt')}";
    let project = project();
    let docs = project.root().canonicalize().unwrap().join("docs");
    let project = project.link(docs, "absolute").link("b.txt", "relative").skill_with(
        "lua",
        "allowed-tools: read write\n",
        "main.lua",
        lua,
    );
    let outcome = project.preview_in_delta(granted(Invocation::new("lua"), &["read"]));
    assert_eq!(outcome.result.clone().unwrap(), json!(["1", "two\n2", "4"]), "{outcome:?}");
    let expected = [
        "changed absolute",
        "created absolute/a.txt",
        "changed b.txt",
        "changed docs/a.txt",
        "changed relative",
        "created relative/x.txt",
    ];
    assert_eq!(kinds(&outcome), expected);
    assert_eq!(project.apply(changes(&outcome)).conflicts, []);
    assert_eq!((project.read("docs/a.txt"), project.read("absolute/a.txt")), ("1".into(), "4".into()));
}

#[test]
fn a_run_goes_on_in_the_delta_of_the_project_that_it_began_with() {
    let lua = "ctx.write('before.txt', 'x') ctx.tool('swap', {}) ctx.append('b.txt', 'x') ctx.remove('gone.txt') \
               return ctx.read_file('b.txt')";
    let project = project().skill_with("lua", "allowed-tools: read write tool:swap\n", "main.lua", lua);
    let (root, aside) = (project.root().to_owned(), project.root().with_file_name("aside"));
    let swapped = (root.clone(), aside.clone());
    let tools = ClosureTools::new().tool("swap", "Swaps the project", json!({}), move |_, _| {
        let (root, aside) = &swapped;
        std::fs::rename(root, aside).unwrap();
        std::fs::create_dir(root).unwrap();
        write(&root.join("b.txt"), "other");
        Ok(json!(null))
    });
    let engine = project.delta_builder().tools(tools).build().unwrap();
    let invocation = granted(Invocation::new("lua"), &["read", "tool:swap"]).preview(Preview::Store);
    let outcome = engine.run(invocation);
    assert_eq!(outcome.result.clone().unwrap(), "two\nx", "{outcome:?}");
    assert_eq!(kinds(&outcome), ["changed b.txt", "created before.txt", "deleted gone.txt"]);
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "other");
    assert_eq!(std::fs::read_to_string(aside.join("b.txt")).unwrap(), "two\n");
    assert!(aside.join("gone.txt").exists() && !aside.join("before.txt").exists());
    let store = project.change_store();
    assert!(
        store.open_project(&store.find(changes(&outcome).id()).unwrap().set).is_err(),
        "it is another project"
    );
}

#[test]
fn what_somebody_changes_in_the_project_meanwhile_is_a_conflict() {
    let lua =
        "ctx.tool('change', {}) ctx.append('b.txt', 'x') ctx.remove('gone.txt') return ctx.list_dir('docs')";
    let project = project().skill_with("lua", "allowed-tools: read write tool:change\n", "main.lua", lua);
    let root = project.root().to_owned();
    let tools = ClosureTools::new().tool("change", "Changes the project", json!({}), move |_, _| {
        let began = std::time::SystemTime::now();
        for path in ["b.txt", "gone.txt"].map(|name| root.join(name)) {
            // Times of files advance in steps of some milliseconds, which the run began within.
            while path.metadata().unwrap().modified().unwrap() <= began {
                write(&path, "by somebody\n");
            }
        }
        write(&root.join("docs/new.txt"), "by somebody\n");
        Ok(json!(null))
    });
    let engine = project.delta_builder().tools(tools).build().unwrap();
    let invocation = granted(Invocation::new("lua"), &["read", "tool:change"]).preview(Preview::Store);
    let outcome = engine.run(invocation);
    assert_eq!(outcome.result.clone().unwrap(), json!(["a.txt", "new.txt"]), "{outcome:?}");
    let conflicts = project.apply(changes(&outcome)).conflicts;
    let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!(paths, ["b.txt", "gone.txt"]);
    assert_eq!(project.read("b.txt"), "by somebody\n");
}

#[test]
fn state_is_outside_of_a_delta_and_the_files_of_a_skill_are_inside() {
    let lua = "local count = ctx.store_get('key')
        ctx.store_set('key', (type(count) == 'number' and count or 0) + 1)
        ctx.write('.metier/skills/lua/data.txt', 'changed')
        return {ctx.store_get('key'), ctx.asset('data.txt'), ctx.asset('other.txt')}";
    let project = project()
        .skill_with("lua", "allowed-tools: read write write:.metier/skills state\n", "main.lua", lua)
        .file(".metier/skills/lua/data.txt", "as it was")
        .file(".metier/skills/lua/other.txt", "other");
    let engine = project
        .delta_builder()
        .state(StateStore::new(project.root().with_file_name("state")))
        .build()
        .unwrap();
    let invocation = || granted(Invocation::new("lua"), &["read", "write:.metier/skills", "state"]);
    for run in [1, 2] {
        let outcome = project.preview(&engine, invocation()).unwrap();
        assert_eq!(outcome.result.clone().unwrap(), json!([run, "changed", "other"]), "{outcome:?}");
        assert_eq!(kinds(&outcome), ["changed .metier/skills/lua/data.txt"]);
    }
}
