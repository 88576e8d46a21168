//! What a run has for the record of a plan's step, and whether it may take up what an earlier run recorded.

use std::path::Path;
use std::sync::Arc;

use super::{Providers, SkillContext};
use crate::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use crate::host::RunContext;
use crate::host::call_access::{CallAccess, CallRecorder, is_digest_of};
use crate::policy::{Permission, RunPermissions, SandboxMode};

/// Whether settings and unsaved files come from the same providers in both: what a run that only reads gets from providers.
pub fn have_same_values(one: &Providers, other: &Providers) -> bool {
    fn is_same<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
    is_same(one.config.as_ref(), other.config.as_ref()) && is_same(one.files.as_ref(), other.files.as_ref())
}

impl SkillContext {
    fn denials(&self) -> CallAccess {
        let denied = self.permissions().denied().iter().map(ToString::to_string).collect();
        CallAccess { denied, ..CallAccess::default() }
    }

    fn recorded_permissions(&self, is_meant: impl Fn(&Permission) -> bool) -> Vec<String> {
        let held = self.permissions().beyond_reading();
        held.iter().filter(|permission| is_meant(permission)).map(ToString::to_string).collect()
    }

    fn check_recorded_permission(&self, permission: &Permission) -> Result<()> {
        let need = permission.as_access();
        let has = || self.permissions().holds(permission);
        if has() {
            return Ok(());
        }
        self.ask_for_access(&need, "")?;
        if has() {
            return Ok(());
        }
        self.permissions().require(&need, format_args!("{} had {permission}", self.skill()))?;
        let help = format!("grant {permission}");
        let sentence = format!("{} had {permission}: not permitted; {help}", self.skill());
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help(help)
            .with_hint(Hint::Grant(permission.to_string()))
            .with_missing_permission(Some(permission.to_string())))
    }

    /// What is denied now may be what the call used.
    fn check_denials(&self, call: &CallAccess, recorded: &[Permission]) -> Result<()> {
        let is_new = |denied: &&Permission| !call.denied.iter().any(|known| *known == denied.to_string());
        let is_about =
            |denied: &&Permission| recorded.iter().any(|permission| permission.name() == denied.name());
        let mut denied = self.permissions().denied().iter();
        let Some(denied) = denied.find(|denied| is_new(denied) && is_about(denied)) else { return Ok(()) };
        let sentence = format!("the configuration denies {denied} to {} since", self.skill());
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help(format!("remove {denied} from the denied permissions of the configuration"))
            .with_missing_permission(Some(denied.to_string())))
    }

    fn check_recorded_sandbox(&self, call: &CallAccess) -> Result<()> {
        let Some(recorded) = &call.sandbox else { return Ok(()) };
        let recorded: SandboxMode = recorded.parse()?;
        let now = self.sandbox_mode();
        if now == recorded || now.stricter(recorded) == recorded {
            return Ok(());
        }
        let sentence = format!(
            "{} ran with the sandbox mode {recorded}, and the sandbox mode is {now} now",
            self.skill()
        );
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help(format!("run it with the sandbox mode {recorded}")))
    }

    fn check_recorded_secrets(&self, call: &CallAccess) -> Result<()> {
        if call.secrets.is_empty() {
            return Ok(());
        }
        // Settings are secret by their names or by passwords in them, so all of them are read as a script reads them.
        let recorder = Arc::<CallRecorder>::default();
        self.clone().with_call_recorder(Some(recorder.clone())).config_values()?;
        for (name, digests) in &call.secrets {
            let mut now = self.secret_values(name)?;
            now.extend(recorder.secret_values(self.run_id(), name));
            let is_given = |digest: &String| now.iter().any(|value| is_digest_of(digest, value));
            if !digests.iter().all(is_given) {
                let sentence =
                    format!("the secret {name} that {} was given is another one now", self.skill());
                return Err(SkillError::new(ErrorKind::Usage, sentence).with_hint(Hint::Journal));
            }
        }
        Ok(())
    }
}

/// What the calls of a run had, recorded in the journal of a plan, and checked where the plan goes on later.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait CallRecords: Sized {
    /// The journal path of this run's plan, if the caller wants a journal.
    fn journal_file(&self) -> Option<&Path>;

    /// What tells the project of a run with a journal from another one at the same path.
    fn journal_project(&self) -> Option<&str>;

    /// The same context for a step whose calls are recorded.
    fn with_call_recorder(self, recorder: Option<Arc<CallRecorder>>) -> Self;

    /// Where what this run has is recorded: for the nearest step with a journal that led to it.
    fn call_recorder(&self) -> Option<&CallRecorder>;

    /// Records what a call of this run had, where that is recorded.
    fn record_call(&self, call: CallAccess);

    /// Records that a call of this run used its permissions of these kinds.
    fn record_permissions(&self, is_meant: impl Fn(&Permission) -> bool);

    /// Records all that this run has for a call of which nobody recorded what it had: the host's own provider made it.
    fn record_unknown_call(&self);

    /// What this run has, for the record of the call that its caller made.
    fn access_of_call(&self) -> CallAccess;

    /// Whether this run may have what a call of an earlier run had. Whoever decides about permissions is asked again for those that
    /// are missing.
    fn check_access(&self, call: &CallAccess) -> Result<()>;

    /// Whether this run may make a call again that an earlier run made.
    fn check_call(&self, call: &CallAccess) -> Result<()>;
}

#[doc(hidden)]
impl CallRecords for SkillContext {
    fn journal_file(&self) -> Option<&Path> {
        self.inner.journal.as_deref().map(|journal| &*journal.file)
    }

    fn journal_project(&self) -> Option<&str> {
        self.inner.journal.as_deref()?.project.as_deref()
    }

    fn with_call_recorder(self, recorder: Option<Arc<CallRecorder>>) -> Self {
        Self { recorder, ..self }
    }

    fn call_recorder(&self) -> Option<&CallRecorder> {
        std::iter::successors(Some(self), |ctx| ctx.caller()).find_map(|ctx| ctx.recorder.as_deref())
    }

    fn record_call(&self, call: CallAccess) {
        if let Some(recorder) = self.call_recorder() {
            recorder.add_call(self.run_id(), call);
        }
    }

    fn record_permissions(&self, is_meant: impl Fn(&Permission) -> bool) {
        if self.call_recorder().is_some() {
            self.record_call(CallAccess {
                permissions: self.recorded_permissions(is_meant),
                ..self.denials()
            });
        }
    }

    fn record_unknown_call(&self) {
        if self.call_recorder().is_some_and(|recorder| !recorder.has_calls(self.run_id())) {
            self.record_permissions(|_| true);
        }
    }

    fn access_of_call(&self) -> CallAccess {
        let taken = |recorder: &CallRecorder| {
            (recorder.take_calls(self.run_id()), recorder.take_secrets(self.run_id()))
        };
        let (calls, secrets) = self.call_recorder().map(taken).unwrap_or_default();
        let permissions = self.recorded_permissions(|_| true);
        CallAccess { permissions, secrets, calls, ..self.denials() }
    }

    fn check_access(&self, call: &CallAccess) -> Result<()> {
        let mut recorded = Vec::new();
        for text in &call.permissions {
            let permission: Permission = text.parse()?;
            self.check_recorded_permission(&permission)?;
            recorded.push(permission);
        }
        self.check_denials(call, &recorded)?;
        self.check_recorded_sandbox(call)?;
        self.check_recorded_secrets(call)?;
        for nested in &call.calls {
            self.check_call(nested)?;
        }
        Ok(())
    }

    fn check_call(&self, call: &CallAccess) -> Result<()> {
        if call.skill.is_none() {
            return self.check_access(call);
        }
        match &self.providers().skills {
            Some(skills) => skills.check_call(self, call),
            None => Err(SkillError::new(
                ErrorKind::Unavailable,
                "this host does not provide other skills to skills",
            )),
        }
    }
}
