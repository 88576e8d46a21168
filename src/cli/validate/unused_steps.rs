//! Finds steps and sequences that do not run, because something else of the skill runs.

use cap_std::fs::Dir;
use metier::engine::Runtimes;
use metier::executor::RuntimeId;
use metier::skill::contract::Contract;
use metier::skill::{Diagnostic, Manifest, Rule};

use super::runtime_location::runtime_location;
use super::sequence::DEFAULT_PATH;
use crate::cli::validate::lints;
use metier_skill::ManifestFacts;

/// Diagnostics for steps of the contract, or a sequence in its folder, that do not run.
pub fn unused_steps(
    contract: &Contract,
    manifest: Option<&Manifest>,
    dir: &Dir,
    text: &str,
) -> Vec<Diagnostic> {
    if contract.steps.is_none() {
        return Vec::new();
    }
    let diagnostic = |rule: &Rule, key: &str, message: String, help: &str| {
        Diagnostic::new(rule, text, &key_span(text, key), message).with_help(help)
    };
    let steps = if text.contains("composed_of:") { "composed_of:" } else { "steps:" };
    let mut found = Vec::new();
    let is_known = |name: &str| Runtimes::built_in().find(name).is_ok();
    let entrypoint = contract.main_entrypoint().map(|entrypoint| entrypoint.path.as_str());
    if let Some(path) = entrypoint.or_else(|| manifest?.entrypoint()) {
        let message = format!("the entrypoint {path} runs, so the steps do not run");
        found.push(diagnostic(&lints::STEPS_UNUSED, steps, message, "remove the steps or the entrypoint"));
    } else if let Some(runtime) = contract.runtime.as_deref().or_else(|| manifest?.declared_runtime(is_known))
        && runtime != RuntimeId::TOOL_SEQUENCE.name()
    {
        let location = if contract.runtime.is_none() { runtime_location(manifest) } else { String::new() };
        let message =
            format!("the runtime is {runtime}{location}, but steps run in {}", RuntimeId::TOOL_SEQUENCE);
        found.push(diagnostic(&lints::STEPS_UNFIT, steps, message, "remove the steps or the runtime"));
    } else if dir.symlink_metadata(DEFAULT_PATH).is_ok() {
        let message = format!("the steps run, so {DEFAULT_PATH} does not run");
        found.push(diagnostic(&lints::STEPS_UNUSED, steps, message, "keep one of them"));
    }
    found
}

/// Where a line begins with this key; the start of the file if none does.
fn key_span(text: &str, key: &str) -> std::ops::Range<usize> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if line[indent..].starts_with(key) {
            let start = offset + indent;
            return start..start + key.len() - 1;
        }
        offset += line.len();
    }
    0..0
}
