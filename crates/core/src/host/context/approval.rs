//! The questions of a run to its approver, and what follows from the answers.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use super::SkillContext;
use super::approval_request::{ApprovalNeed, ApprovalRequest, ConsentReason};
use crate::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use crate::host::catch_panic::catch_panic;
use crate::host::outcome::ChangesReport;
use crate::host::provider_thread::run_on_provider_thread;
use crate::host::{RunContext, RunMessages};
use crate::policy::{Access, Answer, Approval, RunPermissions, SandboxMode};

impl SkillContext {
    /// Asks the approver for a permission that is missing; returns whether the access is allowed now. Fails if the run stops
    /// while it waits.
    pub(crate) fn ask_for_access(&self, need: &Access, target: &str) -> Result<bool> {
        if IS_ASKED.get() {
            return Ok(false);
        }
        let Some(permission) = self.permissions().approvable(need) else { return Ok(false) };
        let asked = ApprovalNeed::Permission {
            permission: permission.clone(),
            target: (!target.is_empty()).then(|| target.to_owned()),
        };
        self.permissions().decide(&[permission], self.cancel(), || self.ask_approver(asked))?;
        Ok(self.permissions().allows(need))
    }

    /// The approver's answer.
    fn ask_approver(&self, need: ApprovalNeed) -> Answer {
        let Some(approver) = self.providers().approver.clone() else { return Answer::No };
        let callers = self.caller_names();
        let wanted = match &need {
            ApprovalNeed::Start { permissions } | ApprovalNeed::Call { permissions, .. } => {
                permissions.as_slice()
            }
            ApprovalNeed::Permission { permission, .. } => std::slice::from_ref(permission),
            ApprovalNeed::RepeatedStep { .. } | ApprovalNeed::Review { .. } => &[],
        };
        let redaction = self.redaction();
        let arguments = self.permissions().arguments();
        let request = ApprovalRequest {
            run: self.run_id(),
            skill: self.skill().to_owned(),
            qualified_name: self.qualified_name().map(str::to_owned),
            digest: None,
            callers,
            project: self.project_root().map(PathBuf::from),
            input: arguments
                .and_then(|arguments| arguments.input.clone())
                .map(|input| redaction.value(input).into_inner()),
            args: arguments
                .iter()
                .flat_map(|arguments| arguments.args.iter())
                .map(|arg| redaction.text(arg.clone()).into_inner())
                .collect(),
            tool: arguments.and_then(|arguments| arguments.tool.clone()),
            script: arguments.map(|arguments| arguments.script.clone()).unwrap_or_default(),
            stdin: self.stdin_text().map(|text| redaction.text(text.to_owned()).into_inner()),
            has_stream: self.has_stdin_source() && self.stdin_text().is_none(),
            variables: self.variable_names(),
            sandbox_mode: self.sandbox_mode(),
            grants: self.permissions().effective(),
            requested_in: self.permissions().request_files(wanted),
            need,
        };
        let (ctx, started) = (self.clone(), Instant::now());
        let limit = catch_panic("the approver", ErrorKind::Unavailable, || Ok(approver.time_limit()));
        let Ok(limit) = limit else { return Answer::No };
        let permit = self.thread_budget().try_call_provider();
        let answer = run_on_provider_thread(self.cancel(), permit, limit, move || {
            IS_ASKED.set(true);
            let answer =
                catch_panic("the approver", ErrorKind::Unavailable, || approver.approve(&ctx, &request));
            IS_ASKED.set(false);
            answer
        });
        match answer {
            Ok(Approval::No) => Answer::No,
            Ok(_) => Answer::Yes,
            Err(error)
                if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Untrusted | ErrorKind::Pending) =>
            {
                Answer::Denied(error)
            }
            Err(error) => {
                tracing::warn!(skill = self.skill(), %error, "an approver gave no answer, which counts as no");
                if started.elapsed() >= limit { Answer::Missing } else { Answer::No }
            }
        }
    }
}

/// Asks the approver one question about everything that the skill requests and nobody granted, before anything runs; fails
/// if not all of it is approved.
pub fn ask_to_start(ctx: &SkillContext) -> Result<()> {
    let permissions = ctx.permissions().approvable_at_start();
    if permissions.is_empty() {
        return Ok(());
    }
    let need = ApprovalNeed::Start { permissions: permissions.clone() };
    ctx.permissions().decide(&permissions, ctx.cancel(), || ctx.ask_approver(need))?;
    let missing = permissions.iter().find(|permission| !ctx.permissions().allows(&permission.as_access()));
    let Some(missing) = missing.map(ToString::to_string) else { return Ok(()) };
    let listed = permissions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let help = format!("grant {missing}");
    let sentence = format!(
        "the skill {} was not approved to run with {listed}, so nothing has run; {help}",
        ctx.skill()
    );
    Err(SkillError::new(ErrorKind::Denied, sentence)
        .with_help(help)
        .with_hint(Hint::Grant(missing.clone()))
        .with_missing_permission(Some(missing)))
}

/// Asks the approver about one call, of that tool or of the skill itself; with `asks_first` together with everything that the skill
/// requests and nobody granted. Fails if it is not approved, and where nobody can be asked.
pub fn ask_to_call(
    ctx: &SkillContext,
    tool: Option<&str>,
    reason: ConsentReason,
    asks_first: bool,
) -> Result<()> {
    let permissions = if asks_first { ctx.permissions().approvable_at_start() } else { Vec::new() };
    let need = ApprovalNeed::Call { permissions: permissions.clone(), reason };
    let answer = if IS_ASKED.get() {
        None
    } else if permissions.is_empty() {
        ctx.permissions().confirm(ctx.cancel(), || ctx.ask_approver(need))?
    } else {
        let answer = Cell::new(None);
        let decided = ctx.permissions().decide(&permissions, ctx.cancel(), || {
            let given = ctx.ask_approver(need);
            answer.set(Some(given.clone()));
            given
        });
        decided.map(|()| answer.take())?
    };
    let why = match answer {
        Some(Answer::Yes) => return Ok(()),
        Some(Answer::Denied(reason)) => return Err(reason),
        Some(Answer::No | Answer::Missing) => "and it was not approved",
        None => "and nobody can be asked",
    };
    let skill = ctx.skill();
    let sentence = match (tool, reason) {
        (Some(tool), ConsentReason::Tool) => {
            format!("the tool {tool} of skill {skill} is called only if a person agrees to it, {why}")
        }
        (_, ConsentReason::CriticalSkill) => {
            format!(
                "the skill {skill} has a critical risk, so a model runs it only if a person agrees to it, {why}"
            )
        }
        _ => format!(
            "the skill {skill} has the sensitivity elevated, so a model runs it only if a person agrees to it, {why}"
        ),
    };
    let error = SkillError::new(ErrorKind::Denied, sentence);
    Err(match reason {
        ConsentReason::Tool => error
            .with_help("call it where somebody can answer, or confirm the call when you start it")
            .with_hint(Hint::Confirm),
        _ => error.with_help("call it where somebody can answer, or let a person run it"),
    })
}

/// Asks the approver for each permission that the process of an external script would need from its start. What is refused is
/// missing in its sandbox. Fails if the run stops while it waits.
pub fn ask_before_start(ctx: &SkillContext) -> Result<()> {
    let is_unsandboxed = ctx.permissions().is_granted(&Access::exec_unsandboxed());
    if is_unsandboxed || ctx.sandbox_mode() == SandboxMode::Off {
        return Ok(());
    }
    ctx.permissions()
        .approvable_before_start()
        .iter()
        // Nobody is asked about a variable that has no value here.
        .filter(|permission| {
            permission.name() != "env" || permission.scope().is_some_and(|name| ctx.has_value(name))
        })
        .try_for_each(|permission| ctx.ask_for_access(&permission.as_access(), "").map(drop))
}

/// Whether the approver may be asked about connections to this host.
pub fn may_ask_about_host(ctx: &SkillContext, host: &str, port: u16) -> bool {
    ctx.permissions().approvable(&Access::connection(host, port)).is_some()
}

/// Asks the approver about connections to this host; returns whether they are allowed now.
pub fn ask_about_host(ctx: &SkillContext, host: &str, port: u16) -> bool {
    ctx.ask_for_access(&Access::connection(host, port), "").unwrap_or(false)
}

/// Asks the approver whether an interrupted step may be done again; without an approver it is. Fails if not.
pub fn ask_to_repeat(ctx: &SkillContext, step: &str, item: Option<usize>, call: String) -> Result<()> {
    if ctx.providers().approver.is_none() {
        return Ok(());
    }
    let _pause = ctx.cancel().pause_deadlines();
    let answer = ctx.ask_approver(ApprovalNeed::RepeatedStep { step: step.to_owned(), item, call });
    ctx.cancel().check()?;
    match answer {
        Answer::Yes => return Ok(()),
        Answer::Denied(reason) => return Err(reason),
        Answer::No | Answer::Missing => {}
    }
    let sentence = "an earlier run was interrupted in it, and it was not approved that it is done again";
    Err(SkillError::new(ErrorKind::Denied, sentence).with_help("check what it has done, and start again"))
}

/// Asks the approver whether these changes, which the steps of a plan have made in a copy of the project, are to be applied. Fails if not, and
/// where nobody can be asked.
pub fn ask_to_apply(ctx: &SkillContext, step: &str, text: &str, changes: ChangesReport) -> Result<()> {
    let need = ApprovalNeed::Review {
        step: step.to_owned(),
        text: ctx.redaction().text(text.to_owned()).into_inner(),
        changes: Box::new(changes),
    };
    let answer = if IS_ASKED.get() {
        None
    } else {
        ctx.permissions().confirm(ctx.cancel(), || ctx.ask_approver(need))?
    };
    let why = match answer {
        Some(Answer::Yes) => return Ok(()),
        Some(Answer::Denied(reason)) => return Err(reason),
        Some(Answer::No | Answer::Missing) => {
            "what the steps before it have changed was not approved, so the project is as it was"
        }
        None => {
            "nobody can be asked about what the steps before it have changed, so the project is as it was"
        }
    };
    Err(SkillError::new(ErrorKind::Denied, why)
        .with_help("run the plan where a person can answer, or look at its changes in a preview"))
}

thread_local! {
    /// Whether an approver is asked on this thread; what it does itself is no further question.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}
