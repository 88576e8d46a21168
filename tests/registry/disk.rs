//! Where skills are looked for below a root: how deep, how many, under which names, in which order.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::registry::project::{Project, names, problems, qualified, skipped};

#[test]
fn skills_lie_flat_in_groups_and_in_each_other() {
    Project::new()
        .skills([
            ".metier/skills/a",
            ".metier/skills/group/b",
            ".metier/skills/a/nested/c",
            ".metier/skills/1/2/3/4/5/d",
        ])
        .file(".metier/skills/not-a-skill/README.md", "")
        .finds(&["a", "b", "c", "d"]);
}

#[test]
fn the_root_itself_may_be_a_skill() {
    Project::new().skill_named(".metier/skills", "whole", "").finds(&["whole"]);
}

#[test]
fn other_spellings_are_taken_and_the_right_one_first() {
    // AS-T17
    let text = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nText");
    let project = Project::new()
        .file(".metier/skills/a/skill.md", text("a"))
        .file(".metier/skills/b/Skill.md", text("b"))
        .file(".metier/skills/c/SKILL.md", text("c"))
        .file(".metier/skills/c/skill.md", text("other"))
        .file(".metier/skills/d/SKILL.txt", text("d"));
    project.finds(&["a", "b", "c"]);
    let registry = project.registry();
    let lower = registry.find("a").unwrap();
    assert!(lower.path().ends_with("a/skill.md") && lower.body().unwrap() == "Text");
    for (name, code) in [("a", "file-name-lowercase"), ("b", "file-name")] {
        let diagnostics = registry.find(name).unwrap().diagnostics();
        assert!(diagnostics.iter().any(|found| found.code == code), "{name}: {diagnostics:?}");
    }
}

#[test]
fn other_peoples_folders_are_passed_over() {
    // AS-13
    [".git", "node_modules", "target", ".hidden", ".venv"]
        .iter()
        .fold(Project::new().skills([".metier/skills/a", ".metier/skills/pack/b"]), |project, folder| {
            project.skills(["", "a/", "pack/"].map(|place| format!(".metier/skills/{place}{folder}/inside")))
        })
        .finds(&["a", "b"]);
}

#[test]
fn the_order_is_that_of_names_and_not_of_the_disk() {
    let folders =
        ["zeta", "alpha", "mid/beta", "mid/gamma", "omega"].map(|folder| format!(".metier/skills/{folder}"));
    let forwards = Project::new().skills(&folders);
    let backwards = Project::new().skills(folders.iter().rev());
    for project in [forwards, backwards] {
        project.finds(&["alpha", "beta", "gamma", "omega", "zeta"]);
    }
}

#[test]
fn what_lies_deeper_than_six_folders_is_reported() {
    let registry = Project::new()
        .skills([".metier/skills/1/2/3/4/5/six", ".metier/skills/1/2/3/4/5/x/seven"])
        .registry();
    assert_eq!(names(&registry), ["six"]);
    let [problem] = skipped(&registry)[..] else { panic!("{}", problems(&registry)) };
    assert!(problem.message.contains("more than 6 deep"), "{problem}");
    assert!(problem.path.ends_with("1/2/3/4/5/x/seven"), "{problem}");
}

#[test]
fn ten_thousand_nested_folders_end_at_the_depth_cap() {
    let project = Project::new().skill(".metier/skills/good");
    let deep = project.path(".metier/skills/deep");
    nest(&deep, 10_000);
    let begun = Instant::now();
    let registry = project.registry();
    let took = begun.elapsed();
    unnest(&deep);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(names(&registry), ["good"]);
    assert!(skipped(&registry)[0].message.contains("deep"), "{}", problems(&registry));
}

#[test]
fn ten_thousand_skills_in_one_folder_all_load_in_the_same_order_every_time() {
    let folders = (0..10_000).map(|n| format!(".metier/skills/skill-{n:05}"));
    let project = Project::new().skills(folders);
    let registry = project.registry();
    assert_eq!(problems(&registry), "");
    let expected: Vec<_> = (0..10_000).map(|n| format!("skill-{n:05}")).collect();
    assert_eq!(names(&registry), expected);
    assert_eq!(qualified(&registry), qualified(&project.registry()));
}

#[test]
fn beyond_fifty_thousand_folders_the_nearest_are_found_and_it_is_said() {
    let project = Project::new().skills([".metier/skills/good", ".agents/skills/plan"]);
    let root = project.path(".metier/skills");
    fs::create_dir(root.join("zoo")).unwrap();
    for number in 0..25_050 {
        fs::create_dir(root.join(format!("z{number}"))).unwrap();
        fs::create_dir(root.join(format!("zoo/{number}"))).unwrap();
    }
    let registry = project.registry();
    assert_eq!(names(&registry), ["good", "plan"]);
    let [problem] = skipped(&registry)[..] else { panic!("{}", problems(&registry)) };
    assert!(problem.path == root && problem.message.contains("50000 folders"), "{problem}");
}

/// Folders in folders, each called `n`, made from the inside out because no path could name the innermost one.
fn nest(outer: &Path, depth: usize) {
    let spare = outer.with_extension("spare");
    fs::create_dir(outer).unwrap();
    for _ in 0..depth {
        fs::create_dir(&spare).unwrap();
        fs::rename(outer, spare.join("n")).unwrap();
        fs::rename(&spare, outer).unwrap();
    }
}

fn unnest(outer: &Path) {
    let spare = outer.with_extension("spare");
    while fs::rename(outer.join("n"), &spare).is_ok() {
        fs::remove_dir(outer).unwrap();
        fs::rename(&spare, outer).unwrap();
    }
}
