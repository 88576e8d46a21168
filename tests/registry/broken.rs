//! One bad skill hides no other, and says why it is bad.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::skill::Severity;

use crate::registry::project::{Project, folder_of_name, names, problems, refused, skipped};

#[test]
fn one_broken_skill_among_ten_leaves_nine() {
    // SY-T34, SY-16
    for frontmatter in ["name: broken", "name: broken\nname: twice\ndescription: d"] {
        let project = Project::new()
            .skills((0..9).map(|n| format!(".metier/skills/skill-{n}")))
            .file(".metier/skills/broken/SKILL.md", format!("---\n{frontmatter}\n---\n"));
        let registry = project.registry();
        assert_eq!(registry.skills().len(), 9);
        let [problem] = registry.problems() else { panic!("{}", problems(&registry)) };
        assert!(problem.skipped && problem.path == project.path(".metier/skills/broken/SKILL.md"));
        assert!(problem.to_string().contains("broken/SKILL.md:"), "{problem}");
    }
}

#[test]
fn whoever_asks_for_a_broken_skill_hears_why_and_where() {
    let registry = Project::new()
        .file(".metier/skills/half/SKILL.md", "---\nname: half\n---\n")
        .file(".metier/skills/twice/SKILL.md", "---\nname: twice\nname: y\ndescription: d\n---\n")
        .file(".metier/skills/none/SKILL.md", "name: none")
        .registry();
    for (name, place, why) in [
        ("half", "/half/SKILL.md:", "description"),
        ("project:half", "/half/SKILL.md:", "description"),
        (".metier:half", "/half/SKILL.md:", "description"),
        ("twice", "/twice/SKILL.md:3:1", "name"),
        ("none", "/none/SKILL.md:1:", "frontmatter"),
    ] {
        let error = refused(&registry, name, ErrorKind::InvalidSkill);
        let message = error.message();
        assert!(message.contains(&format!(".metier/skills{place}")) && message.contains(why), "{error}");
        assert!(error.location().unwrap().line.is_some(), "{name}");
    }
    let error = refused(&registry, "none", ErrorKind::InvalidSkill);
    assert_eq!(error.location().unwrap().line, Some(1));
    refused(&registry, "user:half", ErrorKind::UnknownSkill);
}

#[test]
fn a_definition_that_is_empty_is_reported_with_its_line() {
    for file in ["skill.yaml", "skill.yml", "skill.json"] {
        let project =
            Project::new().file(&format!(".metier/skills/half/{file}"), "").skill(".metier/skills/x");
        let registry = project.registry();
        let [problem] = registry.problems() else { panic!("{file}: {}", problems(&registry)) };
        assert_eq!((problem.severity, problem.skipped), (Severity::Error, true), "{file}");
        assert_eq!(problem.path, project.path(&format!(".metier/skills/half/{file}")), "{file}");
        let error = refused(&registry, "half", ErrorKind::InvalidSkill);
        assert!(error.message().contains("must be a map"), "{error}");
    }
}

#[test]
fn a_folder_that_lacks_only_its_skill_md_is_reported_with_what_it_has() {
    for (file, sign) in [("scripts/main.py", "scripts"), ("main.lua", "main.lua"), ("SKILL.MD", "SKILL.MD")] {
        let project =
            Project::new().file(&format!(".metier/skills/half/{file}"), "").skill(".metier/skills/x");
        let registry = project.registry();
        let [problem] = registry.problems() else { panic!("{file}: {}", problems(&registry)) };
        assert_eq!((problem.severity, problem.skipped), (Severity::Warning, true), "{file}");
        assert_eq!(problem.path, project.path(".metier/skills/half"), "{file}");
        assert_eq!(
            problem.message,
            format!("it has {sign}, but no SKILL.md, so it is not a skill and no model sees it")
        );
        assert!(problem.help.as_ref().unwrap().contains("half/SKILL.md"), "{file}");
        let error = refused(&registry, "half", ErrorKind::InvalidSkill);
        assert!(error.message().contains("no SKILL.md") && error.help().is_some(), "{error}");
    }
}

#[test]
fn folders_of_a_skill_and_around_skills_are_not_taken_for_unfinished_ones() {
    let registry = Project::new()
        .skill(".metier/skills/group/x")
        .file(".metier/skills/group/scripts/shared.py", "")
        .file(".metier/skills/group/lint.py", "")
        .file(".metier/skills/group/x/scripts/main.lua", "")
        .file(".metier/skills/group/x/assets/template/skill.yaml", "")
        .file(".metier/skills/install.sh", "")
        .file(".metier/skills/notes/readme.txt", "")
        .registry();
    let reported: Vec<_> = registry.problems().iter().map(|problem| problem.path.clone()).collect();
    assert!(reported.iter().all(|path| path.ends_with("group/scripts")), "{}", problems(&registry));
}

#[test]
fn a_broken_skill_does_not_hide_a_good_one_of_its_name() {
    let registry = Project::new()
        .file(".metier/skills/half/SKILL.md", "---\nname: half\n---\n")
        .file(".metier/skills/twice/SKILL.md", "---\nname: twice\nname: y\ndescription: d\n---\n")
        .skills(["home/data/skills/half", "home/data/skills/twice"])
        .registry();
    for name in ["half", "twice"] {
        assert_eq!(folder_of_name(&registry, name), format!("home/data/skills/{name}"));
        refused(&registry, &format!("project:{name}"), ErrorKind::InvalidSkill);
    }
}

#[test]
fn what_is_no_skill_file_neither_hangs_nor_hides() {
    let project = Project::new()
        .skill(".metier/skills/good")
        .file(".metier/skills/folder/SKILL.md/inside", "")
        .file(".metier/skills/fifo/a", "")
        .file(".metier/skills/binary/SKILL.md", [0xff, 0xfe, 0, 1, 2])
        .file(".metier/skills/bytes/SKILL.md", b"---\n\xff\n---\n")
        .file(".metier/skills/empty/SKILL.md", "")
        .file(".metier/skills/huge/SKILL.md", "")
        .file(".metier/skills/file-not-folder", "")
        .link("/dev/zero", ".metier/skills/device/SKILL.md")
        .link("/dev/tty", ".metier/skills/terminal/SKILL.md")
        .link("/proc/self/mem", ".metier/skills/process/SKILL.md")
        .link("SKILL.md", ".metier/skills/itself/SKILL.md");
    let huge = File::options().write(true).open(project.path(".metier/skills/huge/SKILL.md")).unwrap();
    huge.set_len(50 << 30).unwrap();
    let fifo = project.path(".metier/skills/fifo/SKILL.md");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    let begun = Instant::now();
    let registry = project.registry();
    assert_eq!(names(&registry), ["good"]);
    let bad =
        ["binary", "bytes", "device", "empty", "fifo", "folder", "huge", "itself", "process", "terminal"];
    for name in bad {
        refused(&registry, name, ErrorKind::InvalidSkill);
    }
    assert_eq!(skipped(&registry).len(), bad.len(), "{}", problems(&registry));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_folder_whose_name_is_no_text_may_hold_a_skill() {
    let project = Project::new().skill(".metier/skills/good");
    let odd = project.path(".metier/skills").join(OsStr::from_bytes(b"not-\xff-text"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("SKILL.md"), "---\ndescription: named by its folder\n---\nthe text\n").unwrap();
    let registry = project.registry();
    assert_eq!(names(&registry), ["good", "not-\u{fffd}-text"]);
    assert_eq!(registry.skills()[1].body().unwrap(), "the text");
}

#[test]
fn a_folder_that_cannot_be_entered_is_named() {
    let project = Project::new().skills([".metier/skills/good", ".metier/skills/locked"]);
    let locked = project.path(".metier/skills/locked");
    fs::set_permissions(&locked, Permissions::from_mode(0o0)).unwrap();
    let registry = project.registry();
    fs::set_permissions(&locked, Permissions::from_mode(0o755)).unwrap();
    assert!(names(&registry).contains(&"good"));
    // The superuser enters every folder.
    if registry.skills().len() == 1 {
        assert!(skipped(&registry)[0].message.contains("ermission denied"), "{}", problems(&registry));
    }
}

#[test]
fn a_contract_by_another_name_is_reported() {
    let project = Project::new()
        .skills([".metier/skills/a", ".metier/skills/b"])
        .file(".metier/skills/a/Skill.yaml", "name: a")
        .file(".metier/skills/b/skill.yaml", "name: b")
        .file(".metier/skills/no-skill/SKILL.YAML", "name: a");
    let registry = project.registry();
    let [problem] = registry.problems() else { panic!("{}", problems(&registry)) };
    assert!(!problem.skipped && problem.path == project.path(".metier/skills/a/Skill.yaml"));
    assert_eq!(problem.help.as_deref(), Some("rename it to skill.yaml"));
    assert_eq!(names(&registry), ["a", "b"]);
}
