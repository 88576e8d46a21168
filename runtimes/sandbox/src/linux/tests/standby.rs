//! What the standby process of a fork server promises: it is new for each run, and keeps nothing.

use rustix::process::{Pid, Signal};

use super::*;

/// Waits until the supervisors of earlier requests are gone, and a standby waits with its child.
pub(super) fn standby_of(launcher: &Launcher) -> i32 {
    standby_beside(launcher, &[])
}

/// The standby of a launcher that has these other processes.
pub(super) fn standby_beside(launcher: &Launcher, others: &[i32]) -> i32 {
    for _ in 0..1000 {
        let mut children = supervisors_of(launcher);
        children.retain(|pid| !others.contains(pid));
        if let [standby] = children[..]
            && child_of(standby).is_some()
        {
            return standby;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{:?}", supervisors_of(launcher));
}

#[test]
fn a_second_request_leaves_a_standby_that_ends_with_its_fork_server() {
    let project = tempfile::tempdir().unwrap();
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let mut request = launch_request(project.path(), "echo hi");
        let mut says_hi = |block_network| {
            request.sandbox.network = network(block_network);
            let ran = run(&launcher, &request);
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""), "{level:?}");
            let enforcement = ran.report.unwrap().enforcement;
            assert_eq!(
                (
                    enforcement.has(Restrictions::NETWORK),
                    enforcement.has(Restrictions::SCOPED_KILL),
                    enforcement.has(Restrictions::TREE_GONE)
                ),
                (block_network, true, true)
            );
        };
        says_hi(true);
        says_hi(true);
        let first = standby_of(&launcher);
        says_hi(true);
        let second = standby_of(&launcher);
        assert_ne!(first, second, "it had the last request");
        // It is prepared for a blocked network only.
        says_hi(false);
        assert!(!is_there(second));
        let third = standby_of(&launcher);
        kill(third);
        says_hi(false);
        says_hi(true);
        drop(launcher);
        assert!(!is_there(third));
    }
}

#[test]
fn a_standby_ends_with_its_fork_server_however_that_ends() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    for _ in 0..2 {
        run(&launcher, &launch_request(project.path(), "true"));
    }
    let standby = standby_of(&launcher);
    launcher.signal_server(rustix::process::Signal::KILL);
    for _ in 0..1000 {
        if !is_there(standby) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("it waits for an request that cannot come");
}

#[test]
fn a_standby_that_does_not_see_the_current_mounts_is_not_used() {
    const NAME: &str = "linux::tests::standby::a_standby_that_does_not_see_the_current_mounts_is_not_used";
    if !has_own_mounts(NAME) {
        return;
    }
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let request = launch_request(project.path(), "cat file 2>/dev/null; echo there");
    for _ in 0..2 {
        let enforcement = run(&launcher, &request).report.unwrap().enforcement;
        assert!(enforcement.has(Restrictions::NAMESPACES), "{enforcement:?}");
    }
    standby_of(&launcher);
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount(c"none", project.path(), c"tmpfs", nothing, None).unwrap();
    std::fs::write(project.path().join("file"), "new\n").unwrap();
    assert_eq!(run(&launcher, &request).stdout, "new\nthere\n");
    assert_eq!(run(&launcher, &request).stdout, "new\nthere\n");
}

/// Otherwise a disk unmounted while a standby waits would be in use for as long as the host lives.
#[test]
fn a_standby_keeps_nothing_mounted_that_is_not() {
    const NAME: &str = "linux::tests::standby::a_standby_keeps_nothing_mounted_that_is_not";
    if !has_own_mounts(NAME) {
        return;
    }
    let project = tempfile::tempdir().unwrap();
    let disk = project.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount(c"metier-disk", &disk, c"tmpfs", nothing, None).unwrap();
    let launcher = Launcher::default();
    for _ in 0..2 {
        run(&launcher, &launch_request(project.path(), "true"));
    }
    let standby = standby_of(&launcher);
    // It has a child once it has done what does not depend on the request.
    let is_mounted = || {
        let mounts = std::fs::read_to_string(format!("/proc/{standby}/mountinfo")).unwrap();
        mounts.contains("metier-disk")
    };
    assert!(is_mounted());
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(!is_mounted());
}

/// A process that cannot be created for the moment says nothing about what the machine supports.
#[test]
fn no_standby_runs_without_namespaces_what_requires_them() {
    const NAME: &str = "linux::tests::standby::no_standby_runs_without_namespaces_what_requires_them";
    if std::env::var_os("METIER_NO_NAMESPACES").is_none() {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("METIER_NO_NAMESPACES", "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    fail_to_create_namespaces();
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let mut request = launch_request(project.path(), "echo ran >> file; echo ran");
    for round in 0..6 {
        let ran = run(&launcher, &request);
        let end = ran.report.unwrap().end;
        assert!(
            matches!(&end, LaunchOutcome::SetupFailed { step, .. } if step == "namespaces"),
            "{round} {end:?}"
        );
        assert_eq!(ran.stdout, "", "{round}");
    }
    request.sandbox.required = false;
    for round in 0..3 {
        let ran = run(&launcher, &request);
        let enforcement = ran.report.unwrap().enforcement;
        assert!(
            enforcement.is_downgraded && !enforcement.has(Restrictions::NAMESPACES) && ran.stdout == "ran\n",
            "{round} {enforcement:?}"
        );
    }
}

/// From now on this process and its children get `EAGAIN` for a new mount namespace.
pub(super) fn fail_to_create_namespaces() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    let flag = u64::from(libc::CLONE_NEWNS.unsigned_abs());
    let has_flag =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag).unwrap();
    let rule = vec![SeccompRule::new(vec![has_flag]).unwrap()];
    let rules = [(libc::SYS_clone, rule.clone()), (libc::SYS_unshare, rule)].into();
    let again = SeccompAction::Errno(libc::EAGAIN.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, again, std::env::consts::ARCH.try_into().unwrap());
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}

fn child_of(standby: i32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{standby}/task/{standby}/children"));
    children.ok()?.trim().parse().ok()
}

#[test]
fn a_standby_whose_child_is_gone_takes_no_request() {
    let project = tempfile::tempdir().unwrap();
    for (level, is_within) in [(SandboxLevel::Namespaces, true), (SandboxLevel::Landlock, false)] {
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        for _ in 0..2 {
            run(&launcher, &launch_request(project.path(), "true"));
        }
        let standby = standby_of(&launcher);
        let child = child_of(standby).unwrap();
        kill(child);
        while std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ran = run(&launcher, &launch_request(project.path(), "echo hi"));
        let report = ran.report.unwrap();
        assert_eq!(
            (ran.stdout.as_str(), report.enforcement.has(Restrictions::NAMESPACES)),
            ("hi\n", is_within),
            "{report:?}"
        );
    }
}

#[test]
fn a_standby_opens_what_its_request_reads_now_and_nothing_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| std::fs::canonicalize(folder.path()).unwrap().join(name);
    for folder in ["project", "tools"] {
        std::fs::create_dir(at(folder)).unwrap();
    }
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        for (name, text) in [("tools/one", "one"), ("tools/two", "two"), ("tools/new", "new")] {
            std::fs::write(at(name), format!("{text}\n")).unwrap();
        }
        std::fs::remove_file(at("tools/old")).ok();
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let output = |read: &[&str]| {
            let script = "cd ../tools; for name in one two old; do cat $name 2>/dev/null; done; true";
            let mut request = launch_request(&at("project"), script);
            request.sandbox.files.read.extend(read.iter().map(|name| at(name).into()));
            run(&launcher, &request).stdout
        };
        assert_eq!(output(&["tools/one"]), "one\n");
        assert_eq!(output(&["tools/one"]), "one\n");
        standby_of(&launcher);
        assert_eq!(output(&["tools/two"]), "two\n", "another request");
        standby_of(&launcher);
        assert_eq!(output(&[]), "", "less than before");
        standby_of(&launcher);
        assert_eq!(output(&["tools/two", "tools/one"]), "one\ntwo\n", "more than before");
        assert_eq!(output(&["tools/one"]), "one\n");
        standby_of(&launcher);
        // The folder there was moved, and another one put in its place.
        std::fs::rename(at("tools/one"), at("tools/old")).unwrap();
        std::fs::rename(at("tools/new"), at("tools/one")).unwrap();
        assert_eq!(output(&["tools/one"]), "new\n");
        standby_of(&launcher);
        std::fs::remove_file(at("tools/one")).unwrap();
        assert_eq!(output(&["tools/one"]), "", "it is gone");
        standby_of(&launcher);
        std::fs::write(at("tools/one"), "again\n").unwrap();
        assert_eq!(output(&["tools/one"]), "again\n");
    }
}

#[test]
fn a_standby_that_was_stopped_is_replaced_and_does_nothing_late() {
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let project = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let request = launch_request(project.path(), "echo hi; echo ran >> file");
        for _ in 0..2 {
            assert_eq!(run(&launcher, &request).stdout, "hi\n");
        }
        let standby = standby_of(&launcher);
        rustix::process::kill_process(Pid::from_raw(standby).unwrap(), Signal::STOP).unwrap();
        assert_eq!(run(&launcher, &request).stdout, "hi\n", "{level:?}");
        for _ in 0..1000 {
            if !is_there(standby) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(!is_there(standby), "{level:?}");
        assert_eq!(std::fs::read_to_string(project.path().join("file")).unwrap(), "ran\nran\nran\n");
    }
}

#[test]
fn a_run_ends_while_its_fork_server_is_stopped() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let request = launch_request(project.path(), "exit 3");
    for _ in 0..2 {
        run(&launcher, &request);
    }
    standby_of(&launcher);
    launcher.signal_server(Signal::STOP);
    let [stdin, stdout, stderr] = std::array::from_fn(|_| File::open("/dev/null").unwrap().into());
    let started = launcher.start(&request, [stdin, stdout, stderr], None).unwrap();
    let began = Instant::now();
    assert!(wait_readable(&started.report));
    assert_eq!(started.kill_and_wait().unwrap().end, LaunchOutcome::Exited { status: 3 << 8 });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    launcher.signal_server(Signal::CONT);
}

#[test]
fn a_standby_that_was_killed_is_replaced() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let request = launch_request(project.path(), "echo hi");
    for _ in 0..2 {
        run(&launcher, &request);
    }
    for _ in 0..3 {
        kill(standby_of(&launcher));
        assert_eq!(run(&launcher, &request).stdout, "hi\n");
    }
}

#[test]
fn a_fork_server_that_was_stopped_learns_later_what_its_standby_has_run() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let request = launch_request(project.path(), "echo hi");
    for _ in 0..2 {
        assert_eq!(run(&launcher, &request).stdout, "hi\n");
    }
    let (server, first) = (launcher.server_pid(), standby_of(&launcher));
    launcher.signal_server(Signal::STOP);
    std::thread::scope(|scope| {
        // Its copy of the request holds the streams open until it has read it.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            rustix::process::kill_process(Pid::from_raw(server).unwrap(), Signal::CONT).unwrap();
        });
        assert_eq!(run(&launcher, &request).stdout, "hi\n");
    });
    assert_ne!(standby_of(&launcher), first);
    assert_eq!((run(&launcher, &request).stdout.as_str(), launcher.server_pid()), ("hi\n", server));
}

#[test]
fn a_request_whose_sandbox_a_standby_cannot_set_up_goes_to_another_supervisor() {
    let (project, secret) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inside = secret.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let launcher = Launcher::default();
    let mut request = launch_request(project.path(), "cat; echo ran | tee -a file");
    request.sandbox.required = false;
    for _ in 0..2 {
        assert_eq!(run(&launcher, &request).stdout, "inputran\n");
    }
    let standby = standby_of(&launcher);
    // When it is mounted back, nothing exists there: the folder around it is hidden.
    let files = request.sandbox.files.clone();
    request.sandbox.files.write.push((&inside).into());
    request.sandbox.files.protected_paths.hidden.push(secret.path().into());
    let ran = run(&launcher, &request);
    assert_eq!(ran.stdout, "inputran\n", "{}", ran.stderr);
    let enforcement = ran.report.unwrap().enforcement;
    assert!(enforcement.is_downgraded && enforcement.landlock_abi > 0, "{enforcement:?}");
    assert!(!is_there(standby));
    // The next one has everything again.
    request.sandbox.files = files;
    let ran = run(&launcher, &request);
    assert_eq!(ran.stdout, "inputran\n", "{}", ran.stderr);
    let enforcement = ran.report.unwrap().enforcement;
    assert!(!enforcement.is_downgraded && enforcement.has(Restrictions::NAMESPACES), "{enforcement:?}");
    assert_eq!(std::fs::read_to_string(project.path().join("file")).unwrap(), "ran\n".repeat(4));
}

#[test]
fn a_limit_of_the_previous_request_is_none_of_the_next() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let mut request = launch_request(project.path(), "cat /proc/sys/kernel/pid_max");
    request.sandbox.files.read.push("/proc".into());
    request.sandbox.limits.processes = Some(20);
    let limits: Vec<String> = (0..3).map(|_| run(&launcher, &request).stdout).collect();
    assert!(limits.iter().all(|limit| *limit == limits[0]), "{limits:?}");
    standby_of(&launcher);
    request.sandbox.limits.processes = None;
    // Before Linux 6.14 a namespace has no limit of its own, and the machine's is shown each time.
    let unlimited = if limits[0] == "320\n" { "4194304\n" } else { &limits[0] };
    assert_eq!(run(&launcher, &request).stdout, unlimited);
}

#[test]
fn requests_from_several_threads_each_run_once() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let run_some = |thread: usize| {
        for round in 0..20 {
            let name = format!("{thread}-{round}");
            // Every third one is for another kind of standby.
            let mut request = launch_request(project.path(), &format!("echo {name} | tee -a {name}"));
            request.sandbox.network = network(round % 3 != 0);
            assert_eq!(run(&launcher, &request).stdout, format!("{name}\n"));
            assert_eq!(std::fs::read_to_string(project.path().join(&name)).unwrap(), format!("{name}\n"));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || run_some(thread));
        }
    });
}

/// The rules for the files of the system are made before the request is there.
#[test]
fn a_file_that_was_replaced_since_its_rule_was_prepared_is_the_new_one() {
    let project = tempfile::tempdir().unwrap();
    let system = tempfile::tempdir().unwrap();
    let (file, old) = (system.path().join("file"), system.path().join("old"));
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        std::fs::write(&file, "first").unwrap();
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let script = format!("cat {}; cat {} 2>/dev/null; true", file.display(), old.display());
        let mut request = launch_request(project.path(), &script);
        request.sandbox.files.read.push(file.clone().into());
        for _ in 0..3 {
            assert_eq!(run(&launcher, &request).stdout, "first", "{level:?}");
        }
        standby_of(&launcher);
        std::fs::rename(&file, &old).unwrap();
        std::fs::write(&file, "second").unwrap();
        assert_eq!(run(&launcher, &request).stdout, "second", "{level:?}");
        standby_of(&launcher);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(run(&launcher, &request).stdout, "", "{level:?}");
        standby_of(&launcher);
        // Another request than the one that was expected.
        std::fs::write(&file, "third").unwrap();
        assert_eq!(run(&launcher, &request).stdout, "third", "{level:?}");
        standby_of(&launcher);
        request.sandbox.files.read.pop();
        assert_eq!(run(&launcher, &request).stdout, "", "{level:?}");
    }
}
