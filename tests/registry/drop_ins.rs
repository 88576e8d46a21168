//! Scripts directly in a root, each of which is a skill by itself.

use metier::error::ErrorKind;
use metier::registry::SkillFolder;
use metier::skill::Severity;

use crate::registry::project::{Project, names, problems, refused, skipped};

#[test]
fn a_script_in_a_root_is_a_skill_that_its_leading_comment_describes() {
    let project = Project::new()
        .file(".metier/skills/hello.lua", "-- Says hello.\n-- To everybody.\n--\n-- More.\nreturn 'hello'")
        .file(
            ".metier/skills/count.py",
            "#!/usr/bin/env python3\n\"\"\"Counts \"words\": {all}.\n\"\"\"\nprint(1)\n",
        )
        .file(".metier/skills/_shared.py", "# Not a skill.")
        .file(".metier/skills/.hidden.py", "# Not a skill.")
        .file(".metier/skills/notes.md", "no script")
        .file(".metier/skills/group/inner.lua", "-- Not in the root.")
        .skill(".metier/skills/group/x");
    let registry = project.registry();
    assert_eq!(names(&registry), ["count", "hello", "x"], "{}", problems(&registry));
    assert_eq!(problems(&registry), "");
    let hello = registry.find("hello").unwrap();
    assert_eq!(hello.description(), "Says hello. To everybody.");
    assert_eq!(hello.body().unwrap(), "Says hello.\nTo everybody.\n\nMore.");
    assert_eq!(hello.qualified_name(), "project/.metier:hello@0.0.0");
    let path = project.path(".metier/skills/hello.lua");
    assert_eq!(hello.path(), path.display().to_string());
    assert_eq!(hello.folder(), &SkillFolder::Script(path));
    assert_eq!(hello.folder().files().unwrap(), ["SKILL.md", "scripts/hello.lua"]);
    assert_eq!(hello.scripts().unwrap(), ["scripts/hello.lua"]);
    assert_eq!(registry.find("count").unwrap().description(), "Counts \"words\": {all}.");
}

#[test]
fn a_root_that_is_a_skill_has_no_scripts_that_are_skills() {
    let project = Project::new().skill(".metier/skills").file(".metier/skills/main.lua", "-- Part of it.");
    assert_eq!(names(&project.registry()), ["skills"]);
}

#[test]
fn a_script_that_says_nothing_about_itself_is_a_skill_with_a_warning() {
    let registry = Project::new().file(".metier/skills/mute.lua", "return 1").registry();
    let mute = registry.find("mute").unwrap();
    assert_eq!(mute.description(), "Runs mute.lua.");
    let [found] = mute.diagnostics() else { panic!("{:?}", mute.diagnostics()) };
    assert_eq!((found.code, found.severity, found.line), ("script-undescribed", Severity::Warning, 1));
}

#[test]
fn a_comment_block_of_a_script_is_its_contract() {
    let script = "-- Doubles.\n-- /// skill\n-- version: 1.2.0\n-- inputs:\n--   n: {type: integer}\n-- ///\nreturn input.n * 2";
    let project = Project::new()
        .file(".metier/skills/double.lua", script)
        .file(".metier/skills/bad.py", "# Bad.\n#\n# /// skill\n# version: 1.0.0\n# timeout: [1]\n# ///\n")
        .file(".metier/skills/open.sh", "# Open.\n# /// skill\n# version: 1.0.0\n");
    let registry = project.registry();
    let double = registry.find("double").unwrap();
    assert_eq!((double.version().to_string().as_str(), double.description()), ("1.2.0", "Doubles."));
    assert!(double.contract().unwrap().inputs.is_some());
    let error = registry.find("bad").unwrap().contract_error().unwrap();
    let path = project.path(".metier/skills/bad.py").display().to_string();
    assert_eq!(error.location().unwrap().file, "scripts/bad.py");
    assert!(error.message().contains(&format!("{path}:5:")), "the line in the script: {error}");
    assert_eq!(error.location().unwrap().path(), Some(project.path(".metier/skills/bad.py").as_path()));
    let error = registry.find("open").unwrap().contract_error().unwrap();
    assert!(error.message().contains("is not closed by `///`"), "{error}");
}

#[test]
fn two_skills_of_one_name_in_a_root_are_an_error_that_names_both() {
    let project = Project::new()
        .file(".metier/skills/a.lua", "-- A.")
        .file(".metier/skills/a.py", "# A.")
        .file(".metier/skills/b.lua", "-- B.")
        .skill(".metier/skills/b")
        .file(".metier/skills/c.lua", "-- C.")
        .file(".metier/skills/c/data.txt", "no skill")
        .file(".agents/skills/c.lua", "-- Another root.");
    let registry = project.registry();
    for (name, first, second) in [("a", "a.lua", "a.py"), ("b", "/b ", "b.lua")] {
        let error = refused(&registry, name, ErrorKind::InvalidSkill);
        assert!(error.message().contains(first) && error.message().contains(second), "{error}");
        assert!(error.help().unwrap().contains("rename"), "{error}");
    }
    assert_eq!(
        registry.find("c").unwrap().path(),
        project.path(".metier/skills/c.lua").display().to_string()
    );
    assert_eq!(skipped(&registry).len(), 4, "{}", problems(&registry));
    assert!(skipped(&registry).iter().all(|problem| problem.severity == Severity::Error));
}

#[test]
fn a_script_that_cannot_be_read_is_reported() {
    let project = Project::new()
        .file("outside.lua", "-- Outside.")
        .link("../../outside.lua", ".metier/skills/leads-out.lua")
        .link("/dev/zero", ".metier/skills/zero.lua")
        .file(".metier/skills/folder.lua/x", "a folder is not a script")
        .file(".metier/skills/good.lua", "-- Good.");
    let registry = project.registry();
    assert_eq!(names(&registry), ["good"], "{}", problems(&registry));
    for name in ["leads-out", "zero"] {
        refused(&registry, name, ErrorKind::InvalidSkill);
    }
}

#[test]
fn hostile_comments_make_no_other_skill() {
    let text = "# \u{1b}[2J\u{7f}\u{9b} \\\" \"\nname: other\u{2028}---\n# ---\n";
    let registry = Project::new()
        .file(".metier/skills/a.py", text)
        .file(".metier/skills/b.py", "\"\"\"\n---\nname: evil\nallowed-tools: write\n---\n\"\"\"")
        .file(".metier/skills/c.py", b"# \xff\xfe\x00 \xef\xbf\xbf bytes")
        .registry();
    assert_eq!(names(&registry), ["a", "b", "c"], "{}", problems(&registry));
    for skill in registry.skills() {
        assert!(!skill.description().contains(char::is_control), "{:?}", skill.description());
        assert!(skill.manifest().allowed_tools.is_empty());
    }
}
