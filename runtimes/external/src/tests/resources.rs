//! Processor time, files and descriptors: what is held, and how a script that meets it is told.

use super::*;

fn limited(source: &str, limit: impl FnOnce(Limits) -> Limits) -> Fixture {
    let mut stage = Fixture::bash(source);
    stage.limits = limit(stage.limits);
    stage
}

#[test]
fn a_script_that_uses_up_its_processor_time_ends_with_that() {
    let burn = "while :; do :; done";
    // One that does not heed the signal, and one whose child it is.
    for source in [burn, "trap '' XCPU; while :; do :; done", "bash -c 'while :; do :; done'; exit $?"] {
        let ran = limited(source, |limits| limits.cpu(Duration::from_secs(1))).run();
        let sentence = "scripts/run.bash used more than the 1 s of processor time it may";
        assert_eq!(ran.failure(), (ErrorKind::Cpu, sentence), "{source}");
        assert_eq!(ran.error().help(), Some("give it more processor time, or make it do less"));
        assert!(ran.process().usage.cpu.unwrap() >= Duration::from_millis(500), "{:?}", ran.process());
    }
}

#[test]
fn a_script_that_is_killed_by_others_has_not_used_up_its_time() {
    let ran = limited("kill -KILL $$", |limits| limits.cpu(Duration::from_secs(5))).run();
    assert_eq!(ran.error().kind(), ErrorKind::Script);
}

#[test]
fn a_file_grows_no_larger_than_it_may() {
    let stage = limited("head -c 100000 /dev/zero > big", |limits| limits.file_size(50_000));
    let ran = stage.run();
    assert_eq!(ran.error().kind(), ErrorKind::Script);
    assert!(
        ran.error().help().unwrap().starts_with("no file may grow beyond 50000 bytes"),
        "{:?}",
        ran.error().help()
    );
    assert_eq!(std::fs::metadata(stage.file("big")).unwrap().len(), 50_000);
}

#[test]
fn no_more_files_are_open_than_may_be() {
    let source = "for n in {3..60}; do eval \"exec $n< /dev/null\" || exit 1; done";
    let ran = limited(source, |limits| limits.open_files(20)).run();
    let help = ran.error().help().unwrap_or_default().to_owned();
    assert!(help.starts_with("no more than 20 files may be open at a time"), "{help} {:?}", ran.process());
    assert!(limited(source, |limits| limits.open_files(100)).run().value.is_ok());
}

#[test]
fn a_plain_process_has_the_same_limits() {
    let mut stage = limited("sleep 0.2; ulimit -f; ulimit -n; ulimit -t; ulimit -d", |limits| {
        limits.file_size(1 << 20).open_files(50).cpu(Duration::from_secs(7)).memory(1 << 30)
    });
    stage.grants = vec!["exec:unsandboxed"];
    assert_eq!(stage.run().text(), "1024\n50\n7\n1048576\n");
}
