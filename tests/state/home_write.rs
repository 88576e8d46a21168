//! What a run may change in the user's home folder: the permission `home-write:PATH`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::state::{LEVELS, metier_at};
use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

/// Adds a line to each file of its home that its arguments name, after the folders of it were made.
const ADD: &str =
    "for f; do mkdir -p \"$HOME/${f%/*}\"; { echo line >> \"$HOME/$f\"; } 2>/dev/null || echo refused; done";

fn project() -> Project {
    let project = Project::new().shell("add", ADD);
    write(&project.home().join(".app/data/log"), "old\n");
    write(&project.home().join(".app/settings"), "old\n");
    write(&project.home().join(".other"), "old\n");
    project
}

fn add(project: &Project, level: &str, grants: &[&str], files: &[&str]) -> Answer {
    let grants: Vec<&str> = grants.iter().flat_map(|grant| ["--allow", grant]).collect();
    metier_at(project, level, &[&["run", "add"], &grants[..], &["--"], files].concat())
}

fn text(project: &Project, path: &str) -> String {
    fs::read_to_string(project.home().join(path)).unwrap_or_default()
}

#[test]
fn a_granted_path_is_changed_and_nothing_beside_it() {
    for level in LEVELS {
        let project = project();
        let files = [".app/data/log", ".app/data/new/log", ".app/settings"];
        let answer = add(&project, level, &["home-write:.app/data", "home:.app/settings"], &files);
        assert_eq!((answer.code, answer.stdout.as_str()), (0, "refused\n"), "{level} {answer:?}");
        assert_eq!(text(&project, ".app/data/log"), "old\nline\n", "{level}");
        assert_eq!(text(&project, ".app/data/new/log"), "line\n", "{level}");
        assert_eq!(text(&project, ".app/settings"), "old\n", "{level}");
        // A file alone, and a folder that holds another grant.
        let answer =
            add(&project, level, &["home-write:.other", "home:.app", "home-write:.app/data"], &files);
        assert_eq!(answer.stdout, "refused\n", "{level} {answer:?}");
        add(&project, level, &["home-write:.other"], &[".other"]);
        assert_eq!(text(&project, ".other"), "old\nline\n", "{level}");
        assert_eq!(text(&project, ".app/data/log"), "old\nline\nline\n", "{level}");
        // Without it, the same path of its own home is another one.
        add(&project, level, &[], &[".app/data/log"]);
        assert_eq!(text(&project, ".app/data/log"), "old\nline\nline\n", "{level}");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_made_and_a_file_is_refused_before_the_run() {
    for level in LEVELS {
        let project = project();
        let answer = add(&project, level, &["home-write:.new/deep"], &[".new/deep/log"]);
        assert_eq!(
            (answer.code, text(&project, ".new/deep/log").as_str()),
            (0, "line\n"),
            "{level} {answer:?}"
        );
        let refused = add(&project, level, &["home-write:.app/new.json"], &[".app/new.json"]);
        assert!(refused.code != 0 && refused.stderr.contains("it does not exist"), "{level} {refused:?}");
        assert!(refused.stderr.contains("grant the folder in which"), "{level} {refused:?}");
        assert!(!project.home().join(".app/new.json").exists());
        // Nothing is made where the grant is refused for another reason.
        symlink(project.home().join(".app"), project.home().join("link")).unwrap();
        write(&project.home().join("work/.git/config"), "");
        for grant in
            ["home-write:link/new", "home-write:.ssh/new", "home-write:.local/bin/new", "home-write:work/new"]
        {
            let refused = add(&project, level, &[grant], &[".x"]);
            assert!(refused.code != 0 && refused.stderr.contains("cannot be granted"), "{grant} {refused:?}");
        }
        for path in [".app/new", ".ssh", ".local/bin", "work/new"] {
            assert!(!project.home().join(path).exists(), "{path}");
        }
    }
}

#[test]
fn what_programs_run_by_themselves_is_refused_and_so_is_what_holds_it() {
    let project = project();
    let home = project.home();
    write(&home.join(".repo/deep/.git/config"), "");
    write(&home.join(".bare/HEAD"), "");
    write(&home.join(".bare/objects/x"), "");
    write(&home.join(".bare/refs/x"), "");
    write(&home.join(".obeyed/a/AGENTS.md"), "");
    symlink("/etc", home.join("etc")).unwrap();
    for level in LEVELS {
        for (grant, reason) in [
            ("home-write:.bashrc", "run or obey ~/.bashrc"),
            ("home-write:.config", "has rules of its own"),
            ("home-write:.config/systemd/user", "run or obey ~/.config/systemd"),
            ("home-write:.claude", "run or obey ~/.claude/"),
            ("home-write:.claude/settings.json", "run or obey ~/.claude/settings.json"),
            ("home-write:.ssh/known_hosts", "run or obey ~/.ssh/known_hosts"),
            ("home-write:bin", "run or obey ~/bin"),
            ("home-write:.repo", "run or obey ~/.repo/deep/.git"),
            ("home-write:.repo/deep", "run or obey ~/.repo/deep/.git"),
            ("home-write:.repo/deep/.git", "run or obey ~/.repo/deep/.git"),
            ("home-write:.bare", "run or obey ~/.bare/HEAD"),
            ("home-write:.obeyed", "run or obey ~/.obeyed/a/AGENTS.md"),
            ("home-write:.local", "has rules of its own"),
            ("home-write:etc", "a link leads from there to /etc"),
        ] {
            let answer = add(&project, level, &[grant], &[".x"]);
            assert!(answer.code != 0 && answer.stderr.contains(reason), "{level} {grant} {answer:?}");
        }
        let answer = add(&project, level, &["home-write:.claude/app"], &[".claude/app/log"]);
        assert_eq!(answer.code, 0, "{level} {answer:?}");
    }
    assert_eq!(text(&project, ".claude/app/log"), "line\nline\n");
    for grant in ["home-write", "home-write:", "home-write:.", "home-write:~/", "home-write:/etc"] {
        let answer = add(&project, "namespaces", &[grant], &[]);
        assert!(answer.stderr.contains("write home-write:PATH"), "{grant} {answer:?}");
    }
}

#[test]
fn what_a_script_makes_that_programs_run_is_quarantined() {
    let makes = "cd \"$HOME/.app\" && mkdir -p .git/hooks data/.git data/bare/objects data/bare/refs data/.vscode && \
                 echo x | tee .git/config data/.git/HEAD data/bare/HEAD data/.envrc data/CLAUDE.md data/.vscode/tasks.json data/kept >/dev/null";
    for level in LEVELS {
        let project = project().shell("make", makes);
        let answer = metier_at(&project, level, &["run", "make", "--allow", "home-write:.app"]);
        assert_eq!(answer.code, 0, "{level} {answer:?}");
        for path in [".git", "data/.git", "data/bare/HEAD", "data/.envrc", "data/CLAUDE.md", "data/.vscode"] {
            let told = format!(
                "~/.app/{path} appeared while scripts/main.sh ran, made by it or by another program; it was renamed to ~/.app/{path}.quarantine-"
            );
            assert!(answer.stderr.contains(&told), "{level} {path} {answer:?}");
            assert!(!project.home().join(".app").join(path).exists(), "{level} {path}");
        }
        assert_eq!(text(&project, ".app/data/kept"), "x\n", "{level}");
        let again = add(&project, level, &["home-write:.app"], &[".app/data/log"]);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{level} {again:?}");
    }
}

#[test]
fn a_granted_file_that_a_script_replaces_is_reported_with_the_grant_of_its_folder() {
    let replaces = "cd \"$HOME/.app\" && echo new > settings.tmp && mv settings.tmp settings";
    for level in LEVELS {
        let project = project().shell("replace", replaces);
        for grant in ["home-write:.app/settings", "home:.app/settings"] {
            let told = metier_at(&project, level, &["run", "replace", "--allow", grant]);
            let sentence = match told.code {
                0 => "the script replaced ~/.app/settings by a new file",
                _ => "no new file can replace ~/.app/settings",
            };
            assert!(told.stderr.contains(sentence), "{level} {told:?}");
            assert!(told.stderr.contains("run with --allow home-write:.app\n"), "{level} {told:?}");
            assert_eq!(text(&project, ".app/settings"), "old\n", "{level}");
        }
        let answer = metier_at(&project, level, &["run", "replace", "--allow", "home-write:.app"]);
        assert_eq!(
            (answer.stderr.as_str(), text(&project, ".app/settings").as_str()),
            ("", "new\n"),
            "{level}"
        );
    }
}

#[test]
fn nothing_outside_of_a_grant_is_renamed_whatever_a_script_puts_on_its_path() {
    // The inner grant is moved away, and a link to the home of the user takes its place.
    const SWAP: &str =
        "cd \"$(readlink -f \"$HOME/.app\")\" && mv x y && ln -s ../.. x && touch y/NAME/.envrc";
    for level in LEVELS {
        let project = project();
        let name = project.home().file_name().unwrap().to_str().unwrap().to_owned();
        let project = project.shell("swap", &SWAP.replace("NAME", &name));
        for path in [".bashrc", ".app/data/kept", ".claude/settings.json"] {
            write(&project.home().join(path), "");
        }
        fs::create_dir_all(project.home().join(".app/x").join(&name)).unwrap();
        let inner = format!("home-write:.app/x/{name}");
        let args = ["run", "swap", "--allow", "home-write:.app", "--allow", &inner];
        let answer = metier_at(&project, level, &args);
        for path in [".bashrc", ".app/data/kept", ".claude/settings.json"] {
            assert!(project.home().join(path).exists(), "{level} {path} {answer:?}");
        }
        assert!(!project.home().join(".app/y").join(&name).join(".envrc").exists(), "{level} {answer:?}");
        assert!(answer.stderr.contains("appeared while"), "{level} {answer:?}");
    }
}

#[test]
fn a_folder_below_a_skill_or_a_repository_is_refused_and_skills_that_appear_are_moved() {
    let makes = "mkdir -p \"$HOME/.app/skills\" \"$HOME/.app/.agents/skills\"; echo x > \"$HOME/.app/skills/x.sh\"; exit 3";
    for level in LEVELS {
        let project = project().shell("make", makes);
        for path in [".lib/dep/SKILL.md", "bare/HEAD", "bare/objects/x", "bare/refs/x", "work/.git/config"] {
            write(&project.home().join(path), "");
        }
        for folder in [".lib/dep/scripts", "bare/hooks", "work/src"] {
            fs::create_dir_all(project.home().join(folder)).unwrap();
            let refused = add(&project, level, &[&format!("home-write:{folder}")], &[".x"]);
            assert!(
                refused.code != 0 && refused.stderr.contains("run or obey"),
                "{level} {folder} {refused:?}"
            );
        }
        let mut command = project.command(&["run", "add", "--allow", "home-write:md/skills", "--", ".x"]);
        command.env("METIER_SANDBOX_LEVEL", level).env("METIER_DATA_DIR", project.home().join("md"));
        let data: Answer = command.output().unwrap().into();
        assert!(data.code != 0 && data.stderr.contains("has rules of its own"), "{level} {data:?}");
        // A run that failed tells what it left, too.
        let failed = metier_at(&project, level, &["run", "make", "--allow", "home-write:.app"]);
        assert!(failed.code != 0, "{failed:?}");
        for path in ["skills", ".agents"] {
            assert!(
                failed.stderr.contains(&format!("~/.app/{path} appeared while")),
                "{level} {path} {failed:?}"
            );
            assert!(!project.home().join(".app").join(path).exists(), "{level} {path}");
        }
    }
}

#[test]
fn what_was_quarantined_is_no_repository_and_closes_no_folder() {
    if find_program("git").is_none() {
        return not_run("a repository in a folder of the home", "git is not installed");
    }
    let makes = "cd \"$HOME/.app\" && git init -q r && mkdir -p .idea && git init -q .idea && chmod 0 r";
    for level in LEVELS {
        let project = project().shell("make", makes);
        let made = metier_at(&project, level, &["run", "make", "--allow", "home-write:.app"]);
        assert_eq!(made.code, 0, "{level} {made:?}");
        for path in ["r/.git", ".idea", ".idea/.git"] {
            assert!(
                made.stderr.contains(&format!("~/.app/{path} appeared while")),
                "{level} {path} {made:?}"
            );
        }
        let repositories = std::process::Command::new("find")
            .arg(project.home().join(".app"))
            .args(["-name", "HEAD", "-o", "-name", ".git"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&repositories.stdout), "", "{level}");
        let again = add(&project, level, &["home-write:.app"], &[".app/data/log"]);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{level} {again:?}");
        // Nothing is made where nothing runs.
        metier_at(&project, level, &["run", "add", "--explain", "--allow", "home-write:.explained"]);
        assert!(!project.home().join(".explained").exists(), "{level}");
    }
}

#[test]
fn no_link_and_no_hard_link_leads_out_of_what_is_granted() {
    let escapes = "cd \"$HOME/.app\" && ln -s ../.other link && ln -s /etc/passwd abs; \
                   for f in link abs ../.other; do { echo x >> $f; } 2>/dev/null && echo \"wrote $f\"; done; \
                   real=$(readlink -f \"$HOME/.app\"); { echo x >> \"$real/../.other\"; } 2>/dev/null && echo wrote; \
                   ln \"$real/../.other\" hard 2>/dev/null && echo linked; mv \"$real\" \"$real.old\" 2>/dev/null && echo moved; true";
    for level in LEVELS {
        let project = project().shell("escape", escapes);
        let answer = metier_at(&project, level, &["run", "escape", "--allow", "home-write:.app"]);
        let is_private = |line: &str| level == "namespaces" && line.starts_with("wrote");
        // In its own `/tmp` everything around the granted folder is its own, and no other program reads it.
        let out: Vec<&str> =
            answer.stdout.lines().filter(|line| !line.is_empty() && !is_private(line)).collect();
        assert_eq!(out, [""; 0], "{level} {answer:?}");
        assert_eq!(text(&project, ".other"), "old\n", "{level}");
        assert_eq!(text(&project, ".app/settings"), "old\n", "{level}");
    }
}

#[test]
fn only_a_skill_that_requests_it_changes_anything_and_nobody_what_is_denied() {
    let skill = "---\nname: add\ndescription: Adds.\nallowed-tools: home:.app write:out\n---\n";
    for level in LEVELS {
        let project = project().file(".metier/skills/add/SKILL.md", skill);
        let answer = add(&project, level, &["home-write:.app"], &[".app/data/log"]);
        assert_eq!(answer.stdout, "refused\n", "{level} {answer:?}");
        assert_eq!(text(&project, ".app/data/log"), "old\n", "{level}");
        for (denied, told) in
            [("home:.app/data", true), ("home-write:.app/data", true), ("home-write", false)]
        {
            let project = self::project();
            let config = format!("[permissions]\ndeny = [\"{denied}\"]\n");
            write(&project.home().join(".config/metier/config.toml"), &config);
            let answer = add(&project, level, &["home-write:.app"], &[".app/data/log"]);
            let reason = format!("~/.app cannot be granted: the configuration denies {denied}");
            assert_eq!(answer.stderr.contains(&reason), told, "{level} {denied} {answer:?}");
            assert_eq!(text(&project, ".app/data/log"), "old\n", "{level} {denied} {answer:?}");
        }
    }
}

#[test]
fn a_worker_changes_what_its_run_is_granted() {
    if find_program("python3").is_none() {
        return not_run("a worker that changes files of the home", "python3 is not installed");
    }
    let skill = "---\nname: add\ndescription: Adds.\nmetadata:\n  worker: json-lines\n---\n";
    let script = "from metier import serve\nimport pathlib\n\
                  def add(path):\n    file = pathlib.Path.home() / path\n    file.parent.mkdir(parents=True, exist_ok=True)\n    \
                  with file.open('a') as f:\n        f.write('line\\n')\n    (file.parent / '.envrc').write_text('x')\n    return file.read_text()\n\
                  serve(add)\n";
    for level in LEVELS {
        let project = Project::new()
            .file(".metier/skills/add/SKILL.md", skill)
            .file(".metier/skills/add/scripts/main.py", script);
        write(&project.home().join(".other"), "");
        let args = ["run", "add", "--json", "--input", "\".app/log\"", "--allow", "home-write:.app"];
        let answers = [metier_at(&project, level, &args), metier_at(&project, level, &args)];
        assert_eq!(answers[1].json()["value"], "line\nline\n", "{level} {answers:?}");
        assert!(!project.home().join(".app/.envrc").exists(), "{level} {answers:?}");
    }
}

#[test]
fn no_link_of_the_user_makes_a_folder_of_skills_or_settings_grantable() {
    for level in LEVELS {
        let project = project();
        let home = project.home();
        for path in ["disk/local/share/x", "Sync/bashrc", "Sync/ssh/authorized_keys", "mine/x", "data/x"] {
            write(&home.join(path), "");
        }
        symlink("disk/local", home.join(".local")).unwrap();
        symlink("Sync/bashrc", home.join(".bashrc")).unwrap();
        symlink("Sync/ssh", home.join(".ssh")).unwrap();
        symlink("data", home.join("linked-data")).unwrap();
        write(&home.join(".config/metier/config.toml"), "roots = [\"~/mine\"]\n");
        for (grant, reason) in [
            ("home-write:disk/local/share/metier/skills", "has rules of its own"),
            ("home-write:disk", "has rules of its own"),
            ("home-write:Sync", "run or obey ~/"),
            ("home-write:Sync/ssh", "run or obey ~/"),
            ("home-write:mine", "has rules of its own"),
            ("home-write:mine/x/scripts", "has rules of its own"),
            ("home-write:data/skills", "has rules of its own"),
        ] {
            let mut command = project.command(&["run", "add", "--allow", grant, "--", ".x"]);
            command.env("METIER_SANDBOX_LEVEL", level).env("METIER_DATA_DIR", home.join("linked-data"));
            let answer: Answer = command.output().unwrap().into();
            assert!(answer.code != 0 && answer.stderr.contains(reason), "{level} {grant} {answer:?}");
        }
    }
}

#[test]
fn no_mode_of_a_folder_hides_what_is_in_it() {
    let makes = "cd \"$(readlink -f \"$HOME/.app\")\" && mkdir -p a/b/.git c/d && touch .envrc a/b/.envrc c/d/.envrc && \
                 chmod 600 a && chmod 300 c/d && chmod 0 c && chmod 400 .";
    for level in LEVELS {
        let project = project().shell("make", makes);
        let answer = metier_at(&project, level, &["run", "make", "--allow", "home-write:.app"]);
        assert_eq!(answer.code, 0, "{level} {answer:?}");
        for path in [".envrc", "a/b/.envrc", "a/b/.git", "c/d/.envrc"] {
            assert!(
                answer.stderr.contains(&format!("~/.app/{path} appeared while")),
                "{level} {path} {answer:?}"
            );
            assert!(!project.home().join(".app").join(path).exists(), "{level} {path}");
        }
        let again = add(&project, level, &["home-write:.app"], &[".app/data/log"]);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{level} {again:?}");
    }
}

#[test]
fn a_link_in_the_home_opens_nothing_of_where_it_leads() {
    for level in LEVELS {
        let project = project().file(".git/hooks/own", "").file(".vscode/sub/own", "").file("src/own", "");
        let home = project.home();
        for path in [".config/autostart/own", ".ssh/own", ".claude/settings.json", ".bashrc"] {
            write(&home.join(path), "");
        }
        symlink(project.path(".git/hooks"), home.join("hooks")).unwrap();
        symlink(project.path(".vscode/sub"), home.join(".app/sub")).unwrap();
        symlink(project.path("src"), home.join("src")).unwrap();
        symlink(".config/autostart", home.join("start")).unwrap();
        symlink("start", home.join("twice")).unwrap();
        symlink(".ssh", home.join("keys")).unwrap();
        symlink("../.claude", home.join(".app/agent")).unwrap();
        symlink(".bashrc", home.join("shell")).unwrap();
        let before = (project.tree(), text(&project, ".bashrc"));
        for path in [
            "hooks",
            ".app/sub",
            "src",
            "start",
            "twice",
            "keys",
            ".app/agent",
            "shell",
            "hooks/new",
            "start/new",
        ] {
            for kind in ["home-write", "home"] {
                let grant = format!("{kind}:{path}");
                let file = format!("{path}/new");
                let answer = add(&project, level, &[&grant], &[path, &file]);
                assert!(
                    answer.code != 0 && answer.stderr.contains("a link leads from there"),
                    "{grant} {answer:?}"
                );
                assert_eq!((project.tree(), text(&project, ".bashrc")), before, "{level} {grant}");
            }
        }
    }
}
