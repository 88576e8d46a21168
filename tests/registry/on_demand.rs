//! What a skill gives when it is asked, and not before.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::registry::{Registry, Roots, SkillFolder};

use crate::registry::project::{Project, names};

#[test]
fn only_the_head_of_a_skill_is_read() {
    let mut large = b"---\nname: large\ndescription: d\n---\n".to_vec();
    large.resize(40 << 20, b'\xff');
    let notes = "\u{fc}".repeat(20_000);
    let project =
        Project::new().skill(".metier/skills/huge").file(".metier/skills/large/SKILL.md", large).file(
            ".metier/skills/long/SKILL.md",
            format!("---\nname: long\ndescription: d\nnotes: {notes}\n---\nbody"),
        );
    let huge = File::options().write(true).open(project.path(".metier/skills/huge/SKILL.md")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let begun = Instant::now();
    let registry = project.registry();
    assert!(begun.elapsed() < Duration::from_secs(1), "a terabyte was not read");
    assert_eq!(names(&registry), ["huge", "large", "long"]);
    assert_eq!(registry.find("long").unwrap().body().unwrap(), "body");
    assert_eq!(registry.find("large").unwrap().body().unwrap_err().kind(), ErrorKind::Io);
    let error = registry.find("huge").unwrap().body().unwrap_err();
    assert!(error.message().contains("SKILL.md") && error.message().contains("bytes"), "{error}");
}

#[test]
fn a_body_is_read_anew_and_cut_where_it_then_has_to_be() {
    let project = Project::new().skill(".metier/skills/plan");
    let registry = project.registry();
    let plan = registry.find("plan").unwrap();
    assert_eq!(plan.body().unwrap(), "body of .metier/skills/plan");
    let file = project.path(".metier/skills/plan/SKILL.md");
    fs::write(&file, "---\nname: plan\ndescription: d\nlicense: MIT\nmore: x\n---\nAnother.").unwrap();
    assert_eq!(plan.body().unwrap(), "Another.");
    fs::remove_file(file).unwrap();
    assert_eq!(plan.body().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn scripts_and_files_are_read_when_asked_for() {
    // SY-19
    let project = Project::new()
        .skill(".metier/skills/plan")
        .file(".metier/skills/plan/scripts/b.sh", "b")
        .file(".metier/skills/plan/scripts/a.lua", "a")
        .file(".metier/skills/plan/scripts/.hidden", "")
        .file(".metier/skills/plan/scripts/lib/c.lua", "")
        .file(".metier/skills/plan/.env", "")
        .file("secret", "s")
        .link("/bin/sh", ".metier/skills/plan/scripts/link.sh")
        .link("../../../secret", ".metier/skills/plan/note");
    let registry = project.registry();
    let plan = registry.find("plan").unwrap();
    assert_eq!(plan.scripts().unwrap(), ["scripts/a.lua", "scripts/b.sh"]);
    let folder = plan.folder();
    assert_eq!(folder.files().unwrap(), ["SKILL.md", "scripts/a.lua", "scripts/b.sh", "scripts/lib/c.lua"]);
    assert_eq!(folder.read("./scripts/a.lua", 10).unwrap(), b"a");
    for (path, kind) in [
        ("note", ErrorKind::OutsideProject),
        ("../../../secret", ErrorKind::OutsideProject),
        ("/etc/passwd", ErrorKind::OutsideProject),
        ("scripts/link.sh", ErrorKind::OutsideProject),
        ("scripts", ErrorKind::Io),
        ("none", ErrorKind::Io),
    ] {
        assert_eq!(folder.read(path, 10).unwrap_err().kind(), kind, "{path}");
    }
    assert!(folder.read("SKILL.md", 10).unwrap_err().message().contains("more than the 10"));
}

#[test]
fn a_skill_without_scripts_has_none() {
    let project = Project::new()
        .skills([".metier/skills/plan", ".metier/skills/odd", ".metier/skills/leaves"])
        .file(".metier/skills/odd/scripts", "a file")
        .file("out/x.sh", "")
        .link("../../../out", ".metier/skills/leaves/scripts");
    let registry = project.registry();
    assert!(registry.find("plan").unwrap().scripts().unwrap().is_empty());
    for name in ["odd", "leaves"] {
        assert!(registry.find(name).unwrap().scripts().unwrap_or_default().is_empty(), "{name}");
    }
}

#[test]
fn a_skill_that_ships_gives_its_body_and_files_from_the_binary() {
    let project = Project::new();
    let registry = Registry::discover(&Roots::standard("metier-test-of-roots", project.root()));
    let skill = registry.find("builtin:word-count").unwrap();
    assert!(matches!(skill.folder(), SkillFolder::Embedded(_)) && skill.folder().disk_path().is_none());
    assert!(!skill.body().unwrap().is_empty());
    assert_eq!(skill.scripts().unwrap(), ["scripts/count.lua"]);
    assert!(skill.folder().read("scripts/count.lua", 1 << 20).is_ok());
    assert_eq!(skill.folder().read("../x", 1).unwrap_err().kind(), ErrorKind::OutsideProject);
}
