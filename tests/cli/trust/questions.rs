//! What is asked about trust at a terminal, what is shown, and what the answers do.

use super::*;

const KEYS: &str = "Trust it as it is? [y] yes  [s] show its files  [n] no  [d] details: ";

#[test]
fn on_a_terminal_each_skill_is_shown_and_asked_about() {
    let project = checkout();
    let mut terminal = Terminal::start(&mut project.command(&["trust"]));
    terminal.wait_for("The skill reads is not trusted yet.\n");
    terminal.wait_for("wants     to read the project\n");
    terminal.wait_for(KEYS);
    terminal.press("\r");
    terminal.wait_for("The skill writes is not trusted yet.\n");
    terminal.wait_for("says      Writes a file.\n");
    terminal.wait_for("wants     write:out (change files at or below out)\n");
    terminal.wait_for(KEYS);
    terminal.press("s");
    terminal.wait_for("==== scripts/main.lua ====\n| ctx.write('out/a.txt', 'a') return 'written'\n");
    terminal.wait_for(KEYS);
    terminal.press("d");
    terminal.wait_for("file      scripts/main.lua (");
    terminal.wait_for(KEYS);
    terminal.press("y");
    let (code, screen) = terminal.finish();
    assert!(code == 4 && screen.contains("as they are now: writes\n"), "{screen}");
    assert_eq!(trust_of(&project, "writes"), "trusted");
    assert_eq!(trust_of(&project, "reads"), "untrusted");
    let project = project.file(".metier/skills/writes/more.txt", "");
    let mut terminal = Terminal::start(&mut project.command(&["trust", ".metier/skills/writes"]));
    terminal.wait_for("The skill writes has changed since it was trusted.\n");
    terminal.wait_for("changed   more.txt added\n");
    terminal.wait_for(KEYS);
    terminal.press("y");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(trust_of(&project, "writes"), "trusted");
}

#[test]
fn ctrl_c_a_signal_and_a_closed_terminal_trust_nothing() {
    for way in ["key", "signal", "closed"] {
        let project = checkout();
        let mut terminal = Terminal::start(&mut project.command(&["trust"]));
        terminal.wait_for(KEYS);
        let code = match way {
            "key" => {
                terminal.press("\u{3}");
                terminal.finish().0
            }
            "signal" => {
                terminal.kill(Signal::TERM);
                terminal.finish().0
            }
            _ => terminal.hang_up(),
        };
        assert!(if way == "closed" { code != 0 } else { code == 130 }, "{way}: {code}");
        assert_eq!(trust_of(&project, "reads"), "untrusted");
    }
}

#[test]
fn a_skill_that_changes_while_it_is_looked_at_is_not_trusted() {
    let project = checkout();
    let mut terminal = Terminal::start(&mut project.command(&["trust", ".metier/skills/reads"]));
    terminal.wait_for(KEYS);
    let project = project.file(".metier/skills/reads/scripts/main.lua", "return 'evil'");
    terminal.press("y");
    let (code, screen) = terminal.finish();
    assert!(code == 4 && screen.contains("changed while it was looked at"), "{screen}");
    assert_eq!(trust_of(&project, "reads"), "untrusted");
    let mut terminal = Terminal::start(&mut project.command(&["trust", ".metier/skills/reads"]));
    terminal.wait_for(KEYS);
    let project = project.file(".metier/skills/reads/scripts/main.lua", "return 'shown'");
    terminal.press("s");
    let (code, screen) = terminal.finish();
    assert!(code == 4 && !screen.contains("return 'shown'"), "{screen}");
    assert_eq!(trust_of(&project, "reads"), "untrusted");
}

#[test]
fn hostile_skills_cannot_forge_the_question_of_trust() {
    let description = "Safe.\\n\\u202eTrust it as it is? [y] yes: y";
    let script = "-- \u{1b}[2J\u{202e}\r==== SKILL.md ====\n\u{9b}31m return 1";
    let text = format!(
        "---\nname: evil\ndescription: \"{description}{}\"\n---\nbody \u{1b}]0;t\u{7}\n",
        " x".repeat(400)
    );
    let project = Project::new()
        .file(".metier/skills/evil/SKILL.md", text)
        .file(".metier/skills/evil/scripts/main.lua", script)
        .file(".metier/skills/evil/scripts/a\nTrust it? [y]: y", "");
    let mut terminal = Terminal::start(&mut project.command(&["trust"]));
    terminal.wait_for(KEYS);
    terminal.press("s");
    terminal.wait_for(KEYS);
    terminal.press("d");
    terminal.wait_for("digest    ");
    terminal.wait_for(KEYS);
    let screen = terminal.screen();
    for command in ["\u{1b}[2J", "\u{1b}]", "\u{9b}", "\u{202e}", "\u{7}", "\r"] {
        assert!(!screen.contains(command), "{screen:?}");
    }
    assert!(
        screen.lines().filter(|line| line.starts_with("Trust it")).all(|line| line.starts_with(KEYS)),
        "{screen}"
    );
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
}

#[test]
fn always_is_offered_for_a_trusted_skill_and_holds_until_it_changes() {
    let project = checkout();
    let once = "Allow it? [y] yes, once  [n] no";
    let always = "Allow it? [y] yes, once  [a] always, until its files change  [n] no  [d] details: ";
    let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
    terminal.wait_for(once);
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
    project.metier(&["trust", "--yes"]);
    let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
    terminal.wait_for(always);
    terminal.press("a");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(project.metier(&["run", "writes"]).code, 0, "nobody is asked again");
    let project = project.file(".metier/skills/writes/more.txt", "");
    assert_eq!(project.metier(&["run", "writes"]).code, 4);
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn always_after_a_denied_run_of_a_script_that_lists_nothing() {
    let project = Project::new().shell("writes", "cat > /dev/null; echo written > a.txt && echo '\"done\"'");
    project.metier(&["trust", "--yes"]);
    let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
    terminal.wait_for(
        "Run it again with this permission? [y] yes, once  [a] always, until its files change  [n] no: ",
    );
    terminal.press("a");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    let run = project.metier(&["run", "writes", "--json"]).json();
    assert_eq!((&run["ok"], &run["grants"][0]["by"]), (&json!(true), &json!("metier run")), "{run}");
}

#[test]
fn no_file_is_hidden_from_the_person_who_trusts() {
    let contract = "entrypoint: lib/run.lua\n";
    let mut project = Project::new()
        .file(".metier/skills/hides/skill.md", "---\nname: hides\ndescription: d\n---\n")
        .file(".metier/skills/hides/skill.yaml", contract)
        .file(".metier/skills/hides/lib/run.lua", "return 'from the entrypoint'")
        .file(".metier/skills/hides/zz.lua", "return 'from a module'");
    for number in 0..600 {
        project = project.file(&format!(".metier/skills/hides/a/{number}.txt"), "decoy");
    }
    let mut terminal = Terminal::start(&mut project.command(&["trust"]));
    terminal.wait_for(KEYS);
    terminal.press("s");
    for shown in ["==== skill.md ====", "entrypoint: lib/run.lua", "from the entrypoint", "from a module"] {
        terminal.wait_for(shown);
    }
    terminal.wait_for(KEYS);
    terminal.press("d");
    for shown in ["digest    sha256:", "file      skill.md (", "file      and 104 more\n"] {
        terminal.wait_for(shown);
    }
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
}

/// A skill that is trusted may call what its digest counts, so that is shown too.
#[test]
fn the_files_of_the_skills_that_it_calls_are_shown() {
    let text = "---\nname: calls\ndescription: d\nallowed-tools: skill:reads\n---\n";
    let project = checkout()
        .file(".metier/skills/calls/SKILL.md", text)
        .file(".metier/skills/calls/scripts/main.lua", "return ctx.skill('reads')");
    let mut terminal = Terminal::start(&mut project.command(&["trust", ".metier/skills/calls"]));
    terminal.wait_for("calls     project/.metier:reads\n");
    terminal.wait_for(KEYS);
    terminal.press("s");
    terminal.wait_for("==== scripts/main.lua ====\n| return ctx.skill('reads')\n");
    terminal.wait_for("==== project/.metier:reads: scripts/main.lua ====\n| return 'read'\n");
    terminal.wait_for(KEYS);
    terminal.press("d");
    terminal.wait_for("file      project/.metier:reads: scripts/main.lua (13 bytes)\n");
    terminal.wait_for(KEYS);
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
}

#[test]
fn what_is_shown_is_the_skill_as_it_is_when_it_is_asked_about() {
    let project = checkout();
    let mut terminal = Terminal::start(&mut project.command(&["trust"]));
    terminal.wait_for(KEYS);
    let hostile = "---\nname: writes\ndescription: Another one.\nallowed-tools: write:.git\n---\n";
    let project = project.file(".metier/skills/writes/SKILL.md", hostile);
    terminal.press("n");
    terminal.wait_for("says      Another one.\n");
    terminal.wait_for("wants     write:.git (");
    terminal.wait_for(KEYS);
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
    drop(project);
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn always_that_cannot_be_recorded_is_for_this_run_and_never_for_other_files() {
    use std::os::unix::fs::PermissionsExt;
    for is_changed in [false, true] {
        let project =
            Project::new().shell("writes", "cat > /dev/null; echo written > a.txt && echo '\"done\"'");
        project.metier(&["trust", "--yes"]);
        let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
        terminal.wait_for("[a] always, until its files change  [n] no: ");
        let project = if is_changed {
            project.file(".metier/skills/writes/more.txt", "")
        } else {
            let store = walkdir::WalkDir::new(project.home())
                .into_iter()
                .map(|entry| entry.unwrap().into_path())
                .find(|path| path.ends_with("trust"))
                .unwrap();
            std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o777)).unwrap();
            project
        };
        terminal.press("a");
        let (code, screen) = terminal.finish();
        assert_eq!((code == 0, project.path("a.txt").exists()), (!is_changed, !is_changed), "{screen}");
        let consequence = if is_changed { "it is not run again" } else { "it is granted for this run only" };
        assert!(screen.contains(consequence) && !screen.contains("internal"), "{screen}");
    }
}

const AGAIN: &str = "Run it again with this permission? [y] yes, once  ";
const WRITING: &str = "#!/bin/sh\ncat > /dev/null; echo written > a.txt && echo '\"done\"'";
const EVIL: &str = "#!/bin/sh\ncat > /dev/null; echo evil > evil.txt && echo '\"evil\"'";

/// Whoever may write the script must not have other bytes run than those that asked: whatever the skill is trusted for.
#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_yes_after_a_denied_run_is_for_the_files_that_asked() {
    for trusted_as in ["nothing", "these files", "a folder", "the user's own"] {
        for key in ["y", "a"] {
            let project = Project::new();
            let folder = match trusted_as {
                "the user's own" => project.home().join(".agents/skills/writes"),
                _ => project.path(".metier/skills/writes"),
            };
            std::fs::create_dir_all(folder.join("scripts")).unwrap();
            std::fs::write(folder.join("SKILL.md"), "---\nname: writes\ndescription: d\n---\n").unwrap();
            let script = folder.join("scripts/main.sh");
            std::fs::write(&script, WRITING).unwrap();
            match trusted_as {
                "these files" => assert_eq!(project.metier(&["trust", "--yes"]).code, 0),
                "a folder" => assert_eq!(project.metier(&["trust", "--folder", "--yes"]).code, 0),
                _ => {}
            }
            let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
            terminal.wait_for(AGAIN);
            std::fs::write(&script, EVIL).unwrap();
            terminal.press(key);
            if (trusted_as, key) == ("nothing", "a") {
                // It is not an answer here, and two keys at once would be none either.
                std::thread::sleep(std::time::Duration::from_millis(300));
                terminal.press("n");
            }
            let (code, screen) = terminal.finish();
            assert!(code != 0 && !project.path("evil.txt").exists(), "{trusted_as}, {key}: {screen}");
            let listed = project.metier(&["allow", "--list", "--json"]).stdout;
            assert!(!listed.contains("write"), "{trusted_as}, {key}: {listed}");
            // With the files that asked, the same answers hold.
            std::fs::write(&script, WRITING).unwrap();
            let mut terminal = Terminal::start(&mut project.command(&["run", "writes"]));
            terminal.wait_for(AGAIN);
            terminal.press("y");
            let (code, screen) = terminal.finish();
            assert!(code == 0 && project.path("a.txt").exists(), "{trusted_as}: {screen}");
        }
    }
}

#[test]
fn the_folder_that_was_shown_is_the_one_that_is_trusted() {
    for way in ["a link", "a folder made again"] {
        let project = Project::new().file("a/x", "").file("b/x", "");
        let (named, shown) = (project.path("named"), project.path("a"));
        std::os::unix::fs::symlink(if way == "a link" { &shown } else { &named }, project.path("link"))
            .unwrap();
        if way != "a link" {
            std::fs::create_dir(&named).unwrap();
        }
        let mut terminal = Terminal::start(&mut project.command(&["trust", "--folder", "link"]));
        terminal.wait_for("Is it your own work? ");
        if way == "a link" {
            std::fs::remove_file(project.path("link")).unwrap();
            std::os::unix::fs::symlink(project.path("b"), project.path("link")).unwrap();
        } else {
            // The old one stays, so that the new one has another number.
            std::fs::rename(&named, project.path("old")).unwrap();
            std::fs::create_dir(&named).unwrap();
        }
        terminal.press("y");
        let (code, screen) = terminal.finish();
        let listed = project.metier(&["trust", "--list", "--json"]).json();
        let folders: Vec<&str> = listed["folders"]
            .as_array()
            .unwrap()
            .iter()
            .map(|folder| folder["folder"]["path"].as_str().unwrap())
            .collect();
        let expected = if way == "a link" { vec![shown.to_str().unwrap()] } else { vec![] };
        assert_eq!((code == 0, folders), (way == "a link", expected), "{way}: {screen}");
    }
}

#[test]
fn hostile_names_of_folders_cannot_forge_the_question_about_a_folder() {
    for name in ["a\u{1b}[2J\u{202e}b", "x\nIs it your own work? [y] yes, trust it  [n] no: y", "\u{9b}31m\r"]
    {
        let project = Project::new().file(&format!("{name}/x"), "");
        let mut terminal = Terminal::start(&mut project.command(&["trust", "--folder", name]));
        terminal.wait_for("\nIs it your own work? ");
        let screen = terminal.screen();
        for command in ["\u{1b}[2J", "\u{9b}", "\u{202e}", "\r"] {
            assert!(!screen.contains(command), "{screen:?}");
        }
        let asked = screen.lines().filter(|line| line.starts_with("Is it your own work?")).count();
        assert_eq!(asked, 1, "{screen}");
        terminal.press("n");
        assert_eq!(terminal.finish().0, 4);
    }
}

#[test]
fn the_files_of_a_skill_are_shown_in_the_pager_of_the_user() {
    let project = checkout();
    let mut command = project.command(&["trust", ".metier/skills/reads"]);
    command.env("PAGER", "sed s/^/paged:/");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for(KEYS);
    terminal.press("s");
    terminal.wait_for("paged:==== SKILL.md ====");
    terminal.wait_for("paged:| return 'read'");
    terminal.wait_for(KEYS);
    terminal.press("y");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(trust_of(&project, "reads"), "trusted");
}

/// A project whose skill `several` has no main script, one script of a shell and one in Lua.
fn several() -> Project {
    Project::new()
        .skill(".metier/skills/several")
        .file(
            ".metier/skills/several/scripts/a.sh",
            "cat > /dev/null; echo written > a.txt && echo '\"done\"'",
        )
        .file(".metier/skills/several/scripts/b.lua", "return 'b'")
}

#[test]
fn the_card_says_what_all_scripts_want_and_what_runs_them() {
    let tool = "tools: [{name: t, entrypoint: tools/t.sh}]\n";
    let tools_only = Project::new()
        .skill(".metier/skills/several")
        .file(".metier/skills/several/skill.yaml", tool)
        .file(".metier/skills/several/tools/t.sh", "true");
    let with_variable = Project::new()
        .file(
            ".metier/skills/several/SKILL.md",
            "---\nname: several\ndescription: d\nmetadata: {env: DEPLOY_REGION}\n---\n",
        )
        .file(".metier/skills/several/scripts/main.sh", "true");
    for (project, runs) in [
        (several(), "runs      scripts/a.sh in external, scripts/b.lua in lua\n"),
        (
            several().file(".metier/skills/several/scripts/main.lua", ""),
            "runs      in lua; scripts/a.sh in external",
        ),
        (tools_only, "runs      the tool t in external\n"),
        (with_variable, "runs      in external\n"),
    ] {
        let mut terminal = Terminal::start(&mut project.command(&["trust"]));
        terminal.wait_for("wants     whatever it is granted\n");
        terminal.wait_for(runs);
        terminal.wait_for(KEYS);
        terminal.press("n");
        assert_eq!(terminal.finish().0, 4);
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_script_of_several_is_run_again_and_remembered_as_the_only_one_is() {
    let project = several();
    project.metier(&["trust", "--yes"]);
    let mut terminal = Terminal::start(&mut project.command(&["run", "several", "--script", "a"]));
    terminal.wait_for(
        "Run it again with this permission? [y] yes, once  [a] always, until its files change  [n] no: ",
    );
    terminal.press("a");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(project.metier(&["run", "several", "--script", "a"]).code, 0);
    let (code, screen) = Terminal::start(&mut project.command(&["run", "several", "--script", "b"])).finish();
    assert!(code == 0 && !screen.contains("Run it again"), "{screen}");
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn what_the_scripts_of_a_skill_request_can_be_granted_to_it() {
    let project = several();
    project.metier(&["trust", "--yes"]);
    for permission in ["write", "net:example.com", "env:DEPLOY_REGION", "secret:KEY", "exec:unsandboxed"] {
        let allowed = project.metier(&["allow", "several", permission]);
        assert_eq!(allowed.code, 0, "{permission}: {allowed:?}");
        if permission == "write" {
            let run = project.metier(&["run", "several", "--script", "scripts/a.sh", "--json"]).json();
            assert_eq!(run["ok"], true, "{run}");
        }
    }
    // A skill that lists what it requests is held to that, and says where more would stand.
    let project = Project::new()
        .file(
            ".metier/skills/lists/SKILL.md",
            "---\nname: lists\ndescription: d\nallowed-tools: write:out\n---\n",
        )
        .file(".metier/skills/lists/scripts/a.sh", "true")
        .file(".metier/skills/lists/scripts/b.sh", "true");
    project.metier(&["trust", "--yes"]);
    assert_eq!(project.metier(&["allow", "lists", "write:out"]).code, 0);
    let refused = project.metier(&["allow", "lists", "net"]);
    assert_eq!(refused.code, 2);
    let help = "it requests read, write:out; to request more, list it under allowed-tools in SKILL.md, and trust the skill again";
    assert!(refused.stderr.contains(help), "{refused:?}");
}

/// What a stranger wrote has a margin, however a line of it ends, so that only metier's own headings are headings.
#[test]
fn no_text_of_a_file_looks_like_a_heading() {
    let forged = "==== scripts/main.sh ====";
    let mut text = "---\nname: evil\ndescription: d\n---\n".to_owned();
    for end in
        ["\n", "\r\n", "\r", "\n\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "\u{1b}E", "\t\n"]
    {
        text.extend(["before", end, forged, end, "echo harmless\n"]);
    }
    for fill in 70..=84 {
        text.extend([&*"x".repeat(fill), forged, "\n"]);
    }
    text.extend([&*"世".repeat(39), forged, "\n"]);
    let long_name = format!("{}{forged}", "n".repeat(75).replace('/', ""));
    let project = Project::new()
        .file(".metier/skills/evil/SKILL.md", text)
        .file(&format!(".metier/skills/evil/assets/{}", long_name.replace("scripts/", "")), "x")
        .file(".metier/skills/evil/scripts/main.sh", "#!/bin/sh\necho evil\n");
    let mut terminal = Terminal::start(&mut project.command(&["trust"]));
    terminal.wait_for(KEYS);
    terminal.press("s");
    terminal.wait_for("| echo evil\n");
    terminal.wait_for(KEYS);
    terminal.press("n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 4);
    let shown =
        &screen[screen.find("show its files\n====").unwrap()..screen.rfind("The skill evil").unwrap()];
    let headings: Vec<&str> = shown.lines().filter(|line| line.starts_with("====")).collect();
    assert_eq!(headings.len(), 3, "{headings:?}");
    assert_eq!(shown.lines().filter(|line| *line == forged).count(), 1, "{shown}");
    for line in shown.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("====")) {
        assert!(line.starts_with("| ") || line.starts_with(": "), "{line:?}");
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn no_number_of_permissions_hides_one_of_them() {
    for kind in ["net:h{}.example.com", "read:d/{}", "env:V{}", "tool:t{}"] {
        let many: Vec<String> = (0..400).map(|n| kind.replace("{}", &n.to_string())).collect();
        let text = format!(
            "---\nname: asks\ndescription: d\nallowed-tools: {} exec:unsandboxed\n---\n",
            many.join(" ")
        );
        let project = Project::new()
            .file(".metier/skills/asks/SKILL.md", text)
            .file(".metier/skills/asks/scripts/main.sh", "#!/bin/sh\n");
        let mut terminal = Terminal::start(&mut project.command(&["trust"]));
        terminal.wait_for("wants     exec:unsandboxed (start processes without a sandbox");
        terminal.wait_for("wants     400 permissions of the kind ");
        terminal.wait_for("press d to see all of it before you agree");
        terminal.wait_for(KEYS);
        let rows = terminal.screen().lines().count();
        assert!(rows <= 40, "all of the question is on one screen: {rows}");
        terminal.press("y");
        terminal.wait_for("press d to see all of it first\n");
        assert_eq!(trust_of(&project, "asks"), "untrusted");
        terminal.wait_for(KEYS);
        terminal.press("d");
        let last = kind.replace("{}", "399");
        while terminal.wait_for_one_of(&["[d] next page", "digest    sha256:"]) == 0 {
            terminal.press("d");
        }
        terminal.wait_for(KEYS);
        let shown = terminal.screen().replace("\n            | ", "").replace('\n', "");
        assert!(shown.contains(&last), "{kind}");
        terminal.press("y");
        assert_eq!(terminal.finish().0, 0);
        assert_eq!(trust_of(&project, "asks"), "trusted");
    }
}
