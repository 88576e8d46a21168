//! The description of a runtime: its name, its files, the limits that it enforces, and its loader.

use super::services::RuntimeServices;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{RuntimeId, Script, SkillExecutor};
use metier_core::policy::{CancelToken, RuntimeLimit};

/// Compiles a script once; the executor runs it many times. The token is that of the first run that needs it, so that a slow
/// load is stopped with that run: at its deadline or when it is cancelled.
pub(crate) type LoadFn = fn(&Script, &RuntimeServices, &CancelToken) -> Result<Box<dyn SkillExecutor>>;

/// The same, by an embedder.
pub(crate) type CustomLoader = dyn Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync;

/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 64;

/// A runtime that a program adds to its engine; see
/// [`EngineBuilder::runtime_with`](crate::engine::EngineBuilder::runtime_with).
///
/// ```
/// use metier::engine::{Engine, Invocation, Runtime};
/// use metier::error::Result;
/// use metier::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
/// use metier::host::SkillContext;
/// use metier::policy::RuntimeLimit;
///
/// /// A language whose scripts are the text that they return.
/// struct Text(String);
///
/// impl SkillExecutor for Text {
///     fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
///         Ok(serde_json::Value::from(self.0.clone()).into())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let load = |script: &Script| -> Result<Box<dyn SkillExecutor>> {
///     Ok(Box::new(Text(String::from_utf8_lossy(&script.source).into_owned())))
/// };
/// let runtime = Runtime::new("text", load).extensions(&["text"]).enforces(&[RuntimeLimit::Memory]);
/// let engine = Engine::builder(".").runtime_with(runtime).build()?;
/// assert_eq!(engine.runtimes().for_path("scripts/main.text").name(), "text");
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    id: RuntimeId,
    extensions: Vec<&'static str>,
    file_names: &'static [&'static str],
    /// The Cargo feature that enables it; `None` if it is always built in.
    feature: Option<&'static str>,
    /// Whether the build lacks it only because the program aborts at a panic.
    needs_unwinding: bool,
    limits: Option<&'static [RuntimeLimit]>,
    /// Who switched it off.
    disabled_by: Option<String>,
    loader: Loader,
}

enum Loader {
    /// Of this version of metier; `None` where the build lacks it.
    BuiltIn(Option<LoadFn>),
    Custom(Box<CustomLoader>),
}

impl Runtime {
    /// A runtime with this name and loader. The name has 1 to 64 lowercase letters, digits and hyphens; that of a built-in
    /// runtime replaces its loader.
    ///
    /// The loader compiles a script, once for all its runs; the executor runs it. A panic in either ends the run and nothing
    /// else. A loader is not told when the run is stopped: it should take no longer than a run may.
    pub fn new(
        name: impl Into<RuntimeId>,
        load: impl Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync + 'static,
    ) -> Self {
        Self::with_loader(name.into(), Loader::Custom(Box::new(load)))
    }

    pub(super) fn built_in(id: RuntimeId, load: Option<LoadFn>) -> Self {
        Self::with_loader(id, Loader::BuiltIn(load))
    }

    fn with_loader(id: RuntimeId, loader: Loader) -> Self {
        Self {
            id,
            extensions: Vec::new(),
            file_names: &[],
            feature: None,
            needs_unwinding: false,
            limits: None,
            disabled_by: None,
            loader,
        }
    }

    /// The extensions of its files, without a dot; upper and lower case make no difference. Those of interpreters, such as `py`,
    /// can be taken; those of another runtime cannot. A built-in runtime keeps its own besides.
    pub fn extensions(mut self, extensions: &[&'static str]) -> Self {
        self.extensions.extend(extensions);
        self
    }

    /// The limits that its executors enforce, besides the deadline, the output cap, and the size of files that the host writes.
    /// A limit that is not listed is removed from the context of a run, and reported as not applied where the caller set it.
    ///
    /// If it is not called, a new runtime enforces no more, and the executors of a replaced loader enforce what those of the
    /// built-in one do.
    pub fn enforces(mut self, limits: &'static [RuntimeLimit]) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The names of its files, where they have no extension of their own.
    pub(super) fn file_names(mut self, names: &'static [&'static str]) -> Self {
        self.file_names = names;
        self
    }

    /// The Cargo feature that enables it.
    pub(super) fn feature(mut self, feature: &'static str) -> Self {
        self.feature = Some(feature);
        self
    }

    /// Whether it is in this build, but stops scripts in a way that a program which aborts at a panic does not survive.
    pub(super) fn needs_unwinding(mut self, is_built_in: bool) -> Self {
        self.needs_unwinding = is_built_in && cfg!(panic = "abort");
        self
    }

    /// Its name.
    pub fn id(&self) -> RuntimeId {
        self.id
    }

    /// The extensions of its files.
    pub fn file_extensions(&self) -> &[&'static str] {
        &self.extensions
    }

    /// Switches it off.
    pub(super) fn disable(&mut self, origin: &str) {
        self.disabled_by.get_or_insert_with(|| origin.to_owned());
    }

    /// `unavailable` if it is switched off.
    pub(super) fn check_enabled(&self) -> Result<()> {
        let Some(origin) = &self.disabled_by else { return Ok(()) };
        Err(SkillError::new(
            ErrorKind::Unavailable,
            format!("the runtime {} is switched off by {origin}", self.id),
        )
        .with_help("switch it on there"))
    }

    /// Whether this build, or this program, can run its scripts; otherwise `unavailable`, with the Cargo feature that adds it.
    pub fn check_available(&self) -> Result<()> {
        self.check_enabled()?;
        match self.loader {
            Loader::Custom(_) => Ok(()),
            Loader::BuiltIn(_) => self.built_in_loader().map(drop),
        }
    }

    /// Whether runs of its scripts enforce this limit.
    pub(crate) fn has_limit(&self, limit: RuntimeLimit) -> bool {
        // What a script writes through the host is limited by the host, whatever runs the script.
        (limit == RuntimeLimit::FileSize && self.id != RuntimeId::EXTERNAL)
            || self.limits.is_some_and(|limits| limits.contains(&limit))
    }

    /// The loader of the embedder, if one loads its scripts.
    pub(crate) fn custom_loader(&self) -> Option<&CustomLoader> {
        match &self.loader {
            Loader::Custom(load) => Some(&**load),
            Loader::BuiltIn(_) => None,
        }
    }

    /// The loader of metier; `unavailable`, naming the Cargo feature, if this build does not have it.
    pub(crate) fn built_in_loader(&self) -> Result<LoadFn> {
        if let Loader::BuiltIn(Some(load)) = self.loader {
            return Ok(load);
        }
        let id = self.id;
        let error = SkillError::new(ErrorKind::Unavailable, format!("this build cannot run {id} scripts"));
        Err(match self.feature {
            _ if self.needs_unwinding => error.with_help("build the program with panic = \"unwind\""),
            Some(feature) => error.with_help(format!("build metier with the Cargo feature `{feature}`")),
            None => error.with_help(format!("this version of metier has no {id} runtime")),
        })
    }

    /// Whether a file of this name is one of its files by name.
    pub(super) fn has_file_name(&self, name: &str) -> bool {
        self.file_names.contains(&name)
    }

    /// Whether files with this extension are its files.
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.extensions.iter().any(|known| known.eq_ignore_ascii_case(extension))
    }

    /// Fails if a name or an extension is malformed.
    pub(super) fn check_words(&self) -> Result<()> {
        let name = self.id.name();
        let is_name_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_name_char) {
            let sentence = format!("failed to register the runtime {name:?}: no runtime can have this name");
            let help =
                format!("use 1 to {MAX_NAME_CHARS} lowercase letters, digits and hyphens, such as `calc`");
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
        }
        let is_extension = |extension: &&&str| {
            !extension.is_empty() && extension.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c))
        };
        match self.extensions.iter().find(|extension| !is_extension(extension)) {
            None => Ok(()),
            Some(extension) => {
                let sentence = format!(
                    "failed to register the runtime {name}: {extension:?} is not the extension of a file"
                );
                Err(SkillError::new(ErrorKind::Usage, sentence)
                    .with_help("write what follows the last dot of the file's name, such as `calc`"))
            }
        }
    }

    /// This runtime in place of the built-in one of the same name.
    pub(super) fn in_place_of(self, built_in: &Self) -> Self {
        let mut extensions = built_in.extensions.clone();
        extensions.extend(self.extensions.iter().filter(|extension| !built_in.has_extension(extension)));
        Self { extensions, file_names: built_in.file_names, limits: self.limits.or(built_in.limits), ..self }
    }
}
