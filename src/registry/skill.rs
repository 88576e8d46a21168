//! A skill that loads: its frontmatter, its location, and the rest on demand.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use super::origin::SkillAddress;
use super::problem::Problem;
use super::root::Scope;
use crate::registry::contract_file::ContractFile;
use crate::registry::definition::{Definition, DefinitionContent};
use crate::registry::drop_in::script_path;
use crate::registry::edit_check::is_current;
use crate::registry::fingerprint::Fingerprint;
use crate::registry::project::{path_in_project, unresolved_path_in_project};
use crate::registry::skill_folder::SkillFolder;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Location, Result, SkillError};
use metier_core::host::Files;
use metier_skill::contract::{CONTRACT_FILES, Contract, ProvidedTool, Schema};
use metier_skill::formats;
use metier_skill::{Diagnostic, Manifest, SkillLocation, parse};

/// Maximum bytes of a `SKILL.md`, body included: 1 MiB, as in other clients.
const MAX_SKILL_FILE_BYTES: u64 = 1 << 20;

/// A skill on disk or inside the binary, represented by the frontmatter of its `SKILL.md`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Skill {
    definition: Arc<Definition>,
    pub(super) has_duplicate: bool,
    pub(super) shadowed_by: Option<Arc<str>>,
}

impl Skill {
    pub(super) fn new(definition: Definition) -> Self {
        Self { definition: Arc::new(definition), has_duplicate: false, shadowed_by: None }
    }

    /// What its files say.
    fn content(&self) -> &DefinitionContent {
        self.definition.content()
    }

    /// Its name, in Unicode NFKC.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// What it does and when to use it.
    pub fn description(&self) -> &str {
        &self.content().manifest.description
    }

    /// `metadata.version`, or the contract's; 0.0.0 when it has none.
    pub fn version(&self) -> &semver::Version {
        &self.definition.version
    }

    /// Its whole frontmatter.
    pub fn manifest(&self) -> &Manifest {
        &self.content().manifest
    }

    /// Violations of the specification in the frontmatter of its `SKILL.md`; the skill loads nevertheless.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.content().diagnostics
    }

    /// The contract beside its `SKILL.md`, or the definition that stands for both; `None` where there is none, or none that it may run by.
    pub fn contract(&self) -> Option<&Contract> {
        self.content().contract_file.as_ref()?.contract.as_deref()
    }

    /// The file name of the contract in the skill's folder, even if the contract is invalid.
    pub fn contract_file(&self) -> Option<&'static str> {
        self.content().contract_file.as_ref().map(|contract_file| contract_file.file_name)
    }

    /// The file in which the skill lists the permissions that it requests, and the key: of its contract where that lists some or nothing
    /// else is there, or else of its `SKILL.md`.
    #[doc(hidden)]
    pub fn permission_list(&self) -> (Cow<'static, str>, &'static str) {
        let is_in_contract = self.contract().is_some_and(|contract| contract.permissions.is_some())
            || CONTRACT_FILES.contains(&self.file_name())
            || matches!(self.folder(), SkillFolder::Script(_));
        if is_in_contract { self.contract_list() } else { (self.file_name().into(), "allowed-tools") }
    }

    /// The same of its contract: for a script that is a skill by itself, that in its comment.
    pub(crate) fn contract_list(&self) -> (Cow<'static, str>, &'static str) {
        match self.folder() {
            SkillFolder::Script(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name.into(), "permissions of the comment block /// skill")
            }
            _ => (self.contract_file().unwrap_or(CONTRACT_FILES[0]).into(), "permissions"),
        }
    }

    /// What is wrong with its contract, or worth knowing. A blocking diagnostic prevents the skill from running.
    pub fn contract_diagnostics(&self) -> &[Diagnostic] {
        self.content().contract_file.as_ref().map_or(&[], |contract_file| &contract_file.diagnostics)
    }

    /// Why its contract prevents it from running: `invalid-skill`, with the line, or `unavailable` where this build lacks the
    /// Cargo feature to check it. Compiles the schemas at the first call.
    pub fn contract_error(&self) -> Option<SkillError> {
        let contract_file = self.content().contract_file.as_ref()?;
        let Some(cause) = contract_file.blocking_diagnostic() else {
            return self.schema_error(contract_file);
        };
        let Diagnostic { line, column, message, help, .. } = cause;
        let place = format!("{}:{line}:{column}", self.contract_path(contract_file).display());
        let sentence = format!("the skill `{}` does not run: {place}: {message}", self.name());
        let location = self.contract_location(contract_file, *line, Some(*column));
        let error = SkillError::new(ErrorKind::InvalidSkill, sentence).with_location(location);
        Some(match help {
            Some(help) => error.with_help(help),
            None => error,
        })
    }

    /// Why nothing can be validated against its input or output schema.
    fn schema_error(&self, contract_file: &ContractFile) -> Option<SkillError> {
        let contract = contract_file.contract.as_deref()?;
        let sections = [("inputs", contract.inputs.as_ref()), ("outputs", contract.outputs.as_ref())];
        self.section_error(contract_file, &format!("the skill `{}` does not run", self.name()), sections)
    }

    /// The same for the schemas of a tool that it offers.
    pub(crate) fn tool_schema_error(&self, tool: &ProvidedTool) -> Option<SkillError> {
        let contract_file = self.content().contract_file.as_ref()?;
        let sections = [("inputs", tool.input_schema.as_ref()), ("outputs", tool.output_schema.as_ref())];
        let attempt = format!("the tool {} of skill {} cannot be called", tool.name, self.name());
        self.section_error(contract_file, &attempt, sections)
    }

    fn section_error(
        &self,
        contract_file: &ContractFile,
        attempt: &str,
        sections: [(&str, Option<&Schema>); 2],
    ) -> Option<SkillError> {
        sections.into_iter().find_map(|(section, schema)| {
            let schema = schema?;
            let (why, line) = (schema.fault()?, schema.line());
            let place = format!("{}:{line}", self.contract_path(contract_file).display());
            let sentence = format!("{attempt}: {place}: the {section} are not valid: {why}");
            let location = self.contract_location(contract_file, line, None);
            let error = |kind| SkillError::new(kind, sentence).with_location(location);
            Some(match schema.missing_feature() {
                Some(feature) => error(ErrorKind::Unavailable)
                    .with_help(format!("build metier with the Cargo feature `{feature}`")),
                None => error(ErrorKind::InvalidSkill)
                    .with_help("validate the skill to see the place")
                    .with_hint(Hint::Validate),
            })
        })
    }

    /// The same error as a problem, for listings.
    pub(super) fn contract_problem(&self) -> Option<Problem> {
        let contract_file = self.content().contract_file.as_ref()?;
        contract_file.blocking_diagnostic()?;
        Some(Problem::invalid_contract(self.contract_path(contract_file), contract_file.diagnostics.clone()))
    }

    fn contract_location(&self, contract_file: &ContractFile, line: u32, column: Option<u32>) -> Location {
        let file = match self.folder() {
            SkillFolder::Script(script) => script_path(script),
            _ => contract_file.file_name.to_owned(),
        };
        let path = self.disk_path(contract_file.file_name, None);
        Location::new(file, Some(line), column).with_path(path)
    }

    fn contract_path(&self, contract_file: &ContractFile) -> PathBuf {
        match self.folder() {
            SkillFolder::Disk(folder) => folder.join(contract_file.file_name),
            SkillFolder::Script(script) => script.clone(),
            SkillFolder::Embedded(_) => PathBuf::from(format!("{}/{}", self.path(), contract_file.file_name)),
        }
    }

    /// The error, with the path on disk of the file it is located in.
    pub(crate) fn with_location_path(&self, error: SkillError, script: Option<&str>) -> SkillError {
        error.with_location_path(|file| self.disk_path(file, script))
    }

    /// The path on disk of its `SKILL.md`, its contract or this script. A script can make up the file in the location of its
    /// error, so no other file is looked up.
    fn disk_path(&self, file: &str, script: Option<&str>) -> Option<PathBuf> {
        let folder = self.folder().disk_path()?;
        if file == "SKILL.md" {
            return Some(self.file_path());
        }
        // The file of a plug-in may be followed by a module: `scripts/plugin.json (module a)`.
        let is_script = |script: &&str| {
            file.strip_prefix(script).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        let contract = self.contract_file().filter(|contract| *contract == file);
        script.filter(is_script).or(contract).map(|name| match self.folder() {
            SkillFolder::Script(script) => script.clone(),
            _ => folder.join(name),
        })
    }

    /// The scope of its root.
    pub fn scope(&self) -> Scope {
        self.definition.address.origin.scope
    }

    /// The label of its root in qualified names.
    pub(crate) fn root_label(&self) -> &str {
        &self.definition.address.origin.label
    }

    /// What its qualified name begins with.
    pub(super) fn root_prefix(&self) -> String {
        format!("{}/{}", self.scope(), self.root_label())
    }

    /// The path of its `SKILL.md`, to display; `builtin:NAME` for a builtin skill, `embedded/ROOT:NAME` for one of the
    /// program.
    pub fn path(&self) -> String {
        self.file_path().display().to_string()
    }

    /// Its full qualified name: `scope/root:name@version`. If several skills in one root agree in all of it, all but the first
    /// have their folder after the root: `scope/root/folder:name@version`.
    pub fn qualified_name(&self) -> String {
        let (root, name, version) = (self.root_prefix(), self.name(), self.version());
        if self.has_duplicate {
            return format!("{root}/{}:{name}@{version}", self.definition.address.path_in_root());
        }
        format!("{root}:{name}@{version}")
    }

    /// The qualified name of the skill that its plain name refers to, when that is another one.
    pub fn shadowed_by(&self) -> Option<&str> {
        self.shadowed_by.as_deref()
    }

    /// Its folder.
    pub fn folder(&self) -> &SkillFolder {
        &self.definition.address.folder
    }

    /// Whether its author wants only people to call it (`disable-model-invocation: true`).
    pub fn is_hidden_from_models(&self) -> bool {
        let is_set =
            |value: &serde_json::Value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let mut keys = self.content().manifest.unknown.iter();
        keys.any(|key| key.is("disable-model-invocation") && is_set(&key.value))
    }

    /// The text below the frontmatter, trimmed, read now; for a definition without a `SKILL.md`, its instructions as they are written,
    /// or its description. `invalid-skill` when the file is no longer a skill, or not UTF-8.
    pub fn body(&self) -> Result<String> {
        self.text_in(&self.folder().read(self.file_name(), MAX_SKILL_FILE_BYTES)?)
    }

    /// The name of the file that its name and its text are read from: a `SKILL.md`, or a definition without one.
    pub(crate) fn file_name(&self) -> &'static str {
        self.definition.address.file_name
    }

    /// The text that a model reads, in this content of its file.
    pub(crate) fn text_in(&self, source: &[u8]) -> Result<String> {
        let directory = self.definition.address.folder_name();
        if CONTRACT_FILES.contains(&self.file_name()) {
            let parsed = formats::load(self.file_name(), source, None);
            if let Some(contract) = &parsed.contract {
                return Ok(formats::instructions(contract).to_owned());
            }
            return Err(self.unreadable_text_error(&parsed.diagnostics));
        }
        let parsed = parse(
            source,
            SkillLocation { directory: &directory, file_name: self.definition.address.file_name },
        );
        let body = parsed.manifest.and_then(|manifest| source.get(manifest.body_offset..));
        if let Some(body) = body.and_then(|body| std::str::from_utf8(body).ok()) {
            return Ok(body.trim().to_owned());
        }
        Err(self.unreadable_text_error(&parsed.diagnostics))
    }

    fn unreadable_text_error(&self, diagnostics: &[Diagnostic]) -> SkillError {
        let cause = diagnostics.iter().find(|diagnostic| diagnostic.blocks);
        let cause = cause.map(|cause| format!(": {}", cause.message)).unwrap_or_default();
        let message = format!("failed to read the text of {}{cause}", self.path());
        SkillError::new(ErrorKind::InvalidSkill, message)
    }

    /// The regular files in `scripts/`, as paths in the skill's folder, sorted, listed now. Hidden files are not listed.
    pub fn scripts(&self) -> Result<Vec<String>> {
        self.scripts_in(None)
    }

    /// The same in its folder, if that is open.
    pub(crate) fn scripts_in(&self, opened: Option<&Files>) -> Result<Vec<String>> {
        self.folder().files_in("scripts", opened)
    }

    pub(super) fn file_path(&self) -> PathBuf {
        self.definition.address.path()
    }

    /// Its folder relative to a project, whose path has no links, `/`-separated; `None` when it lies elsewhere.
    pub(crate) fn folder_in(&self, project: &std::path::Path) -> Option<String> {
        let folder = self.folder().disk_path()?;
        path_in_project(project, folder).or_else(|| unresolved_path_in_project(project, folder))
    }

    /// The position of its root among all roots: those on disk come first.
    pub(crate) fn root_rank(&self) -> usize {
        self.address().origin.rank
    }

    /// Tells what its `SKILL.md` and its contract say from what others say, in this process. All copies of a skill of metier say the same.
    pub(crate) fn definition_hash(&self) -> u64 {
        self.definition.fingerprint.as_ref().map_or(0, Fingerprint::content_hash)
    }

    /// Whether its `SKILL.md` and its contract are on disk as they were read: in this open folder, or else at its path. A skill
    /// inside the program never changes.
    pub(crate) fn is_current(&self, opened: Option<&Files>) -> bool {
        let is_current = |fingerprint: &Fingerprint| is_current(fingerprint, self.address(), opened);
        self.definition.fingerprint.as_ref().is_none_or(is_current)
    }

    /// Whether both were read at the same time.
    pub(crate) fn is_same_as_read(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition)
    }

    pub(super) fn address(&self) -> &SkillAddress {
        &self.definition.address
    }
}
