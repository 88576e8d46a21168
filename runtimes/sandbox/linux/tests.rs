//! What the cage promises, from the host's side.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::super::sandbox::*;
use super::{Launcher, Started};
use crate::policy::Tier;

/// What came of a program in a cage.
struct Ran {
    report: Option<Report>,
    stdout: String,
    stderr: String,
    took: Duration,
}

fn cage(project: &std::path::Path) -> Cage {
    let read = ["/usr", "/bin", "/lib", "/lib64", "/etc/ssl", "/etc/passwd", "/dev/zero", "/dev/urandom"];
    Cage {
        files: Some(FileRules {
            read: read.map(Into::into).to_vec(),
            write: vec![project.into(), "/dev/null".into()],
            guarded: Guarded::default(),
        }),
        shut_network: true,
        guard_calls: true,
        required: true,
        ceilings: Ceilings::default(),
    }
}

fn order(project: &std::path::Path, script: &str) -> Order {
    Order {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), project.into())],
        folder: project.into(),
        cage: cage(project),
        leftovers: Vec::new(),
        deadline_ms: 10_000,
    }
}

fn run(launcher: &Launcher, order: &Order) -> Ran {
    let began = Instant::now();
    let (stdin, mut feed) = std::io::pipe().unwrap();
    let (mut stdout, out) = std::io::pipe().unwrap();
    let (mut stderr, err) = std::io::pipe().unwrap();
    feed.write_all(b"input").unwrap();
    drop(feed);
    let streams: [OwnedFd; 3] = [stdin.into(), out.into(), err.into()];
    let started = launcher.start(order, streams, None).unwrap();
    let (mut said, mut complained) = (String::new(), String::new());
    stdout.read_to_string(&mut said).unwrap();
    stderr.read_to_string(&mut complained).unwrap();
    let mut report = Vec::new();
    let Started { control, report: pipe } = started;
    File::from(pipe).read_to_end(&mut report).unwrap();
    drop(control);
    Ran {
        report: serde_json::from_slice(&report).ok(),
        stdout: said,
        stderr: complained,
        took: began.elapsed(),
    }
}

fn bash(script: &str) -> Ran {
    let project = tempfile::tempdir().unwrap();
    run(&Launcher::default(), &order(project.path(), script))
}

#[test]
fn a_script_runs_in_its_cage_and_the_report_says_what_held() {
    let ran = bash("read line; echo \"$line\"; echo x > file; cat file; exit 3");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("input\nx\n", ""));
    let report = ran.report.unwrap();
    assert_eq!(report.end, End::Ran { status: 3 << 8 });
    assert!(report.enforced.calls && report.enforced.files_abi > 0, "{report:?}");
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
}

#[test]
fn a_cage_whose_mounts_cannot_be_put_up_is_one_without_them_and_says_so() {
    let project = tempfile::tempdir().unwrap();
    let mut order = order(project.path(), "cat; echo ran");
    // Nothing can be put over the root.
    order.cage.files.as_mut().unwrap().write.push("/".into());
    let ran = run(&Launcher::default(), &order);
    assert_eq!(ran.stdout, "inputran\n", "{}", ran.stderr);
    let held = ran.report.unwrap().enforced;
    assert!(!held.namespaces && !held.read_only && !held.guarded && held.files_abi > 0, "{held:?}");
    assert!(held.calls && held.tree_gone, "{held:?}");
}

#[test]
fn the_lower_tiers_are_put_up_when_they_are_asked_for() {
    let project = tempfile::tempdir().unwrap();
    for (tier, scoped) in [(Tier::Landlock, true), (Tier::Walk, false)] {
        let launcher = Launcher::new(Source::Itself, tier);
        let held =
            run(&launcher, &order(project.path(), "(setsid sleep 1000 &); exit 0")).report.unwrap().enforced;
        assert_eq!((held.namespaces, held.scoped_kill, held.tree_gone), (false, scoped, true), "{tier:?}");
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
fn nothing_of_the_tree_outlives_the_leader() {
    let ran = bash(
        "for i in 1 2 3; do setsid sleep 1000 & done; (setsid bash -c 'sleep 1000 & sleep 1000' &) ; exit 0",
    );
    let report = ran.report.unwrap();
    assert_eq!(report.end, End::Ran { status: 0 });
    assert!(report.used.left_behind >= 3 && report.enforced.tree_gone, "{report:?}");
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
}

#[test]
fn a_deadline_ends_a_tree_that_only_ever_forks() {
    let project = tempfile::tempdir().unwrap();
    let mut order = order(
        project.path(),
        "f() { setsid bash -c 'trap \"\" TERM; eval \"$F\"; f' & }; export F=\"$(declare -f f)\"; for i in 1 2 3 4 5; do f; done; sleep 100",
    );
    order.deadline_ms = 500;
    let ran = run(&Launcher::default(), &order);
    assert!(ran.took < Duration::from_secs(4), "{:?} {:?}", ran.took, ran.report);
    assert_eq!(ran.report.unwrap().end, End::Ran { status: libc::SIGKILL });
}

#[test]
fn a_program_that_is_not_there_is_a_refusal_with_its_step() {
    let project = tempfile::tempdir().unwrap();
    let order = Order { program: "/usr/bin/not-there".into(), ..order(project.path(), "") };
    let report = run(&Launcher::default(), &order).report.unwrap();
    assert_eq!(report.end, End::Refused { step: "program".into(), errno: libc::ENOENT });
}

#[test]
fn a_helper_serves_many_and_is_started_again_when_it_was_killed() {
    let project = tempfile::tempdir().unwrap();
    let launcher = Launcher::default();
    for _ in 0..20 {
        assert_eq!(run(&launcher, &order(project.path(), "echo hi")).stdout, "hi\n");
    }
    launcher.kill_helper();
    assert_eq!(run(&launcher, &order(project.path(), "echo again")).stdout, "again\n");
}
