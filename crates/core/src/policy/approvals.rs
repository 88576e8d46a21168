//! What an approver answers, and what it decided during a run: permissions beyond the grants of the caller, and those that were
//! refused.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::argument_pattern::ArgumentPattern;
use crate::error::{Result, SkillError};
use crate::policy::cancel::PauseGuard;
use crate::policy::{CalledTool, CancelToken, Permission, SkillDigest};

/// An approver's answer to a question.
///
/// A yes holds until the invoked run ends, for the skill that asked and those that it calls. `true` is `Once` and `false` is `No`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// Refused.
    No,
    /// Permitted in this run.
    Once,
    /// Permitted in this run, and later in the same engine and its clones: to the same skill, called by the same skills, while
    /// their files do not change, in the same project, for the same permission. Not for runs that a model chose if a person chose this
    /// one, or the other way round, and not where another approver is asked.
    Session,
    /// As `Session`, and for good: remembered in the engine's trust store, for runs whose arguments fit the pattern. Where nothing
    /// can be stored it holds for the session, with a warning in the log of the run; so it does if a secret that the skill may
    /// read is in the pattern.
    Always(ArgumentPattern),
}

impl From<bool> for Approval {
    fn from(is_approved: bool) -> Self {
        if is_approved { Self::Once } else { Self::No }
    }
}

/// The decisions about one run, as one skill of the run sees them: they are shared by all, and each holds for the skill that
/// asked and for those that it calls.
#[derive(Clone, Debug)]
pub struct Approvals {
    shared: Arc<ApprovalsInner>,
    /// The skills that called one another, from the invoked one to this one: the qualified name of each, and the files of a callee.
    chain: Vec<String>,
    /// Decisions count from this length of their chain: those about callers of an unknown or changed skill do not.
    first_own: usize,
    /// Whether only permissions with a scope count.
    only_scoped: bool,
    arguments: Arc<RunArguments>,
}

/// What a skill was called with, for a question to show.
#[derive(Default)]
pub struct RunArguments {
    /// The input.
    pub input: Option<Value>,
    /// The arguments of the script.
    pub args: Vec<String>,
    /// The tool of the skill that is called, if one is.
    pub tool: Option<CalledTool>,
    /// The script, by its path in the skill's folder, with `#` and the function where one is named.
    pub script: String,
    /// The digest of what else decides what the run does: the source of the script, and the input as it was written.
    pub source: String,
}

#[derive(Debug, Default)]
struct ApprovalsInner {
    state: Mutex<Decisions>,
    changed: Condvar,
    /// The callees behind the digest of the invoked skill, without the version, when somebody was first asked.
    callees: OnceLock<Vec<(String, SkillDigest)>>,
    /// Counts callees without a digest, each of which is another one.
    unknown: AtomicU64,
}

#[derive(Debug, Default)]
struct Decisions {
    approved: Vec<Decision>,
    refused: Vec<Decision>,
    /// Questions that were asked, and those that nobody answered in time.
    asked: usize,
    unanswered: usize,
    /// Calls of tools to which a person said no.
    refused_calls: usize,
    /// Whether somebody is asked now.
    is_asking: bool,
}

#[derive(Debug, PartialEq)]
struct Decision {
    permission: Permission,
    chain: Vec<String>,
}

/// An approver's answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Somebody agreed.
    Yes,
    /// Somebody refused.
    No,
    /// A no with its reason.
    Denied(SkillError),
    /// None in time.
    Missing,
}

/// Permissions that one skill of a run may be refused; then nobody is asked about it any more.
const MAX_REFUSED: usize = 16;

/// Questions that are asked in one run with all that it calls.
const MAX_QUESTIONS: usize = 64;

/// Unanswered questions after which nobody seems to be there, and none is asked any more.
const MAX_UNANSWERED: usize = 2;

/// How often a run that waits for the question of another one looks whether it was stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

impl Approvals {
    /// No decisions about a run of the skill with this qualified name.
    pub(super) fn new(skill: &str) -> Self {
        let chain = vec![skill.to_owned()];
        Self { shared: Arc::default(), chain, first_own: 0, only_scoped: false, arguments: Arc::default() }
    }

    /// The decisions about a skill that was called with these arguments.
    pub(super) fn with_arguments(self, arguments: RunArguments) -> Self {
        Self { arguments: Arc::new(arguments), ..self }
    }

    /// What the skill was called with.
    pub(crate) fn arguments(&self) -> &RunArguments {
        &self.arguments
    }

    /// The decisions as a skill with these files sees them that is called by this one. What was approved for its callers counts
    /// only if the digest that was shown counts these files.
    pub(super) fn for_callee(&self, skill: &str, files: Option<SkillDigest>) -> Self {
        let mut callee = self.clone();
        let name = skill.rfind('@').map_or(skill, |at| &skill[..at]);
        let mut known = self.shared.callees.get().into_iter().flatten();
        let is_counted = known.any(|(counted, digest)| counted == name && Some(*digest) == files);
        // With other files it is another skill, to which nothing was permitted.
        callee.chain.push(match files {
            Some(files) => format!("{name} {files}"),
            None => format!("{name} {}", self.shared.unknown.fetch_add(1, Ordering::Relaxed)),
        });
        if !is_counted {
            callee.first_own = callee.chain.len();
        }
        callee
    }

    /// Records the callees that count, once.
    pub(super) fn record_callees(&self, callees: impl FnOnce() -> Vec<(String, SkillDigest)>) {
        self.shared.callees.get_or_init(callees);
    }

    /// The same without permissions that name no target.
    pub(super) fn scoped_only(&self) -> Self {
        Self { only_scoped: true, ..self.clone() }
    }

    /// The permissions that were approved for this skill.
    pub(super) fn approved(&self) -> Vec<Permission> {
        let state = self.lock();
        let own = state.approved.iter().filter(|decision| self.is_own(decision));
        own.map(|decision| decision.permission.clone()).collect()
    }

    /// Whether somebody was asked for the run.
    pub(super) fn has_decisions(&self) -> bool {
        self.lock().asked > 0
    }

    /// Whether one of the approved permissions fulfils a condition.
    pub(super) fn any_approved(&self, mut condition: impl FnMut(&Permission) -> bool) -> bool {
        self.lock().approved.iter().any(|decision| self.is_own(decision) && condition(&decision.permission))
    }

    /// Whether a decision was made for this skill or for one that called it.
    fn is_own(&self, decision: &Decision) -> bool {
        decision.chain.len() >= self.first_own
            && self.chain.starts_with(&decision.chain)
            && (!self.only_scoped || decision.permission.is_scoped())
    }

    /// Decides about permissions with `ask`, unless that was done before. One question is asked at a time: a run that comes
    /// later waits, and then uses what was decided. Fails if the run stops while it waits, and with the reason of a no.
    ///
    /// The deadlines of the token stand still while somebody is asked, and not for what was decided: otherwise scripts that try
    /// again and again what was refused would put them off.
    pub(crate) fn decide(
        &self,
        permissions: &[Permission],
        token: &CancelToken,
        ask: impl FnOnce() -> Answer,
    ) -> Result<()> {
        let is_decided = |state: &Decisions| {
            permissions.iter().all(|permission| state.is_decided(permission, &self.chain))
        };
        // Dropped after the decision is recorded, so that nobody asks the same meanwhile.
        let Some(_asking) = self.wait_to_ask(token, is_decided)? else { return Ok(()) };
        let answer = ask();
        // A run that was stopped while it asked got no answer.
        token.check()?;
        let mut state = self.lock();
        state.asked += 1;
        state.unanswered += usize::from(matches!(answer, Answer::Missing));
        let decisions = if matches!(answer, Answer::Yes) { &mut state.approved } else { &mut state.refused };
        decisions.extend(
            permissions
                .iter()
                .map(|permission| Decision { permission: permission.clone(), chain: self.chain.clone() }),
        );
        match answer {
            Answer::Denied(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    /// The answer about one call of a tool, which holds for no other: a no without a question where too many were asked or refused.
    /// One question is asked at a time. Fails if the run stops while it waits.
    pub(crate) fn confirm(&self, token: &CancelToken, ask: impl FnOnce() -> Answer) -> Result<Answer> {
        let Some(_asking) = self.wait_to_ask(token, Decisions::ends_questions)? else {
            return Ok(Answer::No);
        };
        let answer = ask();
        token.check()?;
        let mut state = self.lock();
        state.asked += 1;
        state.unanswered += usize::from(matches!(answer, Answer::Missing));
        state.refused_calls += usize::from(!matches!(answer, Answer::Yes));
        Ok(answer)
    }

    /// Waits until no other question stands; `None` if by then it need not be asked. The deadlines of the token stand still meanwhile,
    /// and while the question stands.
    fn wait_to_ask(
        &self,
        token: &CancelToken,
        is_decided: impl Fn(&Decisions) -> bool,
    ) -> Result<Option<AskingGuard<'_>>> {
        let mut state = self.lock();
        let mut pause = None;
        loop {
            if is_decided(&state) {
                return Ok(None);
            }
            if !state.is_asking {
                break;
            }
            pause.get_or_insert_with(|| token.pause_deadlines());
            state = self
                .shared
                .changed
                .wait_timeout(state, STOP_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            token.check()?;
        }
        state.is_asking = true;
        drop(state);
        let pause = pause.unwrap_or_else(|| token.pause_deadlines());
        Ok(Some(AskingGuard { approvals: self, _pause: pause }))
    }

    fn lock(&self) -> MutexGuard<'_, Decisions> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decisions {
    /// Whether nobody has to be asked about this permission, or may be.
    fn is_decided(&self, permission: &Permission, chain: &[String]) -> bool {
        let is_same = |decision: &&Decision| decision.permission == *permission && decision.chain == chain;
        let refused = self.refused.iter().filter(|decision| decision.chain == chain).count();
        self.approved.iter().any(|decision| is_same(&decision))
            || self.refused.iter().any(|decision| is_same(&decision))
            || refused >= MAX_REFUSED
            || self.is_exhausted()
    }

    /// Whether no call of a tool is asked about any more.
    fn ends_questions(&self) -> bool {
        self.refused_calls >= MAX_REFUSED || self.is_exhausted()
    }

    fn is_exhausted(&self) -> bool {
        self.asked >= MAX_QUESTIONS || self.unanswered >= MAX_UNANSWERED
    }
}

/// Exists while somebody is asked; others may ask afterwards, whatever happened.
struct AskingGuard<'a> {
    approvals: &'a Approvals,
    _pause: PauseGuard,
}

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        self.approvals.lock().is_asking = false;
        self.approvals.shared.changed.notify_all();
    }
}

/// Secrets in them are not known here.
impl fmt::Debug for RunArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunArguments").finish_non_exhaustive()
    }
}

impl PartialEq for Approvals {
    fn eq(&self, other: &Self) -> bool {
        self.approved() == other.approved()
    }
}

impl Eq for Approvals {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    #[test]
    fn each_question_is_asked_once_and_one_at_a_time() {
        let (approvals, asked, now) = (Approvals::new("a"), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let (approvals, asked, now) = (&approvals, &asked, &now);
                scope.spawn(move || {
                    let need = permission(["write:a", "write:b"][number % 2]);
                    let decided = approvals.decide(&[need], &CancelToken::new(), || {
                        assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        std::thread::sleep(Duration::from_millis(5));
                        now.fetch_sub(1, Ordering::SeqCst);
                        asked.fetch_add(1, Ordering::SeqCst);
                        if number % 2 == 0 { Answer::Yes } else { Answer::No }
                    });
                    decided.unwrap();
                });
            }
        });
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(approvals.approved(), [permission("write:a")]);
    }

    #[test]
    fn a_skill_that_is_refused_again_and_again_asks_nobody_any_more() {
        let approvals = Approvals::new("a");
        let ask = |approvals: &Approvals, answer: Answer| {
            let asked = AtomicUsize::new(0);
            for number in 0..100 {
                let need = permission(&format!("write:out/{number}"));
                let answer = || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    answer.clone()
                };
                approvals.decide(&[need], &CancelToken::new(), answer).unwrap();
            }
            asked.into_inner()
        };
        assert_eq!(ask(&approvals, Answer::No), MAX_REFUSED);
        assert_eq!(
            ask(&approvals.for_callee("b", None), Answer::No),
            MAX_REFUSED,
            "another skill may still ask"
        );
        assert_eq!(ask(&approvals.for_callee("c", None), Answer::Yes), MAX_QUESTIONS - 2 * MAX_REFUSED);
        assert_eq!(ask(&approvals.for_callee("d", None), Answer::Yes), 0);
        assert_eq!(ask(&Approvals::new("a"), Answer::Missing), MAX_UNANSWERED, "nobody is there");
    }

    #[test]
    fn a_yes_holds_for_the_skill_that_asked_and_those_that_it_calls() {
        let root = Approvals::new("a");
        let files = SkillDigest::new([0; 32]);
        root.record_callees(|| ["b", "c", "d"].map(|name| (name.to_owned(), files)).to_vec());
        let call = |caller: &Approvals, name: &str| caller.for_callee(name, Some(files));
        let (asker, sibling) = (call(&root, "b@1.0.0"), call(&root, "c"));
        asker.decide(&[permission("net")], &CancelToken::new(), || Answer::Yes).unwrap();
        let has = |approvals: &Approvals| approvals.any_approved(|_| true);
        assert!(has(&asker) && has(&call(&asker, "d")) && has(&call(&root, "b@1.0.0")));
        assert!(!has(&root) && !has(&sibling) && !has(&call(&sibling, "b")));
        for other in [None, Some(SkillDigest::new([1; 32]))] {
            assert!(!has(&root.for_callee("b", other)), "its files are others");
            assert!(!has(&asker.for_callee("d", other)));
            assert!(!has(&call(&asker.for_callee("d", other), "c")), "nor what it calls");
        }
        assert!(!has(&call(&asker, "e")), "it did not count");
        assert!(!has(&asker.scoped_only()), "it names no host");
    }

    #[test]
    fn deadlines_stand_still_for_a_question_and_not_for_what_was_decided() {
        let (approvals, token) = (Approvals::new("a"), CancelToken::new());
        let decide = || {
            let ask = || {
                assert!(token.paused_time().1, "while somebody is asked");
                Answer::No
            };
            approvals.decide(&[permission("net")], &token, ask).unwrap();
        };
        decide();
        let (paused, is_paused) = token.paused_time();
        assert!(!paused.is_zero() && !is_paused);
        (0..1000).for_each(|_| decide());
        assert_eq!(token.paused_time(), (paused, false));
    }

    #[test]
    fn several_permissions_are_one_question_and_a_no_may_have_a_reason() {
        let approvals = Approvals::new("a");
        let two = [permission("net"), permission("write:a")];
        approvals.decide(&two, &CancelToken::new(), || Answer::Yes).unwrap();
        assert_eq!(approvals.approved(), two);
        let three = [permission("net"), permission("shm"), permission("write:b")];
        let reason = SkillError::new(crate::error::ErrorKind::Denied, "the files changed");
        let denied = approvals.decide(&three, &CancelToken::new(), || Answer::Denied(reason));
        assert_eq!(denied.unwrap_err().message(), "the files changed");
        approvals.decide(&three[1..], &CancelToken::new(), || panic!("not asked again")).unwrap();
        assert!(!approvals.any_approved(|permission| *permission == three[1]));
    }

    #[test]
    fn a_question_that_panics_leaves_room_for_the_next() {
        let approvals = Approvals::new("a");
        let decide = |ask: fn() -> Answer| approvals.decide(&[permission("net")], &CancelToken::new(), ask);
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decide(|| panic!("on purpose"))));
        assert!(panicked.is_err());
        decide(|| Answer::Yes).unwrap();
        assert_eq!(approvals.approved(), [permission("net")]);
    }

    #[test]
    fn a_run_that_stops_does_not_wait_for_the_question_of_another_one() {
        let approvals = Approvals::new("a");
        let (begins, has_begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let asking = approvals.clone();
            scope.spawn(move || {
                asking.decide(&[permission("write:a")], &CancelToken::new(), || {
                    begins.send(()).unwrap();
                    released.recv().unwrap();
                    Answer::Yes
                })
            });
            has_begun.recv().unwrap();
            let token = CancelToken::new();
            token.cancel();
            assert!(approvals.decide(&[permission("write:b")], &token, || panic!("not asked")).is_err());
            release.send(()).unwrap();
        });
    }
}
