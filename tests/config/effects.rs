//! What the values of the configuration do to runs.

use serde_json::{Value, json};

use crate::support::cli::Project;

fn run(project: &Project, args: &[&str]) -> Value {
    project.metier(&[&["run", "--json"], args].concat()).json()
}

/// The limits that a project sets, for all skills or for one, and what the outcome reports.
#[test]
fn the_limits_of_a_project_hold_its_runs() {
    for section in ["limits", "skills.x.limits"] {
        let set = |text: &str| Project::new().project_config(format!("[{section}]\n{text}"));
        for (text, key, expected) in [
            ("timeout = '5s'", "timeout_ms", json!(5_000)),
            ("memory = '32MB'", "memory_bytes", json!(32 << 20)),
            ("output = '1KB'", "output_bytes", json!(1_024)),
            ("file_size = '1MB'", "file_bytes", json!(1 << 20)),
        ] {
            let outcome = run(&set(text).lua("x", "return 1"), &["x"]);
            assert_eq!(outcome["limits"][key], expected, "{section} {text}: {outcome}");
        }
        #[cfg(all(feature = "sandboxed", target_os = "linux"))]
        for (text, key, expected) in [
            ("cpu = '5s'", "cpu_ms", json!(5_000)),
            ("open_files = 50", "open_files", json!(50)),
            ("memory = '1GB'", "memory_bytes", json!(1 << 30)),
        ] {
            let outcome = run(&set(text).shell("x", "true"), &["x"]);
            assert_eq!(outcome["limits"][key], expected, "{section} {text}: {outcome}");
        }
    }
}

#[test]
fn an_option_is_stronger_than_a_limit_for_all_skills_and_not_than_one_for_the_skill() {
    let general = Project::new().lua("x", "return 1").project_config("limits.timeout = '5s'");
    assert_eq!(run(&general, &["x", "--timeout", "20s"])["limits"]["timeout_ms"], 20_000);
    let of_skill = Project::new().lua("x", "return 1").project_config("skills.x.limits.timeout = '5s'");
    assert_eq!(run(&of_skill, &["x", "--timeout", "20s"])["limits"]["timeout_ms"], 5_000);
    assert_eq!(run(&of_skill, &["x", "--timeout", "2s"])["limits"]["timeout_ms"], 2_000);
}

#[test]
fn a_limit_of_the_project_never_raises_the_default_of_a_runtime() {
    let project = Project::new().lua("x", "return 1").project_config("limits.memory = '1GB'");
    assert_eq!(run(&project, &["x"])["limits"]["memory_bytes"], 64 << 20);
}

#[test]
fn a_limit_is_reached() {
    let project =
        Project::new().lua("x", "while true do end").project_config("skills.x.limits.timeout = '100ms'");
    assert_eq!(run(&project, &["x"])["error"]["kind"], "timeout");
}

#[test]
fn a_denied_permission_is_in_no_run_whoever_grants_it() {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: write net tool:t skill:word-count\n---\n";
    let writes = "ctx.write('out/a.txt', 'a') return 1";
    let project = |script: &str, text: &str| {
        Project::new()
            .file(".metier/skills/x/SKILL.md", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", script)
            .project_config(text)
    };
    let grants =
        ["x", "--allow", "write", "--allow", "write:out", "--allow", "net", "--allow", "skill:word-count"];
    let denied = |script: &str, text: &str| {
        let outcome = run(&project(script, text), &grants);
        let message = outcome["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(outcome["error"]["kind"], "denied", "{text}: {outcome}");
        assert!(message.contains("the configuration denies"), "{message}");
    };
    for text in [
        "permissions.deny = ['write']",
        "permissions.deny = ['write:out']",
        "permissions.deny = ['write:out/a.txt']",
        "skills.x.deny = ['write']",
        "permissions.deny = ['write:.']",
    ] {
        denied(writes, text);
    }
    assert_eq!(run(&project(writes, "permissions.deny = ['write:other']"), &grants)["value"], 1);
    assert_eq!(run(&project(writes, "skills.y.deny = ['write']"), &grants)["value"], 1);
    denied("return ctx.http('https://example.com/').status", "permissions.deny = ['net']");
    for host in ["example.com", "EXAMPLE.com"] {
        denied(
            &format!("return ctx.http('https://{host}/').status"),
            "permissions.deny = ['net:example.com']",
        );
    }
    for name in ["word-count", "builtin:word-count", "word-count@*", "builtin/metier:word-count@*"] {
        let script = format!("return ctx.skill('{name}', {{text = 'a'}})");
        let outcome = run(&project(&script, "permissions.deny = ['skill:word-count']"), &grants);
        assert_eq!(outcome["error"]["kind"], "denied", "{name}: {outcome}");
    }
}

#[test]
fn no_way_around_leads_to_a_denied_path() {
    let script = "local answers = {} \
        for _, attempt in { \
            function() return ctx.write('link/new.txt', 'x') end, \
            function() return ctx.write('out/../out/new.txt', 'x') end, \
            function() return ctx.mkdir('out/folder') end, \
            function() return ctx.remove('out', {recursive = true}) end, \
            function() return ctx.edit('out/old.txt', 'old', 'new') end, \
            function() return ctx.append('link/old.txt', 'x') end, \
        } do answers[#answers + 1] = pcall(attempt) end \
        return answers";
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: write\n---\n";
    let project = |script: &str| {
        Project::new()
            .file(".metier/skills/x/SKILL.md", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", script)
            .file("out/old.txt", "old")
            .link("out", "link")
            .project_config("permissions.deny = ['write:out']")
    };
    let tried = project(script);
    let outcome = run(&tried, &["x", "--allow", "write", "--allow", "write:out"]);
    assert_eq!(outcome["value"], json!(vec![false; 6]), "{outcome}");
    assert_eq!(tried.tree().iter().filter(|path| path.starts_with("out")).count(), 2);
}

/// Who denies must know that it holds.
#[test]
fn what_could_deny_nothing_is_an_error() {
    for denied in [
        "read",
        "read:private",
        "read:.env",
        "exec",
        "tool:*",
        "skill:*",
        "secret:A*",
        "skill:user/metier:deploy",
        "skill:deploy@1.0.0",
        "net:https://example.com",
        "net:example.com/path",
        "net:[::1",
        "net:b\u{fc}cher.de",
        "env:A*",
        "nothing",
        "write:../x",
        "write:/etc",
    ] {
        let project = Project::with_marker_skill().project_config(format!("permissions.deny = ['{denied}']"));
        super::refused(&project, ".metier/config.toml:1:", "");
    }
    for denied in [
        "tool",
        "skill",
        "secret",
        "env",
        "net:*.example.com",
        "net:[::1]:80",
        "net:10.0.0.1:5432",
        "skill:\u{ff44}eploy",
    ] {
        let project = Project::with_marker_skill().project_config(format!("permissions.deny = ['{denied}']"));
        assert_eq!(project.run_x(&[]).code, 0, "{denied}");
    }
}

#[test]
fn denied_hosts_hold_with_ports_and_patterns() {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: net\n---\n";
    let kind = |denied: &str, url: &str| {
        let project = Project::new()
            .file(".metier/skills/x/SKILL.md", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", format!("return ctx.http('{url}').status"))
            .project_config(format!("permissions.deny = ['{denied}']"));
        let grants = ["--allow", "net", "--allow", "net:127.0.0.1", "--allow", "net:127.0.0.1:1"];
        run(&project, &[&["x"][..], &grants].concat())["error"]["kind"].clone()
    };
    for (denied, is_denied) in [
        ("net:127.0.0.1", true),
        ("net:127.0.0.1:1", true),
        ("net:127.0.0.1:2", false),
        ("net:127.0.0.2", false),
    ] {
        let expected = if is_denied { "denied" } else { "io" };
        assert_eq!(kind(denied, "http://127.0.0.1:1/"), expected, "{denied}");
    }
    assert_eq!(kind("net:*.example.com", "https://api.example.com/"), "denied");
    assert_eq!(kind("net:example.com", "https://EXAMPLE.com/"), "denied");
}

/// A checkout can name its skill as it likes; what the user set is for the skill that he knows.
#[test]
fn values_and_secrets_of_the_user_are_for_trusted_skills_only() {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN\n---\n";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(
            ".metier/skills/x/scripts/main.lua",
            "local ok, token = pcall(ctx.secret, 'TOKEN') return {ctx.config().color or 'none', ok and #token or 'none'}",
        )
        .user_config("[skills.x]\nconfig.color = 'blue'\nsecrets.TOKEN = {env = 'THE_TOKEN'}\n");
    let value = |args: &[&str]| {
        let mut command =
            project.command(&[&["run", "x", "--json", "--allow", "secret:TOKEN"], args].concat());
        let answer: crate::support::cli::Answer =
            command.env("THE_TOKEN", "a secret value").output().unwrap().into();
        answer.json()["value"].clone()
    };
    assert_eq!(value(&[]), json!(["none", "none"]), "nobody trusted it");
    assert_eq!(value(&["--trust"]), json!(["blue", 14]), "somebody trusts it for this run");
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(value(&[]), json!(["blue", 14]));
    super::write(&project.path(".metier/skills/x/more.txt"), "");
    assert_eq!(value(&[]), json!(["none", "none"]), "it has changed");
}

#[test]
fn the_sandbox_of_a_skill_yields_to_what_a_stronger_source_asks_of_all() {
    let of_skill = "skills.x.sandbox.mode = 'off'";
    let mode = |user: &str, own: &str, variable: Option<&str>| {
        let project = Project::new().shell("x", "true").user_config(user).project_config(own);
        let mut command = project.command(&["run", "x", "--explain", "--json"]);
        if let Some(mode) = variable {
            command.env("METIER_SANDBOX_MODE", mode);
        }
        let answer: crate::support::cli::Answer = command.output().unwrap().into();
        answer.json()["sandbox_mode"].clone()
    };
    assert_eq!(mode(of_skill, "", None), "off");
    assert_eq!(mode(of_skill, "sandbox.mode = 'required'", None), "required");
    assert_eq!(mode(of_skill, "", Some("required")), "required");
    assert_eq!(mode("skills.x.sandbox.mode = 'required'", "", Some("off")), "required");
    assert_eq!(mode(&format!("sandbox.mode = 'best-effort'\n{of_skill}"), "", None), "off");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_sandbox_cannot_be_left_where_that_is_denied() {
    let project = Project::new().shell("x", "true");
    let args = ["x", "--allow", "exec:unsandboxed"];
    assert_eq!(run(&project, &args)["sandbox"]["level"], "none");
    let project = project.project_config("permissions.deny = ['exec:unsandboxed']");
    assert_ne!(run(&project, &args)["sandbox"]["level"], "none");
}

#[test]
fn a_denied_host_leaves_the_others_and_is_shown() {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: net\n---\n";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", "return ctx.http('http://127.0.0.1:1/').status")
        .project_config("permissions.deny = ['net:example.com']");
    let outcome = run(&project, &["x", "--allow", "net", "--allow", "net:127.0.0.1"]);
    // Nobody listens there, and nothing forbade it.
    assert_eq!(outcome["error"]["kind"], "io", "{outcome}");
    let explained = run(&project, &["x", "--explain", "--allow", "net"]);
    assert!(explained["permissions"].as_array().unwrap().contains(&json!("net")), "{explained}");
    let project = project.project_config("permissions.deny = ['net']");
    let explained = run(&project, &["x", "--explain", "--allow", "net"]);
    assert!(!explained["permissions"].as_array().unwrap().contains(&json!("net")), "{explained}");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_process_is_restricted_by_denied_paths_and_hosts() {
    for level in ["namespaces", "landlock"] {
        let run = |script: &str, text: &str| {
            let project = Project::new().shell("x", script).file("out/old.txt", "old").project_config(text);
            let mut command = project.command(&["run", "x", "--json", "--allow", "write", "--allow", "net"]);
            super::Answer::from(command.env("METIER_SANDBOX_LEVEL", level).output().unwrap()).json()
        };
        for script in ["echo new >out/old.txt", "echo new >out/new.txt", "mv out elsewhere", "rm out/old.txt"]
        {
            let script = format!("{script} 2>/dev/null; cat out/*.txt elsewhere/*.txt 2>/dev/null");
            let outcome = run(&script, "permissions.deny = ['write:out']");
            if level == "landlock" {
                // Without mounts nothing covers a path in a folder that is writable.
                assert_eq!(outcome["error"]["kind"], "sandbox-unavailable", "{outcome}");
                assert!(outcome["error"]["message"].as_str().unwrap().contains("denies paths"), "{outcome}");
            } else {
                assert_eq!(outcome["process"]["stdout"], "old", "{script}: {outcome}");
            }
        }
        for text in ["permissions.deny = ['net']", "permissions.deny = ['net:example.com']"] {
            let outcome = run("true", text);
            assert_eq!(
                outcome["sandbox"]["network"], true,
                "a denied host denies a process all hosts: {outcome}"
            );
        }
        assert_eq!(run("true", "")["sandbox"]["network"], false);
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_sandbox_of_a_skill_is_the_stricter_one() {
    let level = |user: &str, own: &str, variable: Option<&str>, args: &[&str]| {
        let project = Project::new().shell("x", "true").user_config(user).project_config(own);
        let mut command = project.command(&[&["run", "x", "--json"], args].concat());
        command.envs(variable.map(|value| ("METIER_SANDBOX_MODE", value)));
        super::Answer::from(command.output().unwrap()).json()["sandbox"]["level"] == "none"
    };
    let off = "sandbox.mode = 'off'";
    assert!(level(off, "", None, &[]));
    assert!(!level(off, "sandbox.mode = 'required'", None, &[]));
    assert!(!level(off, "skills.x.sandbox.mode = 'required'", None, &[]));
    assert!(level("", "", Some("off"), &[]));
    assert!(!level("", "", Some("off"), &["--sandbox", "required"]));
    // What a project says about one skill does not weaken what is asked for all.
    assert!(!level(off, "skills.x.sandbox.mode = 'off'", Some("required"), &[]));
    assert!(level("skills.x.sandbox.mode = 'off'", "", None, &[]));
    assert!(!level("skills.x.sandbox.mode = 'off'", "skills.x.sandbox.mode = 'required'", None, &[]));
}

#[test]
fn a_runtime_or_a_skill_that_is_switched_off_does_not_run_and_says_where() {
    let project = Project::with_marker_skill().project_config("\nruntimes.disabled = ['lua']");
    let answer = project.run_x(&[]);
    let error = answer.json()["error"].clone();
    assert_eq!((answer.code, &error["kind"]), (3, &json!("unavailable")));
    assert!(error["message"].as_str().unwrap().contains(".metier/config.toml:2"), "{error}");
    assert!(project.metier(&["list"]).stdout.contains(".metier/config.toml:2"));
    assert!(!project.path(super::MARKER).exists());
    // What the user switches off stays off.
    let project = Project::with_marker_skill()
        .user_config("runtimes.disabled = ['lua']")
        .project_config("runtimes.disabled = []");
    assert_eq!(project.run_x(&[]).json()["error"]["kind"], "unavailable");
    for (user, own) in
        [("skills.x.enabled = false", ""), ("skills.x.enabled = true", "skills.x.enabled = false")]
    {
        let project = Project::with_marker_skill().user_config(user).project_config(own);
        let error = project.run_x(&[]).json()["error"].clone();
        assert!(
            error["kind"] == "unavailable" && error["message"].as_str().unwrap().contains("switched off"),
            "{error}"
        );
        assert!(!project.metier(&["catalog", "--trust"]).stdout.contains("- x:"));
    }
    let project = Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            "---\nname: x\ndescription: d\nallowed-tools: skill:word-count\n---\n",
        )
        .file(".metier/skills/x/scripts/main.lua", "return ctx.skill('word-count', {text = 'a'})")
        .project_config("skills.word-count.enabled = false");
    let outcome = run(&project, &["x", "--allow", "skill:word-count"]);
    assert!(outcome.to_string().contains("switched off"), "a callee neither: {outcome}");
}

#[test]
fn grants_of_the_user_count_for_trusted_skills_only() {
    let project = || Project::with_marker_skill().user_config("\nskills.x.grants = ['write']");
    let untrusted = project();
    assert_eq!(run(&untrusted, &["x"])["error"]["kind"], "denied");
    assert!(!untrusted.path(super::MARKER).exists());
    let trusted = project();
    assert_eq!(trusted.metier(&["trust", "--yes"]).code, 0);
    let outcome = run(&trusted, &["x"]);
    assert_eq!(outcome["value"], "done", "{outcome}");
    let grant = &outcome["grants"][0];
    assert_eq!(
        *grant,
        json!({"permission": "write", "origin": "configuration", "file": trusted.user_file()})
    );
    let explained = run(&trusted, &["x", "--explain"]);
    assert!(explained.to_string().contains("config.toml"), "{explained}");
    let trusted = trusted.file(".metier/skills/x/new.txt", "");
    assert_eq!(run(&trusted, &["x"])["error"]["kind"], "denied", "it has changed");
    // A skill without a digest is trusted with its folder, and has no grants.
    let folder = project();
    assert_eq!(folder.metier(&["trust", "--folder", "--yes"]).code, 0);
    assert_eq!(run(&folder, &["x"])["value"], "done");
    super::files::make_fifo(&folder.path(".metier/skills/x/fifo"));
    assert_eq!(run(&folder, &["x"])["error"]["kind"], "denied");
    let denied = project().project_config("permissions.deny = ['write']");
    assert_eq!(denied.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(run(&denied, &["x"])["error"]["kind"], "denied");
}

#[test]
fn remembered_grants_and_the_lock_file_are_protected_by_their_keys() {
    let project = Project::with_marker_skill();
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(project.metier(&["allow", "x", "write"]).code, 0);
    assert_eq!(run(&project, &["x"])["value"], "done");
    let project = project.project_config("trust.remembered = false");
    assert_eq!(run(&project, &["x"])["error"]["kind"], "denied");
    let project = project.project_config("trust.locked = true");
    assert_eq!(run(&project, &["x"])["error"]["kind"], "untrusted");
    assert_eq!(run(&project, &["word-count", "--input", "{\"text\": \"a\"}"])["ok"], true);
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(run(&project, &["x"])["value"], "done");
    let project = project.file(".metier/skills/x/new.txt", "");
    assert_eq!(run(&project, &["x", "--allow", "write"])["error"]["kind"], "untrusted");
}

#[test]
fn roots_product_and_compat_say_where_skills_are() {
    let project = Project::new().skill(".other/skills/a").skill(".claude/skills/b").skill("further/c");
    let names = |project: &Project| {
        let listed = project.metier(&["list", "--json"]).json().to_string();
        ["project/.other:a", "project/.claude:b", "explicit/further:c"].map(|name| listed.contains(name))
    };
    assert_eq!(names(&project), [false; 3]);
    let project = project.user_config("product = 'other'");
    assert_eq!(names(&project), [true, false, false]);
    let project = project.user_config("product = 'other'\ncompat = true");
    assert_eq!(names(&project), [true, true, false]);
    let text = format!("roots = ['{}']", project.path("further").display());
    assert_eq!(names(&project.user_config(text)), [false, false, true]);
}

#[test]
fn execution_and_json_are_read() {
    let project = Project::new().lua("x", "return 1").user_config("json = true\nno_input = true");
    assert_eq!(project.metier(&["run", "x"]).json()["value"], 1);
    #[cfg(all(feature = "sandboxed", target_os = "linux"))]
    {
        let project = project.project_config("execution = 'worker'");
        assert_ne!(project.metier(&["run", "x"]).json()["sandbox"]["level"], "in-process");
    }
}

/// Files and keyboards write one name in several ways.
#[test]
fn the_section_of_a_skill_is_found_however_its_name_is_written() {
    for section in ["cafe\u{301}", "caf\u{e9}", " caf\u{e9} "] {
        let project = Project::new()
            .lua("caf\u{e9}", "return 1")
            .project_config(format!("[skills.\"{section}\"]\nenabled = false"));
        assert_eq!(run(&project, &["caf\u{e9}"])["error"]["kind"], "unavailable", "{section:?}");
    }
}

#[test]
fn grants_of_the_configuration_are_shown_with_their_file_and_whether_they_count() {
    let project = Project::with_marker_skill().user_config("skills.x.grants = ['write']");
    let shown =
        |project: &Project| (project.metier(&["show", "x"]).stdout, project.metier(&["doctor"]).stdout);
    let (show, doctor) = shown(&project);
    for text in [&show, &doctor] {
        assert!(text.contains("config.toml; without effect: the skill is not trusted"), "{text}");
    }
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    let (show, doctor) = shown(&project);
    for text in [&show, &doctor] {
        assert!(text.contains("write by ") && !text.contains("without effect"), "{text}");
    }
    let record = project.metier(&["show", "x", "--json"]).json();
    assert_eq!(record["configured_grants"][0]["permission"], "write", "{record}");
    let report = project.metier(&["doctor", "--json"]).json();
    assert_eq!(report["trust"]["configured_grants"][0]["current"], true, "{report}");
}
