//! What a hostile skill, a changing disk or a careless caller may try.

use std::fs;
use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value, write};

#[test]
fn a_script_is_a_file_of_the_skill_and_nothing_else() {
    let project = Project::lua("return 1")
        .file("outside.lua", "return 'outside'")
        .file(".metier/skills/x/scripts/.hidden.lua", "return 'hidden'")
        .file(".metier/skills/x/scripts/sub/deep.lua", "return 'deep'")
        .file(".metier/skills/other/scripts/main.lua", "return 'other'")
        .link("../../../../outside.lua", ".metier/skills/x/scripts/leaves.lua")
        .link("main.lua", ".metier/skills/x/scripts/stays.lua")
        .link("../../..", ".metier/skills/x/scripts/project");
    let absolute = project.path("outside.lua").display().to_string();
    let own = project.path(".metier/skills/x/scripts/main.lua").display().to_string();
    for script in [
        "../x",
        "../../../outside.lua",
        "../../../../outside.lua",
        "../other/scripts/main.lua",
        "scripts/../../../../outside.lua",
        "scripts/project/outside.lua",
        &absolute,
        &own,
        "/etc/passwd",
        "scripts/leaves.lua",
        "scripts",
        "scripts/",
        "scripts/sub",
        ".",
        "",
        "main.lua\n",
        "main.lua\0",
        "scripts\\main.lua",
        "SCRIPTS/MAIN.LUA/",
        "scripts//main.lua",
        &"a/".repeat(100_000),
    ] {
        let outcome = project.engine().run(Invocation::new("x").script(script));
        assert_eq!(kind(&outcome), ErrorKind::UnknownSkill, "{script:?}");
    }
    let manifest = project.engine().run(granted(Invocation::new("x").script("SKILL.md"), &["exec"]));
    assert!(matches!(kind(&manifest), ErrorKind::InvalidSkill | ErrorKind::UnknownSkill), "{manifest:?}");
    // Files of the skill, in its digest, which only run where somebody names them.
    for (script, expected) in [("sub/deep.lua", "deep"), ("scripts/.hidden.lua", "hidden")] {
        assert_eq!(value(project.engine().run(Invocation::new("x").script(script))), json!(expected));
    }
}

#[test]
fn a_skill_edited_while_it_runs_ends_as_it_began() {
    let script = "ctx.write('started', '') while not pcall(ctx.read_file, 'go') do end return 'old'";
    let project = Project::lua_with_tools("write", script);
    let engine = project.engine();
    let running = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.run(granted(Invocation::new("x"), &["write"])))
    };
    project.wait_for_file("started");
    write(&project.path(".metier/skills/x/scripts/main.lua"), "return 'new'");
    write(&project.path("go"), "");
    assert_eq!(value(running.join().unwrap()), json!("old"));
    assert_eq!(value(engine.run(Invocation::new("x"))), json!("new"));
}

#[test]
fn a_project_swapped_while_a_skill_runs_is_not_entered() {
    let script =
        "ctx.write('started', '') while not pcall(ctx.read_file, 'go') do end return ctx.read_file('name')";
    let project = Project::new().file("p/name", "mine").file("q/name", "theirs").file("q/go", "");
    write(
        &project.path("p/.metier/skills/x/SKILL.md"),
        "---\nname: x\ndescription: d\nallowed-tools: write\n---\n",
    );
    write(&project.path("p/.metier/skills/x/scripts/main.lua"), script);
    let engine = metier::engine::Engine::builder(project.path("p")).build().unwrap();
    let running = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.run(granted(Invocation::new("project/.metier:x"), &["write"])))
    };
    project.wait_for_file("p/started");
    fs::rename(project.path("p"), project.path("away")).unwrap();
    std::os::unix::fs::symlink("q", project.path("p")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    write(&project.path("away/go"), "");
    assert_eq!(value(running.join().unwrap()), json!("mine"));
}

#[test]
fn a_project_or_a_skill_that_is_gone_is_an_error_and_no_more() {
    let project = Project::new().file("p/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n");
    write(&project.path("p/.metier/skills/x/scripts/main.lua"), "return 1");
    let engine = metier::engine::Engine::builder(project.path("p")).build().unwrap();
    let run = || engine.run(Invocation::new("project/.metier:x"));
    assert_eq!(value(run()), json!(1));
    fs::remove_file(project.path("p/.metier/skills/x/scripts/main.lua")).unwrap();
    assert_eq!(kind(&run()), ErrorKind::Unavailable);
    fs::remove_dir_all(project.path("p/.metier")).unwrap();
    assert_eq!(kind(&run()), ErrorKind::UnknownSkill);
    fs::remove_dir_all(project.path("p")).unwrap();
    assert_eq!(kind(&run()), ErrorKind::UnknownSkill);
    assert!(metier::engine::Engine::builder(project.path("p")).build().is_err());
}

#[test]
fn a_flood_of_allowed_tools_costs_next_to_nothing() {
    let begun = Instant::now();
    let names = Project::lua_with_tools(&"w ".repeat(30_000), "return 1");
    assert_eq!(value(names.run(&["write"])), json!(1));
    let long = Project::lua_with_tools(&"w".repeat(60_000), "return 1");
    assert_eq!(value(long.run(&["write"])), json!(1));
    let huge = Project::lua_with_tools(&"write ".repeat(2_000_000), "return 1").run(&["write"]);
    assert_eq!(kind(&huge), ErrorKind::InvalidSkill, "12 MB of them are no frontmatter");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn names_with_line_breaks_and_escapes_are_answered_and_not_obeyed() {
    let project = Project::new().skill("x", "");
    for name in [
        "a\nb",
        "\u{1b}[31mx",
        "\0",
        "",
        " ",
        ":",
        "@",
        "x@",
        ":x",
        "project/:x",
        "x\n",
        &"x".repeat(1 << 20),
    ] {
        let outcome = project.engine().run(Invocation::new(name));
        let expected = [ErrorKind::UnknownSkill, ErrorKind::Unavailable];
        assert!(expected.contains(&kind(&outcome)), "{name:?} {outcome:?}");
        assert!(!sentence(&outcome).contains(char::is_control), "{:?}", sentence(&outcome));
    }
}

#[test]
fn cancels_from_everywhere_end_every_run_once() {
    let project = Project::lua("local n = 0 while true do n = n + 1 end");
    let engine = project.engine();
    let token = metier::policy::CancelToken::new();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            let (engine, token) = (engine.clone(), token.clone());
            scope.spawn(move || {
                assert_eq!(kind(&engine.run(Invocation::new("x").cancel(token))), ErrorKind::Cancelled);
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| token.child().cancel()));
            scope.spawn(|| token.cancel());
        }
    });
}
