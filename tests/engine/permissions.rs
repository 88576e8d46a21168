//! What a run may do: what the skill asks for and the caller grants, never one alone.

use metier::engine::{Invocation, RequestSource};
use metier::error::ErrorKind;
use metier::policy::Permission;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};

const WRITES: &str = "ctx.write('out/a.txt', 'a') return true";

#[test]
fn writing_must_be_asked_and_granted() {
    for (asks, grants, may) in [
        ("write", "write", true),
        ("write", "write:out", true),
        ("write:out", "write", true),
        ("Read, Write, Bash(git:*)", "write", true),
        ("[\"write:out\", Grep]", "write:out/a.txt", true),
        ("MultiEdit", "write", true),
        ("write", "read", false),
        ("write", "write:src", false),
        ("write:src", "write", false),
        ("read", "write", false),
        ("\"\"", "write", false),
        // SY-T33: a name that holds the word is another name.
        ("rewrite-history", "write", false),
        ("writes overwrite write-file Write2 WRITE", "write", false),
        ("mcp__files__write", "write", false),
        ("Writer(write)", "write", false),
        ("\"write:\"", "write", false),
    ] {
        let project = Project::lua_with_tools(asks, WRITES);
        let outcome = project.run(&[grants]);
        assert_eq!(outcome.result.is_ok(), may, "asked {asks}, granted {grants}: {:?}", outcome.result);
        assert_eq!(project.path("out/a.txt").exists(), may);
        if !may {
            assert_eq!(kind(&outcome), ErrorKind::Denied, "asked {asks}, granted {grants}");
        }
    }
}

#[test]
fn a_refusal_says_what_to_do_and_leads_to_exit_code_4() {
    let outcome = Project::lua_with_tools("write", WRITES).run(&[]);
    assert_eq!(outcome.exit_code(), 4);
    assert!(sentence(&outcome).contains("failed to write out/a.txt: not permitted; grant write"));
    let outcome = Project::lua(WRITES).run(&["write"]);
    assert!(sentence(&outcome).contains("list write under allowed-tools in SKILL.md"), "{outcome:?}");
}

#[test]
fn reading_is_everybodys_whatever_else_is_listed() {
    for asks in ["", "allowed-tools: write\n", "allowed-tools: rewrite-history\n"] {
        let project = Project::new()
            .skill("x", asks)
            .file(".metier/skills/x/scripts/main.lua", "return ctx.read_file('a.txt')")
            .file("a.txt", "hello");
        assert_eq!(value(project.run(&[])), json!("hello"), "{asks}");
    }
}

#[test]
fn every_way_to_change_files_is_write() {
    for call in [
        "ctx.write('a.txt', 'b')",
        "ctx.append('a.txt', 'b')",
        "ctx.edit('a.txt', 'hello', 'b')",
        "ctx.mkdir('made')",
        "ctx.remove('a.txt')",
    ] {
        let project = Project::lua_with_tools("write", &format!("{call} return 1")).file("a.txt", "hello");
        assert_eq!(kind(&project.run(&["read", "exec", "net"])), ErrorKind::Denied, "{call}");
        assert_eq!(value(project.run(&["write"])), json!(1), "{call}");
    }
}

#[test]
fn protected_places_take_a_permission_that_names_them() {
    let places = [
        ".git/hooks/x",
        ".env",
        "deep/.env.local",
        ".metier/skills/x/SKILL.md",
        ".metier/skills/new/SKILL.md",
        ".METIER/Skills/x/SKILL.md",
        "hooks/x",
        "skills/x/SKILL.md",
        "dotenv",
    ];
    for place in places {
        let project = Project::lua_with_tools(
            "write write:.git write:.env write:deep/.env.local write:.metier/skills write:.METIER",
            &format!("ctx.write('{place}', 'owned') return true"),
        )
        .file(".git/hooks/sample", "")
        .file("deep/a", "")
        .file(".env", "SECRET=1")
        .link(".git/hooks", "hooks")
        .link(".metier/skills", "skills")
        .link(".env", "dotenv");
        let before = std::fs::read(project.path(place)).ok();
        assert_eq!(kind(&project.run(&["write"])), ErrorKind::Denied, "{place}");
        assert_eq!(kind(&project.run(&["write", "write:."])), ErrorKind::Denied, "{place}");
        assert_eq!(std::fs::read(project.path(place)).ok(), before, "{place}");
    }
    let project = Project::lua_with_tools("write:.git/hooks", "ctx.write('.git/hooks/x', '') return true")
        .file(".git/hooks/sample", "");
    assert_eq!(value(project.run(&["write:.git/hooks/x"])), json!(true));
}

#[test]
fn secrets_are_read_by_name_only() {
    let project = Project::lua_with_tools("read:.env", "return ctx.read_file(input.path)")
        .file(".env", "SECRET=1")
        .link(".env", "harmless.txt");
    let read = |path: &str, grant: &str| {
        let invocation = metier::engine::Invocation::new("x").input(json!({"path": path}));
        project.engine().run(invocation.grant(grant.parse().unwrap()))
    };
    for path in [".env", "harmless.txt", "./x/../.env"] {
        assert_eq!(kind(&read(path, "read")), ErrorKind::Denied, "{path}");
        assert_eq!(value(read(path, "read:.env")), json!("SECRET=1"), "{path}");
    }
}

#[test]
fn what_a_link_in_a_root_leads_to_is_protected_too() {
    let project = Project::lua_with_tools("write", "ctx.write(input.path, 'owned') return true")
        .file("tools/y/SKILL.md", "---\nname: y\ndescription: d\n---\n")
        .file("pack/z/SKILL.md", "---\nname: z\ndescription: d\n---\n")
        .link("../../tools/y", ".metier/skills/y")
        .link("../../pack", ".metier/skills/pack");
    let engine = project.engine();
    assert_eq!(engine.registry().skills().len(), 3);
    let write = |path: &str| {
        let invocation = metier::engine::Invocation::new("x").input(json!({"path": path}));
        engine.run(invocation.grant(Permission::WRITE))
    };
    for path in ["tools/y/SKILL.md", "tools/y/scripts/new.lua", "pack/z/SKILL.md", "pack/new/SKILL.md"] {
        assert_eq!(kind(&write(path)), ErrorKind::Denied, "{path}");
    }
    assert_eq!(value(write("tools/other.txt")), json!(true));
}

#[test]
fn roots_that_do_not_exist_yet_are_protected_also_when_the_project_is_reached_through_a_link() {
    let script = "ctx.write(input.path, 'owned') return true";
    let skill = |root: &str| format!("{root}/x/SKILL.md");
    let project = Project::new()
        .file("p/own/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file("p/own/x/scripts/main.lua", script)
        .link("p", "link");
    let linked = project.path("link");
    let roots = metier::registry::Roots::standard("acme", &linked)
        .with_compat()
        .with(metier::registry::Root::new(metier::registry::Scope::Explicit, "own", linked.join("own")));
    let engine = metier::engine::Engine::builder(&linked).roots(roots).build().unwrap();
    for root in [".acme/skills", ".agents/skills", ".sweny/skills", ".claude/skills", ".gemini/skills", "own"]
    {
        let invocation = metier::engine::Invocation::new("explicit/own:x")
            .input(json!({"path": skill(root)}))
            .grant(Permission::WRITE);
        assert_eq!(kind(&engine.run(invocation)), ErrorKind::Denied, "{root}");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn an_external_script_in_a_skill_that_names_no_permission_has_the_callers() {
    for (asks, grants, may) in [
        ("", "write", true),
        ("allowed-tools: Read Grep\n", "write", true),
        ("allowed-tools: Bash(git:*)\n", "write", true),
        ("allowed-tools: write\n", "write", true),
        ("allowed-tools: read Write\n", "write", true),
        ("", "read", false),
        ("", "exec", false),
        ("allowed-tools: read\n", "write", false),
        ("allowed-tools: exec Bash\n", "write", false),
    ] {
        let outcome = Project::shell(asks, "echo 1 > made && echo 1\n").run(&[grants]);
        assert_eq!(outcome.result.is_ok(), may, "{asks:?} {grants}: {:?}", outcome.result);
        assert!(
            outcome
                .sandbox
                .is_some_and(|report| crate::support::engine::is_sandbox_level(report.level.name())),
            "{:?}",
            outcome.sandbox
        );
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn unsandboxed_execution_is_the_callers_to_grant_and_is_named_in_the_outcome() {
    for asks in ["", "allowed-tools: read\n", "allowed-tools: exec\n"] {
        let project = Project::shell(asks, "echo 1 > made && echo 1\n");
        assert!(
            project
                .run(&["exec"])
                .sandbox
                .is_some_and(|report| crate::support::engine::is_sandbox_level(report.level.name()))
        );
        let outcome = project.run(&["exec:unsandboxed"]);
        assert_eq!(outcome.sandbox, Some(metier::host::SandboxReport::NONE));
        assert_eq!(value(outcome), json!(1));
    }
}

/// What the skill `x` requests: each permission with who requests it.
fn requested(project: &Project) -> Vec<(String, Vec<RequestSource>)> {
    let engine = project.engine();
    let requests = engine.requested_permissions(engine.registry().find("x").unwrap());
    requests.into_iter().map(|request| (request.permission.to_string(), request.sources)).collect()
}

fn row(permission: &str, sources: &[RequestSource]) -> (String, Vec<RequestSource>) {
    (permission.to_owned(), sources.to_vec())
}

#[test]
fn what_a_skill_requests_is_listed_with_who_requests_it() {
    use RequestSource::{Callee, Contract, Default, Manifest, Plan};
    let callee = || Callee("project/.metier:y@0.0.0".into());
    let with_y = |project: Project| {
        project
            .skill("y", "allowed-tools: write:out net:a.test skill:x\n")
            .file(".metier/skills/y/scripts/main.lua", "return 1")
    };
    let listed = with_y(Project::lua_with_tools("write:out skill:y Bash unknown", "return 1"));
    assert_eq!(
        requested(&listed),
        [
            row("read", &[Default]),
            row("write:out", &[Manifest, callee()]),
            row("skill:y", &[Manifest]),
            row("exec", &[Manifest]),
            row("net:a.test", &[callee()]),
            row("skill:x", &[callee()]),
        ]
    );
    let contract = Project::lua("return 1").file(".metier/skills/x/skill.yaml", "permissions: [write:b]\n");
    assert_eq!(requested(&contract), [row("read", &[Default]), row("write:b", &[Contract])]);
    let steps = json!([{"tool": "search"}, {"skill": "y"}]);
    let plan = with_y(Project::new().skill("x", "allowed-tools: skill:y\n"))
        .file(".metier/skills/x/scripts/sequence.json", steps.to_string());
    assert_eq!(
        requested(&plan)[..3],
        [row("read", &[Default]), row("skill:y", &[Manifest]), row("tool:search", &[Plan])]
    );
    assert_eq!(requested(&plan)[3], row("write:out", &[callee()]));
}

#[test]
fn an_external_script_that_lists_nothing_requests_no_more_than_every_skill() {
    let uses_any = |project: &Project| {
        let engine = project.engine();
        engine.uses_any_grant(engine.registry().find("x").unwrap())
    };
    let plain = Project::shell("", "true");
    assert_eq!(requested(&plain), [row("read", &[RequestSource::Default])]);
    assert!(uses_any(&plain));
    let listed = Project::shell("allowed-tools: write:out\n", "true");
    assert_eq!(requested(&listed)[1], row("write:out", &[RequestSource::Manifest]));
    assert!(!uses_any(&listed) && !uses_any(&Project::lua("return 1")));
}

/// A skill `x` with this frontmatter and these files.
fn skill_of(frontmatter: &str, files: &[(&str, &str)]) -> Project {
    let project = Project::new().skill("x", frontmatter);
    files
        .iter()
        .fold(project, |project, (path, text)| project.file(&format!(".metier/skills/x/{path}"), *text))
}

/// Lines of the frontmatter, the files of the skill, what it requests, and whether it uses any grant.
type Row<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a [&'a str], bool);

#[test]
fn a_skill_with_several_scripts_requests_what_its_scripts_request_together() {
    let (shell, lua) = ("true", "return 1");
    let two_shells = [("scripts/a.sh", shell), ("scripts/b.sh", shell)];
    let mixed = [("scripts/a.lua", lua), ("scripts/b.sh", shell)];
    let tool = |more: &str| format!("tools: [{{name: t, entrypoint: tools/t.sh{more}}}]\n");
    let (free_tool, narrow_tool) = (tool(""), tool(", permissions: ['write:out']"));
    let manifest = r#"{"wasm": [{"path": "a.wasm"}], "allowed_hosts": ["a.test"]}"#;
    let rows: &[Row<'_>] = &[
        ("", two_shells.to_vec(), &["read"], true),
        ("allowed-tools: write:out\n", two_shells.to_vec(), &["read", "write:out"], false),
        ("", vec![("scripts/a.lua", lua), ("scripts/b.lua", lua)], &["read"], false),
        ("", mixed.to_vec(), &["read"], true),
        ("allowed-tools: Bash\n", mixed.to_vec(), &["read", "exec"], true),
        ("", vec![("scripts/main.lua", lua), ("scripts/other.sh", shell)], &["read"], true),
        ("", vec![("scripts/a.lua", lua), ("scripts/deep/down/b.sh", shell)], &["read"], true),
        ("", vec![("scripts/a.lua", lua), ("scripts/c", "#!/bin/sh\ntrue")], &["read"], true),
        (
            "",
            vec![("scripts/a.lua", lua), ("scripts/notes.txt", "x"), ("scripts/d.json", "{}")],
            &["read"],
            false,
        ),
        (
            "",
            vec![
                ("scripts/a.sh", shell),
                ("skill.yaml", "permissions: ['write:b']\n"),
                ("scripts/b.sh", shell),
            ],
            &["read", "write:b"],
            false,
        ),
        (
            "",
            vec![
                ("one/a.lua", lua),
                ("two/b.sh", shell),
                ("skill.yaml", "entrypoints: {main: one/a.lua, two: two/b.sh}\n"),
            ],
            &["read"],
            true,
        ),
        (
            "",
            vec![("scripts/sequence.json", r#"[{"tool": "search"}]"#), ("scripts/b.sh", shell)],
            &["read", "tool:search"],
            true,
        ),
        ("", vec![("tools/t.sh", shell), ("skill.yaml", &free_tool)], &["read"], true),
        ("", vec![("tools/t.sh", shell), ("skill.yaml", &narrow_tool)], &["read", "write:out"], false),
        ("", vec![("scripts/plugin.json", manifest), ("scripts/a.lua", lua)], &["read", "net:a.test"], false),
        ("metadata: {env: TZ}\n", two_shells.to_vec(), &["read", "env:TZ"], true),
    ];
    for (frontmatter, files, expected, uses_any) in rows {
        let project = skill_of(frontmatter, files);
        let engine = project.engine();
        let registry = engine.registry();
        let skill = registry.find("x").unwrap();
        let requests = engine.requested_permissions(skill);
        let names: Vec<String> = requests.iter().map(|request| request.permission.to_string()).collect();
        assert_eq!(names, *expected, "{files:?}");
        assert_eq!(engine.uses_any_grant(skill), *uses_any, "{files:?}");
    }
}

#[test]
fn a_run_is_judged_by_the_script_that_it_names() {
    let project =
        skill_of("", &[("scripts/a.lua", WRITES), ("scripts/b.sh", "mkdir -p out && echo b > out/b.txt")])
            .file("out/old.txt", "");
    let engine = project.engine();
    let run =
        |script: &str, grants: &[&str]| engine.run(granted(Invocation::new("x").script(script), grants));
    let refused = run("a", &["write"]);
    assert_eq!(kind(&refused), ErrorKind::Denied, "the script in Lua requests nothing: {refused:?}");
    assert!(sentence(&refused).contains("list write under allowed-tools in SKILL.md"), "{refused:?}");
    let shell = run("b", &["write"]);
    assert!(shell.result.is_ok() && project.path("out/b.txt").exists(), "{shell:?}");
    let registry = engine.registry();
    let skill = registry.find("x").unwrap();
    for (script, expected) in [("a", false), ("b", true), ("scripts/b.sh", true), ("none", false)] {
        assert_eq!(
            engine.run_uses_any_grant(skill, &Invocation::new("x").script(script)),
            expected,
            "{script}"
        );
    }
    assert!(engine.runs_named_scripts_only(skill));
    let later = project.file(".metier/skills/x/scripts/c.py", "");
    let engine = later.engine();
    let named: Vec<String> = engine
        .named_scripts(engine.registry().find("x").unwrap())
        .into_iter()
        .map(|script| format!("{} {}", script.path, script.runtime.name()))
        .collect();
    assert_eq!(named, ["scripts/a.lua lua", "scripts/b.sh external", "scripts/c.py external"]);
}

#[test]
fn a_refusal_names_the_file_that_the_skill_has() {
    let folder = ".metier/skills/x";
    let step = "steps: [{tool: write, args: {path: a.txt, content: a}}]\n";
    let only_contract =
        || Project::new().file(&format!("{folder}/skill.yaml"), format!("name: x\ndescription: d\n{step}"));
    let script_alone = || Project::new().file(".metier/skills/x.lua", format!("-- Writes.\n{WRITES}"));
    let with_both = || Project::new().skill("x", "").file(&format!("{folder}/skill.yaml"), step);
    let rows: [(&dyn Fn() -> Project, &str); 4] = [
        (&|| Project::lua(WRITES), "list write under allowed-tools in SKILL.md"),
        (&with_both, "list write under allowed-tools in SKILL.md"),
        (&only_contract, "list write under permissions in skill.yaml"),
        (&script_alone, "list write under permissions of the comment block /// skill in x.lua"),
    ];
    for (project, expected) in rows {
        for (grants, help) in
            [(&["write"][..], expected.to_owned()), (&[], format!("{expected} and grant write"))]
        {
            let outcome = project().run(grants);
            assert_eq!(outcome.result.unwrap_err().help(), Some(&*help));
        }
    }
    // What the help says is enough.
    let listed = only_contract().file(
        &format!("{folder}/skill.yaml"),
        format!("name: x\ndescription: d\npermissions: [write]\n{step}"),
    );
    assert!(listed.run(&["write"]).result.is_ok());
    let block = "-- /// skill\n-- permissions: [write]\n-- ///\n";
    let listed = Project::new().file(".metier/skills/x.lua", format!("{block}{WRITES}"));
    assert!(listed.run(&["write"]).result.is_ok());
}
