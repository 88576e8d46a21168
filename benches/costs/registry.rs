//! Discovery against opening each SKILL.md and reading its head.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use criterion::Criterion;
use metier::engine::{Availability, Engine};
use metier::registry::{Registry, Root, Roots, Scope, Skill};
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
