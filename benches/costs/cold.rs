//! A whole process: `metier run` of a trivial skill, from nothing to its answer.

use std::process::Command;

use criterion::Criterion;
use tempfile::TempDir;

pub fn start(criterion: &mut Criterion) {
    let project = TempDir::new().expect("a folder");
    let skill = project.path().join(".metier/skills/double");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    std::fs::write(skill.join("SKILL.md"), "---\nname: double\ndescription: Doubles.\n---\n")
        .expect("a file");
    std::fs::write(skill.join("scripts/main.lua"), "return input * 2").expect("a file");
    let mut group = criterion.benchmark_group("cold");
    group.bench_function("true", |b| b.iter(|| Command::new("true").output().expect("runs")));
    group.bench_function("metier", |b| {
        b.iter(|| {
            let output = Command::new(env!("CARGO_BIN_EXE_metier"))
                .args(["run", "double", "--input", "21"])
                .current_dir(project.path())
                .output()
                .expect("runs");
            assert_eq!(output.stdout, b"42\n");
        });
    });
    group.finish();
}
