//! Skills inside the program of an embedder.

use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::registry::{EmbeddedSkill, Registry, Root, Roots, Scope};
use serde_json::json;

use crate::engine::runtimes::with_calc;
use crate::support::engine::{Project, granted, kind, sentence, value};

static EMBEDDED: &[EmbeddedSkill] = &[
    EmbeddedSkill::new(
        "sum",
        &[
            // Not in the order of their names.
            ("skill.yml", br#"{"runtime": "calc", "inputs": {"n": {"type": "integer"}}}"#),
            ("scripts/main.calc", b"1 + n"),
            ("SKILL.md", b"---\nname: sum\ndescription: Adds one.\n---\nThe body.\n"),
        ],
    ),
    EmbeddedSkill::new(
        "shell",
        &[
            ("SKILL.md", b"---\nname: shell\ndescription: d\n---\n"),
            ("scripts/main.sh", b"#!/bin/sh\ncat \"$(dirname \"$0\")/../data/a.txt\""),
            ("data/a.txt", b"beside the script"),
        ],
    ),
    EmbeddedSkill::new(
        "caller",
        &[
            ("SKILL.md", b"---\nname: caller\ndescription: d\nallowed-tools: skill:sum\n---\n"),
            ("scripts/sequence.json", br#"[{"skill": "sum", "args": {"n": 1}}]"#),
        ],
    ),
    EmbeddedSkill::new("empty", &[]),
    EmbeddedSkill::new(
        "leaves",
        &[
            ("SKILL.md", b"---\nname: leaves\ndescription: d\n---\n"),
            ("scripts/main.calc", b"1"),
            ("../../leaked", b"x"),
        ],
    ),
];

/// A skill of the name of a builtin one, and one of the first list.
static OTHERS: &[EmbeddedSkill] = &[
    EmbeddedSkill::new(
        "word-count",
        &[("SKILL.md", b"---\nname: word-count\ndescription: d\n---\n"), ("scripts/main.calc", b"5")],
    ),
    EmbeddedSkill::new(
        "sum",
        &[("SKILL.md", b"---\nname: sum\ndescription: d\n---\n"), ("scripts/main.calc", b"6")],
    ),
];

fn with_embedded(project: &Project) -> Engine {
    let roots = Roots::standard("metier-of-tests", project.root()).with_embedded("acme", EMBEDDED);
    with_calc(project).roots(roots.with_embedded("acme", OTHERS)).build().unwrap()
}

#[test]
fn a_skill_inside_the_program_is_found_listed_and_run() {
    let project = Project::new();
    let engine = with_embedded(&project);
    assert_eq!(value(engine.run(Invocation::new("sum").input(json!({"n": 1})))), json!(2));
    let wrong = engine.run(Invocation::new("sum").input(json!({"n": "1"})));
    assert_eq!(kind(&wrong), ErrorKind::InvalidInput, "its skill.yml counts");
    let registry = engine.registry();
    let skill = registry.find("sum").unwrap();
    assert_eq!(
        (skill.qualified_name().as_str(), skill.scope()),
        ("embedded/acme:sum@0.0.0", Scope::Embedded)
    );
    assert_eq!((skill.path().as_str(), skill.folder().disk_path()), ("embedded/acme:sum", None));
    assert_eq!(skill.body().unwrap().trim(), "The body.");
    assert_eq!(skill.folder().files().unwrap(), ["SKILL.md", "scripts/main.calc", "skill.yml"]);
    assert!(engine.registry().catalog().list().contains("- sum: Adds one.\n"));
    assert!(engine.availability(skill).is_runnable());
    assert_eq!(engine.explain(&Invocation::new("sum")).unwrap().skill, "embedded/acme:sum@0.0.0");
    let roots = engine.diagnosis().roots;
    let of_program: Vec<_> = roots.iter().filter(|root| root.path.is_none()).collect();
    let rows: Vec<_> = of_program.iter().map(|root| (root.scope, root.label.as_str(), root.skills)).collect();
    assert_eq!(rows[..2], [(Scope::Embedded, "acme", 4), (Scope::Embedded, "acme-2", 2)]);
    assert_eq!((rows[2].0, rows.len()), (Scope::Builtin, 3));
    let registry = engine.registry();
    let problem = registry.problems().iter().find(|problem| problem.path.ends_with("acme:empty"));
    assert!(problem.is_some(), "a skill without SKILL.md: {:?}", engine.registry().problems());
}

#[test]
fn an_external_script_inside_the_program_finds_the_files_beside_it() {
    let outcome = with_embedded(&Project::new()).run(Invocation::new("shell"));
    if !matches!(&outcome.result, Err(error) if error.kind() == ErrorKind::SandboxUnavailable) {
        assert_eq!(value(outcome), json!("beside the script"));
    }
}

#[test]
fn skills_inside_the_program_come_after_those_of_the_user_and_before_the_builtin_ones() {
    let project = Project::new();
    let engine = with_embedded(&project);
    assert_eq!(value(engine.run(Invocation::new("word-count"))), json!(5));
    assert_eq!(
        value(engine.run(Invocation::new("embedded/acme-2:sum"))),
        json!(6),
        "both have files of their own"
    );
    assert_eq!(value(engine.run(Invocation::new("sum").input(json!({"n": 1})))), json!(2));
    let registry = engine.registry();
    let builtin = registry.find("builtin:word-count").unwrap();
    assert_eq!(builtin.shadowed_by(), Some("embedded/acme-2:word-count@0.0.0"));
    let user = project.skill("y", "").file("home/sum/SKILL.md", "---\nname: sum\ndescription: d\n---\n");
    let roots = Roots::empty().with_embedded("acme", EMBEDDED).with(Root::new(
        Scope::User,
        "home",
        user.path("home"),
    ));
    assert_eq!(Registry::discover(&roots).find("sum").unwrap().scope(), Scope::User);
}

#[test]
fn a_project_does_not_take_the_place_of_what_a_skill_inside_the_program_calls() {
    let project = Project::new().skill("sum", "").file(".metier/skills/sum/scripts/main.calc", "666");
    let roots = project.roots().with_embedded("acme", EMBEDDED);
    let engine = with_calc(&project).roots(roots).build().unwrap();
    let run = |name| engine.run(granted(Invocation::new(name), &["skill:sum"]));
    assert_eq!(value(run("caller")), json!(2));
    assert_eq!(value(run("sum")), json!(666), "a person means the nearest");
}

#[test]
fn a_file_of_a_skill_inside_the_program_is_not_unpacked_outside_of_its_folder() {
    let outcome = with_embedded(&Project::new()).run(Invocation::new("leaves"));
    assert_eq!(kind(&outcome), ErrorKind::OutsideProject, "{outcome:?}");
    assert!(sentence(&outcome).contains("../../leaked is outside the skill"), "{outcome:?}");
}
