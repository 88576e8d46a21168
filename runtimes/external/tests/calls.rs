//! What scripts ask of the host, by the clients and by lines of their own, and what hostile ones get.

use super::*;
use serde_json::json;

/// Python that speaks the protocol by itself: `line(text)` writes to the descriptor, `answer()` reads one line from it.
const BY_HAND: &str = "import array, json, os, socket, sys, time
door = socket.socket(fileno=3)
answers = door.makefile('rb')
def line(text): door.sendall(text.encode() + b'\\n')
def answer(): return json.loads(answers.readline())
def call(name, *args):
    line(json.dumps({'id': 1, 'call': name, 'args': args}))
    return answer()
";

fn by_hand(source: &str) -> Stage {
    Stage::new("scripts/run.py", format!("{BY_HAND}{source}"))
}

fn python(source: &str) -> Stage {
    Stage::new("scripts/run.py", source)
}

fn node(source: &str) -> Stage {
    Stage::new("scripts/run.js", source)
}

/// What the script prints as JSON.
#[track_caller]
fn says(stage: &Stage, expected: impl Into<Value>) {
    let ran = stage.run();
    assert_eq!(ran.value.as_ref().unwrap(), &expected.into(), "{:?}", ran.process);
}

#[test]
fn python_and_node_call_the_host_and_are_told_in_its_words_what_is_not_allowed() {
    let python = python(
        "from metier import ctx, input, MetierError
ctx.log('info', 'hello')
try: ctx.write('a.txt', 'x')
except MetierError as error: print(ctx.vfs_read_file(input['path']) + '|' + error.kind + '|' + str(error) + '|' + error.help)",
    );
    let node = node(
        "const {ctx, input, MetierError} = require('metier');
ctx.log('info', 'hello');
try { ctx.write('a.txt', 'x') } catch (error) {
  if (!(error instanceof MetierError)) throw error;
  console.log([ctx.vfs_read_file(input.path), error.kind, error.message, error.help].join('|'));
}",
    );
    for (command, stage) in [("python3", python), ("node", node)] {
        if !has(command) {
            continue;
        }
        let mut stage = stage.input(json!({"path": "b.txt"}));
        stage.granted = vec![];
        std::fs::write(stage.file("b.txt"), "text").unwrap();
        let ran = stage.run();
        assert_eq!(ran.log[0].message, "hello");
        let sentence = "failed to write a.txt: not permitted; run with --allow write";
        assert_eq!(ran.text().trim_end(), format!("text|denied|{sentence}|run with --allow write"));
    }
}

#[test]
fn a_script_that_ends_for_what_the_host_refused_ends_with_that() {
    for (command, stage) in [
        ("python3", python("from metier import ctx\n\nctx.write('a.txt', 'x')")),
        ("node", node("const {ctx} = require('metier');\n\nctx.write('a.txt', 'x')")),
    ] {
        if !has(command) {
            continue;
        }
        let mut stage = stage;
        stage.granted = vec![];
        let ran = stage.run();
        assert_eq!(
            ran.failure(),
            (ErrorKind::Denied, "failed to write a.txt: not permitted; run with --allow write")
        );
        assert_eq!(ran.error().location().unwrap().line, Some(3), "{command}");
        assert_eq!(ran.process().exit_code, Some(1));
        assert!(ran.process().stderr.contains("MetierError"), "{}", ran.process().stderr);
    }
}

#[test]
fn the_protocol_is_lines_of_json() {
    let stage = by_hand(
        "print(json.dumps([call('input'), call('stat', 'a')['error']['kind'], call('api')['ok'][0]['name']]))",
    );
    says(&stage.input(json!({"a": 1})), json!([{"id": 1, "ok": {"a": 1}}, "io", "read_file"]));
}
