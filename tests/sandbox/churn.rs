//! A thousand runs, sixteen at a time, in a host of half a gigabyte (E42); and a host (E38) or a helper killed in the middle.
//!
//! Each host is a process of its own: what other tests open and start is not counted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Outcome};
use metier::error::ErrorKind;
use metier::policy::CancelToken;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::survivors;
use crate::support::not_run::print_uncaptured;

const RUNS: usize = 1000;
const AT_A_TIME: usize = 16;
const RESIDENT: usize = 500 << 20;
/// By then the helper runs and every allocator has its arenas.
const WARM_UP_RUNS: usize = 200;

/// Processes of runs that are under way at once in any host, however slowly it starts them.
const CONCURRENT_RUNS: usize = 4;

/// Says which host a process of this test is.
const HOST_VARIABLE: &str = "METIER_SANDBOX_HOST";

/// What a run does, and how it must end.
#[derive(Clone, Copy)]
struct RunKind {
    script: &'static str,
    stop: Stop,
    ends: Option<ErrorKind>,
}

#[derive(Clone, Copy)]
enum Stop {
    Never,
    Deadline(u64),
    Cancel(u64),
}

const KINDS: [RunKind; 7] = [
    RunKind { script: "echo hi", stop: Stop::Never, ends: None },
    RunKind { script: "echo a | tr a b; exit 3", stop: Stop::Never, ends: Some(ErrorKind::Script) },
    RunKind { script: "setsid sleep 1000 & (sleep 1000 &) ; echo hi", stop: Stop::Never, ends: None },
    RunKind { script: "sleep 1000 & sleep 1000", stop: Stop::Deadline(150), ends: Some(ErrorKind::Timeout) },
    RunKind { script: "trap '' TERM; sleep 1000", stop: Stop::Cancel(30), ends: Some(ErrorKind::Cancelled) },
    RunKind {
        script: "setsid sleep 1000 & sleep 1000",
        stop: Stop::Cancel(1),
        ends: Some(ErrorKind::Cancelled),
    },
    RunKind { script: "yes", stop: Stop::Never, ends: Some(ErrorKind::Output) },
];

#[test]
fn a_thousand_runs_leave_nothing_behind() {
    if is_host("churns") {
        return churning_host();
    }
    let (mut host, mark, _, _folder) =
        start_host("sandbox::churn::a_thousand_runs_leave_nothing_behind", "churns");
    assert!(host.wait().unwrap().success(), "see above");
    survivors::assert_none(&mark);
}

#[test]
fn a_host_that_is_killed_takes_every_tree_and_its_helper_along() {
    if is_host("dies") {
        return churning_host();
    }
    let (mut host, mark, said, _folder) =
        start_host("sandbox::churn::a_host_that_is_killed_takes_every_tree_and_its_helper_along", "dies");
    let helper = said.iter().find_map(|line| line.strip_prefix("helper ")?.parse::<i32>().ok()).unwrap();
    // It is in the middle of things.
    let began = Instant::now();
    while survivors::with_mark(&mark).len() < CONCURRENT_RUNS {
        assert!(began.elapsed() < Duration::from_mins(1), "it does not get going");
        std::thread::sleep(Duration::from_millis(2));
    }
    let watchers = survivors::children_of(helper);
    host.kill().unwrap();
    let killed = Instant::now();
    survivors::assert_none(&mark);
    let lives = |pid: &i32| fs::metadata(format!("/proc/{pid}")).is_ok() && !survivors::is_zombie(*pid);
    while watchers.iter().chain([&helper]).any(lives) {
        assert!(killed.elapsed() < Duration::from_secs(5), "the helper or a stub lives on");
        std::thread::sleep(Duration::from_millis(2));
    }
    host.wait().unwrap();
}

#[test]
fn a_host_that_is_killed_leaves_no_folders() {
    if is_host("sleeps") {
        return sleeping_host();
    }
    let (mut host, mark, _, folder) =
        start_host("sandbox::churn::a_host_that_is_killed_leaves_no_folders", "sleeps");
    // One for each run, and one for all of them.
    assert_eq!(count_temp_dirs(folder.path()), CONCURRENT_RUNS + 1);
    host.kill().unwrap();
    host.wait().unwrap();
    survivors::assert_none(&mark);
    let killed = Instant::now();
    while count_temp_dirs(folder.path()) > 0 {
        assert!(killed.elapsed() < Duration::from_secs(10), "{} were left", count_temp_dirs(folder.path()));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A host in the midst of a few long runs.
fn sleeping_host() {
    let (fixture, engine) = host_fixture();
    let long = RunKind { script: "mkdir \"$HOME/kept\"; sleep 1000", stop: Stop::Never, ends: None };
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENT_RUNS {
            scope.spawn(|| engine.run(run_of_kind(&fixture, long).0));
        }
        let kept = || {
            survivors::with_mark(fixture.mark()).len() >= 2 * CONCURRENT_RUNS
                && count_temp_dirs(&std::env::temp_dir()) > CONCURRENT_RUNS
        };
        while !kept() {
            std::thread::sleep(Duration::from_millis(5));
        }
        print_uncaptured("warm");
    });
}

/// Folders that the host or its runs have made for themselves.
fn count_temp_dirs(folder: &Path) -> usize {
    let inside = |folder: &Path, start: &'static str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter(move |entry| entry.file_name().to_str().unwrap().starts_with(start))
            .map(|entry| entry.path())
    };
    let outer = inside(folder, "metier-").count();
    let hosts = inside(folder, "metier-").flat_map(|own| inside(&own, "host-").collect::<Vec<_>>());
    hosts.map(|host| inside(&host, "metier-").count()).sum::<usize>().max(outer)
}

#[test]
fn what_hosts_leave_that_are_killed_as_they_start_the_next_one_clears_away() {
    const KILLED: u32 = 60;
    let Some(program) = fixture::helper() else { return };
    let fixture = Fixture::bash("true");
    fixture.write("project/.metier/skills/s/SKILL.md", "---\nname: s\ndescription: runs\n---\n");
    fixture.write("project/.metier/skills/s/scripts/run.bash", "echo ran");
    fixture.write(
        "project/.metier/skills/w/SKILL.md",
        "---\nname: w\ndescription: writes\nallowed-tools: write\n---\n",
    );
    let writes = "for n = 1, 10000 do ctx.write('f' .. n % 5, ('x'):rep(100000)) end";
    fixture.write("project/.metier/skills/w/scripts/main.lua", writes);
    let temporary = fixture.at("tmp");
    fs::create_dir(&temporary).unwrap();
    let metier = |skill: &str| {
        let mut command = Command::new(&program);
        command.args(["run", skill, "--allow", "write", "--project"]).arg(fixture.at("project"));
        command.env("TMPDIR", &temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let drafts = || {
        let entries = fs::read_dir(fixture.at("project")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".draft")).count()
    };
    let (mut most, mut most_drafts) = (0, 0);
    for skill in ["s", "w"] {
        // As early as it can be, and until its script is at work, however slow this machine is.
        let began = Instant::now();
        assert!(metier("s").status().unwrap().success());
        let usual = began.elapsed();
        for number in 0..KILLED {
            let early = Duration::from_millis(4 + u64::from(number % 22));
            let late = usual * number / KILLED;
            let mut host = metier(skill).spawn().unwrap();
            std::thread::sleep(if number % 2 == 0 { early } else { late });
            host.kill().unwrap();
            host.wait().unwrap();
            most = most.max(count_temp_dirs(&temporary));
            most_drafts = most_drafts.max(drafts());
        }
        let said = metier("s").output().unwrap();
        assert_eq!(said.stdout, b"ran\n", "{said:?}");
        // A helper may still be clearing up after its host.
        let ended = Instant::now();
        while count_temp_dirs(&temporary) > 0 || drafts() > 0 {
            assert!(
                ended.elapsed() < Duration::from_secs(10),
                "{} and {} drafts were left",
                count_temp_dirs(&temporary),
                drafts()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    print_uncaptured(&format!("at most {most} folders and {most_drafts} drafts lay there meanwhile"));
}

#[test]
fn a_helper_that_is_killed_is_started_again() {
    if is_host("loses its helper") {
        return lose_helpers();
    }
    let (mut host, mark, _, _folder) =
        start_host("sandbox::churn::a_helper_that_is_killed_is_started_again", "loses its helper");
    assert!(host.wait().unwrap().success(), "see above");
    survivors::assert_none(&mark);
}

fn is_host(what: &str) -> bool {
    std::env::var(HOST_VARIABLE).is_ok_and(|host| host == what)
}

/// A process that is such a host, the mark of its runs, what it said until it was warm, and the folder of all it makes: who is
/// killed clears nothing away.
fn start_host(test: &str, what: &str) -> (Child, String, Vec<String>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(HOST_VARIABLE, what)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
    let until_warm: Vec<String> = lines.by_ref().take_while(|line| line != "warm").collect();
    std::thread::spawn(move || lines.for_each(|line| print_uncaptured(&line)));
    let mark = until_warm.iter().find_map(|line| line.strip_prefix("mark "));
    let mark = mark.unwrap_or_else(|| panic!("{}", until_warm.join("\n"))).to_owned();
    (host, mark, until_warm, folder)
}

/// The project of a host, with a skill whose script does as its argument says.
fn host_fixture() -> (Arc<Fixture>, Arc<Engine>) {
    let fixture = Fixture::bash("eval \"$1\"").output(1 << 16);
    let engine = fixture.engine();
    print_uncaptured(&format!("mark {}", fixture.mark()));
    (Arc::new(fixture), Arc::new(engine))
}

fn run_of_kind(fixture: &Fixture, kind: RunKind) -> (metier::engine::Invocation, CancelToken) {
    let token = CancelToken::new();
    let limits = metier::policy::Limits::default().output(1 << 16);
    let limits = match kind.stop {
        Stop::Deadline(milliseconds) => limits.timeout(Duration::from_millis(milliseconds)),
        _ => limits,
    };
    (fixture.invocation().args([kind.script]).limits(limits).cancel(token.clone()), token)
}

/// What a host has of the system's.
#[derive(Debug)]
struct HostUsage {
    descriptors: usize,
    /// KiB.
    resident: u64,
    children: Vec<i32>,
    /// KiB of the helper.
    helper: u64,
}

fn host_usage() -> HostUsage {
    let children = survivors::children();
    let helper = children.first().map_or(0, |pid| survivors::resident_kib(*pid));
    HostUsage {
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        resident: survivors::resident_kib(std::process::id().cast_signed()),
        children,
        helper,
    }
}

fn churning_host() {
    let (fixture, engine) = host_fixture();
    let mut memory = vec![0_u8; RESIDENT];
    memory.iter_mut().step_by(4096).for_each(|page| *page = 1);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    run_many(&runtime, &fixture, &engine, WARM_UP_RUNS);
    let warm = host_usage();
    print_uncaptured(&format!("helper {}", warm.children[0]));
    print_uncaptured("warm");
    let began = Instant::now();
    run_many(&runtime, &fixture, &engine, RUNS);
    let took = began.elapsed();
    survivors::assert_none(fixture.mark());
    let end = host_usage();
    print_uncaptured(&format!("churn: {RUNS} runs in {took:?}; {warm:?} before, {end:?} after"));
    assert_eq!(survivors::zombies(), 0);
    assert_eq!(end.children, warm.children, "one helper, and the same");
    // The copy of a large host takes a moment to go. One stub waits for the next run.
    let ended = Instant::now();
    while survivors::children_of(end.children[0]).len() > 1 {
        assert!(ended.elapsed() < Duration::from_secs(1), "stubs live on");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(end.descriptors, warm.descriptors);
    assert!(end.resident < warm.resident + (16 << 10), "{warm:?} {end:?}");
    assert!(end.helper < warm.helper + (1 << 10), "{warm:?} {end:?}");
    assert!(memory.iter().step_by(4096).all(|page| *page == 1));
    drop((runtime, Arc::into_inner(engine)));
    assert_eq!(survivors::children(), [0; 0], "the helper outlived its engine");
}

/// So many runs of all kinds, some of them side by side.
fn run_many(runtime: &tokio::runtime::Runtime, fixture: &Arc<Fixture>, engine: &Arc<Engine>, runs: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<_> = (0..AT_A_TIME)
        .map(|_| {
            let (fixture, engine, next) = (fixture.clone(), engine.clone(), next.clone());
            runtime.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    let kind = KINDS[number % KINDS.len()];
                    let (invocation, token) = run_of_kind(&fixture, kind);
                    let run = engine.run_async(invocation);
                    if let Stop::Cancel(after) = kind.stop {
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(after)).await;
                            token.cancel();
                        });
                    }
                    assert_end(kind, &run.await);
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for lane in lanes {
            lane.await.unwrap();
        }
    });
}

#[track_caller]
fn assert_end(kind: RunKind, outcome: &Outcome) {
    let ended = outcome.result.as_ref().err().map(metier::error::SkillError::kind);
    assert_eq!(ended, kind.ends, "{}: {:?}", kind.script, outcome.result);
}

/// Kills the helper while runs are under way: those go on to their end, and the next have another.
fn lose_helpers() {
    let (fixture, engine) = host_fixture();
    print_uncaptured("warm");
    let short = RunKind { script: "sleep 1; echo hi", stop: Stop::Never, ends: None };
    for _ in 0..10 {
        assert_end(KINDS[0], &engine.run(run_of_kind(&fixture, KINDS[0]).0));
        std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..4).map(|_| scope.spawn(|| engine.run(run_of_kind(&fixture, short).0))).collect();
            std::thread::sleep(Duration::from_millis(400));
            let helper = survivors::children()[0];
            kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
            // Until it has died, a process that stands by for it may still take the next run.
            while std::fs::read_to_string(format!("/proc/{helper}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_end(KINDS[2], &engine.run(run_of_kind(&fixture, KINDS[2]).0));
            assert!(!survivors::children().contains(&helper), "it was not waited for");
            for run in runs {
                assert_end(short, &run.join().unwrap());
            }
        });
        assert_eq!(survivors::zombies(), 0);
    }
    survivors::assert_none(fixture.mark());
    if fixture::helper().is_none() {
        print_uncaptured("the helper was a copy of the host");
    }
}
