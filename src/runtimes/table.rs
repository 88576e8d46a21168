//! The runtimes of an engine, and which of them runs a script.

use super::runtime::Runtime;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::executor::{RuntimeId, ScriptDialect};
use metier_core::suggestion::{closest, did_you_mean};

/// The runtimes that scripts of Synwire have.
const SYNWIRE_RUNTIMES: [RuntimeId; 3] = [RuntimeId::LUA, RuntimeId::RHAI, RuntimeId::WASM];

/// Languages of scripts that the runtime for processes runs.
const LANGUAGES_OF_EXTERNAL: [&str; 17] = [
    "python",
    "python3",
    "bash",
    "sh",
    "shell",
    "node",
    "nodejs",
    "javascript",
    "typescript",
    "deno",
    "bun",
    "perl",
    "ruby",
    "php",
    "zsh",
    "ksh",
    "fish",
];

/// Characters of a name that an error repeats.
const MAX_NAME_CHARS: usize = 100;

/// The runtimes of an engine: those of metier, built in or not, and those that the program registered.
#[derive(Default)]
pub struct Runtimes(Vec<Runtime>);

impl Runtimes {
    /// All of them, those of metier first.
    pub fn iter(&self) -> impl Iterator<Item = &Runtime> {
        self.0.iter()
    }

    /// Adds a runtime, or replaces the loader of a built-in one. `usage` if its name or an extension is malformed or taken.
    pub(crate) fn register(&mut self, runtime: Runtime) -> Result<()> {
        runtime.check_words()?;
        let id = runtime.id();
        let taken = |what: &str| {
            SkillError::new(ErrorKind::Usage, format!("failed to register the runtime {id}: {what}"))
        };
        for other in self.iter().filter(|other| other.id() != id) {
            if let Some(extension) = runtime.file_extensions().iter().find(|own| other.has_extension(own)) {
                let what = format!("files that end in .{extension} belong to the runtime {}", other.id());
                return Err(taken(&what).with_help("give it another extension"));
            }
        }
        match self.0.iter_mut().find(|other| other.id() == id) {
            None => self.0.push(runtime),
            Some(other) if other.custom_loader().is_some() => {
                return Err(taken("another one has its name").with_help("register each name once"));
            }
            Some(built_in) => *built_in = runtime.in_place_of(built_in),
        }
        Ok(())
    }

    /// Switches off the runtime of this name; the error is the help where there is none.
    pub(crate) fn disable(&mut self, name: &str, origin: &str) -> Result<()> {
        let id = self.find(name)?;
        self.0.iter_mut().filter(|runtime| runtime.id() == id).for_each(|runtime| runtime.disable(origin));
        Ok(())
    }

    /// The runtime of this name; `invalid-skill`, with the nearest name or all of them, if there is none. `synwire-lua`,
    /// `synwire-rhai` and `synwire-wasm` are the runtimes of these languages, for scripts that were written for Synwire.
    pub fn find(&self, name: &str) -> Result<RuntimeId> {
        let ids = || self.iter().map(Runtime::id);
        let of_synwire = name.strip_prefix(ScriptDialect::SYNWIRE_PREFIX);
        let of_synwire =
            of_synwire.and_then(|base| SYNWIRE_RUNTIMES.into_iter().find(|id| id.name() == base));
        ids().find(|id| id.name() == name).or(of_synwire).ok_or_else(|| {
            // A skill names its runtime, so the name may hold anything.
            let shown = shorten(name, MAX_NAME_CHARS);
            if let Some(language) = LANGUAGES_OF_EXTERNAL.iter().find(|word| word.eq_ignore_ascii_case(name))
            {
                let sentence = format!("`{language}` is a language and no runtime");
                let help =
                    "leave the runtime out, and the extension of the script decides; or write `external`";
                return SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help);
            }
            let help = closest(name, ids().map(RuntimeId::name)).map_or_else(
                || format!("the runtimes are {}", ids().map(RuntimeId::name).collect::<Vec<_>>().join(", ")),
                did_you_mean,
            );
            let sentence = format!("no runtime is called `{}`", shown.escape_debug());
            SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help)
        })
    }

    /// The description of a runtime; `unavailable` if this set does not have it.
    pub(crate) fn get(&self, id: RuntimeId) -> Result<&Runtime> {
        self.iter().find(|runtime| runtime.id() == id).ok_or_else(|| {
            let sentence = format!("no runtime called `{}` is registered", id.name().escape_debug());
            SkillError::new(ErrorKind::Unavailable, sentence)
        })
    }

    /// The runtime of a script by its file name: `sequence.json` is a sequence, `plugin.json` a plug-in, an unknown extension
    /// is external.
    pub fn for_path(&self, path: &str) -> RuntimeId {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        let named = self.iter().find(|runtime| runtime.has_file_name(name));
        let found = named.or_else(|| {
            let extension = extension?;
            self.iter().find(|runtime| runtime.has_extension(extension))
        });
        found.map_or(RuntimeId::EXTERNAL, Runtime::id)
    }

    /// The runtime of a script in a skill that may name a runtime. A script that is not the skill's main one may be in another
    /// language, if its extension identifies one.
    pub fn for_script(&self, path: &str, declared: Option<RuntimeId>, is_main: bool) -> RuntimeId {
        let by_extension = self.for_path(path);
        declared.filter(|_| is_main || by_extension == RuntimeId::EXTERNAL).unwrap_or(by_extension)
    }

    /// The runtime of the script's language by its extension, if the script cannot be in the declared runtime's language. A
    /// process may use any.
    pub fn conflicting(&self, declared: RuntimeId, path: &str) -> Option<RuntimeId> {
        let by_extension = self.for_path(path);
        let is_any = [declared, by_extension].contains(&RuntimeId::EXTERNAL);
        (by_extension != declared && !is_any).then_some(by_extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_detected_by_the_name_of_a_file() {
        let runtimes = Runtimes::built_in();
        for (path, runtime) in [
            ("scripts/main.lua", RuntimeId::LUA),
            ("scripts/Main.LUAU", RuntimeId::LUA),
            ("scripts/a.b.rhai", RuntimeId::RHAI),
            ("scripts/sequence.json", RuntimeId::TOOL_SEQUENCE),
            ("scripts/plugin.json", RuntimeId::WASM),
            ("scripts/other.json", RuntimeId::EXTERNAL),
            ("scripts/run", RuntimeId::EXTERNAL),
            ("scripts.lua/run.py", RuntimeId::EXTERNAL),
        ] {
            assert_eq!(runtimes.for_path(path), runtime, "{path}");
        }
        for language in ["python", "Bash", "typescript"] {
            let error = runtimes.find(language).unwrap_err();
            assert!(error.message().ends_with("is a language and no runtime"), "{error}");
            assert!(error.help().unwrap().contains("the extension of the script decides"), "{error}");
        }
        assert_eq!(runtimes.find("lau").unwrap_err().help(), Some("did you mean `lua`?"));
        let conflicting = |declared, path| runtimes.conflicting(declared, path);
        assert_eq!(conflicting(RuntimeId::RHAI, "scripts/main.lua"), Some(RuntimeId::LUA));
        assert_eq!(conflicting(RuntimeId::LUA, "main.luau"), None);
        assert_eq!(conflicting(RuntimeId::EXTERNAL, "main.lua"), None, "an interpreter may be installed");
        assert_eq!(
            conflicting(RuntimeId::LUA, "scripts/main.txt"),
            None,
            "an ending nobody knows tells nothing"
        );
    }

    #[test]
    fn every_built_in_runtime_is_registered_under_its_name() {
        let runtimes = Runtimes::built_in();
        let ids: Vec<_> = runtimes.iter().map(Runtime::id).collect();
        let expected = [
            RuntimeId::LUA,
            RuntimeId::RHAI,
            RuntimeId::WASM,
            RuntimeId::TOOL_SEQUENCE,
            RuntimeId::HTTP_CALL,
            RuntimeId::EXTERNAL,
        ];
        assert_eq!(ids, expected);
        assert!(expected.iter().all(|id| runtimes.find(id.name()).is_ok_and(|found| found == *id)));
    }
}
