//! What every command shares: which project, which product, which form of answer.

use std::path::{Path, PathBuf};

use super::terminal::escape_line;
use super::{GlobalArgs, output};
use crate::cli::exit_watchdog::ExitWatchdog;
use metier::engine::{Engine, EngineBuilder};
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::{Roots, contains_home_dir, project_root};

/// One call of the command line.
#[derive(Clone)]
pub struct Session {
    global: GlobalArgs,
    exit_watchdog: ExitWatchdog,
}

impl Session {
    pub(super) fn new(global: GlobalArgs, last_resort: ExitWatchdog) -> Self {
        Self { global, exit_watchdog: last_resort }
    }

    /// What ends the command should it not end.
    pub(super) fn exit_watchdog(&self) -> &ExitWatchdog {
        &self.exit_watchdog
    }

    /// Whether answers are JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// The product's name: `metier` unless `--product` says otherwise.
    pub fn product(&self) -> &str {
        &self.global.product
    }

    /// The project: `--project`, or the nearest folder above with a product folder or a repository.
    pub fn project(&self) -> Result<PathBuf> {
        match &self.global.project {
            Some(folder) => check_folder(folder).map(|()| folder.clone()),
            None => Ok(project_root(&current_folder()?, self.product())),
        }
    }

    /// The project for whatever lets scripts at it: a home, or what holds homes, is one only for who names it, and is told what
    /// that means.
    pub fn project_for_scripts(&self) -> Result<PathBuf> {
        let project = self.project()?;
        if !contains_home_dir(&project) {
            return Ok(project);
        }
        let shown = escape_line(&project.display().to_string());
        if self.explicit_project().is_none() {
            let sentence =
                format!("the working folder {shown} holds a user's home, and is no project by itself");
            let help = "go to the folder of a project, or name one with --project";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
        }
        output::print_warning(&format!(
            "the project {shown} holds a user's home: scripts may read all of it but what is protected"
        ));
        Ok(project)
    }

    /// The folder that `--project` named.
    pub fn explicit_project(&self) -> Option<&Path> {
        self.global.project.as_deref()
    }

    /// An engine for the project, with the skills it finds.
    pub fn engine(&self) -> Result<Engine> {
        Engine::builder(self.project()?).roots(self.roots()?).build()
    }

    /// An engine for the project that is still to be told what it offers to skills.
    pub fn builder(&self) -> Result<EngineBuilder> {
        Ok(Engine::builder(self.project_for_scripts()?).roots(self.roots()?))
    }

    /// Where skills are looked for.
    pub fn roots(&self) -> Result<Roots> {
        let standard = Roots::standard(self.product(), &self.project()?);
        Ok(if self.global.compat { standard.with_compat() } else { standard })
    }
}

fn check_folder(named: &Path) -> Result<()> {
    let found = std::fs::metadata(named);
    if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Ok(());
    }
    let reason = found.err().unwrap_or_else(|| std::io::ErrorKind::NotADirectory.into());
    let sentence = SkillError::io(format_args!("failed to open the project {}", named.display()), reason);
    Err(SkillError::new(ErrorKind::Usage, sentence.message()).with_help("name a folder with --project"))
}

fn current_folder() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| {
        SkillError::io("failed to find the current folder", error)
            .with_help("go to a folder that exists, or name the project with --project")
    })
}
