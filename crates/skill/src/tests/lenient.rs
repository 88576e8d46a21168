//! What loads although it is not valid, and what does not.

use super::*;

#[track_caller]
fn loads_as(name: &str, parsed: ParsedSkill) {
    assert!(!parsed.is_valid(Profile::Spec));
    assert_eq!(manifest(parsed).name, name);
}

#[track_caller]
fn does_not_load(parsed: &ParsedSkill, code: &str) {
    assert!(!parsed.is_loadable());
    assert!(!parsed.is_valid(Profile::Spec));
    assert!(codes(parsed).contains(&code), "{:?}", parsed.diagnostics);
}

#[test]
fn a_cosmetic_fault_in_the_name_does_not_hide_a_skill() {
    loads_as("other", pdf("name: other\ndescription: x"));
    loads_as("My Skill_", pdf("name: My Skill_\ndescription: x"));
    let long = "a".repeat(70);
    loads_as(&long, pdf(&format!("name: {long}\ndescription: x")));
}

#[test]
fn a_file_without_frontmatter_is_described_by_its_text() {
    let parsed = read("pdf", "\u{feff}# PDF\n\nReads forms.\n");
    assert_eq!(codes(&parsed), ["frontmatter-missing"]);
    let manifest = manifest(parsed);
    assert_eq!((manifest.name.as_str(), manifest.description.as_str()), ("pdf", "Reads forms."));
    assert_eq!((manifest.body_offset, manifest.allowed_tools.len()), (3, 0));
    // What is read in steps says the same as the whole file.
    let long = format!("{}\nWords.{}é\n", "#".repeat(4000), "a".repeat(88));
    assert_eq!(read("pdf", &long[..4095]).manifest, read("pdf", &long).manifest);
}

#[test]
fn the_directory_stands_in_for_a_missing_name() {
    for name in ["", "name:", "name: ~", "name: ' '", "name: [a]"] {
        loads_as("pdf", pdf(&format!("{name}\ndescription: x")));
    }
}

#[test]
fn without_a_description_there_is_nothing_to_load() {
    does_not_load(&pdf("name: pdf"), "description-missing");
    does_not_load(&pdf("name: pdf\ndescription:"), "description-empty");
    does_not_load(&pdf("name: pdf\ndescription: '  '"), "description-empty");
    does_not_load(&pdf("name: pdf\ndescription: [x]"), "description-not-text");
}

#[test]
fn an_unquoted_colon_is_repaired_and_marked() {
    let parsed = pdf("name: pdf\ndescription: Use when: it's a PDF\nfrob: 1");
    assert_eq!(places(&parsed), [("yaml-repaired", 3, 22), ("key-unknown", 4, 1)]);
    assert_eq!(errors(&parsed, Profile::Spec), ["yaml-repaired"]);
    assert_eq!(errors(&parsed, Profile::SkillsRef), ["yaml-invalid"]);
    assert_eq!(manifest(parsed).description, "Use when: it's a PDF");
}

#[test]
fn places_after_a_repair_are_those_of_the_file() {
    let text = "---\nname: PDF\ndescription: it's: a\nfrob: 1\n---\n";
    let parsed = read("PDF", text);
    let spans: Vec<_> = parsed.diagnostics.iter().map(|found| &text[found.span.clone()]).collect();
    assert_eq!(spans[1..], ["PDF", "frob"]);
}

#[test]
fn a_rule_in_a_text_without_frontmatter_is_no_frontmatter() {
    for text in ["Reads forms.\n\n---\n\nMore: yes\n", "Reads forms.\n---\nOther\n---\nname: x\n"] {
        assert!(read("pdf", text).manifest.is_some(), "{text}");
    }
    let below = format!("Reads forms.\n{}---\nname: x\n---\n", "\n".repeat(10));
    assert!(read("pdf", &below).manifest.is_some());
}

#[test]
fn yaml_beyond_repair_does_not_load() {
    does_not_load(&pdf("name: pdf\ndescription: x\n<<<<<<< HEAD"), "yaml-invalid");
    does_not_load(&pdf("name: pdf\ndescription: x\n- a"), "yaml-invalid");
    does_not_load(&pdf("name: pdf\ndescription: x\ndescription: y"), "yaml-duplicate-key");
}

#[test]
fn what_is_no_manifest_says_why() {
    does_not_load(&read("pdf", "name: pdf\ndescription: x\n"), "frontmatter-missing");
    does_not_load(&read("pdf", "Reads \u{1b}[31m forms"), "control-character");
    does_not_load(&read("pdf", "---\nname: pdf\n"), "frontmatter-unclosed");
    for before in ["# lint: off\n", "```yaml\n", "<!-- generated -->\n\n"] {
        let text = format!("{before}---\nname: pdf\ndescription: x\nallowed-tools: Read\n---\nText\n");
        does_not_load(&read("pdf", &text), "frontmatter-misplaced");
    }
    does_not_load(&pdf("just text"), "not-a-map");
}
