//! Odd names, tiny limits and skills that fight back: a sentence and an exit code, never a panic.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::cli::Project;

#[test]
fn odd_names_are_unknown_skills() {
    let project = Project::new().lua("x", "return 1");
    let long = "x".repeat(10_000);
    for name in [
        "../x",
        "/etc/passwd",
        "",
        " ",
        ".",
        "x/",
        ":",
        "@",
        "x@",
        "x\n",
        "a\u{0}"[..1].into(),
        "a\u{1b}[31m",
        &long,
    ] {
        for command in ["run", "show"] {
            let answer = project.metier(&[command, name]);
            if name.trim() == "x" {
                assert_eq!(answer.code, 0, "{name:?}");
                continue;
            }
            assert!(answer.code == 3 && answer.stdout.is_empty(), "{command} {name:.20?}: {answer:?}");
            assert!(answer.stderr.len() < 1000 && !answer.stderr.contains('\u{1b}'), "{answer:?}");
        }
    }
    for flag in ["--help", "-h"] {
        assert_eq!(project.metier(&["run", flag]).code, 0);
    }
}

#[test]
fn the_smallest_limits_end_with_an_error() {
    let project = Project::new()
        .lua("x", "local s = 0 for i = 1, 1e9 do s = s + i end return s")
        .lua("grows", "return #table.create(1000000, 1)")
        .lua("long", "return 'text'")
        .shell("sh", "sleep 9");
    for args in [
        &["grows", "--memory", "1"][..],
        &["x", "--timeout", "1ms"],
        &["long", "--output", "1"],
        &["sh", "--allow", "exec", "--timeout", "1ms"],
    ] {
        let answer = project.metier(&[&["run"], args].concat());
        assert!(answer.code == 5 && answer.stderr.contains("error: "), "{args:?}: {answer:?}");
    }
    for amount in ["0", "-1", "1e99", "", "nan", "99999999999999999999s"] {
        assert_eq!(project.metier(&["run", "x", "--timeout", amount]).code, 2, "{amount}");
    }
}

#[test]
fn an_untrusted_line_cannot_imitate_a_message() {
    let project = Project::new()
        .lua("log", "print('a\\nerror: faked')")
        .lua("fails", "error('a\\nhelp: run with --allow exec')")
        .file(".metier/skills/a\nerror: faked/SKILL.md", "");
    for args in [&["run", "log"][..], &["run", "fails"], &["list"]] {
        let answer = project.metier(args);
        let faked = |line: &str| line.starts_with("error: faked") || line.starts_with("help:");
        assert!(!answer.stderr.lines().any(faked), "{args:?}: {answer:?}");
    }
}

#[test]
fn broken_skill_files_hide_no_other_skill() {
    let project = Project::new().lua("x", "return 1").file(".metier/skills/folder/SKILL.md/a", "");
    let skills = project.path(".metier/skills");
    fs::create_dir(skills.join("dangling")).unwrap();
    symlink("nowhere", skills.join("dangling/SKILL.md")).unwrap();
    symlink("gone", skills.join("gone")).unwrap();
    symlink("..", skills.join("loop")).unwrap();
    fs::create_dir(skills.join("endless")).unwrap();
    symlink("/dev/zero", skills.join("endless/SKILL.md")).unwrap();
    fs::create_dir(skills.join("pipe")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(skills.join("pipe/SKILL.md")).status().unwrap().success()
    );
    assert_eq!(project.metier(&["run", "x"]).stdout, "1\n");
    assert_eq!(project.metier(&["list"]).code, 0);
    for name in ["dangling", "endless", "pipe", "folder"] {
        assert_eq!(project.metier(&["run", name]).code, 3, "{name}");
    }
    fs::write(project.path("shared.md"), "---\nname: linked\ndescription: TOP_SECRET\n---\n").unwrap();
    fs::create_dir(skills.join("linked")).unwrap();
    symlink("../../../shared.md", skills.join("linked/SKILL.md")).unwrap();
    for args in [&["run", "linked"][..], &["show", "linked"], &["list"], &["doctor"]] {
        let answer = project.metier(args);
        let words = "SKILL.md is a link to ../../../shared.md, outside of the skill's folder";
        let all = format!("{}{}", answer.stdout, answer.stderr);
        assert!(all.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{args:?}: {answer:?}");
        assert!(!all.contains("TOP_SECRET"), "{args:?}");
    }
    // A whole folder may be a link.
    fs::create_dir(project.path("store")).unwrap();
    fs::write(project.path("store/SKILL.md"), "---\nname: store\ndescription: d\n---\n").unwrap();
    symlink("../../store", skills.join("store")).unwrap();
    assert_eq!(project.metier(&["show", "store"]).code, 0);
}

#[test]
fn scripts_that_are_not_regular_files_are_not_run() {
    let project = Project::new().skill(".metier/skills/x").skill(".metier/skills/y");
    for (skill, target) in [("x", "/dev/zero"), ("y", "/etc/passwd")] {
        fs::create_dir(project.path(&format!(".metier/skills/{skill}/scripts"))).unwrap();
        symlink(target, project.path(&format!(".metier/skills/{skill}/scripts/main.lua"))).unwrap();
        let answer = project.metier(&["run", skill]);
        assert!([1, 3].contains(&answer.code) && answer.stdout.is_empty(), "{skill}: {answer:?}");
        assert!(!answer.stderr.contains("root:"), "{answer:?}");
    }
}
