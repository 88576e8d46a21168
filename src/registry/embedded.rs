//! Skills whose files are part of the program: those of metier, and those of a program that embeds it.

use super::root::Scope;

/// A skill whose files are part of the program.
///
/// ```
/// use metier::engine::{Engine, Invocation};
/// use metier::registry::{EmbeddedSkill, Roots};
///
/// static SKILLS: &[EmbeddedSkill] = &[EmbeddedSkill::new(
///     "greet",
///     &[
///         ("SKILL.md", b"---\nname: greet\ndescription: Greets.\n---\n"),
///         ("scripts/main.lua", b"return 'hello'"), // or include_bytes!(..)
///     ],
/// )];
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".").roots(Roots::empty().with_embedded("acme", SKILLS)).build()?;
/// let outcome = engine.run(Invocation::new("greet"));
/// # if metier::supports(metier::executor::RuntimeId::LUA).is_ok() {
/// assert_eq!(outcome.result?, "hello");
/// # }
/// assert_eq!(engine.registry().find("greet")?.qualified_name(), "embedded/acme:greet@0.0.0");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct EmbeddedSkill {
    name: &'static str,
    /// That of its `SKILL.md`, where it is known before the file is read.
    version: Option<&'static str>,
    files: &'static [(&'static str, &'static [u8])],
}

impl EmbeddedSkill {
    /// A skill with the name of its folder and its files: paths below that folder, `/`-separated, and bytes.
    pub const fn new(name: &'static str, files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self { name, version: None, files }
    }

    /// The same with the version that its `SKILL.md` names, which is then read only where it is needed.
    pub(super) const fn with_version(self, version: &'static str) -> Self {
        Self { name: self.name, version: Some(version), files: self.files }
    }

    pub(super) const fn version(&self) -> Option<&'static str> {
        self.version
    }

    /// The name of its folder.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its files, by their paths below the folder.
    pub const fn files(&self) -> &'static [(&'static str, &'static [u8])] {
        self.files
    }

    /// The bytes of a file, where there is one at that path.
    pub fn file(&self, path: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(known, _)| *known == path).map(|(_, bytes)| *bytes)
    }
}

/// Skills of the program that share a scope and a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmbeddedRoot {
    /// `embedded`, or `builtin` for those of metier.
    pub scope: Scope,
    /// The label in qualified names.
    pub label: String,
    /// The skills.
    pub skills: &'static [EmbeddedSkill],
}
