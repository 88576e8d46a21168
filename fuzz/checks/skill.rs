//! A skill's files: its head, its contract, and both side by side.

use std::sync::OnceLock;

use metier::skill::{Diagnostic, Manifest, Profile, SkillLocation, contract, parse};
use metier_plan::{diagnostics, from_contract};
use metier_skill::{FrontmatterLen, MAX_FRONTMATTER, frontmatter_len, load};
use serde_json::Value;

use super::schema::{holds_values, is_told};

const PLACE: SkillLocation<'_> = SkillLocation { directory: "x", file_name: "SKILL.md" };

/// Any bytes as a `SKILL.md`: both verdicts agree with what was found, and every finding lies in the file.
pub fn frontmatter(source: &[u8]) {
    let parsed = parse(source, PLACE);
    assert_eq!(parsed.is_loadable(), parsed.diagnostics.iter().all(|found| !found.blocks));
    assert!(parsed.is_loadable() || !parsed.is_valid(Profile::Spec));
    lie_within(source, parsed.diagnostics(Profile::Spec).chain(parsed.diagnostics(Profile::SkillsRef)));
    let loaded = load(source, PLACE);
    assert_eq!((&loaded.manifest, &loaded.diagnostics), (&parsed.manifest, &parsed.diagnostics));
    if let Some(manifest) = &parsed.manifest {
        assert!(manifest.body_offset <= source.len());
        assert!(!manifest.description.is_empty());
        assert!(manifest.entrypoint().is_none_or(|path| !path.is_empty()));
        if let Some(read) = metier_skill::formats::frontmatter_contract(source, manifest) {
            lie_within(source, &read.diagnostics);
            let contract = read.contract.expect("nothing in a frontmatter of SWEny blocks");
            assert!(contract.mcp.is_none_or(|server| server.command.is_none()));
            assert!(serde_json::to_value(contract.config.iter().collect::<Vec<_>>()).is_ok());
        }
    }
    if let FrontmatterLen::Complete(length) = frontmatter_len(source) {
        assert!(length <= MAX_FRONTMATTER);
        if std::str::from_utf8(source).is_ok() {
            assert_eq!(parse(&source[..length], PLACE).manifest, parsed.manifest);
        }
    }
}

/// Any bytes as a contract, and what stands behind a line `%%` as values to hold against its schemas.
pub fn contract(source: &[u8]) {
    let (source, values) = match source.windows(4).position(|window| window == b"\n%%\n") {
        Some(at) => (&source[..at], &source[at + 4..]),
        None => (source, &[][..]),
    };
    let parsed = contract::parse(source);
    assert_eq!(parsed.contract.is_some(), parsed.blocking_diagnostic().is_none());
    lie_within(source, &parsed.diagnostics);
    let beside = contract::parse_with_manifest(source, manifest());
    lie_within(source, &beside.diagnostics);
    let inputs = parsed.contract.as_ref().and_then(|contract| contract.inputs.clone());
    if let Some(contract) = &parsed.contract {
        assert_eq!(metier_skill::contract::load(source).contract.as_ref(), Some(contract));
        assert!(serde_json::to_value(contract).is_ok());
        assert!(contract.main_entrypoint().is_none() || contract.entrypoint_by_name("").is_none());
        for schema in [&contract.inputs, &contract.outputs].into_iter().flatten() {
            assert_eq!(schema.fault(), None);
            holds_values(schema, values);
        }
        let is_told = parsed.diagnostics.iter().any(|found| found.code == "example-invalid");
        for (inputs, example) in contract
            .inputs
            .iter()
            .flat_map(|inputs| contract.examples.iter().map(move |example| (inputs, example)))
        {
            let filled = inputs.with_defaults(example.inputs.clone());
            assert!(is_told || inputs.validate(&filled).is_ok(), "{example:?}");
        }
    }
    match from_contract(source, "skill.yaml") {
        Ok(plan) => plan.iter().for_each(super::plan::reads_back),
        Err(found) => is_told(source, &found),
    }
    lie_within(source, &diagnostics(source, "skill.yaml", inputs.as_ref().map(contract::Schema::json)));
}

/// Every finding points into the text, by bytes, by line and by column.
pub fn lie_within<'a>(source: &[u8], found: impl IntoIterator<Item = &'a Diagnostic>) {
    let lines: Vec<&[u8]> = source.split(|&byte| byte == b'\n').collect();
    for found in found {
        assert!(found.span.start <= found.span.end && found.span.end <= source.len(), "{found:?}");
        let line = lines.get((found.line as usize).wrapping_sub(1));
        assert!(
            line.is_some_and(|line| (1..=line.len() + 1).contains(&(found.column as usize))),
            "{found:?}"
        );
        assert!(!found.message.is_empty() && found.to_string().len() < 10_000, "{}", found.to_string().len());
    }
}

fn manifest() -> &'static Manifest {
    static MANIFEST: OnceLock<Manifest> = OnceLock::new();
    MANIFEST.get_or_init(|| {
        let text = "---\nname: x\ndescription: d\nallowed-tools: write\nmetadata: {version: 1.2.3, runtime: lua}\n---\n";
        parse(text.as_bytes(), PLACE).manifest.unwrap_or_else(|| panic!("{text} is a skill"))
    })
}

/// The values in a text, a line each; lines that are no JSON are texts.
pub fn values(source: &[u8]) -> Vec<Value> {
    let lines = source.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let value = |line: &[u8]| {
        serde_json::from_slice(line)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()))
    };
    lines.map(value).take(16).collect()
}
