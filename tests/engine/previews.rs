//! Runs in a copy of the project: every language and every callee finds the copy, and the project stays as it is.

use std::os::fd::AsFd;

use metier::changes::{ApplyOptions, ChangeStore};
use metier::engine::{ChangesReport, Engine, EngineBuilder, Invocation, Outcome, Preview};
use metier::error::ErrorKind;
use metier::host::ClosureTools;
use metier::policy::{SandboxLevel, SandboxMode};
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, sentence, write};
use crate::support::file_states::file_states;
use crate::support::not_run::{find_program, not_run};

impl Project {
    pub fn change_store(&self) -> ChangeStore {
        ChangeStore::open(self.root().with_file_name("data").join("changes")).unwrap()
    }

    pub fn preview_builder(&self) -> EngineBuilder {
        Engine::builder(self.root()).changes(self.change_store())
    }

    pub fn skill_with(self, name: &str, front: &str, script: &str, text: &str) -> Self {
        let manifest = format!("---\nname: {name}\ndescription: d\n{front}---\n");
        self.file(&format!(".metier/skills/{name}/SKILL.md"), manifest)
            .file(&format!(".metier/skills/{name}/scripts/{script}"), text)
    }

    /// The run in a copy, after which the project is as it was; `None` where this machine has no copies.
    pub fn preview(&self, engine: &Engine, invocation: Invocation) -> Option<Outcome> {
        let before = file_states(self.root());
        let outcome = engine.run(invocation.preview(Preview::Store));
        assert_eq!(file_states(self.root()), before, "the project was changed");
        let folder = self.change_store().previews_folder();
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "something is left of the copy");
        if kind_of(&outcome) == Some(ErrorKind::SandboxUnavailable) {
            not_run("a run in a copy of the project", &sentence(&outcome));
            return None;
        }
        Some(outcome)
    }
}

pub fn kind_of(outcome: &Outcome) -> Option<ErrorKind> {
    outcome.result.as_ref().err().map(metier::error::SkillError::kind)
}

pub fn changes(outcome: &Outcome) -> &ChangesReport {
    outcome.changes.as_deref().unwrap_or_else(|| panic!("{outcome:?}"))
}

/// Each change as `kind path`.
pub fn kinds(outcome: &Outcome) -> Vec<String> {
    let text = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    let changes = changes(outcome).set["changes"].as_array().unwrap().iter();
    changes.map(|change| format!("{} {}", text(change, "kind"), text(change, "path"))).collect()
}

pub fn project() -> Project {
    Project::new()
        .file("docs/a.txt", "one\n")
        .file("b.txt", "two\n")
        .file("gone.txt", "gone\n")
        .file(".git/config", "[core]\n")
        .file(".env", "KEY=1\n")
}

#[test]
fn a_process_changes_the_copy_and_its_changes_are_applied_by_their_digest() {
    let script = "#!/bin/sh\npwd; echo 1 > docs/a.txt; rm gone.txt; mkdir d; mv b.txt d/b.txt; chmod 755 d/b.txt\n\
                  echo x >> .git/config; cat .env; rm .env; ln -s d/b.txt link; cat docs/a.txt";
    let project = project().skill_with("sh", "", "main.sh", script);
    let engine = project.preview_builder().build().unwrap();
    let Some(outcome) = project.preview(&engine, Invocation::new("sh")) else { return };
    let root = std::fs::canonicalize(project.root()).unwrap();
    let process = outcome.process.as_ref().unwrap();
    assert_eq!(process.stdout, format!("{}\n1\n", root.display()), "{process:?}");
    assert_eq!(
        kinds(&outcome),
        ["created d", "renamed d/b.txt", "changed docs/a.txt", "deleted gone.txt", "created link"]
    );
    let report = changes(&outcome);
    assert!(report.diffs.contains(&json!({"path": "docs/a.txt", "diff": "@@ -1 +1 @@\n-one\n+1\n"})));
    let (store, options) = (project.change_store(), ApplyOptions::default());
    let stored = store.find(report.id()).unwrap();
    let opened = store.open_project(&stored.set).unwrap();
    let other = ApplyOptions { digest: Some("0".repeat(64)), ..options.clone() };
    let refused = store.apply(report.id(), opened.as_fd(), &other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(project.read("docs/a.txt"), "one\n");
    let agreed = ApplyOptions { digest: Some(report.digest.clone()), ..options };
    let applied = store.apply(report.id(), opened.as_fd(), &agreed).unwrap();
    assert_eq!(applied.conflicts, []);
    assert_eq!((project.read("docs/a.txt"), project.read("d/b.txt")), ("1\n".into(), "two\n".into()));
    assert_eq!((project.read(".env"), project.read(".git/config")), ("KEY=1\n".into(), "[core]\n".into()));
}

#[test]
fn host_functions_and_processes_of_one_run_see_the_same_copy() {
    let lua = "ctx.write('made/by-lua.txt', 'lua')
        ctx.skill('sh', nil)
        return {ctx.read_file('made/by-sh.txt'), ctx.read_file('docs/a.txt'),
            (pcall(ctx.read_file, 'gone.txt')), (pcall(ctx.read_file, '.env'))}";
    let sh = "#!/bin/sh\ncat made/by-lua.txt > made/by-sh.txt; echo sh >> docs/a.txt; rm gone.txt";
    let project = project()
        .skill_with("both", "allowed-tools: read write skill:sh\n", "main.lua", lua)
        .skill_with("sh", "", "main.sh", sh);
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("both"), &["read", "skill:sh"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    assert_eq!(outcome.result.clone().unwrap(), json!(["lua", "one\nsh\n", false, false]));
    let expected = [
        "changed docs/a.txt",
        "deleted gone.txt",
        "created made",
        "created made/by-lua.txt",
        "created made/by-sh.txt",
    ];
    assert_eq!(kinds(&outcome), expected);
}

#[test]
fn a_plan_and_rhai_change_the_copy() {
    let plan = r#"[{"tool": "write", "args": {"path": "plan.txt", "content": "plan"}}, {"skill": "rhai"}]"#;
    let project = project()
        .skill_with("plan", "allowed-tools: write skill:rhai\n", "sequence.json", plan)
        .skill_with("rhai", "allowed-tools: write\n", "main.rhai", r#"ctx.write("rhai.txt", "rhai"); 1"#);
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("plan"), &["skill:rhai"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    assert_eq!(kinds(&outcome), ["created plan.txt", "created rhai.txt"], "{outcome:?}");
    let journal = project.root().with_file_name("journal");
    let journaled =
        granted(Invocation::new("plan"), &["skill:rhai"]).journal(&journal).preview(Preview::Store);
    assert_eq!(kind_of(&engine.run(journaled)), Some(ErrorKind::Usage));
    assert!(!journal.exists());
}

#[test]
fn python_lists_and_replaces_files_of_the_copy() {
    if find_program("python3").is_none() {
        return not_run("a Python script in a copy", "python3 is not installed");
    }
    let script = "import os, pathlib, shutil\n\
                  shutil.copytree('docs', 'copied'); os.replace('b.txt', 'copied/b.txt')\n\
                  pathlib.Path('docs/a.txt').unlink(); os.chmod('gone.txt', 0o600)\n\
                  print(sorted(p.name for p in pathlib.Path('.').iterdir() if not p.name.startswith('.')))";
    let project = project().skill_with("py", "", "main.py", script);
    let engine = project.preview_builder().build().unwrap();
    let Some(outcome) = project.preview(&engine, Invocation::new("py")) else { return };
    let process = outcome.process.as_ref().unwrap();
    assert_eq!(process.stdout, "['copied', 'docs', 'gone.txt']\n", "{process:?}");
    let expected = ["created copied", "renamed copied/a.txt", "renamed copied/b.txt", "mode gone.txt"];
    assert_eq!(kinds(&outcome), expected);
}

#[test]
fn what_a_preview_only_reports_is_not_stored() {
    let project = project().skill_with("sh", "", "main.sh", "#!/bin/sh\necho $KEY > docs/a.txt");
    let engine = project.preview_builder().build().unwrap();
    let invocation = || {
        let invocation =
            Invocation::new("sh").secret_env("KEY", "hunter2-hunter2").grant("env:KEY".parse().unwrap());
        invocation.preview(Preview::Report)
    };
    if project.preview(&engine, invocation()).is_none() {
        return;
    }
    let outcome = engine.run(invocation());
    assert_eq!(kinds(&outcome), ["changed docs/a.txt"]);
    assert!(!changes(&outcome).is_stored);
    assert_eq!(changes(&outcome).diffs[0]["diff"], "@@ -1 +1 @@\n-one\n+[secret:KEY]\n");
    let stored = project.change_store().list().unwrap();
    assert!(stored.iter().all(|stored| stored.set.id != changes(&outcome).id()));
    // In JSON it is as the command prints it.
    let printed = json!(outcome);
    assert_eq!(printed["changes"]["changes"][0]["path"], "docs/a.txt");
    assert_eq!(printed["changes"]["digest"], json!(changes(&outcome).digest));
    assert_eq!(json!(engine.run(Invocation::new("none")))["changes"], Value::Null);
}

#[test]
fn a_run_that_would_have_no_sandbox_or_no_copy_does_not_start() {
    let project = project().skill_with("sh", "", "main.sh", "#!/bin/sh\necho x > n.txt");
    let engine = project.preview_builder().build().unwrap();
    let Some(_) = project.preview(&engine, Invocation::new("sh")) else { return };
    for invocation in [
        granted(Invocation::new("sh"), &["exec:unsandboxed"]),
        Invocation::new("sh").sandbox_mode(SandboxMode::Off),
    ] {
        let outcome = project.preview(&engine, invocation).unwrap();
        assert_eq!(kind_of(&outcome), Some(ErrorKind::Denied), "{outcome:?}");
        assert!(sentence(&outcome).contains("the run is on a copy of the project"), "{outcome:?}");
    }
    let without = project.preview_builder().sandbox_level(SandboxLevel::Landlock).build().unwrap();
    for mode in [SandboxMode::Required, SandboxMode::BestEffort] {
        let outcome = without.run(Invocation::new("sh").sandbox_mode(mode).preview(Preview::Store));
        assert_eq!(kind_of(&outcome), Some(ErrorKind::SandboxUnavailable));
        assert!(sentence(&outcome).contains("the sandbox level landlock does not have"), "{outcome:?}");
        assert!(!project.path("n.txt").exists());
    }
}

#[test]
fn protected_files_and_quarantine_hold_in_the_copy() {
    let script = "#!/bin/sh\necho x >> .git/config; cat .env; echo x > .env; ln .env second; cat second\n\
                  mkdir -p .vscode .husky; echo x > .vscode/tasks.json; echo x > .netrc\n\
                  ln -s .git/config link; echo x >> link; echo x > .metier/skills/sh/SKILL.md; echo ok > plain.txt";
    let project = project().skill_with("sh", "", "main.sh", script);
    let engine = project.preview_builder().build().unwrap();
    let Some(outcome) = project.preview(&engine, Invocation::new("sh")) else { return };
    let kinds = kinds(&outcome);
    assert!(kinds.contains(&"created plain.txt".to_owned()), "{outcome:?}");
    for path in [".git", ".env", ".vscode", ".husky", ".netrc", ".metier", "second"] {
        let is_same = |kind: &String| kind.split(' ').nth(1).unwrap().split('/').next() == Some(path);
        assert!(!kinds.iter().any(is_same), "{path}: {kinds:?}");
    }
    let log: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
    for name in [".vscode", ".netrc"] {
        let is_moved =
            |line: &&str| line.contains(&format!("made {name}")) && line.contains("it was moved to");
        assert!(log.iter().any(is_moved), "{name}: {log:?}");
        assert!(kinds.iter().any(|kind| kind.starts_with(&format!("created {name}."))), "{kinds:?}");
    }
}

#[test]
fn no_change_of_the_copy_makes_a_secret_with_two_names_readable() {
    let lua = "local answers = {}
        for _, call in ipairs({ctx.read_file, ctx.append, ctx.read_file}) do
            table.insert(answers, (pcall(call, 'docs/link.txt', '+')))
        end
        return answers";
    let project = project().skill_with("x", "allowed-tools: read write:docs\n", "main.lua", lua);
    std::fs::hard_link(project.path(".env"), project.path("docs/link.txt")).unwrap();
    let engine = project.preview_builder().build().unwrap();
    let Some(outcome) = project.preview(&engine, granted(Invocation::new("x"), &["write:docs"])) else {
        return;
    };
    assert_eq!(outcome.result.as_ref().unwrap(), &json!([false, false, false]), "{outcome:?}");
    assert_eq!(kinds(&outcome), [""; 0]);
}

#[test]
fn what_a_step_of_the_run_plants_leads_the_next_one_nowhere() {
    let sh = "#!/bin/sh\nln -s /etc etc; ln -s ../.. up; ln -s \"$PWD/b.txt\" absolute; mkdir hooks; \
              ln -s .git/config inner; ln -s \"$PWD/.env\" secret; echo changed > b.txt";
    let lua = "ctx.skill('sh', nil)
        local function try(name, ...) return (pcall(ctx[name], ...)) end
        return {try('read_file', 'etc/passwd'), try('write', 'etc/x', 'x'), try('write', 'up/x', 'x'),
            try('write', 'inner', 'x'), try('read_file', 'secret'), ctx.read_file('absolute')}";
    let project = project()
        .skill_with("lua", "allowed-tools: read write skill:sh\n", "main.lua", lua)
        .skill_with("sh", "", "main.sh", sh);
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("lua"), &["read", "skill:sh"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    assert_eq!(
        outcome.result.clone().unwrap(),
        json!([false, false, false, false, false, "changed\n"]),
        "the copy is what a link to the project leads to"
    );
    let refused = changes(&outcome).set["refused"].as_array().unwrap();
    let refused: Vec<&str> = refused.iter().map(|refusal| refusal["path"].as_str().unwrap()).collect();
    assert_eq!(refused, ["absolute", "etc", "secret", "up"]);
}

#[test]
fn a_link_of_the_copy_opens_nothing_that_no_grant_names() {
    // The second process may write to `out`, which the first one has made a link.
    let first = "#!/bin/sh\nrmdir out; ln -s .git out";
    let second = "#!/bin/sh\necho x >> out/config";
    let lua =
        "ctx.skill('first', nil) local ok, why = pcall(ctx.skill, 'second', nil) return {ok, tostring(why)}";
    let project = project()
        .file("out/x", "")
        .skill_with("lua", "allowed-tools: read write skill:first skill:second\n", "main.lua", lua)
        .skill_with("first", "", "main.sh", first)
        .skill_with("second", "allowed-tools: write:out\n", "main.sh", second);
    std::fs::remove_file(project.path("out/x")).unwrap();
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("lua"), &["read", "skill:first", "skill:second"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    let value = outcome.result.clone().unwrap();
    assert_eq!(value[0], false, "{outcome:?}");
    assert!(value[1].as_str().unwrap().contains("through the link out to .git"), "{value}");
}

#[test]
fn a_skill_that_the_run_has_changed_does_not_run() {
    let lua = "ctx.write('.metier/skills/sh/scripts/main.sh', '#!/bin/sh\\ntouch changed-script')
        local ok, why = pcall(ctx.skill, 'sh', nil) return {ok, tostring(why)}";
    let project = project()
        .skill_with("lua", "allowed-tools: read write write:.metier/skills skill:sh\n", "main.lua", lua)
        .skill_with("sh", "", "main.sh", "#!/bin/sh\ntouch own-script");
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("lua"), &["write:.metier/skills", "skill:sh"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    let value = outcome.result.clone().unwrap();
    assert_eq!(value[0], false, "{outcome:?}");
    assert!(value[1].as_str().unwrap().contains("main.sh has changed since it was loaded"), "{value}");
    assert_eq!(kinds(&outcome), ["changed .metier/skills/sh/scripts/main.sh"]);
}

#[test]
fn linked_skills_run_in_a_copy() {
    let text = "---\nname: NAME\ndescription: d\n---\n";
    let project = project()
        .file("src/inside/SKILL.md", text.replace("NAME", "inside"))
        .file("src/inside/scripts/main.sh", "#!/bin/sh\necho x > n.txt")
        .link("../../src/inside", ".metier/skills/inside");
    let elsewhere = project.root().with_file_name("elsewhere").join("outside");
    write(&elsewhere.join("SKILL.md"), text.replace("NAME", "outside"));
    write(&elsewhere.join("scripts/main.sh"), "#!/bin/sh\necho x > n.txt");
    let project = project.link(&elsewhere, ".metier/skills/outside");
    let engine = project.preview_builder().build().unwrap();
    for name in ["inside", "outside"] {
        let Some(outcome) = project.preview(&engine, Invocation::new(name)) else { return };
        assert_eq!(kinds(&outcome), ["created n.txt"], "{name}: {outcome:?}");
    }
}

#[test]
fn a_skill_changes_its_own_folder_in_the_copy_alone() {
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")/..\"; echo x > data.txt; echo x >> SKILL.md; echo x >> scripts/main.sh; true";
    let project = project().skill_with("own", "allowed-tools: own-folder\n", "main.sh", script);
    let engine = project.preview_builder().build().unwrap();
    let invocation = granted(Invocation::new("own"), &["own-folder"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    assert_eq!(kinds(&outcome), ["created .metier/skills/own/data.txt"], "{outcome:?}");
}

#[test]
fn nothing_starts_in_a_folder_that_was_put_in_the_place_of_the_project() {
    let lua =
        "ctx.tool('swap', {}) local ok = pcall(ctx.skill, 'sh', nil) ctx.write('by-lua.txt', 'x') return ok";
    let project = project()
        .skill_with("lua", "allowed-tools: read write tool:swap skill:sh\n", "main.lua", lua)
        .skill_with("sh", "", "main.sh", "#!/bin/sh\necho x > by-sh.txt");
    let (root, aside) = (project.root().to_owned(), project.root().with_file_name("aside"));
    let swapped = (root.clone(), aside.clone());
    let tools = ClosureTools::new().tool("swap", "Swaps the project", json!({}), move |_, _| {
        let (root, aside) = &swapped;
        std::fs::rename(root, aside).unwrap();
        let copied = std::process::Command::new("cp").arg("-r").arg(aside).arg(root).status().unwrap();
        Ok(json!(copied.success()))
    });
    let engine = project.preview_builder().tools(tools).build().unwrap();
    let probe = project.preview_builder().build().unwrap();
    let Some(_) = project.preview(&probe, Invocation::new("sh")) else { return };
    let invocation = granted(Invocation::new("lua"), &["tool:swap", "skill:sh"]).preview(Preview::Store);
    let outcome = engine.run(invocation);
    assert_eq!(outcome.result.clone().unwrap(), false, "{outcome:?}");
    for folder in [&root, &aside] {
        assert!(!folder.join("by-sh.txt").exists() && !folder.join("by-lua.txt").exists());
    }
    assert_eq!(kinds(&outcome), ["created by-lua.txt"], "the run goes on in the copy of what it began with");
    // The changes are for the project that was copied.
    let store = project.change_store();
    let id = changes(&outcome).id().to_owned();
    assert!(store.open_project(&store.find(&id).unwrap().set).is_err());
    let other = std::fs::File::open(&root).unwrap();
    let refused = store.apply(&id, other.as_fd(), &ApplyOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

#[test]
fn what_outlives_the_script_changes_nothing_after_the_run() {
    // It ignores signals, has left its session, and writes as long as it lives.
    let script = "#!/bin/sh\n(trap '' TERM HUP INT; setsid sh -c 'while :; do echo x >> grows.txt; done' &) \n\
                  while [ ! -s grows.txt ]; do :; done";
    let project = project().skill_with("sh", "", "main.sh", script);
    let engine = project.preview_builder().build().unwrap();
    let Some(outcome) = project.preview(&engine, Invocation::new("sh")) else { return };
    assert_eq!(kinds(&outcome), ["created grows.txt"], "{outcome:?}");
    assert!(!engine.runs_processes());
    let report = changes(&outcome);
    let after = &report.set["changes"][0]["after"];
    let store = project.change_store();
    let stored = store.find(report.id()).unwrap();
    let opened = store.open_project(&stored.set).unwrap();
    let agreed = ApplyOptions { digest: Some(report.digest.clone()), ..ApplyOptions::default() };
    let applied = store.apply(report.id(), opened.as_fd(), &agreed).unwrap();
    assert_eq!(applied.applied, ["grows.txt"]);
    assert_eq!(json!(std::fs::metadata(project.path("grows.txt")).unwrap().len()), after["size"]);
}

#[test]
fn a_worker_of_an_ordinary_run_does_not_serve_a_preview() {
    let script = "#!/usr/bin/env python3\nimport json, sys\ncount = 0\nfor line in sys.stdin:\n    count += 1\n    \
                  open('count.txt', 'w').write(str(count))\n    print(json.dumps({'id': json.loads(line)['id'], 'ok': count}), flush=True)\n";
    if find_program("python3").is_none() {
        return not_run("a worker in a copy", "python3 is not installed");
    }
    let project = project().file("count.txt", "0").skill_with(
        "worker",
        "allowed-tools: write\nmetadata:\n  worker: json-lines\n",
        "main.py",
        script,
    );
    let engine = project.preview_builder().build().unwrap();
    let ordinary = || engine.run(granted(Invocation::new("worker"), &["write"])).result.unwrap();
    assert_eq!((ordinary(), ordinary()), (json!(1), json!(2)), "it is kept");
    let Some(outcome) = project.preview(&engine, Invocation::new("worker")) else { return };
    assert_eq!(outcome.result.clone().unwrap(), 1, "a process of its own");
    assert_eq!(kinds(&outcome), ["changed count.txt"]);
    let again = project.preview(&engine, Invocation::new("worker")).unwrap();
    assert_eq!(again.result.unwrap(), 1, "nor is it kept for another preview");
    assert_eq!(ordinary(), json!(3));
    assert_eq!(project.read("count.txt"), "3");
}

#[test]
fn runs_beside_a_preview_see_the_project() {
    let script = "#!/bin/sh\necho preview > docs/a.txt; cat docs/a.txt";
    let project = project()
        .skill_with("sh", "", "main.sh", script)
        .skill_with(
            "both",
            "allowed-tools: read write skill:sh tool:outside\n",
            "main.lua",
            "ctx.skill('sh', nil) return ctx.tool('outside', {})",
        )
        .skill_with("reader", "", "main.sh", "#!/bin/sh\ncat docs/a.txt");
    let inner = project.preview_builder().build().unwrap();
    let tools = ClosureTools::new().tool("outside", "Runs beside it", json!({}), move |_, _| {
        Ok(json!(inner.run(Invocation::new("reader")).process.unwrap().stdout))
    });
    let engine = project.preview_builder().tools(tools).build().unwrap();
    let invocation = granted(Invocation::new("both"), &["read", "skill:sh", "tool:outside"]);
    let Some(outcome) = project.preview(&engine, invocation) else { return };
    assert_eq!(outcome.result.clone().unwrap(), "one\n", "{outcome:?}");
    assert_eq!(kinds(&outcome), ["changed docs/a.txt"]);
}
