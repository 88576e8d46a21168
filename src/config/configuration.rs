//! The configuration: plain values with their origins, which a program builds by hand or reads from files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::key_path::{KeyPath, PathMatch};
use super::limit_caps::LimitCaps;
use super::origin::ValueOrigin;
use super::unknown_key;
use super::value::ConfigValue;
use crate::registry::{Root, Roots, Scope};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::{ExecutionMode, Limits, Permission, SandboxLevel, SandboxMode};

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// The value.
    pub value: ConfigValue,
    /// Where it comes from.
    pub origin: ValueOrigin,
}

/// Values for the keys of the [table](super::KEYS). A program that embeds metier builds one and passes it to
/// [`EngineBuilder::configuration`](crate::engine::EngineBuilder::configuration); nothing is read from the disk or the
/// environment unless the program does so.
///
/// ```
/// use metier::config::Configuration;
/// use metier::engine::Engine;
/// use serde_json::json;
///
/// # fn main() -> metier::error::Result<()> {
/// let configuration = Configuration::new()
///     .with("limits.timeout", "5s")?
///     .with("permissions.deny", json!(["net"]))?
///     .with("skills.word-count.config.language", "en")?;
/// let engine = Engine::builder(".").configuration(configuration).build()?;
/// # let _ = engine;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The values of each key, the strongest origin first.
    settings: BTreeMap<KeyPath, Vec<Setting>>,
}

impl Configuration {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, written as in a file: `"5s"`, `true`, `["net"]`. The words of the key are separated by dots; what follows the
    /// third dot of `skills.NAME.config.ENTRY` is one word. `usage` for an unknown key and a value that it cannot have.
    pub fn with(self, key: &str, value: impl Into<Value>) -> Result<Self> {
        self.with_origin(key, value, ValueOrigin::Program)
    }

    /// The same with an origin of the caller's choice.
    pub fn with_origin(mut self, key: &str, value: impl Into<Value>, origin: ValueOrigin) -> Result<Self> {
        let words: Vec<&str> = key.splitn(4, '.').collect();
        let path = match KeyPath::find(&words) {
            PathMatch::Key(path) => path,
            PathMatch::Section => {
                return Err(SkillError::new(ErrorKind::Usage, format!("`{key}` is a section and no key"))
                    .with_help("name one of its keys"));
            }
            PathMatch::Unknown { at, known } => {
                let error =
                    SkillError::new(ErrorKind::Usage, format!("the configuration has no key `{key}`"));
                return Err(match unknown_key::suggestion(&words, at, &known) {
                    Some(help) => error.with_help(help),
                    None => error.with_help("docs/configuration.md lists the keys"),
                });
            }
        };
        let invalid =
            |reason| SkillError::new(ErrorKind::Usage, format!("invalid value of `{key}`: {reason}"));
        let value = path.key().value_type.parse(&value.into()).map_err(invalid)?;
        self.add(path, Setting { value, origin });
        Ok(self)
    }

    /// Adds a value, in place of one of the same origin.
    pub(super) fn add(&mut self, path: KeyPath, setting: Setting) {
        let values = self.settings.entry(path).or_default();
        values.retain(|known| known.origin.rank() != setting.origin.rank());
        values.push(setting);
        values.sort_by_key(|known| std::cmp::Reverse(known.origin.rank()));
    }

    /// All values of another configuration besides these.
    pub fn merged_with(mut self, other: Self) -> Self {
        for (path, values) in other.settings {
            for setting in values {
                self.add(path.clone(), setting);
            }
        }
        self
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The keys that have values, and these, the strongest first. For lists of switched-off runtimes and denied permissions all
    /// values count, for other keys the first.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyPath, &[Setting])> {
        self.settings.iter().map(|(path, values)| (path, values.as_slice()))
    }

    /// The skills that it has values for.
    pub fn skills(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        // Keys of one skill are not neighbours, for the rows of the table come first in the order.
        let mut names: Vec<&str> = self.settings.keys().filter_map(KeyPath::skill).collect();
        names.sort_unstable();
        names.into_iter().filter(move |name| last.replace(*name) != Some(*name))
    }

    pub(super) fn values(&self, path: Option<&KeyPath>) -> &[Setting] {
        path.and_then(|path| self.settings.get(path)).map_or(&[], Vec::as_slice)
    }

    /// The value that counts for a key without names in it.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.values(KeyPath::plain(name).as_ref()).first()
    }

    /// The product whose skills are read.
    pub fn product(&self) -> &str {
        self.get("product").and_then(|setting| setting.value.as_text()).unwrap_or("metier")
    }

    /// Whether `.sweny/skills`, `.claude/skills` and `.gemini/skills` are read too.
    pub fn compat(&self) -> bool {
        self.flag("compat")
    }

    /// Whether answers are printed as JSON.
    pub fn json(&self) -> bool {
        self.flag("json")
    }

    /// Whether nothing is asked, also on a terminal.
    pub fn no_input(&self) -> bool {
        self.flag("no_input")
    }

    /// Whether remembered grants apply.
    pub fn uses_remembered_grants(&self) -> bool {
        self.get("trust.remembered").and_then(|setting| setting.value.as_flag()).unwrap_or(true)
    }

    /// Whether skills of the project run only as its lock file has them. An engine with a trust store holds that for what models may
    /// see and run; for the runs that a person starts, the program compares them.
    pub fn locked(&self) -> bool {
        self.flag("trust.locked")
    }

    /// Whether the engine writes the audit log of the user.
    pub fn audits(&self) -> bool {
        self.flag("audit.enabled") || self.requires_audit()
    }

    /// Whether nothing runs that the audit log does not record.
    pub fn requires_audit(&self) -> bool {
        self.flag("audit.required")
    }

    /// Whether runs of skills that write can be undone.
    pub fn is_undoable(&self) -> bool {
        self.flag("undo")
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(|setting| setting.value.as_flag()).unwrap_or_default()
    }

    /// The values that hold runs back, without those that give something to a skill: settings, secrets, grants and its script.
    pub(crate) fn restrictions(&self) -> Self {
        let gives = |path: &KeyPath| {
            let own = path.key().name.strip_prefix("skills.NAME.").unwrap_or_default();
            matches!(own, "config.ENTRY" | "secrets.ENTRY" | "grants" | "script")
        };
        let settings = self.settings.iter().filter(|(path, _)| !gives(path));
        Self { settings: settings.map(|(path, values)| (path.clone(), values.clone())).collect() }
    }

    /// Further folders of skills.
    pub fn root_folders(&self) -> &[PathBuf] {
        match self.get("roots") {
            Some(Setting { value: ConfigValue::Folders(folders), .. }) => folders,
            _ => &[],
        }
    }

    /// Where skills are looked for: the standard roots of the product for each folder of an engine, and the further folders.
    pub fn roots<P: AsRef<Path>>(&self, folders: &[P]) -> Roots {
        let mut folders = folders.iter().map(AsRef::as_ref);
        let first = folders.next().unwrap_or_else(|| Path::new("."));
        let standard = Roots::standard(self.product(), first);
        let roots = folders.fold(standard, |roots, folder| roots.with_project(self.product(), folder));
        let roots = if self.compat() { roots.with_compat() } else { roots };
        let label = |folder: &Path| {
            folder.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned())
        };
        let further = self.root_folders().iter();
        further.fold(roots, |roots, folder| roots.with(Root::new(Scope::Explicit, label(folder), folder)))
    }

    /// The limits of runs, without those that only the project's file names: these are upper bounds.
    pub fn limits(&self) -> Limits {
        self.limits_over(Limits::default())
    }

    /// The same, with these limits where the configuration sets none.
    pub(crate) fn limits_over(&self, mut limits: Limits) -> Limits {
        let value = |name: &str| self.own_value(name);
        let number = |name: &str| value(name).and_then(ConfigValue::as_number);
        let time = |name: &str| value(name).and_then(ConfigValue::as_duration);
        limits.timeout = time("limits.timeout").unwrap_or(limits.timeout);
        limits.memory = number("limits.memory").or(limits.memory);
        limits.cpu = time("limits.cpu").or(limits.cpu);
        limits.output = number("limits.output").unwrap_or(limits.output);
        limits.file_size = number("limits.file_size").or(limits.file_size);
        limits.state_size = number("limits.state_size").unwrap_or(limits.state_size);
        limits.open_files = number("limits.open_files").or(limits.open_files);
        limits.operations = number("limits.operations").or(limits.operations);
        let policy = value("limits.on_output").and_then(ConfigValue::as_text);
        limits.on_output = policy.and_then(|word| word.parse().ok()).unwrap_or(limits.on_output);
        limits
    }

    /// The value that counts without the project's file.
    fn own_value(&self, name: &str) -> Option<&ConfigValue> {
        let values = self.values(KeyPath::plain(name).as_ref());
        values.iter().find(|setting| !setting.origin.is_project()).map(|setting| &setting.value)
    }

    /// The upper bounds that the project's file sets for all runs, unless something stronger sets the limit.
    pub(super) fn project_caps(&self) -> LimitCaps {
        LimitCaps::from_values(|name| {
            let first = self.get(&format!("limits.{name}"))?;
            first.origin.is_project().then_some(&first.value)
        })
    }

    /// How strictly the sandbox of processes is required, and who says so.
    pub fn sandbox_mode(&self) -> SandboxMode {
        self.word("sandbox.mode").unwrap_or_default()
    }

    /// The strongest sandbox level to set up.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.word("sandbox.level").unwrap_or_default()
    }

    /// Where Lua, Rhai and WebAssembly run.
    pub fn execution_mode(&self) -> ExecutionMode {
        self.word("execution").unwrap_or_default()
    }

    /// The value of a key whose values are words.
    pub(crate) fn word<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.value.as_text()?.parse().ok()
    }

    /// How far models act on their own, from 0 to 100.
    pub fn autonomy(&self) -> Option<u8> {
        u8::try_from(self.get("autonomy")?.value.as_number()?).ok()
    }

    /// The maximum number of runs in progress at a time.
    pub fn max_runs(&self) -> Option<usize> {
        usize::try_from(self.get("max_runs")?.value.as_number()?).ok()
    }

    /// The runtimes that are switched off, and who does so.
    pub fn disabled_runtimes(&self) -> impl Iterator<Item = (&str, &ValueOrigin)> {
        let values = self.values(KeyPath::plain("runtimes.disabled").as_ref());
        values.iter().flat_map(|setting| {
            let names = if let ConfigValue::Names(names) = &setting.value { names.as_slice() } else { &[] };
            names.iter().map(|name| (name.as_str(), &setting.origin))
        })
    }

    /// The permissions that no run has.
    pub fn denied_permissions(&self) -> Vec<Permission> {
        let values = self.values(KeyPath::plain("permissions.deny").as_ref());
        values.iter().flat_map(|setting| setting.value.as_permissions()).cloned().collect()
    }
}
