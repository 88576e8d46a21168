//! What the audit log costs: a line against writing the same bytes, and a run with the log against one without.

use std::io::Write;

use criterion::Criterion;
use metier::audit::{
    AuditActor, AuditClient, AuditFace, AuditKind, AuditLog, AuditRecord, AuditSink, AuditWho,
};
use metier::engine::{Engine, Invocation};
use metier::registry::{Root, Roots, Scope};
use tempfile::TempDir;

fn record() -> AuditRecord {
    let who = AuditWho::new(AuditActor::Model, AuditClient::new(AuditFace::Mcp).with_name("editor"));
    let mut record = AuditRecord::new(AuditKind::RunStarted, who);
    record.skill = Some("project/.metier:x@1.0.0".to_owned());
    record.digest = Some(format!("sha256:{}", "5a".repeat(32)));
    record.project = Some("/home/somebody/projects/one".into());
    record.permissions = ["read", "write:out", "net:api.example.com"].map(str::to_owned).to_vec();
    record.input = Some(serde_json::json!({"path": "docs/a.md", "lines": 20}));
    record
}

pub fn lines(criterion: &mut Criterion) {
    let (project, data) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let log = AuditLog::new(data.path().join("audit"));
    let record = record();
    log.write(&record).expect("is written");
    let line = std::fs::read(log.folder().join("audit.jsonl")).expect("a line");
    let mut plain = std::fs::File::create(data.path().join("plain")).expect("a file");
    let mut group = criterion.benchmark_group("audit");
    group.bench_function("plain_write", |b| b.iter(|| plain.write_all(&line).expect("is written")));
    group.bench_function("line", |b| b.iter(|| log.write(&record).expect("is written")));
    let skill = project.path().join(".metier/skills/x");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    std::fs::write(skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("a file");
    std::fs::write(skill.join("scripts/main.lua"), "return 1").expect("a file");
    let builder = || {
        let root = Root::new(Scope::Project, ".metier", project.path().join(".metier/skills"));
        Engine::builder(project.path()).roots(Roots::empty().with(root))
    };
    let without = builder().build().expect("an engine");
    let with = builder().audit(log.clone()).build().expect("an engine");
    let run = |engine: &Engine| assert!(engine.run(Invocation::new("x")).result.is_ok());
    group.bench_function("run_without", |b| b.iter(|| run(&without)));
    group.bench_function("run_with", |b| b.iter(|| run(&with)));
    group.finish();
}
