//! Checks the folder around a SKILL.md, and the parts of the SKILL.md that refer to it. It finds no errors, only warnings.

use std::ops::Range;

use cap_std::fs::Dir;
use metier::engine::Runtimes;
use metier::executor::RuntimeId;
use metier::policy::Permission;
use metier::skill::{Diagnostic, Manifest, Rule};
use metier_skill::contract::CONTRACT_FILES;
use metier_skill::{EntrypointForm, ManifestFacts};

use super::references::{Reference, references};
use super::target::is_not_found;
use crate::cli::validate::lints;
use metier_core::policy::{client_tool_permission, requests_worker};

/// Maximum number of diagnostics of one kind.
const MAX_SHOWN: usize = 32;
/// Maximum number of entries of a folder that are read, and maximum depth of scripts.
const MAX_ENTRIES: usize = 4096;
const MAX_DEPTH: usize = 4;

/// A skill that loads, with its folder.
pub struct FolderChecks<'a> {
    /// The folder, opened.
    pub dir: &'a Dir,
    /// The name of the skill's file.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its manifest.
    pub manifest: &'a Manifest,
}

impl FolderChecks<'_> {
    /// All diagnostics.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = self
            .duplicate_skill_files()
            .into_iter()
            .chain(self.misnamed_contract())
            .chain(self.runtime_mismatch())
            .chain(self.foreign_entrypoint())
            .chain(self.unknown_worker())
            .collect();
        found.extend(truncate_diagnostics(self.modules_without_source()));
        found.extend(truncate_diagnostics(self.unknown_tools()));
        found.extend(truncate_diagnostics(self.missing_references()));
        found
    }

    /// Files whose names differ from the skill file's in case only: on other systems they are the same file.
    fn duplicate_skill_files(&self) -> Option<Diagnostic> {
        let names = self.matching_names(|name| name.eq_ignore_ascii_case(self.file) && name != self.file);
        let message =
            format!("`{}` is not read, because `{}` is in the same folder", names.first()?, self.file);
        Some(self.diagnostic(&lints::SKILL_FILE_TWICE, &(0..0), message).with_help("keep one of them"))
    }

    fn misnamed_contract(&self) -> Option<Diagnostic> {
        let is_alike = |name: &str| CONTRACT_FILES.iter().any(|known| name.eq_ignore_ascii_case(known));
        let names = self.matching_names(|name| is_alike(name) && !CONTRACT_FILES.contains(&name));
        let name = names.first()?;
        let known = CONTRACT_FILES.into_iter().find(|known| name.eq_ignore_ascii_case(known))?;
        let message = format!("`{name}` is not read: a contract is called {known}");
        let help = format!("rename it to {known}");
        Some(self.diagnostic(&lints::CONTRACT_MISNAMED, &(0..0), message).with_help(help))
    }

    /// The names in the folder of that kind, sorted.
    fn matching_names(&self, is_match: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = self.dir.entries().into_iter().flatten().take(MAX_ENTRIES).flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_match(name)).collect();
        names.sort();
        names
    }

    fn runtime_mismatch(&self) -> Option<Diagnostic> {
        let name = self.manifest.runtime.as_deref()?;
        let span = self.value_span("runtime", name);
        let runtimes = Runtimes::built_in();
        match runtimes.find(name) {
            Err(error) if self.manifest.is_runtime_in_metadata() => {
                let message = format!(
                    "{}, so metadata.runtime is taken as a word of another client, and scripts run by their extensions",
                    error.message()
                );
                let found = self.diagnostic(&lints::RUNTIME_FOREIGN, &span, message);
                Some(found.with_help(error.help().unwrap_or("remove the line")))
            }
            Err(error) => {
                let found = self.diagnostic(&lints::RUNTIME_UNKNOWN, &span, error.message());
                Some(found.with_help(error.help().unwrap_or("remove the line")))
            }
            Ok(runtime) if self.conflicting_entrypoint(&runtimes, runtime).is_some() => {
                let (path, detected) = self.conflicting_entrypoint(&runtimes, runtime)?;
                let message = format!(
                    "the runtime is {runtime}, but the entrypoint `{path}` is a script in {detected}"
                );
                Some(self.diagnostic(&lints::RUNTIME_UNFIT, &span, message))
            }
            Ok(runtime) if script_names(self.dir).iter().any(|path| runtimes.for_path(path) == runtime) => {
                None
            }
            Ok(runtime) => {
                let message = format!("the runtime is {runtime}, but scripts/ has no file for it");
                Some(self.diagnostic(&lints::RUNTIME_UNFIT, &span, message))
            }
        }
    }

    /// A word of another client where the path of a script stands.
    fn foreign_entrypoint(&self) -> Option<Diagnostic> {
        let word = self.manifest.entrypoint()?;
        let reason = match self.manifest.entrypoint_form()? {
            EntrypointForm::Text => format!("`{word}` is no script"),
            EntrypointForm::Word if !self.dir.is_file(word) => format!("there is no file `{word}`"),
            EntrypointForm::Word | EntrypointForm::Path => return None,
        };
        let message = format!("{reason}, so metadata.entrypoint is taken as a word of another client");
        let found =
            self.diagnostic(&lints::ENTRYPOINT_FOREIGN, &self.value_span("entrypoint", word), message);
        Some(found.with_help("write the path of the script that runs when none is named"))
    }

    /// An entrypoint that this runtime cannot run, and the runtime of its language.
    fn conflicting_entrypoint(&self, runtimes: &Runtimes, runtime: RuntimeId) -> Option<(&str, RuntimeId)> {
        let path = self.manifest.entrypoint()?;
        Some((path, runtimes.conflicting(runtime, path)?))
    }

    /// A worker of an external script whose protocol does not exist, or is a word of another client.
    fn unknown_worker(&self) -> Option<Diagnostic> {
        let value = self.manifest.metadata.get("worker")?;
        let runtimes = Runtimes::built_in();
        let is_known = |name: &str| runtimes.find(name).is_ok();
        let is_external = match self.manifest.declared_runtime(is_known) {
            Some(name) => name == RuntimeId::EXTERNAL.name(),
            None => script_names(self.dir).iter().all(|path| runtimes.for_path(path) == RuntimeId::EXTERNAL),
        };
        if !is_external {
            return None;
        }
        let span = self.value_span("worker", value.as_str().unwrap_or_default());
        match requests_worker(value) {
            Ok(Some(_)) => None,
            Ok(None) => {
                let message = "metadata.worker is no protocol, so it is taken as a word of another client, and each run has a process of its own";
                let found = self.diagnostic(&lints::WORKER_FOREIGN, &span, message);
                Some(found.with_help("write `json-lines` if the script serves several runs"))
            }
            Err(error) => {
                let found = self.diagnostic(&lints::WORKER_UNKNOWN, &span, error.message());
                Some(found.with_help(error.help().unwrap_or("leave it out")))
            }
        }
    }

    /// WebAssembly modules without their source: neither beside them under the same name nor in a folder `src`.
    fn modules_without_source(&self) -> impl Iterator<Item = Diagnostic> {
        let names = if ["src", "scripts/src"].iter().any(|folder| self.dir.is_dir(folder)) {
            Vec::new()
        } else {
            script_names(self.dir)
        };
        let has_source = |module: &str| {
            let same = |name: &&String| stem(name) == stem(module) && *name != module;
            names.iter().any(|name| same(&name))
        };
        let is_module = |name: &&String| name.to_ascii_lowercase().ends_with(".wasm");
        let modules: Vec<String> =
            names.iter().filter(is_module).filter(|name| !has_source(name)).cloned().collect();
        modules.into_iter().map(|module| {
            let message = format!("the source of `{module}` is missing, so nobody can review what it does");
            let help = format!("put the source beside it, such as {}.c, or into a folder src", stem(&module));
            self.diagnostic(&lints::SOURCE_MISSING, &(0..0), message).with_help(help)
        })
    }

    fn unknown_tools(&self) -> impl Iterator<Item = Diagnostic> {
        let unknown = |tool: &&String| client_tool_permission(tool).is_none();
        self.manifest.allowed_tools.iter().filter(unknown).filter_map(|tool| {
            let error = tool.parse::<Permission>().err()?;
            let span = self.value_span("allowed-tools", tool);
            let found = self.diagnostic(
                &lints::TOOL_UNKNOWN,
                &span,
                format!("{}; it grants nothing", error.message()),
            );
            Some(match error.help() {
                Some(help) => found.with_help(help),
                None => found,
            })
        })
    }

    fn missing_references(&self) -> impl Iterator<Item = Diagnostic> {
        references(self.text, self.manifest.body_offset)
            .into_iter()
            .filter_map(|Reference { path, span }| self.check_reference(&path, &span))
    }

    fn check_reference(&self, path: &str, span: &Range<usize>) -> Option<Diagnostic> {
        match self.dir.metadata(path) {
            Ok(_) => None,
            Err(error) if is_not_found(&error) && !leaves_folder(path) => {
                Some(self.diagnostic(&lints::LINK_MISSING, span, format!("`{path}` does not exist")))
            }
            Err(_) => {
                let message = format!("`{path}` cannot be reached from inside the skill's folder");
                let help = "a skill is moved and installed as one folder; put what it needs into that folder";
                Some(self.diagnostic(&lints::LINK_OUTSIDE, span, message).with_help(help))
            }
        }
    }

    fn diagnostic(&self, rule: &Rule, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(rule, self.text, span, message)
    }

    /// Where a value occurs: after its key, on the first line of the frontmatter that begins with the key. The parser keeps no
    /// locations of valid values; the start of the file if the value is written with escapes.
    fn value_span(&self, key: &str, value: &str) -> Range<usize> {
        let head = self.text.get(..self.manifest.body_offset).unwrap_or_default();
        let starts =
            |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        let mut offset = 0;
        for line in head.split_inclusive('\n') {
            if starts(line) {
                let after = offset + line.len() - line.trim_start().len() + key.len();
                return head[after..]
                    .find(value)
                    .map_or(after..after, |at| after + at..after + at + value.len());
            }
            offset += line.len();
        }
        // In a map of one line.
        let written = format!("{key}: {value}");
        head.find(&written).map_or(0..0, |at| at + key.len() + 2..at + written.len())
    }
}

/// The first diagnostics; the last one says that there are more.
fn truncate_diagnostics(found: impl Iterator<Item = Diagnostic>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = found.take(MAX_SHOWN + 1).collect();
    if let Some(last) = found.get_mut(MAX_SHOWN) {
        "there are more of this kind, beginning here".clone_into(&mut last.message);
        last.help = None;
    }
    found
}

/// The names of the files under `scripts/`, links to files included.
fn script_names(dir: &Dir) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(scripts) = dir.open_dir("scripts") {
        collect_files(&scripts, MAX_DEPTH, &mut names);
    }
    names
}

fn collect_files(dir: &Dir, depth: usize, names: &mut Vec<String>) {
    for entry in dir.entries().into_iter().flatten().take(MAX_ENTRIES).flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match entry.open_dir() {
            Ok(below) if is_folder && depth > 1 && names.len() < MAX_ENTRIES => {
                collect_files(&below, depth - 1, names);
            }
            _ if is_folder => {}
            _ => names.extend(entry.file_name().into_string()),
        }
    }
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn leaves_folder(path: &str) -> bool {
    let mut depth = 0_i64;
    path.split('/').any(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_detected() {
        assert!(leaves_folder("../x") && leaves_folder("a/../../x"));
        assert!(!leaves_folder("a/../x") && !leaves_folder("./x"));
    }
}
