//! Checks the contract beside a SKILL.md: its schemas, its defaults and examples, its entrypoints and its steps.

use std::path::Path;

use cap_std::fs::Dir;
use metier::engine::Runtimes;
use metier::formats;
use metier::skill::contract::{Contract, ProvidedResource, ProvidedTool, ResourceSource, Schema};
use metier::skill::{Diagnostic, Manifest, Severity};
use metier_core::executor::enters_functions;
use metier_core::host::outward_link::outward_link_error;
use metier_skill::contract::{CONTRACT_FILES, duplicate_contracts, unreadable_contract};
use serde::Serialize;

use super::skill_file;
use crate::cli::validate::handler_source::undeclared_uses;
use crate::cli::validate::lints;
use crate::cli::validate::project_skills::{PlanContext, ProjectSkills};
use crate::cli::validate::runtime_location::runtime_location;
use crate::cli::validate::unused_steps::unused_steps;

/// The answer for one contract, as it is in JSON.
#[derive(Serialize)]
pub struct ContractValidation {
    /// The name of the file in the skill's folder.
    pub file: String,
    /// What is wrong or worth knowing.
    pub diagnostics: Vec<Diagnostic>,
    /// Its path.
    #[serde(skip)]
    pub path: String,
    /// Its text; empty if it cannot be read.
    #[serde(skip)]
    pub text: String,
    /// The contract, if it can be parsed.
    #[serde(skip)]
    pub contract: Option<Contract>,
}

impl ContractValidation {
    /// The contract in a folder, if there is one.
    pub fn from_folder(
        folder: &Path,
        dir: &Dir,
        manifest: Option<&Manifest>,
        project: &ProjectSkills,
    ) -> Option<Self> {
        let present = CONTRACT_FILES.into_iter().filter(|name| dir.symlink_metadata(name).is_ok());
        let present: Vec<&str> = present.collect();
        let (text, parsed) = match present[..] {
            [] => return None,
            [file] => match skill_file::read(dir, file) {
                Ok(read) => (valid_utf8(&read.bytes), formats::parse(file, &read.bytes, manifest)),
                Err(error) => {
                    let link = outward_link_error(folder, file);
                    let link = link.map(|link| std::io::Error::other(link.message().to_owned()));
                    (String::new(), unreadable_contract(link.unwrap_or(error)))
                }
            },
            _ => (String::new(), duplicate_contracts(&present)),
        };
        let file = present[0];
        let mut diagnostics = parsed.diagnostics;
        if let Some(contract) = &parsed.contract {
            diagnostics.extend(entrypoint_diagnostics(contract, manifest, dir, &text));
            diagnostics.extend(missing_files(contract, dir, &text));
            diagnostics.extend(unused_steps(contract, manifest, dir, &text));
            diagnostics.extend(undeclared_uses(contract, dir, &text));
            if !contract.dependencies.skills.is_empty()
                && let Some(circle) = project.dependency_circle(folder)
            {
                let span = first_span(&text, "dependencies");
                let found = Diagnostic::new(&lints::DEPENDENCY_CIRCLE, &text, &span, circle);
                diagnostics.push(found.with_help("remove one of these dependencies"));
            }
            if contract.steps.is_some() {
                let PlanContext { callees, identity } = project.plan_context(folder);
                let inputs = contract.inputs.as_ref().map(Schema::json);
                let found = metier_plan::diagnostics_with_callees(
                    text.as_bytes(),
                    file,
                    inputs,
                    &identity,
                    callees.as_ref(),
                );
                diagnostics.extend(found);
            }
        }
        let path = folder.join(file).display().to_string();
        Some(Self { file: file.to_owned(), diagnostics, path, text, contract: parsed.contract })
    }

    /// Whether the file is no contract, so that the skill runs without it.
    pub fn is_left_out(&self) -> bool {
        self.contract.is_none() && self.is_valid()
    }

    /// Whether nothing in it is an error.
    pub fn is_valid(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error)
    }
}

fn valid_utf8(source: &[u8]) -> String {
    source.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_owned()
}

/// Entrypoints that do not exist, that are in another language than the runtime, or that name an unknown runtime.
fn entrypoint_diagnostics(
    contract: &Contract,
    manifest: Option<&Manifest>,
    dir: &Dir,
    text: &str,
) -> Vec<Diagnostic> {
    let (name, location) = match &contract.runtime {
        Some(runtime) => (Some(runtime), String::new()),
        None => (manifest.and_then(|manifest| manifest.runtime.as_ref()), runtime_location(manifest)),
    };
    let built_in = Runtimes::built_in();
    let declared = name.and_then(|name| built_in.find(name).ok());
    let entrypoints = contract.entrypoint.iter().chain(contract.entrypoints.iter().map(|(_, named)| named));
    let entrypoints = entrypoints.chain(contract.all_tools().filter_map(ProvidedTool::script));
    let mut found = Vec::new();
    let mut runtimes: Vec<&str> = contract.runtime.as_deref().into_iter().collect();
    for entrypoint in entrypoints {
        if !dir.metadata(&entrypoint.path).is_ok_and(|file| file.is_file()) {
            found.push(missing_entrypoint(&entrypoint.path, dir, text));
        }
        let is_main = contract.main_entrypoint() == Some(entrypoint);
        if let Some(declared) = declared.filter(|_| is_main && entrypoint.runtime.is_none())
            && let Some(detected) = built_in.conflicting(declared, &entrypoint.path)
        {
            let path = &entrypoint.path;
            let message = format!(
                "the entrypoint `{path}` is a script in {detected}, but the runtime is {declared}{location}"
            );
            let mismatch = Diagnostic::new(&lints::ENTRYPOINT_UNFIT, text, &first_span(text, path), message);
            found.push(mismatch.with_help("name the runtime of the script, or remove the runtime"));
        }
        let runtime = match &entrypoint.runtime {
            Some(name) => built_in.find(name).ok(),
            None => Some(built_in.for_script(&entrypoint.path, declared, is_main)),
        };
        if let (Some(function), Some(runtime)) = (&entrypoint.function, runtime)
            && !enters_functions(runtime)
        {
            let message = format!(
                "the function `{function}` cannot be called: scripts in {runtime} run from the first line"
            );
            let unused =
                Diagnostic::new(&lints::ENTRYPOINT_FUNCTION, text, &first_span(text, function), message);
            found.push(unused.with_help("remove `function`"));
        }
        runtimes.extend(entrypoint.runtime.as_deref());
    }
    for name in runtimes {
        if let Err(error) = built_in.find(name) {
            let mut unknown =
                Diagnostic::new(&lints::RUNTIME_UNKNOWN, text, &first_span(text, name), error.message());
            // Only metier reads contracts, and with this one nothing runs.
            unknown.severity = Severity::Error;
            found.push(unknown.with_help(error.help().unwrap_or("remove the line")));
        }
    }
    found
}

/// Resources and attachments that cannot be read: no files, links, or below a hidden folder.
fn missing_files(contract: &Contract, dir: &Dir, text: &str) -> Vec<Diagnostic> {
    let file = |resource: &ProvidedResource| match &resource.source {
        ResourceSource::File(path) => Some(path.clone()),
        _ => None,
    };
    let paths = contract.resources.iter().filter_map(file).chain(contract.attachments.iter().cloned());
    let is_readable = |path: &String| {
        let is_file = dir.symlink_metadata(path).is_ok_and(|found| found.is_file());
        is_file && !path.split('/').any(|part| part.starts_with('.'))
    };
    let missing = paths.filter(|path| !is_readable(path));
    let diagnostic = |path: String| {
        let message = format!("`{path}` is not a file in the skill's folder that can be read");
        let found = Diagnostic::new(&lints::FILE_MISSING, text, &first_span(text, &path), message);
        found.with_help("name a file that is not a link and not hidden")
    };
    missing.map(diagnostic).collect()
}

fn missing_entrypoint(path: &str, dir: &Dir, text: &str) -> Diagnostic {
    let message = format!("the entrypoint `{path}` is not a file in the skill's folder");
    let found = Diagnostic::new(&lints::ENTRYPOINT_MISSING, text, &first_span(text, path), message);
    let in_scripts = format!("scripts/{path}");
    if dir.is_file(&in_scripts) { found.with_help(format!("write {in_scripts}")) } else { found }
}

/// Where a value occurs first; the start of the file if it is written with escapes.
fn first_span(text: &str, value: &str) -> std::ops::Range<usize> {
    text.find(value).map_or(0..0, |at| at..at + value.len())
}
