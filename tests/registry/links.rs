//! Links: followed to their end, each folder once, and out of a circle.

use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::registry::{Registry, Root, Roots, Scope};

use crate::registry::project::{Project, folder_of_name, names, problems, qualified, refused, skipped};

#[test]
fn linked_folders_are_followed_and_a_folder_reached_twice_counts_once() {
    let project = Project::new()
        .skills(["elsewhere/a", "pack/b", ".agents/skills/shared"])
        .link("../../elsewhere/a", ".metier/skills/a")
        .link("../../elsewhere/a", ".metier/skills/again")
        .link("../../elsewhere/a", ".agents/skills/a")
        .link("../../.agents/skills/shared", ".metier/skills/shared")
        .link("../../pack", ".metier/skills/pack")
        .link("../../pack", "home/data/skills");
    let registry = project.registry();
    assert_eq!(
        qualified(&registry),
        ["project/.metier:a@0.0.0", "project/.metier:b@0.0.0", "project/.metier:shared@0.0.0"]
    );
    assert_eq!(problems(&registry), "");
}

#[test]
fn a_real_folder_keeps_its_own_path_when_a_link_leads_there_too() {
    let project = Project::new().skill(".metier/skills/real").link("real", ".metier/skills/alias");
    let registry = project.registry();
    assert_eq!(names(&registry), ["real"]);
    let path = project.path(".metier/skills/real/SKILL.md");
    assert_eq!(registry.skills()[0].path(), path.display().to_string());
}

#[test]
fn a_project_reached_through_a_link_has_the_same_skills() {
    let project = Project::new().skill("real/.metier/skills/a").link("real", "link");
    let root = Root::new(Scope::Project, ".metier", project.path("link/.metier/skills"));
    let registry = Registry::discover(&Roots::empty().with(root));
    assert_eq!(folder_of_name(&registry, "a"), "real/.metier/skills/a");
}

#[test]
fn links_in_a_circle_end_and_are_named() {
    let project = Project::new()
        .skills([".metier/skills/a", ".agents/skills/b"])
        .link("..", ".metier/skills/a/parent")
        .link(".", ".metier/skills/a/itself")
        .link("loop", ".metier/skills/loop")
        .link("pong", ".metier/skills/ping")
        .link("ping", ".metier/skills/pong")
        .link("../y", ".metier/skills/x/to-y")
        .link("../x", ".metier/skills/y/to-x")
        .link("../../.agents/skills", ".metier/skills/theirs")
        .link("../../.metier/skills", ".agents/skills/ours")
        .link("/", ".metier/skills/everything")
        .link("/", ".metier/skills/a/b/c/d/everything")
        .link("nowhere", ".metier/skills/dangling");
    let begun = Instant::now();
    let registry = project.registry();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(names(&registry), ["a", "b"]);
    let named: Vec<_> = skipped(&registry).iter().map(|problem| problem.path.clone()).collect();
    for link in ["a/parent", "loop", "ping", "pong", "everything", "dangling"] {
        assert!(named.contains(&project.path(&format!(".metier/skills/{link}"))), "{link}: {named:?}");
    }
    assert!(problems(&registry).contains("leads back to a folder it lies in"), "{}", problems(&registry));
}

#[test]
fn ten_thousand_links_to_one_folder_cost_one_look() {
    let project = (0..2_000).fold(Project::new(), |project, n| project.file(&format!("store/{n}"), ""));
    let project =
        (0..10_000).fold(project, |project, n| project.link("../../store", &format!(".metier/skills/{n}")));
    let begun = Instant::now();
    assert!(project.registry().skills().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_linked_skill_file_is_read_inside_its_project_if_it_is_one() {
    let project = Project::new()
        .file(".metier/skills/stays/docs/real.md", "---\nname: stays\ndescription: d\n---\nthe text\n")
        .link("docs/real.md", ".metier/skills/stays/SKILL.md")
        .skill("source/shared")
        .link("../../../source/shared/SKILL.md", ".agents/skills/shared/SKILL.md")
        .skill("absolute");
    let target = project.path("absolute/SKILL.md");
    let project = project.link(target, ".metier/skills/absolute/SKILL.md");
    let registry = project.registry();
    assert_eq!(names(&registry), ["absolute", "shared", "stays"]);
    assert_eq!(registry.find("stays").unwrap().body().unwrap(), "the text");
    let path = project.path(".agents/skills/shared/SKILL.md");
    assert_eq!(registry.find("shared").unwrap().path(), path.display().to_string());
    assert_eq!(problems(&registry), "");
}

#[test]
fn a_linked_skill_file_of_another_name_or_place_is_not_read() {
    let elsewhere = Project::new().skill("elsewhere");
    let project = Project::new()
        .file("secret.md", "---\nname: text\ndescription: d\n---\n")
        .link("../../../secret.md", ".metier/skills/text/SKILL.md")
        .file("hidden/SKILL.md", "---\nname: hop\ndescription: d\n---\n")
        .link("../secret.md", "hop/SKILL.md")
        .link("../../../hop/SKILL.md", ".metier/skills/hop/SKILL.md")
        .link("/etc/hostname", ".metier/skills/absolute/SKILL.md")
        .link(elsewhere.path("elsewhere/SKILL.md"), ".metier/skills/elsewhere/SKILL.md")
        .link("/dev/zero", ".metier/skills/device/SKILL.md");
    let registry = project.registry();
    assert!(names(&registry).is_empty(), "{:?}", names(&registry));
    for name in ["absolute", "device", "elsewhere", "hop", "text"] {
        refused(&registry, name, ErrorKind::InvalidSkill);
    }
    assert_eq!(skipped(&registry).len(), 5, "{}", problems(&registry));
}
