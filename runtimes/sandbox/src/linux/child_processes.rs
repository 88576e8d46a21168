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

/// Kills the children of this process except these, and returns whether there were any. Their process ids are not reused until they are
/// reaped.
pub(super) fn kill_all_except(excluded: &[Pid]) -> bool {
    let others: Vec<Pid> = list().into_iter().filter(|child| !excluded.contains(child)).collect();
    for child in &others {
        kill_process(*child, Signal::KILL).ok();
    }
    !others.is_empty()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::linux::procfs::ProcessStat;

    #[test]
    fn each_descendant_is_listed_once_after_its_parent() {
        // Five shells, each a child of the one before. The last waits for the end of its input.
        let script =
            r#"if [ "$1" -gt 0 ]; then sh -c "$0" "$0" $(($1 - 1)); else echo ready; read -r line; fi; :"#;
        let mut first = Command::new("sh")
            .args(["-c", script, script, "4"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let found = descendants();
        let mut next = Pid::from_child(&first);
        let mut places = Vec::new();
        while let Some(at) = found.iter().position(|pid| *pid == next) {
            places.push(at);
            let child = found
                .iter()
                .find(|pid| ProcessStat::read(**pid).is_some_and(|stat| stat.parent == Some(next)));
            let Some(child) = child else { break };
            next = *child;
        }
        drop(first.stdin.take());
        first.wait().unwrap();
        assert_eq!(places.len(), 5, "{found:?}");
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len(), "{found:?}");
    }
}
