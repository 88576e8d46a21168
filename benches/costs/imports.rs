//! What it costs to import a definition of each format: read, checked and made the files of a skill, against reading and parsing the
//! same file alone.

use std::path::Path;

use criterion::Criterion;
use metier::formats::import;
use serde_json::json;
use tempfile::TempDir;

/// The formats, by the names of their measurements, and the file of each.
const SAMPLES: [(&str, &str, &str); 3] = [
    ("article", "skill.yaml", include_str!("../../tests/formats/samples/validate-helm-chart.yaml")),
    ("curia", "skill.json", include_str!("../../tests/formats/samples/web-search.json")),
    ("sweny", "skill.yaml", include_str!("../../tests/formats/samples/sweny-github.yaml")),
];
const SKILL_MD: &str = "---\nname: notes\ndescription: Keeps notes of what was decided.\nruntime: lua\nallowed-tools: read write\n\
    metadata:\n  version: \"1.2.0\"\n  max_operations: \"10000\"\n---\n\n# Notes\n\nRun `scripts/main.lua` and say what it found.\n";

pub fn definitions(criterion: &mut Criterion) {
    let folder = TempDir::new().expect("a folder");
    let persona = persona();
    let samples = SAMPLES
        .into_iter()
        .chain([("agentskit", "skill.json", persona.as_str()), ("synwire", "SKILL.md", SKILL_MD)]);
    for (format, file, text) in samples {
        let path = folder.path().join(format).join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        let mut group = criterion.benchmark_group(format!("import/{format}"));
        group.bench_function("metier", |b| {
            b.iter(|| import(file, &read(&path)).expect("a skill"));
        });
        group.bench_function("parse", |b| b.iter(|| parse(&path)));
        group.finish();
    }
}

fn persona() -> String {
    let example =
        json!({"input": "def f(): pass", "output": "It does nothing; remove it or say why it is there."});
    json!({
        "name": "critic", "description": "Criticises code.", "systemPrompt": "You find faults and say how to mend them.",
        "tools": ["read_file", "grep"], "delegates": ["coder"], "examples": [example, example], "temperature": 0.2,
    })
    .to_string()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

/// The number of values in a JSON file, or of events in YAML and in the frontmatter of a `SKILL.md`, which is what it takes to parse them.
fn parse(path: &Path) -> usize {
    let text = String::from_utf8(read(path)).expect("text");
    if path.extension().is_some_and(|extension| extension == "json") {
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        return value.as_object().map_or(0, serde_json::Map::len);
    }
    let yaml = text.strip_prefix("---\n").and_then(|rest| rest.split("\n---\n").next()).unwrap_or(&text);
    granit_parser::Parser::new_from_str(yaml).map_while(Result::ok).count()
}
