//! The file functions against the standard library and against ripgrep's own crates.

use std::hint::black_box;
use std::path::Path;

use criterion::Criterion;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::SearcherBuilder;
use grep_searcher::sinks::UTF8;
use metier::host::{Files, SkillContext};
use serde_json::{Value, json};
use tempfile::TempDir;

const LINE: &str = "the quick brown fox jumps over the lazy dog, and then it does so again\n";

fn context(project: &Path) -> SkillContext {
    SkillContext::builder("bench").project(Files::open(project).expect("opens")).build()
}

pub fn read(criterion: &mut Criterion) {
    let project = TempDir::new().expect("a folder");
    std::fs::create_dir_all(project.path().join("src/deep")).expect("a folder");
    let path = project.path().join("src/deep/file.txt");
    std::fs::write(&path, LINE.repeat(122)).expect("a file");
    let context = context(project.path());
    let mut group = criterion.benchmark_group("read_file");
    group.bench_function("std", |b| {
        b.iter(|| String::from_utf8(std::fs::read(black_box(&path)).expect("reads")).expect("is text"));
    });
    group.bench_function("metier", |b| {
        b.iter(|| {
            context.call("read_file", vec![Value::from(black_box("src/deep/file.txt"))]).expect("reads")
        });
    });
    group.finish();
}

pub fn grep(criterion: &mut Criterion) {
    let project = TempDir::new().expect("a folder");
    for folder in 0..200 {
        let folder_path = project.path().join(format!("module{folder}"));
        std::fs::create_dir(&folder_path).expect("a folder");
        for file in 0..100 {
            let mut text = LINE.repeat(120);
            if file % 50 == 0 {
                text.push_str("needle in a haystack\n");
            }
            std::fs::write(folder_path.join(format!("file{file}.txt")), text).expect("a file");
        }
    }
    let context = context(project.path());
    let mut group = criterion.benchmark_group("grep");
    group.sample_size(10);
    group.bench_function("ripgrep", |b| b.iter(|| assert_eq!(ripgrep(project.path()), 400)));
    group.bench_function("metier", |b| {
        b.iter(|| {
            let rows = context
                .call("grep", vec!["needle".into(), Value::Null, json!({"max": 1000})])
                .expect("searches");
            assert_eq!(rows.as_array().map(Vec::len), Some(400));
        });
    });
    group.finish();
}

/// What ripgrep does with one thread: its walk, its matcher, its searcher.
fn ripgrep(root: &Path) -> usize {
    let matcher = RegexMatcherBuilder::new().fixed_strings(true).build("needle").expect("a pattern");
    let mut searcher = SearcherBuilder::new().build();
    let mut found: Vec<(String, u64, String)> = Vec::new();
    for entry in ignore::WalkBuilder::new(root).threads(1).build().flatten() {
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            let sink = UTF8(|line, text| {
                found.push((entry.path().display().to_string(), line, text.to_owned()));
                Ok(true)
            });
            searcher.search_path(&matcher, entry.path(), sink).expect("searches");
        }
    }
    found.len()
}
