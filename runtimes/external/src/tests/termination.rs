//! How runs end: by themselves, by signals, by the clock, by the caller; and that nothing is left behind.

use super::*;
use serde_json::json;

const SOON: Duration = Duration::from_millis(2500);

/// A background job of the script that shows by a growing file that it lives.
const HEARTBEAT: &str =
    "(trap '' TERM HUP; while :; do echo >> beat; sleep 0.01; done) & until [ -s beat ]; do :; done\n";

fn heartbeat_stopped(stage: &Fixture) -> bool {
    let length = || std::fs::metadata(stage.file("beat")).unwrap().len();
    let then = length();
    std::thread::sleep(Duration::from_millis(200));
    length() == then
}

#[test]
fn every_exit_code_but_zero_fails_the_run_and_is_named() {
    assert_eq!(Fixture::bash("exit 0").run().value.unwrap(), json!(""));
    for code in 1..=255 {
        let ran = Fixture::new("scripts/a.sh", format!("#!/bin/sh\nexit {code}")).run();
        let sentence = format!("scripts/a.sh exited with code {code}");
        assert_eq!(ran.failure(), (ErrorKind::Script, sentence.as_str()));
        assert_eq!((ran.process().exit_code, ran.process().signal), (Some(code), None));
        assert_eq!(ran.error().help().is_some(), code == 126 || code == 127);
    }
}

#[test]
fn a_failure_quotes_the_last_line_of_standard_error_and_keeps_both_streams() {
    let ran =
        Fixture::bash("echo half; echo first >&2; printf '\\e[31mbad \\x07thing\\n\\n' >&2; exit 3").run();
    let sentence = "scripts/run.bash exited with code 3: bad thing";
    assert_eq!(ran.failure(), (ErrorKind::Script, sentence));
    assert_eq!(ran.process().stdout, "half\n");
    assert!(ran.process().stderr.starts_with("first\n\u{1b}[31mbad"));
}

#[test]
fn a_script_that_reports_on_standard_output_is_quoted_from_there() {
    let ran = Fixture::bash("echo checked; echo '2 files differ'; echo ---; exit 2").run();
    assert_eq!(
        ran.failure(),
        (ErrorKind::Script, "scripts/run.bash exited with code 2"),
        "a rule says nothing"
    );
    let ran = Fixture::bash("echo checked; echo '2 files differ'; exit 2").run();
    assert_eq!(ran.failure(), (ErrorKind::Script, "scripts/run.bash exited with code 2: 2 files differ"));
    let ran = Fixture::bash("echo '2 files differ'; echo stopped >&2; exit 2").run();
    assert_eq!(ran.failure(), (ErrorKind::Script, "scripts/run.bash exited with code 2: stopped"));
}

#[test]
fn a_signal_is_named() {
    for (signal, name) in [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV")] {
        let ran = Fixture::bash(&format!("ulimit -c 0; kill -{signal} $$")).run();
        assert_eq!(ran.error().kind(), ErrorKind::Script);
        let sentence = format!("scripts/run.bash was ended by signal {signal} ({name})");
        assert!(ran.error().message().starts_with(&sentence), "{}", ran.error());
        assert_eq!((ran.process().exit_code, ran.process().signal), (None, Some(signal)));
    }
}

#[test]
fn a_script_that_kills_its_own_group_harms_nobody_else() {
    let ran = Fixture::bash("kill -9 0; sleep 60").run();
    assert_eq!(ran.error().kind(), ErrorKind::Script);
    assert_eq!(ran.process().signal, Some(9));
}

#[test]
fn the_deadline_ends_the_whole_group_and_keeps_what_was_said() {
    let stage = Fixture::bash(&format!("echo begun; {HEARTBEAT} sleep 60")).deadline(500);
    let ran = stage.run();
    assert_eq!(ran.error().kind(), ErrorKind::Timeout);
    assert!(ran.duration < Duration::from_secs(1), "{:?}", ran.duration);
    assert_eq!((ran.process().stdout.as_str(), ran.process().signal), ("begun\n", Some(9)));
    assert!(heartbeat_stopped(&stage));
}

#[test]
fn no_script_is_too_stubborn_for_the_deadline() {
    for source in [
        "trap '' TERM INT HUP QUIT; while :; do sleep 1; done",
        "kill -STOP $$",
        "(kill -STOP $BASHPID) & wait",
        "exec 0<&- 1>&- 2>&-; sleep 60",
        "while :; do :; done",
        "cat < <(sleep 60)",
        "while :; do exec bash -c 'exec sleep 60'; done",
    ] {
        let ran = Fixture::bash(source).deadline(300).run();
        assert_eq!(ran.error().kind(), ErrorKind::Timeout, "{source}");
        assert!(ran.duration < Duration::from_millis(800), "{source} took {:?}", ran.duration);
    }
}

#[test]
fn the_caller_stops_a_run_at_any_time_and_twice_is_once() {
    let stage = Fixture::bash(&format!("{HEARTBEAT} sleep 60"));
    let cancel = stage.cancel.clone();
    let caller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        cancel.cancel();
    });
    let ran = stage.run();
    caller.join().unwrap();
    assert_eq!(ran.error().kind(), ErrorKind::Cancelled);
    assert!(ran.duration < SOON);
    assert!(heartbeat_stopped(&stage));
}

#[test]
fn a_run_stopped_before_it_starts_starts_nothing() {
    let stage = Fixture::bash("touch ran");
    stage.cancel.cancel();
    let ran = stage.run();
    assert_eq!(ran.error().kind(), ErrorKind::Cancelled);
    assert!(ran.process.is_none() && !stage.file("ran").exists());
}

#[test]
fn a_script_that_ends_with_its_deadline_has_one_outcome() {
    for deadline in 40..80 {
        let ran = Fixture::bash("sleep 0.05; echo '\"done\"'").deadline(deadline).run();
        match (&ran.value, &ran.process) {
            (Ok(value), Some(process)) => {
                assert_eq!((value, process.exit_code), (&json!("done"), Some(0)));
            }
            (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Timeout),
            (Ok(_), None) => panic!("a value without a process"),
        }
    }
}

/// The process that watches the one which was started with these words.
#[cfg(target_os = "linux")]
fn supervisor_of(words: &[&str]) -> Option<rustix::process::Pid> {
    let expected: String = words.iter().flat_map(|word| [word, "\0"]).collect();
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process = entry.ok()?.path();
        let is_it = std::fs::read_to_string(process.join("cmdline")).ok()? == expected;
        is_it.then(|| std::fs::read_to_string(process.join("stat")).ok())?
    });
    let mut parents = stats.filter_map(|stat| stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok());
    parents.find_map(rustix::process::Pid::from_raw)
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_is_claimed_of_a_run_whose_supervisor_was_killed() {
    let number = format!("300.{}", std::process::id());
    let stage = Fixture::bash(&format!("exec sleep {number}"));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let supervisor = std::iter::repeat_with(|| {
                std::thread::sleep(Duration::from_millis(1));
                supervisor_of(&["sleep", &number])
            });
            let supervisor = supervisor.take(10_000).flatten().next().unwrap();
            rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
        });
        stage.run()
    });
    let sentence = "failed to run scripts/run.bash: the process that watches it was killed";
    assert_eq!(ran.failure(), (ErrorKind::Io, sentence));
    assert_eq!(ran.sandbox, None);
    let warning = "the process that watches scripts/run.bash was killed, so it is not known whether all of its processes have ended";
    assert!(ran.log.iter().any(|line| line.message == warning), "{:?}", ran.log);
    assert_eq!(supervisor_of(&["sleep", &number]), None);
}

#[test]
fn a_background_job_neither_holds_up_the_run_nor_outlives_it() {
    let stage = Fixture::bash(&format!("{HEARTBEAT} echo done"));
    let ran = stage.run();
    assert!(ran.duration < SOON, "{:?}", ran.duration);
    assert_eq!(ran.text(), "done\n");
    assert!(heartbeat_stopped(&stage));
}

#[test]
fn a_daemon_that_left_the_group_does_not_hold_up_the_run() {
    if !has_command("setsid") {
        return;
    }
    let ran = Fixture::bash("setsid sleep 5 & disown; echo done").run();
    assert!(ran.duration < SOON, "{:?}", ran.duration);
    assert_eq!(ran.text(), "done\n");
    // It floods the pipe without end: what was there when the script ended counts.
    let flood = "setsid timeout 2 yes & disown; sleep 0.1; exit 0";
    let ran = Fixture::bash(flood).output(64 << 20).run();
    assert!(ran.duration < SOON, "{:?}", ran.duration);
}

#[test]
fn a_script_may_remove_its_working_directory() {
    let ran = Fixture::bash("rmdir \"$PWD\"; echo '\"gone\"'").run();
    assert_eq!(ran.value.unwrap(), json!("gone"));
}

#[test]
fn a_project_that_is_gone_is_a_sentence() {
    let stage = Fixture::bash("echo never");
    let context = stage.context(&stage.cancel);
    std::fs::remove_dir(stage.project.path()).unwrap();
    let error =
        stage.load().unwrap().execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().starts_with("failed to run scripts/run.bash: the project /"), "{error}");
}

#[test]
fn two_hundred_runs_leave_no_process_no_thread_and_no_descriptor() {
    const ALONE: &str = "METIER_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Other tests open and start things meanwhile, so this one runs again in a process of its own.
        let name = std::thread::current().name().unwrap().to_owned();
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let descriptors = || std::fs::read_dir("/dev/fd").unwrap().count();
    let run = |turn: usize| {
        let stage = match turn % 4 {
            0 if turn.is_multiple_of(20) => {
                Fixture::new("scripts/a.py", "from metier import ctx; ctx.glob('*')")
            }
            0 => Fixture::bash("sleep 9 & cat").input("x".repeat(100_000)),
            1 => Fixture::bash("yes").output(1000),
            2 => Fixture::bash("sleep 9").deadline(5),
            _ => Fixture::bash("exit 3").input("x".repeat(1_000_000)),
        };
        assert_eq!(stage.run().value.is_ok(), turn.is_multiple_of(4));
    };
    run(0);
    let before = (descriptors(), children());
    (0..200).for_each(run);
    assert_eq!((descriptors(), children()), before);
    assert_eq!(before.1, 1, "the helper, and nobody else");
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that ended meanwhile has no name any more.
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    assert!(!tasks.map(|task| name(task.unwrap())).any(|name| name.starts_with("metier-api")));
}

/// Children of this process, those that nobody has reaped included.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_task = |task: std::fs::DirEntry| {
        // A thread may end meanwhile.
        std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
    };
    tasks.map(|task| of_task(task.unwrap()).split_whitespace().count()).sum()
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_wants_more_memory_than_it_may_have_fails() {
    if !has_command("python3") {
        return;
    }
    let greedy = "import time; time.sleep(0.05); x = bytearray(1 << 30); print(len(x))";
    let mut stage = Fixture::new("scripts/a.py", greedy);
    assert_eq!(stage.run().value.unwrap(), json!(1 << 30));
    stage.limits = stage.limits.memory(256 << 20);
    let ran = stage.run();
    assert!(ran.error().message().ends_with("exited with code 1: MemoryError"), "{:?}", ran.error());
    let help = "a process has 256 MiB of memory; give it more, or make it keep less";
    assert_eq!(ran.error().help(), Some(help));
    assert_eq!(ran.error().hint(), Some(&Hint::Limit(LimitKind::Memory)));
    assert_eq!(ran.error().location().and_then(|place| place.line), Some(1));
}
