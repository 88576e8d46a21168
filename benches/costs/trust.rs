//! What trust costs: the digest of a skill against reading its files, and a run with the trust store, with and without the files of
//! the configuration, against one without.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use metier::config::{Configuration, load_with_user_file};
use metier::engine::{Engine, EngineBuilder, Invocation};
use metier::registry::{Root, Roots, Scope};
use metier::trust::TrustStore;
use tempfile::TempDir;

use super::configuration;

/// A project with the skill `x` of so many files, of 2 KB each.
fn project(files: usize) -> TempDir {
    let project = TempDir::new().expect("a folder");
    let skill = project.path().join(".metier/skills/x");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    let text = "---\nname: x\ndescription: d\nallowed-tools: write\n---\n";
    std::fs::write(skill.join("SKILL.md"), text).expect("a file");
    std::fs::write(skill.join("scripts/main.lua"), "return 1").expect("a file");
    for number in 2..files {
        let folder = skill.join(format!("assets/{}", number / 100));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{number}.txt")), "words and more\n".repeat(137)).expect("a file");
    }
    // So that equal stats prove equal files.
    std::thread::sleep(Duration::from_millis(100));
    project
}

fn builder(project: &Path, store: Option<TrustStore>) -> EngineBuilder {
    let root = Root::new(Scope::Project, ".metier", project.join(".metier/skills"));
    let builder = Engine::builder(project).roots(Roots::empty().with(root));
    store.into_iter().fold(builder, EngineBuilder::trust)
}

fn engine(project: &Path, store: Option<TrustStore>) -> Engine {
    builder(project, store).build().expect("an engine")
}

fn read_all(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let size = |entry: std::fs::DirEntry| {
        let path = entry.path();
        if path.is_dir() { read_all(&path) } else { std::fs::read(path).expect("a file").len() }
    };
    entries.map(size).sum()
}

pub fn digest(criterion: &mut Criterion) {
    let project = project(1_000);
    let skill_folder = project.path().join(".metier/skills/x");
    let digest = |engine: &Engine| {
        let registry = engine.registry();
        engine.skill_files(registry.find("x").expect("a skill")).expect("a digest").digest
    };
    let known = engine(project.path(), None);
    let mut group = criterion.benchmark_group("trust_digest");
    group.sample_size(20);
    group.bench_function("read", |b| b.iter(|| black_box(read_all(&skill_folder))));
    group.bench_function("metier", |b| {
        b.iter_batched(|| engine(project.path(), None), |engine| digest(&engine), BatchSize::SmallInput);
    });
    group.bench_function("unchanged", |b| b.iter(|| digest(&known)));
    group.finish();
}

pub fn runs(criterion: &mut Criterion) {
    let (project, data) = (project(5), TempDir::new().expect("a folder"));
    let store = TrustStore::new(data.path().join("trust"));
    let with = engine(project.path(), Some(store.clone()));
    let registry = with.registry();
    let skill = registry.find("x").expect("a skill");
    let (files, identity) =
        (with.skill_files(skill).expect("files"), with.project_identity(skill).expect("a path"));
    let grant = "write:out".parse().expect("a permission");
    store.trust_skills(&identity, std::slice::from_ref(&files)).expect("is trusted");
    store.grant(("x", files.digest), Some(&identity), &[grant], "a benchmark").expect("is granted");
    std::thread::sleep(Duration::from_millis(100));
    let without = engine(project.path(), None);
    let run = |engine: &Engine, grants: usize| {
        let outcome = engine.run(Invocation::new("x"));
        assert_eq!(outcome.grants.len(), grants);
        assert!(outcome.result.is_ok());
    };
    let mut group = criterion.benchmark_group("trust_run");
    group.bench_function("without", |b| b.iter(|| run(&without, 0)));
    group.bench_function("with", |b| b.iter(|| run(&with, 1)));
    group.bench_function("fresh_without", |b| {
        b.iter_batched(|| engine(project.path(), None), |engine| run(&engine, 0), BatchSize::PerIteration);
    });
    group.bench_function("fresh_with", |b| {
        let engine = || engine(project.path(), Some(TrustStore::new(store.folder())));
        b.iter_batched(engine, |engine| run(&engine, 1), BatchSize::PerIteration);
    });
    // What a command does: it reads the configuration, makes an engine, and runs the skill.
    let files = configuration::write_files(data.path(), project.path());
    let load =
        || load_with_user_file(Some(&files[0]), Configuration::new(), |_| Some(project.path().to_owned()));
    let configured = |configuration: Configuration| {
        let builder = builder(project.path(), Some(TrustStore::new(store.folder())));
        builder.configuration(configuration).build().expect("an engine")
    };
    let with_all = configured(load().configuration);
    group.bench_function("with_configuration", |b| b.iter(|| run(&with_all, 1)));
    group.bench_function("command_without", |b| b.iter(|| run(&engine(project.path(), None), 0)));
    group.bench_function("command_with", |b| {
        b.iter(|| {
            let loaded = load();
            loaded.check().expect("a configuration");
            run(&configured(loaded.configuration), 1);
        });
    });
    group.finish();
}
