//! What a run may read of the user's home folder: the permission `home:PATH`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::state::{LEVELS, metier_at, only_state};
use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

/// Shows the files of its home that its arguments name, and tries to change them.
const SHOW: &str = "for f; do cat \"$HOME/$f\" 2>/dev/null || echo refused; { echo x >> \"$HOME/$f\"; } 2>/dev/null && echo changed; done; true";

fn project() -> Project {
    let project = Project::new().shell("show", SHOW);
    write(&project.home().join(".app/settings"), "settings\n");
    write(&project.home().join(".app/deep/token"), "token\n");
    write(&project.home().join(".other"), "other\n");
    project
}

fn show(project: &Project, level: &str, grants: &[&str], files: &[&str]) -> Answer {
    let grants: Vec<&str> = grants.iter().flat_map(|grant| ["--allow", grant]).collect();
    metier_at(project, level, &[&["run", "show"], &grants[..], &["--"], files].concat())
}

#[test]
fn a_granted_path_is_read_at_its_place_in_the_home_and_not_changed() {
    let project = project();
    let files = [".app/settings", ".app/deep/token", ".other"];
    for level in LEVELS {
        for (grants, expected) in [
            (&[][..], ["refused", "refused", "refused"]),
            (&["home:.app/settings"], ["settings", "refused", "refused"]),
            (&["home:~/.app/deep"], ["refused", "token", "refused"]),
            (&["home:.app", "home:.app/settings"], ["settings", "token", "refused"]),
            (&["home:.app/deep/token", "home:.other"], ["refused", "token", "other"]),
        ] {
            let answer = show(&project, level, grants, &files);
            let shown: Vec<&str> = answer.stdout.lines().filter(|line| *line != "changed").collect();
            assert_eq!(shown, expected, "{level} {grants:?} {answer:?}");
        }
        assert_eq!(fs::read_to_string(project.home().join(".app/settings")).unwrap(), "settings\n");
        assert_eq!(fs::read_to_string(project.home().join(".other")).unwrap(), "other\n");
        let answer = show(&project, level, &["home:.app"], &[".app/settings"]);
        assert_eq!(
            (answer.stdout.as_str(), answer.stderr.as_str()),
            ("settings\n", ""),
            "{level}: nothing was left"
        );
    }
}

#[test]
fn what_leads_elsewhere_or_has_rules_of_its_own_is_refused_with_the_reason() {
    let project = project();
    let home = project.home();
    write(&home.join(".local/share/metier/trust/x"), "");
    write(&home.join("other-state/trust/x"), "");
    symlink("/etc", home.join("etc")).unwrap();
    symlink(".app", home.join("link")).unwrap();
    symlink("../.other", home.join(".app/link")).unwrap();
    symlink(project.root(), home.join("work")).unwrap();
    for level in LEVELS {
        for (grant, reason) in [
            ("home:etc/passwd", "a link leads from there to /etc/passwd"),
            ("home:link", "a link leads from there to "),
            ("home:link/settings", "a link leads from there to "),
            ("home:work", "a link leads from there to "),
            ("home:.local/share", "has rules of its own"),
            ("home:.local", "has rules of its own"),
            ("home:.local/share/metier/trust/x", "has rules of its own"),
            ("home:other-state/trust/x", "has rules of its own"),
        ] {
            let mut command = project.command(&["run", "show", "--allow", grant, "--", ".other"]);
            command.env("METIER_SANDBOX_LEVEL", level).env("METIER_DATA_DIR", home.join("other-state"));
            let answer: Answer = command.output().unwrap().into();
            assert!(answer.code != 0 && answer.stderr.contains(reason), "{level} {grant} {answer:?}");
            assert_eq!(answer.stdout, "", "{level} {grant}");
        }
        let args = ["run", "show", "--allow", &format!("home:{}", folder_name(&project))];
        for (home, reason) in [
            (project.root().parent().unwrap(), "has rules of its own"),
            (Path::new("/"), "/ has rules of its own"),
        ] {
            let mut command = project.command(&args);
            command.env("HOME", home).env("METIER_SANDBOX_LEVEL", level);
            if home == Path::new("/") {
                command.args(["--allow", "home:etc/shadow"]);
            }
            let inside: Answer = command.output().unwrap().into();
            assert!(inside.code != 0 && inside.stderr.contains(reason), "{level} {home:?} {inside:?}");
        }
        // A link in what is granted leads to nothing that is not.
        let linked = show(&project, level, &["home:.app"], &[".app/link"]);
        assert!(linked.stdout.starts_with("refused\n"), "{level} {linked:?}");
        assert_eq!(fs::read_to_string(home.join(".other")).unwrap(), "other\n", "{level}");
        // A model does not hear where a link leads.
        let model = project.metier(&["run", "show", "--allow", "home:link", "--for-model", "--trust"]);
        assert!(model.code != 0 && model.stderr.contains("to another place"), "{model:?}");
        assert!(!model.stderr.contains(".app"), "{model:?}");
    }
    for grant in ["home", "home:", "home:.", "home:~/", "home:/root", "home:../x", "home:a/../../b"] {
        let answer = show(&project, "namespaces", &[grant], &[]);
        assert!(answer.stderr.contains("write home:PATH"), "{grant} {answer:?}");
    }
}

/// A skill of another project may write to what was granted of the home, and put a link in its place.
#[test]
fn a_link_in_the_place_of_what_was_granted_opens_nothing() {
    let project = project();
    let home = project.home();
    write(&home.join("work/data/file"), "file\n");
    write(&home.join(".ssh/key"), "KEY\n");
    for level in LEVELS {
        assert!(
            show(&project, level, &["home:work/data"], &["work/data/file"]).stdout.starts_with("file\n"),
            "{level}"
        );
        fs::rename(home.join("work/data"), home.join("work/old")).unwrap();
        symlink("../.ssh", home.join("work/data")).unwrap();
        let answer = show(&project, level, &["home:work/data"], &["work/data/key"]);
        assert!(answer.code != 0 && !answer.stdout.contains("KEY"), "{level} {answer:?}");
        fs::remove_file(home.join("work/data")).unwrap();
        fs::rename(home.join("work/old"), home.join("work/data")).unwrap();
    }
}

fn folder_name(project: &Project) -> String {
    project.root().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn only_a_skill_that_requests_it_has_it_and_nobody_what_is_denied() {
    let skill = "---\nname: show\ndescription: Shows.\nallowed-tools: home:.app/settings write:out\n---\n";
    let project = project().file(".metier/skills/show/SKILL.md", skill);
    let files = [".app/settings", ".app/deep/token"];
    for level in LEVELS {
        let answer = show(&project, level, &["home:.app"], &files);
        assert!(answer.stdout.starts_with("settings\nrefused\n"), "{level} {answer:?}");
        write(
            &project.home().join(".config/metier/config.toml"),
            "[permissions]\ndeny = [\"home:.app/settings\"]\n",
        );
        let denied = show(&project, level, &["home:.app"], &files);
        let reason = "~/.app/settings cannot be granted: the configuration denies home:.app/settings";
        assert!(denied.code != 0 && denied.stderr.contains(reason), "{level} {denied:?}");
        fs::remove_file(project.home().join(".config/metier/config.toml")).unwrap();
    }
}

#[test]
fn no_link_becomes_part_of_what_a_skill_keeps() {
    let project = project();
    for level in LEVELS {
        let kept = show(&project, level, &["state", "home:.app/settings"], &[".app/settings", ".own"]);
        assert!(kept.stdout.starts_with("settings\n"), "{level} {kept:?}");
        let state = only_state(&project).join("current");
        assert!(state.join(".own").is_file() && !state.join(".app").exists(), "{level}");
    }
}

#[test]
fn who_runs_a_script_hears_what_it_misses_of_the_home() {
    let count = "d=\"$HOME/.app/sessions\"; [ -d \"$d\" ] && ls \"$d\" || echo 'no sessions found'";
    let skips = "SKIP='.env .app/sessions'; d=\"$HOME/.app/sessions\"; echo \"counted 3 files\"; true";
    let project = Project::new().shell("count", count).shell("skips", skips).shell("show", SHOW);
    for path in [".app/sessions/one", ".ssh/id_rsa", "data/a"] {
        write(&project.home().join(path), "");
    }
    let told = project.metier(&["run", "count"]);
    let expected = "~/.app is in your home folder, and the script, which names it, has a home of its own; \
                    `metier try count` shows what it looks for there";
    assert!(told.stdout == "no sessions found\n" && told.stderr.contains(expected), "{told:?}");
    let granted = project.metier(&["run", "count", "--allow", "home:.app/sessions"]);
    assert_eq!((granted.stdout.as_str(), granted.stderr.as_str()), ("one\n", ""));
    let model = project.metier(&["run", "count", "--for-model", "--trust"]);
    assert!(!model.stderr.contains(".app"), "{model:?}");
    // An argument says what the script is to read.
    let passed = project.metier(&["run", "skips", "--", "~/data"]);
    assert!(passed.stderr.contains("run with --allow home:data"), "{passed:?}");
    for quiet in
        [&["run", "skips"][..], &["run", "skips", "--", "~/.ssh/id_rsa"], &["run", "skips", "--", "~/none"]]
    {
        let answer = project.metier(quiet);
        assert_eq!(answer.stderr, "", "{quiet:?}");
    }
}

#[test]
fn a_script_that_says_nothing_gets_a_hint_about_what_it_names_in_the_home() {
    let silent = "DIR=\"${APP_DIR:-$HOME/.app/sessions}\"\n[ -d \"$DIR\" ] || exit 0\nls \"$DIR\"";
    let sourced = ". \"$(dirname \"$0\")/common.sh\"\n[ -d \"$BASE/sessions\" ] || exit 0";
    let speaks = "DIR=\"$HOME/.app/sessions\"\necho done";
    let project = Project::new().shell("silent", silent).shell("sourced", sourced).shell("speaks", speaks);
    let project = project.file(".metier/skills/sourced/scripts/common.sh", "BASE=\"${HOME}/.app\"\n");
    write(&project.home().join(".app/sessions/one"), "");
    for (args, hint) in [
        (&["run", "silent"][..], Some("~/.app is in your home folder")),
        (
            &["run", "sourced", "--script", "scripts/main.sh"],
            Some("`metier try sourced` shows what it looks for there"),
        ),
        (&["run", "speaks"], None),
    ] {
        let answer = project.metier(args);
        assert_eq!(answer.code, 0, "{answer:?}");
        match hint {
            Some(hint) => assert!(answer.stderr.contains(hint), "{answer:?}"),
            None => assert_eq!(answer.stderr, "", "{answer:?}"),
        }
    }
}

#[test]
fn what_a_skill_keeps_in_the_place_of_a_granted_file_is_reported() {
    let project = project();
    let keeps = "mkdir -p \"$HOME/.app\"; echo own > \"$HOME/.app/settings\"";
    let project = project.shell("show", &format!("[ \"$1\" = keep ] && {{ {keeps}; exit; }}; {SHOW}"));
    let granted = ["run", "show", "--allow", "state", "--allow", "home:.app/settings", "--"];
    project.metier(&["run", "show", "--allow", "state", "--", "keep"]);
    let answer = project.metier(&[&granted[..], &[".app/settings"]].concat());
    assert!(answer.stdout.starts_with("own\n"), "{answer:?}");
    assert!(answer.stderr.contains("a file of its own in the place of ~/.app/settings"), "{answer:?}");
}

#[test]
fn a_worker_reads_what_its_runs_are_granted() {
    if find_program("python3").is_none() {
        return not_run("a worker with files of the home", "python3 is not installed");
    }
    let skill = "---\nname: show\ndescription: Shows.\nmetadata:\n  worker: json-lines\n---\n";
    let script = "from metier import serve\nimport pathlib\n\
                  def show(path):\n    file = pathlib.Path.home() / path\n    return file.read_text() if file.exists() else None\n\
                  serve(show)\n";
    let project = Project::new()
        .file(".metier/skills/show/SKILL.md", skill)
        .file(".metier/skills/show/scripts/main.py", script);
    write(&project.home().join(".app/settings"), "settings");
    let args = ["run", "show", "--json", "--input", "\".app/settings\""];
    for level in LEVELS {
        for (grants, value) in [
            (&["--allow", "home:.app/settings"][..], serde_json::json!("settings")),
            (&["--allow", "home:.app", "--allow", "state"], serde_json::json!("settings")),
            (&[], serde_json::Value::Null),
        ] {
            let answer = metier_at(&project, level, &[&args[..], grants].concat());
            assert_eq!(answer.json()["value"], value, "{level} {grants:?} {answer:?}");
        }
        assert!(!only_state(&project).join("current/.app").exists(), "{level}");
    }
}
