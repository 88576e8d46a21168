//! The approver of calls that nobody can be asked about now: it looks the answer up, or writes the question down.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::store::{CallFacts, Decision, PendingCall, PendingStore, denied_error, pending_error};
use crate::trust::ProjectIdentity;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{ApprovalNeed, ApprovalRequest, Approver, RunContext, RunMessages, SkillContext};
use metier_core::policy::{
    Approval, Permission, RunArguments, RunPermissions, SandboxMode, SkillDigest, secret_scope,
};
use metier_core::strict_json::canonical_text;

/// Decides as a person did about an equal call.
pub(crate) struct PendingApprover {
    store: PendingStore,
    /// Who calls, for a person to read.
    caller: String,
}

impl PendingApprover {
    pub(crate) fn new(store: PendingStore, caller: String) -> Self {
        Self { store, caller }
    }

    fn call(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<PendingCall> {
        let unknown = |what: &str| {
            let sentence = format!("this call cannot wait for a person: {what}");
            SkillError::new(ErrorKind::Denied, sentence).with_help("call it where somebody can answer")
        };
        let digest = request.digest.clone().ok_or_else(|| unknown("the files of its skill are not known"))?;
        let project = request.project.clone().ok_or_else(|| unknown("it has no project"))?;
        let identity = ProjectIdentity::from_canonical(&project)?.to_string();
        let texts = |permissions: &[Permission]| -> Vec<String> {
            permissions.iter().map(ToString::to_string).collect()
        };
        let permissions = texts(request.need.permissions().unwrap_or_default());
        let reason = match &request.need {
            ApprovalNeed::Call { reason, .. } => serde_json::to_value(reason).ok(),
            _ => None,
        };
        let reason = reason.as_ref().and_then(|reason| reason.as_str()).map(str::to_owned);
        if request.sandbox_mode == SandboxMode::Off {
            return Err(unknown("it would run without a sandbox"));
        }
        if request.has_stream {
            return Err(unknown("its standard input is a stream, which nobody can be shown"));
        }
        let mut secrets = ctx.learn_granted_secrets();
        secrets.extend(requested_secrets(ctx, request.need.permissions().unwrap_or_default()));
        let redaction = ctx.redaction();
        let arguments = ctx.permissions().arguments();
        let input = arguments.and_then(|arguments| arguments.input.clone());
        let args = arguments.iter().flat_map(|arguments| &arguments.args);
        let facts = CallFacts {
            skill: request.qualified_name.clone().unwrap_or_else(|| request.skill.clone()),
            digest,
            tool: request.tool.as_ref().map(|tool| tool.name.clone()),
            reason,
            callers: request.callers.clone(),
            caller: self.caller.clone(),
            project,
            script: request.script.clone(),
            stdin: ctx.stdin_text().map(|text| redaction.text(text.to_owned()).into_inner()),
            variables: request.variables.clone(),
            sandbox_mode: request.sandbox_mode.to_string(),
            input: input.map(|input| redaction.value(input).into_inner()),
            args: args.map(|arg| redaction.text(arg.clone()).into_inner()).collect(),
            permissions,
            grants: texts(&request.grants),
        };
        // The exact input: the one that is shown may have lost its secrets.
        let exact = arguments
            .map(|RunArguments { input, args, script, source, .. }| json!([input, args, script, source]));
        let callers: Vec<_> = std::iter::successors(ctx.caller(), |ctx| ctx.caller())
            .map(SkillContext::qualified_name)
            .collect();
        let call = json!([
            facts.skill,
            facts.digest,
            facts.tool,
            facts.reason,
            callers,
            identity,
            exact,
            ctx.circumstances()?,
            secrets,
            facts.permissions,
            facts.grants,
            ctx.facts().is_for_model,
        ]);
        let digest = SkillDigest::new(Sha256::digest(canonical_text(&call)).into()).to_string();
        let digits = digest.rsplit(':').next().unwrap_or_default().to_owned();
        Ok(PendingCall::new(digits, facts))
    }
}

/// The secrets that the call asks for and was not granted yet: they may stand in its input. Their values are redacted from now on.
fn requested_secrets(ctx: &SkillContext, asked: &[Permission]) -> Vec<(String, String)> {
    let names = asked.iter().filter_map(secret_scope);
    let found = names.filter_map(|(name, _)| {
        let value = ctx.providers().secrets.as_ref()?.secret(ctx, name).ok()??;
        ctx.learn_secret(name, &value);
        Some((name.to_owned(), value))
    });
    found.collect()
}

impl Approver for PendingApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        if let ApprovalNeed::Review { step, .. } = &request.need {
            let sentence = format!(
                "the review {step} cannot wait for a person: the steps before it have run, and the copy of the project with their changes ends with the run"
            );
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("run the plan where a person can answer, or look at its changes in a preview"));
        }
        // What is asked for in the midst of a run cannot wait: a part of it is done.
        if !matches!(request.need, ApprovalNeed::Start { .. } | ApprovalNeed::Call { .. }) {
            return Ok(Approval::No);
        }
        // Its value is there already, by a call to which a person agreed.
        if ctx.facts().is_completed_call {
            return Ok(Approval::Once);
        }
        let call = self.call(ctx, request)?;
        match self.store.decide(&call)? {
            Decision::Approved => Ok(Approval::Once),
            Decision::Denied => Err(denied_error(&call)),
            Decision::Waiting(until) => Err(pending_error(&call, until)),
        }
    }
}
