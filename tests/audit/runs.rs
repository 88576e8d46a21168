//! What an engine records of its runs, at a sink of the program.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier::audit::{
    AuditActor, AuditChange, AuditClient, AuditFace, AuditKind, AuditLog, AuditRecord, AuditSink,
};
use metier::config::Configuration;
use metier::engine::{EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ApprovalRequest, Approver, Fixtures, SkillContext};
use metier::policy::Approval;
use metier::trust::TrustStore;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, value};

/// Keeps records, or fails for those of these kinds.
#[derive(Clone, Default)]
struct Records {
    written: Arc<Mutex<Vec<AuditRecord>>>,
    failing: Vec<AuditKind>,
}

impl AuditSink for Records {
    fn write(&self, record: &AuditRecord) -> Result<()> {
        if self.failing.contains(&record.kind) {
            return Err(SkillError::io("failed to write", std::io::ErrorKind::StorageFull.into()));
        }
        self.written.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl Records {
    fn failing(kinds: &[AuditKind]) -> Self {
        Self { failing: kinds.to_vec(), ..Self::default() }
    }

    fn take(&self) -> Vec<AuditRecord> {
        std::mem::take(&mut self.written.lock().unwrap())
    }

    fn kinds(&self) -> Vec<AuditKind> {
        self.written.lock().unwrap().iter().map(|record| record.kind).collect()
    }
}

/// Gives each question this answer.
struct Always(Approval);

impl Approver for Always {
    fn approve(&self, _: &SkillContext, _: &ApprovalRequest) -> Result<Approval> {
        Ok(self.0.clone())
    }
}

const WRITES: &str = "ctx.write('out/canary.txt', 'x') return 'done'";

fn audited(project: &Project, records: &Records) -> EngineBuilder {
    project.builder().audit(records.clone())
}

fn warnings(outcome: &Outcome) -> usize {
    outcome.log.iter().filter(|line| line.message.contains("the audit log was not written")).count()
}

#[test]
fn a_run_has_a_record_before_it_starts_and_one_when_it_has_ended() {
    use AuditKind::{RunEnded, RunStarted};
    let project = Project::lua_with_tools("write:out", WRITES);
    let records = Records::default();
    let engine = audited(&project, &records).build().unwrap();
    let invocation = Invocation::new("x").input(json!({"a": 1})).args(["b"]);
    let invocation =
        invocation.extension(AuditClient::new(AuditFace::Library).with_name("editor")).for_model();
    assert_eq!(value(engine.run(granted(invocation, &["write:out"]))), "done");
    assert_eq!(records.kinds(), [RunStarted, RunEnded]);
    let [started, ended] = &records.take()[..] else { unreachable!() };
    assert_eq!(
        (started.who.actor, started.who.client.client.as_deref()),
        (AuditActor::Model, Some("editor"))
    );
    assert_eq!(started.skill.as_deref(), Some("project/.metier:x@0.0.0"));
    assert_eq!((started.input.clone(), &started.args[..]), (Some(json!({"a": 1})), &["b".to_owned()][..]));
    assert_eq!(started.script.as_deref(), Some("scripts/main.lua"));
    assert!(started.digest.as_ref().is_some_and(|digest| digest.starts_with("sha256:")), "{started:?}");
    assert_eq!(started.gate.as_deref(), Some("granted"));
    assert_eq!(started.grants.len(), 1);
    assert!(started.permissions.contains(&"write:out".to_owned()), "{started:?}");
    assert_eq!((started.outcome.as_deref(), ended.outcome.as_deref()), (None, Some("ok")));
    assert!(started.run.is_some() && started.run == ended.run && started.parent.is_none());
    assert!(ended.resources.is_some_and(|taken| taken.duration > Duration::ZERO));
}

#[test]
fn a_skill_that_another_one_calls_is_a_run_with_a_parent() {
    let project = Project::lua_with_tools("skill:y", "return ctx.skill('y')")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 'y'");
    let records = Records::default();
    let engine = audited(&project, &records).build().unwrap();
    assert_eq!(value(engine.run(granted(Invocation::new("x"), &["skill:y"]))), "y");
    let written = records.take();
    assert_eq!(written.len(), 4);
    assert!(
        written[1].parent == written[0].run && written[1].skill.as_deref() == Some("project/.metier:y@0.0.0")
    );
}

#[test]
fn a_refused_run_and_a_refused_call_have_records_with_what_was_missing() {
    let project = Project::lua_with_tools("write:out", WRITES);
    let records = Records::default();
    let store = TrustStore::new(project.root().with_file_name("data").join("trust"));
    let engine = audited(&project, &records).trust(store).build().unwrap();
    assert_eq!(kind(&engine.run(Invocation::new("x").for_model())), ErrorKind::Untrusted);
    let [refused] = &records.take()[..] else { panic!("one record") };
    assert_eq!((refused.kind, refused.gate.as_deref()), (AuditKind::RunRefused, Some("trust")));
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::Denied);
    let [_, refused, ended] = &records.take()[..] else { panic!("three records") };
    assert_eq!((refused.kind, refused.target.as_deref()), (AuditKind::AccessRefused, Some("write")));
    assert_eq!(refused.permissions, ["write:out"]);
    assert_eq!((ended.kind, ended.outcome.as_deref()), (AuditKind::RunEnded, Some("denied")));
}

#[test]
fn questions_have_a_record_before_and_one_with_the_answer() {
    use AuditKind::{Answer, GrantsChanged, Question, RunEnded, RunRefused, RunStarted};
    let project = Project::lua_with_tools("write:out", WRITES);
    let records = Records::default();
    let store = TrustStore::new(project.root().with_file_name("data").join("trust"));
    let always = Always(Approval::Always(metier::policy::ArgumentPattern::any()));
    let engine = audited(&project, &records).trust(store).approver(always).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x").ask_first())), "done");
    assert_eq!(records.kinds(), [Question, Answer, GrantsChanged, RunStarted, RunEnded]);
    let written = records.take();
    assert_eq!(
        (written[0].gate.as_deref(), &written[0].permissions[..]),
        (Some("start"), &["write:out".to_owned()][..])
    );
    assert_eq!(written[1].outcome.as_deref(), Some("always"));
    assert_eq!((written[2].change, written[2].by.as_deref()), (Some(AuditChange::Added), Some("approval")));
    assert_eq!(written[3].gate.as_deref(), Some("approved"));
    let engine = audited(&project, &records).approver(Always(Approval::No)).build().unwrap();
    assert_eq!(kind(&engine.run(Invocation::new("x").ask_first())), ErrorKind::Denied);
    assert_eq!(records.kinds(), [Question, Answer, RunRefused]);
    assert_eq!(records.take()[1].outcome.as_deref(), Some("no"));
}

#[test]
fn secrets_have_their_names_and_no_record_has_a_value() {
    let script = "local key = ctx.secret('TOKEN') pcall(ctx.write, key, '') return key";
    let project = Project::lua_with_tools("secret:TOKEN write:out", script);
    let records = Records::default();
    let secrets = Fixtures::new(r#"{"secrets": {"TOKEN": "correct-horse-battery"}}"#).unwrap();
    let engine = audited(&project, &records).secrets(secrets).build().unwrap();
    let invocation = Invocation::new("x").input(json!({"key": "correct-horse-battery"}));
    let invocation = invocation.args(["correct-horse-battery"]);
    engine.run(granted(invocation, &["secret:TOKEN"])).result.unwrap();
    let written = records.take();
    let text = serde_json::to_string(&written).unwrap();
    assert!(!text.contains("horse"), "{text}");
    let secret = written.iter().find_map(|record| record.secret.as_ref()).unwrap();
    assert_eq!((&secret.name[..], &secret.source[..]), ("TOKEN", "provider"));
    assert_eq!(written[0].withheld.as_deref(), Some("secrets"));
    let ended = written.last().unwrap();
    assert_eq!(ended.input, Some(json!({"key": "[secret:TOKEN]"})));
    assert_eq!(ended.args, ["[secret:TOKEN]"]);
}

#[test]
fn a_large_input_is_not_recorded() {
    let records = Records::default();
    let project = Project::lua("return 1");
    let engine = audited(&project, &records).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x").input(json!({"a": "x".repeat(20_000)})))), 1);
    let started = records.take().remove(0);
    assert!(started.input.is_none() && started.withheld.as_deref() == Some("size"));
}

#[test]
fn where_records_are_required_nothing_runs_without_the_first_one() {
    let project = Project::lua_with_tools("write:out", WRITES);
    let records = Records::failing(&[AuditKind::RunStarted]);
    let run =
        |builder: EngineBuilder| builder.build().unwrap().run(granted(Invocation::new("x"), &["write:out"]));
    let outcome = run(audited(&project, &records).require_audit(true));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    let error = outcome.result.unwrap_err();
    assert!(error.message().contains("the audit log was not written"), "{error}");
    assert!(!project.path("out").exists(), "nothing ran");
    assert_eq!(records.kinds(), [AuditKind::RunRefused]);
    let configuration = Configuration::new().with("audit.required", true).unwrap();
    assert_eq!(kind(&run(audited(&project, &records).configuration(configuration))), ErrorKind::Unavailable);
    assert!(!project.path("out").exists(), "nothing ran");
    let outcome = run(audited(&project, &records));
    assert_eq!(warnings(&outcome), 1, "{outcome:?}");
    assert_eq!(value(outcome), "done");
}

#[test]
fn where_records_are_required_no_secret_is_read_and_no_question_asked_without_one() {
    let secrets = || Fixtures::new(r#"{"secrets": {"TOKEN": "correct-horse-battery"}}"#).unwrap();
    let project = Project::lua_with_tools("secret:TOKEN", "ctx.secret('TOKEN') return 'read'");
    let records = Records::failing(&[AuditKind::SecretRead, AuditKind::Question]);
    let builder = audited(&project, &records).secrets(secrets()).require_audit(true);
    let outcome = builder.build().unwrap().run(granted(Invocation::new("x"), &["secret:TOKEN"]));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    let outcome = audited(&project, &records)
        .secrets(secrets())
        .build()
        .unwrap()
        .run(granted(Invocation::new("x"), &["secret:TOKEN"]));
    assert_eq!((warnings(&outcome), value(outcome)), (1, json!("read")));
    let project = Project::lua_with_tools("write:out", WRITES);
    let builder = audited(&project, &records).approver(Always(Approval::Once)).require_audit(true);
    assert_eq!(kind(&builder.build().unwrap().run(Invocation::new("x"))), ErrorKind::Denied);
    assert!(!project.path("out").exists());
}

#[test]
fn trust_and_grants_are_recorded_and_not_changed_without_it_where_that_is_required() {
    use AuditKind::{GrantsChanged, TrustChanged};
    let project = Project::lua_with_tools("write:out", WRITES);
    let store = TrustStore::new(project.root().with_file_name("data").join("trust"));
    let change = |records: &Records, is_required: bool| -> Result<()> {
        let builder = audited(&project, records).trust(store.clone()).require_audit(is_required);
        let engine = builder.build()?;
        let registry = engine.registry();
        let skill = registry.find("x")?;
        let (files, identity) = (engine.skill_files(skill)?, engine.project_identity(skill)?);
        let store = engine.trust_store().unwrap();
        store.grant(("x", files.digest), Some(&identity), &["write:out".parse()?], "a test")?;
        store.trust_skills(&identity, &[files])?;
        store.trust_folder(identity)?;
        store.revoke_grants(|_| true)?;
        store.revoke_skills(|_| true)?;
        store.revoke_folder(project.root()).map(drop)
    };
    let records = Records::default();
    change(&records, true).unwrap();
    let added = [GrantsChanged, TrustChanged, TrustChanged];
    assert_eq!(records.kinds(), [added, added].concat());
    let changes: Vec<_> = records.take().into_iter().filter_map(|record| record.change).collect();
    assert_eq!(changes, [[AuditChange::Added; 3], [AuditChange::Revoked; 3]].concat());
    let failing = Records::failing(&[GrantsChanged]);
    assert!(change(&failing, true).is_err());
    assert!(store.records().unwrap().grants.is_empty(), "nothing was granted");
    change(&failing, false).unwrap();
}

#[test]
fn a_sink_that_panics_counts_as_one_that_fails() {
    struct Panicking;
    impl AuditSink for Panicking {
        fn write(&self, _: &AuditRecord) -> Result<()> {
            panic!("a defect")
        }
    }
    let project = Project::lua("return 1");
    let outcome = project.builder().audit(Panicking).build().unwrap().run(Invocation::new("x"));
    assert_eq!((warnings(&outcome), value(outcome)), (1, json!(1)));
    let builder = project.builder().audit(Panicking).require_audit(true);
    assert_eq!(kind(&builder.build().unwrap().run(Invocation::new("x"))), ErrorKind::Unavailable);
}

#[test]
fn the_log_of_an_engine_fits_together_and_goes_on_after_a_rotation() {
    let project = Project::lua("return 1");
    let log = AuditLog::new(project.root().with_file_name("data").join("audit"));
    let engine = project.builder().audit(log.clone()).build().unwrap();
    engine.run(Invocation::new("x")).result.unwrap();
    let kept = log.head().unwrap();
    assert_eq!(log.rotate().unwrap().as_deref(), Some("audit-000001.jsonl"));
    engine.run(Invocation::new("x")).result.unwrap();
    assert_eq!(log.rotate().unwrap().as_deref(), Some("audit-000002.jsonl"));
    let report = log.verify(kept).unwrap();
    assert!(report.problem.is_none(), "{report:?}");
    assert_eq!((report.files, report.lines, report.lines_after_head), (3, 6, Some(4)));
    std::fs::remove_file(log.folder().join("audit-000001.jsonl")).unwrap();
    let report = log.verify(None).unwrap();
    assert!(report.problem.is_none() && report.missing_files == 1, "{report:?}");
    assert!(log.verify(kept).unwrap().problem.is_some(), "the line with the head is not there any more");
}

#[test]
fn a_closed_file_that_is_missing_in_the_midst_is_found() {
    let project = Project::lua("return 1");
    let log = AuditLog::new(project.root().with_file_name("data").join("audit"));
    let engine = project.builder().audit(log.clone()).build().unwrap();
    for _ in 0..3 {
        engine.run(Invocation::new("x")).result.unwrap();
        log.rotate().unwrap();
    }
    std::fs::remove_file(log.folder().join("audit-000002.jsonl")).unwrap();
    let problem = log.verify(None).unwrap().problem.unwrap();
    assert_eq!((problem.file.as_deref(), problem.line), (Some("audit-000003.jsonl"), Some(1)));
}
