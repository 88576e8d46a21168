//! The approver of `metier run`: asks the person at the terminal while the run waits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use metier::error::Result;
use metier::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
use metier::policy::{Approval, CancelToken, Permission};

use super::permission_words::permission_sentence;
use super::progress::ProgressDisplay;
use super::prompt::{Question, Reply, ask, with_lookalikes};

/// Asks about what a skill requests and nobody granted.
#[derive(Clone)]
pub struct TerminalApprover {
    display: Arc<ProgressDisplay>,
    token: CancelToken,
    refused: Arc<Mutex<BTreeSet<Permission>>>,
}

impl TerminalApprover {
    pub fn new(display: Arc<ProgressDisplay>, token: CancelToken) -> Self {
        Self { display, token, refused: Arc::default() }
    }

    /// Whether the person said no to it.
    pub fn was_refused(&self, permission: &Permission) -> bool {
        self.refused().contains(permission)
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, BTreeSet<Permission>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Approver for TerminalApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let question = question(ctx, request);
        let is_withdrawn = || ctx.cancel().is_cancelled() || self.token.is_cancelled();
        let approval = match self.display.suspend(|| ask(&question, &is_withdrawn)) {
            Reply::Choice(_) => Approval::Once,
            Reply::No => Approval::No,
            Reply::Interrupt => {
                self.token.cancel();
                Approval::No
            }
        };
        if approval == Approval::No {
            self.refused().extend(wanted(&request.need).iter().cloned());
        }
        Ok(approval)
    }
}

fn wanted(need: &ApprovalNeed) -> &[Permission] {
    match need {
        ApprovalNeed::Start { permissions } => permissions,
        ApprovalNeed::Permission { permission, .. } => std::slice::from_ref(permission),
        _ => &[],
    }
}

fn question(ctx: &SkillContext, request: &ApprovalRequest) -> Question {
    let folder = ctx.skill_files().ok().map(|files| files.root().display().to_string());
    let mut facts =
        vec![("skill", with_lookalikes(request.qualified_name.as_deref().unwrap_or(&request.skill)))];
    facts.extend(folder.map(|folder| ("from", folder)));
    facts.extend(wanted(&request.need).iter().map(|permission| ("wants", permission_sentence(permission))));
    let prompt = match &request.need {
        ApprovalNeed::Permission { target, .. } => {
            facts.extend(target.as_ref().map(|target| ("for", with_lookalikes(target))));
            "Allow it?"
        }
        ApprovalNeed::RepeatedStep { step, item, call } => {
            let item = item.map(|item| format!(", item {item}")).unwrap_or_default();
            facts.push((
                "step",
                format!("{step}{item} ({call}), which an earlier run began and did not finish"),
            ));
            "Do it again?"
        }
        _ => "Allow it?",
    };
    if !request.callers.is_empty() {
        facts.push(("called by", request.callers.join(" > ")));
    }
    if !request.requested_in.is_empty() {
        facts.push(("asked in", request.requested_in.join(", ")));
    }
    let names = |permissions: &[Permission]| {
        permissions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    facts.push(("has", names(&request.grants)));
    let input = request.input.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    let mut details = vec![("input", input), ("arguments", format!("{:?}", request.args))];
    details.extend(request.project.as_ref().map(|project| ("project", project.display().to_string())));
    details.extend(request.digest.as_ref().map(|digest| ("digest", digest.clone())));
    Question {
        sentence: format!("The skill {} asks for a permission.", shortened_name(&request.skill)),
        facts,
        details,
        prompt,
        choices: &[('y', "yes, once")],
    }
}

fn shortened_name(name: &str) -> String {
    super::terminal::shorten_line(name, 64)
}
