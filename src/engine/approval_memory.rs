//! What an approver answered for longer than one run, and that its answer holds only for the files that it was asked about.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::audit::AuditWriter;
use crate::engine::audit::record_question;
use crate::trust::{ProjectIdentity, TrustStore};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{
    ApprovalNeed, ApprovalRequest, Approver, Providers, RunContext, RunMessages, SkillContext, SkillProvider,
};
use metier_core::policy::{
    Approval, ArgumentPattern, Permission, RunPermissions, SkillDigest, plain_json, secret_scope,
};

/// The answers that hold for the session: as long as the engine, which owns them, or a clone of it lives.
pub(super) struct ApprovalMemory {
    trust: Option<TrustStore>,
    /// The skills of the engine, which know their digests where the provider of a run does not.
    skills: Arc<dyn SkillProvider>,
    audit: Option<AuditWriter>,
    /// The oldest first.
    approvals: Mutex<VecDeque<SessionApproval>>,
}

/// Beyond it, the oldest answers are forgotten.
const MAX_SESSION_APPROVALS: usize = 1_024;

struct SessionApproval {
    asker: Asker,
    permission: Permission,
    arguments: ArgumentPattern,
}

/// Whom an answer is for, and who gave it: the skills that called one another, the invoked one first, each with the digest of its
/// files, and the project.
#[derive(Clone)]
struct Asker {
    skills: Vec<(String, Option<String>)>,
    /// Not only its path: another folder that takes its place is another project.
    project: Option<(PathBuf, Option<ProjectIdentity>)>,
    is_for_model: bool,
    /// Weak, so that its address means no other one as long as this is kept.
    approver: Weak<dyn Approver>,
}

/// An approver that is asked only about what it did not answer for the session, and whose yes counts only if no file of the skill
/// changed while it was asked.
struct RememberingApprover {
    approver: Arc<dyn Approver>,
    memory: Weak<ApprovalMemory>,
}

/// What the trust store names as the one that recorded a grant.
const RECORDED_BY: &str = "approval";

impl ApprovalMemory {
    /// Nothing remembered yet; what is approved for good is recorded in the store.
    pub(super) fn new(
        trust: Option<TrustStore>,
        skills: Arc<dyn SkillProvider>,
        audit: Option<AuditWriter>,
    ) -> Self {
        Self { trust, skills, audit, approvals: Mutex::default() }
    }

    /// These providers with an approver whose answers are remembered here.
    pub(super) fn for_providers(self: &Arc<Self>, mut providers: Providers) -> Providers {
        let remembering = |approver| -> Arc<dyn Approver> {
            Arc::new(RememberingApprover { approver, memory: Arc::downgrade(self) })
        };
        providers.approver = providers.approver.map(remembering);
        providers
    }

    fn is_approved(&self, asker: &Asker, permission: &Permission, ctx: &SkillContext) -> bool {
        let Some(arguments) = ctx.permissions().arguments() else { return false };
        let approvals = self.approvals.lock().unwrap_or_else(PoisonError::into_inner);
        approvals.iter().any(|known| {
            known.permission == *permission
                && known.asker.is_same(asker)
                && known.arguments.fits(arguments.input.as_ref(), &arguments.args)
        })
    }

    /// Records the permissions in the trust store, if there is one. What was asked for a skill that another one calls was approved
    /// for that call, so it is not recorded.
    fn record(
        &self,
        ctx: &SkillContext,
        asker: &Asker,
        permissions: &[Permission],
        arguments: &ArgumentPattern,
    ) {
        let Some(store) = &self.trust else { return };
        let recorded = || {
            let called =
                || SkillError::new(ErrorKind::Unavailable, "it was asked for a skill that another one calls");
            let nameless = || {
                SkillError::new(ErrorKind::Unavailable, "the project or the digest of the skill is unknown")
            };
            if ctx.caller().is_some() {
                return Err(called());
            }
            if !arguments.is_any() && holds_secret(ctx, arguments)? {
                return Err(SkillError::new(
                    ErrorKind::Denied,
                    "the pattern of its arguments holds a secret",
                ));
            }
            let digest: SkillDigest = asker.digest().ok_or_else(nameless)?.parse()?;
            let project = asker.project.as_ref().and_then(|(_, identity)| identity.as_ref());
            let project = project.ok_or_else(nameless)?;
            let pattern = if arguments.is_any() { Value::Null } else { arguments.to_json() };
            store.grant_with_arguments(
                (ctx.skill(), digest),
                Some(project),
                permissions,
                &pattern,
                RECORDED_BY,
            )
        };
        if let Err(error) = recorded() {
            ctx.warn(format!("the approval holds for this session only: {error}"));
        }
    }

    fn remember(&self, asker: &Asker, permission: &Permission, arguments: &ArgumentPattern) {
        let mut approvals = self.approvals.lock().unwrap_or_else(PoisonError::into_inner);
        if approvals.len() >= MAX_SESSION_APPROVALS {
            approvals.pop_front();
        }
        approvals.push_back(SessionApproval {
            asker: asker.clone(),
            permission: permission.clone(),
            arguments: arguments.clone(),
        });
    }
}

impl Asker {
    /// The skills of the run as they are on disk now.
    fn of_run(ctx: &SkillContext, own_skills: &dyn SkillProvider, approver: &Arc<dyn Approver>) -> Self {
        let mut skills: Vec<_> = std::iter::successors(Some(ctx), |ctx| ctx.caller())
            .map(|ctx| {
                let provided = ctx.providers().skills.as_ref().and_then(|skills| skills.digest(ctx));
                let digest = provided.or_else(|| own_skills.digest(ctx));
                (ctx.qualified_name().unwrap_or(ctx.skill()).to_owned(), digest)
            })
            .collect();
        skills.reverse();
        Self {
            skills,
            project: ctx
                .project_root()
                .map(|root| (root.to_owned(), ProjectIdentity::from_canonical(root).ok())),
            is_for_model: ctx.facts().is_for_model,
            approver: Arc::downgrade(approver),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.skills == other.skills
            && self.project == other.project
            && self.is_for_model == other.is_for_model
            && self.approver.ptr_eq(&other.approver)
    }

    /// Fails if the files of a skill are not known: nobody would notice that they changed.
    fn require_digests(&self) -> Result<()> {
        let Some((name, _)) = self.skills.iter().find(|(_, digest)| digest.is_none()) else { return Ok(()) };
        let sentence = format!(
            "nobody can be asked for the skill {name}: its files cannot be read completely, so nobody would know whether they changed"
        );
        Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("grant what it needs instead"))
    }

    /// The digest of the skill that asks.
    fn digest(&self) -> Option<String> {
        self.skills.last().and_then(|(_, digest)| digest.clone())
    }

    /// The first skill whose files differ.
    fn changed_skill<'a>(&'a self, now: &Self) -> Option<&'a str> {
        let mut both = self.skills.iter().zip(&now.skills);
        both.find(|(before, after)| before != after).map(|((name, _), _)| name.as_str())
    }
}

impl Approver for RememberingApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let (started, limit) = (Instant::now(), self.approver.time_limit());
        let gone = || SkillError::new(ErrorKind::Unavailable, "the engine of this run is gone");
        let memory = self.memory.upgrade().ok_or_else(gone)?;
        let asker = Asker::of_run(ctx, &*memory.skills, &self.approver);
        asker.require_digests()?;
        let open: Vec<Permission> = request
            .need
            .permissions()
            .unwrap_or_default()
            .iter()
            .filter(|permission| !memory.is_approved(&asker, permission, ctx))
            .cloned()
            .collect();
        let need = match &request.need {
            ApprovalNeed::RepeatedStep { .. } | ApprovalNeed::Review { .. } => request.need.clone(),
            // Whatever was permitted before: somebody agrees to each call.
            ApprovalNeed::Call { reason, .. } => {
                ApprovalNeed::Call { permissions: open.clone(), reason: *reason }
            }
            _ if open.is_empty() => return Ok(Approval::Once),
            ApprovalNeed::Start { .. } => ApprovalNeed::Start { permissions: open.clone() },
            need => need.clone(),
        };
        let mut request = request.clone();
        request.digest = asker.digest();
        request.need = need;
        // Nobody waits for a later answer any more.
        let is_late = || started.elapsed() >= limit || ctx.cancel().is_cancelled();
        let approval = record_question(memory.audit.as_ref(), ctx, &request, || {
            let approval = self.approver.approve(ctx, &request)?;
            Ok(if is_late() { Approval::No } else { approval })
        })?;
        if approval == Approval::No {
            return Ok(Approval::No);
        }
        if let Some(skill) = asker.changed_skill(&Asker::of_run(ctx, &*memory.skills, &self.approver)) {
            return Err(changed_error(skill));
        }
        let arguments = match &approval {
            Approval::Session => Some(ArgumentPattern::any()),
            Approval::Always(arguments) => Some(arguments.clone()),
            _ => None,
        };
        let is_remembered = !open.is_empty() && !matches!(request.need, ApprovalNeed::Call { .. });
        let Some(arguments) = arguments.filter(|_| is_remembered) else { return Ok(approval) };
        if matches!(approval, Approval::Always(_)) {
            memory.record(ctx, &asker, &open, &arguments);
        }
        for permission in &open {
            memory.remember(&asker, permission, &arguments);
        }
        Ok(approval)
    }

    fn time_limit(&self) -> Duration {
        self.approver.time_limit()
    }
}

/// Whether a secret of the run is in the pattern, also one that its skill may read and has not read yet.
fn holds_secret(ctx: &SkillContext, pattern: &ArgumentPattern) -> Result<bool> {
    let granted = ctx.permissions().effective();
    for (name, _) in granted.iter().filter_map(secret_scope) {
        if let Some(secrets) = &ctx.providers().secrets
            && let Some(value) = secrets.secret(ctx, name)?
        {
            ctx.learn_secret(name, &value);
        }
    }
    Ok(ctx.redaction().holds_secret(&pattern.to_json()) || ctx.redaction().holds_secret(&plain_json(pattern)))
}

fn changed_error(skill: &str) -> SkillError {
    let sentence = format!(
        "files of the skill {skill} changed while it was asked whether it may go on, so the answer does not count"
    );
    SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at what changed, and run it again")
}
