//! The programs in examples/ are short, and print what their readers expect. Cargo builds them with the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::not_run::not_run;

const NEEDS_LUA: Option<&str> =
    if cfg!(feature = "lua-runtime") { None } else { Some("built without lua-runtime") };
const NEEDS_SANDBOX: Option<&str> = if cfg!(all(feature = "sandboxed", target_os = "linux")) {
    None
} else {
    Some("built without sandboxed")
};

#[test]
fn every_example_is_short_and_tested() {
    let tested = include_str!("examples.rs");
    for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let (name, text) =
                (path.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
            assert!(text.lines().count() < 80, "{} is too long for an example", path.display());
            assert!(tested.contains(&format!("assert_prints(\"{name}\"")), "nothing runs {}", path.display());
        }
    }
}

#[test]
fn a_program_runs_a_skill() {
    assert_prints("embed", &[], NEEDS_LUA, "3 words\n");
}

#[test]
fn a_program_has_a_language_and_a_skill_of_its_own() {
    assert_prints("calc", &[], None, "the surface is 22.0\n");
}

#[test]
fn a_program_tells_its_users_what_to_do_by_the_kind_of_the_error() {
    let expected = "there is no such skill\n\
        please correct /text: expected a string, found nothing (required)\n\
        may it write:notes?\n\
        kept 5 bytes\n\
        may it write?\n\
        the skill says: a note needs a text\n\
        stopped at a limit (timeout)\n";
    assert_prints("error_kinds", &[], NEEDS_LUA, expected);
}

#[test]
fn an_editor_on_one_thread_answers_asks_and_abandons() {
    let expected = "progress: reading\n\
        may explain tool:selection? yes\n\
        may explain write:notes? yes\n\
        answer: \"Explain borrowing in a sentence\"\n\
        abandoned: true\n";
    assert_prints("tokio_ui", &[], NEEDS_LUA, expected);
}

#[test]
fn a_plan_continues_after_the_step_that_was_done() {
    let expected = "1 of 3, title, is done\n\
        2 of 3, body, is done\n\
        the first run: step 2 of 3 (id body, append) failed: the run was cancelled\n\
        1 of 3, title, was done before\n\
        2 of 3, body, is done\n\
        3 of 3, end, is done\n\
        Title\nBody\nEnd\n";
    assert_prints("resume", &[], None, expected);
}

#[test]
fn python_scripts_run_in_the_sandbox_with_the_hook_and_without() {
    assert_prints("python", &[], NEEDS_SANDBOX, "80 runs\n");
    assert_prints("python", &["--without-hook"], NEEDS_SANDBOX, "80 runs\n");
}

/// Runs an example in an empty project.
fn assert_prints(name: &str, args: &[&str], unmet: Option<&str>, expected: &str) {
    let program = built_example(name);
    if let Some(reason) =
        unmet.or((!program.is_file()).then_some("not built; `cargo test` without a filter builds it"))
    {
        return not_run(name, reason);
    }
    let project = tempfile::tempdir().unwrap();
    let output = Command::new(program).args(args).current_dir(project.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}: {stderr}");
    assert!(output.status.success(), "{name}: {stderr}");
}

/// The program that cargo builds of an example, beside the tests' own.
fn built_example(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION)
}
