//! What every command shares: the project, the product, and the form of the output.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::exit_watchdog::ExitWatchdog;
use super::global_args::GlobalArgs;
use super::terminal::escape_line;
use super::{output, prompt};
#[cfg(unix)]
use metier::audit::ChangeSetDecision;
use metier::audit::{AuditClient, AuditFace, AuditLog, AuditWriter};
#[cfg(unix)]
use metier::changes::ChangeSet;
use metier::config::{self, Configuration, LoadedConfiguration};
use metier::engine::{Engine, EngineBuilder};
use metier::error::{ErrorKind, Result, SkillError};
use metier::packages::PackageStore;
use metier::pending::PendingStore;
use metier::registry::{Roots, contains_home_dir, project_root};
use metier::state::StateStore;
use metier::trust::TrustStore;

/// One call of the command line.
#[derive(Clone)]
pub struct Session {
    global: GlobalArgs,
    exit_watchdog: ExitWatchdog,
    loaded: Arc<LoadedConfiguration>,
    /// The project, once it was found.
    project: Arc<OnceLock<PathBuf>>,
}

impl Session {
    pub(super) fn new(global: GlobalArgs, loaded: LoadedConfiguration, watchdog: ExitWatchdog) -> Self {
        let project = loaded.project.clone().map(OnceLock::from).unwrap_or_default();
        Self { global, exit_watchdog: watchdog, loaded: Arc::new(loaded), project: Arc::new(project) }
    }

    /// The configuration, with what is wrong with its sources.
    pub fn loaded(&self) -> &LoadedConfiguration {
        &self.loaded
    }

    /// Prints the warnings of the configuration; its first error, if it has any.
    pub(super) fn check_configuration(&self) -> Result<()> {
        for warning in &self.loaded.warnings {
            output::print_error_as_warning(warning, "it has no effect");
        }
        self.loaded.check()
    }

    /// Prints what is wrong with the configuration, for what goes on without it.
    pub(super) fn print_configuration_problems(&self) {
        for problem in self.loaded.errors.iter().chain(&self.loaded.warnings) {
            output::print_error_as_warning(problem, "it has no effect");
        }
    }

    /// The values of the configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.loaded.configuration
    }

    /// The watchdog that ends the command if it does not end by itself.
    pub(super) fn exit_watchdog(&self) -> &ExitWatchdog {
        &self.exit_watchdog
    }

    /// Whether the output is JSON.
    pub fn json(&self) -> bool {
        self.configuration().json()
    }

    /// Whether somebody can be asked: at a terminal, where neither the configuration nor a CI job says otherwise.
    pub fn can_ask(&self) -> bool {
        !self.json() && !self.configuration().no_input() && prompt::is_possible()
    }

    /// The same call for the project that this folder belongs to.
    pub fn for_path(&self, folder: &Path) -> Result<Self> {
        let project = Some(project_root(folder, self.product()));
        let global = GlobalArgs { project, ..self.global.clone() };
        let session = Self::new(global.clone(), load_configuration(&global)?, self.exit_watchdog.clone());
        // What is wrong with another project was not said yet.
        if session.project().ok() != self.project().ok() {
            session.check_configuration()?;
        }
        Ok(session)
    }

    /// The product's name: `metier` unless the configuration says otherwise.
    pub fn product(&self) -> &str {
        self.configuration().product()
    }

    /// The project: `--project`, or the nearest folder above with a product folder or a repository.
    pub fn project(&self) -> Result<PathBuf> {
        if let Some(project) = self.project.get() {
            return Ok(project.clone());
        }
        let project = find_project(&self.global, self.product())?;
        Ok(self.project.get_or_init(|| project).clone())
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
        Engine::builder(self.project()?)
            .configuration(self.configuration().clone())
            .trust(trust_store())
            .state(state_store())
            .packages(package_store())
            .pending(pending_store())
            .audit_client(cli_client())
            .build()
    }

    /// A builder of an engine for the project with this configuration, without what it provides to skills.
    pub fn builder(&self, configuration: Configuration) -> Result<EngineBuilder> {
        let builder = Engine::builder(self.project_for_scripts()?);
        let builder = builder.configuration(configuration).trust(trust_store()).state(state_store());
        Ok(builder.packages(package_store()).pending(pending_store()).audit_client(cli_client()))
    }

    /// The user's trust store, for commands that change it; they are recorded if the configuration says so.
    pub fn trust_store(&self) -> Result<TrustStore> {
        let (store, writer) = (TrustStore::user()?, self.audit_writer()?);
        Ok(match writer {
            Some(writer) => store.with_audit(writer),
            None => store,
        })
    }

    /// The user's pending calls, for decisions about them, which are recorded likewise.
    pub fn pending_store(&self) -> Result<PendingStore> {
        let (store, writer) = (PendingStore::user()?, self.audit_writer()?);
        Ok(match writer {
            Some(writer) => store.with_audit(writer),
            None => store,
        })
    }

    /// Records a decision about a change set, before it has an effect.
    #[cfg(unix)]
    pub fn record_change_set(&self, set: &ChangeSet, decision: ChangeSetDecision) -> Result<()> {
        let Some(writer) = self.audit_writer()? else { return Ok(()) };
        if let Some(warning) = writer.record_change_set(set, decision, None)? {
            output::print_warning(&warning);
        }
        Ok(())
    }

    /// Where changes by commands are recorded, if the configuration says so.
    fn audit_writer(&self) -> Result<Option<AuditWriter>> {
        if !self.configuration().audits() {
            return Ok(None);
        }
        let writer = AuditWriter::new(AuditLog::user()?).client(cli_client());
        Ok(Some(writer.required(self.configuration().requires_audit())))
    }

    /// Where skills are looked for.
    pub fn roots(&self) -> Result<Roots> {
        Ok(self.configuration().roots(&[self.project()?]))
    }
}

/// Reads the configuration, once for all that a command does.
pub(super) fn load_configuration(global: &GlobalArgs) -> Result<LoadedConfiguration> {
    Ok(config::load(global.configuration()?, |product| find_project(global, product).ok()))
}

fn find_project(global: &GlobalArgs, product: &str) -> Result<PathBuf> {
    match &global.project {
        Some(folder) => check_folder(folder).map(|()| folder.clone()),
        None => Ok(project_root(&current_folder()?, product)),
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

/// The user's store of what skills keep.
fn state_store() -> StateStore {
    // No folder can be there, so nothing is kept in this one: a run that may keep something fails, and says why.
    StateStore::user().unwrap_or_else(|_| StateStore::new("/dev/null/state"))
}

/// The user's store of calls that wait for a decision.
fn pending_store() -> PendingStore {
    // No folder can be there, so no call waits in this one, and says why.
    PendingStore::user().unwrap_or_else(|_| PendingStore::new("/dev/null/pending"))
}

/// The user's store of prepared packages.
pub(super) fn package_store() -> PackageStore {
    // No folder can be there, so nothing is found in this one, and preparing says why.
    PackageStore::user().unwrap_or_else(|_| PackageStore::new("/dev/null/packages"))
}

/// By what the audit log knows a command.
fn cli_client() -> AuditClient {
    AuditClient::new(AuditFace::Cli)
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
