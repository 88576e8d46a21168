//! Selects the script of a skill that runs, and its runtime.

use std::fmt;
use std::path::Path;

use serde_json::json;

use crate::engine::script_candidates::{MAX_COMPARED_BYTES, named_in_text, script_stem, startable_scripts};
use crate::error::{ErrorKind, Hint, Location, Result, SkillError};
use crate::executor::{HandlerCall, RuntimeId, ScriptDialect};
use crate::host::catch_panic;
use crate::policy::Limits;
use crate::registry::{Skill, SkillFolder, printable_name};
use crate::runtimes::{self, Runtimes, is_plugin_manifest};
use crate::skill::contract::{Contract, Entrypoint, ProvidedTool, ToolHandler};
use crate::suggestion::{closest, did_you_mean};

/// The most tools that an error names.
const MAX_SHOWN_TOOLS: usize = 8;

/// Which script of a skill is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptChoice<'a> {
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

    /// The limits with the runtime's defaults where the caller set none. [`limit_support`](crate::engine::limit_support)
    /// decides which of them the runtime supports.
    pub(super) fn with_runtime_defaults(&self, limits: Limits) -> Limits {
        match self.runtime {
            RuntimeId::EXTERNAL => limits.for_process(),
            RuntimeId::RHAI => {
                let operations = limits.operations.unwrap_or(Limits::OPERATIONS);
                limits.for_in_process().operations(operations)
            }
            _ => limits.for_in_process(),
        }
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
    find_script(runtimes, skill, named)
        .and_then(|selected| refuse_tool_script(skill, selected))
        .and_then(|selected| refuse_state(skill, selected))
        .map_err(|error| skill.with_location_path(error, None))
}

/// What runs when a tool of the skill is called; `unknown-skill` if the skill does not offer it, `unavailable` for one that is only
/// declared.
pub(super) fn select_tool(runtimes: &Runtimes, skill: &Skill, name: &str) -> Result<SelectedScript> {
    find_tool_script(runtimes, skill, name)
        .and_then(|selected| refuse_state(skill, selected))
        .map_err(|error| skill.with_location_path(error, None))
}

/// The plans that run when a tool of the skill is called.
pub(super) fn tool_plans(runtimes: &Runtimes, skill: &Skill) -> Vec<SelectedScript> {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let may_be_plan = |script: &Entrypoint| {
        script.runtime.as_deref().map_or_else(
            || runtimes.for_script(&script.path, None, false) == RuntimeId::TOOL_SEQUENCE,
            |name| name == RuntimeId::TOOL_SEQUENCE.name(),
        )
    };
    // A file with another extension is a plan where the skill declares that runtime.
    let is_declared = declared_runtime(runtimes, skill)
        .is_ok_and(|declared| declared.is_some_and(|it| it.runtime == RuntimeId::TOOL_SEQUENCE));
    let planned = tools.iter().filter(|tool| is_declared || tool.script().is_some_and(may_be_plan));
    let selected = planned.filter_map(|tool| select_tool(runtimes, skill, &tool.name).ok());
    selected.filter(|selected| selected.runtime == RuntimeId::TOOL_SEQUENCE).collect()
}

fn find_tool_script(runtimes: &Runtimes, skill: &Skill, name: &str) -> Result<SelectedScript> {
    require_contract(skill)?;
    let tool = skill.contract().and_then(|contract| contract.tool(name));
    let tool = tool.ok_or_else(|| unknown_tool_error(skill, name))?;
    catch_panic("the contract", ErrorKind::InvalidSkill, || {
        skill.tool_schema_error(tool).map_or(Ok(()), Err)
    })?;
    let declared = declared_runtime(runtimes, skill)?;
    let selected = match &tool.handler {
        Some(ToolHandler::Script(script)) => {
            let entered = LocatedEntrypoint::from_contract(skill, script);
            select_entrypoint(runtimes, skill, entered, declared.as_ref(), false)?
        }
        // The contract is what is read and counted as the file that runs.
        Some(ToolHandler::Http(_)) => SelectedScript {
            function: Some(tool.name.clone()),
            ..SelectedScript::new(skill.contract_file().unwrap_or_default().to_owned(), RuntimeId::HTTP_CALL)
        },
        None => {
            let sentence = format!(
                "the tool {} of skill {} is only declared: its definition says nothing about what runs",
                printable_name(name),
                skill.name()
            );
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(
                "declare it under `tools` in skill.yaml, with an `entrypoint` or an `http` call",
            ));
        }
    };
    Ok(SelectedScript { tool: Some(Box::new(tool.clone())), ..selected })
}

fn unknown_tool_error(skill: &Skill, name: &str) -> SkillError {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let sentence = format!("skill {} offers no tool called `{}`", skill.name(), printable_name(name));
    let error = SkillError::new(ErrorKind::UnknownSkill, sentence);
    match closest(name, names.iter().copied()) {
        Some(near) => error.with_help(did_you_mean(near)),
        None if names.is_empty() => error.with_help("it offers no tools"),
        None => {
            let shown: Vec<String> =
                names.iter().take(MAX_SHOWN_TOOLS).map(|name| printable_name(name)).collect();
            error.with_help(format!("it offers {}", shown.join(", ")))
        }
    }
}

/// A script that runs when a tool is called runs in no other way: nobody would be asked first, and its input would be validated
/// against nothing.
fn refuse_tool_script(skill: &Skill, selected: SelectedScript) -> Result<SelectedScript> {
    let contract = skill.contract().filter(|contract| contract.is_tool_script(&selected.path));
    let Some(contract) = contract else { return Ok(selected) };
    let is_handler = |tool: &&ProvidedTool| tool.script().is_some_and(|script| script.path == selected.path);
    let names: Vec<&str> = contract
        .tools
        .iter()
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
fn refuse_state(skill: &Skill, selected: SelectedScript) -> Result<SelectedScript> {
    let state = skill.contract().map_or(&[][..], |contract| &contract.state);
    let Some(path) = state.iter().find(|path| Path::new(&selected.path).starts_with(path)) else {
        return Ok(selected);
    };
    let sentence =
        format!("{} is not run: it lies in `state: {path}`, which running skills write", selected.path);
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("move the script to a folder that no run writes"))
}

fn require_contract(skill: &Skill) -> Result<()> {
    catch_panic("the contract", ErrorKind::InvalidSkill, || skill.contract_error().map_or(Ok(()), Err))
}

fn find_script(runtimes: &Runtimes, skill: &Skill, named: Option<&str>) -> Result<SelectedScript> {
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
        None => default_entrypoint(skill),
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
        None => inferred_script_path(runtimes, skill, declared)
            .or_else(|error| plan_in_text(skill, declared)?.ok_or(error))?,
    };
    let runtime = runtimes.for_script(&path, declared, named.is_none());
    Ok(SelectedScript { dialect: declared_dialect(skill), ..SelectedScript::new(path, runtime) })
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
            .with_location(manifest_location(skill.manifest().lines.worker))
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
#[doc(hidden)]
pub fn main_script_runtime(runtimes: &Runtimes, skill: &Skill) -> Result<RuntimeId> {
    select_script(runtimes, skill, None).map(|selected| selected.runtime)
}

/// A runtime, and the location that declares it.
struct DeclaredRuntime {
    runtime: RuntimeId,
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
fn declared_runtime(runtimes: &Runtimes, skill: &Skill) -> Result<Option<DeclaredRuntime>> {
    let named = skill.contract().and_then(|contract| {
        Some((contract.runtime.as_deref()?, contract_location(skill, contract.runtime_location.line)))
    });
    let manifest = skill.manifest();
    let named =
        named.or_else(|| Some((manifest.runtime.as_deref()?, manifest_location(manifest.lines.runtime))));
    let Some((name, place)) = named else { return Ok(None) };
    match runtimes.find(name) {
        Ok(runtime) => Ok(Some(DeclaredRuntime { runtime, location: place })),
        Err(error) => Err(SkillError::with_location(error, place)),
    }
}

/// The system for which the scripts of the skill were written, as the runtime says that it declares.
fn declared_dialect(skill: &Skill) -> ScriptDialect {
    let of_contract = skill.contract().and_then(|contract| contract.runtime.as_deref());
    let name = of_contract.or(skill.manifest().runtime.as_deref());
    name.map(ScriptDialect::from_runtime_name).unwrap_or_default()
}

/// An entrypoint, and the location that declares it.
struct LocatedEntrypoint {
    entrypoint: Entrypoint,
    location: Location,
}

impl LocatedEntrypoint {
    fn from_contract(skill: &Skill, entrypoint: &Entrypoint) -> Self {
        Self { entrypoint: entrypoint.clone(), location: contract_location(skill, entrypoint.place.line) }
    }
}

/// The entrypoint when the caller names no script: that of the contract, or else `metadata.entrypoint`.
fn default_entrypoint(skill: &Skill) -> Option<LocatedEntrypoint> {
    let of_contract = skill.contract().and_then(Contract::main_entrypoint);
    of_contract.map(|entrypoint| LocatedEntrypoint::from_contract(skill, entrypoint)).or_else(|| {
        let path = skill.manifest().entrypoint()?.to_owned();
        let entrypoint = Entrypoint { path, ..Entrypoint::default() };
        Some(LocatedEntrypoint { entrypoint, location: manifest_location(skill.manifest().lines.entrypoint) })
    })
}

fn contract_location(skill: &Skill, line: Option<u32>) -> Location {
    Location::new(skill.contract_file().unwrap_or_default(), line, None)
}

fn manifest_location(line: Option<u32>) -> Location {
    Location::new("SKILL.md", line, None)
}

fn select_entrypoint(
    runtimes: &Runtimes,
    skill: &Skill,
    LocatedEntrypoint { entrypoint, location: place }: LocatedEntrypoint,
    declared: Option<&DeclaredRuntime>,
    is_main: bool,
) -> Result<SelectedScript> {
    let Entrypoint { path, function, runtime, .. } = entrypoint;
    let path = entrypoint_path(skill, &path).map_err(|error| error.with_location(place.clone()))?;
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
        None => declared_dialect(skill),
    };
    let runtime = match runtime {
        Some(name) => runtimes.find(&name).map_err(|error| error.with_location(place.clone()))?,
        None => runtimes.for_script(&path, declared.map(|declared| declared.runtime), is_main),
    };
    if let Some(function) = function.as_ref().filter(|_| !runtime.enters_functions()) {
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
                .with_location(contract_location(skill, contract.steps_location.line))
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
fn entrypoint_path(skill: &Skill, path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let files = skill.folder().files()?;
    let is_there = |path: &str| files.iter().any(|file| file == path);
    if is_there(path) {
        return Ok(path.to_owned());
    }
    let sentence = format!("skill {} enters at {path}, and has no such file", skill.name());
    let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
    let in_scripts = format!("scripts/{path}");
    Err(if is_there(&in_scripts) { error.with_help(format!("write {in_scripts}")) } else { error })
}

/// The path of the script to run if nobody names one.
fn inferred_script_path(runtimes: &Runtimes, skill: &Skill, declared: Option<RuntimeId>) -> Result<String> {
    let source = |path: &str, cap| skill.folder().read(path, cap).ok();
    let infer = |scripts: &[String]| infer_script(runtimes, skill.name(), scripts, declared, source);
    let inferred = infer(&plain_scripts(skill)?).map_err(|error| offer_tools(skill, error));
    if !inferred.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
        return inferred;
    }
    let named = scripts_named_in_text(runtimes, skill)?;
    if named.is_empty() { inferred } else { infer(&named) }
}

/// The error of a skill without a script, which names the tools that it offers.
fn offer_tools(skill: &Skill, error: SkillError) -> SkillError {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let callable: Vec<&str> = tools
        .iter()
        .filter(|tool| tool.handler.is_some())
        .map(|tool| tool.name.as_str())
        .take(MAX_SHOWN_TOOLS)
        .collect();
    if callable.is_empty() || error.kind() != ErrorKind::Unavailable {
        return error;
    }
    error.with_help(format!("call one of its tools: {}", callable.join(", "))).with_hint(Hint::Tool)
}

/// The scripts in `scripts/`, without those that run when a tool is called.
fn plain_scripts(skill: &Skill) -> Result<Vec<String>> {
    let mut scripts = skill.scripts()?;
    if let Some(contract) = skill.contract().filter(|contract| !contract.tools.is_empty()) {
        scripts.retain(|path| !contract.is_tool_script(path));
    }
    Ok(scripts)
}

/// The scripts in `scripts/`, those elsewhere that the text of the skill names, and its handler; without those that run when a tool
/// is called.
pub(super) fn scripts(runtimes: &Runtimes, skill: &Skill) -> Result<Vec<String>> {
    let mut found = plain_scripts(skill)?;
    found.extend(scripts_named_in_text(runtimes, skill)?);
    if let Ok(Some(SelectedScript { path, .. })) = handler_script(skill, None)
        && !found.contains(&path)
    {
        found.push(path);
    }
    Ok(found)
}

/// The scripts outside of `scripts/` that the text of the skill names.
fn scripts_named_in_text(runtimes: &Runtimes, skill: &Skill) -> Result<Vec<String>> {
    let is_script = |path: &String| {
        !path.starts_with("scripts/")
            && !skill.contract().is_some_and(|contract| contract.is_tool_script(path))
            && runtimes::looks_like_script(runtimes, path, || {
                skill.folder().read(path, Limits::MAX_READ_SIZE).ok()
            })
    };
    let files = skill.folder().files()?;
    let text = skill.body()?;
    Ok(named_in_text(skill.name(), &text, &files)
        .into_iter()
        .filter(|path| is_script(path))
        .cloned()
        .collect())
}

/// The path of a named script, relative to the skill's folder; `./scripts/x.py`, `x.py` and `x` all find `scripts/x.py`.
fn named_script_path(runtimes: &Runtimes, skill: &Skill, path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let files = skill.folder().files()?;
    let in_scripts = format!("scripts/{path}");
    for candidate in [path, &in_scripts] {
        if files.iter().any(|file| file == candidate) {
            return Ok(candidate.to_owned());
        }
    }
    let has_this_stem = |file: &&String| {
        file.strip_prefix("scripts/").is_some_and(|name| !name.contains('/'))
            && script_stem(file) == path.strip_prefix("scripts/").unwrap_or(path)
            && runtimes::looks_like_script(runtimes, file, || None)
    };
    let fitting: Vec<&String> = files.iter().filter(has_this_stem).collect();
    if let [only] = fitting.as_slice() {
        return Ok((*only).clone());
    }
    if !fitting.is_empty() {
        return Err(several_scripts_error(skill.name(), &fitting));
    }
    let error =
        SkillError::new(ErrorKind::UnknownSkill, format!("skill {} has no script {path}", skill.name()));
    let is_link = |path: &str| {
        let folder = skill.folder().disk_path();
        folder
            .is_some_and(|folder| folder.join(path).symlink_metadata().is_ok_and(|found| found.is_symlink()))
    };
    if is_link(path) || is_link(&in_scripts) {
        return Err(error.with_help("what is there is a link out of the skill's folder, which is not followed; put the file in its place"));
    }
    let (scripts, entrypoints) = (skill.scripts()?, entrypoint_names(skill));
    Err(match (scripts.is_empty(), entrypoints.is_empty()) {
        (true, true) => error,
        (false, true) => error.with_help(format!("its scripts are {}", scripts.join(", "))),
        (_, false) => error.with_help(format!("its entrypoints are {}", entrypoints.join(", "))),
    })
}

fn entrypoint_names(skill: &Skill) -> Vec<&str> {
    let named = skill.contract().map_or(&[][..], |contract| &contract.entrypoints);
    named.iter().map(|(name, _)| name.as_str()).collect()
}

fn infer_script(
    runtimes: &Runtimes,
    skill: &str,
    scripts: &[String],
    declared: Option<RuntimeId>,
    source: impl Fn(&str, u64) -> Option<Vec<u8>>,
) -> Result<String> {
    let fits = |path: &&String| match declared {
        Some(runtime) if runtime != RuntimeId::EXTERNAL && runtimes.for_path(path) != runtime => false,
        Some(runtime) if runtime != RuntimeId::EXTERNAL && !is_plugin_manifest(path) => true,
        _ => runtimes::looks_like_script(runtimes, path, || source(path, Limits::MAX_READ_SIZE)),
    };
    let mut runnable: Vec<&String> = scripts.iter().filter(fits).collect();
    // The modules beside a manifest are those that it names.
    if runnable.iter().any(|path| is_plugin_manifest(path)) {
        runnable.retain(|path| is_plugin_manifest(path) || runtimes.for_path(path) != RuntimeId::WASM);
    }
    let mains: Vec<&&String> = runnable.iter().filter(|path| script_stem(path) == "main").collect();
    if let [only] = mains.as_slice() {
        return Ok((**only).clone());
    }
    match startable_scripts(&runnable, |path| source(path, MAX_COMPARED_BYTES)).as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(no_script_error(skill, declared, scripts)),
        several => Err(several_scripts_error(skill, several)),
    }
}

fn several_scripts_error(skill: &str, scripts: &[&String]) -> SkillError {
    let listed: Vec<&str> = scripts.iter().map(|path| path.as_str()).collect();
    let sentence = format!("skill {skill} has several scripts: {}", listed.join(", "));
    SkillError::new(ErrorKind::Usage, sentence).with_help("name one of them").with_hint(Hint::Script)
}

fn no_script_error(skill: &str, declared: Option<RuntimeId>, scripts: &[String]) -> SkillError {
    match declared {
        Some(RuntimeId::TOOL_SEQUENCE) => {
            let sentence = format!("skill {skill} says runtime: tool-sequence, but has no steps");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(
                    "write them under `steps` in skill.yaml, in scripts/sequence.json, or as a numbered list in SKILL.md",
                )
        }
        Some(runtime) if !scripts.is_empty() => {
            let sentence =
                format!("skill {skill} says runtime: {runtime}, but has no such script in scripts/");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("it has {}", scripts.join(", ")))
        }
        _ => SkillError::new(ErrorKind::Unavailable, format!("skill {skill} has no script to run"))
            .with_help("it holds instructions for a model to read")
            .with_hint(Hint::ShowSkill(skill.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(scripts: &[&str], declared: Option<RuntimeId>) -> Result<String> {
        let scripts: Vec<String> = scripts.iter().map(|&path| path.to_owned()).collect();
        infer_script(&Runtimes::built_in(), "x", &scripts, declared, |_, _| Some(b"#!/bin/sh".to_vec()))
    }

    #[test]
    fn main_wins_and_a_single_script_needs_no_name() {
        assert_eq!(chosen(&["scripts/count.lua", "scripts/README.md"], None).unwrap(), "scripts/count.lua");
        assert_eq!(chosen(&["scripts/run"], None).unwrap(), "scripts/run", "told by its shebang");
        assert_eq!(chosen(&["scripts/lib.py", "scripts/main.py"], None).unwrap(), "scripts/main.py");
        assert_eq!(
            chosen(&["scripts/a.py", "scripts/b.lua"], Some(RuntimeId::LUA)).unwrap(),
            "scripts/b.lua"
        );
    }

    #[test]
    fn a_manifest_of_a_plug_in_stands_for_the_modules_beside_it() {
        let chosen = |declared, manifest: &'static [u8]| {
            let scripts = ["scripts/main.wasm", "scripts/plugin.json"].map(str::to_owned);
            infer_script(&Runtimes::built_in(), "x", &scripts, declared, |_, _| Some(manifest.to_vec()))
                .unwrap()
        };
        for declared in [None, Some(RuntimeId::WASM)] {
            assert_eq!(chosen(declared, br#"{"wasm": []}"#), "scripts/plugin.json");
            for other in [&b"{}"[..], br#"{"wasm": 1}"#, b"[]", b"{\"wasm\": [", b"\xff"] {
                assert_eq!(chosen(declared, other), "scripts/main.wasm");
            }
        }
    }

    #[test]
    fn a_runtime_brings_its_own_memory_limit_where_none_was_named() {
        let selected = |runtime| SelectedScript::new("scripts/main".to_owned(), runtime);
        let settled = |runtime, limits| selected(runtime).with_runtime_defaults(limits).memory;
        assert_eq!(settled(RuntimeId::LUA, Limits::default()), Some(64 << 20));
        assert_eq!(settled(RuntimeId::EXTERNAL, Limits::default()), Some(2 << 30));
        assert_eq!(settled(RuntimeId::EXTERNAL, Limits::default().memory(5)), Some(5));
    }

    #[test]
    fn several_scripts_are_listed_and_none_is_told() {
        let error = chosen(&["scripts/a.py", "scripts/b.sh"], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().ends_with("scripts/a.py, scripts/b.sh"), "{error}");
        assert_eq!(chosen(&["scripts/data.json"], None).unwrap_err().kind(), ErrorKind::Unavailable);
        let error = chosen(&[], Some(RuntimeId::TOOL_SEQUENCE)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::InvalidSkill, "skill x says runtime: tool-sequence, but has no steps")
        );
        let error = chosen(&["scripts/a.py"], Some(RuntimeId::LUA)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    }
}
