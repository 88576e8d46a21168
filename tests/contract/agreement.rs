//! A contract and the SKILL.md beside it: what both name is the same, and what one leaves out the other may say.

use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};

fn both(frontmatter: &str, contract: &str) -> Project {
    Project::new()
        .skill("x", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", "return 1")
        .file(".metier/skills/x/scripts/other.lua", "return 2")
        .contract("x", contract)
}

#[test]
fn a_disagreement_keeps_the_skill_from_running_and_names_both_places() {
    for (frontmatter, contract, told) in [
        ("", "name: y", "skill.yaml:1:7: name is `y` here, and `x` in SKILL.md:2"),
        (
            "metadata:\n  version: 1.0.0\n",
            "version: 1.1.0",
            "skill.yaml:1:10: version is 1.1.0 here, and 1.0.0 in SKILL.md:5",
        ),
        (
            "runtime: lua\n",
            "skill:\n  runtime: rhai",
            "skill.yaml:2:12: runtime is `rhai` here, and `lua` in SKILL.md:4",
        ),
        (
            "metadata:\n  entrypoint: scripts/main.lua\n",
            "entrypoint: scripts/other.lua",
            "entrypoint is `scripts/other.lua` here, and `scripts/main.lua` in SKILL.md:5",
        ),
        (
            "metadata:\n  entrypoint: scripts/other.lua\n",
            "entrypoints: {main: scripts/main.lua, b: scripts/other.lua}",
            "skill.yaml:1:21: entrypoint is `scripts/main.lua` here, and `scripts/other.lua` in SKILL.md:5",
        ),
        (
            "metadata:\n  entrypoint: scripts/other.lua\n",
            "entrypoints: {any: {path: scripts/main.lua}}",
            "skill.yaml:1:27: entrypoint is `scripts/main.lua` here, and `scripts/other.lua` in SKILL.md:5",
        ),
        (
            "runtime: lua\n",
            "entrypoint: {path: scripts/main.lua, runtime: rhai}",
            "runtime is `rhai` here, and `lua` in SKILL.md:4",
        ),
        (
            "allowed-tools: write\n",
            "permissions: ['net:a.example']",
            "permissions is `net:a.example` here, and `write` in SKILL.md:4",
        ),
    ] {
        let project = both(frontmatter, contract);
        let outcome = project.run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{contract}");
        assert!(sentence(&outcome).contains(told), "{}", sentence(&outcome));
        let engine = project.engine();
        assert!(!engine.availability(&engine.registry().skills()[0]).is_runnable());
    }
}

#[test]
fn what_one_leaves_out_the_other_says() {
    let project =
        both("metadata:\n  version: 1.0.0\n", "description: another one\nentrypoint: scripts/other.lua");
    let outcome = project.run(&[]);
    assert_eq!((outcome.version.clone(), value(outcome)), (Some("1.0.0".to_owned()), json!(2)));
    let project = both("metadata:\n  entrypoint: scripts/other.lua\n", "version: 2.1.0");
    let outcome = project.run(&[]);
    assert_eq!((outcome.version.clone(), value(outcome)), (Some("2.1.0".to_owned()), json!(2)));
    assert_eq!(value(both("", "# nothing\nname: x").run(&[])), json!(1));
    let named = "entrypoints: {a: scripts/main.lua, b: scripts/other.lua}";
    assert_eq!(value(both("metadata:\n  entrypoint: scripts/other.lua\n", named).run(&[])), json!(2));
    let same = "runtime: rhai\nentrypoint: {path: scripts/main.lua, runtime: lua}";
    assert_eq!(value(both("runtime: lua\n", same).run(&[])), json!(1), "what would run is what agrees");
}

#[test]
fn the_contracts_version_decides_between_namesakes() {
    let skill = |project: Project, folder: &str, version: &str, answer: u8| {
        project
            .file(&format!(".metier/skills/{folder}/SKILL.md"), "---\nname: x\ndescription: d\n---\n")
            .file(&format!(".metier/skills/{folder}/scripts/main.lua"), format!("return {answer}"))
            .contract(folder, &format!("version: {version}"))
    };
    let project = skill(skill(Project::new(), "a", "1.9.0", 1), "b", "1.10.0", 2);
    assert_eq!(value(project.run(&[])), json!(2));
}

#[test]
fn both_ask_by_the_same_words_and_words_of_other_clients_say_nothing() {
    let writes = |frontmatter: &str, contract: &str| {
        Project::new()
            .skill("x", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", "ctx.write('a.txt', 'x') return true")
            .contract("x", contract)
            .run(&["write"])
    };
    assert_eq!(value(writes("", "permissions: [write]")), json!(true));
    assert_eq!(value(writes("allowed-tools: write\n", "permissions: [write]")), json!(true));
    assert_eq!(value(writes("allowed-tools: Write\n", "permissions: [write]")), json!(true));
    assert_eq!(value(writes("allowed-tools: Write\n", "name: x")), json!(true));
    for alone in ["permissions: [read]", "permissions: ['net:example.com']", "permissions: []"] {
        assert_eq!(kind(&writes("allowed-tools: Write Bash(git:*)\n", alone)), ErrorKind::Denied, "{alone}");
    }
    assert_eq!(value(writes("allowed-tools: write\n", "name: x")), json!(true));
    assert_eq!(value(writes("", "metadata: {permissions: [write]}")), json!(true));
    assert_eq!(kind(&writes("", "name: x")), ErrorKind::Denied);
    assert_eq!(kind(&writes("", "permissions: ['filesystem:write']")), ErrorKind::Denied);
}

#[test]
fn two_contracts_are_one_too_many() {
    let project = both("", "name: x").file(".metier/skills/x/skill.yml", "name: x");
    let outcome = project.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(sentence(&outcome).contains("there are skill.yaml and skill.yml"));
    let other_ending = Project::lua("return 1").file(".metier/skills/x/skill.yml", "version: 3.0.0");
    assert_eq!(other_ending.run(&[]).version.as_deref(), Some("3.0.0"));
}

#[test]
fn a_contract_that_cannot_be_read_is_reported() {
    let outside = Project::lua("return 1")
        .file("elsewhere.yaml", "name: x")
        .link("../../../elsewhere.yaml", ".metier/skills/x/skill.yaml");
    let folder = Project::lua("return 1").file(".metier/skills/x/skill.yaml/a", "");
    let large = Project::with_contract(&format!("# {}\nname: x", "x".repeat(300_000)), "return 1");
    for (project, told) in
        [(outside, "cannot be read"), (folder, "cannot be read"), (large, "larger than 256 KiB")]
    {
        let outcome = project.run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{told}");
        assert!(sentence(&outcome).contains(told), "{}", sentence(&outcome));
    }
    let inside = Project::lua("return 1")
        .file(".metier/skills/x/docs/real.yaml", "version: 4.0.0")
        .link("docs/real.yaml", ".metier/skills/x/skill.yaml");
    assert_eq!(inside.run(&[]).version.as_deref(), Some("4.0.0"));
}

#[test]
fn an_external_script_asks_for_what_its_contract_names() {
    let script = "echo 1 > made && echo 1\n";
    let run = |contract: &str| {
        let project = Project::shell("", script).contract("x", contract);
        let outcome = project.run(&["write"]);
        (outcome.result.is_ok(), project.path("made").exists())
    };
    assert_eq!(run("name: x"), (true, true), "it names none, so the caller's grants decide");
    assert_eq!(run("permissions: [write]"), (true, true));
    assert_eq!(run("permissions: []"), (false, false));
}

#[test]
fn a_refusal_names_the_file_in_which_the_word_is_missing() {
    let script = "ctx.write('a.txt', 'x')";
    let help = |project: Project, grants: &[&str]| {
        project.run(grants).result.unwrap_err().help().unwrap().to_owned()
    };
    let by_contract = Project::with_contract("permissions: [read]", script);
    assert_eq!(help(by_contract, &["write"]), "list write under permissions in skill.yaml");
    let by_manifest = Project::with_contract("name: x", script);
    assert_eq!(help(by_manifest, &["write"]), "list write under allowed-tools in SKILL.md");
    let caller = |contract: &str| {
        Project::lua_with_tools("skill:y", "return ctx.skill('y')")
            .skill("y", "")
            .file(".metier/skills/y/scripts/main.lua", script)
            .file(".metier/skills/y/skill.yml", contract)
    };
    assert_eq!(
        help(caller("permissions: []"), &["skill:y"]),
        "list write under allowed-tools in the SKILL.md of x and under permissions in the skill.yml of y and grant write"
    );
    assert_eq!(
        help(caller("name: y"), &["skill:y", "write"]),
        "list write under allowed-tools in the SKILL.md of x and the SKILL.md of y"
    );
}

#[test]
fn a_skill_that_only_reads_by_one_file_does_not_write_by_the_other() {
    let disagrees = |frontmatter: &str, contract: &str| {
        let outcome = both(frontmatter, contract).run(&["write"]);
        outcome.result.err().map(|error| error.message().to_owned()).unwrap_or_default()
    };
    let told = disagrees("allowed-tools: read\n", "permissions: [write]");
    assert!(told.ends_with("permissions is `write` here, and `read` in SKILL.md:4"), "{told}");
    let told = disagrees("allowed-tools: read Read\n", "permissions: [read, write]");
    assert!(told.ends_with("permissions is `read` `write` here, and `read` in SKILL.md:4"), "{told}");
    for same in ["permissions: []", "permissions: [read]"] {
        assert_eq!(disagrees("allowed-tools: read\n", same), "", "reading is every skill's: {same}");
    }
}

#[test]
fn what_runs_and_the_runtime_that_is_named_are_reported_with_both_places() {
    let place = |outcome: &metier::engine::Outcome| {
        let place = outcome.result.as_ref().unwrap_err().location().expect("a place").clone();
        (place.file, place.line)
    };
    let steps = both("runtime: lua\n", "name: x\nsteps: [{tool: tree}]").run(&[]);
    assert_eq!(
        (kind(&steps), sentence(&steps)),
        (
            ErrorKind::InvalidSkill,
            "skill x has steps, which run in tool-sequence, and says runtime: lua in SKILL.md:4".into()
        )
    );
    assert_eq!(place(&steps), ("skill.yaml".to_owned(), Some(2)));
    let here = both("", "steps: [{tool: tree}]\nruntime: lua").run(&[]);
    assert!(sentence(&here).ends_with("says runtime: lua in skill.yaml:2"), "{}", sentence(&here));
    for (frontmatter, contract, told, at) in [
        (
            "runtime: tool-sequence\n",
            "name: x\nentrypoint: scripts/main.lua",
            "skill x enters at scripts/main.lua, which is lua, and says runtime: tool-sequence in SKILL.md:4",
            ("skill.yaml", 2),
        ),
        (
            "metadata:\n  runtime: rhai\n  entrypoint: scripts/main.lua\n",
            "name: x",
            "skill x enters at scripts/main.lua, which is lua, and says runtime: rhai in SKILL.md:5",
            ("SKILL.md", 6),
        ),
        (
            "",
            "entrypoint: scripts/main.lua\nruntime: rhai",
            "skill x enters at scripts/main.lua, which is lua, and says runtime: rhai in skill.yaml:2",
            ("skill.yaml", 1),
        ),
    ] {
        let outcome = both(frontmatter, contract).run(&[]);
        assert_eq!((kind(&outcome), sentence(&outcome)), (ErrorKind::InvalidSkill, told.to_owned()));
        assert_eq!(place(&outcome), (at.0.to_owned(), Some(at.1)));
    }
}
