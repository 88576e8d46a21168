//! A folder to try the `metier` command in.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub use super::project::write;

/// The suites that run the command.
pub struct CommandSuite;

pub type Project = super::project::Project<CommandSuite>;

/// What a call of the command answered.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Project {
    /// Writes a skill that is valid under every profile.
    pub fn skill(self, folder: &str) -> Self {
        let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
        self.file(&format!("{folder}/SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"))
    }

    /// Writes a skill of the project with this Lua script.
    pub fn lua(self, name: &str, script: &str) -> Self {
        self.skill(&format!(".metier/skills/{name}"))
            .file(&format!(".metier/skills/{name}/scripts/main.lua"), script)
    }

    /// Writes a skill of the project with this shell script.
    pub fn shell(self, name: &str, script: &str) -> Self {
        self.skill(&format!(".metier/skills/{name}"))
            .file(&format!(".metier/skills/{name}/scripts/main.sh"), script)
    }

    /// Runs `metier` in the project.
    pub fn metier(&self, args: &[&str]) -> Answer {
        self.metier_in(".", args)
    }

    /// Runs `metier` in a folder of the project.
    pub fn metier_in(&self, folder: &str, args: &[&str]) -> Answer {
        self.command(args).current_dir(self.path(folder)).output().unwrap().into()
    }

    /// The call of `metier`, to be changed and started: in the project, without input, by a user with an empty home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
        command.args(args).current_dir(self.path(".")).stdin(Stdio::null());
        command.env("HOME", self.home()).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
        command
            .env_remove("METIER_DATA_DIR")
            .env_remove("METIER_CONFIG_DIR")
            .env_remove("METIER_MCP_TOKEN")
            .env_remove("NO_COLOR")
            .env_remove("CI");
        command
    }

    /// Everything below the project, files and folders, sorted.
    pub fn tree(&self) -> Vec<String> {
        let below = walkdir::WalkDir::new(self.root()).min_depth(1).sort_by_file_name();
        let relative = |path: &Path| path.strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned();
        below.into_iter().map(|entry| relative(entry.unwrap().path())).collect()
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Answer {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
