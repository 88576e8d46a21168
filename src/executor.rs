//! The executor trait: a loaded script, compiled once and run many times.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::SkillContext;
use crate::policy::Permission;
use crate::suggestion::{closest, did_you_mean};

/// Runs one script. Implementations keep no state from one run to the next.
///
/// A program can bring a language of its own by this trait; here one whose scripts are repeated back:
///
/// ```
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
///         Ok(SkillOutput { value: self.0.clone().into() })
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

/// The kinds of runtime. The engine knows which of them this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkillRuntime {
    /// Luau, in process.
    Lua,
    /// Rhai, in process.
    Rhai,
    /// A WebAssembly plug-in, in process.
    Wasm,
    /// A declared sequence of calls.
    ToolSequence,
    /// A script run by its interpreter, as a process.
    External,
}

/// Runtime, name, file extensions that identify it.
const RUNTIMES: [(SkillRuntime, &str, &[&str]); 5] = [
    (SkillRuntime::Lua, "lua", &["lua", "luau"]),
    (SkillRuntime::Rhai, "rhai", &["rhai"]),
    (SkillRuntime::Wasm, "wasm", &["wasm", "wat"]),
    (SkillRuntime::ToolSequence, "tool-sequence", &[]),
    (SkillRuntime::External, "external", &[]),
];

impl SkillRuntime {
    /// All runtimes.
    pub fn all() -> impl Iterator<Item = Self> {
        RUNTIMES.into_iter().map(|(runtime, ..)| runtime)
    }

    /// The name in `runtime:` and in JSON.
    pub fn name(self) -> &'static str {
        RUNTIMES[self as usize].1
    }

    /// Whether a file has the name of an Extism manifest, which names the modules of a plug-in.
    pub(crate) fn is_plugin_manifest(path: &str) -> bool {
        path.rsplit('/').next() == Some("plugin.json")
    }

    /// The runtime of a script by its file name: `sequence.json` is a sequence, `plugin.json` a plug-in, an unknown extension
    /// is external.
    #[doc(hidden)]
    pub fn from_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let known = |(_, _, endings): &&(_, _, &[&str])| {
            endings.iter().any(|known| Some(*known) == ending.as_deref())
        };
        match RUNTIMES.iter().find(known) {
            Some((runtime, ..)) => *runtime,
            None if name == "sequence.json" => Self::ToolSequence,
            None if Self::is_plugin_manifest(path) => Self::Wasm,
            None => Self::External,
        }
    }

    /// The runtime of a script in a skill that may name a runtime. A script that is not the skill's main one may be in another
    /// language, if its extension identifies one.
    #[doc(hidden)]
    pub fn for_script(path: &str, declared: Option<Self>, is_main: bool) -> Self {
        let by_extension = Self::from_path(path);
        declared.filter(|_| is_main || by_extension == Self::External).unwrap_or(by_extension)
    }

    /// The runtime of the script's language by its extension, if the script cannot be in this runtime's language. A process may
    /// use any.
    #[doc(hidden)]
    pub fn conflicting_runtime(self, path: &str) -> Option<Self> {
        let by_extension = Self::from_path(path);
        (by_extension != self && ![self, by_extension].contains(&Self::External)).then_some(by_extension)
    }
}

impl FromStr for SkillRuntime {
    type Err = SkillError;

    fn from_str(name: &str) -> Result<Self> {
        RUNTIMES.into_iter().find(|(_, known, _)| *known == name).map(|(runtime, ..)| runtime).ok_or_else(
            || {
                let known = RUNTIMES.map(|(_, known, _)| known).join(", ");
                let help = closest(name, RUNTIMES.map(|(_, known, _)| known))
                    .map_or_else(|| format!("the runtimes are {known}"), did_you_mean);
                SkillError::new(ErrorKind::InvalidSkill, format!("no runtime is called `{name}`"))
                    .with_help(help)
            },
        )
    }
}

impl fmt::Display for SkillRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for SkillRuntime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A script in the form that its runtime loads.
#[derive(Clone, Debug)]
pub struct Script {
    /// The skill it belongs to.
    pub skill: String,
    /// Its path inside the skill's folder, `/`-separated: the name used in errors.
    pub path: String,
    /// The skill's folder, absolute, if it is on disk.
    pub folder: Option<PathBuf>,
    /// The content to run.
    pub source: Arc<[u8]>,
    /// The function to call, if the contract names one.
    pub function: Option<String>,
}

/// The input and arguments of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillInput {
    /// The input, as JSON; absent if the caller passed none.
    pub value: Option<Value>,
    /// Arguments after the script's name, for external scripts; in-process scripts do not see them.
    pub args: Vec<String>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillOutput {
    /// The value, as JSON.
    pub value: Value,
}

impl SkillInput {
    /// The value that in-process scripts see: `{}` if the caller passed none.
    pub fn value_or_empty(self) -> Value {
        self.value.unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    }
}

impl From<Value> for SkillInput {
    fn from(value: Value) -> Self {
        Self { value: Some(value), args: Vec::new() }
    }
}

impl From<Value> for SkillOutput {
    fn from(value: Value) -> Self {
        Self { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_told_by_the_ending_of_the_file() {
        for (path, runtime) in [
            ("scripts/main.lua", SkillRuntime::Lua),
            ("scripts/Main.LUAU", SkillRuntime::Lua),
            ("scripts/a.b.rhai", SkillRuntime::Rhai),
            ("scripts/sequence.json", SkillRuntime::ToolSequence),
            ("scripts/plugin.json", SkillRuntime::Wasm),
            ("scripts/other.json", SkillRuntime::External),
            ("scripts/run", SkillRuntime::External),
            ("scripts.lua/run.py", SkillRuntime::External),
        ] {
            assert_eq!(SkillRuntime::from_path(path), runtime, "{path}");
        }
        assert_eq!(SkillRuntime::Rhai.conflicting_runtime("scripts/main.lua"), Some(SkillRuntime::Lua));
        assert_eq!(SkillRuntime::Lua.conflicting_runtime("main.luau"), None);
        assert_eq!(
            SkillRuntime::External.conflicting_runtime("main.lua"),
            None,
            "an interpreter may be installed"
        );
        assert_eq!(
            SkillRuntime::Lua.conflicting_runtime("scripts/main.txt"),
            None,
            "an ending nobody knows tells nothing"
        );
        for runtime in SkillRuntime::all() {
            assert_eq!(runtime.name().parse::<SkillRuntime>().unwrap(), runtime);
        }
    }
}
