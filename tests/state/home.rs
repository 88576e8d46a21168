//! What a run may read of the user's home folder: the permission `home:PATH`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::cli::{Answer, Project, write};
use crate::not_run::{find_program, not_run};
use crate::{LEVELS, metier_at, only_state};

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
fn what_leads_out_of_the_home_or_has_rules_of_its_own_is_refused_with_the_reason() {
    let project = project();
    let home = project.home();
    write(&home.join(".local/share/metier/trust/x"), "");
    symlink("/etc", home.join("etc")).unwrap();
    symlink("../.other", home.join(".app/link")).unwrap();
    symlink(&*home, home.join(".app/all")).unwrap();
    symlink(project.root(), home.join("work")).unwrap();
    for level in LEVELS {
        for (grant, reason) in [
            ("home:etc/passwd", "it leads out of your home folder, to /etc/passwd"),
            ("home:.local/share", "has rules of its own"),
            ("home:.local", "has rules of its own"),
            ("home:.local/share/metier/trust/x", "has rules of its own"),
            ("home:.app/all", "it leads out of your home folder"),
            ("home:work", "it leads out of your home folder"),
        ] {
            let answer = show(&project, level, &[grant], &[".other"]);
            assert!(answer.code != 0 && answer.stderr.contains(reason), "{level} {grant} {answer:?}");
            assert_eq!(answer.stdout, "", "{level} {grant}");
        }
        let mut inside =
            project.command(&["run", "show", "--allow", &format!("home:{}", folder_name(&project))]);
        let inside: Answer = inside
            .env("HOME", project.root().parent().unwrap())
            .env("METIER_SANDBOX_LEVEL", level)
            .output()
            .unwrap()
            .into();
        assert!(inside.code != 0 && inside.stderr.contains("has rules of its own"), "{level} {inside:?}");
        // A link in what is granted leads to nothing that is not.
        let linked = show(&project, level, &["home:.app"], &[".app/link"]);
        assert!(linked.stdout.starts_with("refused\n"), "{level} {linked:?}");
        assert_eq!(fs::read_to_string(home.join(".other")).unwrap(), "other\n", "{level}");
    }
    for grant in ["home", "home:", "home:.", "home:~/", "home:/root", "home:../x", "home:a/../../b"] {
        let answer = show(&project, "namespaces", &[grant], &[]);
        assert!(answer.stderr.contains("write home:PATH"), "{grant} {answer:?}");
    }
}

fn folder_name(project: &Project) -> String {
    project.root().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn only_a_skill_that_requests_it_has_it_and_what_is_denied_within_denies_all() {
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
        assert!(denied.stdout.starts_with("refused\n"), "{level} {denied:?}");
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
fn who_runs_a_script_hears_what_it_names_and_could_not_read() {
    let project = Project::new().shell("count", "ls \"$HOME/.app/sessions\" 2>/dev/null | wc -l");
    write(&project.home().join(".app/sessions/one"), "");
    let run = |options: &[&str]| project.metier(&[&["run", "count"], options].concat());
    let told = run(&[]);
    let expected = "the script names ~/.app/sessions, which is in your home folder and not in its own; if it is to read that, \
                    run with --allow home:.app/sessions";
    assert!(told.stdout == "0\n" && told.stderr.contains(expected), "{told:?}");
    let granted = run(&["--allow", "home:.app/sessions"]);
    assert_eq!((granted.stdout.as_str(), granted.stderr.as_str()), ("1\n", ""));
    let model = run(&["--for-model", "--trust"]);
    assert!(!model.stderr.contains(".app"), "{model:?}");
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
