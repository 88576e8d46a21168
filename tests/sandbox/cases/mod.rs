//! The attacks, by what they are after.

mod devices;
mod endings;
mod file_server;
mod files;
mod granted;
mod hidden;
mod kernel;
mod links;
mod local_sockets;
mod lost;
mod memory;
mod older;
mod others;
mod own;
mod planted;
mod powers;
mod protected;
mod quotas;
mod redirected;
mod resources;
mod sockets;
mod streams;
mod trees;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metier::error::ErrorKind;
use metier::policy::SandboxLevel;

use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, Machine};
use crate::sandbox::survivors;

/// The attacks on a level.
pub fn cases_for(machine: Machine) -> &'static [&'static [Case]] {
    match machine {
        Machine { level: SandboxLevel::LandlockUnscoped, .. } => TREE_KILL_CASES,
        Machine { landlock_abi: Some(0), .. } => MOUNT_ROOT_CASES,
        Machine { landlock_abi: Some(_), .. } => OLDER_CASES,
        _ => ALL_CASES,
    }
}

/// Attacks on how trees are killed, which is all that the lowest level has of its own.
const TREE_KILL_CASES: &[&[Case]] = &[trees::CASES, streams::CASES, endings::CASES];

/// Attacks on what stands in for what an older kernel lacks.
const OLDER_CASES: &[&[Case]] = &[older::CASES, files::CASES, devices::CASES, others::CASES];

/// The same where files are restricted by mounts alone.
const MOUNT_ROOT_CASES: &[&[Case]] = &[
    older::CASES,
    files::CASES,
    protected::CASES,
    hidden::CASES,
    links::CASES,
    devices::CASES,
    sockets::CASES,
    others::CASES,
    own::CASES,
    granted::CASES,
    file_server::CASES,
];

/// Every attack there is.
const ALL_CASES: &[&[Case]] = &[
    trees::CASES,
    streams::CASES,
    resources::CASES,
    powers::CASES,
    files::CASES,
    protected::CASES,
    redirected::CASES,
    hidden::CASES,
    planted::CASES,
    lost::CASES,
    memory::CASES,
    links::CASES,
    devices::CASES,
    sockets::CASES,
    local_sockets::CASES,
    others::CASES,
    kernel::CASES,
    quotas::CASES,
    own::CASES,
    granted::CASES,
    endings::CASES,
    older::CASES,
    file_server::CASES,
];

/// Held by what fills quotas that all scripts of a user share (timers, signals that wait, descriptors on their way through sockets), and
/// by scripts that need some of them.
static USER_QUOTAS: Mutex<()> = Mutex::new(());

pub fn lock_user_quotas() -> MutexGuard<'static, ()> {
    USER_QUOTAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The run takes more memory than so many bytes, is ended for that in so many seconds, and leaves nobody.
#[track_caller]
fn assert_stopped_for_memory(fixture: &Fixture, most: u64, seconds: u64) -> CaseResult {
    let ran = fixture.run();
    assert_eq!(ran.error().kind(), ErrorKind::Memory, "{:?} {:?}", ran.0.result, ran.0.process);
    assert!(ran.process().usage.tree_memory_bytes.is_some_and(|held| held > most), "{:?}", ran.process());
    assert!(ran.0.duration < Duration::from_secs(seconds), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// The run is ended for its memory, or says that what it fills is full, and leaves nobody.
#[track_caller]
fn assert_stopped_or_full(fixture: &Fixture, full: &str) -> CaseResult {
    let ran = fixture.run();
    let is_full = ran.0.process.as_ref().is_some_and(|process| process.stdout == full);
    let is_stopped = ran.0.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Memory);
    assert!(is_full || is_stopped, "{ran:?}");
    survivors::assert_none(fixture.mark());
    Ok(())
}

const fn case(number: &'static str, tries: &'static str, run: fn() -> CaseResult) -> Case {
    Case { number, description: tries, run }
}
