//! A sandbox that is less than it could be says so: on machines that give less, the outcome shows what was missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use metier::engine::Engine;
use metier::error::ErrorKind;
use metier::host::LogLevel;
use metier::policy::{SandboxLevel, SandboxMode};

use crate::sandbox::attackers;
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::survivors;
use crate::support::not_run::{find_program, not_run};

/// A helper program that is started by this line of shell, in which `"$@"` is the real one with its argument.
fn helper(fixture: &Fixture, line: &str) -> Option<PathBuf> {
    let real = fixture::helper()?;
    let program = fixture.at("helper");
    fs::write(&program, format!("#!/bin/sh\nset -- {} \"$@\"\n{line}\n", real.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    Some(program)
}

fn engine(fixture: &Fixture, line: &str) -> Option<Engine> {
    Some(fixture.builder().helper(helper(fixture, line)?).build().unwrap())
}

/// Where no namespace can be made, or nothing can be mounted in one, everything else is put up.
#[test]
fn a_machine_without_namespaces_has_a_sandbox_all_the_same() {
    let Ok(no_mounts) = attackers::program("no_mounts") else {
        return not_run("a machine without mounts", "there is no C compiler");
    };
    if find_program("unshare").is_none() {
        return not_run("a machine without namespaces", "unshare is not installed");
    }
    // Who is nobody in its namespace may make no other.
    for starter in ["unshare --user", no_mounts.to_str().unwrap()] {
        let fixture = Fixture::bash("echo ran; cat ../outside/secret 2>/dev/null || echo refused");
        let Some(engine) = engine(&fixture, &format!("exec {starter} \"$@\"")) else {
            return not_run("a machine without namespaces", "the command line is not built in");
        };
        for round in 0..3 {
            let outcome = engine.run(fixture.invocation());
            let (held, process) = (outcome.sandbox.unwrap(), outcome.process.unwrap());
            let expected = ("landlock", "ran\nrefused\n");
            assert_eq!(
                (held.level.name(), process.stdout.as_str()),
                expected,
                "{starter} {round} {process:?}"
            );
            assert!(
                held.files && held.network && held.signals && held.tree_kill,
                "{starter} {round} {held:?}"
            );
            let lacks = !held.protected_paths && !held.metadata_outside && !held.process_count;
            assert!(lacks, "{starter} {round} {held:?}");
        }
    }
}

/// A profiler sends its program signals all the time; no wait of the host's is over for that.
#[test]
fn a_host_that_is_sent_signals_all_the_time_runs_scripts_as_ever() {
    let (Ok(library), Some(metier)) = (attackers::library("signals"), fixture::helper()) else {
        return not_run("a host that is sent signals", "there is no C compiler, or no command line");
    };
    let fixture = Fixture::bash("")
        .file("project/.metier/skills/y/SKILL.md", "---\nname: y\ndescription: runs\n---\n")
        .file("project/.metier/skills/y/scripts/main.sh", "echo ran");
    for round in 0..5 {
        let mut command = std::process::Command::new(&metier);
        command.env("LD_PRELOAD", &library).current_dir(fixture.at("project"));
        let ran = command.args(["run", "y"]).output().unwrap();
        let said =
            String::from_utf8_lossy(&ran.stdout).into_owned() + String::from_utf8_lossy(&ran.stderr).as_ref();
        assert!(ran.status.success() && said.contains("ran"), "{round}: {said}");
    }
}

/// A secret that is covered where the project lies can be read where it lies as well.
#[test]
fn a_script_does_not_run_in_a_project_that_is_mounted_twice() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("a project that is mounted twice", &reason);
    }
    let fixture = Fixture::bash("cat .env 2>/dev/null; cat \"$1/.env\" 2>/dev/null; echo ran")
        .file("project/.env", "secret\n");
    fs::create_dir(fixture.at("again")).unwrap();
    let (project, again) = (fixture.name("project"), fixture.name("again"));
    let fixture = fixture.args(&[&again]);
    let line = |mount: &str| {
        format!(
            "exec unshare --user --map-current-user --keep-caps --mount sh -c '{mount} exec \"$@\"' sh \"$@\""
        )
    };
    let run = |mount: &str| Some(engine(&fixture, &line(mount))?.run(fixture.invocation()));
    let Some(once) = run("") else {
        return not_run("a project that is mounted twice", "the command line is not built in");
    };
    assert_eq!(once.process.unwrap().stdout, "ran\n");
    assert!(once.sandbox.unwrap().protected_paths);
    let twice = run(&format!("mount --bind {project} {again} &&")).unwrap();
    let error = twice.result.unwrap_err();
    assert_eq!((error.kind(), twice.process.is_some()), (ErrorKind::SandboxUnavailable, false), "{error}");
    // Who takes what can be had is told that it is not guarded, and it is not.
    let line = line(&format!("mount --bind {project} {again} &&"));
    let builder =
        fixture.builder().helper(helper(&fixture, &line).unwrap()).sandbox_mode(SandboxMode::BestEffort);
    let best = builder.build().unwrap().run(fixture.invocation());
    // A private `/tmp` does not have the other place.
    let expected = if fixture::is_in_private_folder(&again) { "ran\n" } else { "secret\nran\n" };
    assert_eq!(best.process.unwrap().stdout, expected);
    assert!(!best.sandbox.unwrap().protected_paths);
    assert!(best.log.iter().any(|line| line.level == LogLevel::Warn), "{:?}", best.log);
}

/// What cannot be covered as a whole is not begun: here a configuration of git names a file, and its folder is the project.
#[test]
fn a_look_that_is_not_complete_refuses_the_run_and_names_what_stopped_it() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("a look that is not complete", &reason);
    }
    let fixture =
        || Fixture::bash("echo ran").grant("write").file("project/.git/config", "[include]\npath = ..\n");
    let ran = fixture().run();
    let error = ran.error();
    assert_eq!((error.kind(), ran.0.process.is_some()), (ErrorKind::SandboxUnavailable, false), "{error}");
    assert!(error.message().contains(".git leads to the whole project"), "{error}");
    let best = fixture();
    let engine = best.builder().sandbox_mode(SandboxMode::BestEffort).build().unwrap();
    let best = engine.run(best.invocation());
    assert_eq!(
        (best.process.unwrap().stdout.as_str(), best.sandbox.unwrap().protected_paths),
        ("ran\n", false)
    );
}

/// Without a list of processes a tree is killed by nobody, unless signals are kept inside. What is required is refused then, and
/// the best that can be done is said to be less.
#[test]
fn a_tree_that_cannot_be_killed_is_not_said_to_be_gone() {
    if find_program("unshare").is_none() {
        return not_run("a tree that cannot be killed", "unshare is not installed");
    }
    let fixture =
        Fixture::bash("(setsid sleep 1000 >/dev/null 2>&1 </dev/null &); echo ran").deadline(20_000);
    let line = "exec unshare --user --map-current-user --keep-caps --mount sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh \"$@\"";
    let Some(program) = helper(&fixture, line) else {
        return not_run("a tree that cannot be killed", "the command line is not built in");
    };
    let engine = |isolation| {
        let builder = fixture
            .builder()
            .helper(&program)
            .sandbox_mode(isolation)
            .sandbox_level(SandboxLevel::LandlockUnscoped);
        builder.build().unwrap()
    };
    let required = engine(SandboxMode::Required).run(fixture.invocation());
    let error = required.result.unwrap_err();
    assert_eq!((error.kind(), required.sandbox), (ErrorKind::SandboxUnavailable, None), "{error:?}");
    survivors::assert_none(fixture.mark());
    let best = engine(SandboxMode::BestEffort).run(fixture.invocation());
    let held = best.sandbox.unwrap();
    assert!(held.files && !held.tree_kill, "{held:?} {:?}", best.process);
    let left = survivors::with_mark(fixture.mark());
    assert!(!left.is_empty(), "it was gone after all");
    for pid in left {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
    survivors::assert_none(fixture.mark());
}
