//! What the sandbox promises, seen from the host.

mod overlay;
mod standby;
mod unresponsive;
mod watch;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::{LaunchHandle, Launcher};
use crate::FileId;
use crate::SandboxLevel;
use crate::linux::layers::mounts::make_everything_read_only;
use crate::*;

/// The result of a program in a sandbox.
struct LaunchResult {
    report: Option<SupervisorReport>,
    stdout: String,
    stderr: String,
    took: Duration,
}

fn sandbox_policy(project: &std::path::Path) -> SandboxPolicy {
    let read = ["/usr", "/bin", "/lib", "/lib64", "/etc/ssl", "/etc/passwd", "/dev/zero", "/dev/urandom"];
    SandboxPolicy {
        files: FileRules {
            read: read.map(Into::into).to_vec(),
            own: Vec::new(),
            write: vec![project.into(), "/dev/null".into()],
            socket_dirs: Vec::new(),
            private_folders: Vec::new(),
            overlay: None,
            protected_paths: ProtectedPaths::default(),
        },
        network: NetworkAccess::Blocked,
        egress: EgressSockets::default(),
        allow_flock: false,
        allow_local_sockets: false,
        required: true,
        limits: ResourceLimits::default(),
        watch: None,
    }
}

fn network(is_blocked: bool) -> NetworkAccess {
    if is_blocked { NetworkAccess::Blocked } else { NetworkAccess::Open }
}

fn launch_request(project: &std::path::Path, script: &str) -> LaunchRequest {
    LaunchRequest {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), project.into())],
        folder: project.into(),
        sandbox: sandbox_policy(project),
        cleanup_dirs: Vec::new(),
        // Longer than a program of Python takes to start in an emulated machine.
        timeout_ms: 60_000,
    }
}

fn run(launcher: &Launcher, request: &LaunchRequest) -> LaunchResult {
    let began = Instant::now();
    let (stdin, mut feed) = std::io::pipe().unwrap();
    let (mut stdout, out) = std::io::pipe().unwrap();
    let (mut stderr, err) = std::io::pipe().unwrap();
    feed.write_all(b"input").unwrap();
    drop(feed);
    let streams: [OwnedFd; 3] = [stdin.into(), out.into(), err.into()];
    let started = launcher.start(request, streams, None).unwrap();
    let (mut output, mut errors) = (String::new(), String::new());
    stdout.read_to_string(&mut output).unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    let mut report = Vec::new();
    let LaunchHandle { control, report: pipe, .. } = started;
    File::from(pipe).read_to_end(&mut report).unwrap();
    drop(control);
    LaunchResult {
        report: crate::linux::ipc::decode(&report).ok().map(|(report, _)| report),
        stdout: output,
        stderr: errors,
        took: began.elapsed(),
    }
}

fn bash(script: &str) -> LaunchResult {
    let project = tempfile::tempdir().unwrap();
    run(&Launcher::default(), &launch_request(project.path(), script))
}

#[test]
fn a_script_runs_in_its_sandbox_and_the_report_says_what_was_enforced() {
    let ran = bash("read line; echo \"$line\"; echo x > file; cat file; exit 3");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("input\nx\n", ""));
    let report = ran.report.unwrap();
    assert_eq!(report.end, LaunchOutcome::Exited { status: 3 << 8 });
    assert!(
        report.enforcement.has(Restrictions::SECCOMP) && report.enforcement.landlock_abi > 0,
        "{report:?}"
    );
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
}

#[test]
fn a_sandbox_whose_mounts_fail_runs_without_them_only_if_not_required_and_reports_it() {
    let (project, secret) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inside = secret.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let mut request = launch_request(project.path(), "cat; echo ran");
    // When it is mounted back, nothing exists there: the folder around it is hidden.
    let files = &mut request.sandbox.files;
    files.write.push((&inside).into());
    files.protected_paths.hidden.push(secret.path().into());
    let ran = run(&Launcher::default(), &request);
    let report = ran.report.unwrap();
    let LaunchOutcome::SetupFailed { step, errno } = &report.end else { panic!("{report:?}") };
    assert_eq!((step.as_str(), *errno, ran.stdout.as_str()), ("namespaces", libc::ENOENT, ""), "{report:?}");
    request.sandbox.required = false;
    let ran = run(&Launcher::default(), &request);
    assert_eq!(ran.stdout, "inputran\n", "{}", ran.stderr);
    let enforcement = ran.report.unwrap().enforcement;
    assert!(
        enforcement.is_downgraded
            && !enforcement.has(Restrictions::NAMESPACES)
            && !enforcement.has(Restrictions::NAMESPACES)
            && !enforcement.has(Restrictions::PROTECTED_PATHS),
        "{enforcement:?}"
    );
    assert!(
        enforcement.landlock_abi > 0
            && enforcement.has(Restrictions::SECCOMP)
            && enforcement.has(Restrictions::TREE_GONE),
        "{enforcement:?}"
    );
}

/// Between the host's check and the setup of the sandbox, another folder or a symlink may be put there.
#[test]
fn what_replaced_a_folder_is_neither_read_nor_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for name in ["project", "other", "skill"] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("file"), "theirs\n").unwrap();
    }
    let now = |name: &str| {
        let about = std::fs::metadata(at(name)).unwrap();
        PinnedPath {
            file_id: Some(FileId { dev: about.dev(), ino: about.ino() }),
            ..PinnedPath::from(&at(name))
        }
    };
    let script = "cd \"$HOME\"; cat skill/file; for name in project other link; do cat $name/file; echo x > $name/new; done";
    let swap = |with: &str| {
        let (flags, here) = (rustix::fs::RenameFlags::EXCHANGE, rustix::fs::CWD);
        rustix::fs::renameat_with(here, at("project"), here, at(with), flags).unwrap();
    };
    std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
    for (is_writable, level) in [
        (false, SandboxLevel::Namespaces),
        (false, SandboxLevel::Landlock),
        (true, SandboxLevel::Namespaces),
        (true, SandboxLevel::Landlock),
    ] {
        let mut request = launch_request(folder.path(), script);
        request.folder = "/".into();
        let files = &mut request.sandbox.files;
        (files.write, files.own) = (vec!["/dev/null".into()], vec![now("skill")]);
        if is_writable { &mut files.write } else { &mut files.own }.push(now("project"));
        for with in ["link", "other"] {
            swap(with);
            let ran = run(&Launcher::new(ForkServerSource::CurrentProgram, level), &request);
            swap(with);
            assert_eq!(ran.stdout, "theirs\n", "{with} {level:?} {}", ran.stderr);
            assert!(!at("other/new").exists() && !at("project/new").exists(), "{with} {level:?}");
            assert!(ran.report.unwrap().enforcement.landlock_abi > 0);
        }
        let ran = run(&Launcher::new(ForkServerSource::CurrentProgram, level), &request);
        assert_eq!(ran.stdout, "theirs\ntheirs\n", "{level:?} {}", ran.stderr);
        assert_eq!(at("project/new").exists(), is_writable);
        std::fs::remove_file(at("project/new")).ok();
    }
}

#[test]
fn who_may_write_everything_is_in_namespaces_all_the_same() {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join(".env"), "secret").unwrap();
    let mut request = launch_request(project.path(), "cat .env; echo x > file; cat file");
    let files = &mut request.sandbox.files;
    files.write.push("/".into());
    files.protected_paths.hidden.push(project.path().join(".env").into());
    let ran = run(&Launcher::default(), &request);
    assert_eq!(ran.stdout, "x\n", "{}", ran.stderr);
    let enforcement = ran.report.unwrap().enforcement;
    assert!(
        enforcement.has(Restrictions::NAMESPACES)
            && enforcement.has(Restrictions::PROTECTED_PATHS)
            && !enforcement.is_downgraded,
        "{enforcement:?}"
    );
}

#[test]
fn the_lower_levels_are_set_up_when_they_are_requested() {
    let project = tempfile::tempdir().unwrap();
    for (level, scoped) in [(SandboxLevel::Landlock, true), (SandboxLevel::LandlockUnscoped, false)] {
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        let enforcement = run(&launcher, &launch_request(project.path(), "(setsid sleep 1000 &); exit 0"))
            .report
            .unwrap()
            .enforcement;
        assert_eq!(
            (
                enforcement.has(Restrictions::NAMESPACES),
                enforcement.has(Restrictions::SCOPED_KILL),
                enforcement.has(Restrictions::TREE_GONE)
            ),
            (false, scoped, true),
            "{level:?}"
        );
    }
}

#[test]
fn what_is_outside_stays_outside() {
    // Mounts refuse before Landlock does.
    let refusals = ["Permission denied", "Read-only file system", "Operation not permitted"];
    for attempt in [
        "cat /etc/shadow",
        "ls /root",
        "echo x > /tmp/metier-escaped",
        "cat /proc/1/environ",
        "exec 3<>/dev/tcp/127.0.0.1/1",
        "exec 3<>/dev/udp/127.0.0.1/1",
    ] {
        let ran = bash(attempt);
        let is_refused = refusals.iter().any(|refusal| ran.stderr.contains(refusal));
        assert!(is_refused, "{attempt}: {} {:?}", ran.stderr, ran.report);
    }
}

#[test]
fn nothing_of_the_tree_outlives_the_child() {
    let ran = bash(
        "for i in 1 2 3; do setsid sleep 1000 & done; (setsid bash -c 'sleep 1000 & sleep 1000' &) ; exit 0",
    );
    let report = ran.report.unwrap();
    assert_eq!(report.end, LaunchOutcome::Exited { status: 0 });
    assert!(report.usage.left_behind >= 3 && report.enforcement.has(Restrictions::TREE_GONE), "{report:?}");
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
}

#[test]
fn a_deadline_ends_a_tree_that_only_ever_forks() {
    let project = tempfile::tempdir().unwrap();
    let mut request = launch_request(
        project.path(),
        "f() { setsid bash -c 'trap \"\" TERM; eval \"$F\"; f' & }; export F=\"$(declare -f f)\"; for i in 1 2 3 4 5; do f; done; sleep 100",
    );
    request.timeout_ms = 500;
    let ran = run(&Launcher::default(), &request);
    assert!(ran.took < Duration::from_secs(4), "{:?} {:?}", ran.took, ran.report);
    assert_eq!(ran.report.unwrap().end, LaunchOutcome::Exited { status: libc::SIGKILL });
}

#[test]
fn a_program_that_is_not_there_is_a_refusal_with_its_step() {
    let project = tempfile::tempdir().unwrap();
    let request =
        LaunchRequest { program: "/usr/bin/not-there".into(), ..launch_request(project.path(), "") };
    let report = run(&Launcher::default(), &request).report.unwrap();
    assert_eq!(report.end, LaunchOutcome::SetupFailed { step: "program".into(), errno: libc::ENOENT });
}

/// The processes that a fork server has forked.
fn supervisors_of(launcher: &Launcher) -> Vec<i32> {
    let server = launcher.server_pid();
    let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn is_there(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_fork_server_serves_many_and_is_started_again_when_it_was_killed() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    for _ in 0..20 {
        assert_eq!(run(&launcher, &launch_request(project.path(), "echo hi")).stdout, "hi\n");
    }
    launcher.signal_server(rustix::process::Signal::KILL);
    assert_eq!(run(&launcher, &launch_request(project.path(), "echo again")).stdout, "again\n");
}

#[test]
fn a_fork_server_that_was_stopped_is_replaced_and_does_nothing_late() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let request = launch_request(project.path(), "echo hi; echo ran >> file");
    assert_eq!(run(&launcher, &request).stdout, "hi\n");
    let first = launcher.server_pid();
    launcher.signal_server(rustix::process::Signal::STOP);
    assert_eq!(run(&launcher, &request).stdout, "hi\n");
    assert!(!is_there(first));
    assert_eq!(std::fs::read_to_string(project.path().join("file")).unwrap(), "ran\nran\n");
}

/// The limits of a script do not affect its restrictions.
#[test]
fn a_script_with_hardly_any_resources_has_every_restriction() {
    let project = tempfile::tempdir().unwrap();
    for (memory, open_files, required) in [
        (Some(1 << 20), None, true),
        (Some(1 << 20), None, false),
        (None, Some(4), true),
        (None, Some(4), false),
    ] {
        let mut request = launch_request(project.path(), "cat /etc/shadow; echo ran");
        request.args.extend((0..40).map(|_| "x".repeat(12_000).into()));
        request.sandbox.required = required;
        request.sandbox.limits = ResourceLimits { memory, open_files, ..ResourceLimits::default() };
        let ran = run(&Launcher::default(), &request);
        let report = ran.report.unwrap();
        assert!(matches!(report.end, LaunchOutcome::Exited { .. }), "{memory:?} {open_files:?} {report:?}");
        let enforcement = report.enforcement;
        assert!(
            enforcement.landlock_abi >= 3
                && enforcement.has(Restrictions::NETWORK)
                && enforcement.has(Restrictions::SECCOMP)
                && enforcement.has(Restrictions::TREE_GONE),
            "{enforcement:?}"
        );
        assert!(!ran.stdout.contains("root:"));
    }
}

#[test]
fn a_script_goes_before_its_host_when_memory_is_short() {
    let project = tempfile::tempdir().unwrap();
    let mut request = launch_request(project.path(), "cat /proc/self/oom_score_adj");
    request.sandbox.files.read.push("/proc".into());
    // A copy of the host keeps its memory from others, and only root may then raise the number. With a helper program anyone may.
    let expected = if rustix::process::geteuid().is_root() { "500\n" } else { "0\n" };
    assert_eq!(run(&Launcher::default(), &request).stdout, expected);
}

/// No sandbox level is lost because of what happens to the mounts while the sandbox is set up.
#[test]
fn no_start_is_downgraded_by_its_own_processes() {
    let project = tempfile::tempdir().unwrap();
    let request = launch_request(project.path(), "echo hi");
    for round in 0..100 {
        let ran = run(&Launcher::default(), &request);
        let report = ran.report.unwrap();
        assert!(
            report.enforcement.has(Restrictions::NAMESPACES) && ran.stdout == "hi\n",
            "{round}: {report:?}"
        );
    }
}

#[test]
fn what_a_script_closes_is_closed_while_it_still_runs() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    let (stdin, _feed) = std::io::pipe().unwrap();
    let (mut stdout, out) = std::io::pipe().unwrap();
    let (_stderr, err) = std::io::pipe().unwrap();
    let request = launch_request(project.path(), "echo hi; exec >&-; read never");
    let LaunchHandle { control, report, .. } =
        launcher.start(&request, [stdin.into(), out.into(), err.into()], None).unwrap();
    let mut output = String::new();
    stdout.read_to_string(&mut output).unwrap();
    assert_eq!(output, "hi\n");
    let mut end = [rustix::event::PollFd::new(&report, rustix::event::PollFlags::IN)];
    assert_eq!(
        rustix::event::poll(&mut end, Some(&rustix::event::Timespec::default())),
        Ok(0),
        "it has ended"
    );
    drop(control);
}

#[test]
fn only_scripts_with_the_network_are_in_the_network_namespace_of_the_machine() {
    let project = tempfile::tempdir().unwrap();
    let machine = std::fs::read_link("/proc/self/ns/net").unwrap().into_os_string().into_string().unwrap();
    let launcher = Launcher::default();
    let mut request = launch_request(project.path(), "readlink /proc/self/ns/net");
    for block_network in [true, true, false, false, true, false, true] {
        request.sandbox.network = network(block_network);
        let ran = run(&launcher, &request);
        let enforcement = ran.report.unwrap().enforcement;
        assert_eq!(
            ran.stdout.trim() != machine,
            block_network && enforcement.has(Restrictions::NAMESPACES),
            "{enforcement:?}"
        );
    }
}

/// Whether this is the test of that name in a mount namespace of its own, so that nobody else sees its mounts. If not, the test
/// has passed there.
fn has_own_mounts(name: &str) -> bool {
    if std::env::var_os("METIER_OWN_MOUNTS").is_some() {
        return true;
    }
    // Mount events propagate among them, as on any machine.
    let again = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "--propagation", "shared"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("METIER_OWN_MOUNTS", "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && output.contains("1 passed"), "{output}");
    false
}

#[test]
fn mounts_that_somebody_writes_to_for_a_moment_become_read_only_after_it() {
    const NAME: &str = "linux::tests::mounts_that_somebody_writes_to_for_a_moment_become_read_only_after_it";
    if !has_own_mounts(NAME) {
        return;
    }
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount(c"none", c"/tmp", c"tmpfs", nothing, None).unwrap();
    let file = File::create("/tmp/file").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            drop(file);
        });
        make_everything_read_only().unwrap();
    });
    let error = File::create("/tmp/other").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn mounts_that_are_written_to_all_the_time_are_an_error() {
    const NAME: &str = "linux::tests::mounts_that_are_written_to_all_the_time_are_an_error";
    if !has_own_mounts(NAME) {
        return;
    }
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount(c"none", c"/tmp", c"tmpfs", nothing, None).unwrap();
    let _file = File::create("/tmp/file").unwrap();
    assert_eq!(make_everything_read_only().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
}
