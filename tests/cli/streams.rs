//! Data goes to standard output, messages to standard error, and either may be closed.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::support::cli::{Answer, Project};

/// Every command that answers with data.
const ANSWERS: [&[&str]; 8] = [
    &["api"],
    &["catalog"],
    &["completions", "bash"],
    &["list"],
    &["list", "--json"],
    &["run", "x"],
    &["run", "x", "--json"],
    &["--help"],
];

fn answering_project() -> Project {
    Project::new().lua("x", "print('said') return string.rep('x', 200000)")
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let project = answering_project();
    for args in ANSWERS {
        let mut child = project.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
        assert!(
            !answer.stderr.contains("panicked") && !answer.stderr.contains("error"),
            "{args:?}: {answer:?}"
        );
    }
}

#[test]
fn a_full_disk_is_an_error_in_words() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return crate::support::not_run::not_run("a full disk", "/dev/full is missing");
    };
    let project = answering_project();
    for args in ANSWERS {
        let answer: Answer = project.command(args).stdout(full.try_clone().unwrap()).output().unwrap().into();
        assert_eq!(answer.code, 1, "{args:?}: {answer:?}");
        let told = "failed to write to standard output: No space left on device\n";
        assert!(answer.stderr.ends_with(told), "{args:?}: {answer:?}");
    }
}

#[test]
fn closed_standard_error_changes_no_answer() {
    let project = answering_project().lua("fails", "error('x')");
    for (args, code) in [(&["run", "x"][..], 0), (&["run", "fails"], 1), (&["bogus"], 2)] {
        let mut child = project.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(Answer::from(child.wait_with_output().unwrap()).code, code, "{args:?}");
    }
}

#[test]
fn json_answers_are_one_json_text_and_nothing_else() {
    let project = answering_project().file(".metier/skills/broken/SKILL.md", "---\n");
    for args in [
        &["list"][..],
        &["catalog"],
        &["api"],
        &["show", "x"],
        &["run", "x"],
        &["run", "nobody"],
        &["new", "y"],
        &["validate", ".metier/skills"],
    ] {
        project.metier(&[args, &["--json"]].concat()).json();
    }
}
