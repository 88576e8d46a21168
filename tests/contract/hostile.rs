//! Contracts written to hurt: whatever they hold, they are refused in a sentence, and soon.

use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::skill::contract::parse;
use serde_json::{Value, json};

use crate::contract::violations;
use crate::support::engine::{Project, kind, sentence};

/// Far above what any of it takes, far below what it would take undefended.
const PATIENCE: Duration = Duration::from_secs(20);

/// The codes found in a contract, soon.
#[track_caller]
fn codes(text: &str) -> Vec<&'static str> {
    let begun = Instant::now();
    let parsed = parse(text.as_bytes());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    parsed.diagnostics.iter().map(|found| found.code).collect()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn ten_thousand_inputs_are_too_many() {
    let text = lines(10_000, |n| format!("  p{n}: {{type: string, required: true}}\n"));
    assert_eq!(codes(&format!("inputs:\n{text}")), ["contract-too-large"]);
    let short = lines(10_000, |n| format!("  p{n}: {{}}\n"));
    assert_eq!(codes(&format!("inputs:\n{short}")), ["yaml-too-big"]);
}

#[test]
fn laughs_by_the_billion_are_not_laughed() {
    let first = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]".to_owned();
    let rungs = ('a'..='g').zip('b'..='h').map(|(below, name)| {
        let nine = vec![format!("*{below}"); 9].join(", ");
        format!("{name}: &{name} [{nine}]")
    });
    let text = std::iter::once(first).chain(rungs).collect::<Vec<_>>().join("\n");
    assert_eq!(codes(&text), ["yaml-too-big"]);
}

#[test]
fn nested_references_do_not_multiply_a_schema_either() {
    let defs = lines(25, |n| {
        let below = format!("{{$ref: '#/$defs/d{}'}}", n + 1);
        format!("    d{n}: {{anyOf: [{below}, {below}]}}\n")
    });
    let text =
        format!("inputs:\n  type: object\n  $ref: '#/$defs/d0'\n  $defs:\n{defs}    d25: {{type: object}}\n");
    assert_eq!(codes(&text), ["schema-too-large"]);
}

/// Forty schemas, each of which refers twice to the next by these references.
fn doubling(reference: impl Fn(usize) -> String, named: impl Fn(usize) -> String) -> String {
    let defs = lines(40, |n| {
        let below = format!("{{$ref: '{}'}}", reference(n + 1));
        format!("    d{n}: {{{}allOf: [{below}, {below}]}}\n", named(n))
    });
    let first = reference(0);
    let last = format!("    d40: {{{}type: object}}\n", named(40));
    format!("inputs:\n  type: object\n  $ref: '{first}'\n  $defs:\n{defs}{last}")
}

#[test]
fn what_is_weighed_is_what_a_reference_leads_to() {
    let decoys = lines(41, |n| format!("    e{n}: {{$anchor: x{n}}}\n"));
    let named = doubling(|n| format!("#x{n}"), |n| format!("$anchor: x{n}, "));
    let example = "examples: [{inputs: {a: 1}}]\n";
    assert_eq!(codes(&format!("{named}  zzz:\n{decoys}{example}")), ["schema-reference"]);
    assert_eq!(codes(&format!("{named}{example}")), ["schema-too-large"]);
    let decoys = lines(41, |n| format!("    '%64{n}': true\n"));
    let spelt = doubling(|n| format!("#/$defs/%64{n}"), |_| String::new());
    assert_eq!(codes(&format!("{spelt}{decoys}{example}")), ["schema-reference"]);
    let circle = "inputs: {type: object, $ref: '#/$defs/a', $defs: {'%61': true, a: {anyOf: [{$ref: '#/$defs/%61'}]}}}";
    assert_eq!(codes(circle), ["schema-reference"]);
}

#[test]
fn what_asks_for_the_rest_level_by_level_is_weighed_as_it_is_checked() {
    let defs = lines(20, |n| {
        format!(
            "    l{}: {{anyOf: [{{$ref: '#/$defs/l{n}'}}], unevaluatedProperties: {{type: integer}}}}\n",
            n + 1
        )
    });
    let text =
        format!("inputs:\n  type: object\n  $ref: '#/$defs/l20'\n  $defs:\n    l0: {{type: object}}\n{defs}");
    assert_eq!(codes(&text), ["schema-too-large"]);
}

#[test]
fn nothing_is_fetched_and_nothing_read() {
    for reference in
        ["file:///etc/passwd", "http://127.0.0.1:1/x", "https://example.com/x.json", "/etc/passwd", "x.json"]
    {
        let text = format!("inputs: {{type: object, properties: {{a: {{$ref: '{reference}'}}}}}}");
        let parsed = parse(text.as_bytes());
        let cause = parsed.blocking_diagnostic().unwrap();
        assert_eq!(cause.code, "schema-reference", "{reference}");
        assert!(cause.message.contains("nothing is fetched"), "{}", cause.message);
    }
    for dialect in ["https://example.com/own", "file:///etc/passwd"] {
        assert_eq!(codes(&format!("inputs: {{$schema: '{dialect}', type: object}}")), ["schema-reference"]);
    }
    assert_eq!(
        codes("inputs: {$id: 'file:///etc/', type: object, properties: {a: {$ref: 'passwd'}}}"),
        ["schema-reference"]
    );
}

#[test]
fn schemas_do_not_go_in_circles() {
    for text in [
        "inputs: {type: object, properties: {a: {$ref: '#'}}}",
        "inputs: {$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}",
        "inputs: {type: object, properties: {a: {$dynamicRef: '#x'}}}",
    ] {
        assert_eq!(codes(text), ["schema-reference"], "{text}");
    }
    let deep =
        format!("inputs: {{type: object, properties: {{a: {}{}}}}}", "{items: ".repeat(60), "}".repeat(60));
    assert_eq!(codes(&deep), ["yaml-too-deep"]);
}

#[test]
fn a_pattern_takes_no_longer_than_its_text_is_long() {
    let yaml = "inputs: {a: {type: string, required: true, pattern: '^(a+)+$'}, b: {type: string, default: '', pattern: '^(([a-z])+.)+[A-Z]([a-z])+$|^$'}}";
    let project = Project::with_contract(yaml, "return 1");
    let begun = Instant::now();
    let outcome =
        project.run_with(json!({"a": format!("{}!", "a".repeat(100_000)), "b": "a".repeat(100_000)}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(violations(&outcome), ["/a pattern", "/b pattern"]);
    assert!(sentence(&outcome).contains("found a text of 100001 characters"), "{}", sentence(&outcome));
}

#[test]
fn a_pattern_that_repeats_much_is_not_tried_at_every_letter_of_a_long_text() {
    let text: String = (0..600_000_u64).map(|n| if n * n * 7919 % 11 < 5 { '0' } else { '1' }).collect();
    let project = Project::with_contract(
        "inputs: {a: {type: string, required: true, pattern: '[01]*1[01]{1000}2'}}",
        "return 1",
    );
    let begun = Instant::now();
    let outcome = project.run_with(json!({"a": text}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let told = sentence(&outcome);
    assert!(told.ends_with("too large to be validated against its contract"), "{told}");
}

#[test]
fn a_pattern_that_grows_when_it_is_compiled_is_refused() {
    assert_eq!(
        codes("inputs: {a: {type: string, required: true, pattern: '((a{200}){200}){200}'}}"),
        ["schema-invalid"]
    );
    assert_eq!(codes("inputs: {a: {type: string, required: true, pattern: '(a)\\1'}}"), ["schema-invalid"]);
    let many = lines(400, |n| format!("  p{n}: {{type: string, required: true, pattern: '^x{n}$'}}\n"));
    assert_eq!(codes(&format!("inputs:\n{many}")), ["schema-too-large"]);
}

#[test]
fn a_schema_that_does_not_compile_is_reported_when_it_is_needed() {
    let project =
        Project::with_contract("name: x\ninputs:\n  a: {type: string, default: x, pattern: '('}", "return 1");
    let outcome = project.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    let error = outcome.result.unwrap_err();
    assert_eq!(error.location().map(|at| (at.file.as_str(), at.line)), Some(("skill.yaml", Some(3))));
}

#[test]
fn a_default_that_does_not_fit_is_reported_and_never_reaches_the_script() {
    let yaml = "inputs: {n: {type: integer, default: many}}";
    assert_eq!(codes(yaml), ["default-invalid"]);
    let outcome = Project::with_contract(yaml, "error('it ran')").run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(
        sentence(&outcome).contains("/n: expected a whole number, found \"many\""),
        "{}",
        sentence(&outcome)
    );
    for odd in [".nan", ".inf", "-.Inf", "1e999", "99999999999999999999"] {
        assert_eq!(
            codes(&format!("inputs: {{n: {{type: number, default: {odd}}}}}")),
            ["contract-value"],
            "{odd}"
        );
    }
}

#[test]
fn defaults_that_stand_deep_in_a_large_schema_are_not_validated_level_by_level() {
    let mut deep = "{type: string, default: x}".to_owned();
    for _ in 0..12 {
        deep = format!("{{type: object, properties: {{a: {deep}}}}}");
    }
    let wide = lines(400, |n| format!("  p{n}: {{type: string, required: false, enum: [a, b, c]}}\n"));
    assert_eq!(codes(&format!("inputs:\n  o: {deep}\n{wide}")), ["input-undecided", "schema-too-large"]);
    assert_eq!(codes(&format!("inputs:\n  o: {deep}\n")), ["input-undecided"]);
}

#[test]
fn a_huge_enum_is_listed_in_part() {
    let choices: Vec<String> = (0..3000).map(|n| format!("choice-{n}")).collect();
    let yaml = format!("inputs: {{a: {{type: string, required: true, enum: [{}]}}}}", choices.join(", "));
    let outcome = Project::with_contract(&yaml, "return 1").run_with(json!({"a": "other"}), &[]);
    let told = sentence(&outcome);
    assert!(told.contains("\"choice-9\", 2990 more, found \"other\"") && told.len() < 1000, "{told}");
}

#[test]
fn many_violations_are_counted_and_some_are_reported() {
    let yaml = "inputs: {l: {type: array, required: true, items: {type: integer}}}";
    let project = Project::with_contract(yaml, "return 1");
    let strings: Vec<Value> = (0..1000).map(|n| json!(n.to_string())).collect();
    let outcome = project.run_with(json!({"l": strings}), &[]);
    assert_eq!(violations(&outcome).len(), 32);
    assert!(sentence(&outcome).ends_with("\nand 968 more"), "{}", sentence(&outcome));
    let flood: Vec<Value> = (0..300_000).map(|_| json!("x")).collect();
    let begun = Instant::now();
    let outcome = project.run_with(json!({"l": flood}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(kind(&outcome), ErrorKind::InvalidInput);
}

#[test]
fn a_value_too_large_for_its_schema_is_refused_and_not_checked_for_ever() {
    let parts = (0..1500).map(|n| format!("{{not: {{const: x{n}}}}}")).collect::<Vec<_>>().join(", ");
    let yaml =
        format!("inputs: {{type: object, properties: {{l: {{type: array, items: {{allOf: [{parts}]}}}}}}}}");
    let project = Project::with_contract(&yaml, "return 1");
    let numbers: Vec<Value> = (0..1_000_000).map(|n| json!(n)).collect();
    let begun = Instant::now();
    let outcome = project.run_with(json!({"l": numbers}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(
        sentence(&outcome).ends_with("too large to be validated against its contract"),
        "{}",
        sentence(&outcome)
    );
}

#[test]
fn what_breaks_thousands_of_alternatives_is_not_reported_for_each() {
    let choices = (0..1000).map(|n| format!("{{const: {n}}}")).collect::<Vec<_>>().join(", ");
    let yaml = format!(
        "inputs: {{type: object, properties: {{l: {{type: array, items: {{anyOf: [{choices}]}}}}}}}}"
    );
    let project = Project::with_contract(&yaml, "return 1");
    let texts: Vec<Value> = (0..60_000).map(|n| json!(n.to_string())).collect();
    let begun = Instant::now();
    let outcome = project.run_with(json!({"l": texts}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(violations(&outcome), ["/l/0 anyOf"]);
}

#[test]
fn deep_inputs_are_validated_too() {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let project = Project::with_contract("inputs: {a: {type: array, required: true}}", "return 1");
    assert!(project.run_with(json!({"a": deep(100)}), &[]).result.is_ok());
    assert_eq!(
        violations(&project.run_with(json!({"b": deep(100)}), &[])),
        ["/b additionalProperties", "/a required"]
    );
}

#[test]
fn names_and_texts_are_shown_and_not_obeyed() {
    let bad = "inputs: {\"a\u{9b}31m\": {type: string}}";
    assert_eq!(codes(bad), ["control-character"]);
    let escaped = "inputs: {\"a\\x1b[2J\": {type: string}}";
    assert_eq!(codes(escaped), ["control-character"]);
    let project = Project::with_contract("inputs: {a: {type: string, required: true}}", "return 1");
    let outcome = project.run_with(json!({"a": "x", "b\u{1b}[2J": 1}), &[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidInput);
}

#[test]
fn a_pattern_that_takes_long_to_be_read_is_refused() {
    for piece in [r"\cA", r"\s", r"\d", r"[\w]", "[^a]", "(a)", "a|", "(?i)"] {
        let long = piece.repeat(200_000 / piece.len());
        let pattern = format!("inputs: {{a: {{type: string, required: true, pattern: '{long}'}}}}");
        let names = format!("inputs:\n  type: object\n  patternProperties:\n    ? '{long}'\n    : true\n");
        assert_eq!([codes(&pattern), codes(&names)], [["schema-too-large"]; 2], "{piece}");
    }
    let kinds = r"\s".repeat(300);
    let pattern = format!("inputs: {{a: {{type: string, required: true, pattern: '{kinds}'}}}}");
    assert_eq!(codes(&pattern), ["schema-too-large"]);
}

#[test]
fn thousands_of_wrong_examples_are_not_each_reported() {
    let names = (0..3000).map(|n| format!("a{n}")).collect::<Vec<_>>().join(", ");
    let found = codes(&format!(
        "inputs: {{type: object, required: [{names}]}}\nexamples:\n{}",
        "- {}\n".repeat(5000)
    ));
    assert_eq!(found, ["example-invalid"; 50]);
    let pattern = "[a-z]".repeat(1500);
    let outputs = format!("outputs: {{a: {{type: string, pattern: '{pattern}'}}}}");
    let found = codes(&format!("{outputs}\nexamples:\n{}", "- {expected_output: {a: x}}\n".repeat(1500)));
    assert_eq!(found, ["example-invalid"; 50]);
}

#[test]
fn patterns_as_people_write_them_are_not_too_large() {
    let day = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$";
    let mail = r"^[\w.!#$%&*+/=?^`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9]+)*$";
    for pattern in [day, mail, r"^(?<major>\d+)\.(\d+)$", "^(?:get|put|post)$"] {
        let text = lines(20, |n| format!("  p{n}: {{type: string, required: true, pattern: '{pattern}'}}\n"));
        assert_eq!(codes(&format!("inputs:\n{text}")), [""; 0], "{pattern}");
    }
}

#[test]
fn many_empty_texts_are_texts_too() {
    let choices = (0..20_000).map(|n| format!("{n:x}")).collect::<Vec<_>>().join("|");
    assert_eq!(
        codes(&format!(
            "inputs: {{l: {{type: array, required: true, items: {{type: string, pattern: '^({choices})$'}}}}}}"
        )),
        ["schema-too-large"]
    );
    let few = (0..1_500).map(|n| format!("{n:x}")).collect::<Vec<_>>().join("|");
    let project = Project::with_contract(
        &format!(
            "inputs: {{l: {{type: array, required: true, items: {{type: string, pattern: '^({few})$'}}}}}}"
        ),
        "return 1",
    );
    let begun = Instant::now();
    let outcome = project.run_with(json!({"l": vec![""; 1_000_000]}), &[]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(
        sentence(&outcome).ends_with("too large to be validated against its contract"),
        "{}",
        sentence(&outcome)
    );
}
