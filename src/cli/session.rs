//! What every command shares: the project, the product, and the form of the output.

use std::path::{Path, PathBuf};

use super::exit_watchdog::ExitWatchdog;
use super::global_args::GlobalArgs;
use super::terminal::escape_line;
use super::{output, prompt};
use metier::engine::{Engine, EngineBuilder};
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::{Roots, contains_home_dir, project_root};
use metier::trust::TrustStore;

/// One call of the command line.
#[derive(Clone)]
pub struct Session {
    global: GlobalArgs,
    exit_watchdog: ExitWatchdog,
}

impl Session {
    pub(super) fn new(global: GlobalArgs, watchdog: ExitWatchdog) -> Self {
        Self { global, exit_watchdog: watchdog }
    }

    /// The watchdog that ends the command if it does not end by itself.
    pub(super) fn exit_watchdog(&self) -> &ExitWatchdog {
        &self.exit_watchdog
    }

    /// Whether the output is JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// Whether somebody can be asked: at a terminal, where neither an option nor a CI job says otherwise.
    pub fn can_ask(&self) -> bool {
        !self.global.json && !self.global.no_input && prompt::is_possible()
    }

    /// The same call for the project that this folder belongs to.
    pub fn for_path(&self, folder: &Path) -> Self {
        let project = Some(project_root(folder, self.product()));
        Self { global: GlobalArgs { project, ..self.global.clone() }, ..self.clone() }
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

    /// The project for commands that run scripts in it. A folder that contains a home directory is one only if the caller names
    /// it, and then with a warning.
    pub fn project_for_scripts(&self) -> Result<PathBuf> {
        let project = self.project()?;
        if !contains_home_dir(&project) {
            return Ok(project);
        }
        let shown = escape_line(&project.display().to_string());
        if self.explicit_project().is_none() {
            let sentence = format!(
                "{shown} contains a home directory, so it is not used as a project unless you name it"
            );
            let help = "go to the folder of a project, or name a project with --project";
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
        }
        output::print_warning(&format!(
            "the project {shown} contains a home directory: scripts may read everything in it except protected files"
        ));
        Ok(project)
    }

    /// The folder that the caller named with `--project`.
    pub fn explicit_project(&self) -> Option<&Path> {
        self.global.project.as_deref()
    }

    /// An engine for the project, with the skills it finds.
    pub fn engine(&self) -> Result<Engine> {
        Engine::builder(self.project()?).roots(self.roots()?).trust(trust_store()).build()
    }

    /// A builder of an engine for the project, without what it provides to skills.
    pub fn builder(&self) -> Result<EngineBuilder> {
        Ok(Engine::builder(self.project_for_scripts()?).roots(self.roots()?).trust(trust_store()))
    }

    /// Where skills are looked for.
    pub fn roots(&self) -> Result<Roots> {
        let standard = Roots::standard(self.product(), &self.project()?);
        Ok(if self.global.compat { standard.with_compat() } else { standard })
    }
}

/// The user's trust store. Without one that can be used nothing is trusted, and a warning says why.
fn trust_store() -> TrustStore {
    let (store, found) = match TrustStore::user() {
        Ok(store) => (store.clone(), store.records().map(|records| records.warnings.clone())),
        // No folder can be there, so this one trusts nothing either.
        Err(error) => (TrustStore::new("/dev/null/trust"), Err(error)),
    };
    match found {
        Ok(warnings) => warnings.iter().for_each(|warning| output::print_warning(warning)),
        Err(error) => {
            output::print_error_as_warning(&error, "nothing is trusted, and no grant is remembered");
        }
    }
    store
}

fn check_folder(folder: &Path) -> Result<()> {
    let found = std::fs::metadata(folder);
    if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Ok(());
    }
    let reason = found.err().unwrap_or_else(|| std::io::ErrorKind::NotADirectory.into());
    let sentence = SkillError::io(format_args!("failed to open the project {}", folder.display()), reason);
    Err(SkillError::new(ErrorKind::Usage, sentence.message())
        .with_help("name a folder that exists with --project"))
}

fn current_folder() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| {
        SkillError::io("failed to find the current folder", error)
            .with_help("go to a folder that exists, or name the project with --project")
    })
}
