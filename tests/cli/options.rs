//! `--project` and `--product`: whose skills are read, and where they run.

use crate::support::cli::Project;

#[test]
fn a_project_is_named_from_anywhere() {
    let project = Project::new()
        .file("there/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
        .file("there/.metier/skills/x/scripts/main.lua", "return ctx.read_file('a.txt')")
        .file("there/a.txt", "text")
        .file("there/sub/b", "");
    for (folder, named) in [(".", "there"), ("there/sub", "..")] {
        let answer = project.metier_in(folder, &["run", "x", "--project", named]);
        assert_eq!((answer.code, answer.stdout.as_str()), (0, "text\n"), "{answer:?}");
    }
    assert_eq!(project.metier_in("there/sub", &["run", "x"]).stdout, "text\n");
    assert_eq!(project.metier(&["run", "x"]).code, 3);
    assert_eq!(
        project.metier(&["--project", "there/sub", "run", "x"]).code,
        3,
        "a named project is not looked for above"
    );
}

#[test]
fn a_product_has_folders_of_its_own() {
    let project = Project::new().lua("x", "return 1").file("sub/a", "");
    assert_eq!(project.metier(&["run", "x", "--product", "acme"]).code, 3);
    assert_eq!(project.metier(&["new", "mine", "--product", "acme"]).code, 0);
    let answer = project.metier_in("sub", &["show", "mine", "--product", "acme", "--json"]);
    assert_eq!(answer.json()["qualified"], "project/.acme:mine@0.1.0");
}

#[test]
fn a_path_is_not_a_product() {
    for name in ["", "..", "../..", "a/b", "a\u{1b}[31m", "a b", "."] {
        let answer = Project::new().metier(&["list", "--product", name]);
        assert!(answer.code == 2 && answer.stdout.is_empty(), "{name:?}: {answer:?}");
        assert!(!answer.stderr.contains('\u{1b}'));
    }
}

#[test]
fn a_project_that_is_not_a_folder_is_a_usage_error() {
    let project = Project::new().file("a", "");
    for command in [&["list"][..], &["catalog"], &["show", "x"], &["run", "x"], &["new", "x"]] {
        for (named, words) in [("nowhere", "No such file or directory"), ("a", "not a directory")] {
            let answer = project.metier(&[command, &["--project", named]].concat());
            assert!(answer.code == 2 && answer.stderr.contains(words), "{command:?}: {answer:?}");
        }
    }
}

#[test]
fn a_removed_current_folder_is_reported() {
    let project = Project::new().file("gone/a", "");
    let script = "cd gone && rm -r ../gone && exec \"$0\" \"$@\"";
    for args in [&["list"][..], &["run", "word-count"], &["new", "x"]] {
        std::fs::create_dir_all(project.path("gone")).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_metier")]).args(args).current_dir(project.path("."));
        let answer = crate::support::cli::Answer::from(command.output().unwrap());
        let is_reported = answer.stderr.starts_with("error: failed to find the current folder");
        assert!(answer.code == 1 && is_reported, "{args:?}: {answer:?}");
    }
}

#[test]
fn a_user_without_a_home_can_use_every_command() {
    let project = Project::new().lua("x", "return 1");
    for args in [&["list"][..], &["run", "x"], &["catalog"]] {
        let mut command = project.command(args);
        assert_eq!(
            crate::support::cli::Answer::from(command.env_clear().output().unwrap()).code,
            0,
            "{args:?}"
        );
    }
}

/// What lies there is all that a user has.
#[test]
fn a_home_is_a_project_only_if_the_caller_names_it() {
    let project = Project::new()
        .file("home/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file("home/.metier/skills/x/scripts/main.lua", "return ctx.list_dir('.')")
        .file("home/.bash_history", "")
        .file("home/work/deep/a", "")
        .file("home/own/.git/HEAD", "")
        .file("home/own/deep/b", "");
    std::os::unix::fs::symlink("home", project.path("link")).unwrap();
    let root = "root-of-the-machine";
    for home in ["home", "link", "home/", "home/./"] {
        let run = |folder: &str, args: &[&str]| {
            let mut command = project.command(args);
            let folder = if folder == root { "/".into() } else { project.path(folder) };
            let answer = command.env("HOME", project.path(home)).current_dir(folder).output().unwrap();
            crate::support::cli::Answer::from(answer)
        };
        // The skill in the home is none of the project's from here on.
        for folder in ["home/work", "home/work/deep", "home/own/deep", "link/work"] {
            assert_eq!(run(folder, &["run", "x"]).code, 3, "{folder}");
            assert_eq!(
                run(folder, &["run", "word-count", "--input", r#"{"text": "a"}"#]).code,
                0,
                "{folder}"
            );
        }
        for folder in ["home", "link", root] {
            for args in [&["run", "x"][..], &["run", "x", "--explain"], &["new", "mine"]] {
                let refused = run(folder, args);
                assert!(
                    refused.code == 2 && refused.stderr.contains("--project"),
                    "{folder} {args:?}: {refused:?}"
                );
            }
        }
        let named = run("home/work", &["run", "x", "--project", ".."]);
        assert!(named.code == 0 && named.stderr.contains("contains a home directory"), "{named:?}");
        assert_eq!(run("home", &["list"]).code, 0, "nothing runs");
    }
}
