//! What happens to a tree whose supervisor does not answer any more, or is gone.

use rustix::process::{Pid, Signal, kill_process};

use super::standby::standby_of;
use super::*;

/// Processes that left the session and the parent of the script, and that only the end of their tree ends.
const TREE: &str = "job() { setsid bash -c 'echo >> jobs; sleep 1000'; }; (job &); job & \
     until [ -e jobs ] && [ \"$(wc -l < jobs)\" = 2 ]; do :; done; rm jobs; echo up; sleep 1000";

/// A started tree, which has said that it is complete.
struct Tree {
    handle: LaunchHandle,
    stdout: File,
    supervisor: i32,
    descendants: Vec<i32>,
}

impl Tree {
    /// Starts it by a standby or not.
    fn start(launcher: &Launcher, project: &std::path::Path, by_standby: bool, timeout_ms: u64) -> Self {
        let mut request = launch_request(project, TREE);
        request.timeout_ms = timeout_ms;
        let standby = by_standby.then(|| {
            let nothing = launch_request(project, "true");
            (0..2).for_each(|_| assert!(run(launcher, &nothing).report.is_some()));
            standby_of(launcher)
        });
        let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
        let (mut stdout, out) = std::io::pipe().unwrap();
        let handle = launcher.start(&request, [null(), out.into(), null()], None).unwrap();
        assert_eq!(stdout.read(&mut [0; 8]).unwrap(), 3);
        let supervisor = standby.unwrap_or_else(|| supervisors_of(launcher)[0]);
        let descendants = descendants(supervisor);
        assert!(descendants.len() >= 5, "{descendants:?}");
        Self { handle, stdout: OwnedFd::from(stdout).into(), supervisor, descendants }
    }

    fn signal_supervisor(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.supervisor).unwrap(), signal).unwrap();
    }
}

fn descendants(pid: i32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn launcher(level: SandboxLevel, supervisor_timeout: Duration) -> Launcher {
    Launcher::new(ForkServerSource::CurrentProgram, level).with_supervisor_timeout(supervisor_timeout)
}

const LEVELS: [SandboxLevel; 2] = [SandboxLevel::Namespaces, SandboxLevel::Landlock];

/// Longer than the tests take.
const NEVER: u64 = 600_000;

#[test]
fn a_supervisor_that_does_not_end_its_tree_is_killed_with_it() {
    for level in LEVELS {
        for by_standby in [false, true] {
            let project = tempfile::tempdir().unwrap();
            let launcher = launcher(level, Duration::from_millis(300));
            let mut tree = Tree::start(&launcher, project.path(), by_standby, NEVER);
            tree.signal_supervisor(Signal::STOP);
            assert!(tree.handle.kill_and_wait().is_none(), "{level:?}");
            let left: Vec<_> = tree.descendants.into_iter().filter(|pid| is_there(*pid)).collect();
            assert!(!is_there(tree.supervisor) && left.is_empty(), "{level:?} {left:?}");
            // It ends when nobody has it any more.
            assert_eq!(tree.stdout.read(&mut [0]).unwrap(), 0);
            // The fork server has learned nothing wrong from that.
            let ran = run(&launcher, &launch_request(project.path(), "echo hi"));
            let has_namespaces = ran.report.unwrap().enforcement.has(Restrictions::NAMESPACES);
            assert_eq!((ran.stdout.as_str(), has_namespaces), ("hi\n", level == SandboxLevel::Namespaces));
        }
    }
}

#[test]
fn a_supervisor_that_misses_its_deadline_is_killed_with_its_tree() {
    for level in LEVELS {
        let project = tempfile::tempdir().unwrap();
        let launcher = launcher(level, Duration::from_millis(300));
        let tree = Tree::start(&launcher, project.path(), false, 3000);
        tree.signal_supervisor(Signal::STOP);
        assert!(tree.handle.wait().is_none(), "{level:?}");
        assert!(!tree.descendants.into_iter().any(is_there), "{level:?}");
    }
}

#[test]
fn a_tree_whose_supervisor_was_killed_is_gone_when_the_host_learns_of_it() {
    for level in LEVELS {
        let project = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let tree = Tree::start(&launcher, project.path(), false, NEVER);
        tree.signal_supervisor(Signal::KILL);
        assert!(tree.handle.wait().is_none(), "{level:?}");
        assert!(!tree.descendants.into_iter().any(is_there), "{level:?}");
    }
}
