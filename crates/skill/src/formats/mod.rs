//! The definitions of other systems, read to the one [`Contract`]. Nothing here accesses the disk.
//!
//! A folder has at most one definition beside its `SKILL.md`: a `skill.yaml`, `skill.yml` or `skill.json`. `detect` tells its format
//! by its keys; one file here reads each format. A definition that no format fits is an error, so that what it says about risk and
//! limits is never passed over; only a file beside a `SKILL.md` that has no key of any format is left out, with a warning. A definition
//! without a `SKILL.md` is a skill too, with a manifest of its own.

mod agentskit;
mod curia;
mod detect;
mod export;
mod fields;
mod import;
mod json_text;
mod manifest;
mod package_registry;
mod shorthand;
mod sweny;
mod sweny_frontmatter;

pub use self::curia::CAPABILITIES as CURIA_CAPABILITIES;
pub use self::export::{ExportFormat, ExportSource, Exported, export};
pub(crate) use self::export::{YamlTexts, yaml_text};
pub use self::import::{ImportedSkill, import};
pub use self::package_registry::{PackageFilter, PackageRegistry, PublishedPackage};
pub use self::sweny_frontmatter::frontmatter_contract;

use self::detect::{Purpose, Syntax, detect_format};
use crate::contract::{
    CheckDepth, Contract, DefinitionFormat, ParsedContract, parse_source, read_definition,
};
use crate::diagnostic_sink::DiagnosticSink;
use crate::yaml::{self, Entry};
use crate::{LoadedSkill, Manifest};

/// The JSON Schema of the skill objects of SWEny.
pub const SWENY_SKILL_SCHEMA: &str = include_str!("sweny_skill.schema.json");

/// Parses a definition of that file name and checks it completely, and against the `SKILL.md` beside it if there is one.
///
/// Never fails, touches no disk and fetches nothing; hostile text results in a diagnostic.
pub fn parse(file: &str, source: &[u8], manifest: Option<&Manifest>) -> ParsedContract {
    read((file, purpose(manifest)), source, manifest, CheckDepth::Whole)
}

/// Like [`parse`], for loading many skills: schemas are compiled at their first use.
pub fn load(file: &str, source: &[u8], manifest: Option<&Manifest>) -> ParsedContract {
    read((file, purpose(manifest)), source, manifest, CheckDepth::Structure)
}

/// Like [`parse`], for a definition without a `SKILL.md` in a folder of that name: the manifest that it stands for, and the
/// contract. If a diagnostic blocks, there is neither.
pub fn parse_alone(file: &str, source: &[u8], directory: &str) -> (LoadedSkill, ParsedContract) {
    manifest::with_manifest(parse(file, source, None), source, directory)
}

/// Like [`parse_alone`], for a file of any name that somebody passed as a definition: its keys must show that it is one.
fn parse_passed(file: &str, source: &[u8]) -> (LoadedSkill, ParsedContract) {
    let parsed = read((file, Purpose::Passed), source, None, CheckDepth::Whole);
    manifest::with_manifest(parsed, source, "")
}

/// Like [`parse_alone`], for loading many skills.
pub fn load_alone(file: &str, source: &[u8], directory: &str) -> (LoadedSkill, ParsedContract) {
    manifest::with_manifest(load(file, source, None), source, directory)
}

/// What a model reads of a skill without a `SKILL.md`: the instructions of its definition, or else what it does.
pub fn instructions(contract: &Contract) -> &str {
    let own = contract.persona.as_ref().map(|persona| persona.instructions.as_str());
    own.filter(|text| !text.is_empty()).or(contract.description.as_deref()).unwrap_or_default()
}

fn purpose(manifest: Option<&Manifest>) -> Purpose {
    if manifest.is_some() { Purpose::BesideSkillFile } else { Purpose::Alone }
}

fn read(
    (file, purpose): (&str, Purpose),
    source: &[u8],
    manifest: Option<&Manifest>,
    depth: CheckDepth,
) -> ParsedContract {
    let syntax = Syntax::from_file_name(file);
    let language = match syntax {
        Syntax::Yaml => ("YAML", yaml::parse_within as fn(&str, &_) -> _),
        Syntax::Json => ("JSON", json_text::parse_within as fn(&str, &_) -> _),
    };
    parse_source(source, language, |entries, report| {
        let format = detect_format(entries, (syntax, purpose), report)?;
        Some(read_format(format, entries, (manifest, depth), report))
    })
}

/// How a definition is checked: against which manifest, and how deep.
type Checks<'a> = (Option<&'a Manifest>, CheckDepth);

fn read_format(
    format: DefinitionFormat,
    entries: &[Entry],
    (manifest, depth): Checks<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Contract {
    let contract = match format {
        DefinitionFormat::Contract => return read_definition(entries, manifest, depth, report),
        DefinitionFormat::Curia => curia::read(entries, report),
        // What stands in a frontmatter is not a file of its own.
        DefinitionFormat::Sweny | DefinitionFormat::SwenyFrontmatter => sweny::read(entries, report),
        DefinitionFormat::AgentsKit => agentskit::read_skill(entries, report),
        DefinitionFormat::AgentsKitPackage => agentskit::read_package(entries, report),
        DefinitionFormat::AgentsKitManifest => agentskit::read_manifest(entries, report),
    };
    let contract = Contract { format, ..contract };
    crate::contract::check_translated(&contract, entries, manifest, depth, report);
    contract
}
