//! The approver of `metier run`: asks the person at the terminal while the run waits.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metier::engine::ChangesReport;
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ApprovalNeed, ApprovalRequest, Approver, ConsentReason, SkillContext};
use metier::policy::{Approval, ArgumentPattern, CancelToken, Permission, SandboxMode};
use metier::unicode::with_lookalikes;
use metier_changes::{ChangeSet, summary_facts};
use serde_json::Value;

use super::output::eprint;
use super::progress::ProgressDisplay;
use super::prompt::{Question, Reply, ask, permission_sentence};
use super::terminal::{escape_line, escape_text, shorten_line};
use metier_core::host::RunContext;

/// Asks about what a skill requests and nobody granted.
#[derive(Clone)]
pub struct TerminalApprover {
    display: Arc<ProgressDisplay>,
    token: CancelToken,
    refused: Arc<Mutex<BTreeSet<Permission>>>,
    /// Whether an answer can be remembered: the invoked skill is trusted.
    can_remember: Arc<AtomicBool>,
}

/// How long a question stands.
const ANSWER_TIME: Duration = Duration::from_mins(5);

/// The answers where one can be remembered, and elsewhere.
pub const ONCE_OR_ALWAYS: &[(char, &str)] = &[('y', "yes, once"), ('a', "always, until its files change")];
pub const ONCE: &[(char, &str)] = &[('y', "yes, once")];

impl TerminalApprover {
    pub fn new(display: Arc<ProgressDisplay>, token: CancelToken) -> Self {
        Self { display, token, refused: Arc::default(), can_remember: Arc::default() }
    }

    /// Offers to remember an answer.
    pub fn offer_always(&self) {
        self.can_remember.store(true, Ordering::Relaxed);
    }

    /// The answers that are offered.
    pub fn choices(&self) -> &'static [(char, &'static str)] {
        if self.can_remember.load(Ordering::Relaxed) { ONCE_OR_ALWAYS } else { ONCE }
    }

    /// Whether the person said no to it.
    pub fn was_refused(&self, permission: &Permission) -> bool {
        self.lock_refused().contains(permission)
    }

    /// Asks about what the steps of a plan have changed; all of it is listed before anybody can agree.
    fn review(
        &self,
        ctx: &SkillContext,
        request: &ApprovalRequest,
        (step, text): (&str, &str),
        changes: &ChangesReport,
    ) -> Result<Approval> {
        const CHOICES: &[(char, &str)] = &[('y', "yes, apply them and go on")];
        const VIEWS: &[(char, &str)] = &[('l', "show the lines")];
        let set: ChangeSet = serde_json::from_value(changes.set.clone()).map_err(|error| {
            let sentence = format!("nobody can be shown what the steps have changed: {error}");
            SkillError::new(ErrorKind::Denied, sentence).with_help("run the plan with --preview")
        })?;
        let name = request.qualified_name.as_deref().unwrap_or(&request.skill);
        let mut facts = vec![("plan", with_lookalikes(name))];
        // Whoever wrote the plan wrote it.
        facts.extend((!text.is_empty()).then(|| ("it says", with_lookalikes(text))));
        facts.extend(summary_facts(&set));
        let details = vec![
            ("project", set.project.clone()),
            ("changes", set.id.clone()),
            ("digest", changes.digest.clone()),
        ];
        let sentence = format!("The plan has come to its review {}.", shortened_name(step));
        let prompt = "Apply these changes to the project?";
        let question = Question::new(sentence, facts, prompt, CHOICES).views(VIEWS).details(details);
        let started = Instant::now();
        let is_withdrawn =
            || ctx.cancel().is_cancelled() || self.token.is_cancelled() || started.elapsed() >= ANSWER_TIME;
        loop {
            match self.display.suspend(|| ask(&question, &is_withdrawn)) {
                Reply::Choice('l') => self.display.suspend(|| print_diffs(&changes.diffs)),
                Reply::Choice(_) => return Ok(Approval::Once),
                Reply::No => return Ok(Approval::No),
                Reply::Interrupt => {
                    self.token.cancel();
                    return Ok(Approval::No);
                }
            }
        }
    }

    fn lock_refused(&self) -> std::sync::MutexGuard<'_, BTreeSet<Permission>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Approver for TerminalApprover {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        if let ApprovalNeed::Review { step, text, changes } = &request.need {
            return self.review(ctx, request, (step, text), changes);
        }
        // What is asked for a skill that another one calls is not remembered, a step is done again only once, and each call of a
        // tool is a question of its own.
        let is_call = matches!(request.need, ApprovalNeed::Call { .. });
        let is_remembered =
            request.callers.is_empty() && !is_call && !requested_permissions(&request.need).is_empty();
        let choices = if is_remembered { self.choices() } else { ONCE };
        let question = question(ctx, request, choices);
        let started = Instant::now();
        let is_withdrawn =
            || ctx.cancel().is_cancelled() || self.token.is_cancelled() || started.elapsed() >= ANSWER_TIME;
        let approval = match self.display.suspend(|| ask(&question, &is_withdrawn)) {
            Reply::Choice('a') => Approval::Always(ArgumentPattern::any()),
            Reply::Choice(_) => Approval::Once,
            Reply::No => Approval::No,
            Reply::Interrupt => {
                self.token.cancel();
                Approval::No
            }
        };
        if approval == Approval::No {
            self.lock_refused().extend(requested_permissions(&request.need).iter().cloned());
        }
        Ok(approval)
    }

    /// Longer than the question stands, so that no answer is shown as one that does not count: digests are computed before and
    /// after it.
    fn time_limit(&self) -> Duration {
        ANSWER_TIME + Duration::from_mins(1)
    }
}

fn requested_permissions(need: &ApprovalNeed) -> &[Permission] {
    match need {
        ApprovalNeed::Start { permissions } | ApprovalNeed::Call { permissions, .. } => permissions,
        ApprovalNeed::Permission { permission, .. } => std::slice::from_ref(permission),
        _ => &[],
    }
}

fn question(
    ctx: &SkillContext,
    request: &ApprovalRequest,
    choices: &'static [(char, &'static str)],
) -> Question {
    let folder = ctx.skill_files().ok().map(|files| files.root().display().to_string());
    let mut facts =
        vec![("skill", with_lookalikes(request.qualified_name.as_deref().unwrap_or(&request.skill)))];
    facts.extend(folder.map(|folder| ("from", folder)));
    if let Some(tool) = &request.tool {
        let risk = tool.risk_level.as_deref().unwrap_or("not stated");
        facts.push(("tool", format!("{}, risk {}", with_lookalikes(&tool.name), with_lookalikes(risk))));
    }
    facts.extend(
        requested_permissions(&request.need)
            .iter()
            .map(|permission| ("wants", permission_sentence(permission))),
    );
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
        ApprovalNeed::Call { reason: ConsentReason::Tool, .. } => "Call it?",
        ApprovalNeed::Call { .. } => "Run it?",
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
    if request.sandbox_mode != SandboxMode::Required {
        facts.push(("sandbox", request.sandbox_mode.to_string()));
    }
    let input = request.input.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    // Who agrees to a call agrees to its input.
    let is_call = matches!(request.need, ApprovalNeed::Call { .. });
    let mut details = Vec::new();
    let called_with = if is_call { &mut facts } else { &mut details };
    if !is_call || !request.args.is_empty() {
        called_with.push(("arguments", format!("{:?}", request.args)));
    }
    called_with.push(("input", input));
    called_with.push(("script", request.script.clone()));
    called_with.extend(request.stdin.as_ref().map(|text| ("stdin", format!("{text:?}"))));
    if request.has_stream {
        called_with.push(("stdin", "a stream that is not shown".to_owned()));
    }
    if !request.variables.is_empty() {
        called_with.push(("sets", request.variables.join(", ")));
    }
    details.extend(request.project.as_ref().map(|project| ("project", project.display().to_string())));
    details.extend(request.digest.as_ref().map(|digest| ("digest", digest.clone())));
    let asks = match request.need {
        ApprovalNeed::RepeatedStep { .. } => "asks whether to repeat a step",
        ApprovalNeed::Call { reason: ConsentReason::Tool, .. } => "asks whether to call a tool",
        ApprovalNeed::Call { reason: ConsentReason::ElevatedSkill, .. } => {
            "has the sensitivity elevated, and a model wants to run it"
        }
        ApprovalNeed::Call { .. } => "has a critical risk, and a model wants to run it",
        _ => "asks for a permission",
    };
    let sentence = format!("The skill {} {asks}.", shortened_name(&request.skill));
    Question::new(sentence, facts, prompt, choices).details(details)
}

/// Prints the lines that differ in texts, as `text_diffs_as_json` has them, to standard error.
pub fn print_diffs(diffs: &[Value]) {
    if diffs.is_empty() {
        eprint("no text has lines to show");
    }
    for diff in diffs {
        let part = |key: &str| diff.get(key).and_then(Value::as_str).unwrap_or_default();
        eprint(&format!("\n{}", escape_line(part("path"))));
        eprint(escape_text(part("diff")).trim_end());
    }
}

fn shortened_name(name: &str) -> String {
    shorten_line(name, 64)
}
