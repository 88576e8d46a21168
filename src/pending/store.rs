//! The store of pending calls: one file for each, in the user's data folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::{AuditActor, AuditFace, AuditKind, AuditRecord, AuditWho, AuditWriter};
use crate::store_folder::{StoreFolder, StoreName};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::metier_dirs;
use metier_core::policy::Timestamp;

/// How long a call waits, in seconds: a day.
const LIFETIME: u64 = 24 * 60 * 60;

/// Maximum number of calls that wait, and of those that one caller has in one project: one client must not lock out the others.
const MAX_CALLS: usize = 1_000;
const MAX_OWN_CALLS: usize = 100;

/// Maximum bytes of a call: nobody reads more before they agree.
const MAX_BYTES: usize = 64 << 10;

const NAME: StoreName = StoreName {
    title: "the store of pending calls",
    consequence: "no call waits",
    lock_file: "pending.lock",
};

const VERSION: u32 = 1;

/// The digits of an id.
const ID_DIGITS: usize = 32;

/// The calls of one user that wait for a decision.
///
/// Every change is made under a lock and is on disk when it returns. Whoever can write its folder can decide.
#[derive(Clone, Debug)]
pub struct PendingStore {
    folder: Arc<Path>,
    audit: Option<AuditWriter>,
}

/// Whether a pending call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingState {
    /// Nobody has decided.
    Waiting,
    /// It may be made once.
    Approved,
    /// It may not be made.
    Denied,
}

/// A call that waits for a decision, without its secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingCall {
    /// Its name: 32 hexadecimal digits. An equal call has the same.
    pub id: String,
    /// What was decided.
    pub state: PendingState,
    /// The qualified name of the skill.
    pub skill: String,
    /// The digest of all files of the skill and of the skills that it calls.
    pub digest: String,
    /// The tool that is called; `None` for the skill itself.
    pub tool: Option<String>,
    /// Why a person has to agree to each such call; `None` where only permissions are missing.
    pub reason: Option<String>,
    /// The skills that called one another to get here, the invoked one first.
    pub callers: Vec<String>,
    /// Who calls, in the words of the program.
    pub caller: String,
    /// The project that it works on.
    pub project: PathBuf,
    /// The script that runs, by its path in the skill's folder.
    pub script: String,
    /// The input, without secrets.
    pub input: Option<Value>,
    /// The arguments of its script, without secrets.
    pub args: Vec<String>,
    /// Its standard input, without secrets.
    pub stdin: Option<String>,
    /// The names of the variables that the caller sets.
    pub variables: Vec<String>,
    /// How strictly its sandbox is required.
    pub sandbox_mode: String,
    /// What it asks for and nobody granted.
    pub permissions: Vec<String>,
    /// What it has already.
    pub grants: Vec<String>,
    /// When it was made first.
    pub created: Timestamp,
    /// When it is forgotten.
    pub expires: Timestamp,
    /// The digest of everything that another call would have otherwise, the exact input among it.
    call: String,
    version: u32,
}

/// What the store says about a call that is to be made now.
pub(super) enum Decision {
    /// It is made now, and no second time.
    Approved,
    Denied,
    /// Until this time.
    Waiting(Timestamp),
}

impl PendingCall {
    /// A call that nobody has decided about. Equal calls have the same digest `call`, in hexadecimal digits.
    pub(super) fn new(call: String, facts: CallFacts) -> Self {
        let now = Timestamp::now();
        Self {
            id: call.get(..ID_DIGITS).unwrap_or_default().to_owned(),
            state: PendingState::Waiting,
            skill: facts.skill,
            digest: facts.digest,
            tool: facts.tool,
            reason: facts.reason,
            callers: facts.callers,
            caller: facts.caller,
            project: facts.project,
            script: facts.script,
            input: facts.input,
            args: facts.args,
            stdin: facts.stdin,
            variables: facts.variables,
            sandbox_mode: facts.sandbox_mode,
            permissions: facts.permissions,
            grants: facts.grants,
            created: now,
            expires: Timestamp::from_seconds(now.seconds() + LIFETIME),
            call,
            version: VERSION,
        }
    }

    /// Whether it is forgotten, or was not written by this program.
    fn is_expired(&self) -> bool {
        let now = Timestamp::now();
        self.expires <= now
            || self.created > now
            || self.expires > Timestamp::from_seconds(self.created.seconds() + LIFETIME)
    }
}

/// What a person is shown of a call.
pub(super) struct CallFacts {
    pub(super) skill: String,
    pub(super) digest: String,
    pub(super) tool: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) callers: Vec<String>,
    pub(super) caller: String,
    pub(super) project: PathBuf,
    pub(super) script: String,
    pub(super) stdin: Option<String>,
    pub(super) variables: Vec<String>,
    pub(super) sandbox_mode: String,
    pub(super) input: Option<Value>,
    pub(super) args: Vec<String>,
    pub(super) permissions: Vec<String>,
    pub(super) grants: Vec<String>,
}

impl PendingStore {
    /// The store of this user, in the folder that `METIER_DATA_DIR` names or in that of metier in the user's data folder;
    /// `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        metier_dirs::pending_dir().map(Self::new).ok_or_else(|| {
            let sentence = "there is no folder for pending calls: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        })
    }

    /// The store in this folder, which need not exist. It must not lie in a project, where scripts could write to it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        // A slash at the end would follow a link.
        let folder: PathBuf = folder.into().components().collect();
        Self { folder: folder.into(), audit: None }
    }

    /// The same store, whose decisions are recorded there, each before it is made. Where records are required, a decision that cannot be
    /// recorded fails.
    pub fn with_audit(self, writer: AuditWriter) -> Self {
        Self { audit: Some(writer), ..self }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The calls that are not forgotten, the oldest first. A file that cannot be read is left out, with a warning in the log.
    pub fn list(&self) -> Result<Vec<PendingCall>> {
        let Some(folder) = StoreFolder::open(&self.folder, NAME)? else { return Ok(Vec::new()) };
        let mut calls = Vec::new();
        for id in ids(&folder)? {
            match read(&folder, &id) {
                Ok(call) => calls.extend(call.filter(|call| !call.is_expired())),
                Err(error) => tracing::warn!(id, "a pending call cannot be read: {error}"),
            }
        }
        calls.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        Ok(calls)
    }

    /// The call with that id; `usage` if there is none.
    pub fn find(&self, id: &str) -> Result<PendingCall> {
        let found = match StoreFolder::open(&self.folder, NAME)? {
            Some(folder) if is_id(id) => read(&folder, id)?,
            _ => None,
        };
        found.filter(|call| !call.is_expired()).ok_or_else(|| missing_call_error(id))
    }

    /// Permits exactly the call that was shown, once; `usage` if it does not wait any more, or somebody has decided about it.
    pub fn approve(&self, shown: &PendingCall) -> Result<PendingCall> {
        self.set_state(&shown.id, PendingState::Approved, |now| *now == *shown)
    }

    /// Refuses that call until it is forgotten; `usage` if there is no such call, or somebody has refused it. An approval that was not
    /// used is taken back.
    pub fn deny(&self, id: &str) -> Result<PendingCall> {
        self.set_state(id, PendingState::Denied, |_| true)
    }

    fn set_state(
        &self,
        id: &str,
        state: PendingState,
        is_meant: impl Fn(&PendingCall) -> bool,
    ) -> Result<PendingCall> {
        self.find(id)?;
        let folder = StoreFolder::create(&self.folder, NAME)?;
        let _locked = folder.lock()?;
        // Another process may have decided, or the call may have been made.
        let now =
            read(&folder, id)?.filter(|call| !call.is_expired()).ok_or_else(|| missing_call_error(id))?;
        let is_open = match state {
            PendingState::Denied => now.state != PendingState::Denied,
            _ => now.state == PendingState::Waiting,
        };
        if !is_open {
            let word = if now.state == PendingState::Denied { "refused" } else { "approved" };
            let sentence = format!("the pending call {id} was {word} already");
            return Err(SkillError::new(ErrorKind::Usage, sentence));
        }
        if !is_meant(&now) {
            let sentence = format!("the pending call {id} is another one than the one that was shown");
            return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("look at it again"));
        }
        let call = PendingCall { state, ..now };
        self.record_decision(&call)?;
        write(&folder, &call)?;
        Ok(call)
    }

    /// Uses the approval of an equal call up, or writes this one down.
    pub(super) fn decide(&self, call: &PendingCall) -> Result<Decision> {
        let folder = StoreFolder::create(&self.folder, NAME)?;
        let _locked = folder.lock()?;
        let known = read(&folder, &call.id)?.filter(|known| !known.is_expired() && known.call == call.call);
        if let Some(known) = known {
            return Ok(match known.state {
                PendingState::Approved => {
                    // If this process dies now, the approval is lost, and never used twice.
                    let failed =
                        |source| SkillError::io("failed to use the approval of a pending call", source);
                    folder.remove(&file_name(&call.id)).and_then(|()| folder.sync()).map_err(failed)?;
                    Decision::Approved
                }
                PendingState::Denied => Decision::Denied,
                PendingState::Waiting => Decision::Waiting(known.expires),
            });
        }
        check_capacity(&folder, call)?;
        write(&folder, call)?;
        Ok(Decision::Waiting(call.expires))
    }

    fn record_decision(&self, call: &PendingCall) -> Result<()> {
        let Some(writer) = &self.audit else { return Ok(()) };
        let client = writer.default_client().clone();
        let actor = if client.face == AuditFace::Library { AuditActor::Program } else { AuditActor::Person };
        let mut record = AuditRecord::new(AuditKind::CallDecided, AuditWho::new(actor, client));
        record.skill = Some(call.skill.clone());
        record.digest = Some(call.digest.clone());
        record.tool.clone_from(&call.tool);
        record.script = Some(call.script.clone());
        record.project = Some(call.project.clone());
        record.input.clone_from(&call.input);
        record.args.clone_from(&call.args);
        record.permissions.clone_from(&call.permissions);
        record.target = Some(call.id.clone());
        let outcome = if call.state == PendingState::Approved { "approved" } else { "denied" };
        record.outcome = Some(outcome.to_owned());
        if let Some(warning) = writer.write_before(&record)? {
            tracing::warn!("{warning}");
        }
        Ok(())
    }
}

/// Removes what is forgotten; fails if too many calls wait.
fn check_capacity(folder: &StoreFolder, call: &PendingCall) -> Result<()> {
    let (mut waiting, mut own, mut refused) = (0, 0, Vec::new());
    for id in ids(folder)? {
        match read(folder, &id) {
            Ok(Some(other)) if other.is_expired() => folder.remove(&file_name(&id)).unwrap_or_default(),
            Ok(Some(other)) if other.state == PendingState::Denied => refused.push((other.created, id)),
            Ok(Some(other)) => {
                waiting += 1;
                own += usize::from(other.caller == call.caller && other.project == call.project);
            }
            Ok(None) => {}
            Err(_) => waiting += 1,
        }
    }
    refused.sort_unstable();
    let surplus = (refused.len() + 1).saturating_sub(MAX_CALLS);
    for (_, id) in refused.iter().take(surplus) {
        folder.remove(&file_name(id)).unwrap_or_default();
    }
    let most = if own >= MAX_OWN_CALLS { MAX_OWN_CALLS } else { MAX_CALLS };
    if own < MAX_OWN_CALLS && waiting < MAX_CALLS {
        return Ok(());
    }
    let whose = if most == MAX_OWN_CALLS { " of this caller" } else { "" };
    let sentence = format!("{most} calls{whose} wait for a decision already, so no further one can");
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help("decide about some of them")
        .with_hint(Hint::PendingCalls))
}

/// The error of a call that waits.
pub(super) fn pending_error(call: &PendingCall, until: Timestamp) -> SkillError {
    let what = match &call.tool {
        Some(tool) => format!("the tool {tool} of skill {}", call.skill),
        None => format!("the skill {}", call.skill),
    };
    let sentence = format!(
        "{what} was not called: a person decides about it until {until}, as the pending call {}; nothing of it has run",
        call.id
    );
    SkillError::new(ErrorKind::Pending, sentence)
        .with_help("make the same call again when it is approved")
        .with_hint(Hint::Pending(call.id.clone()))
}

pub(super) fn denied_error(call: &PendingCall) -> SkillError {
    let sentence =
        format!("a person has refused this call of the skill {}, the pending call {}", call.skill, call.id);
    SkillError::new(ErrorKind::Denied, sentence).with_help("call it with something else, or not at all")
}

fn missing_call_error(id: &str) -> SkillError {
    let sentence =
        format!("there is no pending call {id:?}: it was made, or has expired, or is of another user");
    SkillError::new(ErrorKind::Usage, sentence)
        .with_help("list the pending calls")
        .with_hint(Hint::PendingCalls)
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn file_name(id: &str) -> String {
    format!("{id}.json")
}

fn ids(folder: &StoreFolder) -> Result<Vec<String>> {
    let names =
        folder.names().map_err(|source| SkillError::io("failed to list the pending calls", source))?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| is_id(id));
    Ok(ids.map(str::to_owned).collect())
}

fn read(folder: &StoreFolder, id: &str) -> Result<Option<PendingCall>> {
    let Some((text, _)) = folder.read(&file_name(id))? else { return Ok(None) };
    let damaged = |reason: &dyn std::fmt::Display| {
        let sentence = format!("the pending call {id} cannot be read: {reason}");
        SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("remove its file, and make the call again")
    };
    let call: PendingCall = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
    if call.version != VERSION || call.id != id {
        return Err(damaged(&"it is of another version of metier"));
    }
    Ok(Some(call))
}

fn write(folder: &StoreFolder, call: &PendingCall) -> Result<()> {
    let failed = |source| SkillError::io("failed to write a pending call", source);
    let text = serde_json::to_vec(call).map_err(|error| failed(error.into()))?;
    if text.len() > MAX_BYTES {
        let sentence = format!(
            "no person can decide about this call of the skill {}: its input is too large to be shown ({} bytes of at most {MAX_BYTES})",
            call.skill,
            text.len()
        );
        return Err(SkillError::new(ErrorKind::Denied, sentence).with_help("call it with less"));
    }
    folder.replace(&file_name(&call.id), &text, None).map_err(failed)
}
