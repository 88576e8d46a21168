//! `--preview` and `--undoable`: a run works on a copy of the project, and what it changed is shown, stored, applied and undone.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use sha2::Digest as _;

use crate::support::cli::{Answer, Project};
use crate::support::file_states::file_states;
use crate::support::not_run::{find_program, not_run};
use crate::support::pseudo_terminal::Terminal;

/// The answer of a run in a copy; `None` where this machine has none.
fn preview(project: &Project, args: &[&str]) -> Option<Answer> {
    let answer = project.metier(args);
    if answer.stderr.contains("failed to run in a copy of the project") {
        not_run("a run in a copy of the project", answer.stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some(answer)
}

fn project() -> Project {
    Project::new()
        .file("docs/a.txt", "one\n")
        .file("b.txt", "two\n")
        .file("gone.txt", "gone\n")
        .file(".git/config", "[core]\n")
        .file(".env", "KEY=1\n")
}

const CHANGES: &str = "echo 1 > docs/a.txt; rm gone.txt; mkdir d; mv b.txt d/b.txt; echo new > n.txt; chmod 755 n.txt; \
                       echo x >> .git/config; cat .env; rm .env; ln -s n.txt link; cat docs/a.txt";

/// Each change as `kind path`.
fn kinds(changes: &Value) -> Vec<String> {
    let changes = changes["changes"].as_array().unwrap();
    let text = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    changes.iter().map(|change| format!("{} {}", text(change, "kind"), text(change, "path"))).collect()
}

#[test]
fn a_preview_changes_nothing_and_lists_what_it_would_change() {
    let project = project();
    let before = file_states(&project.path("."));
    let Some(answer) = preview(&project, &["exec", "--preview", "--json", "--", "sh", "-c", CHANGES]) else {
        return;
    };
    let outcome = answer.json();
    assert_eq!(outcome["value"], 1, "{answer:?}");
    assert_eq!(file_states(&project.path(".")), before);
    let changes = &outcome["changes"];
    let expected = [
        "created d",
        "renamed d/b.txt",
        "changed docs/a.txt",
        "deleted gone.txt",
        "created link",
        "created n.txt",
    ];
    assert_eq!(kinds(changes), expected, "{}", outcome["process"]["stderr"]);
    assert_eq!(changes["refused"], json!([]));
    assert_eq!(changes["is_stored"], false);
    let diffs = changes["diffs"].as_array().unwrap();
    assert!(diffs.contains(&json!({"path": "docs/a.txt", "diff": "@@ -1 +1 @@\n-one\n+1\n"})), "{diffs:?}");
    assert_eq!(project.metier(&["changes", "list", "--json"]).json(), json!([]));
    // Nothing is left of the copy.
    let folder = project.home().join(".local/share/metier/previews");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn the_changes_of_a_preview_are_stored_and_applied_later() {
    let project = project();
    let run = ["exec", "--preview", "--keep-changes", "--", "sh", "-c", CHANGES];
    let Some(answer) = preview(&project, &run) else { return };
    assert_eq!(answer.stdout, "1\n");
    for line in
        [" deleted   gone.txt  5 bytes", " renamed   b.txt => d/b.txt  4 bytes", "metier changes apply "]
    {
        assert!(answer.stderr.contains(line), "{line}: {}", answer.stderr);
    }
    assert!(project.path("gone.txt").exists());
    let id = project.metier(&["changes", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let applied = project.metier(&["changes", "apply", &id]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "1\n");
    assert_eq!(std::fs::read_to_string(project.path("d/b.txt")).unwrap(), "two\n");
    assert_eq!(std::fs::read_to_string(project.path(".env")).unwrap(), "KEY=1\n");
    assert_eq!(std::fs::read_to_string(project.path(".git/config")).unwrap(), "[core]\n");
    assert!(!project.path("gone.txt").exists() && !project.path("b.txt").exists());
}

#[test]
fn an_undoable_run_changes_the_project_and_is_undone() {
    let project = project();
    let before = project.tree();
    let without = ["exec", "--undoable", "--", "sh", "-c", "echo 1 > docs/a.txt"];
    let Some(answer) = preview(&project, &without) else { return };
    assert_ne!(answer.code, 0, "a grant is needed as ever: {answer:?}");
    assert_eq!(project.tree(), before);
    let run =
        ["exec", "--undoable", "--allow", "write", "--", "sh", "-c", "echo 1 > docs/a.txt; rm gone.txt"];
    let answer = project.metier(&run);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.stderr.contains("takes it back"), "{}", answer.stderr);
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "1\n");
    assert!(!project.path("gone.txt").exists());
    let undone = project.metier(&["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(project.tree(), before);
}

#[test]
fn the_steps_of_a_plan_see_the_same_copy_in_all_languages() {
    let head = |name: &str| {
        format!("---\nname: {name}\ndescription: d\nallowed-tools: read write skill:one skill:two\n---\n")
    };
    let steps = json!([
        {"id": "a", "skill": "one"},
        {"id": "b", "skill": "two"},
        {"id": "c", "tool": "read_file", "args": {"path": "d/x.txt"}},
    ]);
    let mut project = project()
        .file(".metier/skills/one/scripts/main.lua", "ctx.write('d/x.txt', ctx.read_file('docs/a.txt'))")
        .file(".metier/skills/two/scripts/main.sh", "cat d/x.txt; echo two >> d/x.txt")
        .file(".metier/skills/plan/scripts/sequence.json", steps.to_string());
    for name in ["one", "two", "plan"] {
        project = project.file(&format!(".metier/skills/{name}/SKILL.md"), head(name));
    }
    let before = file_states(&project.path("."));
    let run = ["run", "plan", "--preview", "--json", "--allow", "skill:one", "--allow", "skill:two"];
    let Some(answer) = preview(&project, &run) else { return };
    assert_eq!(answer.json()["value"], "one\ntwo\n", "{answer:?}");
    assert_eq!(kinds(&answer.json()["changes"]), ["created d", "created d/x.txt"]);
    assert_eq!(file_states(&project.path(".")), before);
}

#[test]
fn a_preview_reaches_neither_the_project_nor_its_own_folder() {
    let project = project();
    symlink("/etc", project.path("out")).unwrap();
    let before = file_states(&project.path("."));
    let data = project.home().join(".local/share/metier");
    let script = format!(
        "ls -A {0} {0}/previews; for f in /proc/*/fd/*; do echo x > $f/docs/a.txt; done; echo x > out/passwd-new; \
         echo x > ../beside; cat /proc/self/mountinfo | grep -c previews",
        data.display()
    );
    let run = ["exec", "--preview", "--json", "--allow", "home", "--", "bash", "-c", &script];
    let Some(answer) = preview(&project, &run) else { return };
    let outcome = answer.json();
    assert_eq!(outcome["process"]["stdout"].as_str().unwrap().trim(), "0", "{outcome}");
    assert_eq!(kinds(&outcome["changes"]), [""; 0]);
    assert_eq!(file_states(&project.path(".")), before);
}

#[test]
fn a_person_chooses_changes_one_by_one() {
    let project = project();
    let script = "echo 1 > docs/a.txt; mkdir new; echo 2 > new/b.txt; rm gone.txt";
    if preview(&project, &["exec", "--preview", "--", "sh", "-c", "true"]).is_none() {
        return;
    }
    let before = project.read("docs/a.txt");
    let mut terminal =
        Terminal::start(&mut project.command(&["exec", "--preview", "--", "sh", "-c", script]));
    terminal.wait_for("changed   docs/a.txt (4 -> 2 bytes)\n");
    terminal.wait_for("Apply them to the project? [a] apply them  [o] choose one by one  [k] store them  [l] show the lines  [n] no: ");
    terminal.press("o");
    for (path, key) in
        [("changed   docs/a.txt ", "n"), ("deleted   gone.txt ", "a"), ("created   new/b.txt ", "a")]
    {
        terminal.wait_for(path);
        terminal.wait_for("Apply it to the project? [a] apply it  [n] no: ");
        terminal.press(key);
    }
    let (code, screen) = terminal.finish();
    assert!(code == 0 && screen.contains("the others are stored"), "{screen}");
    assert_eq!((project.read("docs/a.txt"), project.read("new/b.txt")), (before, "2\n".into()), "{screen}");
    assert!(!project.path("gone.txt").exists());
}

#[test]
fn what_a_killed_preview_left_is_removed_by_the_next() {
    let project = project();
    let folder = project.home().join(".local/share/metier/previews/run-dead");
    std::fs::create_dir_all(folder.join("upper")).unwrap();
    std::fs::write(folder.join("lock"), "").unwrap();
    for parent in [folder.parent().unwrap(), &project.home().join(".local/share/metier")] {
        std::fs::set_permissions(parent, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    let Some(answer) = preview(&project, &["exec", "--preview", "--", "true"]) else { return };
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!folder.exists());
}

#[test]
fn a_script_without_a_sandbox_does_not_run_in_a_copy() {
    let project = project();
    for option in [["--sandbox", "off"], ["--allow", "exec:unsandboxed"]] {
        let run =
            [&["exec", "--preview"][..], &option[..], &["--", "sh", "-c", "echo 1 > docs/a.txt"]].concat();
        let Some(answer) = preview(&project, &run) else { return };
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(
            answer.stderr.contains("on a copy of the project, which it could leave"),
            "{}",
            answer.stderr
        );
        assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "one\n");
    }
}

#[test]
fn a_copy_counts_as_the_project_for_trust_and_grants() {
    let project =
        project().skill(".metier/skills/wr").file(".metier/skills/wr/scripts/main.sh", "echo 1 > docs/a.txt");
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(project.metier(&["allow", "wr", "write"]).code, 0);
    let Some(answer) = preview(&project, &["run", "wr", "--undoable"]) else { return };
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "1\n");
    let for_model = project.metier(&["run", "wr", "--preview", "--for-model"]);
    assert_eq!(for_model.code, 0, "{for_model:?}");
}

#[test]
fn undo_takes_back_what_was_applied_last() {
    let project = project();
    for name in ["u1", "u2", "u3", "u4"] {
        let run = ["exec", "--undoable", "--allow", "write", "--", "sh", "-c", &format!("echo x > {name}")];
        if preview(&project, &run).is_none() {
            return;
        }
    }
    for name in ["u4", "u3", "u2"] {
        assert!(project.path(name).exists());
        assert_eq!(project.metier(&["undo"]).code, 0);
        assert!(!project.path(name).exists(), "{name}");
    }
    assert!(project.path("u1").exists());
}

#[test]
fn a_project_that_holds_the_data_folder_has_no_copy() {
    let project = project();
    let data = project.path("data");
    let mut command = project.command(&["exec", "--preview", "--", "sh", "-c", "echo 1 > docs/a.txt"]);
    let answer: Answer = command.env("METIER_DATA_DIR", &data).output().unwrap().into();
    assert_ne!(answer.code, 0, "{answer:?}");
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "one\n");
}

/// A worker goes on after its run has answered.
#[test]
fn a_worker_changes_nothing_of_a_copy_that_was_read() {
    if find_program("python3").is_none() {
        not_run("a worker in a copy", "python3 is not installed");
        return;
    }
    let script = "
from metier import serve
import os, threading
file = open('payload', 'w'); file.write('good'); file.flush()
def later():
    for n in range(10**9): os.pwrite(file.fileno(), b'%010d' % n, 0)
def run(input):
    threading.Thread(target=later, daemon=True).start()
    return {'ok': 1}
serve(run)
";
    let project = project()
        .file(
            ".metier/skills/wk/SKILL.md",
            "---\nname: wk\ndescription: d\nmetadata: {worker: json-lines}\n---\n",
        )
        .file(".metier/skills/wk/scripts/main.py", script);
    let Some(answer) = preview(&project, &["run", "wk", "--preview", "--keep-changes", "--json"]) else {
        return;
    };
    let outcome = answer.json();
    let shown = outcome["changes"]["changes"][0]["after"]["digest"].clone();
    let id = project.metier(&["changes", "list", "--json"]).json()[0]["id"].as_str().map(str::to_owned);
    let Some(id) = id else { panic!("{answer:?}") };
    assert_eq!(project.metier(&["changes", "apply", &id]).code, 0);
    let digest = sha2::Sha256::digest(std::fs::read(project.path("payload")).unwrap());
    let applied = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!(shown, json!(applied), "what was shown is what was applied");
}

/// The answer where no namespace can be made: nobody in a user namespace may make no other.
fn without_namespaces(project: &Project, args: &[&str]) -> Option<Answer> {
    let metier = project.command(args);
    let mut command = std::process::Command::new("unshare");
    command.arg("--user").arg(metier.get_program()).args(metier.get_args());
    for (name, value) in metier.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(project.path(".")).stdin(std::process::Stdio::null());
    let is_possible = std::process::Command::new("unshare").args(["--user", "true"]).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        not_run("a machine without namespaces", "unshare cannot make a user namespace here");
        return None;
    }
    Some(command.output().unwrap().into())
}

#[test]
fn without_namespaces_a_preview_of_a_process_is_refused_and_that_of_other_languages_runs() {
    let lua = "ctx.write('docs/a.txt', 'new\\n') ctx.remove('gone.txt') return ctx.read_file('docs/a.txt')";
    let mixed =
        "ctx.write('n.txt', 'x') local ok, why = pcall(ctx.skill, 'sh', nil) return {ok, tostring(why)}";
    let skill =
        |name: &str, tools: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: {tools}\n---\n");
    let project = project()
        .file(".metier/skills/lua/SKILL.md", skill("lua", "read write"))
        .file(".metier/skills/lua/scripts/main.lua", lua)
        .file(".metier/skills/mixed/SKILL.md", skill("mixed", "read write skill:sh"))
        .file(".metier/skills/mixed/scripts/main.lua", mixed)
        .file(".metier/skills/sh/SKILL.md", skill("sh", "read"))
        .file(".metier/skills/sh/scripts/main.sh", "#!/bin/sh\necho x > by-sh.txt");
    let before = file_states(&project.path("."));
    let Some(answer) = without_namespaces(&project, &["run", "lua", "--preview", "--json"]) else { return };
    let outcome = answer.json();
    assert_eq!((answer.code, &outcome["value"]), (0, &json!("new\n")), "{answer:?}");
    assert_eq!(kinds(&outcome["changes"]), ["changed docs/a.txt", "deleted gone.txt"]);
    // A process that such a script calls does not start.
    let answer =
        without_namespaces(&project, &["run", "mixed", "--preview", "--json", "--allow", "skill:sh"])
            .unwrap();
    let outcome = answer.json();
    assert_eq!(outcome["value"][0], false, "{answer:?}");
    let sentence = "failed to run in a copy of the project: an overlay needs namespaces";
    assert!(outcome["value"][1].as_str().unwrap().contains(sentence), "{answer:?}");
    assert_eq!(kinds(&outcome["changes"]), ["created n.txt"]);
    for args in
        [&["run", "sh", "--preview"][..], &["run", "sh", "--undoable"], &["exec", "--preview", "--", "true"]]
    {
        let answer = without_namespaces(&project, args).unwrap();
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(
            answer.stderr.contains(sentence) && !answer.stderr.contains("made these changes"),
            "{answer:?}"
        );
    }
    assert_eq!(file_states(&project.path(".")), before, "the project was changed");
    let folder = project.home().join(".local/share/metier/previews");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "something is left of a copy");
    let answer = without_namespaces(&project, &["run", "lua", "--undoable", "--allow", "write"]).unwrap();
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!project.path("gone.txt").exists());
    assert_eq!(without_namespaces(&project, &["undo"]).unwrap().code, 0);
    assert_eq!(std::fs::read_to_string(project.path("gone.txt")).unwrap(), "gone\n");
    assert_eq!(std::fs::read_to_string(project.path("docs/a.txt")).unwrap(), "one\n");
}

/// A skill that writes a secret into a file, which it names after it as well.
const WRITES_SECRET: &str = "local key = ctx.secret('TOKEN')
    ctx.write('docs/a.txt', 'one\\nthe key is ' .. key .. '\\n') ctx.write('docs/' .. key .. '.txt', 'x\\n') return 1";
const SECRET: &str = "sesame-sesame-1234";

fn project_with_secret() -> Project {
    let front = "---\nname: x\ndescription: d\nallowed-tools: write secret:TOKEN\n---\n";
    project()
        .file(".metier/skills/x/SKILL.md", front)
        .file(".metier/skills/x/scripts/main.lua", WRITES_SECRET)
}

const WITH_SECRET: [&str; 5] = ["run", "x", "--preview", "--secret", "TOKEN"];

#[test]
fn what_a_preview_prints_has_no_secret_of_the_run() {
    let project = project_with_secret();
    if preview(&project, &["exec", "--preview", "--", "true"]).is_none() {
        return;
    }
    let run = |args: &[&str]| {
        let mut command = project.command(&[&WITH_SECRET[..], args].concat());
        let output = command.env("TOKEN", SECRET).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (stdout, stderr) = run(&["--json"]);
    assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET), "{stdout}{stderr}");
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
    let paths: Vec<&str> = outcome["changes"]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths.contains(&"docs/[secret:TOKEN].txt"), "{paths:?}");
    let diffs = outcome["changes"]["diffs"].to_string();
    assert!(diffs.contains("the key is [secret:TOKEN]"), "{diffs}");
    let (stdout, stderr) = run(&[]);
    assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET), "{stdout}{stderr}");
    assert!(stderr.contains(" created   docs/[secret:TOKEN].txt"), "{stderr}");
    let undoable = ["run", "x", "--undoable", "--json", "--secret", "TOKEN", "--allow", "write"];
    let output = project_with_secret().command(&undoable).env("TOKEN", SECRET).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"applied\"") && text.contains("docs/[secret:TOKEN].txt"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    // What is stored is what the run made.
    let (_, stderr) = run(&["--keep-changes"]);
    let id = stderr.split("stored as ").nth(1).unwrap().split(':').next().unwrap();
    assert_eq!(project.metier(&["changes", "apply", id]).code, 0);
    assert_eq!(project.read("docs/a.txt"), format!("one\nthe key is {SECRET}\n"));
}

#[test]
fn a_secret_that_is_a_word_of_change_sets_leaves_them_readable() {
    for word in ["created", "changed", "symlink", "changes", "identity"] {
        let project = project_with_secret();
        if preview(&project, &["exec", "--preview", "--", "true"]).is_none() {
            return;
        }
        for args in [&["--json"][..], &[]] {
            let mut command = project.command(&[&WITH_SECRET[..], args].concat());
            let answer: Answer = command.env("TOKEN", word).output().unwrap().into();
            assert_eq!(answer.code, 0, "{word} {args:?}: {answer:?}");
            let shown = if args.is_empty() { &answer.stderr } else { &answer.stdout };
            assert!(shown.contains("docs/[secret:TOKEN].txt"), "{word} {args:?}: {answer:?}");
            if !args.is_empty() {
                let outcome: Value = serde_json::from_str(shown).unwrap();
                let changes = outcome["changes"]["changes"].as_array().unwrap();
                let mut kinds: Vec<&str> =
                    changes.iter().map(|change| change["kind"].as_str().unwrap()).collect();
                kinds.sort_unstable();
                assert_eq!(kinds, ["changed", "created"], "{word}: {shown}");
            }
        }
    }
}

#[test]
fn the_question_about_a_preview_has_no_secret_and_applies_what_was_made() {
    let project = project_with_secret();
    if preview(&project, &["exec", "--preview", "--", "true"]).is_none() {
        return;
    }
    let mut terminal = Terminal::start(project.command(&WITH_SECRET).env("TOKEN", SECRET));
    terminal.wait_for("docs/[secret:TOKEN].txt");
    terminal.wait_for("[l] show the lines");
    terminal.press("l");
    terminal.wait_for("the key is [secret:TOKEN]");
    terminal.wait_for("[l] show the lines");
    terminal.press("o");
    for _ in 0..2 {
        terminal.wait_for("Apply it to the project? [a] apply it  [n] no: ");
        terminal.press("a");
    }
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    let asked = screen.split("applied 2 paths").next().unwrap();
    assert!(!asked.contains(SECRET), "{screen}");
    assert_eq!(project.read("docs/a.txt"), format!("one\nthe key is {SECRET}\n"));
    assert_eq!(project.read(&format!("docs/{SECRET}.txt")), "x\n");
}
