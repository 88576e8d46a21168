//! Which skill another one means by a name: nobody nearer to the project takes the place of what it relies on.

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::ErrorKind;
use metier::host::SandboxReport;
use metier::registry::{Root, Scope};
use serde_json::json;

use crate::support::engine::{Project, granted, is_sandbox_level, kind, sentence, value};

/// Asks of a skill of the user that calls `fmt`, and how it says so.
const PLAN: (&str, &str) = ("scripts/sequence.json", r#"[{"skill": "fmt"}]"#);
const SCRIPT: (&str, &str) = ("scripts/main.lua", "return ctx.skill('fmt')");

impl Project {
    /// Adds a skill of the user.
    fn user_skill(self, name: &str, asks: &str, (path, text): (&str, &str)) -> Self {
        let head = format!("---\nname: {name}\ndescription: d\n{asks}---\n");
        self.file(&format!("home/{name}/SKILL.md"), head).file(&format!("home/{name}/{path}"), text)
    }

    /// Adds a skill of the project that says so.
    fn project_skill(self, name: &str) -> Self {
        self.skill(name, "").file(&format!(".metier/skills/{name}/scripts/main.lua"), "return 'hostile'")
    }

    fn with_user(&self) -> Engine {
        let roots = self.roots().with(Root::new(Scope::User, "metier", self.path("home")));
        self.builder().roots(roots).build().unwrap()
    }

    fn run_named(&self, name: &str, grants: &[&str]) -> Outcome {
        self.with_user().run(granted(Invocation::new(name), grants))
    }
}

const ALLOWED_TOOLS: &str = "allowed-tools: write skill:fmt\n";
const TRUSTED: (&str, &str) = ("scripts/main.lua", "return 'trusted'");

#[test]
fn a_project_does_not_take_the_place_of_what_a_users_skill_calls() {
    for caller in [PLAN, SCRIPT] {
        let project = Project::new()
            .user_skill("publish", ALLOWED_TOOLS, caller)
            .user_skill("fmt", "", TRUSTED)
            .project_skill("fmt");
        let outcome = project.run_named("publish", &["write", "skill:fmt", "exec"]);
        assert_eq!(value(outcome), json!("trusted"), "{caller:?}");
        assert_eq!(value(project.run_named("fmt", &[])), json!("hostile"), "a person means the nearest");
    }
}

#[test]
fn a_version_or_the_label_of_a_root_is_no_word_for_the_project() {
    for name in ["fmt@0.0.0", ".metier:fmt", ".metier:fmt@0.0.0"] {
        let text = json!([{"skill": name}]).to_string();
        let caller = ("scripts/sequence.json", text.as_str());
        let project = Project::new().user_skill("publish", ALLOWED_TOOLS, caller).project_skill("fmt");
        let outcome = project.run_named("publish", &["write"]);
        assert!(outcome.result.is_err(), "{name}: {outcome:?}");
    }
}

#[test]
fn where_only_the_project_has_the_name_the_way_out_is_to_say_so() {
    for caller in [PLAN, SCRIPT] {
        let project = Project::new().user_skill("publish", ALLOWED_TOOLS, caller).project_skill("fmt");
        let outcome = project.run_named("publish", &["skill:fmt"]);
        let told = format!("{} {:?}", sentence(&outcome), outcome.result.unwrap_err().help());
        assert!(told.contains("project/.metier:fmt@0.0.0 lies nearer to the project"), "{told}");
        assert!(told.contains("write project/.metier:fmt to mean that one"), "{told}");
    }
    let text = json!([{"skill": "project/.metier:fmt"}]).to_string();
    let explicit = Project::new()
        .user_skill("publish", "", ("scripts/sequence.json", &text))
        .user_skill("fmt", "", TRUSTED)
        .project_skill("fmt");
    assert_eq!(value(explicit.run_named("publish", &[])), json!("hostile"));
}

#[test]
fn a_skill_of_the_project_means_the_nearest() {
    let project = Project::new()
        .skill("x", "allowed-tools: skill:fmt skill:own\n")
        .file(".metier/skills/x/scripts/main.lua", "return {ctx.skill('fmt'), ctx.skill('own')}")
        .user_skill("own", "", TRUSTED)
        .user_skill("fmt", "", TRUSTED)
        .project_skill("fmt");
    assert_eq!(value(project.run_named("x", &["skill:fmt", "skill:own"])), json!(["hostile", "trusted"]));
}

#[test]
fn what_a_plan_in_a_plan_calls_is_what_that_plan_means() {
    let through = ("scripts/sequence.json", r#"[{"skill": "user/metier:publish"}]"#);
    let project = Project::new()
        .user_skill("publish", "", PLAN)
        .user_skill("fmt", "", TRUSTED)
        .project_skill("fmt")
        .skill("x", "")
        .file(&format!(".metier/skills/x/{}", through.0), through.1);
    assert_eq!(value(project.run_named("x", &[])), json!("trusted"));
    let project = project.file(".metier/skills/fmt/scripts/main.lua", "").skill("publish", "");
    let project = project.file(".metier/skills/publish/scripts/sequence.json", r#"[{"skill": "x"}]"#);
    assert_eq!(value(project.run_named("x", &[])), json!("trusted"), "no circle goes through the project's");
}

#[test]
fn what_a_users_skill_needs_is_not_met_by_the_project() {
    let needs = ("skill.yaml", "dependencies: {skills: [fmt]}");
    let project = Project::new()
        .user_skill("publish", "", needs)
        .file("home/publish/scripts/main.lua", "return 1")
        .project_skill("fmt");
    let outcome = project.run_named("publish", &[]);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert_eq!(
        sentence(&outcome),
        "skill publish cannot run: fmt is here only nearer to the project, as project/.metier:fmt@0.0.0"
    );
}

#[test]
fn what_ships_means_what_ships() {
    let project = Project::new().project_skill("changelog").user_skill("changelog", "", TRUSTED);
    let roots = project.roots().with(Root::new(Scope::User, "metier", project.path("home")));
    let mut all = metier::registry::Roots::standard("none", project.root());
    all.extend(roots.iter().cloned());
    let engine = project.builder().roots(all).build().unwrap();
    let registry = engine.registry();
    let builtin = registry.find("builtin:release-notes").unwrap();
    assert_eq!(registry.find("changelog").unwrap().scope(), Scope::Project);
    assert_eq!(registry.find_for_caller(builtin, "changelog").unwrap().scope(), Scope::Builtin);
    let plan = engine.plan(builtin).unwrap().unwrap();
    assert!(
        plan.skills().all(|name| registry.find_for_caller(builtin, name).unwrap().scope() == Scope::Builtin)
    );
}

#[test]
fn a_process_leaves_its_sandbox_only_where_every_caller_asks_for_it() {
    let run = |asks: &str| {
        let project = Project::new().user_skill("publish", asks, PLAN).user_skill(
            "fmt",
            "",
            ("scripts/main.sh", "echo 1"),
        );
        project.run_named("publish", &["exec:unsandboxed", "exec"])
    };
    let asked = run("allowed-tools: exec:unsandboxed\n");
    assert_eq!(asked.sandbox, Some(SandboxReport::NONE), "{asked:?}");
    let unasked = run("");
    let is_free =
        unasked.sandbox.is_some_and(|held| !is_sandbox_level(held.level.name())) && unasked.log.is_empty();
    assert!(!is_free, "{unasked:?}");
}
