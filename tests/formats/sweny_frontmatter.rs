//! The keys that SWEny adds to the frontmatter of a `SKILL.md`, by the numbers of the acceptance cases.

use metier::engine::Invocation;
use metier::formats::import;
use metier::policy::ConfigRequirement;
use metier::registry::{Registry, Root, Roots, Scope};
use metier::skill::contract::{Contract, DefinitionFormat};
use metier::skill::{Diagnostic, Severity};
use serde_json::json;

use crate::formats::sweny::settings_reach_the_script;
use crate::support::engine::{Project, value};

/// The contract of the skill `x` whose frontmatter has these lines, and what is worth knowing about it.
#[track_caller]
fn read(frontmatter: &str) -> (Contract, Vec<Diagnostic>) {
    let project = Project::new().skill("x", frontmatter);
    let engine = project.engine();
    let registry = engine.registry();
    let skill = registry.find("x").unwrap();
    let contract = skill.contract().unwrap_or_else(|| panic!("{frontmatter}")).clone();
    assert_eq!(contract.format, DefinitionFormat::SwenyFrontmatter);
    (contract, skill.contract_diagnostics().to_vec())
}

fn codes(diagnostics: &[Diagnostic]) -> Vec<&str> {
    diagnostics.iter().map(|found| found.code).collect()
}

#[test]
fn sw_20_the_keys_of_the_frontmatter_are_read() {
    let (contract, diagnostics) = read(
        "category: git\nconfig:\n  GITHUB_TOKEN: {description: A token, required: true}\n  PLAIN: {}\n  OTHER: {env: MY_OTHER}\n  word: not a map\nmcp: {url: 'https://a.example/mcp'}\nmcpAliases: {search: [find]}\n",
    );
    assert_eq!(contract.publication.category.as_deref(), Some("git"));
    let settings: Vec<_> = contract
        .config
        .iter()
        .map(|field| {
            (field.key.as_str(), field.description.as_deref(), field.env.as_deref(), field.requirement)
        })
        .collect();
    let optional = ConfigRequirement::Optional;
    assert_eq!(
        settings,
        [
            ("GITHUB_TOKEN", Some("A token"), Some("GITHUB_TOKEN"), ConfigRequirement::Required),
            ("PLAIN", Some("PLAIN"), Some("PLAIN"), optional),
            ("OTHER", Some("OTHER"), Some("MY_OTHER"), optional),
        ],
        "SW-T13"
    );
    assert_eq!(contract.mcp.unwrap().url.as_deref(), Some("https://a.example/mcp"));
    assert_eq!(contract.tool_aliases, [("search".to_owned(), vec!["find".to_owned()])]);
    assert_eq!(codes(&diagnostics), [""; 0]);
    for category in ["category: nonsense\n", ""] {
        let (contract, _) = read(&format!("{category}config: {{A: {{}}}}\n"));
        assert_eq!(contract.publication.category.as_deref(), Some("general"), "SW-03");
    }
}

#[test]
fn sw_t05_sw_t06_a_small_file_is_a_skill() {
    let project = Project::new()
        .file(".metier/skills/name-only/SKILL.md", "---\nname: name-only\nconfig: {}\n---\n  Do it.  \n");
    let engine = project.engine();
    let registry = engine.registry();
    let skill = registry.find("name-only").unwrap();
    assert_eq!(skill.description(), "Custom skill: name-only");
    assert_eq!(skill.body().unwrap().trim(), "Do it.");
    let contract = skill.contract().unwrap();
    assert_eq!((contract.tools.len(), contract.config.len()), (0, 0));
    assert_eq!(contract.publication.category.as_deref(), Some("general"));
    let assumed = skill.diagnostics().iter().find(|found| found.code == "description-assumed").unwrap();
    assert_eq!(assumed.severity, Severity::Error, "the specification requires a description");
    // Without keys of SWEny it is a file of the specification, which has no default.
    let bare = Project::new().file(".metier/skills/bare/SKILL.md", "---\nname: bare\n---\nDo it.\n");
    assert!(bare.engine().registry().skills().is_empty());
}

#[test]
fn words_that_mean_other_things_elsewhere_are_left_alone() {
    for frontmatter in [
        "category: productivity\n",
        "config: settings.json\n",
        "config: [a]\n",
        "mcp: server\n",
        "mcp: true\n",
    ] {
        let project = Project::lua("return 1").skill("x", frontmatter);
        let engine = project.engine();
        assert!(engine.registry().find("x").unwrap().contract().is_none(), "{frontmatter}");
        assert_eq!(value(engine.run(Invocation::new("x"))), json!(1), "{frontmatter}");
    }
    // What is hostile or wrong is left out, and the skill still loads.
    for (frontmatter, code) in [
        ("config: {LD_PRELOAD: {required: true}}\n", "sweny-key-ignored"),
        ("config: {A: {env: PATH}}\n", "sweny-key-ignored"),
        ("config: {'a b': {}}\n", "sweny-key-ignored"),
        ("mcp: {type: stdio}\n", "sweny-key-ignored"),
        ("mcp: {url: 'file:///etc/passwd'}\n", "sweny-key-ignored"),
        ("mcp: {url: 'https://a.example', shell: x}\n", "sweny-key-ignored"),
        ("mcpAliases: {a: []}\n", "sweny-key-ignored"),
    ] {
        let (contract, diagnostics) = read(frontmatter);
        assert_eq!(codes(&diagnostics), [code], "{frontmatter}");
        assert!(diagnostics.iter().all(|found| !found.blocks && found.line > 1), "{diagnostics:?}");
        assert!(contract.mcp.is_none() && contract.tool_aliases.is_empty(), "{frontmatter}");
        assert!(contract.config.iter().all(|field| field.env.is_none()), "{frontmatter}");
    }
}

#[test]
fn sw_23_a_file_of_a_skill_chooses_no_program() {
    for server in ["{command: npx, args: [-y, evil]}", "{type: stdio, command: ./server}"] {
        let (contract, diagnostics) = read(&format!("mcp: {server}\n"));
        assert_eq!(contract.mcp, None, "SW-T11: {server}");
        assert_eq!(codes(&diagnostics), ["stdio-command-declared"]);
    }
    let (contract, diagnostics) = read("mcp: {url: 'https://a.example/mcp', headers: {a: b}}\n");
    assert!(contract.mcp.is_some() && diagnostics.is_empty());
}

#[test]
fn sw_10_to_sw_12_settings_of_the_frontmatter_reach_the_script() {
    let project = Project::lua("return ctx.config('X_PLACE_OF_TESTS')")
        .skill("x", "config: {X_PLACE_OF_TESTS: {description: A place, required: true}}\n")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 2");
    settings_reach_the_script(&project, "general");
}

#[test]
fn a_definition_comes_before_the_keys_of_the_frontmatter() {
    let project = Project::lua("return 1")
        .skill("x", "config: {A: {}}\n")
        .file(".metier/skills/x/skill.yaml", "config: {B: {}}");
    let engine = project.engine();
    let registry = engine.registry();
    let contract = registry.find("x").unwrap().contract().unwrap().clone();
    let keys: Vec<&str> = contract.config.iter().map(|field| field.key.as_str()).collect();
    assert_eq!((contract.format, keys), (DefinitionFormat::Contract, vec!["B"]));
}

#[test]
fn sw_21_sw_22_good_skills_load_beside_bad_ones_and_nearer_folders_come_first() {
    let text = |name: &str, about: &str| format!("---\nname: {name}\ndescription: {about}\n---\n");
    let project = Project::new()
        .file(".sweny/skills/shared/SKILL.md", text("shared", "sweny"))
        .file(".claude/skills/shared/SKILL.md", text("shared", "claude"))
        .file(".gemini/skills/shared/SKILL.md", text("shared", "gemini"))
        .file(".gemini/skills/other/SKILL.md", text("other", "gemini"))
        .file(".sweny/skills/broken/SKILL.md", "---\nname: broken\nname: twice\ndescription: d\n---\n")
        .file(".sweny/skills/none/SKILL.md", "No frontmatter.")
        .file(".sweny/skills/MySkill/SKILL.md", text("MySkill", "d"));
    let agents = Root::new(Scope::Project, ".agents", project.path(".agents/skills"));
    let registry = Registry::discover(&Roots::empty().with(agents).with_compat());
    assert_eq!(registry.find("shared").unwrap().description(), "sweny", "SW-T09");
    assert_eq!(registry.find("other").unwrap().description(), "gemini", "SW-T10");
    let shadowed = registry.skills().iter().filter(|skill| skill.shadowed_by().is_some());
    assert_eq!(shadowed.count(), 2, "duplicate-id");
    let about = |folder: &str| {
        let path = project.path(&format!(".sweny/skills/{folder}/SKILL.md"));
        registry.problems().iter().find(|problem| problem.path == path)
    };
    assert!(about("broken").unwrap().message.contains("YAML"), "invalid-frontmatter, SW-T08");
    // SWEny leaves it out; here its text describes it, and the diagnostic is the same.
    let untitled = registry.find("none").unwrap();
    assert_eq!(untitled.description(), "No frontmatter.");
    assert!(untitled.diagnostics().iter().any(|found| found.code == "frontmatter-missing"), "no frontmatter");
    let named = registry.skills().iter().find(|skill| skill.name() == "MySkill").unwrap();
    assert!(named.diagnostics().iter().any(|found| found.code == "name-uppercase"), "invalid-id, SW-T07");
}

#[test]
fn sw_09_a_skill_of_a_workflow_has_a_text_or_a_server_and_nothing_else() {
    let names = |source: &str| {
        let skills = import("workflow.yaml", source.as_bytes()).map_err(|error| error.to_string())?;
        Ok::<_, String>(skills.into_iter().map(|skill| skill.name).collect::<Vec<_>>())
    };
    assert_eq!(
        names(
            "nodes: []\nskills: {a: {instruction: i}, b: {name: B, description: d, mcp: {url: 'https://x.example'}}}"
        ),
        Ok(vec!["a".to_owned(), "b".to_owned()])
    );
    for (skills, words) in [
        ("{a: {instruction: i, tools: []}}", "`tools` is not a key of the skill `a`"),
        ("{a: {instruction: i, category: git}}", "`category` is not a key"),
        ("{a: text}", "is not a map"),
        ("{a: {}}", "at least one of"),
        ("{a: {description: d}}", "at least one of"),
        ("{A: {instruction: i}}", "lowercase"),
        ("{a: {instruction: i}, a: {instruction: j}}", ""),
    ] {
        let error = names(&format!("nodes: []\nskills: {skills}")).unwrap_err();
        assert!(error.contains(words), "{skills}: {error}");
    }
    let many: Vec<String> = (0..101).map(|n| format!("s{n}: {{instruction: i}}")).collect();
    let error = names(&format!("nodes: []\nskills: {{{}}}", many.join(", "))).unwrap_err();
    assert!(error.contains("more than 100 skills"), "{error}");
}
