//! Hints about files of the user's home, which a script in a sandbox does not have.

use crate::parity::hints::{FailedScript, NODE, PYTHON, SHELL, check, project_with, script};
use crate::support::cli::Project;
use crate::support::not_run::find_program;

const HOME: &str =
    "a script has a home of its own in the sandbox; if it should read that, run with --allow home:.myapp/";

/// What is said of a folder of the home that a script names: which of it it needs, only a watched run shows.
const NAMED: &[&str] = &[
    "~/.myapp is in your home folder, and the script, which names it, has a home of its own; `metier try x` shows what it looks for there",
];

fn sessions(project: &Project) {
    std::fs::create_dir_all(project.home().join(".myapp/sessions")).unwrap();
}

#[test]
fn a_setting_that_a_script_asks_for_in_the_home_is_there() {
    check(
        [
            script(
                NODE,
                "console.error('[x] dispatch is OFF (set dispatch.enabled in ~/.myapp/config.json) - skipping'); process.exit(1)",
                &["~/.myapp/config.json is in your home folder", HOME],
            ),
            script(SHELL, "echo 'OFF (set it in ~/.myapp/other.json)' >&2; exit 1", &[]),
        ],
        |_| {},
    );
}

#[test]
fn a_script_that_names_what_only_the_user_has_and_misses_it_gets_the_way_to_know() {
    check(
        [
            script(
                SHELL,
                "[ -d \"$HOME/.myapp/sessions\" ] || { echo '{\"error\":\"no_sessions\"}'; exit 1; }",
                NAMED,
            ),
            script(SHELL, "[ -d ~/.myapp/sessions ] || { echo 'No session data found' >&2; exit 1; }", NAMED),
            script(
                PYTHON,
                "import pathlib, sys\nif not (pathlib.Path.home() / '.myapp' / 'sessions').is_dir(): sys.exit('No sessions found')",
                NAMED,
            ),
            script(
                NODE,
                "const os = require('os'), path = require('path');\nconst p = path.join(os.homedir(), '.myapp', 'sessions');\n\
                 if (!require('fs').existsSync(p)) { console.error('no sessions'); process.exit(1) }",
                NAMED,
            ),
        ],
        sessions,
    );
}

#[test]
fn a_folder_of_the_home_is_not_named_where_the_error_is_about_something_else() {
    const MISSES: &str = "[ -d \"$HOME/.myapp/sessions\" ] || { echo 'no sessions'; exit 1; }";
    let all = &["--for-model", "--trust"][..];
    check(
        [
            script(SHELL, "A=\"$HOME/.none/sessions\"\necho 'Error: no input file' >&2; exit 1", &[]),
            script(SHELL, "A=\"$HOME/.myapp/sessions\"\necho 'sessions: 3 failed' >&2; exit 1", &[]),
            script(SHELL, "mkdir -p \"$HOME/.myapp/sessions\"; echo 'no sessions' >&2; exit 1", &[]),
            script(SHELL, "echo \"see $HOME/.myapp/sessions\"; echo 'no sessions' >&2; exit 1", &[]),
            script(SHELL, "cat \"$HOME/.myapp/other\"", &[]),
            FailedScript { options: all, ..script(SHELL, MISSES, &[]) },
        ],
        sessions,
    );
}

#[test]
fn no_printed_word_makes_metier_advise_a_key_of_the_user_and_no_denied_path_is_advised() {
    const COPY: &[&str] = &["it is in your home folder, and no grant opens it"];
    let keys = |project: &Project| {
        for path in [".ssh/id_rsa", ".aws/credentials", ".myapp/denied"] {
            crate::support::cli::write(&project.home().join(path), "");
        }
        let config = project.home().join(".config/metier/config.toml");
        crate::support::cli::write(&config, "[permissions]\ndeny = [\"home:.myapp/denied\"]\n");
    };
    check(
        [
            script(
                SHELL,
                "echo \"Error: settings not found: ~/$(printf '.%s/%s' ssh id_rsa)\" >&2; exit 1",
                COPY,
            ),
            script(SHELL, "echo 'Error: not found: ~/.aws/credentials' >&2; exit 1", COPY),
            script(SHELL, "echo 'Error: not found: ~/.myapp/denied' >&2; exit 1", COPY),
        ],
        keys,
    );
}

#[test]
fn a_path_in_the_home_that_was_refused_is_named_with_its_grant() {
    if find_program("cat").is_none() {
        return;
    }
    let text = Box::leak(Box::new(String::from("cat \"$1\"")));
    let project = project_with("bash", text);
    let path = project.home().join(".myapp/config.json");
    let answer = project.metier(&["run", "x", "--json", "--", path.to_str().unwrap()]).json();
    let help = answer["error"]["help"].as_str().unwrap_or_default();
    assert!(help.contains("run with --allow home:.myapp/config.json"), "{answer}");
}

#[test]
fn a_change_of_what_is_granted_of_the_home_is_answered_with_the_reason() {
    const GRANT: &[&str] = &["--allow", "home:.myapp/config.json"];
    const HELP: &[&str] = &[
        "does not let this script change ~/.myapp/config.json; if it should, run with --allow home-write:.myapp/config.json",
    ];
    let scripts = [
        script(SHELL, "echo x >> \"$HOME/.myapp/config.json\"", HELP),
        script(SHELL, "cd \"$HOME\" && echo x >> .myapp/config.json", HELP),
        script(PYTHON, "import pathlib\n(pathlib.Path.home() / '.myapp/config.json').write_text('x')", HELP),
        script(
            NODE,
            "require('fs').writeFileSync(require('os').homedir() + '/.myapp/config.json', 'x')",
            HELP,
        ),
    ];
    check(scripts.map(|script| FailedScript { options: GRANT, ..script }), |_| {});
}
