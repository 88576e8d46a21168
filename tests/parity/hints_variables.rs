//! Hints about environment variables: of those that the script reads, and of no other word in capitals.

use crate::parity::hints::{NODE, PYTHON, SHELL, check, project_with, script};
use crate::support::not_run::{find_program, not_run};

#[test]
fn a_complaint_about_something_else_than_a_variable_of_the_script_names_no_variable() {
    check(
        [
            script(SHELL, "echo 'FAIL: config.yml: DATABASE_URL is not set in production' >&2; exit 1", &[]),
            script(SHELL, "echo 'lint: src/app.ts:3 process.env.API_KEY missing default' >&2; exit 1", &[]),
            script(SHELL, "echo 'JIRA_KEY is required in the commit message' >&2; exit 1", &[]),
            script(SHELL, "echo 'Validation failed: MAX_RETRIES must be set to an integer' >&2; exit 1", &[]),
            script(
                SHELL,
                "MAX_RETRIES=x\n[ \"$MAX_RETRIES\" = 1 ] || { echo 'MAX_RETRIES must be set' >&2; exit 1; }",
                &[],
            ),
            script(PYTHON, "import sys; sys.exit('Column USER_ID is required')", &[]),
            script(NODE, "if (process.argv[9] === 'EPERM') 1; throw new Error('EPERM: not set up')", &[]),
        ],
        |_| {},
    );
}

#[test]
fn a_variable_is_also_read_by_a_file_that_the_script_imports() {
    if find_program("python3").is_none() {
        return not_run("variables of other files", "python3 is not installed");
    }
    for (text, help) in [
        ("import settings, sys; sys.exit('BASE_URL must be set')", "run with --env BASE_URL"),
        ("import sys; sys.exit('BASE_URL must be set')", ""),
    ] {
        let project = project_with("python3", text).file(
            ".metier/skills/x/scripts/settings.py",
            "import os\nBASE_URL = os.environ.get('BASE_URL')\n",
        );
        let outcome = project.metier(&["run", "x", "--json", "--script", "main"]).json();
        let said = outcome["error"]["help"].as_str().unwrap_or_default();
        assert!(said.ends_with(help) && said.is_empty() == help.is_empty(), "{text}: {outcome}");
    }
}

#[test]
fn a_variable_is_read_by_the_script_that_a_command_names() {
    if find_program("python3").is_none() {
        return not_run("variables of a command", "python3 is not installed");
    }
    let project = project_with("python3", "")
        .file("a.py", "import os, sys\nos.environ.get('BASE_URL') or sys.exit('BASE_URL must be set')");
    for command in [
        &["python3", "a.py"][..],
        &["sh", "-c", "[ -n \"$BASE_URL\" ] || { echo 'BASE_URL must be set' >&2; exit 1; }"],
    ] {
        let answer = project.metier(&[&["exec", "--json", "--"], command].concat());
        let help = answer.json()["error"]["help"].as_str().unwrap_or_default().to_owned();
        assert!(help.ends_with("run with --env BASE_URL"), "{command:?}: {answer:?}");
    }
}

#[test]
fn all_variables_that_a_script_asks_for_are_named() {
    check(
        [
            script(
                SHELL,
                "for v in JIRA_URL JIRA_API_TOKEN; do [ -n \"${!v}\" ] || bad=1; done\n\
                 [ -z \"$bad\" ] || { echo 'Error: Missing required environment variables.'; echo 'Please set: JIRA_URL, JIRA_API_TOKEN'; exit 1; }",
                &[
                    "variables JIRA_URL and JIRA_API_TOKEN, which it was not given; ",
                    "run with --env JIRA_URL --env JIRA_API_TOKEN",
                ],
            ),
            script(
                SHELL,
                "[ -n \"$JIRA_URL\" ] || { echo 'Please set: JIRA_URL' >&2; exit 1; }",
                &["run with --env JIRA_URL"],
            ),
            script(
                SHELL,
                "[ -n \"$JIRA_URL\" ] || { echo 'Please export JIRA_URL' >&2; exit 1; }",
                &["--env JIRA_URL"],
            ),
            script(
                SHELL,
                "[ -n \"$JIRA_URL\" ] || { echo 'JIRA_URL required' >&2; exit 1; }",
                &["--env JIRA_URL"],
            ),
            script(
                NODE,
                "const needed = ['JIRA_URL', 'JIRA_TOKEN'].filter(n => !process.env[n]);\n\
                 if (needed.length) { console.error('Set the following: ' + needed.join(' and ')); process.exit(1) }",
                &["run with --env JIRA_URL --env JIRA_TOKEN"],
            ),
            script(
                PYTHON,
                "import os, sys\nif not os.environ.get('FIRST_KEY') and not os.getenv('SECOND_KEY'):\n    \
                 sys.exit('no provider available (set FIRST_KEY / SECOND_KEY)')",
                &[
                    "the environment variables FIRST_KEY and SECOND_KEY, which it was not given",
                    "run with --env FIRST_KEY --env SECOND_KEY",
                ],
            ),
        ],
        |_| {},
    );
}

#[test]
fn a_variable_that_is_set_here_and_was_not_passed_is_named() {
    let run = |text: &str, options: &[&str]| {
        let project = project_with("bash", text);
        let arguments = [&["run", "x", "--json"], options].concat();
        let answer =
            project.command(&arguments).env("BLOB_LIST", "s3cret-value").env("OTHER", "x").output().unwrap();
        let outcome: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert!(!outcome["error"].is_null() && !outcome.to_string().contains("s3cret-value"), "{outcome}");
        outcome["error"]["help"].as_str().unwrap_or_default().to_owned()
    };
    let text = "[ -f \"$BLOB_LIST\" ] || { echo 'Error: BLOB_LIST must point to a valid file'; exit 1; }";
    assert!(
        run(text, &[])
            .contains("reads the environment variable BLOB_LIST, which is set here and was not passed")
            && run(text, &[]).ends_with("run with --env BLOB_LIST"),
        "{}",
        run(text, &[])
    );
    assert_eq!(run(text, &["--env", "BLOB_LIST=x"]), "");
    assert_eq!(run("echo 'BLOB_LIST must point to a valid file' >&2; exit 1", &[]), "");
    assert_eq!(run("BLOB_LIST=$1; [ -f \"$BLOB_LIST\" ] || { echo 'bad BLOB_LIST'; exit 1; }", &[]), "");
    assert_eq!(run("[ -f \"$UNSET_LIST\" ] || { echo 'bad UNSET_LIST'; exit 1; }", &[]), "");
    // What is set here is nothing for a model.
    assert_eq!(run(text, &["--for-model", "--trust"]), "");
}

#[test]
fn a_script_that_ended_well_gets_a_warning_about_variables_that_it_was_not_passed() {
    const VARIABLES: [(&str, &str); 8] = [
        ("_", "x"),
        ("DATABASE_URL", "postgres://me:hunter22@db/x"),
        ("LOGIN_PW", "x"),
        ("BLOB_LIST", "value-1"),
        ("BLOB_SIZE", "2"),
        ("MY_TOKEN", "s3cret"),
        ("TERM_PROGRAM", "x"),
        ("PLAIN", "x"),
    ];
    let run = |text: &str, options: &[&str]| {
        let project = project_with("bash", text);
        let arguments = [&["run", "x"], options].concat();
        let answer = project.command(&arguments).envs(VARIABLES).output().unwrap();
        assert!(answer.status.success(), "{answer:?}");
        String::from_utf8(answer.stderr).unwrap()
    };
    let one = run("echo \"${BLOB_LIST:-none}\"", &[]);
    assert!(
        one.contains("reads the environment variable BLOB_LIST, which is set here and was not passed; if it should have it, run with --env BLOB_LIST"),
        "{one}"
    );
    assert!(!one.contains("value-1"), "{one}");
    let both = run("echo \"$BLOB_LIST$BLOB_SIZE\"", &[]);
    for name in ["BLOB_LIST", "BLOB_SIZE"] {
        assert!(both.contains(&format!("run with --env {name}\n")), "{both}");
    }
    for (text, options) in [
        ("echo \"$BLOB_LIST\"", &["--env", "BLOB_LIST"][..]),
        // A secret is advised to nobody, and what many programs read is no news.
        ("echo \"$MY_TOKEN$TERM_PROGRAM$PLAIN$UNSET_LIST$DATABASE_URL$LOGIN_PW$_\"", &[]),
        ("BLOB_LIST=$1; echo \"$BLOB_LIST\"", &[]),
        ("# reads $BLOB_LIST\necho 'see BLOB_LIST'", &[]),
        ("echo \"$BLOB_LIST\"", &["--for-model", "--trust"]),
    ] {
        assert_eq!(run(text, options), "", "{text} {options:?}");
    }
}
