//! Attacks: what was trusted, shown or granted is changed, and what runs is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use metier::engine::{Invocation, TrustState};
use metier::error::ErrorKind;
use metier::trust::ProjectIdentity;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value, write};
use crate::trust::{Stage, for_model, state, trust};

const SKILL: &str = ".metier/skills/x";

#[test]
fn every_change_of_a_skill_ends_its_trust() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 11] = [
        ("a file is changed", |skill| write(&skill.join("scripts/main.lua"), "return 3")),
        ("a file is added", |skill| write(&skill.join("scripts/helper.lua"), "")),
        ("a hidden file is added", |skill| write(&skill.join(".hidden"), "")),
        ("a deep file is added", |skill| write(&skill.join(&("d/".repeat(60) + "f")), "")),
        ("a cache of Python is added", |skill| write(&skill.join("scripts/__pycache__/m.pyc"), "")),
        ("a file is removed", |skill| fs::remove_file(skill.join("notes.txt")).unwrap()),
        ("a mode is changed", |skill| {
            fs::set_permissions(skill.join("notes.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a contract is added", |skill| write(&skill.join("skill.yaml"), "state: [data]\n")),
        ("the text is changed", |skill| {
            write(&skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\nOther\n");
        }),
        ("a link is added", |skill| symlink("notes.txt", skill.join("link")).unwrap()),
        ("a file is replaced by a link to it", |skill| {
            fs::rename(skill.join("notes.txt"), skill.join("notes")).unwrap();
            symlink("notes", skill.join("notes.txt")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let stage = Stage::with(Project::lua("return 1").file(&format!("{SKILL}/notes.txt"), "n"));
        let engine = stage.engine();
        trust(&engine, "x");
        assert_eq!(value(for_model(&engine)), json!(1));
        change(&stage.project.path(SKILL));
        assert!(matches!(state(&engine, "x"), TrustState::Changed { .. }), "{what}");
        assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted, "{what}");
    }
}

#[test]
fn a_time_that_is_put_back_hides_no_change() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    trust(&engine, "x");
    std::thread::sleep(Duration::from_millis(120));
    assert_eq!(value(for_model(&engine)), json!(1), "the list of files is settled now");
    assert_eq!(value(for_model(&engine)), json!(1));
    let script = stage.project.path(SKILL).join("scripts/main.lua");
    let about = fs::metadata(&script).unwrap();
    write(&script, "return 6");
    let file = fs::File::options().write(true).open(&script).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(about.modified().unwrap())).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().len(), about.len());
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
}

#[test]
fn a_callee_belongs_to_the_digest() {
    let script = "return ctx.skill('y')";
    let callee = |text: &str| (".metier/skills/y/scripts/main.lua".to_owned(), text.to_owned());
    let (path, text) = callee("return 1");
    let project = Project::lua_with_tools("skill:y", script).skill("y", "").file(&path, text);
    let stage = Stage::with(project);
    let engine = stage.engine();
    trust(&engine, "x");
    let run = || engine.run(granted(Invocation::new("x").for_model(), &["skill:y"]));
    assert_eq!(value(run()), json!(1), "trusted as a part of x");
    assert!(!state(&engine, "y").is_trusted(), "by itself it is not");
    write(&stage.project.path(&path), "return 2");
    let TrustState::Changed { files } = state(&engine, "x") else { panic!() };
    assert_eq!(files[0].path, "project/.metier:y: scripts/main.lua");
    assert_eq!(kind(&run()), ErrorKind::Untrusted);
    write(&stage.project.path(&path), "return 1");
    assert_eq!(value(run()), json!(1));
    // A nearer skill of the name that is called.
    write(
        &stage.project.path(".metier/skills/a/y/SKILL.md"),
        "---\nname: y\ndescription: d\nmetadata:\n  version: 9.0.0\n---\n",
    );
    engine.reload().unwrap();
    let changed = state(&engine, "x").is_trusted();
    let found = engine.registry().find("y").unwrap().version().to_string();
    assert_eq!(changed, found == "0.0.0", "y is {found}");
}

#[test]
fn circles_of_skills_have_a_digest() {
    let project = Project::lua_with_tools("skill:y", "return 1")
        .skill("y", "allowed-tools: skill:x skill:y\n")
        .file(".metier/skills/y/scripts/main.lua", "return 1");
    let stage = Stage::with(project);
    let engine = stage.engine();
    let registry = engine.registry();
    let [x, y] = ["x", "y"].map(|name| engine.skill_files(registry.find(name).unwrap()).unwrap());
    assert_ne!(x.digest, y.digest);
    assert_eq!((x.callees.len(), y.callees.len()), (1, 1));
    trust(&engine, "x");
    assert!(state(&engine, "x").is_trusted());
}

#[test]
fn what_was_looked_at_is_what_runs() {
    let stage = Stage::lua("read", "return 1");
    for engine in [stage.engine(), stage.project.engine()] {
        write(&stage.project.path(SKILL).join("scripts/main.lua"), "return 1");
        let digest = engine.skill_files(engine.registry().find("x").unwrap()).unwrap().digest;
        let run = || engine.run(Invocation::new("x").digest(digest));
        assert_eq!(value(run()), json!(1));
        write(&stage.project.path(SKILL).join("scripts/main.lua"), "return 2");
        let refused = run();
        assert_eq!(kind(&refused), ErrorKind::Untrusted);
        assert!(
            sentence(&refused).contains("have changed since they were looked at"),
            "{}",
            sentence(&refused)
        );
        assert_eq!(
            engine.explain(&Invocation::new("x").digest(digest)).unwrap_err().kind(),
            ErrorKind::Untrusted
        );
    }
}

#[test]
fn a_skill_that_its_caller_changes_meanwhile_does_not_run() {
    let callee = ".metier/skills/y/scripts/main.lua";
    let script = format!("ctx.write('{callee}', 'return \"evil\"') return ctx.skill('y')");
    let tools = "skill:y write:.metier/skills/y";
    let stage =
        Stage::with(Project::lua_with_tools(tools, &script).skill("y", "").file(callee, "return 'good'"));
    let grants = ["skill:y", "write:.metier/skills/y"];
    let plain = stage.engine().run(granted(Invocation::new("x"), &grants));
    assert_eq!(value(plain), json!("evil"), "a person granted it for this run");
    write(&stage.project.path(callee), "return 'good'");
    stage.trust("x");
    stage.remember("x", &grants);
    let refused = stage.engine().run(Invocation::new("x"));
    assert_eq!(stage.project.read(callee), "return \"evil\"");
    assert_eq!(kind(&refused), ErrorKind::Untrusted, "{refused:?}");
    write(&stage.project.path(callee), "return 'good'");
    let refused = stage.engine().run(granted(Invocation::new("x").for_model(), &grants));
    assert_eq!(kind(&refused), ErrorKind::Untrusted, "{refused:?}");
}

#[test]
fn state_is_written_and_never_run() {
    let contract =
        "state: [data]\nentrypoints:\n  main: scripts/main.lua\n  evil: {path: data/evil, runtime: lua}\n";
    let project = Project::lua("return 1")
        .file(&format!("{SKILL}/skill.yaml"), contract)
        .file(&format!("{SKILL}/data/evil"), "return 'evil'");
    let stage = Stage::with(project);
    let engine = stage.engine();
    trust(&engine, "x");
    write(&stage.project.path(SKILL).join("data/deep/new"), "written by a run");
    assert_eq!(value(for_model(&engine)), json!(1), "state does not count");
    let evil = engine.run(Invocation::new("x").script("evil").for_model());
    assert_eq!(kind(&evil), ErrorKind::Denied, "{evil:?}");
    // Not even where everything in the folder is trusted, or where a person says so.
    engine.trust_store().unwrap().trust_folder(ProjectIdentity::new(stage.project.root()).unwrap()).unwrap();
    for script in ["evil", "data/evil", "data/deep/new"] {
        let outcome = engine.run(Invocation::new("x").script(script));
        assert_ne!(outcome.result.as_ref().ok(), Some(&json!("evil")), "{outcome:?}");
        assert!(outcome.result.is_err());
    }
    assert!(engine.trust_store().unwrap().revoke_folder(stage.project.root()).unwrap());
    write(&stage.project.path(SKILL).join("data2"), "");
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
}

#[test]
fn the_text_behind_a_linked_skill_file_is_part_of_what_is_trusted() {
    let text = |tools: &str| format!("---\nname: x\ndescription: d\nallowed-tools: {tools}\n---\nText\n");
    let stage = Stage::with(
        Project::new()
            .file("source/SKILL.md", text("Read"))
            .file(&format!("{SKILL}/scripts/main.lua"), "return ctx.read_file('source/SKILL.md') ~= nil")
            .link("../../../source/SKILL.md", &format!("{SKILL}/SKILL.md")),
    );
    let engine = stage.engine();
    trust(&engine, "x");
    stage.remember("x", &["read"]);
    assert_eq!(value(for_model(&engine)), json!(true));
    let files = engine.skill_files(engine.registry().find("x").unwrap()).unwrap();
    assert!(files.files.files().iter().any(|file| file.path == "SKILL.md" && !file.link), "{files:?}");
    let [target, other] = ["source/SKILL.md", "source/other.md"].map(|path| stage.project.path(path));
    let changes: [&dyn Fn(); 3] = [
        &|| write(&target, text("Read, Write")),
        &|| fs::remove_file(&target).unwrap(),
        // Replaced by a link to a file of another name.
        &|| {
            write(&other, text("Read"));
            symlink("other.md", &target).unwrap();
        },
    ];
    for change in changes {
        change();
        assert!(for_model(&engine).result.is_err());
        assert!(for_model(&stage.engine()).result.is_err(), "in an engine that reads it anew");
    }
    fs::remove_file(&target).unwrap();
    write(&target, text("Read"));
    assert_eq!(value(for_model(&stage.engine())), json!(true));
    assert_eq!(value(for_model(&engine)), json!(true), "it is what was trusted");
}

#[test]
fn a_skill_without_a_digest_is_trusted_by_its_folder_only() {
    let stage = Stage::with(Project::lua("return 1").link("/etc/passwd", &format!("{SKILL}/link")));
    let engine = stage.engine();
    let TrustState::Untrusted { reason: Some(reason) } = state(&engine, "x") else { panic!() };
    assert!(reason.contains("link is a link that leads out of the skill's folder"), "{reason}");
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
    assert!(engine.skill_files(engine.registry().find("x").unwrap()).is_err());
    engine.trust_store().unwrap().trust_folder(ProjectIdentity::new(stage.project.root()).unwrap()).unwrap();
    let outcome = for_model(&engine);
    assert_eq!(outcome.digest, None);
    assert_eq!(value(outcome), json!(1));
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_skill_that_changes_while_somebody_is_asked_does_not_run() {
    use metier::error::Result;
    use metier::host::{ApprovalRequest, Approver, SkillContext};
    use metier::policy::Approval;

    struct Swaps(std::path::PathBuf, bool);
    impl Approver for Swaps {
        fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
            assert!(
                request.digest.as_ref().is_some_and(|digest| digest.starts_with("sha256:")),
                "{request:?}"
            );
            if self.1 {
                write(&self.0, "#!/bin/sh\necho evil > out/evil\n");
            }
            Ok(Approval::Once)
        }
    }
    for swaps in [false, true] {
        let project = Project::shell("allowed-tools: write:out\n", "#!/bin/sh\necho good > out/good\n");
        let stage = Stage::with(project.file("out/a", ""));
        let approver = Swaps(stage.project.path(SKILL).join("scripts/main.sh"), swaps);
        let engine = stage.project.builder().approver(approver).trust(stage.store()).build().unwrap();
        trust(&engine, "x");
        let outcome = for_model(&engine);
        assert!(!stage.project.path("out/evil").exists());
        assert_eq!(stage.project.path("out/good").exists(), !swaps, "{outcome:?}");
        if swaps {
            assert_eq!(kind(&outcome), ErrorKind::Untrusted);
            assert!(sentence(&outcome).contains("changed while"), "{}", sentence(&outcome));
        } else {
            let grants = json!(outcome)["grants"].clone();
            assert_eq!(grants, json!([{"permission": "write:out", "origin": "approver"}]));
        }
    }
}

#[test]
fn no_skill_is_trusted_whose_state_holds_code() {
    for (path, file) in [
        ("data", "data/evil.lua"),
        ("data", "data/deep/evil.PY"),
        ("data", "data/node_modules/evil/index"),
        ("data/evil.so", "data/evil.so"),
    ] {
        let contract = format!("state: [{path}]\n");
        let project = Project::lua("return 1").file(&format!("{SKILL}/skill.yaml"), contract);
        let stage = Stage::with(project.file(&format!("{SKILL}/{file}"), "evil"));
        let engine = stage.engine();
        let TrustState::Untrusted { reason: Some(reason) } = state(&engine, "x") else { panic!("{file}") };
        assert!(reason.contains("in a path of `state`"), "{reason}");
        assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
        fs::remove_dir_all(stage.project.path(&format!("{SKILL}/data"))).unwrap();
        trust(&engine, "x");
        assert_eq!(value(for_model(&engine)), json!(1));
        write(&stage.project.path(&format!("{SKILL}/{file}")), "written by a run");
        assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted, "{file} came later");
    }
}

#[test]
fn what_any_script_of_a_skill_calls_belongs_to_its_digest() {
    let plan = |name: &str| format!(r#"{{"steps": [{{"skill": "{name}", "id": "a"}}]}}"#);
    let contract =
        "entrypoints:\n  main: scripts/main.lua\n  other: {path: scripts/a.json, runtime: tool-sequence}\n";
    let mut project = Project::lua("return 1")
        .file(&format!("{SKILL}/skill.yaml"), contract)
        .file(&format!("{SKILL}/scripts/a.json"), plan("y"))
        .file(&format!("{SKILL}/scripts/sequence.json"), plan("z"));
    for name in ["y", "z"] {
        project =
            project.skill(name, "").file(&format!(".metier/skills/{name}/scripts/main.lua"), "return 1");
    }
    let stage = Stage::with(project);
    let engine = stage.engine();
    trust(&engine, "x");
    for name in ["y", "z"] {
        assert!(state(&engine, "x").is_trusted());
        let script = stage.project.path(&format!(".metier/skills/{name}/scripts/main.lua"));
        write(&script, "return 2");
        assert!(!state(&engine, "x").is_trusted(), "{name} changed");
        write(&script, "return 1");
    }
}
