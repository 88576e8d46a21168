//! Discovery against opening each SKILL.md and reading its head, and lists of skills against reading all their files.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};

use criterion::Criterion;
use metier::engine::{Availability, Engine};
use metier::registry::{Registry, Root, Roots, Scope, Skill};
use metier::trust::{SkillFiles, TrustStore};
use tempfile::TempDir;

pub fn scan(criterion: &mut Criterion) {
    for count in [1000, 10_000] {
        let folder = TempDir::new().expect("a folder");
        skills(folder.path(), count);
        let roots = Roots::empty().with(Root::new(Scope::Project, ".bench", folder.path()));
        let mut group = criterion.benchmark_group(format!("scan/{count}"));
        group.sample_size(10);
        group.bench_function("floor", |b| b.iter(|| floor(folder.path(), count)));
        group.bench_function("metier", |b| {
            b.iter(|| assert_eq!(Registry::discover(&roots).skills().len(), count));
        });
        group.finish();
    }
}

/// What it costs to say of 1,000 skills whether they can run, where nothing has to be started or connected to, against their discovery.
pub fn availability(criterion: &mut Criterion) {
    const COUNT: usize = 1000;
    let folder = TempDir::new().expect("a folder");
    skills(folder.path(), COUNT);
    for number in 0..COUNT {
        let skill = folder.path().join(format!("skill-{number}"));
        let needed = number / 2;
        let needs = if number > 0 { format!(", skills: [skill-{needed}]") } else { String::new() };
        let contract = format!(
            "dependencies: {{tools: [sh]{needs}}}\nconfig: {{region: {{required: true, default: north}}}}\n"
        );
        std::fs::write(skill.join("skill.yaml"), contract).expect("a file");
        std::fs::create_dir(skill.join("scripts")).expect("a folder");
        std::fs::write(skill.join("scripts/main.lua"), "return 1").expect("a file");
    }
    let roots = Roots::empty().with(Root::new(Scope::Project, ".bench", folder.path()));
    let engine = Engine::builder(folder.path()).roots(roots.clone()).build().expect("an engine");
    let registry = engine.registry();
    let known: Vec<&Skill> = registry.skills().iter().collect();
    let mut group = criterion.benchmark_group("availability");
    group.sample_size(10);
    group.bench_function("discovery", |b| {
        b.iter(|| assert_eq!(Registry::discover(&roots).skills().len(), COUNT));
    });
    group.bench_function("metier", |b| {
        b.iter(|| assert!(engine.availabilities(&known).iter().all(Availability::is_runnable)));
    });
    group.finish();
}

/// What a model's list takes: finding the skills, comparing the files of each with those that are trusted, and whether it can run;
/// against walking the same folders and reading the same files.
pub fn listing(criterion: &mut Criterion) {
    for count in [1000, 10_000] {
        let (folder, data) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
        let root = folder.path().join("skills");
        std::fs::create_dir(&root).expect("a folder");
        skills(&root, count);
        for number in (0..count).step_by(2) {
            let scripts = root.join(format!("skill-{number}/scripts"));
            std::fs::create_dir(&scripts).expect("a folder");
            std::fs::write(scripts.join("main.lua"), "return 1").expect("a file");
        }
        let roots = Roots::empty().with(Root::new(Scope::Project, ".bench", &root));
        let engine = || {
            let store = TrustStore::new(data.path().join("trust"));
            Engine::builder(folder.path()).roots(roots.clone()).trust(store).build().expect("an engine")
        };
        trust_all(&engine());
        let mut group = criterion.benchmark_group(format!("listing/{count}"));
        group.sample_size(10);
        group.bench_function("floor", |b| b.iter(|| assert_eq!(read_all(&root), count * 3 / 2)));
        group.bench_function("metier", |b| {
            b.iter(|| {
                let engine = engine();
                let registry = engine.registry();
                let catalog = engine.catalog(&registry);
                let answers = engine.availabilities_for_model(catalog.skills());
                assert_eq!(answers.iter().filter(|answer| answer.is_runnable()).count(), count / 2);
                assert_eq!(catalog.list().lines().count(), count);
            });
        });
        group.finish();
    }
}

fn trust_all(engine: &Engine) {
    let registry = engine.registry();
    let files: Vec<SkillFiles> =
        registry.skills().iter().map(|skill| engine.skill_files(skill).expect("has a digest")).collect();
    let project = engine.project_identity(&registry.skills()[0]).expect("a project");
    engine.trust_store().expect("a store").trust_skills(&project, &files).expect("is recorded");
}

/// The number of files below this folder, which are all read.
fn read_all(root: &Path) -> usize {
    let files = walkdir::WalkDir::new(root).into_iter().map(|entry| entry.expect("walks"));
    let files = files.filter(|entry| entry.file_type().is_file());
    files.inspect(|file| drop(black_box(std::fs::read(file.path()).expect("reads")))).count()
}

fn skills(root: &Path, count: usize) {
    let body = "Do this, then that, and explain what was done.\n".repeat(70);
    for number in 0..count {
        let folder = root.join(format!("skill-{number}"));
        std::fs::create_dir(&folder).expect("a folder");
        let text = format!(
            "---\nname: skill-{number}\ndescription: Does the thing that number {number} does. Use when it must be done.\nlicense: MIT\nmetadata:\n  version: \"1.0.0\"\n---\n\n# Skill {number}\n\n{body}"
        );
        std::fs::write(folder.join("SKILL.md"), text).expect("a file");
    }
}

fn floor(root: &Path, count: usize) {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).expect("lists").map(|entry| entry.expect("lists").path()).collect();
    folders.sort();
    let mut head = [0; 4096];
    let mut bytes = 0;
    for folder in folders {
        bytes +=
            File::open(folder.join("SKILL.md")).and_then(|mut file| file.read(&mut head)).expect("reads");
    }
    assert!(bytes > count * 100);
}
