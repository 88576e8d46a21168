//! What lies on a disk: links, depths, crowds, and things that are no files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::{Duration, Instant};

use metier::error::ErrorKind;

use crate::project::{Project, meant, names, problems, refused};

#[test]
fn one_broken_skill_among_ten_hides_none() {
    // SY-T34
    let project = (0..9)
        .fold(Project::new(), |project, n| project.skill(&format!(".metier/skills/skill-{n}")))
        .file(".metier/skills/broken/SKILL.md", "---\nname: broken\n---\n");
    let registry = project.registry();
    assert_eq!((registry.skills().len(), registry.problems().len()), (9, 1));
    let problem = &registry.problems()[0];
    assert!(problem.skipped && problem.to_string().contains("broken/SKILL.md:"), "{problem}");
}

#[test]
fn skills_lie_flat_in_groups_and_in_each_other() {
    let project = Project::new()
        .skill(".metier/skills/a")
        .skill(".metier/skills/group/b")
        .skill(".metier/skills/a/nested/c")
        .skill(".metier/skills/1/2/3/4/5/d")
        .file(".metier/skills/not-a-skill/README.md", "");
    project.finds(&["a", "b", "c", "d"]);
}

#[test]
fn the_root_itself_may_be_a_skill() {
    Project::new().named(".metier/skills", "whole", "").finds(&["whole"]);
}

#[test]
fn other_spellings_are_taken_and_the_right_one_first() {
    let text = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    let project = Project::new()
        .file(".metier/skills/a/skill.md", text("a"))
        .file(".metier/skills/b/Skill.md", text("b"))
        .file(".metier/skills/c/SKILL.md", text("c"))
        .file(".metier/skills/c/skill.md", text("other"))
        .file(".metier/skills/d/SKILL.txt", text("d"));
    project.finds(&["a", "b", "c"]);
    let registry = project.registry();
    assert!(
        registry.find("a").unwrap().diagnostics().iter().any(|found| found.code == "file-name-lowercase")
    );
    assert!(registry.find("b").unwrap().diagnostics().iter().any(|found| found.code == "file-name"));
}

#[test]
fn other_peoples_folders_are_passed_over() {
    [".git", "node_modules", "target", ".hidden", ".venv"]
        .iter()
        .fold(Project::new().skill(".metier/skills/a"), |project, folder| {
            project
                .skill(&format!(".metier/skills/{folder}/inside"))
                .skill(&format!(".metier/skills/a/{folder}/inside"))
        })
        .finds(&["a"]);
}

#[test]
fn linked_folders_are_followed_and_count_once() {
    let project = Project::new()
        .skill("elsewhere/a")
        .skill("pack/b")
        .link("../../elsewhere/a", ".metier/skills/a")
        .link("../../elsewhere/a", ".metier/skills/again")
        .link("../../pack", ".metier/skills/pack")
        .link("../../pack", ".agents/skills");
    project.finds(&["a", "b"]);
}

#[test]
fn a_real_folder_keeps_its_own_path_when_a_link_leads_there_too() {
    let project = Project::new().skill(".metier/skills/real").link("real", ".metier/skills/alias");
    let registry = project.registry();
    assert_eq!(names(&registry), ["real"]);
    assert!(registry.skills()[0].path().ends_with("skills/real/SKILL.md"));
}

#[test]
fn links_in_circles_end() {
    let project = Project::new()
        .skill(".metier/skills/a")
        .skill(".agents/skills/b")
        .link("..", ".metier/skills/a/parent")
        .link(".", ".metier/skills/a/itself")
        .link("loop", ".metier/skills/loop")
        .link("pong", ".metier/skills/ping")
        .link("ping", ".metier/skills/pong")
        .link("../../.agents/skills", ".metier/skills/theirs")
        .link("../../.metier/skills", ".agents/skills/ours")
        .link("/", ".metier/skills/a/b/c/d/everything")
        .link("nowhere", ".metier/skills/dangling");
    let begun = Instant::now();
    let registry = project.registry();
    let found = |name: &str| names(&registry).iter().filter(|found| **found == name).count();
    assert_eq!((found("a"), found("b")), (1, 1));
    assert!(problems(&registry).contains("skills/dangling"), "{}", problems(&registry));
    assert!(problems(&registry).contains("leads back to a folder it lies in"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn what_lies_too_deep_is_told() {
    let project = Project::new().skill(".metier/skills/1/2/3/4/5/6").skill(".metier/skills/1/2/3/4/5/x/7");
    let registry = project.registry();
    assert_eq!(names(&registry), ["6"]);
    let told = registry.problems().iter().find(|problem| problem.message.contains("deep")).unwrap();
    assert!(told.skipped && told.path.ends_with("1/2/3/4/5/x/7"), "{told}");
}

#[test]
fn ten_thousand_skills_in_one_folder_all_load_in_order() {
    let project = Project::new();
    let root = project.path(".metier/skills");
    for number in 0..10_000 {
        let folder = root.join(format!("skill-{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), format!("---\nname: skill-{number}\ndescription: d\n---\n"))
            .unwrap();
    }
    let (registry, again) = (project.registry(), project.registry());
    assert_eq!((registry.skills().len(), registry.problems().len()), (10_000, 0));
    assert_eq!(names(&registry), names(&again));
    assert!(names(&registry).is_sorted());
}

#[test]
fn beyond_fifty_thousand_folders_the_first_are_found_and_it_is_said() {
    let project = Project::new().skill(".metier/skills/a").skill(".agents/skills/b");
    let root = project.path(".metier/skills");
    for number in 0..50_010 {
        fs::create_dir(root.join(format!("z{number}"))).unwrap();
    }
    let registry = project.registry();
    assert_eq!(names(&registry), ["a", "b"]);
    assert!(problems(&registry).contains("folders"), "{}", problems(&registry));
}

#[test]
fn the_order_is_that_of_names_and_not_of_the_disk() {
    let folders = ["zeta", "alpha", "mid/beta", "mid/gamma", "omega"];
    let forwards = folders
        .iter()
        .fold(Project::new(), |project, folder| project.skill(&format!(".metier/skills/{folder}")));
    let backwards = folders
        .iter()
        .rev()
        .fold(Project::new(), |project, folder| project.skill(&format!(".metier/skills/{folder}")));
    for project in [forwards, backwards] {
        project.finds(&["alpha", "beta", "gamma", "omega", "zeta"]);
    }
}

#[test]
fn a_linked_text_is_read_inside_its_folder_only() {
    let project = Project::new()
        .file(".metier/skills/stays/docs/real.md", "---\nname: stays\ndescription: d\n---\nthe text\n")
        .link("docs/real.md", ".metier/skills/stays/SKILL.md")
        .file("secret.md", "---\nname: leaves\ndescription: d\n---\n")
        .link("../../../secret.md", ".metier/skills/leaves/SKILL.md")
        .link("/etc/hostname", ".metier/skills/absolute/SKILL.md");
    let registry = project.registry();
    assert_eq!(names(&registry), ["stays"]);
    assert_eq!(registry.find("stays").unwrap().body().unwrap(), "the text");
    refused(&registry, "leaves", ErrorKind::InvalidSkill);
    refused(&registry, "absolute", ErrorKind::InvalidSkill);
}

#[test]
fn what_is_no_file_neither_hangs_nor_hides() {
    let project = Project::new()
        .skill(".metier/skills/good")
        .file(".metier/skills/folder/SKILL.md/inside", "")
        .file(".metier/skills/fifo/a", "")
        .file(".metier/skills/binary/SKILL.md", [0xff, 0xfe, 0, 1, 2])
        .file(".metier/skills/empty/SKILL.md", "")
        .file(".metier/skills/file-not-folder", "")
        .link("/dev/zero", ".metier/skills/device/SKILL.md")
        .link("/dev/tty", ".metier/skills/terminal/SKILL.md")
        .link("SKILL.md", ".metier/skills/itself/SKILL.md");
    let fifo = project.path(".metier/skills/fifo/SKILL.md");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    let odd = project.path(".metier/skills").join(OsStr::from_bytes(b"not-\xff-text"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("SKILL.md"), "---\ndescription: named by its folder\n---\nthe text\n").unwrap();
    let begun = Instant::now();
    let registry = project.registry();
    assert_eq!(names(&registry), ["good", "not-\u{fffd}-text"]);
    assert_eq!(registry.skills()[1].body().unwrap(), "the text");
    for name in ["folder", "fifo", "binary", "empty", "device", "terminal", "itself"] {
        refused(&registry, name, ErrorKind::InvalidSkill);
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn bodies_are_not_read_before_they_are_asked_for() {
    let project = Project::new().skill(".metier/skills/huge").skill(".metier/skills/later");
    let huge = File::options().write(true).open(project.path(".metier/skills/huge/SKILL.md")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let begun = Instant::now();
    let registry = project.registry();
    assert!(begun.elapsed() < Duration::from_secs(1), "a terabyte was not read");
    assert_eq!(names(&registry), ["huge", "later"]);
    let error = registry.find("huge").unwrap().body().unwrap_err();
    assert!(error.message().contains("SKILL.md") && error.message().contains("bytes"), "{error}");
    let later = project.path(".metier/skills/later/SKILL.md");
    fs::write(&later, "---\nname: later\ndescription: d\n---\nwritten after discovery\n").unwrap();
    assert_eq!(registry.find("later").unwrap().body().unwrap(), "written after discovery");
    fs::remove_file(later).unwrap();
    assert_eq!(registry.find("later").unwrap().body().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_project_reached_through_a_link_has_the_same_skills() {
    let project = Project::new().skill("real/.metier/skills/a").link("real", "link");
    let root = metier::registry::Root::new(
        metier::registry::Scope::Project,
        ".metier",
        project.path("link/.metier/skills"),
    );
    let registry = metier::registry::Registry::discover(&metier::registry::Roots::empty().with(root));
    assert_eq!(meant(&registry, "a"), "real/.metier/skills/a");
}
