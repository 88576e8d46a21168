//! Which file on disk an error is located in, for an editor to open.

use std::path::PathBuf;

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Location, Result, SkillError};
use metier::executor::{RuntimeId, SkillExecutor, SkillInput, SkillOutput};
use metier::host::SkillContext;
use metier::registry::{EmbeddedSkill, Roots};

use crate::support::engine::{Project, granted};

#[track_caller]
fn location(engine: &Engine, skill: &str) -> Location {
    let outcome = engine.run(granted(Invocation::new(skill), &["skill:y"]));
    outcome.result.unwrap_err().location().unwrap().clone()
}

#[track_caller]
fn path(project: &Project) -> Option<PathBuf> {
    location(&project.engine(), "x").path().map(PathBuf::from)
}

#[test]
fn an_error_of_a_script_has_the_path_of_the_script() {
    for script in ["\nerror('no')", "return return", "ctx.read('none')"] {
        let project = Project::lua(script);
        let path = path(&project).unwrap();
        assert_eq!(path, project.path(".metier/skills/x/scripts/main.lua"), "{script}");
        assert!(path.is_absolute(), "{path:?}");
    }
}

#[test]
fn the_path_is_not_in_json() {
    let place = location(&Project::lua("error('no')").engine(), "x");
    assert!(place.path().is_some());
    let json = serde_json::to_string(&place).unwrap();
    assert_eq!(json, r#"{"file":"scripts/main.lua","line":1,"column":null}"#);
}

#[test]
fn an_error_of_a_contract_has_the_path_of_the_contract() {
    for contract in ["inputs: 5", "entrypoint: scripts/none.lua", "steps: [{tool: none, args: {a: '{{b}}'}}]"]
    {
        let project = Project::lua("return 1").file(".metier/skills/x/skill.yaml", contract);
        let file = project.path(".metier/skills/x/skill.yaml");
        let engine = project.engine();
        assert_eq!(path(&project).as_ref(), Some(&file), "{contract}");
        let error = engine.explain(&Invocation::new("x")).unwrap_err();
        assert_eq!(error.location().unwrap().path(), Some(&*file), "{contract}");
        let availability = engine.availability(engine.registry().find("x").unwrap());
        let reason = availability.cannot_run().unwrap();
        assert_eq!(reason.location().unwrap().path(), Some(&*file), "{contract}");
    }
}

#[test]
fn an_error_of_a_skill_file_has_its_path() {
    let file = ".metier/skills/x/SKILL.md";
    for text in ["---\nname: x\n---\n", "---\nname: x\ndescription: d\nmetadata: {entrypoint: a.lua}\n---\n"]
    {
        let project = Project::lua("return 1").file(file, text);
        assert_eq!(path(&project), Some(project.path(file)), "{text}");
    }
}

#[test]
fn an_error_of_a_plan_and_of_its_caller_has_the_path_of_their_own_file() {
    let project = Project::lua_with_tools("skill:y", "return ctx.skill('y')")
        .skill("y", "")
        .file(".metier/skills/y/scripts/sequence.json", r#"[{"tool": "none", "args": {}}]"#);
    let engine = project.engine();
    let plan = location(&engine, "y");
    assert_eq!(plan.path(), Some(&*project.path(".metier/skills/y/scripts/sequence.json")));
    let caller = location(&engine, "x");
    assert_eq!(caller.path(), Some(&*project.path(".metier/skills/x/scripts/main.lua")));
}

static EMBEDDED: &[EmbeddedSkill] = &[
    EmbeddedSkill::new(
        "fails",
        &[("SKILL.md", b"---\nname: fails\ndescription: d\n---\n"), ("scripts/main.lua", b"error('no')")],
    ),
    EmbeddedSkill::new(
        "broken",
        &[
            ("SKILL.md", b"---\nname: broken\ndescription: d\n---\n"),
            ("scripts/main.lua", b"return 1"),
            ("skill.yaml", b"inputs: 5"),
        ],
    ),
    EmbeddedSkill::new("unnamed", &[("SKILL.md", b"---\nname: unnamed\n---\n")]),
];

#[test]
fn a_skill_inside_the_program_has_no_path() {
    let project = Project::new();
    let engine = project.builder().roots(Roots::empty().with_embedded("acme", EMBEDDED)).build().unwrap();
    for skill in ["fails", "broken", "unnamed"] {
        assert_eq!(location(&engine, skill).path(), None, "{skill}");
    }
}

/// An executor that says its error is in this file, as a hostile script may.
struct Claims(&'static str);

impl SkillExecutor for Claims {
    fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
        Err(SkillError::new(ErrorKind::Script, "no").with_location(Location::new(self.0, Some(1), None)))
    }
}

#[test]
fn a_script_cannot_choose_another_file() {
    let project = Project::lua("").file(".env", "").file(".metier/skills/x/other.lua", "");
    let script = project.path(".metier/skills/x/scripts/main.lua");
    for (claimed, expected) in [
        ("/etc/passwd", None),
        ("../../../.env", None),
        ("scripts/main.lua/../../../../../.env", None),
        ("scripts/main.lua2", None),
        ("other.lua", None),
        ("skill.yaml", None),
        ("", None),
        ("scripts/main.lua", Some(&script)),
        ("scripts/main.lua (module a/../../b)", Some(&script)),
    ] {
        let builder = project.builder().runtime(RuntimeId::LUA, &[], move |_| Ok(Box::new(Claims(claimed))));
        let place = location(&builder.build().unwrap(), "x");
        assert_eq!((&*place.file, place.path()), (claimed, expected.map(PathBuf::as_path)));
    }
}
