//! Hints about a network that a script does not have: from programs that say nothing, from standard output, and after runs that ended
//! well.

use crate::parity::hints::{FailedScript, NODE, OBSERVED, SHELL, check, project_with, script, warnings};
use crate::support::not_run::{find_program, not_run};

const CURL: (&str, &str) = ("curl", "");
const WGET: (&str, &str) = ("wget", "");
const GIT: (&str, &str) = ("git", "");

#[test]
fn a_silent_program_is_known_after_lines_of_progress() {
    check(
        [
            script(
                CURL,
                "set -e\nURL=https://x.test/hook\necho 'Deploying...' >&2\nR=$(curl -s -X POST \"$URL\")\necho $R",
                OBSERVED,
            ),
            script(
                CURL,
                "set -e\necho 'Deploying...' >&2\ncurl -s \\\n  \"https://x.test/$HOSTNAME\"",
                OBSERVED,
            ),
            script(CURL, "set -e\nURL=$(echo https://x.test)\necho up >&2\ncurl -s \"$URL\"", OBSERVED),
            script(WGET, "set -e\necho up >&2\nwget -q https://x.test/a", OBSERVED),
            script(WGET, "wget -q https://x.test/a", OBSERVED),
            script(
                GIT,
                "set -e\necho '[1/6] Cloning...' >&2\ngit clone --quiet https://x.test/a $TMPDIR/a 2>/dev/null",
                OBSERVED,
            ),
            script(GIT, "git clone --quiet https://x.test/a $TMPDIR/a 2>/dev/null", OBSERVED),
        ],
        |_| {},
    );
}

#[test]
fn an_exit_code_of_the_script_itself_is_no_silent_program() {
    check(
        [
            script(CURL, "curl -s file:///dev/null\necho 'step 1' >&2\nexit 6", &[]),
            script(CURL, "curl -s file:///dev/null\necho 'Error: bad file' >&2\n(exit 7)", &[]),
            script(SHELL, "echo 'up' >&2\n# curl -s x\nsh -c 'exit 6'", &[]),
            script(GIT, "git clone nowhere $TMPDIR/a 2>/dev/null", &[]),
            FailedScript {
                options: &["--allow", "net"],
                ..script(CURL, "echo up >&2\ncurl -s --connect-timeout 2 https://x.invalid/a", &[])
            },
        ],
        |_| {},
    );
}

#[test]
fn a_network_error_on_standard_output_counts_if_standard_error_says_nothing_of_it() {
    const CHECKER: &str = "(async () => { let error; try { await fetch('https://x.test') } catch (e) { error = e.message }\n\
        console.log(JSON.stringify({error, doi: 1}, null, 1)); console.error('[info] checked 1; 0 succeeded'); process.exit(2) })()";
    check(
        [
            script(NODE, CHECKER, OBSERVED),
            script(SHELL, "echo '{\"error\": \"fetch failed\"}'; echo '1 error in the log' >&2; exit 2", &[]),
        ],
        |_| {},
    );
}

#[test]
fn a_script_that_ends_well_without_its_network_has_a_warning() {
    for (program, text, is_warned) in [
        (
            "node",
            "fetch('https://x.test').catch(e => console.error('Failed to create epic: ' + e.message))",
            true,
        ),
        (
            "node",
            "fetch('https://x.test').catch(e => console.log('Failed to create epic: ' + e.message))",
            true,
        ),
        ("curl", "curl -sS https://x.test/a; echo done", true),
        (
            "python3",
            "import urllib.request\ntry: urllib.request.urlopen('https://x.test')\nexcept Exception as e: print(e)",
            true,
        ),
        // Data, and other words.
        ("bash", "cat f; echo 'Error: getaddrinfo EAI_AGAIN x.test'", false),
        ("curl", "curl -s file:///dev/null; echo 'git fetch failed'; echo 'connection refused'", false),
    ] {
        if find_program(program).is_none() {
            not_run("a warning", &format!("{program} is not installed"));
            continue;
        }
        let project = project_with(program, text);
        let answer = project.metier(&["run", "x", "--json"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let said = warnings(&answer.json()).join("\n");
        assert_eq!(
            said.contains("tried x.test: it is not granted; grant net:x.test"),
            is_warned,
            "{text}: {said}"
        );
    }
}
