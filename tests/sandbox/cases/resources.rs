//! Everything a script can take too much of.

use std::time::Duration;

use metier::error::ErrorKind;

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("E10", "every processor, for ever", spinners),
    case("E11", "more memory than a process may have", memory),
    case("E12", "memory as files without a name, and E13: a file beyond the largest", large),
    case("E14", "a picture of its memory, left in the project", core),
    case("E46", "a full, shut or vanished folder of its own", temp_dir),
    case("E47", "more processes than the user may have", processes),
    case("E1b", "more processes than a tree may have", too_many),
    case("M9", "to raise its own limits", raised_limits),
    case("M9b", "to use more of what each process is limited in", each_limit),
    case("M10", "threads on every processor, which breaks no limit", threads),
];

fn spinners() -> CaseResult {
    let fixture = Fixture::bash("for i in 1 2 3 4; do (while :; do :; done) & done; wait").deadline(3000);
    let ran = fixture.run();
    assert_eq!(ran.error().kind(), ErrorKind::Timeout);
    assert!(ran.0.duration < Duration::from_secs(6), "{:?}", ran.0.duration);
    assert!(
        ran.process().usage.cpu.is_some_and(|used| used > Duration::from_millis(50)),
        "{:?}",
        ran.process()
    );
    survivors::assert_none(fixture.mark());
    Ok(())
}

fn memory() -> CaseResult {
    let ran = Fixture::python("x = bytearray(1 << 31)").memory(256 << 20).run();
    assert!(ran.process().stderr.contains("MemoryError"), "{:?}", ran.process());
    let ran = Fixture::python("x = bytearray(64 << 20); print(len(x))").memory(256 << 20).run();
    ran.assert_stdout("67108864\n");
    assert!(ran.process().usage.memory_bytes.is_some_and(|used| used > 64 << 20), "{:?}", ran.process());
    Ok(())
}

fn large() -> CaseResult {
    let ran = Fixture::attacker("powers", &["large"])?.grant("write").run();
    ran.assert_stdout("inside: done\nbeyond: EFBIG\n");
    Ok(())
}

fn core() -> CaseResult {
    let fixture = Fixture::bash("kill -SEGV $$").grant("write");
    let ran = fixture.run();
    assert_eq!(ran.process().signal, Some(11));
    let left: Vec<_> =
        std::fs::read_dir(fixture.at("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["own"]);
    Ok(())
}

fn temp_dir() -> CaseResult {
    for (script, well) in [
        ("rm -rf \"$H\"; test ! -e \"$H\"", true),
        // What the host removes by the paths of these folders is what is there, and not where that leads.
        ("rm -rf \"$H\"; ln -s \"$PWD/../outside\" \"$H\"; test -L \"$H\"", true),
        ("mv \"$TMPDIR\" \"$H/tmp\"; ln -s \"$PWD/../outside\" \"$TMPDIR\"; test -L \"$TMPDIR\"", true),
        ("mv \"$H\" \"$TMPDIR/home\"; mv \"$TMPDIR\" \"$H\"; echo x > \"$H/x\"", true),
        ("cd \"$H/..\"; rm -rf home; ln -s \"$OLDPWD/../outside\" home; echo x > file; test -L home", true),
        ("chmod 000 \"$H\"", true),
        (
            "mkdir -p \"$H/a/b/c\"; touch \"$H/a/b/c/x\"; chmod 000 \"$H/a/b/c\" \"$H/a/b\"; chmod 500 \"$H/a\"",
            true,
        ),
        ("for i in $(seq 2000); do : > \"$H/$i\"; done; ln -s / \"$H/root\"; mkfifo \"$H/pipe\"", true),
        ("rmdir \"$H\"; echo x > \"$TMPDIR/x\"", true),
        ("cd \"$H\"; rmdir \"$H\"; rm -rf .; pwd -P; true", true),
    ] {
        let fixture = Fixture::bash(&format!("H=\"${{TMPDIR%/tmp}}/home\"; echo \"$H\" >&2; {script}"))
            .file("project/sub/x", "")
            .grant("write");
        let ran = fixture.run();
        // What is mounted in the home of this user stays.
        let is_mounted = fixture::private_home().is_some();
        assert!(ran.0.result.is_ok() == well || is_mounted, "{script}: {:?}", ran.0.result);
        let home = ran.process().stderr.lines().next().unwrap().to_owned();
        assert!(
            home.contains("metier-") && !std::path::Path::new(&home).exists(),
            "{script}: {home} was left"
        );
        assert!(fixture.at("outside/secret").exists());
    }
    let fixture = Fixture::bash("cd sub; rmdir ../sub; pwd; touch x 2>/dev/null || echo gone").grant("write");
    std::fs::create_dir(fixture.at("project/sub")).unwrap();
    assert!(fixture.run().assert_ok().stdout().ends_with("gone\n"));
    Ok(())
}

/// Such a limit counts all processes of a user and would keep a busy one from running anything; what a tree forks ends with it.
fn processes() -> CaseResult {
    if rustix::process::geteuid().is_root() {
        return SkipReason::other_user("no number of processes limits root");
    }
    let fixture = Fixture::bash("ulimit -u 40; for i in $(seq 100); do sleep 1000 & done; echo unreached")
        .deadline(1500);
    let ran = fixture.run();
    assert!(ran.0.duration < Duration::from_secs(6), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// Those of a tree can be counted where their numbers are its own.
fn too_many() -> CaseResult {
    let fixture = Fixture::python(
        "import os, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)",
    );
    let ran = fixture.deadline(60_000).run();
    let made: u32 = ran.assert_ok().stdout().trim().parse().unwrap();
    assert_eq!(made < 1000, ran.sandbox().process_count, "{made} {:?}", ran.sandbox());
    // Those that ended are not counted, though nobody waited for them.
    let fixture = Fixture::bash("for i in $(seq 1500); do (true &); done; echo done").deadline(60_000);
    fixture.run().assert_stdout("done\n");
    survivors::assert_none(fixture.mark());
    Ok(())
}

fn raised_limits() -> CaseResult {
    let ran = Fixture::attacker("powers", &["ceilings"])?.memory(128 << 20).run();
    ran.assert_refused(4, &["EPERM"]);
    for line in ["open files 512", "file size 268435456", "data 134217728"] {
        assert!(ran.stdout().contains(line), "{}", ran.stdout());
    }
    Ok(())
}

/// Both ends of each: what a process has now, and what it could have again.
fn each_limit() -> CaseResult {
    let ran = Fixture::python(
        "import resource
for name in 'CORE CPU DATA FSIZE NOFILE SIGPENDING MEMLOCK MSGQUEUE NICE RTPRIO'.split():
    print(name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))",
    )
    .memory(128 << 20)
    .run();
    let lines: Vec<&str> = ran.assert_ok().stdout().lines().collect();
    assert_eq!(lines.len(), 10, "{lines:?}");
    for line in lines {
        let mut words = line.split(' ');
        let most: i64 = match words.next().unwrap() {
            "CORE" => 1,
            "CPU" => 100_000,
            "DATA" => 128 << 20,
            "FSIZE" => 256 << 20,
            "NOFILE" => 512,
            "SIGPENDING" => 1024,
            "MEMLOCK" => 1 << 20,
            _ => 0,
        };
        // Without a limit it is -1.
        assert!(words.all(|limit| (0..=most).contains(&limit.parse().unwrap())), "{line}");
    }
    Ok(())
}

/// The time of all threads counts into one process's limit of processor time; the deadline counts on the wall.
fn threads() -> CaseResult {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if processors < 2 {
        return SkipReason::unsupported("there is one processor");
    }
    let fixture = Fixture::python("import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[0])")
        .deadline(10_000);
    let ran = fixture.run();
    let seconds: usize = ran.assert_ok().stdout().trim().parse().unwrap();
    assert!(seconds >= 10 * processors, "{seconds} s of {processors} processors end a run of 10 s early");
    Ok(())
}
