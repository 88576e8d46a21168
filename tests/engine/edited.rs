//! Skills that are edited, deleted and added while an engine uses them.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::policy::Permission;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value, write};

const TEXT: &str = ".metier/skills/x/SKILL.md";
const SCRIPT: &str = ".metier/skills/x/scripts/main.lua";
const CONTRACT: &str = ".metier/skills/x/skill.yaml";
const WRITES: &str = "return (pcall(ctx.write, 'out.txt', 'x'))";

fn text(allowed_tools: &str) -> String {
    format!("---\nname: x\ndescription: d\nallowed-tools: {allowed_tools}\n---\n")
}

fn run(engine: &Engine) -> metier::engine::Outcome {
    engine.run(granted(Invocation::new("x"), &["read", "write", "skill:y"]))
}

#[test]
fn a_skill_runs_with_its_text_and_its_script_as_they_are_now() {
    let project = Project::lua_with_tools("read", "return 'old'");
    let (engine, path) = (project.engine(), |name: &str| project.path(name));
    let clone = engine.clone();
    assert_eq!(value(run(&engine)), json!("old"));
    write(&path(TEXT), text("write"));
    write(&path(SCRIPT), WRITES);
    assert_eq!(value(run(&clone)), json!(true), "both were edited");
    write(&path(TEXT), text("read"));
    assert_eq!(value(run(&engine)), json!(false), "the text alone was edited");
    assert_eq!(engine.registry().find("x").unwrap().manifest().allowed_tools, ["read"]);
    write(&path(SCRIPT), "return 'new'");
    assert_eq!(value(run(&engine)), json!("new"), "the script alone was edited");
}

#[test]
fn what_a_skill_requests_counts_as_it_is_now() {
    let project = Project::shell("", "true");
    let engine = project.engine();
    let known = engine.registry().find("x").unwrap().clone();
    let requests = || {
        let permissions = engine.requested_permissions(&known).into_iter();
        permissions.map(|request| request.permission.to_string()).collect::<Vec<_>>()
    };
    assert!(engine.uses_any_grant(&known));
    assert_eq!(requests(), ["read"]);
    write(&project.path(TEXT), text("write:out"));
    assert!(!engine.uses_any_grant(&known), "the engine was asked with the skill as it was");
    assert_eq!(requests(), ["read", "write:out"]);
}

#[test]
fn a_contract_counts_as_it_is_now() {
    let project = Project::lua("return input.n or 'none'");
    let engine = project.engine();
    let call = |n: Value| engine.run(Invocation::new("x").input(json!({"n": n})));
    assert_eq!(value(call(json!("text"))), json!("text"));
    write(&project.path(CONTRACT), "inputs:\n  n: {type: integer}\n");
    assert_eq!(kind(&call(json!("text"))), ErrorKind::InvalidInput, "a contract was added");
    write(&project.path(CONTRACT), "inputs:\n  n: {type: string}\n");
    assert_eq!(value(call(json!("text"))), json!("text"), "it was edited");
    write(&project.path(CONTRACT), "inputs: [\n");
    let broken = call(json!("text"));
    assert_eq!(kind(&broken), ErrorKind::InvalidSkill, "it was broken");
    assert!(sentence(&broken).contains("skill.yaml:"), "{}", sentence(&broken));
    let available = |engine: &Engine| engine.availability(engine.registry().find("x").unwrap()).is_runnable();
    assert!(!available(&engine));
    fs::remove_file(project.path(CONTRACT)).unwrap();
    assert!(available(&engine));
    assert_eq!(value(call(json!(1))), json!(1), "it was removed");
}

#[test]
fn a_deleted_skill_is_unknown_until_it_is_back() {
    let project = Project::lua("return 1");
    let engine = project.engine();
    let skill = engine.registry().find("x").unwrap().clone();
    fs::rename(project.path(".metier/skills/x"), project.path("aside")).unwrap();
    assert_eq!(kind(&run(&engine)), ErrorKind::UnknownSkill);
    assert_eq!(kind(&run(&engine)), ErrorKind::UnknownSkill);
    let reason = engine.availability(&skill).reason.unwrap();
    assert_eq!(reason.kind(), ErrorKind::UnknownSkill);
    assert_eq!(engine.explain(&Invocation::new("x")).unwrap_err().kind(), ErrorKind::UnknownSkill);
    assert!(engine.registry().skills().is_empty());
    fs::rename(project.path("aside"), project.path(".metier/skills/x")).unwrap();
    assert_eq!(value(run(&engine)), json!(1));
}

#[test]
fn a_broken_text_is_reported_and_never_replaced_by_the_old_one() {
    let project = Project::lua_with_tools("write", WRITES);
    let engine = project.engine();
    assert_eq!(value(run(&engine)), json!(true));
    for broken in ["---\nname: x\n", "---\nname: x\n---\n", "name: x", ""] {
        write(&project.path(TEXT), broken);
        for _ in 0..2 {
            let outcome = run(&engine);
            assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{broken:?}");
            assert!(sentence(&outcome).contains(TEXT), "{}", sentence(&outcome));
        }
        assert_eq!(engine.registry().problems().len(), 1, "{:?}", engine.registry().problems());
    }
    fs::remove_file(project.path(TEXT)).unwrap();
    assert_eq!(kind(&run(&engine)), ErrorKind::InvalidSkill, "a script without a SKILL.md");
    write(&project.path(TEXT), text("write"));
    assert_eq!(value(run(&engine)), json!(true), "it was mended");
    assert!(engine.registry().problems().is_empty());
}

#[test]
fn a_skill_that_was_broken_from_the_start_runs_once_it_is_mended() {
    let project = Project::new().file(TEXT, "---\nname: x\n").file(SCRIPT, "return 1");
    let engine = project.engine();
    assert_eq!(kind(&run(&engine)), ErrorKind::InvalidSkill);
    write(&project.path(TEXT), text("read"));
    assert_eq!(value(run(&engine)), json!(1));
}

#[test]
fn a_skill_with_a_new_name_leaves_the_old_one() {
    let project = Project::lua("return 1");
    let engine = project.engine();
    write(&project.path(TEXT), "---\nname: z\ndescription: d\n---\n");
    assert_eq!(kind(&run(&engine)), ErrorKind::UnknownSkill);
    assert_eq!(value(engine.run(Invocation::new("z"))), json!(1));
    write(&project.path(TEXT), text("read"));
    assert_eq!(value(run(&engine)), json!(1));
    assert_eq!(kind(&engine.run(Invocation::new("z"))), ErrorKind::UnknownSkill);
}

#[test]
fn an_added_skill_is_found_by_a_reload_in_all_clones() {
    let project = Project::lua("return 1").file("keep", "");
    let (engine, registry) = (project.engine(), project.engine().registry());
    let clone = engine.clone();
    let project = project.skill("y", "").file(".metier/skills/y/scripts/main.lua", "return 2");
    assert_eq!(kind(&clone.run(Invocation::new("y"))), ErrorKind::UnknownSkill);
    engine.reload().unwrap();
    assert_eq!(value(clone.run(Invocation::new("y"))), json!(2));
    assert_eq!(registry.skills().len(), 1, "a registry does not change once it was handed out");
    drop(project);
    assert_eq!(engine.reload().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(engine.registry().skills().len(), 2);
}

#[test]
fn a_run_ends_with_the_skill_it_started_with() {
    let script = "ctx.write('begun', '') while not pcall(ctx.read_file, 'go') do end \
                  ctx.write('out.txt', '') return ctx.skill('y')";
    let project = Project::lua_with_tools("read write skill:y", script)
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 'old callee'");
    let engine = project.engine();
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&engine));
        project.wait_for_file("begun");
        fs::remove_dir_all(project.path(".metier/skills/x")).unwrap();
        assert_eq!(kind(&run(&engine)), ErrorKind::UnknownSkill);
        write(&project.path(".metier/skills/y/scripts/main.lua"), "return 'new callee'");
        engine.reload().unwrap();
        write(&project.path("go"), "");
        assert_eq!(value(running.join().unwrap()), json!("new callee"));
    });
}

#[test]
fn a_callee_is_called_as_it_is_now() {
    let project = Project::lua_with_tools("write skill:y", "return ctx.skill('y')")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", WRITES);
    let engine = project.engine();
    assert_eq!(value(run(&engine)), json!(false));
    write(
        &project.path(".metier/skills/y/SKILL.md"),
        "---\nname: y\ndescription: d\nallowed-tools: write\n---\n",
    );
    let explained = engine.explain(&granted(Invocation::new("x"), &["write", "skill:y"])).unwrap();
    assert_eq!(explained.callees[0].permissions, [Permission::READ, Permission::WRITE]);
    assert_eq!(value(run(&engine)), json!(true));
    fs::remove_dir_all(project.path(".metier/skills/y")).unwrap();
    assert_eq!(kind(&run(&engine)), ErrorKind::UnknownSkill);
}

#[test]
fn a_plan_is_checked_against_its_callees_as_they_are_now() {
    let project = Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            "---\nname: x\ndescription: d\nmetadata:\n  runtime: tool-sequence\n---\n",
        )
        .file(".metier/skills/x/scripts/sequence.json", r#"[{"skill": "y", "args": {"n": 1}}]"#)
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return input.n");
    let engine = project.engine();
    let first = engine.run(Invocation::new("x"));
    assert!(first.result.is_ok(), "{:?}", first.result);
    write(&project.path(".metier/skills/y/skill.yaml"), "inputs:\n  n: {type: string}\n");
    for _ in 0..2 {
        assert!(engine.run(Invocation::new("x")).result.is_err());
    }
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::InvalidSkill);
}

/// What a version of the skill may do: each may write one file, and tries to write both.
const BOTH: &str = "return {version, (pcall(ctx.write, 'one.txt', 'x')), (pcall(ctx.write, 'two.txt', 'x'))}";

fn assert_no_mixture(project: &Project, pause: u64, edit: impl Fn(usize) + Sync) {
    let (engine, is_done) = (project.engine(), AtomicBool::new(false));
    let mut seen = [0, 0];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_done.load(Ordering::Relaxed) {
                edit(round);
                round += 1;
                thread::sleep(std::time::Duration::from_micros(pause));
            }
        });
        // On a busy machine most runs find the skill in the middle of an edit.
        for round in 0..20_000 {
            if round >= 200 && seen.iter().sum::<i32>() > 20 {
                break;
            }
            let outcome = run(&engine);
            match &outcome.result {
                Ok(value) if *value == json!(["one", true, false]) => seen[0] += 1,
                Ok(value) if *value == json!(["two", false, true]) => seen[1] += 1,
                Ok(mixture) => {
                    is_done.store(true, Ordering::Relaxed);
                    panic!("the text of one version ran with the script of the other: {mixture}");
                }
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::UnknownSkill
                            | ErrorKind::InvalidSkill
                            | ErrorKind::Unavailable
                            | ErrorKind::Io
                    ),
                    "{error}"
                ),
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(seen.iter().sum::<i32>() > 20, "hardly any run got through: {seen:?}");
}

#[test]
fn no_run_mixes_two_versions_that_a_link_swaps() {
    let mut project = Project::new().file(".metier/skills/keep", "");
    for (version, asks) in [("one", "write:one.txt"), ("two", "write:two.txt")] {
        project = project.file(&format!("versions/{version}/SKILL.md"), text(asks)).file(
            &format!("versions/{version}/scripts/main.lua"),
            format!("local version = '{version}' {BOTH}"),
        );
    }
    symlink(project.path("versions/one"), project.path(".metier/skills/x")).unwrap();
    assert_no_mixture(&project, 100, |round| {
        let version = ["versions/two", "versions/one"][round % 2];
        symlink(project.path(version), project.path("next")).unwrap();
        fs::rename(project.path("next"), project.path(".metier/skills/x")).unwrap();
    });
}

#[test]
fn what_a_link_leads_to_after_an_edit_is_protected_too() {
    let script = "return {(pcall(ctx.write, 'one/SKILL.md', 'x')), (pcall(ctx.write, 'two/SKILL.md', 'x'))}";
    let mut project = Project::new().file(".metier/skills/keep", "");
    for version in ["one", "two"] {
        project = project
            .file(&format!("{version}/SKILL.md"), text("write"))
            .file(&format!("{version}/scripts/main.lua"), script);
    }
    let link = project.path(".metier/skills/x");
    symlink(project.path("one"), &link).unwrap();
    let engine = project.engine();
    assert_eq!(value(run(&engine)), json!([false, true]), "no skill is in the folder `two`");
    write(&project.path("two/SKILL.md"), text("write"));
    fs::remove_file(&link).unwrap();
    symlink(project.path("two"), &link).unwrap();
    let outcome = value(run(&engine));
    assert_eq!(outcome[1], json!(false));
}

#[test]
fn no_run_mixes_two_versions_that_are_swapped_as_folders() {
    let mut project = Project::new();
    let versions = [("one", "write:one.txt", ".metier/skills/x"), ("two", "write:two.txt", "other")];
    for (version, asks, folder) in versions {
        project = project
            .file(&format!("{folder}/SKILL.md"), text(asks))
            .file(&format!("{folder}/scripts/main.lua"), format!("local version = '{version}' {BOTH}"));
    }
    assert_no_mixture(&project, 1500, |_| {
        let (live, other, spare) =
            (project.path(".metier/skills/x"), project.path("other"), project.path("spare"));
        fs::rename(&live, &spare).unwrap();
        fs::rename(&other, &live).unwrap();
        fs::rename(&spare, &other).unwrap();
    });
}

/// The new script needs a permission that only the new text has. Whoever writes the script only once the text is on disk, and
/// takes it away before the old text comes back, never has it on disk with the old text.
#[test]
fn a_script_never_runs_with_a_text_that_was_on_disk_before_or_after_it() {
    let project = Project::lua_with_tools("write:one.txt", "return 'none'");
    let script = |version: &str| format!("local version = '{version}' {BOTH}");
    write(&project.path(SCRIPT), script("one"));
    assert_no_mixture(&project, 2000, |round| {
        let (version, asks) = [("two", "write:two.txt"), ("one", "write:one.txt")][round % 2];
        fs::remove_file(project.path(SCRIPT)).unwrap();
        write(&project.path(TEXT), text(asks));
        write(&project.path("next"), script(version));
        fs::rename(project.path("next"), project.path(SCRIPT)).unwrap();
    });
}

#[test]
fn a_contract_beside_a_broken_text_does_not_hide_what_is_wrong() {
    let project =
        Project::lua_with_tools("write", "return 1").file(".metier/skills/x/skill.yaml", "version: 1.0.0\n");
    let engine = project.engine();
    value(run(&engine));
    write(&project.path(TEXT), "---\nname: [\n---\n");
    for _ in 0..3 {
        assert_eq!(kind(&run(&engine)), ErrorKind::InvalidSkill);
    }
    assert_eq!(kind(&project.engine().run(Invocation::new("x"))), ErrorKind::InvalidSkill);
}
