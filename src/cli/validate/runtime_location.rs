//! The line of a SKILL.md that names the runtime, for messages.

use metier::skill::Manifest;
use metier_skill::ManifestFacts;

/// ` in SKILL.md:4`
pub fn runtime_location(manifest: Option<&Manifest>) -> String {
    let line = manifest
        .and_then(|manifest| manifest.lines().runtime)
        .map_or(String::new(), |line| format!(":{line}"));
    format!(" in SKILL.md{line}")
}
