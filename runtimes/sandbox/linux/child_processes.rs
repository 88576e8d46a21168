//! The children of this process, as the kernel lists them. Orphans below a subreaper become its children.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A list of the children of this process, which has one thread.
const OWN_CHILDREN: &str = "/proc/thread-self/children";

/// Whether the kernel lists them.
pub(super) fn can_list() -> bool {
    fs::read_to_string(OWN_CHILDREN).is_ok()
}

/// The children of this process.
pub(super) fn list() -> Vec<Pid> {
    read_list(OWN_CHILDREN)
}

/// The process ids in such a list.
fn read_list(list: impl AsRef<Path>) -> Vec<Pid> {
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}

/// Children of this process, their children, and so on, each after its parent. Orphans that become its children meanwhile are seen the
/// next time.
pub(super) fn descendants() -> Vec<Pid> {
    let mut known = HashSet::new();
    let mut found = list();
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        if known.insert(pid) {
            let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten();
            let threads = threads.filter_map(|thread| Some(thread.ok()?.path().join("children")));
            found.extend(threads.flat_map(read_list));
        }
    }
    // One that moved up meanwhile was listed twice.
    found.retain(|pid| known.remove(pid));
    found
}

/// Kills the children of this process except these. Their process ids are not reused until they are reaped.
pub(super) fn kill_all_except(excluded: &[Pid]) {
    for child in list().into_iter().filter(|child| !excluded.contains(child)) {
        kill_process(child, Signal::KILL).ok();
    }
}
