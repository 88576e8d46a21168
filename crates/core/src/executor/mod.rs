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
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::host::SkillContext;
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

/// The runtimes whose scripts can run in worker processes.
pub const RUNTIMES_WITH_WORKERS: [RuntimeId; 3] = [RuntimeId::LUA, RuntimeId::RHAI, RuntimeId::WASM];

/// Whether scripts of this runtime can be entered at a function: those of others run from their first line.
pub fn enters_functions(runtime: RuntimeId) -> bool {
    [RuntimeId::LUA, RuntimeId::RHAI, RuntimeId::WASM].contains(&runtime)
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

/// In the extensions of a watched run: its sandbox observes what it wants to access, and what was refused is reported.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct WatchedAccess;

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
    entry: ScriptEntry,
}

/// How a script is entered, as the skill and not the script says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptEntry {
    /// How its handler is called, if it is a module that exports one.
    pub handler: Option<HandlerCall>,
    /// The tool of the skill that is called, if one is.
    pub tool: Option<ScriptTool>,
    /// The system for which it was written.
    pub dialect: ScriptDialect,
}

impl ScriptEntry {
    /// That of a script.
    pub fn from_script(script: &Script) -> &Self {
        &script.entry
    }

    /// Enters the script this way from now on.
    pub fn set(self, script: &mut Script) {
        script.entry = self;
    }
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
            entry: ScriptEntry::default(),
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
    number: Option<Value>,
}

/// The number that an output also is, if a process wrote it without quotes and in a form that JSON would change, such as `1.10`.
pub fn printed_number(output: &SkillOutput) -> Option<&Value> {
    output.number.as_ref()
}

/// The output of a process, with the number that it also is.
pub fn process_output(value: Value, number: Option<Value>) -> SkillOutput {
    SkillOutput { value, number }
}

impl SkillInput {
    /// The value that in-process scripts see: `{}` if the caller passed none.
    pub fn value_or_empty(self) -> Value {
        self.value.unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    }

    /// An input, if there is one, and arguments.
    pub fn new(value: Option<Value>, args: Vec<String>) -> Self {
        Self { value, args, text: None }
    }
}

/// The same input with the text in which it was written, on one line.
pub fn with_input_text(input: SkillInput, text: Option<Box<str>>) -> SkillInput {
    SkillInput { text, ..input }
}

/// An input as one line of JSON: as it was written, if that is known.
pub fn input_text(input: &SkillInput) -> Option<String> {
    let value = input.value.as_ref()?;
    Some(input.text.as_ref().map_or_else(|| value.to_string(), ToString::to_string))
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
