//! Input, output and their caps.

use super::*;
use serde_json::json;

#[test]
fn the_input_is_one_json_text_and_a_json_answer_is_the_value() {
    let ran = Fixture::new("scripts/echo.sh", "cat").input(json!({"a": [1, "two", null]})).run();
    assert_eq!(ran.value.unwrap(), json!({"a": [1, "two", null]}));
}

#[test]
fn without_input_standard_input_is_empty() {
    assert_eq!(Fixture::bash("cat | wc -c").run().value.unwrap(), json!(0));
}

#[test]
fn a_mebibyte_goes_through_cat_while_it_comes_back() {
    let text = "x".repeat(1 << 20);
    let ran = Fixture::bash("cat").input(text.clone()).run();
    assert_eq!(ran.value.unwrap(), json!(text));
}

#[test]
fn output_within_the_cap_is_whole_however_much_it_is() {
    for bytes in [0, 1, 70_000, 10_000_000] {
        let ran = Fixture::bash(&format!("head -c {bytes} /dev/zero | tr '\\0' a")).output(10_000_000).run();
        assert!(ran.duration < Duration::from_secs(5));
        assert_eq!(ran.process().stdout.len(), bytes);
        assert!(!ran.process().stdout_truncated);
        assert_eq!(ran.value.unwrap(), json!("a".repeat(bytes)));
    }
}

#[test]
fn one_byte_beyond_the_cap_stops_the_run_and_keeps_the_rest() {
    let ran = Fixture::bash("head -c 1001 /dev/zero | tr '\\0' a; sleep 30").output(1000).run();
    let sentence = "scripts/run.bash wrote more than 1000 bytes to standard output and was stopped";
    assert_eq!(ran.failure(), (ErrorKind::Output, sentence));
    assert_eq!(ran.process().stdout, "a".repeat(1000));
    assert!(ran.process().stdout_truncated && !ran.process().stderr_truncated);
    assert!(ran.duration < Duration::from_secs(5));
}

#[test]
fn a_flood_is_stopped_at_the_cap_on_either_stream() {
    for (source, stream) in [("yes", "standard output"), ("yes >&2", "standard error")] {
        let ran = Fixture::bash(source).output(1 << 20).run();
        assert_eq!(ran.error().kind(), ErrorKind::Output);
        assert!(ran.error().message().contains(stream));
        assert!(ran.duration < Duration::from_secs(2), "{:?}", ran.duration);
        assert_eq!(ran.process().stdout.len() + ran.process().stderr.len(), 1 << 20);
    }
}

#[test]
fn input_nobody_reads_holds_nothing_up() {
    let megabytes = "x".repeat(10_000_000);
    let ran = Fixture::bash("exit 0").input(megabytes.clone()).run();
    assert_eq!(ran.value.unwrap(), json!(""));
    let flood = "head -c 10000000 /dev/zero | tr '\\0' a";
    let ran = Fixture::bash(flood).input(megabytes).output(10_000_000).run();
    assert_eq!(ran.process().stdout.len(), 10_000_000);
    assert!(ran.duration < Duration::from_secs(5));
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced_and_the_log_says_so() {
    let ran = Fixture::bash(r"printf 'a\xffb\xc3'").run();
    assert_eq!(ran.log.len(), 1);
    assert!(ran.log[0].message.contains("not UTF-8"));
    assert_eq!(ran.text(), "a\u{fffd}b\u{fffd}");
}

#[test]
fn a_character_cut_by_the_cap_harms_nothing() {
    let ran = Fixture::bash("printf 'aé'").output(2).run();
    assert_eq!(ran.error().kind(), ErrorKind::Output);
    assert_eq!(ran.process().stdout, "a");
    let mut stage = Fixture::bash("printf 'aé'").output(2);
    stage.limits = stage.limits.on_output(OutputPolicy::Truncate);
    let ran = stage.run();
    assert_eq!((ran.process().usage.stdout_bytes, ran.log.len()), (3, 0), "nothing was replaced");
    assert_eq!(ran.text(), "a");
}

fn truncating(source: &str) -> Fixture {
    let mut stage = Fixture::bash(source).output(1000);
    stage.limits = stage.limits.on_output(OutputPolicy::Truncate);
    stage
}

#[test]
fn a_script_whose_output_is_cut_goes_on_to_its_end_and_all_it_said_is_counted() {
    let says =
        "head -c 5000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2; echo x > done";
    let stage = truncating(says);
    let ran = stage.run();
    assert_eq!((ran.process().stdout.len(), ran.process().stderr.len()), (1000, 1000));
    assert!(ran.process().stdout_truncated && ran.process().stderr_truncated);
    assert_eq!((ran.process().usage.stdout_bytes, ran.process().usage.stderr_bytes), (5_000_000, 3_000_000));
    assert_eq!(std::fs::read_to_string(stage.file("done")).unwrap(), "x\n");
    assert_eq!(ran.text(), "a".repeat(1000));
}

#[test]
fn output_within_the_cap_is_the_same_where_more_would_be_cut() {
    let ran = truncating("echo '{\"a\": 1}'; echo b >&2").run();
    assert!(!ran.process().stdout_truncated && !ran.process().stderr_truncated);
    assert_eq!(ran.value.unwrap(), json!({"a": 1}));
}

#[test]
fn the_beginning_of_a_json_text_is_a_text_even_where_it_could_be_read() {
    let ran = truncating("printf '%01000d' 7; printf 0").run();
    assert_eq!(ran.text(), format!("{:01000}", 7));
}

#[test]
fn a_script_that_fails_after_its_output_was_cut_fails_as_it_would() {
    let ran = truncating("yes | head -c 100000; echo broken >&2; exit 3").run();
    assert_eq!(ran.failure(), (ErrorKind::Script, "scripts/run.bash exited with code 3: broken"));
    assert_eq!(ran.process().usage.stdout_bytes, 100_000);
}

#[test]
fn an_endless_output_that_is_cut_ends_at_the_deadline_and_is_not_kept() {
    for source in ["yes", "yes >&2", "yes & yes >&2 & wait"] {
        let stage = truncating(source).deadline(1500);
        let ran = stage.run();
        assert_eq!(ran.error().kind(), ErrorKind::Timeout, "{source}");
        assert!(ran.process().usage.stdout_bytes + ran.process().usage.stderr_bytes > 1 << 20, "{source}");
        assert!(ran.process().stdout.len() <= 1000 && ran.process().stderr.len() <= 1000);
        assert!(ran.duration < Duration::from_secs(5), "{:?}", ran.duration);
    }
}

#[test]
fn a_background_job_that_floods_does_not_hold_up_the_end_of_a_run_whose_output_is_cut() {
    let ran = truncating("yes & sleep 0.05; exit 0").run();
    assert!(ran.value.is_ok() && ran.process().stdout_truncated, "{:?}", ran.value);
    assert!(ran.duration < Duration::from_secs(3), "{:?}", ran.duration);
}

#[test]
fn both_streams_are_kept_apart_and_whole() {
    let source = "for i in {1..2000}; do echo out $i; echo err $i >&2; done; printf end";
    let ran = Fixture::bash(source).run();
    assert_eq!(ran.process().stderr.lines().count(), 2000);
    assert_eq!(ran.process().stdout.lines().count(), 2001);
    assert!(ran.text().ends_with("out 2000\nend"));
}

#[test]
fn runs_side_by_side_do_not_mix() {
    let one = |number: usize| {
        let text = format!("{number} ").repeat(20_000);
        let ran = Fixture::bash("cat; echo $1 >&2").input(text.clone()).args(&[&number.to_string()]).run();
        assert_eq!(ran.process().stderr, format!("{number}\n"));
        assert_eq!(ran.value.unwrap(), json!(text));
    };
    std::thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || (0..10).for_each(|turn| one(thread * 100 + turn)));
        }
    });
}
