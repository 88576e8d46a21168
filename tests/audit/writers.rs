//! Several processes write the log, are killed while they do, or have no space left.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use metier::audit::{
    AuditActor, AuditClient, AuditFace, AuditKind, AuditLog, AuditRecord, AuditSink, AuditWho,
};

/// The folder of the log, for a writer.
const FOLDER: &str = "METIER_TEST_AUDIT_FOLDER";
/// How many lines it writes.
const COUNT: &str = "METIER_TEST_AUDIT_COUNT";

fn record(number: usize) -> AuditRecord {
    let who = AuditWho::new(AuditActor::Program, AuditClient::new(AuditFace::Library));
    let mut record = AuditRecord::new(AuditKind::RunEnded, who);
    record.skill = Some(format!("project/.metier:x{number}@1.0.0"));
    // Lines over several pages, which a kill may tear.
    record.args = vec!["é".repeat(number % 7 * 1_000)];
    record
}

/// No test by itself: the process that the tests start. It prints a line for each one that the log has confirmed.
#[test]
fn writer() {
    let (Ok(folder), Ok(count)) = (std::env::var(FOLDER), std::env::var(COUNT)) else { return };
    let log = AuditLog::new(folder);
    for number in 0..count.parse::<usize>().unwrap() {
        match log.write(&record(number)) {
            Ok(()) => println!("\nconfirmed {number}"),
            Err(error) => println!("\nfailed {error}"),
        }
    }
}

fn with_writer(command: &mut Command, folder: &Path, count: usize) -> Child {
    command.env(FOLDER, folder).env(COUNT, count.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn start(folder: &Path, count: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "audit::writers::writer", "--nocapture"]);
    with_writer(&mut command, folder, count)
}

fn confirmed(child: Child) -> u64 {
    let lines = BufReader::new(child.stdout.unwrap()).lines().map_while(Result::ok);
    lines.filter(|line| line.starts_with("confirmed ")).count() as u64
}

#[test]
fn eight_writers_make_one_chain() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data/audit");
    let writers: Vec<Child> = (0..8).map(|_| start(&folder, 50)).collect();
    let confirmed: u64 = writers.into_iter().map(confirmed).sum();
    let report = AuditLog::new(&folder).verify(None).unwrap();
    assert!(report.problem.is_none(), "{report:?}");
    assert_eq!((report.lines, report.torn, confirmed), (400, 0, 400));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("audit.jsonl"))), (0o700, 0o600));
}

#[test]
fn writers_that_are_killed_tear_at_most_their_last_lines() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("audit");
    let (mut confirmed_lines, mut seed) = (0, 7_u64);
    // 200 kills.
    for round in 1..=25 {
        let mut writers: Vec<Child> = (0..8).map(|_| start(&folder, 10_000)).collect();
        for writer in &mut writers {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((seed >> 33) % 20_000));
            writer.kill().unwrap();
        }
        confirmed_lines += writers.into_iter().map(confirmed).sum::<u64>();
        if round % 5 != 0 {
            continue;
        }
        let report = AuditLog::new(&folder).verify(None).unwrap();
        assert!(report.problem.is_none(), "{report:?}");
        assert!(report.lines >= confirmed_lines, "{confirmed_lines} lines were confirmed: {report:?}");
    }
}

#[test]
fn a_torn_line_is_marked_by_the_next_one_and_costs_itself_only() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("audit");
    let log = AuditLog::new(&folder);
    let file = folder.join("audit.jsonl");
    let mut torn = 0;
    for (number, fragment) in
        [&b"{\"time\":\"2026"[..], b"{", &[0; 9_000], b"\xff\xfe{\"kind\":\"torn\""].iter().enumerate()
    {
        log.write(&record(number)).unwrap();
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(fragment).unwrap();
        let report = log.verify(None).unwrap();
        assert!(report.problem.is_none() && report.unfinished_bytes == fragment.len() as u64, "{report:?}");
        // As this process goes on, and as another one does.
        let writer = if number % 2 == 0 { log.clone() } else { AuditLog::new(&folder) };
        writer.write(&record(number)).unwrap();
        torn += 1;
        let report = log.verify(None).unwrap();
        assert!(report.problem.is_none(), "{report:?}");
        assert_eq!((report.torn, report.lines, report.unfinished_bytes), (torn, 3 * torn, 0));
    }
    let mut sizes = Vec::new();
    log.for_each(|line| {
        sizes.extend(line.record.pointer("/torn/bytes").and_then(serde_json::Value::as_u64));
        Ok(())
    })
    .unwrap();
    assert_eq!(sizes, [13, 1, 9_000, 16]);
}

#[test]
fn writers_go_on_while_the_log_is_rotated() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("audit");
    let writers: Vec<Child> = (0..3).map(|_| start(&folder, 200)).collect();
    let log = AuditLog::new(&folder);
    let rotate = || {
        let (log, mut rotations) = (AuditLog::new(&folder), 0);
        for _ in 0..20 {
            rotations += u64::from(log.rotate().unwrap().is_some());
            std::thread::sleep(Duration::from_millis(2));
        }
        rotations
    };
    let rotations: u64 = std::thread::scope(|scope| {
        let other = scope.spawn(rotate);
        rotate() + other.join().unwrap()
    });
    let confirmed: u64 = writers.into_iter().map(confirmed).sum();
    let report = log.verify(None).unwrap();
    assert!(report.problem.is_none(), "{report:?}");
    assert_eq!((report.lines, report.files), (600 + rotations, 1 + rotations));
    assert_eq!(confirmed, 600);
}

#[test]
fn without_space_no_half_line_remains() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("audit");
    let log = AuditLog::new(&folder);
    log.write(&record(1)).unwrap();
    // No file may grow beyond 4 blocks: a write fails as on a full disk.
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" --exact audit::writers::writer --nocapture"]);
    full.arg(std::env::current_exe().unwrap());
    let output = with_writer(&mut full, &folder, 20).wait_with_output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("failed failed to write the audit log"), "{output}");
    let report = log.verify(None).unwrap();
    assert!(report.problem.is_none() && report.unfinished_bytes == 0, "{report:?}");
    log.write(&record(2)).unwrap();
    let report = log.verify(None).unwrap();
    assert!(report.problem.is_none() && report.torn == 0, "{report:?}");
}

#[test]
fn a_log_is_not_written_where_it_could_be_somebody_elses() {
    let place = tempfile::tempdir().unwrap();
    let fails = |folder: &Path, words: &str| {
        let error = AuditLog::new(folder).write(&record(1)).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    };
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at("open")).unwrap();
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    fails(&at("open/audit"), "can be written by others");
    std::fs::create_dir_all(at("project/.git")).unwrap();
    fails(&at("project/audit"), "is a project");
    std::fs::create_dir(at("own")).unwrap();
    std::os::unix::fs::symlink(at("own"), at("link")).unwrap();
    fails(&at("link"), "not a folder but a link");
    std::fs::write(at("file"), "").unwrap();
    fails(&at("file/audit"), "file");
    std::fs::write(at("own/audit.jsonl"), "").unwrap();
    std::fs::set_permissions(at("own/audit.jsonl"), std::fs::Permissions::from_mode(0o666)).unwrap();
    fails(&at("own"), "can be written by others");
}
