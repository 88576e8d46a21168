//! Nobody else reads or changes what a skill keeps.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::state::{ADD, LEVELS, metier_at, only_state, store};
use crate::support::cli::{Answer, Project, write};

#[test]
fn another_skill_another_project_and_a_run_without_the_grant_have_none_of_it() {
    let peek = "cat \"$HOME/list\" 2>/dev/null; cat \"$1\"/*/*/current/list 2>&1; touch \"$1/x\" 2>&1; ls \"$1\" 2>&1; true";
    let project = Project::new().shell("list", ADD).shell("peek", peek).shell("renamed", ADD);
    let other = Project::new().shell("list", ADD);
    project.metier(&["run", "list", "--allow", "state", "--", "secret"]);
    let place = store(&project);
    for level in LEVELS {
        for grants in [&["--allow", "state", "--allow", "write"][..], &["--allow", "write"]] {
            let args = [&["run", "peek"], grants, &["--", place.to_str().unwrap()]].concat();
            let answer = metier_at(&project, level, &args);
            assert_eq!(answer.code, 0, "{level}: {answer:?}");
            assert!(!answer.stdout.contains("secret"), "{level}: {answer:?}");
        }
        assert!(!place.join("x").exists());
        let renamed = metier_at(&project, level, &["run", "renamed", "--allow", "state", "--", "x"]);
        assert!(!renamed.stdout.contains("secret"), "{renamed:?}");
        let mut elsewhere = other.command(&["run", "list", "--allow", "state", "--", "x"]);
        let elsewhere: crate::support::cli::Answer =
            elsewhere.env("HOME", project.home()).env("METIER_SANDBOX_LEVEL", level).output().unwrap().into();
        assert!(elsewhere.code == 0 && !elsewhere.stdout.contains("secret"), "{elsewhere:?}");
        let ungranted = metier_at(&project, level, &["run", "list", "--", "x"]);
        assert_eq!(ungranted.stdout, "x\n", "{ungranted:?}");
    }
}

#[test]
fn the_functions_of_the_other_languages_do_not_reach_it_even_in_a_project_that_contains_it() {
    let lua = "local ok, text = pcall(ctx.read_file, '.local/share/metier/skill-state/x'); return {ok, tostring(text)}";
    let project = Project::new().lua("peek", lua);
    let home = project.root().to_owned();
    write(&home.join(".local/share/metier/skill-state/x"), "secret");
    for grant in ["read:.local", "read"] {
        let mut command = project.command(&["run", "peek", "--project", ".", "--allow", grant, "--json"]);
        let answer: crate::support::cli::Answer = command.env("HOME", &home).output().unwrap().into();
        assert_eq!(answer.json()["value"][0], false, "{answer:?}");
    }
}

#[test]
fn state_that_a_script_would_see_within_its_project_is_refused() {
    let project = Project::new().shell("list", ADD);
    for level in LEVELS {
        let mut command =
            project.command(&["run", "list", "--project", ".", "--allow", "state", "--", "one"]);
        command.env("HOME", project.root()).env("METIER_SANDBOX_LEVEL", level);
        let answer: crate::support::cli::Answer = command.output().unwrap().into();
        assert!(answer.code != 0 && answer.stderr.contains("METIER_DATA_DIR"), "{level}: {answer:?}");
    }
}

#[test]
fn a_home_that_a_script_replaces_by_a_link_leads_nowhere() {
    let script = "rm -rf \"$HOME\"/* \"$HOME\" 2>/dev/null; ln -s \"$1\" \"$HOME\" 2>/dev/null; ln -s \"$1\" \"$HOME/link\"; mv \"$HOME\" \"$HOME-2\" 2>/dev/null; true";
    let project = Project::new().shell("list", ADD);
    write(&project.path(".metier/skills/list/scripts/link.sh"), script);
    write(&project.path("precious/file"), "kept");
    let precious = project.path("precious");
    for level in LEVELS {
        let link =
            ["run", "list", "--allow", "state", "--allow", "write", "--script", "scripts/link.sh", "--"];
        let answer = metier_at(&project, level, &[&link[..], &[precious.to_str().unwrap()]].concat());
        assert_eq!(answer.code, 0, "{level}: {answer:?}");
        let main = ["run", "list", "--allow", "state", "--script", "scripts/main.sh", "--", "one"];
        let next = metier_at(&project, level, &main);
        assert_eq!(next.stdout, "one\n", "{level}: {next:?}");
        assert_eq!(project.metier(&["state", "--clear", "list", "--yes"]).code, 0);
        assert_eq!(project.read("precious/file"), "kept");
    }
}

#[test]
fn pipes_sockets_and_the_rights_of_their_owner_are_not_kept() {
    let script = r#"
import os, socket
os.chdir(os.environ["HOME"])
if not os.path.exists("plain"):
    os.mkfifo("pipe")
    for name, mode in [("plain", 0o000), ("raised", 0o4755)]:
        open(name, "w").close()
        os.chmod(name, mode)
    os.makedirs("closed/inner")
    open("closed/inner/file", "w").close()
    os.chmod("closed/inner", 0o000)
    os.chmod("closed", 0o500)
"#;
    for level in LEVELS {
        let project =
            Project::new().skill(".metier/skills/odd").file(".metier/skills/odd/scripts/main.py", script);
        let answer = metier_at(&project, level, &["run", "odd", "--allow", "state"]);
        assert!(answer.code == 0 && answer.stderr.contains("pipe"), "{level}: {answer:?}");
        let current = only_state(&project).join("current");
        let mode = |name: &str| fs::metadata(current.join(name)).unwrap().permissions().mode() & 0o7777;
        assert!(!current.join("pipe").exists());
        assert_eq!((mode("raised") & 0o7000, mode("plain") & 0o400), (0, 0o400));
        assert!(current.join("closed/inner/file").exists());
        let again = metier_at(&project, level, &["run", "odd", "--allow", "state"]);
        assert_eq!(again.code, 0, "{again:?}");
        assert_eq!(project.metier(&["state", "--clear", "odd", "--yes"]).code, 0);
        assert!(!current.exists());
    }
}

#[test]
fn a_link_in_the_place_of_the_store_or_of_the_state_is_refused() {
    let project = Project::new().shell("list", ADD);
    let run = ["run", "list", "--allow", "state", "--", "one"];
    project.metier(&run);
    let state = only_state(&project);
    write(&project.path("precious/list"), "kept\n");
    fs::remove_dir_all(state.join("current")).unwrap();
    symlink(project.path("precious"), state.join("current")).unwrap();
    let answer = project.metier(&run);
    assert!(answer.code != 0 && !answer.stdout.contains("kept"), "{answer:?}");
    assert_eq!(project.metier(&["state", "--clear", "list", "--yes"]).code, 0);
    assert_eq!(project.read("precious/list"), "kept\n");
    let place = store(&project);
    fs::rename(&place, place.with_file_name("moved")).unwrap();
    symlink(place.with_file_name("moved"), &place).unwrap();
    let answer = project.metier(&run);
    assert!(answer.code == 4 && answer.stderr.contains("a link"), "{answer:?}");
}

#[test]
fn only_the_user_reads_what_is_kept() {
    let project = Project::new().shell("list", ADD);
    project.metier(&["run", "list", "--allow", "state", "--", "one"]);
    let state = only_state(&project);
    for folder in [store(&project).as_path(), state.parent().unwrap(), &state] {
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
}

#[test]
fn with_namespaces_tmp_is_the_folder_of_the_run_and_the_project_below_it_stays() {
    let outside = tempfile::Builder::new().prefix("metier-test-").tempdir_in("/tmp").unwrap();
    write(&outside.path().join("file"), "outside");
    assert!(
        std::process::Command::new("mkfifo").arg(outside.path().join("pipe")).status().unwrap().success()
    );
    let script = r#"echo own > /tmp/own && cat "$TMPDIR/own"; cat note; test -e "$1/file" && echo seen; test -e "$1/pipe" && echo pipe; ls "$METIER_SKILL_DIR"; echo x > "$HOME/x" && echo home; echo x > new && echo written; true"#;
    let project = Project::new().shell("tmp", script).file("note", "note\n");
    let outside_path = outside.path().to_str().unwrap();
    let args = ["run", "tmp", "--allow", "write", "--json", "--", outside_path];
    let answer = metier_at(&project, "namespaces", &args).json();
    if answer["sandbox"]["level"] != "namespaces" {
        return;
    }
    assert_eq!(answer["value"], "own\nnote\nSKILL.md\nscripts\nhome\nwritten\n", "{answer}");
    assert!(!std::path::Path::new("/tmp/own").exists());
    assert_eq!(project.read("new"), "x\n");
}

/// The name of a skill is a text in its file: whoever writes the same name has not the same state.
#[test]
fn skills_of_one_name_in_other_folders_have_states_of_their_own() {
    let text = |version: &str| {
        format!("---\nname: list\ndescription: d\nmetadata:\n  version: \"{version}\"\n---\n")
    };
    let script = format!("#!/bin/sh\n{ADD}");
    let run = |project: &Project, name: &str, more: &[&str]| {
        let answer = project.metier(&[&["run", name, "--allow", "state"], more, &["--", "one"]].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.stdout
    };
    // Two versions in one root, and a folder that calls itself like another one and is found before it.
    let project = Project::new();
    for (folder, version) in [("list-1", "1.0.0"), ("list-2", "2.0.0")] {
        write(&project.path(&format!(".metier/skills/{folder}/SKILL.md")), text(version));
        write(&project.path(&format!(".metier/skills/{folder}/scripts/main.sh")), &script);
    }
    assert_eq!(run(&project, "list@1.0.0", &[]), "one\n");
    assert_eq!(run(&project, "list@2.0.0", &[]), "one\n");
    assert_eq!(run(&project, "list@1.0.0", &[]), "one\none\n", "its own is kept");
    // An update in the same folder finds it.
    write(&project.path(".metier/skills/list-1/SKILL.md"), text("1.5.0"));
    assert_eq!(run(&project, "list@1.5.0", &[]), "one\none\none\n");
    // Two roots with the same label.
    let project = Project::new();
    for root in ["ra", "rb"] {
        write(&project.home().join(format!("{root}/skills/list/SKILL.md")), text("1.0.0"));
        write(&project.home().join(format!("{root}/skills/list/scripts/main.sh")), &script);
    }
    for root in ["ra", "rb"] {
        let mut command = project.command(&["run", "list", "--allow", "state", "--", "one"]);
        command.env("METIER_ROOTS", project.home().join(format!("{root}/skills")));
        let answer: crate::support::cli::Answer = command.output().unwrap().into();
        assert_eq!((answer.code, answer.stdout.as_str()), (0, "one\n"), "{root}: {answer:?}");
    }
}

/// At the level landlock a script may give a file of its home a second name in the project.
#[test]
fn a_file_that_is_kept_has_no_other_name() {
    let script = "#!/bin/sh\ncat > /dev/null; ln \"$HOME/list\" shared 2>/dev/null; ln secret \"$HOME/taken\" 2>/dev/null; true";
    for level in LEVELS {
        let project = Project::new().shell("list", ADD).file("secret", "of the project");
        fs::set_permissions(project.path("secret"), fs::Permissions::from_mode(0o200)).unwrap();
        assert_eq!(metier_at(&project, level, &["run", "list", "--allow", "state", "--", "one"]).code, 0);
        write(&project.path(".metier/skills/list/scripts/main.sh"), script);
        let linking = metier_at(&project, level, &["run", "list", "--allow", "state", "--allow", "write"]);
        assert_eq!(linking.code, 0, "{level}: {linking:?}");
        let mode = fs::metadata(project.path("secret")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o200, "{level}: a file of the project keeps its mode");
        if project.path("shared").exists() {
            fs::write(project.path("shared"), "changed by another program").unwrap();
        }
        write(&project.path(".metier/skills/list/scripts/main.sh"), format!("#!/bin/sh\n{ADD}"));
        let answer = metier_at(&project, level, &["run", "list", "--allow", "state", "--", "two"]);
        assert_eq!(answer.stdout, "one\ntwo\n", "{level}: {answer:?}");
    }
}

#[test]
fn a_store_behind_a_link_into_the_project_keeps_nothing_and_is_no_way_to_what_is_protected() {
    for level in LEVELS {
        for target in [".git/hooks", ".vscode/sub", ".metier/skills", "src"] {
            let project = Project::new()
                .shell("list", "echo x > \"$HOME/pre-commit\"")
                .file(".git/hooks/own", "")
                .file(".vscode/sub/own", "")
                .file("src/own", "");
            std::fs::create_dir_all(project.home()).unwrap();
            let link = project.home().join("data");
            symlink(project.path(target), &link).unwrap();
            let mut run = project.command(&["run", "list", "--allow", "state"]);
            let run = run.env("METIER_SANDBOX_LEVEL", level).env("METIER_DATA_DIR", &link);
            let answer: Answer = run.output().unwrap().into();
            assert_ne!(answer.code, 0, "{level} {target} {answer:?}");
            let is_written = |path: &String| path.ends_with("pre-commit");
            assert!(!project.tree().iter().any(is_written), "{level} {target} {answer:?}");
        }
    }
}
