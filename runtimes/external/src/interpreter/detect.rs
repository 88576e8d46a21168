//! Detects which program runs a script: by its shebang, or else by its file extension, never by a mode bit.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;

use crate::interpreter::path::find_all_on_path;
use crate::interpreter::required_version::RequiredVersion;
use crate::interpreter::shebang;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_packages::RequiredPython;

/// The commands that can run a script, best first. Which of them is installed is looked up when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpreter {
    candidates: Vec<Vec<String>>,
    required: RequiredVersion,
}

/// The version of a program, which is started for it where it is not known; `None` where it does not say.
pub(crate) type VersionQuery<'a> = &'a dyn Fn(&Path) -> Option<Version>;

/// An installed interpreter: its absolute path, and the arguments before the script.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no interpreter is started there"))]
pub(crate) struct InterpreterCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
}

/// One language: the programs that its shebangs name, its file extensions, and the commands that run it, best first.
struct Language {
    shebang_names: &'static [&'static str],
    extensions: &'static [&'static str],
    commands: &'static [&'static str],
}

/// Without `uv`, `npx` and the like, which install packages that nobody requested. Their scripts run by file extension, and what they name
/// of TypeScript by that.
const LANGUAGES: [Language; 19] = [
    language(&["python", "python3"], &["py"], &["python3", "python"]),
    language(&["python2"], &[], &["python2"]),
    language(&["bash"], &["sh", "bash"], &["bash", "sh"]),
    language(&["sh", "dash", "ash"], &[], &["sh"]),
    language(&["zsh"], &["zsh"], &["zsh"]),
    language(&["ksh"], &["ksh"], &["ksh"]),
    language(&["fish"], &["fish"], &["fish"]),
    language(&["node", "nodejs"], &["js", "mjs", "cjs"], &["node", "nodejs"]),
    // Deno asks for each permission unless it has all of them, as every other interpreter here has.
    language(&[], &["ts", "mts", "cts"], &["deno run --allow-all", "bun", "tsx", "node"]),
    language(&[], &["tsx"], &["deno run --allow-all", "bun", "tsx"]),
    language(&["deno"], &[], &["deno run --allow-all"]),
    language(&["bun"], &[], &["bun"]),
    language(&["tsx", "ts-node"], &[], &["tsx", "ts-node"]),
    language(&["ruby"], &["rb"], &["ruby"]),
    language(&["perl"], &["pl"], &["perl"]),
    language(&["php"], &["php"], &["php"]),
    language(&["pwsh"], &["ps1"], &["pwsh -NoProfile -NonInteractive -File"]),
    language(&["Rscript"], &["r"], &["Rscript"]),
    // Files of Go are parts of programs more often than scripts, so they run only where somebody names them.
    language(&[], &[GO_EXTENSION], &["go run"]),
];

/// The command that runs a language of other commands, too, and runs it only where none of them is there.
const LAST_CHOICE: &str = "node";

/// Programs that run TypeScript in Node.
const TYPESCRIPT_RUNNERS: [&str; 2] = ["tsx", "ts-node"];

/// Programs whose scripts are in a language of their own, whatever their extension says: no other program runs them.
const OTHER_RUNNERS: [&str; 9] =
    ["coffee", "ipython", "ipython3", "jython", "pypy", "pypy3", "sage", "streamlit", "zx"];

const GO_EXTENSION: &str = "go";

const fn language(
    programs: &'static [&'static str],
    extensions: &'static [&'static str],
    commands: &'static [&'static str],
) -> Language {
    Language { shebang_names: programs, extensions, commands }
}

/// Programs that the embedder set, by the names of their commands.
pub(crate) type InterpreterOverrides = [(String, PathBuf)];

impl Language {
    /// Whether its scripts run with the program that was set for this command.
    fn is_run_by(&self, name: &str) -> bool {
        self.shebang_names.contains(&name) || self.command_names().next() == Some(name)
    }

    fn command_names(&self) -> impl Iterator<Item = &'static str> {
        self.commands.iter().filter_map(|command| command.split(' ').next())
    }

    /// The program that was set for its scripts, and the arguments of its command.
    fn overridden_command(&self, overrides: &InterpreterOverrides) -> Option<Vec<String>> {
        let (name, program) = overrides.iter().rev().find(|(name, _)| self.is_run_by(name))?;
        let command = self.commands.iter().find(|command| command.split(' ').next() == Some(name));
        let args = command.into_iter().flat_map(|command| command.split(' ').skip(1)).map(str::to_owned);
        Some(std::iter::once(program.to_string_lossy().into_owned()).chain(args).collect())
    }
}

/// Whether a program can be set for this command; `usage` with those that there are.
pub fn check_override(name: &str, program: &Path) -> Result<()> {
    let names = || {
        LANGUAGES
            .iter()
            .flat_map(|language| language.shebang_names.iter().copied().chain(language.command_names()))
    };
    if !names().any(|known| known == name) {
        let known: std::collections::BTreeSet<&str> = names().collect();
        let known: Vec<&str> = known.into_iter().collect();
        let sentence =
            format!("failed to set the interpreter {}: no script runs with it", name.escape_debug());
        return Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help(format!("the interpreters are {}", known.join(", "))));
    }
    if !program.is_absolute() || program.to_str().is_none() {
        let sentence = format!(
            "failed to set the interpreter {name}: {} is not an absolute path in UTF-8",
            program.display()
        );
        return Err(
            SkillError::new(ErrorKind::Usage, sentence).with_help("give the absolute path of the program")
        );
    }
    Ok(())
}

impl Interpreter {
    /// The same as [`Interpreter::detect`]; where the embedder set programs for the language, they are the only candidates.
    pub(crate) fn detect_with(path: &str, source: &[u8], overrides: &InterpreterOverrides) -> Result<Self> {
        let mut interpreter = Self::detect(path, source)?;
        interpreter.required = RequiredVersion::of_script(path);
        if overrides.is_empty() {
            return Ok(interpreter);
        }
        let shebang =
            shebang::parse(source).and_then(|shebang| Some((shebang_language(shebang.program)?, shebang)));
        let language = shebang.as_ref().map(|(language, _)| *language).or_else(|| extension_language(path));
        if let Some(mut command) = language.and_then(|language| language.overridden_command(overrides)) {
            if let Some((_, shebang)) = &shebang {
                command.truncate(1);
                command.extend(shebang.args.iter().map(|arg| (*arg).to_owned()));
            }
            interpreter.candidates = vec![command];
        }
        let set_commands = interpreter.candidates.iter().filter_map(|command| {
            let (program, args) = command.split_first()?;
            let (_, set) = overrides.iter().rev().find(|(name, _)| name == program)?;
            Some(std::iter::once(set.to_string_lossy().into_owned()).chain(args.iter().cloned()).collect())
        });
        let set_commands: Vec<Vec<String>> = set_commands.collect();
        let is_set = |name: &str| overrides.iter().any(|(known, _)| known == name);
        let first = interpreter.program_names().next();
        if first != Some(LAST_CHOICE)
            && interpreter.program_names().filter(|name| is_set(name)).eq([LAST_CHOICE])
        {
            // A Node that was set for JavaScript does not replace what was made for the language.
            interpreter.candidates.retain(|command| command[0] != LAST_CHOICE);
            interpreter.candidates.extend(set_commands);
        } else if !set_commands.is_empty() {
            interpreter.candidates = set_commands;
        }
        Ok(interpreter)
    }

    /// The interpreter of a module that exports a handler: Node, whatever the extension of the module.
    pub(crate) fn of_handler(path: &str, overrides: &InterpreterOverrides) -> Result<Self> {
        let interpreter = Self::detect_with("handler.mjs", &[], overrides)?;
        Ok(Self { required: RequiredVersion::of_script(path), ..interpreter })
    }

    /// The interpreter of the script at `path`; `invalid-skill` if neither the shebang nor the file extension names one.
    pub(crate) fn detect(path: &str, source: &[u8]) -> Result<Self> {
        Self::from_shebang(source)
            .or_else(|| Self::from_extension(path))
            .ok_or_else(|| unknown_interpreter_error(path))
    }

    /// The program that is written comes first (`python3.11` before `python3`). Every candidate gets the arguments of the line.
    fn from_shebang(source: &[u8]) -> Option<Self> {
        let shebang = shebang::parse(source)?;
        if TYPESCRIPT_RUNNERS.contains(&shebang.launched_program()?)
            && shebang.launched_program() != Some(shebang.program)
        {
            // A script that was written for Node runs in no other.
            let candidates = ["tsx", LAST_CHOICE].map(|command| vec![command.to_owned()]).to_vec();
            return Some(Self { candidates, required: RequiredVersion::default() });
        }
        if shebang.launches_python() {
            // metier prepares its packages, and a launcher would install them at each start.
            return Self::from_extension("script.py");
        }
        if let Some(runner) = shebang.launched_program().filter(|program| OTHER_RUNNERS.contains(program)) {
            let args = if runner == shebang.program { shebang.args } else { Vec::new() };
            let command = std::iter::once(runner).chain(args).map(str::to_owned).collect();
            return Some(Self { candidates: vec![command], required: RequiredVersion::default() });
        }
        let language = shebang_language(shebang.program)?;
        let others =
            language.commands.iter().filter(|command| command.split(' ').next() != Some(shebang.program));
        let written = [shebang.program];
        let candidates = written.iter().chain(others).map(|command| {
            let args = shebang.args.iter().map(|arg| (*arg).to_owned());
            split_words(command).into_iter().chain(args).collect()
        });
        Some(Self { candidates: candidates.collect(), required: RequiredVersion::default() })
    }

    fn from_extension(path: &str) -> Option<Self> {
        let language = extension_language(path)?;
        let candidates = language.commands.iter().map(|command| split_words(command)).collect();
        Some(Self { candidates, required: RequiredVersion::default() })
    }

    /// The same with this program in place of every candidate, and the arguments of the best one.
    #[cfg_attr(not(unix), allow(dead_code, reason = "no interpreter is started there"))]
    pub(crate) fn with_program(&self, program: &Path) -> Self {
        let args = self.candidates.first().into_iter().flatten().skip(1).cloned();
        let command = std::iter::once(program.to_string_lossy().into_owned()).chain(args).collect();
        Self { candidates: vec![command], required: self.required.clone() }
    }

    /// The same for a script that Python runs in these versions alone.
    pub(crate) fn requiring_python(mut self, python: Option<RequiredPython>) -> Self {
        self.required.python = python;
        self
    }

    /// The name of the program that runs it best, without its folder.
    pub(crate) fn best_program_name(&self) -> &str {
        self.program_names().next().and_then(|name| name.rsplit('/').next()).unwrap_or_default()
    }

    /// The first candidate that is in one of `folders`; where the script depends on its version and that does not fit, the first program
    /// whose version does: of the candidates, or of the releases of Python by their own names. `unavailable` if none is.
    pub(crate) fn locate(
        &self,
        script: &str,
        folders: &[PathBuf],
        versions: VersionQuery<'_>,
    ) -> Result<InterpreterCommand> {
        self.locate_fitting(script, folders, |_| true, versions)?
            .ok_or_else(|| self.not_installed_error(script))
    }

    /// The same without refused programs; `unavailable` with that reason if there is no other program.
    pub(crate) fn locate_allowed(
        &self,
        script: &str,
        folders: &[PathBuf],
        is_refused: impl Fn(&Path) -> bool,
        reason: &str,
        versions: VersionQuery<'_>,
    ) -> Result<InterpreterCommand> {
        if let Some(found) = self.locate_fitting(script, folders, |program| !is_refused(program), versions)? {
            return Ok(found);
        }
        let Some(found) = self.first_on_path(folders, |_| true) else {
            return Err(self.not_installed_error(script));
        };
        let sentence = format!("{script} needs {}, which {reason}", found.program.display());
        Err(SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("run it in a sandbox, or put the folder of another one on PATH"))
    }

    /// The first allowed program whose version fits, or whose version is not known; an error if all that are known do not fit.
    fn locate_fitting(
        &self,
        script: &str,
        folders: &[PathBuf],
        is_allowed: impl Fn(&Path) -> bool,
        versions: VersionQuery<'_>,
    ) -> Result<Option<InterpreterCommand>> {
        let required = &self.required;
        let first = self.first_on_path(folders, &is_allowed);
        let unfit = match &first {
            Some(found) if required.concerns(&found.program) => {
                versions(&found.program).filter(|version| !required.accepts(version))
            }
            _ => None,
        };
        if unfit.is_none() && (first.is_some() || required.python.is_none()) {
            return Ok(first);
        }
        let real = |program: &Path| std::fs::canonicalize(program).ok();
        let first_real = first.as_ref().and_then(|first| real(&first.program));
        let fits = |program: &Path| {
            is_allowed(program)
                && real(program) != first_real
                && required.concerns(program)
                && versions(program).is_some_and(|version| required.accepts(&version))
        };
        match (self.with_releases().first_on_path(folders, fits), first, unfit) {
            (None, Some(first), Some(version)) => Err(required.error(script, &first.program, &version)),
            (other, ..) => Ok(other),
        }
    }

    /// The same with the releases of Python that may fit, by their own names.
    fn with_releases(&self) -> Self {
        let mut all = self.clone();
        if self.program_names().next().is_some_and(|name| !Path::new(name).is_absolute()) {
            let args = self.candidates.first().into_iter().flatten().skip(1);
            let command = |name: String| std::iter::once(name).chain(args.clone().cloned()).collect();
            all.candidates.extend(self.required.python_names().map(command));
        }
        all
    }

    fn first_on_path(
        &self,
        folders: &[PathBuf],
        is_allowed: impl Fn(&Path) -> bool,
    ) -> Option<InterpreterCommand> {
        self.candidates.iter().find_map(|command| {
            let (name, args) = command.split_first()?;
            let program = find_all_on_path(name, folders).find(|program| is_allowed(program))?;
            Some(InterpreterCommand { program, args: args.to_vec() })
        })
    }

    /// The names of the programs that can run it, best first.
    pub(crate) fn program_names(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().filter_map(|command| Some(command.first()?.as_str()))
    }

    fn not_installed_error(&self, script: &str) -> SkillError {
        let names: Vec<&str> = self.program_names().collect();
        let best = names.first().copied().unwrap_or_default();
        if Path::new(best).is_absolute() {
            let sentence = format!("{script} needs {best}, which is not a program that can be started");
            return SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("install it there, or set another interpreter for the engine");
        }
        SkillError::new(ErrorKind::Unavailable, format!("{script} needs {best}, which is not on PATH"))
            .with_help(format!("install {}, or put the folder it lies in on PATH", names.join(" or ")))
    }
}

/// The commands, best first.
impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands: Vec<String> = self.candidates.iter().map(|command| command.join(" ")).collect();
        f.write_str(&commands.join(", "))
    }
}

/// The language whose scripts begin with this program.
fn shebang_language(program: &str) -> Option<&'static Language> {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let by_name = |name: &str| LANGUAGES.iter().find(|language| language.shebang_names.contains(&name));
    by_name(program).or_else(|| by_name(plain))
}

/// The language of a script with this file extension.
fn extension_language(path: &str) -> Option<&'static Language> {
    let (_, extension) = path.rsplit('/').next()?.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?;
    let extension = extension.to_ascii_lowercase();
    LANGUAGES.iter().find(|language| language.extensions.contains(&extension.as_str()))
}

/// Whether a file looks like a script of a known interpreter: by its file extension, or without one by its shebang.
pub fn looks_like_script(path: &str, source: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    let has_extension = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    if path.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case(GO_EXTENSION)) {
        return false;
    }
    let source = if has_extension { None } else { source() };
    Interpreter::detect(path, &source.unwrap_or_default()).is_ok()
}

/// The name of the program that runs a script best, without its folder; `None` if nothing tells.
pub fn interpreter_name(path: &str, source: &[u8], overrides: &InterpreterOverrides) -> Option<String> {
    let interpreter = Interpreter::detect_with(path, source, overrides).ok()?;
    Some(interpreter.best_program_name().to_owned())
}

/// The program that was set for a command, alone or for all scripts of the language that it runs first.
#[cfg_attr(not(unix), allow(dead_code, reason = "no interpreter is started there"))]
pub(crate) fn overriding_program(name: &str, overrides: &InterpreterOverrides) -> Option<PathBuf> {
    let own = overrides.iter().rev().find(|(known, _)| known == name).map(|(_, program)| program.clone());
    let language = LANGUAGES.iter().find(|language| language.command_names().next() == Some(name));
    own.or_else(|| language?.overridden_command(overrides)?.into_iter().next().map(PathBuf::from))
}

/// Every command that runs scripts with the file extensions of its scripts, in the order of the languages.
#[cfg_attr(not(unix), allow(dead_code, reason = "no interpreter is started there"))]
pub(crate) fn commands() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for language in &LANGUAGES {
        for name in language.command_names() {
            match commands.iter_mut().find(|(known, _)| *known == name) {
                Some((_, extensions)) => extensions.extend(language.extensions),
                None => commands.push((name, language.extensions.to_vec())),
            }
        }
    }
    commands
}

fn split_words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

fn unknown_interpreter_error(path: &str) -> SkillError {
    let extensions: Vec<&str> = LANGUAGES.iter().flat_map(|language| language.extensions).copied().collect();
    SkillError::new(
        ErrorKind::InvalidSkill,
        format!("nothing tells which interpreter runs {}", path.escape_debug()),
    )
    .with_help(format!(
        "begin it with a line such as #!/usr/bin/env python3, or give it an ending: {}",
        extensions.join(", ")
    ))
}
