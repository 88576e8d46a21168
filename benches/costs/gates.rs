//! What the gates of a call cost where all are open, and what a value costs that is used again.

use std::time::Duration;

use criterion::Criterion;
use metier::engine::{Engine, EngineBuilder, Invocation};
use metier::error::Result;
use metier::host::{AuthorizationRequest, Authorizer, SkillContext};
use metier::registry::{Root, Roots, Scope};
use tempfile::TempDir;

/// An authorizer that refuses nothing, and answers within that time or at once.
struct Everything(Option<Duration>);

impl Authorizer for Everything {
    fn authorize(&self, _: &SkillContext, _: &AuthorizationRequest) -> Result<()> {
        Ok(())
    }

    fn time_limit(&self) -> Option<Duration> {
        self.0
    }
}

/// A project with one skill in Lua, whose values may be used again.
fn project() -> TempDir {
    let project = TempDir::new().expect("a folder");
    let skill = project.path().join(".metier/skills/x");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    std::fs::write(skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("a file");
    let contract = "metadata: {risk_level: low, idempotent: true, cacheable: true, cache_ttl: 1h}\n";
    std::fs::write(skill.join("skill.yaml"), contract).expect("a file");
    std::fs::write(skill.join("scripts/main.lua"), "return {n = 1}").expect("a file");
    // So that equal stats prove equal files.
    std::thread::sleep(Duration::from_millis(100));
    project
}

fn builder(project: &TempDir) -> EngineBuilder {
    let root = Root::new(Scope::Explicit, "skills", project.path().join(".metier/skills"));
    Engine::builder(project.path()).roots(Roots::empty().with(root))
}

fn run(engine: &Engine) {
    let outcome = engine.run(Invocation::new("x").for_model());
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
}

pub fn runs(criterion: &mut Criterion) {
    let project = project();
    let closed = builder(&project).build().expect("an engine");
    let open = builder(&project).autonomy(90).build().expect("an engine");
    let authorized = |limit| {
        let engine = builder(&project).autonomy(90).authorizer(Everything(limit)).build();
        engine.expect("an engine")
    };
    let (at_once, by_thread) = (authorized(None), authorized(Some(Duration::from_secs(10))));
    let mut group = criterion.benchmark_group("gates");
    group.bench_function("none", |b| b.iter(|| run(&closed)));
    group.bench_function("open", |b| b.iter(|| run(&open)));
    group.bench_function("authorizer", |b| b.iter(|| run(&at_once)));
    group.bench_function("authorizer that may block", |b| b.iter(|| run(&by_thread)));
    group.finish();
    let cached = builder(&project).cache_results(true).build().expect("an engine");
    run(&cached);
    let input = serde_json::json!({"n": 1});
    let mut group = criterion.benchmark_group("cache");
    group.bench_function("copy", |b| b.iter(|| input.clone()));
    group.bench_function("hit", |b| b.iter(|| run(&cached)));
    group.finish();
}
