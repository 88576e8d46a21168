//! A case: what is tried, and the function that tries it; and how many of them held.

use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::Instant;

use metier::policy::Tier;

use crate::not_run::{record, say};
use crate::stage;

/// One attack.
pub struct Case {
    /// Its number in the list of attacks; letters of our own begin with `M`.
    pub number: &'static str,
    pub tries: &'static str,
    /// Panics when the cage did not hold.
    pub run: fn() -> Tried,
}

/// Tried, or why this machine cannot.
pub type Tried = Result<(), NotRun>;

/// Why a case could not be tried here.
#[derive(Debug)]
pub enum NotRun {
    /// This machine lacks something.
    Here(String),
    /// It is a matter of another user, as whom the suite runs too.
    AsThisUser(&'static str),
}

impl NotRun {
    pub fn because(reason: impl Into<String>) -> Tried {
        Err(Self::Here(reason.into()))
    }

    pub fn as_this_user(reason: &'static str) -> Tried {
        Err(Self::AsThisUser(reason))
    }
}

/// At once: attacks on time and attacks on place do not wait for one another.
const SIDE_BY_SIDE: usize = 4;

/// Names one case, or several by what their numbers begin with.
const CHOSEN: &str = "METIER_CASE";

/// Names one tier.
pub const TIER: &str = "METIER_CAGE_TIER";

/// A tier and its name.
pub const TIERS: [(Tier, &str); 3] =
    [(Tier::Namespaces, "namespaces"), (Tier::Landlock, "landlock"), (Tier::Walk, "walk")];

/// Runs every case in every tier it is about, says what could not be run, counts, and fails with all that did not hold.
pub fn run_all(cases: impl Fn(Tier) -> &'static [&'static [Case]]) {
    let chosen = std::env::var(TIER).unwrap_or_default();
    let mut broken = Vec::new();
    for (tier, name) in TIERS.into_iter().filter(|(_, name)| name.starts_with(&chosen)) {
        if let Err(reason) = stage::gives(tier) {
            record(&format!("the cases of the tier {name}: {reason}"));
            continue;
        }
        broken.extend(run(cases(tier), tier, name));
    }
    assert!(broken.is_empty(), "{} cases did not hold:\n{}", broken.len(), broken.join("\n"));
}

/// The cases that did not hold.
fn run(groups: &[&[Case]], tier: Tier, name: &str) -> Vec<String> {
    let chosen = std::env::var(CHOSEN).unwrap_or_default();
    let cases = groups.iter().copied().flatten().filter(|case| case.number.starts_with(&chosen));
    let waiting = Mutex::new(cases.collect::<VecDeque<_>>());
    let (held, not_run, broken) = (Mutex::new(0), Mutex::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                stage::set_tier(tier);
                while let Some(case) = { waiting.lock().unwrap().pop_front() } {
                    match tried(case) {
                        Ok(Ok(())) => *held.lock().unwrap() += 1,
                        Ok(Err(NotRun::AsThisUser(reason))) => {
                            say(&format!(
                                "left to another user: {} because {reason} ({})",
                                case.number, case.tries
                            ));
                        }
                        Ok(Err(NotRun::Here(reason))) => {
                            record(&format!("{} because {reason} ({})", case.number, case.tries));
                            *not_run.lock().unwrap() += 1;
                        }
                        Err(what) => broken.lock().unwrap().push(what),
                    }
                }
            });
        }
    });
    let (held, not_run, broken): (usize, usize, _) =
        (held.into_inner().unwrap(), not_run.into_inner().unwrap(), broken.into_inner().unwrap());
    let user = rustix::process::geteuid().as_raw();
    say(&format!(
        "cage: {held} cases held in {name}, {not_run} not run, {} broken, as user {user}",
        broken.len()
    ));
    broken.into_iter().map(|what: String| format!("{name}: {what}")).collect()
}

fn tried(case: &Case) -> Result<Tried, String> {
    let began = Instant::now();
    catch_unwind(case.run).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        format!("{} ({}), after {:?}: {said}", case.number, case.tries, began.elapsed())
    })
}
