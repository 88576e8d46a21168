//! One piece of work, written in three languages, and how it is run: directly, and by `metier run`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::parity::difference::{Ending, assert_same, files_in};
use crate::support::cli::Project;
use crate::support::not_run::{find_program, not_run};

/// The levels of the sandbox in which each piece of work is tried.
const LEVELS: [&str; 2] = ["namespaces", "landlock"];

/// The languages: the interpreter, the name of the script.
pub const PYTHON: (&str, &str) = ("python3", "main.py");
pub const SHELL: (&str, &str) = ("bash", "main.sh");
pub const NODE: (&str, &str) = ("node", "main.js");

/// A piece of work. What is not set is empty.
#[derive(Clone, Default)]
pub struct Work {
    /// What it is, for the messages of the test.
    pub what: &'static str,
    pub python: &'static str,
    pub shell: &'static str,
    pub node: &'static str,
    /// Files of the project.
    pub files: &'static [(&'static str, &'static str)],
    /// Other files of the skill's folder.
    pub skill: &'static [(&'static str, &'static str)],
    pub args: &'static [&'static str],
    pub stdin: &'static [u8],
    pub env: &'static [(&'static str, &'static str)],
    /// The options of `metier run` that the work needs.
    pub options: &'static [&'static str],
    /// How often it runs, one after the other.
    pub runs: usize,
    /// The levels of the sandbox; all of them if none is named.
    pub levels: &'static [&'static str],
    /// What is done in each project before.
    pub setup: Option<fn(&Project)>,
    /// The interpreter of the Python script, in the skill's folder, where it is not the one on `PATH`.
    pub interpreter: &'static str,
}

impl Work {
    /// Runs it in every language that it is written in, directly and at each level, and compares.
    pub fn is_the_same(&self) {
        for ((program, script), text) in [(PYTHON, self.python), (SHELL, self.shell), (NODE, self.node)] {
            if text.is_empty() {
                continue;
            }
            let Some(program) = find_program(program) else {
                not_run(self.what, &format!("{program} is not installed"));
                continue;
            };
            for level in if self.levels.is_empty() { &LEVELS } else { self.levels } {
                self.compare(&program, script, text, level);
            }
        }
    }

    fn compare(&self, program: &Path, script: &str, text: &str, level: &str) {
        let path = format!(".metier/skills/x/scripts/{script}");
        let project = || self.project().file(&path, text);
        let direct = project();
        let sandboxed = project();
        if let Some(setup) = self.setup {
            setup(&direct);
            setup(&sandboxed);
        }
        for run in 0..self.runs.max(1) {
            let own = direct.path(".metier/skills/x").join(self.interpreter);
            let is_own = !self.interpreter.is_empty() && script == PYTHON.1;
            let mut interpreter = Command::new(if is_own { &own } else { program });
            let expected = self.ending(&direct, interpreter.arg(direct.path(&path)).args(self.args));
            let mut command = sandboxed.command(&["run", "x", "--raw", "--script", script]);
            command.args(self.options).arg("--").args(self.args);
            command.env("METIER_SANDBOX_LEVEL", level);
            let found = self.ending(&sandboxed, &mut command);
            let about = format!("{} in {script} at the level {level}, run {run}", self.what);
            assert_same(&about, (&expected, &direct), (&found, &sandboxed));
        }
    }

    fn project(&self) -> Project {
        let project = Project::new().skill(".metier/skills/x");
        let project = self.files.iter().fold(project, |project, (path, text)| project.file(path, text));
        self.skill
            .iter()
            .fold(project, |project, (path, text)| project.file(&format!(".metier/skills/x/{path}"), text))
    }

    /// Runs the command in the project, as a user with a home of its own.
    fn ending(&self, project: &Project, command: &mut Command) -> Ending {
        std::fs::create_dir_all(project.home()).unwrap();
        // A shell says by `PWD` where it is.
        command.current_dir(project.root()).env("PWD", project.root());
        command.env("HOME", project.home()).envs(self.env.iter().copied());
        // The interpreter caches what it compiles beside the script, where a script in a sandbox cannot write.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), self.stdin);
        // A script may end before it has read everything.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ending { output, files: files_in(project.root()) }
    }
}
