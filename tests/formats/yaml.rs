//! YAML out: what is written says the same to readers of YAML 1.2 and 1.1, whatever stands in it.

use std::io::Write;
use std::process::{Command, Stdio};

use metier::formats::{ExportFormat, ExportSource, export, parse};
use metier::skill::{Manifest, SkillLocation};
use metier_skill::formats::{instructions, load_alone};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::FileFailurePersistence;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::not_run::not_run;

/// Texts that a reader of YAML takes for something else where they stand without quotes, or for text that ends early.
const ODD_TEXTS: [&str; 62] = [
    "no",
    "No",
    "yes",
    "on",
    "off",
    "y",
    "N",
    "true",
    "False",
    "null",
    "~",
    "Null",
    "1.0",
    "1e3",
    "1e+3",
    ".5",
    "5.",
    "0o7",
    "007",
    "0x1f",
    "0b1",
    "1_000",
    "190:20:30",
    "12:30:45.5",
    "+1",
    "-1",
    ".inf",
    "-.INF",
    ".nan",
    "2024-01-02",
    "2024-01-02T03:04:05Z",
    "2001-12-14 21:59:43.10 -5",
    "=",
    "<<",
    "",
    "- a",
    "-",
    "---",
    "...",
    "? a",
    ": a",
    "a: b",
    "a : b",
    "a:",
    "a #b",
    "#a",
    "&a",
    "*a",
    "!a",
    "%a",
    "@a",
    "`a`",
    "| a",
    "> a",
    "[a",
    "{a",
    "a]",
    "'a'",
    "\"a\"",
    "a\\b",
    " a ",
    "é ü 漢 😀",
];

fn text() -> impl Strategy<Value = String> {
    let lines = prop::collection::vec("[ -~]{0,12}", 0..5).prop_map(|lines| lines.join("\n"));
    let strange = prop::sample::select(vec![
        "a\u{85}b",
        "a\u{2028}b",
        "a\u{2029}b",
        "\u{feff}a",
        "a\u{a0}b",
        "\u{7ff}\u{ffff}",
        "a\tb",
        "\ta",
        "a\t\n",
        "\n",
        "\n\n",
        "a\n",
        "a\n\n",
        "\na",
        " a\nb",
        "  a\n b\n",
        "a \n b",
        "a\n#b",
        "a\n---\nb",
        "a\n...\n",
        "---\na",
        "\u{200b}",
        "\u{202e}a",
        "a\r\nb",
        "a\rb",
    ]);
    let long = "[a-z]{1,9}( [a-z:#]{1,9}){20,40}";
    let odd = prop::sample::select(ODD_TEXTS.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => odd, 2 => lines, 2 => strange.prop_map(str::to_owned), 1 => long, 1 => "\\PC{0,20}"]
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (any::<i16>(), -30_i32..30)
            .prop_map(|(whole, power)| json!(f64::from(whole) / 8.0 * 2_f64.powi(power * 8))),
        prop::sample::select(vec![0.0, -0.0, 1e100, 1e-7, f64::MAX, f64::MIN_POSITIVE]).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let map = prop::collection::btree_map(text(), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            map.prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A skill object whose texts and values are odd, as JSON.
fn skill_object() -> impl Strategy<Value = Value> {
    let parts = (text(), text(), text(), prop::collection::vec(value(), 1..4));
    parts.prop_map(|(label, description, instruction, values)| {
        let line = |text: &str| format!("x{}", text.replace(char::is_control, ""));
        json!({
            "id": "x", "name": line(&label), "description": line(&description), "category": "data",
            "instruction": format!("{instruction}x"),
            "config": {"KEY": {"description": line(&label), "required": true, "env": "KEY"}},
            "tools": [{"name": "t", "description": line(&description), "input_schema": {"type": "object", "examples": values}}],
        })
    })
}

/// The skill in both syntaxes.
fn written(object: &Value) -> Option<(String, String)> {
    let (loaded, parsed) = load_alone("skill.json", object.to_string().as_bytes(), "x");
    let (manifest, contract) = loaded.manifest.zip(parsed.contract)?;
    let skill =
        ExportSource { manifest: &manifest, contract: Some(&contract), text: instructions(&contract) };
    Some((export(ExportFormat::Sweny, skill).text, export(ExportFormat::SwenyYaml, skill).text))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_skill_object_says_the_same_in_both_syntaxes(object in skill_object()) {
        let Some((in_json, in_yaml)) = written(&object) else { return Ok(()) };
        let read = |file: &str, text: &str| parse(file, text.as_bytes(), None).contract;
        let from_json = read("skill.json", &in_json);
        prop_assert!(from_json.is_some(), "{in_json}");
        prop_assert_eq!(read("skill.yaml", &in_yaml), from_json, "{}", in_yaml);
    }

    #[test]
    fn a_frontmatter_keeps_every_text(description in text(), license in text(), note in text()) {
        let line = |text: &str| format!("x{}", text.replace(char::is_control, " "));
        let (description, license) = (line(&description).trim().to_owned(), line(&license).trim().to_owned());
        let frontmatter = json!({"name": "x", "description": description, "license": license, "metadata": {"note": note, "no": "1.0"}});
        let place = SkillLocation { directory: "x", file_name: "SKILL.md" };
        let source = format!("---\n{frontmatter}\n---\n\nDo it.\n");
        let Some(manifest) = metier::skill::parse(source.as_bytes(), place).manifest else { return Ok(()) };
        let skill = ExportSource { manifest: &manifest, contract: None, text: "Do it." };
        let text = export(ExportFormat::SkillMd, skill).text;
        let again = metier::skill::parse(text.as_bytes(), place).manifest;
        let texts = |manifest: &Manifest| (manifest.description.clone(), manifest.license.clone(), manifest.metadata.clone());
        prop_assert_eq!(again.as_ref().map(texts), Some(texts(&manifest)), "{}", text);
    }
}

#[test]
fn a_reader_of_yaml_1_1_reads_the_same_values() {
    let mut runner = TestRunner::deterministic();
    let strategy = skill_object();
    let objects = std::iter::repeat_with(|| strategy.new_tree(&mut runner).unwrap().current()).take(600);
    let (in_json, in_yaml): (Vec<String>, Vec<String>) =
        objects.filter_map(|object| written(&object)).unzip();
    assert!(in_json.len() > 100, "most are no skills: {}", in_json.len());
    let Some(read) = read_by_pyyaml(&in_yaml) else {
        return not_run("YAML 1.1", "there is no Python with PyYAML");
    };
    for ((in_json, in_yaml), read) in in_json.iter().zip(&in_yaml).zip(read) {
        assert_eq!(read, serde_json::from_str::<Value>(in_json).unwrap(), "{in_yaml}");
    }
}

/// What `PyYAML` makes of each text, a failure as its sentence.
fn read_by_pyyaml(texts: &[String]) -> Option<Vec<Value>> {
    const PROGRAM: &str = "import json, sys, yaml\n\
        def read(text):\n    try: return yaml.safe_load(text)\n    except Exception as error: return str(error)\n\
        print(json.dumps([read(text) for text in json.load(sys.stdin)], default=str))";
    let mut python = Command::new("python3");
    // Where `.ci/run` installs it.
    python.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/target/python-packages"));
    python.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = python.spawn().ok()?;
    drop(child.stdin.take()?.write_all(serde_json::to_string(texts).unwrap().as_bytes()));
    let output = child.wait_with_output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn yaml_that_is_written_is_easy_to_read() {
    let object = json!({
        "id": "x", "name": "No", "description": "Sorts: all.", "category": "data", "config": {},
        "instruction": "First line.\nSecond line.", "mcp": {"command": "server", "args": ["-x", "1.0"]},
    });
    let text = "id: x\nname: \"No\"\ndescription: \"Sorts: all.\"\ncategory: data\nconfig: {}\n\
        instruction: |-\n  First line.\n  Second line.\nmcp:\n  command: server\n  args:\n    - -x\n    - \"1.0\"\n";
    assert_eq!(written(&object).unwrap().1, text);
}
