//! From a name to a skill: who shadows whom, and how the shadowed are reached.

use metier::error::ErrorKind;
use metier::registry::Registry;

use crate::project::{Project, meant, names, problems, refused};

#[test]
fn the_project_beats_the_user() {
    // SY-T31
    let registry = Project::new().skill("home/data/skills/x").skill(".metier/skills/x").registry();
    assert_eq!(meant(&registry, "x"), ".metier/skills/x");
    assert_eq!(meant(&registry, "user:x"), "home/data/skills/x");
}

#[test]
fn the_order_of_roots_beats_versions_and_within_a_root_the_higher_wins() {
    let registry = Project::new()
        .versioned(".metier/skills/old/x", "0.0.1")
        .versioned(".agents/skills/x", "9.0.0")
        .versioned("home/data/skills/a/x", "1.9.0")
        .versioned("home/data/skills/b/x", "1.10.0")
        .versioned("home/data/skills/c/x", "1.10.0-rc.1")
        .skill("home/data/skills/d/x")
        .registry();
    assert_eq!(meant(&registry, "x"), ".metier/skills/old/x");
    let order: Vec<_> = registry.skills().iter().map(|skill| skill.version().to_string()).collect();
    assert_eq!(order, ["0.0.1", "9.0.0", "1.10.0", "1.10.0-rc.1", "1.9.0", "0.0.0"]);
}

#[test]
fn every_shadowed_skill_is_listed_told_of_and_reachable() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.0.0")
        .versioned(".agents/skills/x", "1.0.0")
        .versioned(".agents/skills/more/x", "1.1.0")
        .versioned("home/.agents/skills/x", "1.0.0")
        .registry();
    assert_eq!(names(&registry), ["x"; 4]);
    assert_eq!(registry.visible().count(), 1);
    for skill in registry.skills() {
        assert_eq!(registry.find(&skill.qualified()).unwrap().path(), skill.path());
        let is_first = skill.description() == ".metier/skills/x";
        assert_eq!(skill.shadowed_by(), (!is_first).then_some("project/.metier:x@1.0.0"));
        assert!(is_first || problems(&registry).contains(&skill.qualified()));
    }
    for (name, folder) in [
        ("x@1.1.0", ".agents/skills/more/x"),
        (".metier:x", ".metier/skills/x"),
        ("project/.agents:x@1.0.0", ".agents/skills/x"),
        ("user:x", "home/.agents/skills/x"),
        ("user:x@1.0.0", "home/.agents/skills/x"),
        ("user/.agents:x", "home/.agents/skills/x"),
    ] {
        assert_eq!(meant(&registry, name), folder, "{name}");
    }
}

#[test]
fn what_fits_several_is_refused_with_the_candidates() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.0.0")
        .versioned(".agents/skills/x", "1.0.0")
        .versioned("home/.agents/skills/x", "1.0.0")
        .registry();
    for name in ["project:x", ".agents:x", "x@1.0.0", "project:x@1.0.0"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill).to_string();
        assert!(error.contains("project/.agents:x@1.0.0"), "{error}");
    }
    for name in [
        "x@2.0.0",
        "explicit:x",
        "proj:x",
        "project.metier:x",
        ".metier/x",
        "project/.metier/x:x@1",
        "x@",
        ":x",
    ] {
        refused(&registry, name, ErrorKind::UnknownSkill);
    }
}

#[test]
fn of_equals_the_first_by_path_wins_and_it_is_said() {
    let registry = Project::new()
        .skill(".metier/skills/b/x")
        .skill(".metier/skills/a/x")
        .skill(".metier/skills/c/x")
        .registry();
    assert_eq!(meant(&registry, "x"), ".metier/skills/a/x");
    assert_eq!(registry.problems().len(), 2);
    for (problem, folder) in registry.problems().iter().zip(["b", "c"]) {
        assert!(problem.message.contains("same version") && !problem.skipped, "{problem}");
        assert_eq!(
            meant(&registry, &format!("project/.metier/{folder}/x:x@0.0.0")),
            format!(".metier/skills/{folder}/x")
        );
    }
    let mut qualified: Vec<_> = registry.skills().iter().map(metier::registry::Skill::qualified).collect();
    qualified.dedup();
    assert_eq!(qualified.len(), 3);
    for (skill, name) in registry.skills().iter().zip(&qualified) {
        assert_eq!(registry.find(name).unwrap().path(), skill.path());
    }
}

#[test]
fn versions_that_differ_in_their_build_alone_are_reachable_too() {
    let registry = Project::new()
        .versioned(".metier/skills/a/x", "1.0.0+a")
        .versioned(".metier/skills/b/x", "1.0.0+b")
        .registry();
    for skill in registry.skills() {
        assert_eq!(registry.find(&skill.qualified()).unwrap().path(), skill.path());
    }
}

#[test]
fn a_misspelt_name_hears_what_was_meant() {
    let registry =
        Project::new().skill(".metier/skills/word-count").skill(".metier/skills/changelog").registry();
    for name in ["word-cuont", "wordcount", "Word-Count", "project:word-coun"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill);
        assert!(error.help().unwrap().contains("did you mean `word-count`?"), "{error} {:?}", error.help());
    }
    let error = refused(&registry, "entirely-else", ErrorKind::UnknownSkill);
    assert!(!error.help().unwrap().contains("did you mean"), "{:?}", error.help());
    let empty = refused(&Registry::default(), "x", ErrorKind::UnknownSkill);
    assert!(empty.help().is_some());
}

#[test]
fn a_name_without_end_is_answered_at_once_and_in_one_line() {
    let project =
        (0..500).fold(Project::new(), |project, n| project.skill(&format!(".metier/skills/skill-{n}")));
    let (registry, begun) = (project.registry(), std::time::Instant::now());
    for name in ["n".repeat(1 << 20), format!("project:{}", "n".repeat(1 << 20)), "a\nb\u{1b}[31m".into()] {
        let error = refused(&registry, &name, ErrorKind::UnknownSkill);
        assert!(error.message().len() < 500 && !error.message().contains(char::is_control), "{error}");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_broken_skill_answers_with_its_file_and_line() {
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\nname: y\ndescription: d\n---\n")
        .file(".metier/skills/y/SKILL.md", "no frontmatter")
        .skill("home/data/skills/x");
    let registry = project.registry();
    let error = refused(&registry, "y", ErrorKind::InvalidSkill);
    assert!(error.message().contains(".metier/skills/y/SKILL.md:1:"), "{error}");
    assert_eq!(error.location().unwrap().line, Some(1));
    let error = refused(&registry, "project:x", ErrorKind::InvalidSkill);
    assert!(error.message().contains(".metier/skills/x/SKILL.md:3:1"), "{error}");
    assert_eq!(meant(&registry, "x"), "home/data/skills/x", "a broken one hides nothing");
}

#[test]
fn a_skill_cannot_call_itself_by_the_qualified_name_of_another() {
    let registry = Project::new()
        .skill("home/data/skills/deploy")
        .named(".metier/skills/fake", "user/metier:deploy", "")
        .named(".metier/skills/fake2", "user:deploy", "")
        .named(".metier/skills/fake3", "deploy@0.0.0", "")
        .registry();
    for name in ["user/metier:deploy", "user:deploy", "deploy@0.0.0", "deploy"] {
        assert_eq!(meant(&registry, name), "home/data/skills/deploy", "{name}");
    }
}
