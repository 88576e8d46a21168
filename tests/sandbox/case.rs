//! A case: what is tried, and the function that tries it; and how many of them held.

use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::Instant;

use metier::policy::SandboxLevel;

use crate::sandbox::fixture;
use crate::sandbox::fixture::Machine;
use crate::support::not_run::{print_uncaptured, record};

/// One attack.
pub struct Case {
    /// Its number in the list of attacks; letters of our own begin with `M`.
    pub number: &'static str,
    pub description: &'static str,
    /// Panics when the sandbox did not hold.
    pub run: fn() -> CaseResult,
}

/// Tried, or why this machine cannot.
pub type CaseResult = Result<(), SkipReason>;

/// Why a case could not be tried here.
#[derive(Debug)]
pub enum SkipReason {
    /// This machine lacks something.
    Unsupported(String),
    /// It is a matter of another user, as whom the suite runs too.
    OtherUser(&'static str),
}

impl SkipReason {
    pub fn unsupported(reason: impl Into<String>) -> CaseResult {
        Err(Self::Unsupported(reason.into()))
    }

    pub fn other_user(reason: &'static str) -> CaseResult {
        Err(Self::OtherUser(reason))
    }
}

/// At once: attacks on time and attacks on place do not wait for one another.
const PARALLEL_CASES: usize = 4;

/// Names one case, or several by what their numbers begin with.
pub const CASE_VARIABLE: &str = "METIER_CASE";

/// Names one level.
pub const LEVEL_VARIABLE: &str = "METIER_SANDBOX_LEVEL";

/// A level and its name.
pub const LEVELS: [(SandboxLevel, &str); 3] = [
    (SandboxLevel::Namespaces, "namespaces"),
    (SandboxLevel::Landlock, "landlock"),
    (SandboxLevel::LandlockUnscoped, "walk"),
];

/// Levels on a kernel that passes as an older one, by its Landlock ABI: without Landlock, with the first one, and with the last one that
/// keeps no signals inside.
pub const OLDER: [(SandboxLevel, u8, &str); 4] = [
    (SandboxLevel::Namespaces, 0, "older namespaces without Landlock"),
    (SandboxLevel::Namespaces, 1, "older namespaces with ABI 1"),
    (SandboxLevel::Landlock, 1, "older landlock with ABI 1"),
    (SandboxLevel::Landlock, 5, "older landlock with ABI 5"),
];

/// Runs every case in every level it is about, says what could not be run, counts, and fails with all that did not hold.
pub fn run_all(cases: impl Fn(Machine) -> &'static [&'static [Case]]) {
    let chosen = std::env::var(LEVEL_VARIABLE).unwrap_or_default();
    let mut broken = Vec::new();
    let older = OLDER.map(|(level, abi, name)| (Machine { level, landlock_abi: Some(abi) }, name));
    let all = LEVELS.map(|(level, name)| (Machine::from(level), name)).into_iter().chain(older);
    for (machine, name) in all.filter(|(_, name)| name.starts_with(&chosen)) {
        if let Err(reason) = fixture::check_level(machine) {
            record(&format!("the cases of the level {name}: {reason}"));
            continue;
        }
        broken.extend(run_level(cases(machine), machine, name));
    }
    assert!(broken.is_empty(), "{} cases did not hold:\n{}", broken.len(), broken.join("\n"));
}

/// The cases that did not hold.
fn run_level(groups: &[&[Case]], machine: Machine, name: &str) -> Vec<String> {
    let chosen = std::env::var(CASE_VARIABLE).unwrap_or_default();
    let cases = groups.iter().copied().flatten().filter(|case| case.number.starts_with(&chosen));
    let waiting = Mutex::new(cases.collect::<VecDeque<_>>());
    let (held, not_run, broken) = (Mutex::new(0), Mutex::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_CASES {
            scope.spawn(|| {
                fixture::set_level(machine);
                while let Some(case) = { waiting.lock().unwrap().pop_front() } {
                    match run_case(case) {
                        Ok(Ok(())) => *held.lock().unwrap() += 1,
                        Ok(Err(SkipReason::OtherUser(reason))) => {
                            print_uncaptured(&format!(
                                "left to another user: {} because {reason} ({})",
                                case.number, case.description
                            ));
                        }
                        Ok(Err(SkipReason::Unsupported(reason))) => {
                            record(&format!("{} because {reason} ({})", case.number, case.description));
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
    print_uncaptured(&format!(
        "sandbox: {held} cases held in {name}, {not_run} not run, {} broken, as user {user}",
        broken.len()
    ));
    broken.into_iter().map(|what: String| format!("{name}: {what}")).collect()
}

fn run_case(case: &Case) -> Result<CaseResult, String> {
    let began = Instant::now();
    catch_unwind(case.run).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        format!("{} ({}), after {:?}: {said}", case.number, case.description, began.elapsed())
    })
}
