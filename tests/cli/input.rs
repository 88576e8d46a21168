//! `--input`: JSON on the line, in a file, or on standard input.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::support::cli::{Answer, Project};

fn echo() -> Project {
    Project::new().lua("echo", "return input")
}

fn run_with_stdin(project: &Project, args: &[&str], text: &[u8]) -> Answer {
    let mut command = project.command(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A call that reads no input closes the pipe early.
    let _ = child.stdin.take().unwrap().write_all(text);
    child.wait_with_output().unwrap().into()
}

#[test]
fn without_input_a_script_sees_an_empty_object_and_a_process_an_empty_stream() {
    let project = echo().shell("count", "wc -c");
    assert_eq!(project.metier(&["run", "echo"]).stdout, "{}\n");
    assert_eq!(project.metier(&["run", "count", "--sandbox", "best-effort"]).stdout.trim(), "0");
}

#[test]
fn input_comes_from_the_line_from_a_file_and_from_standard_input() {
    let project = echo().file("in.json", "[1, \"é\", null]").file("sub/a", "");
    let expected = json!([1, "é", null]);
    let value = |answer: Answer| answer.json()["value"].clone();
    assert_eq!(value(project.metier(&["run", "echo", "--json", "--input", "[1, \"é\", null]"])), expected);
    assert_eq!(value(project.metier(&["run", "echo", "--json", "--input", "@in.json"])), expected);
    assert_eq!(
        value(project.metier_in("sub", &["run", "echo", "--json", "--input", "@../in.json"])),
        expected
    );
    let answer =
        run_with_stdin(&project, &["run", "echo", "--json", "--input", "-"], b"[1, \"\xc3\xa9\", null]\n");
    assert_eq!(value(answer), expected);
    let half = r#""cut \ud83d""#;
    assert_eq!(value(project.metier(&["run", "echo", "--json", "--input", half])), json!("cut \u{fffd}"));
    assert_eq!(project.metier(&["run", "echo", "--input=-5"]).stdout, "-5\n");
    assert_eq!(project.metier(&["run", "echo", "--input", "-5"]).stdout, "-5\n");
}

#[test]
fn a_process_reads_the_input_as_it_is_written() {
    let project = Project::new()
        .shell("show", "cat > \"$TMPDIR/x\"; printf '\"%s\"' \"$(tr -d '\"' < \"$TMPDIR/x\")\"");
    let run =
        |input: &str| project.metier(&["run", "show", "--sandbox", "best-effort", "--input", input]).stdout;
    assert_eq!(run(r#"{"price": 1.50, "by": "a"}"#).trim(), "{price:1.50,by:a}");
}

#[test]
fn standard_input_is_not_read_unless_the_caller_says_so() {
    let project = echo();
    let mut command = project.command(&["run", "echo"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let open = child.stdin.take().unwrap();
    assert_eq!(Answer::from(child.wait_with_output().unwrap()).stdout, "{}\n");
    drop(open);
}

#[test]
fn large_inputs_arrive_complete() {
    let project = echo().file("in.json", format!("\"{}\"", "x".repeat(4 << 20)));
    let answer = project.metier(&["run", "echo", "--input", "@in.json"]);
    assert_eq!(answer.stdout.len(), (4 << 20) + 1);
}

#[test]
fn invalid_json_is_refused_with_help() {
    let project = echo().file("bytes", b"\"\xff\"").file("empty", "").file("text", "hello");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (input, words) in [
        ("hello", "a text needs JSON quotes"),
        ("", "it is empty; pass JSON such as {}"),
        ("-", "standard input is not valid JSON"),
        ("{} {}", "trailing characters"),
        ("{\"a\": 1, \"a\": 2}", "the key \"a\" occurs twice"),
        ("[99999999999999999999]", "the integer 99999999999999999999 does not fit"),
        ("NaN", "--input is not valid JSON"),
        (&deep, "at most 127 levels deep"),
        ("@text", "text is not valid JSON"),
        ("@empty", "it is empty"),
        ("@bytes", "failed to read bytes"),
        ("@nowhere", "failed to read nowhere: No such file or directory\n"),
        ("@.", "failed to read .: Is a directory\n"),
        ("@", "failed to read the file after @"),
        ("@/dev/zero", "/dev/zero is larger than 268435456 bytes, the limit of an input"),
    ] {
        let answer = project.metier(&["run", "echo", "--input", input]);
        assert!(answer.code == 2 && answer.stderr.contains(words), "{input:.20}: {answer:?}");
        assert!(answer.stdout.is_empty() && answer.stderr.len() < 400);
    }
}
