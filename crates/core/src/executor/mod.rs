//! The executor trait: a loaded script, compiled once and run many times.

mod compiled_script;
pub mod idle_pool;
pub mod json_boundary;
pub mod own_context;
pub mod pool;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;

use crate::error::{Result, SkillError};
use crate::host::files::Delta;
use crate::host::{RunFiles, SkillContext};
use crate::policy::Permission;

pub use self::compiled_script::CompiledScript;

/// The file name of an Extism manifest.
pub const PLUGIN_MANIFEST: &str = "plugin.json";

/// Whether a file has the name of an Extism manifest, which names the modules of a plug-in.
pub fn is_plugin_manifest(path: &str) -> bool {
    path.rsplit('/').next() == Some(PLUGIN_MANIFEST)
}

/// Runs one script. Implementations keep no state from one run to the next.
///
/// A program can bring a language of its own by this trait; here one whose scripts are repeated back:
///
/// ```
/// # use metier_core as metier;
/// use metier::error::Result;
/// use metier::executor::{SkillExecutor, SkillInput, SkillOutput};
/// use metier::host::SkillContext;
///
/// struct Echo(String);
///
/// impl SkillExecutor for Echo {
///     fn execute_with_context(&self, _: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
///         if let Some(context) = context {
///             context.cancel().check()?;
///         }
///         Ok(serde_json::Value::from(self.0.clone()).into())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let output = Echo("hello".to_owned()).execute(SkillInput::default())?;
/// assert_eq!(output.value, "hello");
/// # Ok(())
/// # }
/// ```
pub trait SkillExecutor: Send + Sync {
    /// Runs as pure computation: default limits, no grants, no files.
    fn execute(&self, input: SkillInput) -> Result<SkillOutput> {
        self.execute_with_context(input, None)
    }

    /// Runs with a context: the project's files, permissions, limits and the token that stops the run.
    ///
    /// Returns soon after the context's token stops, with the error of its cause.
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput>;

    /// Permissions that the script itself requests, besides those its skill lists. As any requested permission, they need a
    /// grant.
    fn requested_permissions(&self) -> Vec<Permission> {
        Vec::new()
    }
}

/// The name of a runtime, as in `runtime:` and in JSON. Whether there is such a runtime, a set of runtimes knows:
/// `Runtimes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuntimeId(&'static str);

impl RuntimeId {
    /// Luau.
    pub const LUA: Self = Self("lua");
    /// Rhai.
    pub const RHAI: Self = Self("rhai");
    /// A WebAssembly plug-in.
    pub const WASM: Self = Self("wasm");
    /// A declared sequence of calls.
    pub const TOOL_SEQUENCE: Self = Self("tool-sequence");
    /// A declared HTTP call of a tool.
    pub const HTTP_CALL: Self = Self("http-call");
    /// A script run by its interpreter, as a process.
    pub const EXTERNAL: Self = Self("external");

    /// The runtime of this name.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl RuntimeId {
    /// The runtimes whose scripts can run in worker processes.
    pub const WITH_WORKERS: [Self; 3] = [Self::LUA, Self::RHAI, Self::WASM];

    /// Whether its scripts can be entered at a function: those of others run from their first line.
    pub fn enters_functions(self) -> bool {
        [Self::LUA, Self::RHAI, Self::WASM].contains(&self)
    }
}

impl From<&'static str> for RuntimeId {
    fn from(name: &'static str) -> Self {
        Self(name)
    }
}

impl fmt::Display for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for RuntimeId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// The files that define a skill which has a folder of its own, absolute: what a run that may change the folder must not change.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct DefiningFiles(pub Vec<PathBuf>);

/// In the extensions of a run that a model chose, and of those that it calls: what a person approved for their own run is not
/// approved for it, and what is only for the person is not told.
pub struct ForModel;

/// In the extensions of a run that a model chose: the projects that are not trusted as a whole, canonical. Interpreters and packages come
/// from the skill and the system, not from these projects, where another script may have put them.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct WithoutProjectPackages(pub Arc<[PathBuf]>);

impl WithoutProjectPackages {
    /// The projects of which this run uses nothing.
    pub fn in_run(ctx: &SkillContext) -> &[PathBuf] {
        ctx.extensions().get::<Self>().map_or(&[], |Self(projects)| projects)
    }
}

/// In the extensions of a run of a program that serves several callers: which of them it is for. No process is kept for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOwner(pub usize);

/// Files and folders besides its own that a process may read: what a package manager needs. They are real paths.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct ReadablePaths(pub Vec<PathBuf>);

/// In the extensions of a watched run: its sandbox observes what it wants to access, and what was refused is reported.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct WatchedAccess;

/// In the extensions of a trial: a script is given random placeholders in the place of secrets that it reads and was not granted, so that it
/// goes on and its other needs are seen.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct PlaceholderVariables;

/// In the extensions of a run whose approver is asked about each host that a process tries to reach and nobody granted.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct HostQuestions;

/// In the extensions of a run whose project is an overlay of its own: files that do not exist, relative to the project, which its processes
/// may create there where it has the permission. What else they change in the folders around is not applied to the project.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct NewFiles {
    /// The files.
    pub paths: Vec<String>,
    /// How many skills have called one another to get to the run. Those that it calls have the same overlay and other permissions, and the
    /// folders are not open to them.
    pub depth: usize,
}

impl NewFiles {
    /// The files that the processes of this run may create.
    pub fn in_run(ctx: &SkillContext) -> &[String] {
        let own = ctx.extensions().get::<Self>().filter(|files| files.depth == ctx.depth());
        own.map_or(&[], |files| &files.paths)
    }
}

/// In the extensions of a run on a copy of the project, which a process without a sandbox could leave.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct ProjectCopy;

/// In the extensions of a run on a copy of the project that only the host functions know, and of those that it calls.
#[derive(Clone)]
#[cfg_attr(not(unix), allow(dead_code, reason = "there are no copies"))]
pub struct ProjectDelta {
    /// Where its changes go.
    pub delta: Arc<Delta>,
    /// Why no process has the copy: it would see the project itself.
    pub refusal: SkillError,
}

/// In the extensions of a run on a copy of the project whose changes are applied without a question when it has ended.
#[derive(Clone, Copy, Debug)]
pub struct AppliedCopy;

/// In the extensions of a run of a plan that has reviews: the plan runs in copies of the project until the last of them.
pub trait ChangeReviewer: Send + Sync {
    /// Shows a person what the steps so far have changed in the copy, with this text of the plan, and applies it if the person agrees. Returns
    /// the value of the step, and the files that later steps see.
    fn review(&self, ctx: &SkillContext, step: &str, text: &str) -> Result<(Value, RunFiles)>;

    /// Ends the copy of a plan that has ended; what no review has applied is lost, and the log says so.
    fn end(&self, ctx: &SkillContext);
}

/// In the extensions of a run of which its caller shows more than the outcome has, such as what it changed: takes out of a value what is taken out of
/// the outcome.
#[derive(Clone, Default)]
pub struct OutcomeFilter(Arc<OnceLock<ValueFilter>>);

type ValueFilter = Box<dyn Fn(Value) -> Value + Send + Sync>;

impl OutcomeFilter {
    /// Set once, when the script has ended.
    pub fn set(&self, filter: impl Fn(Value) -> Value + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(filter));
    }

    /// The value without secrets of the run; as it is if nothing has run.
    pub fn apply(&self, value: Value) -> Value {
        match self.0.get() {
            Some(filter) => filter(value),
            None => value,
        }
    }
}

/// In the extensions of a run that was to be undoable and is not: why.
#[derive(Clone, Debug)]
pub struct UndoGap(pub String);

/// The folders in which skills are looked for: a process that changes one makes skills.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct SkillRoots(pub Vec<PathBuf>);

/// Hosts that the user has configured: a process that may connect to them may do so wherever they are.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct ConfiguredHosts(pub Vec<String>);

/// A script in the form that its runtime loads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Script {
    /// The skill it belongs to.
    pub skill: String,
    /// Its path inside the skill's folder, `/`-separated: the name used in errors.
    pub path: String,
    /// The skill's folder, absolute, if it is on disk.
    pub folder: Option<PathBuf>,
    /// The content to run.
    pub source: Arc<[u8]>,
    /// The function to call, if the contract names one; in Lua and Rhai after the script has run once.
    pub function: Option<String>,
    /// How its handler is called, if it is a module that exports one.
    #[doc(hidden)]
    pub handler: Option<HandlerCall>,
    /// The tool of the skill that is called, if one is.
    #[doc(hidden)]
    pub tool: Option<ScriptTool>,
    /// The system for which it was written.
    #[doc(hidden)]
    pub dialect: ScriptDialect,
}

/// The tool for which a script is loaded: a plan is checked against its input, and not against that of the skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptTool {
    /// Its name in the skill.
    pub name: String,
    /// The schema of its input, if it has one.
    pub input_schema: Option<Value>,
}

/// The system for which a script was written, as the name of its runtime says: what it finds besides `ctx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptDialect {
    /// metier.
    #[default]
    Metier,
    /// Synwire: `args` and functions without `ctx` in Lua and Rhai, and text instead of JSON between a plug-in and the host.
    Synwire,
}

impl ScriptDialect {
    /// What stands before the names of runtimes of Synwire.
    pub const SYNWIRE_PREFIX: &str = "synwire-";

    /// That of scripts in the runtime of this name.
    pub fn from_runtime_name(name: &str) -> Self {
        if name.starts_with(Self::SYNWIRE_PREFIX) { Self::Synwire } else { Self::Metier }
    }
}

/// A script that is not a program but a module with a handler: what the program that calls the handler is told of the skill, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct HandlerCall {
    /// What the skill says of itself.
    pub description: String,
}

impl Script {
    /// A script of that skill, with its path inside the skill's folder and its content. It has no folder, and names no function.
    pub fn new(skill: impl Into<String>, path: impl Into<String>, source: impl Into<Arc<[u8]>>) -> Self {
        Self {
            skill: skill.into(),
            path: path.into(),
            folder: None,
            source: source.into(),
            function: None,
            handler: None,
            tool: None,
            dialect: ScriptDialect::default(),
        }
    }
}

/// The input and arguments of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SkillInput {
    /// The input, as JSON; absent if the caller passed none.
    pub value: Option<Value>,
    /// Arguments after the script's name, for external scripts; in-process scripts do not see them.
    pub args: Vec<String>,
    /// The input as it was written, on one line, if nothing has changed it.
    text: Option<Box<str>>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SkillOutput {
    /// The value, as JSON.
    pub value: Value,
    /// The number that it also is, if a process wrote it without quotes and in a form that JSON would change, such as `1.10`.
    #[doc(hidden)]
    pub number: Option<Value>,
}

impl SkillInput {
    /// The value that in-process scripts see: `{}` if the caller passed none.
    pub fn value_or_empty(self) -> Value {
        self.value.unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl SkillInput {
    /// An input, if there is one, and arguments.
    pub fn new(value: Option<Value>, args: Vec<String>) -> Self {
        Self { value, args, text: None }
    }

    /// With the input as it was written, on one line.
    pub fn text(mut self, text: Option<Box<str>>) -> Self {
        self.text = text;
        self
    }

    /// The input as one line of JSON: as it was written, if that is known.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes read it"))]
    pub fn json_text(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(self.text.as_ref().map_or_else(|| value.to_string(), ToString::to_string))
    }
}

impl From<Value> for SkillInput {
    fn from(value: Value) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
}

impl From<Value> for SkillOutput {
    fn from(value: Value) -> Self {
        Self { value, number: None }
    }
}
