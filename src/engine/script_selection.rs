//! Selects the script of a skill that runs, and its runtime.

use std::fmt;
use std::path::Path;

use serde_json::json;

use crate::engine::script_inference::{
    MAX_SHOWN_TOOLS, inferred_script_path, is_hidden_script, named_script_path, plain_scripts,
    scripts_named_in_text,
};
use crate::registry::{Skill, SkillFolder};
use crate::runtimes::Runtimes;
use metier_core::error::{ErrorKind, Hint, Location, Result, SkillError};
use metier_core::executor::{HandlerCall, RuntimeId, Script, ScriptDialect, enters_functions};
use metier_core::host::{Files, catch_panic};
use metier_skill::contract::{
    Contract, Entrypoint, ProvidedTool, entrypoint_location, is_tool_script, runtime_location, steps_location,
};
use metier_skill::{EntrypointForm, ManifestFacts};

/// How many reviews the plan has that runs; 0 for every other script, and for a plan that does not load.
pub(super) fn count_reviews(selected: &SelectedScript, script: Option<&Script>) -> usize {
    let Some(script) = script.filter(|_| selected.runtime == RuntimeId::TOOL_SEQUENCE) else { return 0 };
    // Most plans have none, and need not be parsed twice. An escape may spell the word in another way.
    let may_have =
        std::str::from_utf8(&script.source).is_ok_and(|text| text.contains("review") || text.contains('\\'));
    if !may_have {
        return 0;
    }
    metier_plan::from_file(&script.source, &script.path).map_or(0, |plan| plan.reviews().count())
}

/// Which script of a skill is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptChoice<'a> {
    /// The one that runs when nobody names one.
    Main,
    /// The script of this path or name.
    Named(&'a str),
    /// What runs when this tool of the skill is called.
    Tool(&'a str),
}

/// The script to run.
#[derive(Debug, PartialEq)]
pub(super) struct SelectedScript {
    pub(super) path: String,
    pub(super) runtime: RuntimeId,
    /// The function to call, where the contract names one.
    pub(super) function: Option<String>,
    /// How its handler is called, if it is a module that exports one.
    pub(super) handler: Option<HandlerCall>,
    /// The tool of the skill that is called.
    pub(super) tool: Option<Box<ProvidedTool>>,
    /// The system for which it was written.
    pub(super) dialect: ScriptDialect,
}

impl SelectedScript {
    /// The script at this path in the skill's folder, which runs from its first line.
    pub(super) fn new(path: String, runtime: RuntimeId) -> Self {
        Self { path, runtime, function: None, handler: None, tool: None, dialect: ScriptDialect::default() }
    }
}

/// The named script, by its path, by its name without the extension or as an entrypoint of the contract; or else the default
/// entrypoint; or else `scripts/main.*`; or else the only script that somebody would start; or else, in a skill without any, the
/// only one elsewhere that its text names. A skill with an invalid contract has none.
pub(super) fn select_script(
    runtimes: &Runtimes,
    skill: &Skill,
    named: Option<&str>,
) -> Result<SelectedScript> {
    select_script_in(runtimes, (skill, None), named)
}

/// The same of a skill whose folder may be open.
pub(super) fn select_script_in(
    runtimes: &Runtimes,
    (skill, opened): (&Skill, Option<&Files>),
    named: Option<&str>,
) -> Result<SelectedScript> {
    find_script(runtimes, (skill, opened), named)
        .and_then(|selected| refuse_tool_script(skill, selected))
        .and_then(|selected| refuse_state(skill, selected))
        .map_err(|error| skill.with_location_path(error, None))
}

/// The error of a skill with several scripts for who cannot name one: a step of a plan, and a skill that calls it.
pub(super) fn error_for_caller(skill: &Skill, error: SkillError) -> SkillError {
    if error.hint() != Some(&Hint::Script) {
        return error;
    }
    let name = skill.name();
    let place = match skill.permission_list() {
        (file, "allowed-tools") => format!("`entrypoint` under metadata in its {file}"),
        (file, _) => format!("`entrypoint` in its {file}"),
    };
    error
        .with_help(format!("a caller cannot name one: set {place}, or the setting skills.{name}.script"))
        .with_hint(None)
}

/// A script that runs when a tool is called runs in no other way: nobody would be asked first, and its input would be validated
/// against nothing.
fn refuse_tool_script(skill: &Skill, selected: SelectedScript) -> Result<SelectedScript> {
    let contract = skill.contract().filter(|contract| is_tool_script(contract, &selected.path));
    let Some(contract) = contract else { return Ok(selected) };
    let is_handler = |tool: &&ProvidedTool| tool.script().is_some_and(|script| script.path == selected.path);
    let names: Vec<&str> = contract
        .all_tools()
        .filter(is_handler)
        .map(|tool| tool.name.as_str())
        .take(MAX_SHOWN_TOOLS)
        .collect();
    let sentence = format!(
        "{} of skill {} runs only when its tool is called: {}",
        selected.path,
        skill.name(),
        names.join(", ")
    );
    Err(SkillError::new(ErrorKind::Usage, sentence)
        .with_help("call the tool, or name the script under `entrypoints` too"))
}

/// What lies below a path of `state` is written by earlier runs, so it is never run, whatever the skill is trusted for.
pub(super) fn refuse_state(skill: &Skill, selected: SelectedScript) -> Result<SelectedScript> {
    let state = skill.contract().map_or(&[][..], |contract| &contract.state);
    let Some(path) = state.iter().find(|path| Path::new(&selected.path).starts_with(path)) else {
        return Ok(selected);
    };
    let sentence =
        format!("{} is not run: it lies in `state: {path}`, which running skills write", selected.path);
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("move the script to a folder that no run writes"))
}

pub(super) fn require_contract(skill: &Skill) -> Result<()> {
    catch_panic("the contract", ErrorKind::InvalidSkill, || skill.contract_error().map_or(Ok(()), Err))
}

fn find_script(
    runtimes: &Runtimes,
    (skill, opened): (&Skill, Option<&Files>),
    named: Option<&str>,
) -> Result<SelectedScript> {
    require_contract(skill)?;
    if let Some(selected) = handler_script(skill, named)? {
        return Ok(selected);
    }
    let declared = declared_runtime(runtimes, skill)?;
    let entered = match named {
        Some(name) => {
            let called = skill.contract().and_then(|contract| contract.entrypoint_by_name(name));
            called.map(|entrypoint| LocatedEntrypoint::from_contract(skill, entrypoint))
        }
        None => default_entrypoint(runtimes, skill, declared.is_some())?,
    };
    if let Some(entered) = entered {
        return select_entrypoint(runtimes, skill, entered, declared.as_ref(), named.is_none());
    }
    if let Some(path) = plan_file(skill, named, declared.as_ref())? {
        return Ok(SelectedScript::new(path, RuntimeId::TOOL_SEQUENCE));
    }
    let declared = declared.map(|declared| declared.runtime);
    let path = match named {
        Some(path) => named_script_path(runtimes, skill, path)?,
        None => inferred_script_path(runtimes, skill, declared, opened)
            .or_else(|error| plan_in_text(skill, declared)?.ok_or(error))?,
    };
    let runtime = runtimes.for_script(&path, declared, named.is_none());
    Ok(SelectedScript { dialect: declared_dialect(runtimes, skill), ..SelectedScript::new(path, runtime) })
}

/// The handler of a skill whose format says that one runs, unless another script is named.
fn handler_script(skill: &Skill, named: Option<&str>) -> Result<Option<SelectedScript>> {
    let handlers = skill.contract().map_or(&[][..], |contract| contract.format.handlers());
    let named = named.map(|path| path.strip_prefix("./").unwrap_or(path));
    if handlers.is_empty() || named.is_some_and(|path| !handlers.contains(&path)) {
        return Ok(None);
    }
    let files = skill.folder().files()?;
    let is_there = |path: &&&str| files.iter().any(|file| file == **path);
    let found = handlers.iter().filter(|path| named.is_none_or(|named| named == **path)).find(is_there);
    let Some(path) = found else {
        let sentence =
            format!("skill {} has no {}, so nothing of it can run", skill.name(), handlers.join(" or "));
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_location(contract_location(skill, None))
            .with_help("put the handler beside the manifest"));
    };
    if skill.manifest().metadata.contains_key("worker") {
        let sentence = format!(
            "skill {} asks for a worker, and a handler is called in a process of each run",
            skill.name()
        );
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_location(manifest_location(skill.manifest().lines().worker))
            .with_help("take `worker` out of SKILL.md"));
    }
    let needs = skill.contract().map(|contract| contract.host_needs.clone()).unwrap_or_default();
    let description = json!({
        "skill": skill.name(),
        "secrets": needs.secrets,
        "capabilities": needs.capabilities,
        "timestamps": needs.timestamps,
    });
    let handler = Some(HandlerCall { description: description.to_string() });
    Ok(Some(SelectedScript { handler, ..SelectedScript::new((*path).to_owned(), RuntimeId::EXTERNAL) }))
}

/// The runtime in which a skill runs when nobody names a script, or why it does not run: `invalid-skill` with the location of
/// what declares a wrong runtime or entrypoint, `unavailable` if it has no script, `usage` if it has several.
pub fn main_script_runtime(runtimes: &Runtimes, skill: &Skill) -> Result<RuntimeId> {
    select_script(runtimes, skill, None).map(|selected| selected.runtime)
}

/// A runtime, and the location that declares it.
pub(super) struct DeclaredRuntime {
    pub(super) runtime: RuntimeId,
    location: Location,
}

impl fmt::Display for DeclaredRuntime {
    /// `runtime: lua in SKILL.md:4`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runtime, location: place } = self;
        let line = place.line.map_or(String::new(), |line| format!(":{line}"));
        write!(f, "runtime: {runtime} in {}{line}", place.file)
    }
}

/// The runtime that the contract or `SKILL.md` declares; where both do, they agree.
pub(super) fn declared_runtime(runtimes: &Runtimes, skill: &Skill) -> Result<Option<DeclaredRuntime>> {
    let named = skill.contract().and_then(|contract| {
        Some((contract.runtime.as_deref()?, contract_location(skill, runtime_location(contract).line)))
    });
    let named = named.or_else(|| {
        let place = manifest_location(skill.manifest().lines().runtime);
        Some((manifest_runtime(runtimes, skill)?, place))
    });
    let Some((name, place)) = named else { return Ok(None) };
    match runtimes.find(name) {
        Ok(runtime) => Ok(Some(DeclaredRuntime { runtime, location: place })),
        Err(error) => Err(SkillError::with_location(error, place)),
    }
}

/// The runtime that `SKILL.md` declares.
fn manifest_runtime<'a>(runtimes: &Runtimes, skill: &'a Skill) -> Option<&'a str> {
    skill.manifest().declared_runtime(|name| runtimes.find(name).is_ok())
}

/// The system for which the scripts of the skill were written, as the runtime says that it declares.
fn declared_dialect(runtimes: &Runtimes, skill: &Skill) -> ScriptDialect {
    let of_contract = skill.contract().and_then(|contract| contract.runtime.as_deref());
    let name = of_contract.or_else(|| manifest_runtime(runtimes, skill));
    name.map(ScriptDialect::from_runtime_name).unwrap_or_default()
}

/// An entrypoint, and the location that declares it.
pub(super) struct LocatedEntrypoint {
    entrypoint: Entrypoint,
    location: Location,
}

impl LocatedEntrypoint {
    pub(super) fn from_contract(skill: &Skill, entrypoint: &Entrypoint) -> Self {
        Self {
            entrypoint: entrypoint.clone(),
            location: contract_location(skill, entrypoint_location(entrypoint).line),
        }
    }
}

/// The entrypoint when the caller names no script: that of the contract, or else `metadata.entrypoint`, unless that is a word of another
/// client. A text is a script where a runtime is declared, which may be one of the host program's own.
fn default_entrypoint(
    runtimes: &Runtimes,
    skill: &Skill,
    has_runtime: bool,
) -> Result<Option<LocatedEntrypoint>> {
    if let Some(entrypoint) = skill.contract().and_then(Contract::main_entrypoint) {
        return Ok(Some(LocatedEntrypoint::from_contract(skill, entrypoint)));
    }
    let manifest = skill.manifest();
    let Some(path) = manifest.entrypoint() else { return Ok(None) };
    let is_script = match manifest.entrypoint_form() {
        Some(EntrypointForm::Path) => true,
        Some(EntrypointForm::Word) => has_file(runtimes, skill, path)?,
        Some(EntrypointForm::Text) => has_runtime && has_file(runtimes, skill, path)?,
        None => false,
    };
    if !is_script {
        return Ok(None);
    }
    let mut entrypoint = Entrypoint::default();
    path.clone_into(&mut entrypoint.path);
    Ok(Some(LocatedEntrypoint { entrypoint, location: manifest_location(manifest.lines().entrypoint) }))
}

pub(super) fn contract_location(skill: &Skill, line: Option<u32>) -> Location {
    Location::new(skill.contract_file().unwrap_or_default(), line, None)
}

fn manifest_location(line: Option<u32>) -> Location {
    Location::new("SKILL.md", line, None)
}

pub(super) fn select_entrypoint(
    runtimes: &Runtimes,
    skill: &Skill,
    LocatedEntrypoint { entrypoint, location: place }: LocatedEntrypoint,
    declared: Option<&DeclaredRuntime>,
    is_main: bool,
) -> Result<SelectedScript> {
    let Entrypoint { path, function, runtime, .. } = entrypoint;
    let path = entrypoint_path(runtimes, skill, &path).map_err(|error| error.with_location(place.clone()))?;
    if let Some(declared) = declared.filter(|_| is_main && runtime.is_none())
        && let Some(told) = runtimes.conflicting(declared.runtime, &path)
    {
        let sentence =
            format!("skill {} enters at {path}, which is {told}, and says {declared}", skill.name());
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_location(place)
            .with_help("make them agree, or take out the runtime"));
    }
    let dialect = match &runtime {
        Some(name) => ScriptDialect::from_runtime_name(name),
        None => declared_dialect(runtimes, skill),
    };
    let runtime = match runtime {
        Some(name) => runtimes.find(&name).map_err(|error| error.with_location(place.clone()))?,
        None => runtimes.for_script(&path, declared.map(|declared| declared.runtime), is_main),
    };
    if let Some(function) = function.as_ref().filter(|_| !enters_functions(runtime)) {
        let sentence = format!(
            "skill {} enters {path} at the function {function}, and {runtime} scripts run from their first line",
            skill.name()
        );
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_location(place)
            .with_help("take `function` out of the contract; scripts in lua and rhai and WebAssembly plug-ins are entered by one"));
    }
    Ok(SelectedScript { function, dialect, ..SelectedScript::new(path, runtime) })
}

/// The contract's file, if its steps are what runs because no entrypoint is named. Another runtime declared beside steps is an
/// error.
fn plan_file(
    skill: &Skill,
    named: Option<&str>,
    declared: Option<&DeclaredRuntime>,
) -> Result<Option<String>> {
    let contract = skill.contract().filter(|contract| contract.steps.is_some());
    let (Some(contract), Some(file)) = (contract, skill.contract_file()) else { return Ok(None) };
    if let Some(path) = named {
        let is_meant = path.strip_prefix("./").unwrap_or(path) == file;
        return Ok(is_meant.then(|| file.to_owned()));
    }
    match declared.filter(|declared| declared.runtime != RuntimeId::TOOL_SEQUENCE) {
        None => Ok(Some(file.to_owned())),
        Some(declared) => {
            let (name, runtime) = (skill.name(), RuntimeId::TOOL_SEQUENCE);
            let sentence = format!("skill {name} has steps, which run in {runtime}, and says {declared}");
            Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_location(contract_location(skill, steps_location(contract).line))
                .with_help("take out the steps, or the runtime"))
        }
    }
}

/// The `SKILL.md` of a skill that is a plan and has it as a numbered list of its text.
fn plan_in_text(skill: &Skill, declared: Option<RuntimeId>) -> Result<Option<String>> {
    if declared != Some(RuntimeId::TOOL_SEQUENCE) || matches!(skill.folder(), SkillFolder::Script(_)) {
        return Ok(None);
    }
    let is_item = |line: &str| {
        line.split_once(['.', ')']).is_some_and(|(number, rest)| {
            !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()) && rest.starts_with(' ')
        })
    };
    let has_list = skill.body()?.lines().any(is_item);
    Ok(has_list.then(|| skill.file_name().to_owned()))
}

/// The path of an entrypoint, which is relative to the skill's folder.
fn entrypoint_path(runtimes: &Runtimes, skill: &Skill, path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    if has_file(runtimes, skill, path)? {
        return Ok(path.to_owned());
    }
    let sentence = format!("skill {} enters at {path}, and has no such file", skill.name());
    let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
    let in_scripts = format!("scripts/{path}");
    let is_there = has_file(runtimes, skill, &in_scripts)?;
    Err(if is_there { error.with_help(format!("write {in_scripts}")) } else { error })
}

fn has_file(runtimes: &Runtimes, skill: &Skill, path: &str) -> Result<bool> {
    Ok(skill.folder().files()?.iter().any(|file| file == path) || is_hidden_script(runtimes, skill, path))
}

/// The scripts in `scripts/`, those elsewhere that the text of the skill names, and its handler; without those that run when a tool
/// is called.
pub(super) fn scripts(runtimes: &Runtimes, skill: &Skill) -> Result<Vec<String>> {
    let mut found = plain_scripts(skill, None)?;
    found.extend(scripts_named_in_text(runtimes, skill)?);
    if let Ok(Some(SelectedScript { path, .. })) = handler_script(skill, None)
        && !found.contains(&path)
    {
        found.push(path);
    }
    Ok(found)
}
