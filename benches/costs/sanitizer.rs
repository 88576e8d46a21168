//! What it costs that a model reads a value: a run that returns a text of 1 MB in which nothing is to be changed, for a model and for a
//! person.

use std::hint::black_box;

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::registry::{Root, Roots, Scope};
use tempfile::TempDir;

pub fn runs(criterion: &mut Criterion) {
    let project = TempDir::new().expect("a folder");
    let skill = project.path().join(".metier/skills/x");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    std::fs::write(skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("a file");
    std::fs::write(skill.join("scripts/main.lua"), "return ctx.read_file('log.txt')").expect("a file");
    let line = "2025-03-04T10:11:12Z INFO build: compiled 9f2c4e1b7a8d5063 in 0.3 s (task_list, sk-2)\n";
    std::fs::write(project.path().join("log.txt"), line.repeat(1_000_000 / line.len())).expect("a file");
    let root = Root::new(Scope::Project, ".metier", project.path().join(".metier/skills"));
    let engine = Engine::builder(project.path()).roots(Roots::empty().with(root)).build().expect("an engine");
    let mut group = criterion.benchmark_group("sanitizer");
    group.bench_function("for_model", |bencher| {
        bencher.iter(|| black_box(engine.run(Invocation::new("x").for_model())));
    });
    group.bench_function("for_person", |bencher| {
        bencher.iter(|| black_box(engine.run(Invocation::new("x"))));
    });
    group.finish();
}
