//! A recorded value is only for a run that may make the call of its step again, with all that the call had.

use std::path::Path;
use std::sync::{Arc, Mutex};

use metier::config::Configuration;
use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{ApprovalNeed, ApprovalRequest, Approver, Providers, SecretProvider, SkillContext};
use metier::policy::{Approval, ToolFilter};
use metier::registry::{Root, Roots, Scope};
use serde_json::{Value, json};

use crate::plan::project::{Project, error, failure, x};

fn with_journal(project: &Project, grants: &[&str]) -> Invocation {
    x(grants).journal(project.path("journal")).input(json!({"l": ["a", "b"]}))
}

fn run(project: &Project, grants: &[&str]) -> Outcome {
    project.engine().run(with_journal(project, grants))
}

fn later() -> Value {
    json!({"id": "later", "tool": "read_file", "args": {"path": "later"}})
}

/// `x`, whose first step is this one, whose second fails until the file `later` is there, and which returns the value of the first.
fn plan(asks: &str, first: &Value) -> Project {
    let mut first = first.clone();
    first["id"] = json!("first");
    Project::new().file(".env", "PASSWORD=hunter2\n").sequence(
        "x",
        asks,
        &json!({"steps": [first, later()], "outputs_from": "first"}),
    )
}

/// Starts a run that fails in its second step, which would succeed from then on.
#[track_caller]
fn begun(project: Project, grants: &[&str]) -> Project {
    let outcome = run(&project, grants);
    assert_eq!(failure(&outcome).0, ErrorKind::Io, "{outcome:?}");
    project.file("later", "")
}

/// A run without one of its grants is refused and does nothing, and one with more goes on.
#[track_caller]
fn assert_needs(project: Project, grants: &[&str], missing: &str) {
    let project = begun(project, grants);
    let kept: Vec<&str> = grants.iter().copied().filter(|grant| *grant != missing).collect();
    let before = std::fs::read(project.path("journal/x.journal")).unwrap();
    let outcome = run(&project, &kept);
    let (kind, sentence) = failure(&outcome);
    assert_eq!(kind, ErrorKind::Denied, "{sentence}");
    assert!(sentence.contains("step first") && sentence.contains(missing), "{sentence}");
    let help = error(&outcome).help().unwrap();
    assert!(help.contains(missing) && help.contains("another folder"), "{help}");
    assert_eq!(error(&outcome).missing().map(|missing| missing.to_string()), Some(missing.to_owned()));
    assert!(outcome.steps.is_empty() && !format!("{outcome:?}").contains("hunter2"), "{outcome:?}");
    assert_eq!(std::fs::read(project.path("journal/x.journal")).unwrap(), before);
    let more = [&kept[..], &[missing, "net"]].concat();
    let outcome = run(&project, &more);
    assert!(outcome.result.is_ok(), "{outcome:?}");
    assert_eq!(outcome.steps[0].attempts, 0, "it was not done again");
}

const READ_ENV: &str = "return ctx.read_file('.env')";

#[test]
fn a_function_that_read_a_protected_file_needs_its_permission_again() {
    let step = json!({"tool": "read_file", "args": {"path": ".env"}});
    assert_needs(plan("read:.env", &step), &["read:.env"], "read:.env");
}

#[test]
fn a_search_that_could_find_a_protected_file_needs_its_permission_again() {
    let step = json!({"tool": "grep", "args": {"pattern": "PASSWORD", "path": ".env"}});
    assert_needs(plan("read:.env", &step), &["read:.env"], "read:.env");
}

#[test]
fn a_called_skill_needs_what_it_had() {
    let project = plan("read:.env", &json!({"skill": "y"})).lua("y", "read:.env", READ_ENV);
    assert_needs(project, &["read:.env"], "read:.env");
}

#[test]
fn a_skill_that_a_called_one_calls_needs_what_it_had() {
    let project = plan("read:.env skill:z", &json!({"skill": "y"}))
        .lua("y", "read:.env skill:z", "return ctx.skill('z')")
        .lua("z", "read:.env", READ_ENV);
    assert_needs(project, &["read:.env", "skill:z"], "read:.env");
}

#[test]
fn the_last_of_skills_that_call_one_another_as_deep_as_they_may_needs_what_it_had() {
    let mut asks = String::from("read:.env");
    let mut grants = vec!["read:.env".to_owned()];
    for at in 2..=8 {
        asks.extend([format!(" skill:s{at}")]);
        grants.push(format!("skill:s{at}"));
    }
    let mut project = plan(&asks, &json!({"skill": "s1"}));
    for at in 1..8 {
        project = project.lua(&format!("s{at}"), &asks, &format!("return ctx.skill('s{}')", at + 1));
    }
    let project = project.lua("s8", "read:.env", READ_ENV);
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    assert_needs(project, &grants, "read:.env");
}

#[test]
fn each_item_of_a_loop_needs_what_it_had() {
    let step = json!({"skill": "y", "for_each": "$inputs.l", "args": {"item": "$item"}});
    let project = plan("read:.env", &step).lua("y", "read:.env", READ_ENV);
    assert_needs(project, &["read:.env"], "read:.env");
}

#[test]
fn a_failure_that_was_passed_over_needs_what_its_step_had() {
    let step = json!({"skill": "y", "on_failure": "continue"});
    let project = plan("read:.env", &step).lua("y", "read:.env", "error(ctx.read_file('.env'))");
    assert_needs(project, &["read:.env"], "read:.env");
}

#[test]
fn a_tool_and_a_change_need_their_permissions_again() {
    let echo = json!({"tool": "echo", "args": {"a": 1}});
    assert_needs(plan("", &echo), &["tool:echo"], "tool:echo");
    let write = json!({"tool": "write", "args": {"path": "out/a", "content": "a"}});
    assert_needs(plan("write:out", &write), &["write:out"], "write:out");
}

#[test]
fn the_steps_of_a_plan_that_a_step_runs_need_what_they_had() {
    let inner = json!([{"id": "first", "skill": "z"}, later()]);
    let project = Project::new()
        .file(".env", "PASSWORD=hunter2\n")
        .sequence("x", "read:.env", &json!([{"id": "outer", "skill": "y"}]))
        .sequence("y", "read:.env", &inner)
        .lua("z", "read:.env", READ_ENV);
    // The outer step is not recorded, the inner one is.
    let project = begun(project, &["read:.env"]);
    let (kind, sentence) = failure(&run(&project, &[]));
    assert_eq!(kind, ErrorKind::Denied, "{sentence}");
    assert!(sentence.contains("step first") && sentence.contains("z had read:.env"), "{sentence}");
    assert!(run(&project, &["read:.env"]).result.is_ok());
    // Now it is recorded, with what the skill of the inner plan had.
    let (kind, sentence) = failure(&run(&project, &[]));
    assert_eq!(kind, ErrorKind::Denied, "{sentence}");
    assert!(sentence.contains("step outer"), "{sentence}");
    assert!(run(&project, &["read:.env"]).result.is_ok());
}

#[test]
fn a_narrower_grant_is_not_enough_and_a_wider_one_is() {
    let project = begun(plan("write", &json!({"skill": "y"})).lua("y", "write", "return 1"), &["write"]);
    let (kind, sentence) = failure(&run(&project, &["write:out"]));
    assert!(kind == ErrorKind::Denied && sentence.contains("y had write:"), "{sentence}");
    assert!(run(&project, &["write"]).result.is_ok());
    let project = begun(plan("write", &json!({"skill": "y"})).lua("y", "write", "return 1"), &["write:out"]);
    assert!(run(&project, &["write"]).result.is_ok());
}

#[test]
fn what_no_call_of_a_step_could_use_is_not_needed_again() {
    let project = plan("read:.env write", &json!({"skill": "y"})).lua("y", "", "return 1");
    let project = begun(project, &["read:.env", "write"]);
    assert_eq!(run(&project, &[]).result.unwrap(), json!(1));
}

/// Answers every question with the same, and records what was asked.
#[derive(Clone)]
struct Person(Approval, Arc<Mutex<Vec<ApprovalRequest>>>);

impl Person {
    fn new(answer: bool) -> Self {
        Self(answer.into(), Arc::default())
    }

    fn asked(&self) -> Vec<ApprovalRequest> {
        self.1.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        self.1.lock().unwrap().push(request.clone());
        Ok(self.0.clone())
    }
}

fn run_asking(project: &Project, person: &Person) -> Outcome {
    let providers = Providers::default().approver(person.clone());
    project.engine().run(with_journal(project, &[]).providers(providers))
}

#[test]
fn what_was_approved_once_is_asked_again_before_the_value_is_used() {
    let project = plan("read:.env", &json!({"skill": "y"})).lua("y", "read:.env", READ_ENV);
    let yes = Person::new(true);
    assert_eq!(failure(&run_asking(&project, &yes)).0, ErrorKind::Io);
    assert_eq!(yes.asked().len(), 1);
    let project = project.file("later", "");
    assert_eq!(failure(&run(&project, &[])).0, ErrorKind::Denied, "nobody can be asked");
    let no = Person::new(false);
    let refused = run_asking(&project, &no);
    assert_eq!(failure(&refused).0, ErrorKind::Denied);
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    let [asked] = &no.asked()[..] else { panic!("{:?}", no.asked()) };
    let ApprovalNeed::Permission { permission, .. } = &asked.need else { panic!("{asked:?}") };
    assert_eq!((permission.to_string().as_str(), asked.skill.as_str()), ("read:.env", "y"));
    let again = Person::new(true);
    let outcome = run_asking(&project, &again);
    assert_eq!(outcome.result.unwrap(), json!("PASSWORD=hunter2\n"));
    assert_eq!((again.asked().len(), outcome.steps[0].attempts), (1, 0));
}

#[test]
fn a_call_to_which_a_person_agreed_once_is_asked_again_before_its_value_is_used() {
    let contract =
        "tools:\n  - {name: remove, entrypoint: scripts/remove.lua, requires_confirmation: true}\n";
    let step = json!({"tool": "rm.remove", "args": {"path": "a"}});
    let project = plan("", &step)
        .contract("rm", "", contract)
        .file(".metier/skills/rm/scripts/remove.lua", "return 'removed'");
    let run_asking = |project: &Project, person: &Person| {
        let providers = Providers::default().approver(person.clone());
        project.engine().run(with_journal(project, &["tool:rm.remove"]).providers(providers))
    };
    let yes = Person::new(true);
    assert_eq!(failure(&run_asking(&project, &yes)).0, ErrorKind::Io);
    assert_eq!(yes.asked().len(), 1, "{:?}", yes.asked());
    let project = project.file("later", "");
    for (answer, expected) in [(false, None), (true, Some(json!("removed")))] {
        let person = Person::new(answer);
        let outcome = run_asking(&project, &person);
        let [asked] = &person.asked()[..] else { panic!("{:?}", person.asked()) };
        assert!(matches!(asked.need, ApprovalNeed::Call { .. }), "{asked:?}");
        assert_eq!(asked.input, Some(json!({"path": "a"})), "what is agreed to is shown");
        match expected {
            Some(value) => assert_eq!(outcome.result.unwrap(), value),
            None => assert_eq!(failure(&outcome).0, ErrorKind::Denied),
        }
    }
    let (kind, sentence) = failure(&run(&project, &["tool:rm.remove"]));
    assert!(kind == ErrorKind::Denied && sentence.contains("nobody can be asked"), "{sentence}");
}

#[derive(Clone, Copy)]
struct Key(&'static str);

impl SecretProvider for Key {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(Some(self.0.to_owned()).filter(|value| !value.is_empty()))
    }
}

#[test]
fn a_value_that_was_computed_with_a_secret_is_not_used_with_another_one() {
    for nested in [false, true] {
        let project = plan("secret:k skill:z", &json!({"skill": "y"}));
        let reads = "return #ctx.secret('k')";
        let project = if nested {
            project.lua("y", "secret:k skill:z", "return ctx.skill('z')").lua("z", "secret:k", reads)
        } else {
            project.lua("y", "secret:k", reads)
        };
        let run = |project: &Project, key: &'static str, grants: &[&str]| {
            let engine = project.builder().secrets(Key(key)).build().unwrap();
            engine.run(with_journal(project, grants))
        };
        let grants = ["secret:k", "skill:z"];
        assert_eq!(failure(&run(&project, "first-key", &grants)).0, ErrorKind::Io);
        let project = project.file("later", "");
        assert!(!project.read("journal/x.journal").contains("first-key"));
        for key in ["other-key", ""] {
            let (kind, sentence) = failure(&run(&project, key, &grants));
            assert_eq!(kind, ErrorKind::Usage, "{sentence}");
            assert!(sentence.contains("the secret k"), "{sentence}");
        }
        let (kind, sentence) = failure(&run(&project, "first-key", &["skill:z"]));
        assert!(kind == ErrorKind::Denied && sentence.contains("secret:k"), "{sentence}");
        assert_eq!(run(&project, "first-key", &grants).result.unwrap(), json!(9));
    }
}

#[test]
fn a_value_that_was_computed_with_a_setting_with_the_name_of_a_secret_is_not_used_with_another_one() {
    let project = plan("", &json!({"skill": "y"})).lua("y", "", "return #ctx.config('API_TOKEN')");
    let run = |project: &Project, token: &str| {
        let configuration = Configuration::new().with("skills.y.config.API_TOKEN", token).unwrap();
        let engine = project.builder().configuration(configuration).build().unwrap();
        engine.run(with_journal(project, &[]))
    };
    assert_eq!(failure(&run(&project, "first-token")).0, ErrorKind::Io);
    let project = project.file("later", "");
    assert!(!project.read("journal/x.journal").contains("first-token"));
    for token in ["other-token", ""] {
        let (kind, sentence) = failure(&run(&project, token));
        assert_eq!(kind, ErrorKind::Usage, "{sentence}");
        assert!(sentence.contains("the secret API_TOKEN"), "{sentence}");
    }
    assert_eq!(run(&project, "first-token").result.unwrap(), json!(11));
}

#[test]
fn what_the_configuration_denies_since_is_not_used() {
    let project = plan("write skill:z", &json!({"skill": "y"}))
        .lua("y", "write skill:z", "return ctx.skill('z')")
        .lua("z", "write", "ctx.write('out/a', 'a') return 1");
    let grants = ["write", "skill:z"];
    let project = begun(project, &grants);
    for skill in ["x", "y", "z"] {
        let key = format!("skills.{skill}.deny");
        let configuration = Configuration::new().with(&key, json!(["write:out"])).unwrap();
        let engine = project.builder().configuration(configuration).build().unwrap();
        let (kind, sentence) = failure(&engine.run(with_journal(&project, &grants)));
        assert_eq!(kind, ErrorKind::Denied, "{skill}: {sentence}");
        assert!(sentence.contains("the configuration denies write:out"), "{sentence}");
        let configuration = Configuration::new().with(&format!("skills.{skill}.enabled"), false).unwrap();
        let engine = project.builder().configuration(configuration).build().unwrap();
        assert!(engine.run(with_journal(&project, &grants)).result.is_err(), "{skill} is switched off");
    }
    assert!(run(&project, &grants).result.is_ok());
}

#[test]
fn a_tool_that_the_caller_leaves_out_since_is_not_used() {
    let project = begun(plan("", &json!({"tool": "echo", "args": {"a": 1}})), &["tool:echo"]);
    let filter = ToolFilter::default().deny(["echo"]).unwrap();
    let filtered = with_journal(&project, &["tool:echo"]).tool_filter(filter);
    let (kind, sentence) = failure(&project.engine().run(filtered));
    assert!(kind == ErrorKind::Denied && sentence.contains("left the tool out"), "{sentence}");
    assert!(run(&project, &["tool:echo"]).result.is_ok());
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_process_that_left_the_sandbox_needs_that_again() {
    use metier::policy::SandboxMode;
    let shell = || plan("", &json!({"skill": "y"})).shell("y", "", "echo 1");
    assert_needs(shell(), &["exec:unsandboxed"], "exec:unsandboxed");
    let project = shell();
    let run = |project: &Project, mode| project.engine().run(with_journal(project, &[]).sandbox_mode(mode));
    assert_eq!(failure(&run(&project, SandboxMode::Off)).0, ErrorKind::Io);
    let project = project.file("later", "");
    let (kind, sentence) = failure(&run(&project, SandboxMode::Required));
    assert!(kind == ErrorKind::Denied && sentence.contains("sandbox mode"), "{sentence}");
    assert!(run(&project, SandboxMode::Off).result.is_ok());
}

#[test]
fn another_project_at_the_same_path_is_not_the_project_of_the_journal() {
    let step = json!({"tool": "read_file", "args": {"path": "f"}});
    let project = plan("", &step).file("f", "of the first");
    let journal = tempfile::tempdir().unwrap();
    let engine = |root: &Path| {
        let roots = Roots::empty().with(Root::new(Scope::Project, ".metier", root.join(".metier/skills")));
        Engine::builder(root).roots(roots).build().unwrap()
    };
    let run = || engine(project.root()).run(x(&[]).journal(journal.path()).input(json!({})));
    assert_eq!(failure(&run()).0, ErrorKind::Io);
    std::fs::write(project.path("later"), "").unwrap();
    let aside = project.replace();
    std::fs::write(project.path("f"), "of the second").unwrap();
    let (kind, sentence) = failure(&run());
    assert_eq!(kind, ErrorKind::Usage);
    assert!(sentence.contains("another project that was at the same path"), "{sentence}");
    std::fs::remove_dir_all(project.root()).unwrap();
    std::fs::rename(&aside, project.root()).unwrap();
    assert_eq!(run().result.unwrap(), json!("of the first"), "it is the first again");
}
