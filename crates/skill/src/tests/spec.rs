//! The specification's own rules, and what the strict profile says of them.

use serde_json::json;

use super::*;
use crate::KeyClass;

const NOTHING: [&str; 0] = [];

#[track_caller]
fn strict(parsed: &ParsedSkill, expected: &[&str]) {
    assert_eq!(errors(parsed, Profile::Spec), expected);
    assert_eq!(parsed.is_valid(Profile::Spec), expected.is_empty());
}

#[test]
fn the_smallest_skill_is_valid() {
    let parsed = pdf("name: pdf\ndescription: Reads PDF files.");
    assert_eq!(codes(&parsed), NOTHING);
    let manifest = manifest(parsed);
    assert_eq!((manifest.name.as_str(), manifest.description.as_str()), ("pdf", "Reads PDF files."));
    assert_eq!(manifest.version, semver::Version::new(0, 0, 0));
    assert_eq!(manifest.runtime, None);
}

#[test]
fn every_field_is_read() {
    let parsed = pdf_with(
        "license: MIT\ncompatibility: needs poppler\nallowed-tools: Read Bash(git add:*)\n\
         metadata:\n  author: me\n  version: 1.2.3\n  runtime: lua",
    );
    assert_eq!(codes(&parsed), NOTHING);
    let manifest = manifest(parsed);
    assert_eq!(manifest.license.as_deref(), Some("MIT"));
    assert_eq!(manifest.compatibility.as_deref(), Some("needs poppler"));
    assert_eq!(manifest.allowed_tools, ["Read", "Bash(git add:*)"]);
    assert_eq!(manifest.version, semver::Version::new(1, 2, 3));
    assert_eq!(manifest.runtime.as_deref(), Some("lua"));
    assert_eq!(manifest.metadata["author"], "me");
}

#[test]
fn the_body_starts_after_the_closing_line() {
    let text = "\u{feff}\n---\r\nname: pdf\r\ndescription: x\r\n--- \r\nBody\n---\n";
    let manifest = manifest(read("pdf", text));
    assert_eq!(&text[manifest.body_offset..], "Body\n---\n");
}

#[test]
fn a_name_has_rules() {
    for (name, code) in [
        ("MySkill", "name-uppercase"),
        ("-my-skill", "name-edge-hyphen"),
        ("my-skill-", "name-edge-hyphen"),
        ("my--skill", "name-double-hyphen"),
        ("my_skill", "name-characters"),
        ("НАВЫК", "name-uppercase"),
    ] {
        strict(&read(name, format!("---\nname: {name}\ndescription: x\n---\n")), &[code]);
    }
    let long = "a".repeat(70);
    strict(&read(&long, format!("---\nname: {long}\ndescription: x\n---\n")), &["name-too-long"]);
    strict(&read("wrong-name", "---\nname: correct-name\ndescription: x\n---\n"), &["name-mismatch"]);
    strict(&pdf("name: [pdf]\ndescription: x"), &["name-not-text"]);
    strict(&pdf("name:\ndescription: x"), &["name-empty"]);
    strict(&pdf("description: x"), &["name-missing"]);
}

#[test]
fn names_in_other_scripts_are_valid_and_compared_in_nfkc() {
    for name in ["技能", "мой-навык", "कौशल"] {
        let parsed = read(name, format!("---\nname: {name}\ndescription: x\n---\n"));
        strict(&parsed, &[]);
        assert_eq!(codes(&parsed), ["name-not-ascii"]);
    }
    let parsed = read("caf\u{e9}", "---\nname: cafe\u{301}\ndescription: x\n---\n");
    strict(&parsed, &[]);
    assert_eq!(codes(&parsed), ["name-not-normalised", "name-not-ascii"]);
    assert_eq!(manifest(parsed).name, "caf\u{e9}");
    strict(&read("cafe\u{301}", "---\nname: caf\u{e9}\ndescription: x\n---\n"), &[]);
}

#[test]
fn texts_have_lengths() {
    strict(&pdf(&format!("name: pdf\ndescription: {}", "é".repeat(1024))), &[]);
    strict(&pdf(&format!("name: pdf\ndescription: {}", "é".repeat(1025))), &["description-too-long"]);
    strict(&pdf_with(&format!("compatibility: {}", "c".repeat(500))), &[]);
    strict(&pdf_with(&format!("compatibility: {}", "c".repeat(501))), &["compatibility-too-long"]);
    strict(&pdf_with("compatibility: ''"), &["compatibility-empty"]);
    strict(&pdf_with("compatibility: [a]"), &["compatibility-not-text"]);
    strict(&pdf_with("license: {a: b}"), &["license-not-text"]);
}

#[test]
fn scalars_keep_their_source_text() {
    let parsed = pdf_with("metadata:\n  a: 1.10\n  b: 2024-01-01\n  c: yes\n  d:\n  version: 1.0");
    assert_eq!(codes(&parsed), ["version-short"]);
    let manifest = manifest(parsed);
    assert_eq!(
        json!(manifest.metadata),
        json!({"a": "1.10", "b": "2024-01-01", "c": "yes", "d": "", "version": "1.0"})
    );
    assert_eq!(manifest.version, semver::Version::new(1, 0, 0));
}

#[test]
fn nested_metadata_is_kept_with_a_warning() {
    let parsed = pdf_with("metadata: {openclaw: {requires: {bins: [curl]}, always: true}, version: soon}");
    strict(&parsed, &[]);
    assert_eq!(codes(&parsed), ["metadata-nested", "version-not-semantic"]);
    let manifest = manifest(parsed);
    assert_eq!(manifest.metadata["openclaw"], json!({"requires": {"bins": ["curl"]}, "always": "true"}));
    assert_eq!(manifest.version, semver::Version::new(0, 0, 0));
    strict(&pdf_with("metadata: text"), &["metadata-not-a-map"]);
}

#[test]
fn allowed_tools_come_in_three_forms() {
    for (written, code) in [
        ("allowed-tools: Read Bash(git add:*) Write", None),
        ("allowed-tools: Read, Bash(git add:*), Write", Some("allowed-tools-form")),
        ("allowed-tools: [Read, 'Bash(git add:*)', Write]", Some("allowed-tools-form")),
        ("allowed-tools:\n  - Read\n  - Bash(git add:*)\n  - Write", Some("allowed-tools-form")),
    ] {
        let parsed = pdf_with(written);
        strict(&parsed, &[]);
        assert_eq!(codes(&parsed), Vec::from_iter(code), "{written}");
        assert_eq!(manifest(parsed).allowed_tools, ["Read", "Bash(git add:*)", "Write"]);
    }
    strict(&pdf_with("allowed-tools: {a: b}"), &["allowed-tools-not-text"]);
}

#[test]
fn unknown_keys_warn_and_are_kept() {
    let parsed = pdf_with("argument-hint: '[file]'\nversion: 2\nlicence: MIT\nfrob: {a: 1}");
    strict(&parsed, &[]);
    assert_eq!(codes(&parsed), ["key-extension", "key-belongs-in-metadata", "key-typo", "key-unknown"]);
    assert_eq!(parsed.diagnostics[2].help.as_deref(), Some("did you mean `license`?"));
    let unknown = manifest(parsed).unknown;
    assert_eq!(unknown[1].class, KeyClass::BelongsInMetadata);
    assert_eq!((unknown[3].key.as_str(), &unknown[3].value), ("frob", &json!({"a": "1"})));
}

#[test]
fn runtime_may_stand_in_two_places_and_must_agree() {
    assert_eq!(manifest(pdf_with("runtime: lua")).runtime.as_deref(), Some("lua"));
    assert_eq!(manifest(pdf_with("metadata: {runtime: external}")).runtime.as_deref(), Some("external"));
    strict(&pdf_with("runtime: lua\nmetadata: {runtime: lua}"), &[]);
    strict(&pdf_with("runtime: lua\nmetadata: {runtime: rhai}"), &["runtime-disagrees"]);
    strict(&pdf_with("runtime: [lua]"), &["runtime-not-text"]);
}

#[test]
fn oddities_around_the_frontmatter_only_warn() {
    let parsed = read("pdf", "\u{feff}\r\n---\r\nname: pdf\r\ndescription: x\r\n---\r\n");
    strict(&parsed, &[]);
    assert_eq!(codes(&parsed), ["byte-order-mark", "leading-blank-lines", "crlf"]);
}

#[test]
fn the_file_is_called_skill_md() {
    let text = b"---\nname: pdf\ndescription: x\n---\n";
    for (file, spec, reference) in
        [("SKILL.md", true, true), ("skill.md", true, true), ("Skill.md", false, false)]
    {
        let parsed = parse(text, SkillLocation { directory: "pdf", file_name: file });
        assert_eq!(
            (parsed.is_valid(Profile::Spec), parsed.is_valid(Profile::SkillsRef)),
            (spec, reference),
            "{file}"
        );
        assert_eq!(parsed.diagnostics.is_empty(), file == "SKILL.md");
        assert!(parsed.is_loadable());
    }
}

#[test]
fn only_a_line_of_three_hyphens_delimits() {
    let parsed = pdf("name: pdf\ndescription: |\n  one --- two\n  ---\n  three");
    strict(&parsed, &[]);
    assert_eq!(manifest(parsed).description, "one --- two\n---\nthree");
    strict(&read("pdf", "---\nname: pdf\ndescription: x\n---more\n"), &["frontmatter-unclosed"]);
    strict(&read("pdf", "---\nname: pdf\ndescription: x\n...\n"), &["frontmatter-unclosed"]);
    strict(&read("pdf", "name: pdf\n"), &["frontmatter-missing", "description-missing"]);
    strict(&read("pdf", ""), &["frontmatter-missing", "description-missing"]);
    strict(&pdf("- name\n- pdf"), &["not-a-map"]);
    strict(&pdf("# nothing"), &["not-a-map"]);
}

#[test]
fn a_diagnostic_points_at_the_value() {
    let parsed = pdf("description: ünï\nname:  PDF # loud\nfrob: 1");
    assert_eq!(places(&parsed), [("name-uppercase", 3, 8), ("name-mismatch", 3, 8), ("key-unknown", 4, 1)]);
    let text = "---\ndescription: ünï\nname:  PDF # loud";
    assert_eq!(&text[parsed.diagnostics[0].span.clone()], "PDF");
}

#[test]
fn a_diagnostic_serialises_with_every_key() {
    let parsed = read("pdf", "---\ndescription: x\n---\n");
    let expected = json!([{
        "code": "name-missing", "severity": "error", "line": 1, "column": 1,
        "message": "Missing required field in frontmatter: name", "help": "add `name: pdf`",
    }]);
    assert_eq!(json!(parsed.diagnostics), expected);
}
