//! Definitions in the formats of other systems: what is read of them, alone and beside a `SKILL.md`, and written again.

use metier::formats::{ExportFormat, ExportSource, export, parse};
use metier::skill::comparison::{Change, compare};
use metier::skill::contract::{Contract, DefinitionFormat};
use metier::skill::{Profile, SkillLocation};
use metier_skill::formats::{instructions, load, load_alone, parse_alone};

use super::skill::lie_within;

/// Any bytes as a `skill.json` that is an AgentsKit skill, a package or a manifest.
pub fn agentskit(source: &[u8]) {
    definition("skill.json", source);
    comes_back(source, DefinitionFormat::AgentsKit, ExportFormat::AgentsKit);
}

/// Any bytes as a `skill.yaml` alone.
pub fn contract(source: &[u8]) {
    definition("skill.yaml", source);
}

/// Any bytes as the manifest of a Curia skill.
pub fn curia(source: &[u8]) {
    definition("skill.json", source);
    comes_back(source, DefinitionFormat::Curia, ExportFormat::Curia);
}

/// Any bytes as a skill object of SWEny, in both syntaxes.
pub fn sweny(source: &[u8]) {
    definition("skill.yml", source);
    definition("skill.json", source);
    comes_back(source, DefinitionFormat::Sweny, ExportFormat::Sweny);
}

/// Any bytes as a `SKILL.md` of Synwire: what is read of it, its numbered steps, and what is written of it again.
pub fn synwire(source: &[u8]) {
    let place = SkillLocation { directory: "x", file_name: "SKILL.md" };
    let read = metier::skill::parse(source, place);
    lie_within(source, read.diagnostics(Profile::Spec));
    let Some(manifest) = read.manifest else { return };
    if let Err(found) = metier_plan::from_markdown(source, "SKILL.md") {
        lie_within(source, &found);
    }
    let text = String::from_utf8_lossy(&source[manifest.body_offset..]).into_owned();
    let skill = ExportSource { manifest: &manifest, contract: None, text: &text };
    let written = export(ExportFormat::SkillMd, skill);
    let again = metier::skill::parse(written.text.as_bytes(), place);
    assert!(again.is_loadable(), "{}", written.text);
    let again = again.manifest.expect("what loads has a manifest");
    if written.losses.is_empty() {
        assert_eq!(again.description, manifest.description, "{}", written.text);
        assert_eq!((&again.license, &again.compatibility), (&manifest.license, &manifest.compatibility));
        assert_eq!(again.allowed_tools, manifest.allowed_tools, "{}", written.text);
    }
    for imported in metier::formats::import("SKILL.md", source).into_iter().flatten() {
        assert!(imported.missing.len() <= 51 && imported.missing.iter().all(|path| !path.is_empty()));
    }
}

/// Any bytes as a file that becomes folders.
pub fn import(source: &[u8]) {
    for name in ["x.json", "x.yaml", "SKILL.md"] {
        for skill in metier::formats::import(name, source).into_iter().flatten() {
            assert!(!skill.name.contains(['/', '\\']) && !skill.name.starts_with('.'), "{skill:?}");
            let has_definition =
                |(path, _): &(String, Vec<u8>)| path == "SKILL.md" || path.starts_with("skill.");
            assert!(skill.files.iter().all(has_definition) && !skill.files.is_empty());
        }
    }
}

/// What holds of every definition.
fn definition(file: &str, source: &[u8]) {
    let parsed = parse(file, source, None);
    assert_eq!(parsed.contract.is_some(), parsed.diagnostics.iter().all(|found| !found.blocks));
    lie_within(source, &parsed.diagnostics);
    let (loaded, alone) = parse_alone(file, source, "x");
    assert_eq!(
        (loaded.manifest.is_some(), alone.contract.is_some()),
        (parsed.contract.is_some(), parsed.contract.is_some())
    );
    lie_within(source, &loaded.diagnostics);
    let Some((manifest, contract)) = loaded.manifest.zip(parsed.contract) else { return };
    assert_eq!(load(file, source, None).contract.as_ref(), Some(&contract));
    assert_eq!(load_alone(file, source, "x").0.manifest.as_ref(), Some(&manifest));
    assert!(!manifest.name.is_empty() && !manifest.description.is_empty());
    assert!(serde_json::to_value(&contract).is_ok());
    assert_eq!(compare(&contract, &contract).findings, []);
    for change in [compare(&contract, &Contract::default()), compare(&Contract::default(), &contract)] {
        assert!(change.findings.iter().all(|found| found.path.is_empty() || found.path.starts_with('/')));
        assert_eq!(change.unknown > 0, change.findings.iter().any(|found| found.change == Change::Unknown));
    }
    let skill =
        ExportSource { manifest: &manifest, contract: Some(&contract), text: instructions(&contract) };
    for (_, format) in ExportFormat::ALL {
        let written = export(format, skill);
        assert!(written.losses.iter().all(|lost| !lost.is_empty()));
        if format == ExportFormat::SkillMd {
            let place = SkillLocation { directory: "x", file_name: "SKILL.md" };
            let read = metier::skill::parse(written.text.as_bytes(), place);
            assert!(
                read.is_loadable(),
                "{}: {:?}",
                written.text,
                read.diagnostics(Profile::Spec).collect::<Vec<_>>()
            );
        } else if format == ExportFormat::SwenyYaml {
            let in_json = export(ExportFormat::Sweny, skill).text;
            let in_json = parse("skill.json", in_json.as_bytes(), None).contract;
            let in_yaml = parse("skill.yaml", written.text.as_bytes(), None).contract;
            assert!(in_json.is_none() || in_json == in_yaml, "{}", written.text);
        } else {
            assert!(serde_json::from_str::<serde_json::Value>(&written.text).is_ok(), "{}", written.text);
        }
    }
}

/// A definition written in its own format is read as what it was, unless something is lost.
fn comes_back(source: &[u8], own: DefinitionFormat, format: ExportFormat) {
    let (loaded, parsed) = parse_alone("skill.json", source, "x");
    let Some((manifest, contract)) = loaded.manifest.zip(parsed.contract) else { return };
    let skill =
        ExportSource { manifest: &manifest, contract: Some(&contract), text: instructions(&contract) };
    let written = export(format, skill);
    if contract.format == own && written.losses.is_empty() {
        let again = parse("skill.json", written.text.as_bytes(), None);
        assert!(again.contract.is_some(), "{}: {:?}", written.text, again.diagnostics);
    }
}
