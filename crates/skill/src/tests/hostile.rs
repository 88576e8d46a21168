//! Text that means harm: large enough that a blow-up would hang.

use proptest::prelude::*;

use super::*;
use crate::{FrontmatterLen, MAX_FRONTMATTER, frontmatter_len};

#[track_caller]
fn refused(parsed: &ParsedSkill, code: &str) {
    assert!(!parsed.is_loadable());
    assert!(!parsed.is_valid(Profile::Spec) && !parsed.is_valid(Profile::SkillsRef));
    assert!(codes(parsed).contains(&code), "{:?}", parsed.diagnostics);
}

#[test]
fn fifty_megabytes_of_frontmatter_are_refused_unread() {
    for filler in ["a: b\n", "[", "\u{0}", "é"] {
        let endless = format!("---\n{}", filler.repeat(50_000_000 / filler.len()));
        refused(&read("pdf", endless.as_bytes()), "frontmatter-too-large");
        assert_eq!(frontmatter_len(endless.as_bytes()), FrontmatterLen::TooLarge);
    }
    let blank = vec![b'\n'; 50_000_000];
    refused(&read("pdf", &blank), "frontmatter-too-large");
}

#[test]
fn deep_nesting_is_refused() {
    for nest in ["[", "{a: ", "- ", "? ", "[{a: "] {
        let deep = nest.repeat(60_000 / nest.len());
        refused(&pdf(&format!("name: pdf\ndescription: x\nmetadata:\n  {deep}")), "yaml-too-deep");
    }
    let indented = (0..200).map(|depth| " ".repeat(depth) + "a:\n").collect::<Vec<_>>().concat();
    refused(&pdf(&indented), "yaml-too-deep");
    refused(&pdf(&"[".repeat(100_000)), "frontmatter-too-large");
}

#[test]
fn aliases_do_not_multiply() {
    refused(&pdf_with(&billion_laughs()), "yaml-too-big");
}

#[test]
fn repetition_costs_no_more_than_its_length() {
    let patterns = [
        "a: b: c\n",
        "'",
        "\"",
        "'x' ",
        "\"\\",
        "&a ",
        "*a ",
        "!a ",
        "!<a",
        "? a\n",
        ": ",
        ":",
        "- a\n",
        "-\n",
        "|\n",
        ">\n ",
        "# c\n",
        " #",
        "%a b\n",
        "a: |\n",
        "a: 'b\n",
        "a: [b\n",
        "{a}, ",
        "a: *a\n",
        "a: &a\n",
        "\t",
        "\r",
        "a:\n ",
        "  a: b\n",
        "...\n",
        "a: \"b\n\n",
        "x ",
        "ab\n",
        "a: [b] [c]\n",
        ",",
        "[,",
        "]",
        "}",
    ];
    for pattern in patterns {
        let text = pattern.repeat(60_000 / pattern.len());
        let plain = pdf(&text);
        let nested = pdf_with(&format!("metadata: {text}"));
        let inner = pdf_with(&format!("metadata:\n  a: {}", text.replace('\n', "\n  ")));
        for parsed in [plain, nested, inner] {
            assert!(parsed.diagnostics.len() < 100, "{pattern:?}");
        }
    }
}

#[test]
fn tabs_are_looked_up_not_searched_for() {
    let inside = pdf_with(&format!("license: \"{}\"", "\t".repeat(60_000)));
    assert!(inside.is_valid(Profile::SkillsRef));
    let between = pdf_with(&format!("metadata:\n{}", "- 'a\t'\t# \t\n".repeat(5_000)));
    assert!(!between.is_valid(Profile::SkillsRef) && between.is_loadable());
}

#[test]
fn thousands_of_keys_end_in_few_diagnostics() {
    let keys = (0..4_000).map(|key| format!("k{key}: {key}\n")).collect::<Vec<_>>().concat();
    let parsed = pdf_with(&keys);
    assert!(parsed.is_loadable());
    assert_eq!(parsed.diagnostics.len(), 33);
    assert_eq!(manifest(parsed).unknown.len(), 4_000);
    let line = format!("{{name: pdf, description: x, {}}}", keys.trim_end().replace('\n', ", "));
    assert_eq!(pdf(&line).diagnostics.len(), 33);
}

#[test]
fn control_characters_are_errors_with_a_position() {
    for control in ['\u{0}', '\u{8}', '\u{1b}', '\u{7f}', '\u{80}', '\u{9b}'] {
        let parsed = pdf(&format!("name: pdf\ndescription: é{control}"));
        refused(&parsed, "control-character");
        assert_eq!(places(&parsed), [("control-character", 3, 15)]);
    }
    let escaped = pdf("name: pdf\ndescription: \"a\\0b\"");
    refused(&escaped, "control-character");
    let body = read("pdf", "---\nname: pdf\ndescription: x\n---\nab\u{0}");
    assert_eq!(places(&body), [("body-control-character", 5, 3)]);
    assert!(body.is_loadable());
}

#[test]
fn bytes_that_are_not_utf8_are_named_by_their_offset() {
    let parsed = read("pdf", b"---\nname: pdf\ndescription: \xc3\xa9\xff\n---\n");
    refused(&parsed, "not-utf8");
    assert_eq!(places(&parsed), [("not-utf8", 3, 15)]);
    assert!(parsed.diagnostics[0].message.contains("byte 0xFF at offset 29"));
    refused(&read("pdf", b"---\nname: pdf\ndescription: x\n---\nbody \xc3"), "not-utf8");
    refused(&read("pdf", b"\xff\xfe-\0-\0-\0"), "not-utf8");
}

/// Text that has a chance to get past the first checks.
fn skill_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("---\n".to_owned()),
        Just("name: pdf\n".to_owned()),
        Just("description: Use when: it's é\r\n".to_owned()),
        Just("metadata:\n  version: ".to_owned()),
        Just("allowed-tools: [Bash(a), ".to_owned()),
        "[\\[\\]{}:,'\"&*!|>%@#a \n\t-]{0,12}",
        ".{0,6}",
    ];
    let pieces = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![
        4 => pieces.prop_map(|inner| [b"---\n", &inner[..], b"\n---\nbody"].concat()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_end_in_diagnostics_that_lie_inside_the_text(source in skill_like(), directory in ".{0,4}") {
        let parsed = read(&directory, &source);
        let lines: Vec<_> = source.split(|&byte| byte == b'\n').collect();
        for found in parsed.diagnostics(Profile::Spec).chain(parsed.diagnostics(Profile::SkillsRef)) {
            prop_assert!(found.span.start <= found.span.end && found.span.end <= source.len());
            prop_assert!(found.line >= 1 && found.line as usize <= lines.len());
            prop_assert!(found.column >= 1 && found.column as usize <= lines[found.line as usize - 1].len() + 1);
        }
        prop_assert_eq!(parsed.is_loadable(), parsed.diagnostics.iter().all(|found| !found.blocks));
        prop_assert!(parsed.is_loadable() || !parsed.is_valid(Profile::Spec));
        prop_assert!(parsed.manifest.is_none_or(|manifest| manifest.body_offset <= source.len()));
    }

    #[test]
    fn a_head_holds_all_that_the_manifest_needs(source in skill_like()) {
        if let FrontmatterLen::Complete(length) = frontmatter_len(&source) {
            prop_assert!(length <= MAX_FRONTMATTER);
            let (head, whole) = (read("pdf", &source[..length]), read("pdf", &source));
            if std::str::from_utf8(&source).is_ok() {
                prop_assert_eq!(head.manifest, whole.manifest);
            }
        }
    }
}
