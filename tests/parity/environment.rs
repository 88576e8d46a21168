//! Variables of the environment.

use crate::parity::work::Work;
use crate::support::cli::Project;

#[test]
fn variables_that_are_given_arrive() {
    Work {
        what: "variables",
        python: "import os\nprint(os.environ['REGION'], os.getenv('MODE'), os.environ.get('OTHER', 'none'))",
        shell: "set -u; echo \"$REGION $MODE ${OTHER:-none}\"",
        node: "console.log(process.env.REGION, process.env.MODE, process.env.OTHER ?? 'none')",
        env: &[("REGION", "north = 1"), ("MODE", "")],
        options: &["--env", "REGION", "--env", "MODE"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_script_that_misses_a_variable_fails_as_it_does_outside() {
    Work {
        what: "a variable that nobody gives",
        python: "import os, sys\nif not os.environ.get('API_KEY'):\n    print('Error: API_KEY environment variable not set', file=sys.stderr)\n    sys.exit(2)",
        shell: "if [ -z \"${API_KEY:-}\" ]; then echo 'Error: API_KEY environment variable not set' >&2; exit 2; fi",
        node: "if (!process.env.API_KEY) { console.error('Error: API_KEY environment variable not set'); process.exit(2) }",
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn locale_time_zone_and_user_are_those_outside() {
    Work {
        what: "the locale and the time zone",
        python: "import os, time\nprint(os.environ.get('LANG'), time.strftime('%Z', time.gmtime(0)), time.localtime(0).tm_hour)",
        shell: "echo \"${LANG:-none} $(date -d @0 +%H%Z)\"",
        node: "console.log(process.env.LANG, new Date(0).getTimezoneOffset())",
        env: &[("LANG", "C.UTF-8"), ("TZ", "Asia/Kolkata")],
        ..Work::default()
    }
    .is_the_same();
}

/// The one difference that is meant: what is secret is not said.
#[test]
fn a_secret_that_a_script_prints_is_replaced_in_every_language() {
    for (script, text) in [
        (
            "main.py",
            "import os, sys\nprint('key', os.environ['API_KEY'])\nprint(os.environ['API_KEY'][::-1], file=sys.stderr)",
        ),
        ("main.sh", "echo \"key $API_KEY\"; echo \"$API_KEY\" | rev >&2"),
        (
            "main.js",
            "console.log('key', process.env.API_KEY); console.error([...process.env.API_KEY].reverse().join(''))",
        ),
    ] {
        let path = format!(".metier/skills/x/scripts/{script}");
        let project = Project::new().skill(".metier/skills/x").file(&path, text);
        let mut command = project.command(&["run", "x", "--raw", "--env", "API_KEY"]);
        let answer: crate::support::cli::Answer =
            command.env("API_KEY", "sk-0123456789").output().unwrap().into();
        let said = (answer.code, answer.stdout.as_str(), answer.stderr.as_str());
        assert_eq!(said, (0, "key [secret:API_KEY]\n", "9876543210-ks\n"), "{script}");
    }
}
