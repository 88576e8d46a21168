//! Checks the sequences of a skill against the skills of its project.

use std::path::Path;

use cap_std::fs::Dir;
use metier::engine::Runtimes;
use metier::executor::RuntimeId;
use metier::plan;
use metier::skill::contract::{Contract, ProvidedTool, Schema};
use metier::skill::{Diagnostic, Manifest, Severity};
use serde::Serialize;

use super::skill_file;
use crate::cli::validate::lints;
use crate::cli::validate::project_skills::{PlanContext, ProjectSkills};

/// The path of a sequence that no entrypoint names.
pub const DEFAULT_PATH: &str = "scripts/sequence.json";

/// The answer for one sequence, as it is in JSON.
#[derive(Serialize)]
pub struct SequenceValidation {
    /// The file in the skill's folder.
    pub file: String,
    /// What is wrong or worth knowing.
    pub diagnostics: Vec<Diagnostic>,
    /// Its path.
    #[serde(skip)]
    pub path: String,
    /// Its text; empty if it cannot be read.
    #[serde(skip)]
    pub text: String,
}

/// The sequences in a folder: the one at the default path, and every entrypoint that is one.
pub fn sequences(
    folder: &Path,
    dir: &Dir,
    manifest: Option<&Manifest>,
    contract: Option<&Contract>,
    project: &ProjectSkills,
) -> Vec<SequenceValidation> {
    let inputs = contract.and_then(|contract| contract.inputs.as_ref());
    let of_tools = tool_sequences(dir, manifest, contract);
    let files = sequence_files(dir, manifest, contract).into_iter();
    // One that runs for a tool only gets the input of the tool.
    let files =
        files.filter(|file| of_tools.iter().all(|(other, _)| other != file)).map(|file| (file, inputs));
    let files: Vec<(String, Option<&Schema>)> = files.chain(of_tools.iter().cloned()).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let context = project.plan_context(folder);
    let checked = |(file, inputs)| SequenceValidation::from_file(folder, dir, file, inputs, &context);
    files.into_iter().map(checked).collect()
}

/// The sequences that run when a tool is called, each with the schema of the tool's input.
fn tool_sequences<'c>(
    dir: &Dir,
    manifest: Option<&Manifest>,
    contract: Option<&'c Contract>,
) -> Vec<(String, Option<&'c Schema>)> {
    let runtimes = &Runtimes::built_in();
    let declared = declared_runtime(runtimes, manifest, contract);
    let tools = contract.into_iter().flat_map(Contract::all_tools);
    let sequence = |tool: &'c ProvidedTool| {
        let script = tool.script()?;
        let runtime = match &script.runtime {
            Some(name) => runtimes.find(name).ok()?,
            None => script_runtime(runtimes, &script.path, declared, false),
        };
        let is_there = runtime == RuntimeId::TOOL_SEQUENCE && dir.symlink_metadata(&script.path).is_ok();
        is_there.then(|| (script.path.clone(), tool.input_schema.as_ref()))
    };
    tools.filter_map(sequence).collect()
}

fn declared_runtime(
    runtimes: &Runtimes,
    manifest: Option<&Manifest>,
    contract: Option<&Contract>,
) -> Option<RuntimeId> {
    let declared = contract.and_then(|contract| contract.runtime.as_ref());
    declared.or_else(|| manifest?.runtime.as_ref()).and_then(|name| runtimes.find(name).ok())
}

fn sequence_files(dir: &Dir, manifest: Option<&Manifest>, contract: Option<&Contract>) -> Vec<String> {
    let runtimes = &Runtimes::built_in();
    let declared = declared_runtime(runtimes, manifest, contract);
    let main = contract.and_then(Contract::main_entrypoint);
    let named = contract.into_iter().flat_map(|contract| {
        contract.entrypoint.iter().chain(contract.entrypoints.iter().map(|(_, entrypoint)| entrypoint))
    });
    let named = named.filter_map(|entrypoint| {
        let is_main = main == Some(entrypoint);
        let runtime = match &entrypoint.runtime {
            Some(name) => runtimes.find(name).ok()?,
            None => script_runtime(runtimes, &entrypoint.path, declared, is_main),
        };
        (runtime == RuntimeId::TOOL_SEQUENCE).then(|| entrypoint.path.clone())
    });
    let entered = manifest.and_then(Manifest::entrypoint).filter(|path| {
        main.is_none() && script_runtime(runtimes, path, declared, true) == RuntimeId::TOOL_SEQUENCE
    });
    let mut files: Vec<String> = Vec::new();
    for file in std::iter::once(DEFAULT_PATH.to_owned()).chain(named).chain(entered.map(str::to_owned)) {
        let file = file.strip_prefix("./").unwrap_or(&file).to_owned();
        if dir.symlink_metadata(&file).is_ok() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The runtime of a script: the one that is declared, or that of its language if the declared one cannot run it.
fn script_runtime(runtimes: &Runtimes, path: &str, declared: Option<RuntimeId>, is_main: bool) -> RuntimeId {
    let detected = declared.and_then(|declared| runtimes.conflicting(declared, path));
    detected.unwrap_or_else(|| runtimes.for_script(path, declared, is_main))
}

impl SequenceValidation {
    fn from_file(
        folder: &Path,
        dir: &Dir,
        file: String,
        inputs: Option<&Schema>,
        context: &PlanContext,
    ) -> Self {
        let path = folder.join(&file).display().to_string();
        let (text, diagnostics) = match skill_file::read_up_to(dir, &file, plan::Plan::MAX_BYTES) {
            Ok(read) => {
                let text = read.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_owned();
                (text, sequence_diagnostics(&file, &read, inputs, context))
            }
            Err(error) => {
                let message = format!("failed to read {file}: {error}");
                (String::new(), vec![Diagnostic::new(&lints::UNREADABLE, "", &(0..0), message)])
            }
        };
        Self { file, diagnostics, path, text }
    }

    /// Whether nothing in it is an error.
    pub fn is_valid(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error)
    }
}

fn sequence_diagnostics(
    file: &str,
    read: &skill_file::SkillFile,
    inputs: Option<&Schema>,
    context: &PlanContext,
) -> Vec<Diagnostic> {
    if read.is_truncated {
        let message = format!("{file} is larger than {} MiB, so it cannot run", plan::Plan::MAX_BYTES >> 20);
        return vec![Diagnostic::new(&lints::PLAN_TOO_LARGE, "", &(0..0), message)];
    }
    let PlanContext { callees, identity } = context;
    metier_plan::diagnostics_with_callees(
        &read.bytes,
        file,
        inputs.map(Schema::json),
        identity,
        callees.as_ref(),
    )
}
