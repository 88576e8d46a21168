//! Which program runs a script: by its shebang, or else by its ending, never by a mode bit.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, Result, SkillError};
use crate::runtimes::external::executor;
use crate::runtimes::external::interpreter::shebang;

/// The commands that can run a script, best first. What is installed is asked when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtimes::external) struct Interpreter {
    candidates: Vec<Vec<String>>,
}

/// An installed interpreter: its absolute path and what comes before the script.
#[derive(Clone, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "none of them would be started"))]
pub(in crate::runtimes::external) struct InterpreterCommand {
    pub(in crate::runtimes::external) program: PathBuf,
    pub(in crate::runtimes::external) args: Vec<String>,
}

/// One language: programs its shebangs name, file endings, commands that run it, best first.
struct Language {
    shebang_names: &'static [&'static str],
    extensions: &'static [&'static str],
    commands: &'static [&'static str],
}

/// `uv`, `npx` and their like are not here: they install packages, which nobody asked for. Their scripts run by ending.
const LANGUAGES: [Language; 17] = [
    language(&["python", "python3"], &["py"], &["python3", "python"]),
    language(&["python2"], &[], &["python2"]),
    language(&["bash"], &["sh", "bash"], &["bash", "sh"]),
    language(&["sh", "dash", "ash"], &[], &["sh"]),
    language(&["zsh"], &["zsh"], &["zsh"]),
    language(&["ksh"], &["ksh"], &["ksh"]),
    language(&["fish"], &["fish"], &["fish"]),
    language(&["node", "nodejs"], &["js", "mjs", "cjs"], &["node", "nodejs"]),
    // Deno asks for each right unless it is given all; every other interpreter here has them.
    language(&[], &["ts", "mts", "cts", "tsx"], &["deno run --allow-all", "bun", "tsx"]),
    language(&["deno"], &[], &["deno run --allow-all"]),
    language(&["bun"], &[], &["bun"]),
    language(&["tsx", "ts-node"], &[], &["tsx", "ts-node"]),
    language(&["ruby"], &["rb"], &["ruby"]),
    language(&["perl"], &["pl"], &["perl"]),
    language(&["php"], &["php"], &["php"]),
    language(&["pwsh"], &["ps1"], &["pwsh -NoProfile -NonInteractive -File"]),
    language(&["Rscript"], &["r"], &["Rscript"]),
];

const fn language(
    programs: &'static [&'static str],
    endings: &'static [&'static str],
    commands: &'static [&'static str],
) -> Language {
    Language { shebang_names: programs, extensions: endings, commands }
}

impl Interpreter {
    /// The interpreter of the script at `path`; `invalid-skill` when nothing tells it.
    pub(in crate::runtimes::external) fn detect(path: &str, source: &[u8]) -> Result<Self> {
        Self::from_shebang(source)
            .or_else(|| Self::from_extension(path))
            .ok_or_else(|| unknown_interpreter_error(path))
    }

    /// The program as written comes first (`python3.11` before `python3`), and the line's arguments go to whichever runs.
    fn from_shebang(source: &[u8]) -> Option<Self> {
        let shebang = shebang::parse(source)?;
        let plain = shebang.program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let by_name = |name: &str| LANGUAGES.iter().find(|language| language.shebang_names.contains(&name));
        let language = by_name(shebang.program).or_else(|| by_name(plain))?;
        let others =
            language.commands.iter().filter(|command| command.split(' ').next() != Some(shebang.program));
        let written = [shebang.program];
        let candidates = written.iter().chain(others).map(|command| {
            let args = shebang.args.iter().map(|arg| (*arg).to_owned());
            split_words(command).into_iter().chain(args).collect()
        });
        Some(Self { candidates: candidates.collect() })
    }

    fn from_extension(path: &str) -> Option<Self> {
        let (_, ending) = path.rsplit('/').next()?.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?;
        let ending = ending.to_ascii_lowercase();
        let language = LANGUAGES.iter().find(|language| language.extensions.contains(&ending.as_str()))?;
        Some(Self { candidates: language.commands.iter().map(|command| split_words(command)).collect() })
    }

    /// The first candidate that lies in one of `folders`; `unavailable` when none does.
    pub(in crate::runtimes::external) fn locate(
        &self,
        script: &str,
        folders: &[PathBuf],
    ) -> Result<InterpreterCommand> {
        self.first_on_path(folders, |_| true).ok_or_else(|| self.not_installed_error(script))
    }

    /// The same, passing over programs that are not to be run; `unavailable` with that reason where there is no other.
    #[cfg_attr(not(unix), allow(dead_code, reason = "none of them would be started"))]
    pub(in crate::runtimes::external) fn locate_allowed(
        &self,
        script: &str,
        folders: &[PathBuf],
        is_shunned: impl Fn(&Path) -> bool,
        reason: &str,
    ) -> Result<InterpreterCommand> {
        let shunned = |found: InterpreterCommand| {
            let sentence = format!("{script} needs {}, which {reason}", found.program.display());
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("run it in a sandbox, or put the folder of another one on PATH")
        };
        let found = self.first_on_path(folders, |program| !is_shunned(program));
        found.ok_or_else(|| self.locate(script, folders).map_or_else(|missing| missing, shunned))
    }

    fn first_on_path(
        &self,
        folders: &[PathBuf],
        is_fit: impl Fn(&Path) -> bool,
    ) -> Option<InterpreterCommand> {
        self.candidates.iter().find_map(|command| {
            let (name, args) = command.split_first()?;
            let program = find_all_on_path(name, folders).find(|program| is_fit(program))?;
            Some(InterpreterCommand { program, args: args.to_vec() })
        })
    }

    /// What the programs are called that can run it, best first.
    pub(in crate::runtimes::external) fn program_names(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().filter_map(|command| Some(command.first()?.as_str()))
    }

    fn not_installed_error(&self, script: &str) -> SkillError {
        let names: Vec<&str> = self.program_names().collect();
        let best = names.first().copied().unwrap_or_default();
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

pub(in crate::runtimes::external) fn is_on_path(name: &str, folders: &[PathBuf]) -> bool {
    !name.contains('/') && find_on_path(name, folders).is_some()
}

/// Where programs lie when the host has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The folders of `PATH`, absolute ones only: a relative one would find its programs in the project.
pub(in crate::runtimes::external) fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// The first program of that name.
pub(in crate::runtimes::external) fn find_on_path(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    find_all_on_path(name, folders).next()
}

fn find_all_on_path(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    folders.iter().map(move |folder| folder.join(name)).filter(|path| is_executable_file(path))
}

/// Every command that runs scripts, with the endings of scripts it runs, in the order of the languages.
#[cfg_attr(not(unix), allow(dead_code, reason = "none of them would be started"))]
pub(in crate::runtimes::external) fn commands() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for language in &LANGUAGES {
        for name in language.commands.iter().filter_map(|command| command.split(' ').next()) {
            match commands.iter_mut().find(|(known, _)| *known == name) {
                Some((_, endings)) => endings.extend(language.extensions),
                None => commands.push((name, language.extensions.to_vec())),
            }
        }
    }
    commands
}

pub(in crate::runtimes::external) fn is_executable_file(path: &Path) -> bool {
    path.is_file() && executor::is_executable(path)
}

fn split_words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

fn unknown_interpreter_error(path: &str) -> SkillError {
    let endings: Vec<&str> = LANGUAGES.iter().flat_map(|language| language.extensions).copied().collect();
    SkillError::new(
        ErrorKind::InvalidSkill,
        format!("nothing tells which interpreter runs {}", path.escape_debug()),
    )
    .with_help(format!(
        "begin it with a line such as #!/usr/bin/env python3, or give it an ending: {}",
        endings.join(", ")
    ))
}
