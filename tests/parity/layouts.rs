//! How scripts find their modules, and their own files.

use crate::parity::work::Work;

#[test]
fn modules_beside_the_script_are_found() {
    Work {
        what: "modules beside the script",
        python: "import helper\nprint(helper.twice(21))",
        shell: ". \"$(dirname \"$0\")/helper.sh\"; twice 21",
        node: "const {twice} = require('./helper'); console.log(twice(21))",
        skill: &[
            ("scripts/helper.py", "def twice(n): return 2 * n\n"),
            ("scripts/helper.sh", "twice() { echo $((2 * $1)); }\n"),
            ("scripts/helper.js", "exports.twice = n => 2 * n\n"),
        ],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn files_of_the_skill_are_found_from_the_script() {
    Work {
        what: "a template of the skill",
        python: "import pathlib\nprint((pathlib.Path(__file__).resolve().parent.parent / 'assets/t.txt').read_text())",
        shell: "cat \"$(dirname \"${BASH_SOURCE[0]}\")/../assets/t.txt\"",
        node: "console.log(require('fs').readFileSync(__dirname + '/../assets/t.txt', 'utf8'))",
        skill: &[("assets/t.txt", "Dear {name}\n")],
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn the_script_knows_its_place_and_its_name() {
    Work {
        what: "its own path",
        python: "import os, sys\nprint(os.path.basename(sys.argv[0]), os.path.isabs(__file__), os.getcwd() == os.environ.get('PWD', os.getcwd()), __name__)",
        shell: "basename \"$0\"; [ -f \"$0\" ] && echo there; [ \"$(pwd)\" = \"$PWD\" ] && echo here",
        node: "console.log(require('path').basename(process.argv[1]), require.main === module, process.cwd() === require('path').resolve('.'))",
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_help_text_and_a_usage_error_of_argument_parsers_are_the_same() {
    for args in [&["--help"][..], &["--wrong"], &["a.txt", "--depth", "3"], &[]] {
        Work {
            what: "a parser of arguments",
            python: "import argparse\np = argparse.ArgumentParser(description='Does x.')\np.add_argument('file'); p.add_argument('--depth', type=int, default=1)\nprint(p.parse_args())",
            node: "const {parseArgs} = require('util'); console.log(parseArgs({options: {depth: {type: 'string'}, help: {type: 'boolean'}}, allowPositionals: true, strict: false}).values)",
            args,
            ..Work::default()
        }
        .is_the_same();
    }
}

#[test]
fn the_trace_of_an_error_is_the_same() {
    Work {
        what: "an error that nobody catches",
        python: "def inner(): raise ValueError('bad value 7')\ninner()",
        shell: "set -euo pipefail; echo before; false; echo after",
        node: "function inner() { throw new TypeError('bad value 7') }\ninner()",
        ..Work::default()
    }
    .is_the_same();
}
