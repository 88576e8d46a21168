//! Trust in an engine with a trust store: which skills a model may see and run, and which grants are remembered.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::invocation::StoredGrants;
use super::{Engine, EngineInner, Invocation};
use crate::engine::changed_files::changed_files;
use crate::engine::contract_validation::validate_input;
use crate::engine::run_target::RunTarget;
use crate::engine::skill_set::SkillSet;
use crate::registry::{
    Catalog, FileDifference, FileList, Registry, Scope, Skill, parallel_map, printable_name,
};
use crate::trust::{ProjectIdentity, SkillFiles, TrustRecords, TrustStore};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::canonical_folder::canonical_folder;
use metier_core::host::{InheritedTrust, SkillContext};
use metier_core::policy::{
    ArgumentPattern, CancelToken, GrantOrigin, Permission, RunPermissions, SkillDigest,
};

/// Whether a skill is trusted. In JSON: `{state: "trusted", by}`, `{state: "untrusted", reason}` or `{state: "changed", files}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrustState {
    /// It is trusted.
    Trusted {
        /// Why.
        by: TrustReason,
    },
    /// Nobody has trusted it.
    Untrusted {
        /// Why it cannot be trusted as it is, or why the store is not used.
        reason: Option<String>,
    },
    /// It was trusted, and has changed since.
    Changed {
        /// The files that differ: of a callee with its qualified name before the path.
        files: Vec<FileDifference>,
    },
}

/// Why a skill is trusted. In JSON its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrustReason {
    /// It is the user's own, part of the program, or in a root outside of the project that the caller named; or the engine has no
    /// trust store.
    Location,
    /// It lies in a folder that is trusted as a whole.
    Folder,
    /// It was trusted with exactly these files.
    Digest,
}

impl TrustState {
    /// Whether it is trusted.
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Trusted { .. })
    }
}

/// What is known about a run before it starts, in engines with a trust store and for invocations with a digest.
pub(super) struct RunTrust {
    files: Option<SkillFiles>,
    /// In engines with a trust store, for the invoked skill.
    pub(super) state: Option<TrustState>,
    pub(super) is_trusted: bool,
    /// Whether the digest of the skill, which counts its callees, is what is trusted.
    covers_callees: bool,
    remembered: Vec<(Permission, GrantOrigin)>,
}

/// What a decision about a skill depends on, read once, when somebody asks for it: the files of a skill that is trusted wherever it
/// lies may be large.
struct TrustFacts<'a> {
    read: Box<dyn Fn() -> Result<SkillFiles> + 'a>,
    files: OnceCell<Result<SkillFiles>>,
    records: OnceCell<Result<Arc<TrustRecords>>>,
    /// Whether the files of a skill that nobody has trusted are read too, to know whether it could be.
    reads_unrecorded: bool,
}

impl Engine {
    /// The engine's trust store, if it has one.
    pub fn trust_store(&self) -> Option<&TrustStore> {
        self.0.trust.as_ref()
    }

    /// Whether a skill is trusted now. Without a trust store every skill is.
    pub fn trust_state(&self, skill: &Skill) -> TrustState {
        let Some(store) = &self.0.trust else { return TrustState::Trusted { by: TrustReason::Location } };
        let token = CancelToken::new();
        let state = self.0.skills.current_version(skill).and_then(|(set, skill)| {
            self.0.trust_state(
                store,
                &set,
                &skill,
                &TrustFacts::new(|| self.0.skill_files(&set, &skill, &token)),
            )
        });
        state.unwrap_or_else(|error| TrustState::Untrusted { reason: Some(error.to_string()) })
    }

    /// The same for several skills, in their order. Of a skill that nobody has trusted no file is read, so nothing says whether it
    /// could be trusted.
    pub fn trust_states(&self, skills: &[&Skill]) -> Vec<TrustState> {
        let Some(store) = &self.0.trust else {
            return vec![TrustState::Trusted { by: TrustReason::Location }; skills.len()];
        };
        let (set, records) = (self.0.skills.set(), store.records());
        parallel_map(skills, |skill| {
            let as_read = self.0.trust_as_read((store, &records), &set, skill);
            as_read.unwrap_or_else(|| self.trust_state(skill))
        })
    }

    /// Whether a skill is trusted by the records of now, and was read from files as they are: then a model may see what was read.
    pub(crate) fn trusts_as_read(&self) -> impl Fn(&Skill) -> bool + Sync {
        let store = self.0.trust.as_ref().map(|store| (store, store.records(), self.0.skills.set()));
        move |skill| match &store {
            None => skill.is_current(None),
            Some((store, records, set)) => {
                let state = self.0.trust_as_read((store, records), set, skill);
                state.is_some_and(|state| state.is_trusted())
            }
        }
    }

    /// The files of a skill and of the skills that it calls, with their digest: what is shown to a person who decides, and what is
    /// recorded afterwards. `invalid-skill` for a skill that has no digest.
    pub fn skill_files(&self, skill: &Skill) -> Result<SkillFiles> {
        let (set, skill) = self.0.skills.current_version(skill)?;
        self.0.skill_files(&set, &skill, &CancelToken::new())
    }

    /// The same for several skills, in their order.
    pub fn skill_files_of_each(&self, skills: &[&Skill]) -> Vec<Result<SkillFiles>> {
        parallel_map(skills, |skill| self.skill_files(skill))
    }

    /// The files of a skill that is trusted: trust and files are those of one moment. `untrusted` for every other skill.
    pub fn trusted_files(&self, skill: &Skill) -> Result<SkillFiles> {
        let (set, skill) = self.0.skills.current_version(skill)?;
        let token = CancelToken::new();
        let facts = TrustFacts::new(|| self.0.skill_files(&set, &skill, &token));
        self.0.require_trusted(&set, &skill, &facts)?;
        facts.files().cloned().map_err(Clone::clone)
    }

    /// Whether a model may see this content of a file of the skill: the skill is trusted, and where that depends on its files, the
    /// file is one of those. Otherwise `untrusted`.
    pub fn check_trusted_content(&self, skill: &Skill, path: &str, content: &[u8]) -> Result<()> {
        let (set, skill) = self.0.skills.current_version(skill)?;
        let token = CancelToken::new();
        let facts = TrustFacts::new(|| self.0.skill_files(&set, &skill, &token));
        match self.0.require_trusted(&set, &skill, &facts)? {
            TrustReason::Digest if !facts.files().map_err(Clone::clone)?.files.lists(path, content) => {
                let sentence =
                    format!("the file is not shown: the skill {} changed while it was read", skill.name());
                Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("try it again"))
            }
            _ => Ok(()),
        }
    }

    /// The project in which the skill lies, of several folders that one, or else the first folder; `unavailable` if its path is not
    /// UTF-8.
    pub fn project_identity(&self, skill: &Skill) -> Result<ProjectIdentity> {
        ProjectIdentity::from_canonical(self.0.project_of_skill(&self.0.skills.set(), skill))
    }

    /// The catalog of this registry as a model may see it: without skills that are not trusted, which hide no other skill of their
    /// name either.
    ///
    /// ```
    /// # fn main() -> metier::error::Result<()> {
    /// let engine = metier::engine::Engine::builder(".").build()?;
    /// println!("{}", engine.catalog(&engine.registry()).list());
    /// # Ok(())
    /// # }
    /// ```
    pub fn catalog<'a>(&self, registry: &'a Registry) -> Catalog<'a> {
        if self.0.trust.is_none() {
            return registry.catalog();
        }
        // What is on disk is judged, so only a skill that was read from it is shown.
        registry.catalog_of(self.trusts_as_read())
    }
}

impl EngineInner {
    /// What the trust store says about a run; nothing is computed where nobody asks.
    pub(super) fn run_trust(
        &self,
        set: &SkillSet,
        skill: &Skill,
        invocation: &Invocation,
        token: &CancelToken,
    ) -> Result<Option<RunTrust>> {
        let Some(caller) = &invocation.caller else {
            if self.trust.is_none() && invocation.digest.is_none() {
                return Ok(None);
            }
            return self.check_invoked(set, skill, invocation, token).map(Some);
        };
        let inherited = invocation.facts.inherited_trust.as_deref();
        let has_approver = caller.permissions().has_approver();
        let checked = match inherited {
            Some(inherited) => self.check_callee(inherited, set, skill, token)?,
            None if !has_approver => return Ok(None),
            None => None,
        };
        // What was approved before counts only for the files that it was approved for.
        let list = || self.digests.list(skill, token).ok().filter(|_| has_approver);
        Ok(Some(RunTrust::of_callee(skill, checked.or_else(list))))
    }

    /// The qualified name of the skill that takes the place of one that no model may run: the nearest trusted one of that name, so
    /// that an untrusted project takes no skill of the user from a model. The catalog shows the same one.
    pub(super) fn trusted_namesake(
        &self,
        set: &SkillSet,
        invocation: &Invocation,
        folder: Option<usize>,
        token: &CancelToken,
    ) -> Option<String> {
        let store = self.trust.as_ref()?;
        let is_top_level = invocation.caller.is_none() && invocation.digest.is_none();
        if !is_top_level || !invocation.facts.is_for_model {
            return None;
        }
        let accepts = |skill: &Skill| {
            let facts = TrustFacts::new(|| self.skill_files(set, skill, token));
            self.trust_state(store, set, skill, &facts).is_ok_and(|state| state.is_trusted())
        };
        set.registry.find_accepted(folder, &invocation.skill, &accepts).map(Skill::qualified_name)
    }

    /// The error of a lookup, as the caller may see it. What it says of other skills, and of those that do not load, is withheld
    /// from a model in an engine with a trust store: their names are texts that nobody may have trusted.
    pub(super) fn lookup_error(&self, error: SkillError, name: &str, is_for_model: bool) -> SkillError {
        let is_of_lookup = matches!(error.kind(), ErrorKind::UnknownSkill | ErrorKind::InvalidSkill);
        if self.trust.is_none() || !is_for_model || !is_of_lookup {
            return error;
        }
        let name = printable_name(name);
        let (sentence, help) = match error.kind() {
            ErrorKind::InvalidSkill => (
                format!(
                    "no skill that a model may run is called `{name}` at present: its files have an error"
                ),
                "a person can validate it to see where",
            ),
            _ => (
                format!("no skill that a model may run is called `{name}`"),
                "choose one from the catalog, which lists the skills that are trusted and can run",
            ),
        };
        SkillError::new(error.kind(), sentence).with_help(help)
    }

    fn check_invoked(
        &self,
        set: &SkillSet,
        skill: &Skill,
        invocation: &Invocation,
        token: &CancelToken,
    ) -> Result<RunTrust> {
        let facts = TrustFacts::new(|| self.skill_files(set, skill, token));
        if let Some(expected) = invocation.digest
            && facts.files().map_err(Clone::clone)?.digest != expected
        {
            let sentence = format!(
                "the skill {} is not run: its files have changed since they were looked at",
                skill.name()
            );
            return Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at it again"));
        }
        let Some(store) = &self.trust else {
            return Ok(RunTrust {
                files: facts.into_files(),
                state: None,
                is_trusted: true,
                covers_callees: false,
                remembered: Vec::new(),
            });
        };
        let options = invocation.trust;
        let state = self.trust_state(store, set, skill, &facts);
        token.check()?;
        let state = state.unwrap_or_else(|error| TrustState::Untrusted { reason: Some(error.to_string()) });
        let is_trusted = options.is_trusted_once || state.is_trusted();
        if invocation.facts.is_for_model && !is_trusted {
            return Err(self.untrusted_error(set, skill, &state));
        }
        let ignores_remembered =
            options.stored_grants != StoredGrants::All || self.ignores_remembered_grants();
        let remembered = if is_trusted && !ignores_remembered {
            self.remembered_grants(store, set, skill, invocation, &facts)?
        } else {
            Vec::new()
        };
        if is_trusted && self.has_configured_grants(skill) {
            // The callees that may use them are those of now.
            facts.files().ok();
        }
        token.check()?;
        let covers_callees = state == TrustState::Trusted { by: TrustReason::Digest };
        Ok(RunTrust { files: facts.into_files(), state: Some(state), is_trusted, covers_callees, remembered })
    }

    /// Why the skill is trusted; `untrusted` if it is not. The files are read only where trust depends on them.
    fn require_trusted(&self, set: &SkillSet, skill: &Skill, facts: &TrustFacts<'_>) -> Result<TrustReason> {
        let Some(store) = &self.trust else { return Ok(TrustReason::Location) };
        match self.trust_state(store, set, skill, facts) {
            Ok(TrustState::Trusted { by }) => Ok(by),
            Ok(state) => Err(self.untrusted_error(set, skill, &state)),
            Err(error) => {
                let state = TrustState::Untrusted { reason: Some(error.to_string()) };
                Err(self.untrusted_error(set, skill, &state))
            }
        }
    }

    fn remembered_grants(
        &self,
        store: &TrustStore,
        set: &SkillSet,
        skill: &Skill,
        invocation: &Invocation,
        facts: &TrustFacts<'_>,
    ) -> Result<Vec<(Permission, GrantOrigin)>> {
        let Ok(records) = facts.records(store) else { return Ok(Vec::new()) };
        if !records.grants.iter().any(|grant| grant.skill == skill.name()) {
            return Ok(Vec::new());
        }
        let Ok(files) = facts.files() else { return Ok(Vec::new()) };
        let (_, folder) = self.folders.of_run(set, skill, invocation)?;
        let Ok(project) = ProjectIdentity::from_canonical(&folder.path) else { return Ok(Vec::new()) };
        // The approver was shown the input with the defaults of the contract.
        let fits = |pattern: &ArgumentPattern| {
            validate_input(RunTarget::new(skill, invocation), invocation.input.clone())
                .is_ok_and(|input| pattern.fits(input.as_ref(), &invocation.args))
        };
        Ok(records.grants_of_run(skill.name(), files.digest, &project, fits).collect())
    }

    /// Whether a skill is trusted with what the user set for it, where nothing runs: every skill is in engines without a trust store.
    pub(super) fn is_trusted_for_values(&self, set: &SkillSet, skill: &Skill, token: &CancelToken) -> bool {
        let Some(store) = &self.trust else { return true };
        let facts = TrustFacts::new(|| self.skill_files(set, skill, token));
        self.trust_state(store, set, skill, &facts).is_ok_and(|state| state.is_trusted())
    }

    /// Whether a callee may run, and its files: none where nobody asks for them.
    fn check_callee(
        &self,
        inherited: &InheritedTrust,
        set: &SkillSet,
        skill: &Skill,
        token: &CancelToken,
    ) -> Result<Option<Arc<FileList>>> {
        let must_be_trusted = inherited.must_be_trusted;
        if !inherited.is_closed && !must_be_trusted {
            return Ok(None);
        }
        let list = self.digests.list(skill, token)?;
        let name = set.registry.unversioned_name(skill);
        let is_listed =
            inherited.callees.iter().any(|(callee, digest)| *callee == name && *digest == list.digest());
        if inherited.is_closed && !is_listed {
            let sentence = format!(
                "the skill {name} is not run: it is not among the skills that the run counted on when it began, or has changed since"
            );
            return Err(SkillError::new(ErrorKind::Untrusted, sentence)
                .with_help("list it as skill:NAME where the calling skill requests permissions, and trust that skill again"));
        }
        if must_be_trusted && !(is_listed && inherited.covers_callees) {
            let facts = TrustFacts::new(|| self.skill_files(set, skill, token));
            let state = match &self.trust {
                Some(store) => self.trust_state(store, set, skill, &facts)?,
                None => TrustState::Trusted { by: TrustReason::Location },
            };
            if !state.is_trusted() {
                return Err(self.untrusted_error(set, skill, &state));
            }
        }
        Ok(Some(list))
    }

    /// Whether a skill is trusted by these records; `None` if it was read from other files than there are now.
    fn trust_as_read(
        &self,
        (store, records): (&TrustStore, &Result<Arc<TrustRecords>>),
        set: &SkillSet,
        skill: &Skill,
    ) -> Option<TrustState> {
        set.registry.skill_with_folder(skill.folder()).filter(|known| known.is_same_as_read(skill))?;
        let token = CancelToken::new();
        let facts = TrustFacts {
            records: OnceCell::from(records.clone()),
            reads_unrecorded: false,
            ..TrustFacts::new(|| self.skill_files(set, skill, &token))
        };
        let state = self.trust_state(store, set, skill, &facts);
        let state = state.unwrap_or_else(|error| TrustState::Untrusted { reason: Some(error.to_string()) });
        // Afterwards: nothing else was there while its files were compared with the records.
        skill.is_current(None).then_some(state)
    }

    /// Whether a skill with these files is trusted, and locked where the configuration demands it. Fails where the store is not
    /// used.
    fn trust_state(
        &self,
        store: &TrustStore,
        set: &SkillSet,
        skill: &Skill,
        facts: &TrustFacts<'_>,
    ) -> Result<TrustState> {
        let state = self.recorded_trust(store, set, skill, facts)?;
        if !state.is_trusted() || skill.scope() != Scope::Project || !self.requires_lock() {
            return Ok(state);
        }
        let locked = facts.files().map_err(Clone::clone).and_then(|files| {
            self.lock_files.require_in(self.project_of_skill(set, skill))?.require(files).map(drop)
        });
        Ok(match locked {
            Ok(()) => state,
            Err(error) => TrustState::Untrusted { reason: Some(error.message().to_owned()) },
        })
    }

    /// Whether a skill with these files is trusted by where it lies or by the records of the store.
    fn recorded_trust(
        &self,
        store: &TrustStore,
        set: &SkillSet,
        skill: &Skill,
        facts: &TrustFacts<'_>,
    ) -> Result<TrustState> {
        let by = |by| Ok(TrustState::Trusted { by });
        let Some(path) = skill.folder().disk_path() else { return by(TrustReason::Location) };
        if skill.scope() >= Scope::User {
            return by(TrustReason::Location);
        }
        // A root may be a link to another project, and a folder a link into another root.
        let real = canonical_folder(path)
            .map_err(|source| SkillError::io(format_args!("failed to open {}", path.display()), source))?;
        let is_in_project = self.folders.iter().any(|folder| real.starts_with(&folder.path));
        if skill.scope() == Scope::Explicit && !is_in_project && !self.is_named_in_project(skill, path) {
            return by(TrustReason::Location);
        }
        let records = facts.records(store)?;
        let contains =
            |folder: &ProjectIdentity| real.starts_with(Path::new(&folder.path)) && folder.is_current();
        if records.folders.iter().any(|trusted| contains(&trusted.folder)) {
            return by(TrustReason::Folder);
        }
        let project = ProjectIdentity::from_canonical(self.project_of_skill(set, skill))?;
        let is_recorded = |folder: String| records.skill(&project, &folder).is_some();
        if !facts.reads_unrecorded && !self.folder_in_project(set, skill).is_some_and(is_recorded) {
            return Ok(TrustState::Untrusted { reason: None });
        }
        let files = match facts.files() {
            Ok(files) => files,
            Err(error) => return Ok(TrustState::Untrusted { reason: Some(error.to_string()) }),
        };
        let Some(folder) = &files.folder else { return Ok(TrustState::Untrusted { reason: None }) };
        let known = records.skill(&project, folder);
        Ok(match known.filter(|known| known.skill == files.qualified_name) {
            None => TrustState::Untrusted { reason: None },
            Some(known) if known.digest == files.digest => TrustState::Trusted { by: TrustReason::Digest },
            Some(known) => TrustState::Changed { files: changed_files(store, known, files) },
        })
    }

    /// Whether whatever lies in the project is trusted: where it is trusted as a whole, and in engines without a trust store.
    pub(super) fn trusts_project(&self, project: &Path) -> bool {
        let Some(store) = &self.trust else { return true };
        let contains =
            |folder: &ProjectIdentity| project.starts_with(Path::new(&folder.path)) && folder.is_current();
        store.records().is_ok_and(|records| records.folders.iter().any(|trusted| contains(&trusted.folder)))
    }

    /// Whether the skill or its root was found by a path through a folder of the engine, wherever links there lead.
    fn is_named_in_project(&self, skill: &Skill, path: &Path) -> bool {
        let root = self.skills.roots().iter().nth(skill.root_rank()).map(|root| root.path.as_path());
        let leads_through = |path: &Path| {
            let Ok(path) = std::path::absolute(path) else { return true };
            path.ancestors().any(|above| {
                std::fs::canonicalize(above)
                    .is_ok_and(|real| self.folders.iter().any(|folder| real.starts_with(&folder.path)))
            })
        };
        leads_through(path) || root.is_none_or(leads_through)
    }

    /// The canonical path of the engine's folder in which the skill was found, or of the first.
    fn project_of_skill(&self, set: &SkillSet, skill: &Skill) -> &Path {
        let own = set.registry.folder_of_skill(skill).and_then(|index| self.folders.iter().nth(index));
        &own.unwrap_or(self.folders.first()).path
    }

    /// The folder of the skill relative to its project; `None` if it does not lie there, or its path is not UTF-8.
    pub(super) fn folder_in_project(&self, set: &SkillSet, skill: &Skill) -> Option<String> {
        skill.folder().disk_path()?.to_str()?;
        skill.folder_in(self.project_of_skill(set, skill))
    }

    /// A model reads it, so no text of the skill is in it: [`Engine::trust_state`] names files and reasons.
    fn untrusted_error(&self, set: &SkillSet, skill: &Skill, state: &TrustState) -> SkillError {
        let name = skill.qualified_name();
        let project = self.project_of_skill(set, skill).display().to_string();
        let why = match state {
            TrustState::Changed { files } => {
                let count = files.len();
                format!(
                    "has changed since it was trusted ({count} {})",
                    if count == 1 { "file" } else { "files" }
                )
            }
            TrustState::Untrusted { reason: Some(_) } => "cannot be trusted as it is".to_owned(),
            _ => "is not trusted".to_owned(),
        };
        SkillError::new(ErrorKind::Untrusted, format!("no model may run the skill {name}: it {why}"))
            .with_help(format!("look at the skills of {project}, and trust them"))
            .with_hint(Hint::Trust(project))
    }

    /// The digest of the files of a run as they are now.
    pub(super) fn current_digest(
        &self,
        (set, skill): (&SkillSet, &Skill),
        context: &SkillContext,
    ) -> Result<SkillDigest> {
        match context.caller() {
            None => Ok(self.skill_files(set, skill, context.cancel())?.digest),
            // A callee has the digest of its own files.
            Some(_) => Ok(self.digests.list(skill, context.cancel())?.digest()),
        }
    }

    /// Fails if the files of the run are not those with which it began: somebody was asked meanwhile.
    pub(super) fn require_unchanged(
        &self,
        (set, skill): (&SkillSet, &Skill),
        digest: SkillDigest,
        context: &SkillContext,
    ) -> Result<()> {
        if self.current_digest((set, skill), context)? == digest {
            return Ok(());
        }
        let sentence = format!("the skill {} is not run: its files changed before it started", skill.name());
        Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at it again, and run it again"))
    }
}

impl<'a> TrustFacts<'a> {
    fn new(read: impl Fn() -> Result<SkillFiles> + 'a) -> Self {
        Self {
            read: Box::new(read),
            files: OnceCell::new(),
            records: OnceCell::new(),
            reads_unrecorded: true,
        }
    }

    fn files(&self) -> Result<&SkillFiles, &SkillError> {
        self.files.get_or_init(&self.read).as_ref()
    }

    /// The records of the store, as they were when the first one asked.
    fn records(&self, store: &TrustStore) -> Result<Arc<TrustRecords>> {
        self.records.get_or_init(|| store.records()).clone()
    }

    /// The files, if anybody asked.
    fn into_files(self) -> Option<SkillFiles> {
        self.files.into_inner()?.ok()
    }
}

impl RunTrust {
    fn of_callee(skill: &Skill, list: Option<Arc<FileList>>) -> Self {
        let files = list.map(|files| SkillFiles {
            name: skill.name().to_owned(),
            qualified_name: String::new(),
            version: String::new(),
            folder: None,
            state: Vec::new(),
            packages: Vec::new(),
            digest: files.digest(),
            files,
            callees: Vec::new(),
        });
        Self { files, state: None, is_trusted: true, covers_callees: false, remembered: Vec::new() }
    }

    /// The list in which the script must be.
    pub(super) fn list(&self) -> Option<&FileList> {
        self.files.as_ref().map(|files| &*files.files)
    }

    /// Whether the run, or its trust, is for exactly these files.
    pub(super) fn is_for_these_files(&self, invocation: &Invocation) -> bool {
        let is_trusted_by_digest =
            matches!(self.state, Some(TrustState::Trusted { by: TrustReason::Digest }));
        is_trusted_by_digest
            || invocation.digest.is_some()
            || !self.remembered.is_empty()
            || self.state.is_none()
    }

    pub(super) fn digest(&self) -> Option<SkillDigest> {
        self.files.as_ref().map(|files| files.digest)
    }

    /// What is granted to the invoked run: without what only trusted skills have, if it is none, and with what is remembered; and what
    /// its callees inherit.
    pub(super) fn into_grants(
        self,
        mut grants: Vec<(Permission, GrantOrigin)>,
        (is_for_model, is_trusted_once): (bool, bool),
        has_digest: bool,
    ) -> (Vec<(Permission, GrantOrigin)>, Option<InheritedTrust>) {
        let is_configured = |origin: &GrantOrigin| matches!(origin, GrantOrigin::Configuration { .. });
        if !self.is_trusted || self.files.is_none() {
            grants.retain(|(_, origin)| !is_configured(origin));
        }
        let has_configured = grants.iter().any(|(_, origin)| is_configured(origin));
        let is_closed = !self.remembered.is_empty() || has_configured || has_digest;
        let inherited = (is_closed || is_for_model).then(|| InheritedTrust {
            must_be_trusted: is_for_model && !is_trusted_once,
            callees: self.files.as_ref().map(SkillFiles::callee_digests).unwrap_or_default(),
            is_closed,
            covers_callees: self.covers_callees,
        });
        grants.extend(self.remembered);
        (grants, inherited)
    }
}
