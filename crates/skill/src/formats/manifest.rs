//! The manifest that a definition without a `SKILL.md` stands for.

use serde_json::Map;

use crate::contract::{Contract, DefinitionFormat, ParsedContract};
use crate::diagnostic_sink::DiagnosticSink;
use crate::name::{directory_mismatch, normalise};
use crate::{Diagnostic, LoadedSkill, Manifest, ManifestLimits, ManifestLines, lint};

/// The steps that a description made up names.
const MAX_SHOWN_CHARS: usize = 200;

/// The manifest of what was parsed, in a folder of that name.
pub(super) fn with_manifest(
    parsed: ParsedContract,
    source: &[u8],
    directory: &str,
) -> (LoadedSkill, ParsedContract) {
    let Some(contract) = &parsed.contract else {
        let loaded = LoadedSkill { manifest: None, diagnostics: parsed.diagnostics.clone() };
        return (loaded, parsed);
    };
    let text = source.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let (manifest, diagnostics) = manifest(contract, text, directory);
    (LoadedSkill { manifest: Some(manifest), diagnostics }, parsed)
}

fn manifest(contract: &Contract, text: &str, directory: &str) -> (Manifest, Vec<Diagnostic>) {
    let mut report = DiagnosticSink::new(text);
    let name = if let Some(name) = &contract.name {
        // SWEny says nothing about the names of folders.
        if contract.format != DefinitionFormat::Sweny
            && let Some((rule, message)) = directory_mismatch(name, directory)
        {
            report.add(rule, &(0..0), message).help("rename the directory or the skill");
        }
        name.clone()
    } else {
        let message = "the definition has no name, so the skill has that of its folder";
        report.add(&lint::NAME_MISSING, &(0..0), message).help(format!("add `name: {directory}`"));
        normalise(directory)
    };
    let description = contract.description.clone().unwrap_or_else(|| {
        let message = "the definition has no description, so a model sees only the name";
        report
            .add(&lint::DESCRIPTION_ABSENT, &(0..0), message)
            .help("say in `description` what it does and when to use it");
        metier_core::excerpt::shorten(&format!("Runs the skill {name}."), MAX_SHOWN_CHARS)
    });
    let manifest = Manifest {
        name,
        description,
        license: None,
        compatibility: None,
        metadata: Map::new(),
        allowed_tools: Vec::new(),
        runtime: None,
        is_runtime_in_metadata: false,
        version: contract.version.clone().unwrap_or(semver::Version::new(0, 0, 0)),
        unknown: Vec::new(),
        body_offset: 0,
        limits: ManifestLimits::default(),
        lines: ManifestLines::default(),
    };
    (manifest, report.finish())
}
