//! From a name to a skill: who shadows whom, and how the shadowed are reached.

use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::registry::{Registry, Scope};
use metier::skill::Severity;

use crate::registry::project::{
    Project, each_answers_to_its_qualified_name, folder_of_name, names, problems, qualified, refused,
};

#[test]
fn the_project_beats_the_user_and_it_is_said() {
    // SY-T31
    let registry = Project::new()
        .versioned("home/.agents/skills/plan", "9.0.0")
        .versioned(".metier/skills/plan", "1.0.0")
        .registry();
    let plan = registry.find("plan").unwrap();
    assert_eq!(
        (plan.scope(), plan.qualified_name().as_str()),
        (Scope::Project, "project/.metier:plan@1.0.0")
    );
    assert_eq!(folder_of_name(&registry, "user:plan"), "home/.agents/skills/plan");
    let [problem] = registry.problems() else { panic!("{}", problems(&registry)) };
    assert_eq!((problem.severity, problem.skipped), (Severity::Info, false));
    assert_eq!(
        problem.message,
        "user/.agents:plan@9.0.0 is shadowed: `plan` means project/.metier:plan@1.0.0"
    );
}

#[test]
fn the_order_of_roots_beats_versions_and_within_a_root_the_higher_wins() {
    // CU-T16, SW-25, SW-T03
    let registry = Project::new()
        .versioned(".metier/skills/a/x", "0.0.9")
        .versioned(".metier/skills/b/x", "0.0.10")
        .versioned(".agents/skills/x", "9.0.0")
        .versioned("home/data/skills/a/x", "1.9.0")
        .versioned("home/data/skills/b/x", "1.10.0")
        .versioned("home/data/skills/c/x", "1.10.0-rc.1")
        .skill("home/data/skills/d/x")
        .registry();
    assert_eq!(folder_of_name(&registry, "x"), ".metier/skills/b/x");
    assert_eq!(registry.visible().count(), 1);
    assert_eq!(
        qualified(&registry),
        [
            "project/.metier:x@0.0.10",
            "project/.metier:x@0.0.9",
            "project/.agents:x@9.0.0",
            "user/metier:x@1.10.0",
            "user/metier:x@1.10.0-rc.1",
            "user/metier:x@1.9.0",
            "user/metier:x@0.0.0",
        ]
    );
}

#[test]
fn every_shadowed_skill_is_listed_reported_and_reachable_by_the_parts_that_are_enough() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.2.0")
        .versioned(".agents/skills/x", "1.0.0")
        .versioned(".agents/skills/more/x", "1.1.0")
        .versioned("home/.agents/skills/x", "1.0.0")
        .registry();
    assert_eq!(names(&registry), ["x"; 4]);
    assert_eq!(registry.visible().count(), 1);
    each_answers_to_its_qualified_name(&registry);
    for skill in registry.skills() {
        let is_first = skill.description() == ".metier/skills/x";
        assert_eq!(skill.shadowed_by(), (!is_first).then_some("project/.metier:x@1.2.0"));
        assert!(is_first || problems(&registry).contains(&skill.qualified_name()));
    }
    for (name, folder) in [
        ("x", ".metier/skills/x"),
        ("x@1.2.0", ".metier/skills/x"),
        ("x@1.1.0", ".agents/skills/more/x"),
        ("project:x@1.0.0", ".agents/skills/x"),
        (".metier:x", ".metier/skills/x"),
        ("project/.agents:x@1.0.0", ".agents/skills/x"),
        ("user:x", "home/.agents/skills/x"),
        ("user:x@1.0.0", "home/.agents/skills/x"),
        ("user/.agents:x", "home/.agents/skills/x"),
    ] {
        assert_eq!(folder_of_name(&registry, name), folder, "{name}");
    }
}

#[test]
fn what_fits_several_is_refused_with_the_candidates() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.0.0")
        .versioned(".agents/skills/x", "1.0.0")
        .versioned("home/.agents/skills/x", "1.0.0")
        .registry();
    for name in ["project:x", "project:x@1.0.0", "x@1.0.0"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill).to_string();
        assert!(error.contains("project/.agents:x@1.0.0"), "{error}");
    }
    assert_eq!(
        refused(&registry, ".agents:x", ErrorKind::UnknownSkill).message(),
        "`.agents:x` may be any of project/.agents:x@1.0.0, user/.agents:x@1.0.0"
    );
}

#[test]
fn a_name_that_fits_none_is_unknown_however_it_is_put_together() {
    // CU-T02
    let registry = Project::new().versioned(".metier/skills/x", "1.0.0").registry();
    for name in [
        "x@2.0.0",
        "explicit:x",
        "proj:x",
        "project.metier:x",
        ".metier/x",
        "project/.metier/y:x@1",
        "x@",
        ":x",
    ] {
        refused(&registry, name, ErrorKind::UnknownSkill);
    }
}

#[test]
fn of_equals_the_first_by_path_wins_with_a_warning() {
    let registry = Project::new()
        .skill_named(".metier/skills/b", "x", "")
        .skill(".metier/skills/a/x")
        .skill(".metier/skills/c/x")
        .registry();
    assert_eq!(folder_of_name(&registry, "x"), ".metier/skills/a/x");
    assert_eq!(
        qualified(&registry),
        ["project/.metier:x@0.0.0", "project/.metier/b:x@0.0.0", "project/.metier/c/x:x@0.0.0"]
    );
    each_answers_to_its_qualified_name(&registry);
    assert_eq!(registry.problems().len(), 2);
    for problem in registry.problems() {
        assert_eq!((problem.severity, problem.skipped), (Severity::Warning, false));
        assert!(problem.message.contains("same version"), "{problem}");
    }
}

#[test]
fn versions_that_differ_in_their_build_alone_are_reachable_too() {
    let registry = Project::new()
        .versioned(".metier/skills/a/x", "1.0.0+a")
        .versioned(".metier/skills/b/x", "1.0.0+b")
        .registry();
    assert_eq!(registry.skills().len(), 2);
    each_answers_to_its_qualified_name(&registry);
}

#[test]
fn a_misspelt_name_hears_what_was_meant() {
    let registry =
        Project::new().skills([".metier/skills/word-count", ".metier/skills/changelog"]).registry();
    for name in ["word-cuont", "wrod-count", "wordcount", "Word-Count", "project:word-coun"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill);
        assert_eq!(error.help(), Some("did you mean `word-count`?"), "{name}");
    }
    for name in ["entirely-else", "zzz"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill);
        let help = error.help().unwrap();
        assert!(!help.contains("did you mean") && help.contains("word-count"), "{help}");
    }
    let empty = refused(&Registry::default(), "x", ErrorKind::UnknownSkill);
    assert!(empty.help().is_some());
}

#[test]
fn names_are_compared_in_one_form() {
    let registry = Project::new().skill(".metier/skills/caf\u{e9}").registry();
    assert!(registry.find("cafe\u{301}").is_ok());
}

#[test]
fn a_name_without_end_is_answered_at_once_and_in_one_line() {
    let project = Project::new().skills((0..500).map(|n| format!(".metier/skills/skill-{n}")));
    let (registry, begun) = (project.registry(), Instant::now());
    for name in ["n".repeat(1 << 20), format!("project:{}", "n".repeat(1 << 20)), "a\nb\u{1b}[31m".into()] {
        let error = refused(&registry, &name, ErrorKind::UnknownSkill);
        assert!(error.message().len() < 500 && !error.message().contains(char::is_control), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_skill_cannot_call_itself_by_the_qualified_name_of_another() {
    let registry = Project::new()
        .versioned("home/data/skills/deploy", "1.0.0")
        .skill_named(".metier/skills/fake", "user/metier:deploy", "")
        .skill_named(".metier/skills/fake2", "user:deploy", "")
        .skill_named(".metier/skills/fake3", "deploy@1.0.0", "")
        .skill_named(".metier/skills/fake4", "user/metier:deploy@1.0.0", "")
        .registry();
    for name in [
        "user/metier:deploy@1.0.0",
        "user/metier:deploy",
        "user:deploy",
        "metier:deploy",
        "deploy@1.0.0",
        "deploy",
    ] {
        assert_eq!(folder_of_name(&registry, name), "home/data/skills/deploy", "{name}");
    }
}

#[test]
fn a_range_of_versions_finds_the_nearest_skill_whose_version_is_in_it() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.2.0")
        .versioned(".agents/skills/x", "2.1.0")
        .versioned("home/.agents/skills/x", "1.9.0")
        .versioned("home/data/skills/x", "2.0.0-rc.1")
        .registry();
    for (name, folder) in [
        ("x@^1", ".metier/skills/x"),
        ("x@1", ".metier/skills/x"),
        ("x@*", ".metier/skills/x"),
        ("x@~1.9", "home/.agents/skills/x"),
        ("x@>=1.5, <2", "home/.agents/skills/x"),
        ("x@>=1.5 <2", "home/.agents/skills/x"),
        ("x@>=2", ".agents/skills/x"),
        ("user:x@^1", "home/.agents/skills/x"),
        ("project/.agents:x@^2", ".agents/skills/x"),
        ("x@2.0.0-rc.1", "home/data/skills/x"),
    ] {
        assert_eq!(folder_of_name(&registry, name), folder, "{name}");
    }
}

#[test]
fn a_version_that_no_skill_has_is_refused_with_those_there_are() {
    let registry = Project::new()
        .versioned(".metier/skills/x", "1.2.0")
        .versioned(".agents/skills/x", "1.0.0")
        .registry();
    for name in ["x@^2", "x@9.9.9", "x@1.2.1", "project:x@<1"] {
        let error = refused(&registry, name, ErrorKind::UnknownSkill);
        let version = name.rsplit('@').next().unwrap();
        assert!(error.message().ends_with(&format!("has a version that fits `{version}`")), "{error}");
        assert_eq!(
            error.help(),
            Some("there are project/.metier:x@1.2.0, project/.agents:x@1.0.0"),
            "{name}"
        );
    }
    let error = refused(&registry, "y@^1", ErrorKind::UnknownSkill);
    assert_eq!(error.message(), "no skill is called `y@^1`");
}

#[test]
fn a_skill_cannot_call_itself_by_a_range_of_another() {
    let registry = Project::new()
        .versioned("home/data/skills/deploy", "1.0.0")
        .skill_named(".metier/skills/fake", "deploy@^1", "")
        .registry();
    assert_eq!(folder_of_name(&registry, "deploy@^1"), "home/data/skills/deploy");
}

#[test]
fn a_registry_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Registry>();
}
