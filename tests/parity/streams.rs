//! Input, output and exit codes.

use crate::parity::work::Work;

#[test]
fn reports_on_standard_output_and_exit_codes_are_those_of_the_script() {
    for code in ["0", "1", "2", "3", "42", "255"] {
        let args: &'static [&'static str] = Box::leak(Box::new([code]));
        Work {
            what: "a report and an exit code",
            python: "import sys\nprint('3 problems:\\n- a\\n- b')\nprint('checked', file=sys.stderr)\nsys.exit(int(sys.argv[1]))",
            shell: "echo '3 problems:'; printf -- '- a\\n- b\\n'; echo checked >&2; exit $1",
            node: "console.log('3 problems:\\n- a\\n- b'); console.error('checked'); process.exit(Number(process.argv[2]))",
            args,
            ..Work::default()
        }
        .is_the_same();
    }
}

#[test]
fn a_script_that_a_signal_ends_has_the_exit_code_of_the_shell() {
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("ABRT", 134)] {
        let text: &'static str = Box::leak(format!("echo before; kill -{signal} $$").into_boxed_str());
        let project = crate::support::cli::Project::new().shell("x", text);
        let answer = project.metier(&["run", "x", "--raw"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (code, "before\n"), "{answer:?}");
    }
}

#[test]
fn bytes_pass_from_standard_input_to_standard_output() {
    Work {
        what: "bytes that are no text",
        python: "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])",
        shell: "tac -s '' 2>/dev/null || cat; cat | wc -c",
        node: "const all = require('fs').readFileSync(0); process.stdout.write(all.reverse())",
        stdin: b"\0\xff\xfe line\r\nno end \xc3",
        options: &["--stdin"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn lines_are_read_one_by_one_and_input_may_be_left_unread() {
    Work {
        what: "the first lines of the input",
        python: "import sys\nfor number, line in enumerate(sys.stdin):\n    print(number, line.strip())\n    if number == 1: break",
        shell: "read -r a; read -r b; echo \"0 $a\"; echo \"1 $b\"",
        node: "const lines = require('readline').createInterface({input: process.stdin}); let n = 0;
lines.on('line', line => { console.log(n, line); if (++n == 2) process.exit(0) })",
        stdin: b"one\ntwo\nthree\nfour\n",
        options: &["--stdin"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn arguments_arrive_as_they_are() {
    Work {
        what: "arguments",
        python: "import json, sys\nprint(json.dumps(sys.argv[1:]))",
        shell: "printf '[%s]\\n' \"$@\"",
        node: "console.log(JSON.stringify(process.argv.slice(2)))",
        args: &["", "a b", "--help", "-v", "--", "$(touch ran)", "é\n'\"\\"],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_large_report_arrives_whole() {
    Work {
        what: "five megabytes",
        python: "import sys\nfor n in range(100000): print(n, 'x' * 40)\nprint('end', file=sys.stderr)",
        shell: "yes 0123456789012345678901234567890123456789 | head -n 100000; echo end >&2",
        node: "let s = ''; for (let n = 0; n < 100000; n++) s += n + ' ' + 'x'.repeat(40) + '\\n'; process.stdout.write(s, () => console.error('end'))",
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn children_and_their_exit_codes_are_seen() {
    Work {
        what: "programs that the script starts",
        python: "import subprocess\nprint(subprocess.run('echo out; echo err >&2; exit 3', shell=True, capture_output=True))
print(subprocess.run(['sort', '-r'], input='a\\nc\\nb\\n', text=True, capture_output=True).stdout)",
        shell: "sh -c 'exit 3' || echo \"code $?\"; printf 'a\\nc\\nb\\n' | sort -r | head -n 2; set -o pipefail; false | cat; echo $?",
        node: "const {spawnSync} = require('child_process'); const r = spawnSync('sh', ['-c', 'echo out; echo err >&2; exit 3']);
console.log(r.status, String(r.stdout), String(r.stderr))",
        ..Work::default()
    }
    .is_the_same();
}
