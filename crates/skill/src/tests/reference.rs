//! The reference validator's verdicts: its own tests, then its behaviour as probed beyond them.

use super::*;

#[track_caller]
fn refused(parsed: &ParsedSkill, code: &str, phrase: &str) {
    let found: Vec<_> =
        parsed.diagnostics(Profile::SkillsRef).filter(|found| found.severity == Severity::Error).collect();
    assert!(!parsed.is_valid(Profile::SkillsRef));
    assert!(found.iter().any(|found| found.code == code && found.message.contains(phrase)), "{found:?}");
}

#[track_caller]
fn accepted(parsed: &ParsedSkill) {
    assert_eq!(errors(parsed, Profile::SkillsRef), [""; 0]);
    assert!(parsed.is_valid(Profile::SkillsRef));
}

fn named(name: &str) -> ParsedSkill {
    read(name, format!("---\nname: {name}\ndescription: x\n---\n"))
}

#[test]
fn its_own_tests_hold() {
    accepted(&pdf_with("license: MIT\ncompatibility: any\nallowed-tools: Read\nmetadata:\n  version: 1.0"));
    refused(&named("MySkill"), "name-uppercase", "lowercase");
    refused(&named(&"a".repeat(70)), "name-too-long", "exceeds 64 character limit");
    refused(&named("-my-skill"), "name-edge-hyphen", "hyphen");
    refused(&named("my--skill"), "name-double-hyphen", "consecutive hyphens");
    refused(&named("my_skill"), "name-characters", "invalid characters");
    refused(&read("wrong-name", "---\nname: right\ndescription: x\n---\n"), "name-mismatch", "must match");
    refused(&pdf_with("unknown_field: x"), "key-unexpected", "Unexpected fields");
    accepted(&named("技能"));
    accepted(&named("мой-навык"));
    refused(&named("НАВЫК"), "name-uppercase", "lowercase");
    let long = format!("name: pdf\ndescription: {}", "a".repeat(1100));
    refused(&pdf(&long), "description-too-long", "1024");
    refused(&pdf_with(&format!("compatibility: {}", "a".repeat(550))), "compatibility-too-long", "500");
    accepted(&read("caf\u{e9}", "---\nname: cafe\u{301}\ndescription: x\n---\n"));
    refused(&pdf("- a\n- b"), "not-a-map", "must be a YAML mapping");
    refused(&read("pdf", "---\nname: pdf\n"), "frontmatter-unclosed", "not properly closed");
    refused(&read("pdf", "# PDF\n"), "frontmatter-missing", "must start with YAML frontmatter");
    refused(&pdf("name: [unclosed\ndescription: x"), "yaml-invalid", "Invalid YAML");
    refused(&pdf("description: x"), "name-missing", "Missing required field in frontmatter: name");
    refused(&pdf("name: pdf"), "description-missing", "Missing required field in frontmatter: description");
}

#[test]
fn it_cuts_at_three_hyphens_anywhere() {
    refused(&pdf("name: pdf\ndescription: 'a --- b'"), "yaml-invalid", "Invalid YAML");
    accepted(&pdf("name: pdf\ndescription: |\n  one\n  ---\n  two"));
    accepted(&read("pdf", "---\nname: pdf\ndescription: x\n---more\n"));
    refused(
        &read("pdf", "---\nname: pdf\ndescription: x\n...\n"),
        "frontmatter-unclosed",
        "not properly closed",
    );
}

#[test]
fn it_wants_the_first_bytes_to_be_hyphens() {
    let skill = "---\nname: pdf\ndescription: x\n---\n";
    refused(&read("pdf", format!("\u{feff}{skill}")), "frontmatter-missing", "must start");
    refused(&read("pdf", format!("\n{skill}")), "frontmatter-missing", "must start");
    accepted(&read("pdf", skill.replace('\n', "\r\n")));
}

#[test]
fn it_refuses_bytes_that_are_no_text() {
    refused(&read("pdf", b"---\nname: pdf\ndescription: caf\xe9\n---\n"), "not-utf8", "0xE9 at offset 30");
    refused(&pdf("name: pdf\ndescription: a\u{85}\u{80}"), "control-character", "control character");
}

#[test]
fn it_takes_a_strict_subset_of_yaml() {
    for line in [
        "allowed-tools: [Read]",
        "metadata: {a: b}",
        "license: &a MIT",
        "license: !!str MIT",
        "license:\tMIT",
        "license: MIT\t",
        "metadata:\n  <<: x",
        "metadata:\n  a:\n    b: c\n  d:\n      e: f",
    ] {
        refused(&pdf_with(line), "yaml-not-strict", "Invalid YAML");
        assert!(pdf_with(line).is_valid(Profile::Spec), "{line}");
    }
    refused(&pdf_with("license: a\nlicense: b"), "yaml-duplicate-key", "Invalid YAML");
    accepted(&pdf_with("license: 'a\tb'\ncompatibility: |\n  a\tb # c\n# d\te"));
}

#[test]
fn it_accepts_what_the_specification_does_not() {
    accepted(&pdf_with("compatibility: ''"));
    accepted(&pdf_with("metadata: text"));
    accepted(&pdf_with("metadata:\n  a:\n    - b\n  c:\n    d: e"));
    accepted(&pdf_with("license:\n  - MIT\nallowed-tools:\n  - Read"));
}

#[test]
fn it_reads_numbers_and_booleans_as_text() {
    accepted(&named("123"));
    accepted(&named("true"));
    accepted(&named("null"));
}

#[test]
fn it_counts_code_points_untrimmed() {
    accepted(&pdf(&format!("name: pdf\ndescription: {}", "😀".repeat(1024))));
    let padded = format!("name: pdf\ndescription: '{} '", "a".repeat(1024));
    refused(&pdf(&padded), "description-too-long", "1025");
    assert!(pdf(&padded).is_valid(Profile::Spec));
}

#[test]
fn it_knows_python_letters() {
    refused(&named("कौशल"), "name-characters", "invalid characters");
    refused(&named("ทักษะ"), "name-characters", "invalid characters");
    accepted(&named("straße"));
    accepted(&read("a2", "---\nname: a²\ndescription: x\n---\n"));
    accepted(&read("abc", "---\nname: ａｂｃ\ndescription: x\n---\n"));
}

#[test]
fn it_refuses_a_folder_called_nothing() {
    refused(&read("", "---\nname: pdf\ndescription: x\n---\n"), "name-mismatch", "must match");
}

#[test]
fn what_keeps_a_skill_from_loading_is_said_here_too() {
    let parsed = read("pdf", "---\nname: pdf\ndescription: x\n---more\n");
    let found: Vec<_> =
        parsed.diagnostics(Profile::SkillsRef).map(|found| (found.code, found.severity)).collect();
    assert_eq!(found, [("frontmatter-unclosed", Severity::Warning)]);
    assert!(!parsed.is_loadable());
}
