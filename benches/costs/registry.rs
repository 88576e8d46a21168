//! Discovery against opening each SKILL.md and reading its head.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use criterion::Criterion;
use metier::registry::{Registry, Root, Roots, Scope};
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
