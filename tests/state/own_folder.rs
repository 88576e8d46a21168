//! Scripts that write beside themselves.

use std::os::unix::fs::symlink;

use crate::state::{LEVELS, metier_at};
use crate::support::cli::{Project, write};

const SCRIPT: &str = r#"echo "$1" > "$METIER_SKILL_DIR/new.txt" && mkdir -p "$METIER_SKILL_DIR/data" && echo x > "$METIER_SKILL_DIR/data/x""#;
const RUN: [&str; 5] = ["run", "own", "--allow", "own-folder", "--"];

#[test]
fn a_script_writes_beside_itself_with_the_permission_only() {
    for level in LEVELS {
        let project = Project::new().shell("own", SCRIPT).shell("other", "true");
        let denied = metier_at(&project, level, &["run", "own", "--", "one"]);
        assert_ne!(denied.code, 0, "{level}: {denied:?}");
        assert!(denied.stderr.contains("--allow own-folder"), "{level}: {denied:?}");
        let answer = metier_at(&project, level, &[&RUN[..], &["one"]].concat());
        assert_eq!(answer.code, 0, "{level}: {answer:?}");
        assert!(answer.stderr.contains("changed files of the skill own"), "{answer:?}");
        assert_eq!(project.read(".metier/skills/own/new.txt"), "one\n");
        let others = "echo x >> \"$METIER_SKILL_DIR/../other/SKILL.md\"";
        write(&project.path(".metier/skills/own/scripts/main.sh"), others);
        let outside = metier_at(&project, level, &[&RUN[..], &["one"]].concat());
        assert_ne!(outside.code, 0, "{level}: {outside:?}");
    }
}

#[test]
fn what_it_adds_takes_trust_away_unless_the_contract_lists_it() {
    let script = "echo \"$1\" >> \"$METIER_SKILL_DIR/data/list\"";
    for (contract, is_trusted) in [("state: [data]\n", true), ("", false)] {
        let project = Project::new()
            .shell("own", script)
            .file(".metier/skills/own/skill.yaml", format!("permissions: [own-folder]\n{contract}"))
            .file(".metier/skills/own/data/first", "");
        assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
        assert_eq!(project.metier(&["allow", "own", "own-folder"]).code, 0);
        let first = project.metier(&["run", "own", "--", "one"]);
        assert_eq!(first.code, 0, "{first:?}");
        assert_eq!(first.stderr.contains("changed files of the skill"), !is_trusted, "{first:?}");
        let second = project.metier(&["run", "own", "--", "two"]);
        assert_eq!(second.code == 0, is_trusted, "{second:?}");
    }
}

#[test]
fn with_namespaces_the_files_that_define_the_skill_stay_as_they_are() {
    let script = r#"cd "$METIER_SKILL_DIR"; for file in SKILL.md skill.yaml scripts/main.sh; do echo x >> "$file"; rm -f "$file"; mv "$file" other; done 2>/dev/null; mv scripts other; true"#;
    let project = Project::new()
        .shell("own", script)
        .file(".metier/skills/own/skill.yaml", "permissions: [own-folder]\n");
    let read = || {
        ["SKILL.md", "skill.yaml", "scripts/main.sh"]
            .map(|file| project.read(&format!(".metier/skills/own/{file}")))
    };
    let before = read();
    let answer = metier_at(&project, "namespaces", &["run", "own", "--allow", "own-folder", "--json"]);
    let answer = answer.json();
    if answer["sandbox"]["level"] == "namespaces" {
        assert_eq!(read(), before, "{answer}");
    }
}

#[test]
fn with_namespaces_what_programs_run_on_their_own_in_the_folder_stays_as_it_is() {
    const PATHS: [&str; 10] = [
        ".git/hooks/pre-commit",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".husky/pre-commit",
        ".claude/settings.json",
        ".envrc",
        "deep/below/.git/config",
        "deep/.vscode/settings.json",
        "bare/HEAD",
        "linked/hooks/pre-commit",
    ];
    let script = r#"cd "$METIER_SKILL_DIR"
        for file in "$@"; do
            echo x >> "$file"; rm -f "$file"; mv "$(dirname "$file")" moved; mkdir -p "$(dirname "$file")"; echo y > "$file"
        done 2>/dev/null
        mv deep other 2>/dev/null; mv deep/below deep/other 2>/dev/null; echo fine > data.txt"#;
    for grants in [&[][..], &["--allow", "write"]] {
        let project = PATHS.iter().fold(Project::new().shell("own", script), |project, path| {
            project.file(&format!(".metier/skills/own/{path}"), "as it was")
        });
        for path in ["bare/objects/x", "bare/refs/x"] {
            write(&project.path(&format!(".metier/skills/own/{path}")), "");
        }
        symlink("../linked/hooks", project.path(".metier/skills/own/deep/.husky")).unwrap();
        let args = [&["run", "own", "--allow", "own-folder", "--json"], grants, &["--"], &PATHS[..]].concat();
        let answer = metier_at(&project, "namespaces", &args);
        if answer.json()["sandbox"]["level"] != "namespaces" {
            return;
        }
        assert_eq!(project.read(".metier/skills/own/data.txt"), "fine\n", "{answer:?}");
        for path in PATHS {
            let text = project.read(&format!(".metier/skills/own/{path}"));
            assert_eq!(text, "as it was", "{path} {grants:?}: {answer:?}");
        }
    }
    let project = Project::new()
        .shell("own", "echo new > \"$METIER_SKILL_DIR/.vscode/tasks.json\"")
        .file(".metier/skills/own/.vscode/tasks.json", "as it was");
    let grant = "write:.metier/skills/own/.vscode";
    let args = ["run", "own", "--allow", "own-folder", "--allow", grant];
    let answer = metier_at(&project, "namespaces", &args);
    assert_eq!(project.read(".metier/skills/own/.vscode/tasks.json"), "new\n", "{answer:?}");
}

/// Tools that store files once make such links.
#[test]
fn the_files_that_define_the_skill_may_have_other_links_and_stay_as_they_are() {
    let script = "cd \"$METIER_SKILL_DIR\"; echo '# bad' >> copy.md; echo '# bad' >> scripts/copy.sh; echo x > new.txt";
    for (level, grants) in LEVELS
        .into_iter()
        .flat_map(|level| [&[][..], &["--allow", "write:out"]].map(|grants| (level, grants)))
    {
        let project = Project::new().shell("own", script).file("out/x", "");
        let path = |name: &str| project.path(&format!(".metier/skills/own/{name}"));
        for (file, link) in [("SKILL.md", "copy.md"), ("scripts/main.sh", "scripts/copy.sh")] {
            std::fs::hard_link(path(file), path(link)).unwrap();
        }
        std::fs::hard_link(path("scripts/main.sh"), project.path("elsewhere.sh")).unwrap();
        let read =
            || ["SKILL.md", "scripts/main.sh"].map(|file| std::fs::read_to_string(path(file)).unwrap());
        let before = read();
        let answer = metier_at(
            &project,
            level,
            &[&["run", "own", "--allow", "own-folder", "--json"], grants].concat(),
        );
        assert_eq!(answer.code, 0, "{level}: {answer:?}");
        assert!(path("new.txt").exists(), "{level}: {answer:?}");
        if answer.json()["sandbox"]["level"] == "namespaces" {
            assert_eq!(read(), before, "{grants:?}: {answer:?}");
        }
    }
}

#[test]
fn a_script_that_is_a_skill_by_itself_has_no_folder_of_its_own() {
    let script = "#!/bin/sh\n# description: Writes beside itself.\necho x > \"$METIER_SKILL_DIR/x\"\n";
    let project = Project::new().file(".metier/skills/drop.sh", script).shell("other", "true");
    let answer = project.metier(&["run", "drop", "--allow", "own-folder"]);
    assert_ne!(answer.code, 0, "{answer:?}");
    assert!(!project.path(".metier/skills/x").exists());
}

/// A run that may change the folder exchanges a file for a moment. Another run, of the files that were trusted, compares it before and
/// opens it after.
#[test]
fn no_run_opens_files_that_another_run_exchanges_after_they_were_compared() {
    let swap = r#"cd "$METIER_SKILL_DIR/scripts"; echo began > "$OLDPWD/began"
        for i in $(seq 200); do
            echo 'echo evil' > ../n; mv ../n lib.sh; sleep 0.005; echo 'echo good' > ../n; mv ../n lib.sh; sleep 0.005
        done"#;
    let script = format!("if [ -n \"$1\" ]; then {swap}; else . \"$METIER_SKILL_DIR/scripts/lib.sh\"; fi");
    for level in LEVELS {
        let frontmatter = "---\nname: own\ndescription: d\nallowed-tools: own-folder write\n---\n";
        let project = Project::new()
            .file(".metier/skills/own/SKILL.md", frontmatter)
            .file(".metier/skills/own/scripts/main.sh", format!("#!/bin/sh\n{script}"))
            .file(".metier/skills/own/scripts/lib.sh", "echo good\n");
        assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
        assert_eq!(metier_at(&project, level, &["run", "own", "--for-model"]).stdout, "good\n");
        let args = ["run", "own", "--allow", "own-folder", "--allow", "write", "--", "swap"];
        let mut swapping = project.command(&args).env("METIER_SANDBOX_LEVEL", level).spawn().unwrap();
        let began = std::time::Instant::now();
        while !project.path("began").exists() {
            assert!(began.elapsed().as_secs() < 20, "{level}: it did not begin");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        for _ in 0..6 {
            let answer = metier_at(&project, level, &["run", "own", "--for-model"]);
            assert!(!answer.stdout.contains("evil"), "{level}: {answer:?}");
            assert!(answer.stdout == "good\n" || answer.code == 4, "{level}: {answer:?}");
        }
        assert!(swapping.wait().unwrap().success());
    }
}

#[test]
fn a_skill_that_calls_itself_and_may_change_its_folder_does_not_wait_for_itself() {
    let script = "if [ \"$METIER_TEST\" ]; then :; fi; metier ctx skill own 2>&1 || true";
    let frontmatter = "---\nname: own\ndescription: d\nallowed-tools: own-folder skill:own\n---\n";
    let project = Project::new()
        .file(".metier/skills/own/SKILL.md", frontmatter)
        .file(".metier/skills/own/scripts/main.sh", format!("#!/bin/sh\n{script}"));
    let args = ["run", "own", "--allow", "own-folder", "--allow", "skill:own", "--timeout", "20s"];
    let began = std::time::Instant::now();
    let answer = project.metier(&args);
    assert!(answer.stdout.contains("runs in the same folder"), "{answer:?}");
    assert!(began.elapsed().as_secs() < 15, "{answer:?}");
}

/// A skill of the project whose folder is a link to where something else runs what lies there.
#[test]
fn a_skill_whose_folder_lies_in_what_is_protected_may_not_change_it() {
    let script = "echo x > \"$METIER_SKILL_DIR/../pre-commit\"; echo x > \"$METIER_SKILL_DIR/new\"";
    let frontmatter = "---\nname: own\ndescription: d\nallowed-tools: own-folder\n---\n";
    let project_with = |folder: &str| {
        let project = Project::new()
            .file(&format!("{folder}/SKILL.md"), frontmatter)
            .file(&format!("{folder}/scripts/main.sh"), format!("#!/bin/sh\n{script}"))
            .file(".git/config", "[core]\n\thooksPath = tools/checks\n")
            .file("tree/.git", "gitdir: ../meta\n");
        for file in ["bare/HEAD", "bare/objects/x", "bare/refs/x", "meta/hooks/x"] {
            write(&project.path(file), "");
        }
        project
    };
    for level in LEVELS {
        for folder in [
            ".git/hooks/own",
            ".git/own",
            "nested/.git/hooks/own",
            ".vscode/sub/own",
            ".husky/own",
            ".idea/own",
            ".config/nvim/own",
            ".ssh/own",
            "bare",
            "bare/hooks/own",
            "meta/hooks/own",
            "tools/checks/own",
        ] {
            let project = project_with(folder);
            std::fs::create_dir_all(project.path(".metier/skills")).unwrap();
            symlink(project.path(folder), project.path(".metier/skills/own")).unwrap();
            let before = project.tree();
            let answer = metier_at(&project, level, &["run", "own", "--allow", "own-folder"]);
            assert_ne!(answer.code, 0, "{level} {folder} {answer:?}");
            assert_eq!(project.tree(), before, "{level} {folder} {answer:?}");
        }
        for (folder, link, target) in [
            ("tools/own", Some(".metier/skills/own"), "../../tools/own"),
            ("mine/skills/own", Some(".metier"), "mine"),
            ("mine/own", Some(".metier/skills"), "../mine"),
            (".agents/skills/own", Some(".claude/skills"), "../.agents/skills"),
            (".metier/skills/own", None, ""),
            (".agents/skills/own", None, ""),
        ] {
            let project = project_with(folder);
            if let Some(link) = link {
                std::fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
                symlink(target, project.path(link)).unwrap();
            }
            let answer = metier_at(&project, level, &["run", "own", "--allow", "own-folder"]);
            assert!(project.path(&format!("{folder}/new")).exists(), "{level} {folder} {answer:?}");
        }
    }
}
