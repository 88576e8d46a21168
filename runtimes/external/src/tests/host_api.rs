//! What scripts ask of the host, by the clients and by lines of their own, and what hostile ones get.

use super::*;
use metier_core::host::{SampleRequest, SampleResponse, SamplingProvider};
use serde_json::json;

/// Python that speaks the protocol by itself: `line(text)` writes to the descriptor, `answer()` reads one line from it.
const RAW_PROTOCOL: &str = "import array, json, os, socket, sys, time
connection = socket.socket(fileno=3)
answers = connection.makefile('rb')
def line(text): connection.sendall(text.encode() + b'\\n')
def answer(): return json.loads(answers.readline())
def call(name, *args):
    line(json.dumps({'id': 1, 'call': name, 'args': args}))
    return answer()
";

fn raw_protocol(source: &str) -> Fixture {
    Fixture::new("scripts/run.py", format!("{RAW_PROTOCOL}{source}"))
}

fn python(source: &str) -> Fixture {
    Fixture::new("scripts/run.py", source)
}

fn node(source: &str) -> Fixture {
    Fixture::new("scripts/run.js", source)
}

/// What the script prints as JSON.
#[track_caller]
fn assert_value(stage: &Fixture, expected: impl Into<Value>) {
    let ran = stage.run();
    assert_eq!(ran.value.as_ref().unwrap(), &expected.into(), "{:?}", ran.process);
}

#[test]
fn python_and_node_call_the_host_and_get_its_errors_for_what_is_not_allowed() {
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
        if !has_command(command) {
            continue;
        }
        let mut stage = stage.input(json!({"path": "b.txt"}));
        stage.grants = vec![];
        std::fs::write(stage.file("b.txt"), "text").unwrap();
        let ran = stage.run();
        assert_eq!(ran.log[0].message, "hello");
        let sentence = "failed to write a.txt: not permitted; grant write";
        assert_eq!(ran.text().trim_end(), format!("text|denied|{sentence}|grant write"));
    }
}

#[test]
fn a_script_that_ends_for_what_the_host_refused_ends_with_that() {
    for (command, stage) in [
        ("python3", python("from metier import ctx\n\nctx.write('a.txt', 'x')")),
        ("node", node("const {ctx} = require('metier');\n\nctx.write('a.txt', 'x')")),
    ] {
        if !has_command(command) {
            continue;
        }
        let mut stage = stage;
        stage.grants = vec![];
        let ran = stage.run();
        assert_eq!(ran.failure(), (ErrorKind::Denied, "failed to write a.txt: not permitted; grant write"));
        assert_eq!(ran.error().location().unwrap().line, Some(3), "{command}");
        assert_eq!(ran.process().exit_code, Some(1));
        assert!(ran.process().stderr.contains("MetierError"), "{}", ran.process().stderr);
    }
}

#[test]
fn the_protocol_is_lines_of_json() {
    let stage = raw_protocol(
        "print(json.dumps([call('input'), call('stat', 'a')['error']['kind'], call('api')['ok'][0]['name']]))",
    );
    assert_value(&stage.input(json!({"a": 1})), json!([{"id": 1, "ok": {"a": 1}}, "io", "read_file"]));
}

#[test]
fn every_id_comes_back_as_it_is_or_the_request_is_refused() {
    let stage = raw_protocol(
        r#"
answers = []
for id in ['0', '-1', '18446744073709551615', '0.5', '"x"', '""', 'null', 'true', '[1]', '{}', '"' + 'x' * 201 + '"', '1e999']:
    line('{"id": ' + id + ', "call": "log", "args": ["info", "x"]}')
    got = answer()
    answers.append([got['id'], 'ok' in got])
print(json.dumps(answers))"#
            .replace("answers = []\n", "seen = []\n")
            .replace("answers.append", "seen.append")
            .replace("dumps(answers)", "dumps(seen)")
            .as_str(),
    );
    let kept =
        json!([[0, true], [-1, true], [u64::MAX, true], [0.5, true], ["x", true], ["", true], [null, true]]);
    let refused = json!([[null, false], [null, false], [null, false], [null, false], [null, false]]);
    let all: Vec<&Value> = kept.as_array().unwrap().iter().chain(refused.as_array().unwrap()).collect();
    assert_value(&stage, json!(all));
}

#[test]
fn garbage_is_answered_with_an_error_and_the_line_goes_on() {
    let stage = raw_protocol(
        r#"
seen = []
for text in [b'\xff\xfe{}', b'x', b'[]', b'7', b'{"id": 1}', b'{"id": 1, "call": 5}', b'{"id": 1, "call": "log", "args": {}}',
             b'{"id": 1, "call": "log", "more": 1}', b'{"id": 1, "id": 2, "call": "log"}', b'{"call": "no_such"}',
             b'{"call": "log", "args": [1, 2, 3]}', b'{"call": "fail", "args": [9, 1]}', b'[' * 100000]:
    connection.sendall(text + b'\n')
    seen.append(answer()['error']['kind'])
connection.sendall(b'\n  \r\n\0\0\n')
print(json.dumps([sorted(set(seen)), len(seen), call('log', 'info', 'x')]))"#,
    );
    assert_value(&stage, json!([["invalid-argument"], 13, {"id": 1, "ok": null}]));
}

#[test]
fn a_line_that_never_ends_is_bounded_and_what_follows_it_is_heard() {
    let stage = raw_protocol(
        r"
chunk = b'x' * (1 << 20)
for _ in range(1024): connection.sendall(chunk)
connection.sendall(b'\n')
print(json.dumps([answer()['error']['kind'], call('log', 'info', 'x')['ok']]))",
    );
    let ran = stage.deadline(60_000).run();
    assert_eq!(ran.value.unwrap(), json!(["output", null]));
    // What a gibibyte would take if it were kept is more than all of these tests together.
    assert!(peak_resident() < 900 << 20, "{}", peak_resident());
}

/// A request that is short enough may still be a value of any size: it is counted before it is parsed.
#[test]
fn the_value_of_a_request_counts_as_memory_of_the_run_before_it_is_made() {
    let mut stage = raw_protocol(
        r#"
line('{"id": 1, "call": "log", "args": [' + '[],' * 2000000 + '1]}')
print(json.dumps([answer()['error']['kind'], call('log', 'info', 'x')['ok']]))"#,
    )
    .deadline(60_000);
    stage.limits = stage.limits.memory(128 << 20);
    assert_eq!(stage.run().value.unwrap(), json!(["memory", null]));
}

/// The most memory this process ever had, in bytes.
fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn answers_that_nobody_reads_hold_nothing_up() {
    let asks = "
try:
    while True: line(json.dumps({'id': 1, 'call': 'read_file', 'args': ['big']}))
except BlockingIOError: pass
";
    for (how, kind) in [("", Some(ErrorKind::Timeout)), ("connection.setblocking(False)", None)] {
        let mut stage = raw_protocol(&format!("{how}{asks}print('\"done\"')")).deadline(3000);
        stage.limits = stage.limits.output(1 << 20);
        std::fs::write(stage.file("big"), "x".repeat(4 << 20)).unwrap();
        let ran = stage.run();
        assert_eq!(ran.value.as_ref().err().map(SkillError::kind), kind, "{:?}", ran.value);
        assert!(ran.duration < Duration::from_secs(4), "{:?}", ran.duration);
    }
}

#[test]
fn a_flood_of_requests_is_answered_in_order() {
    let stage = raw_protocol(
        "
import threading
def ask():
    for id in range(20000): line(json.dumps({'id': id, 'call': 'config', 'args': []}))
threading.Thread(target=ask).start()
print(json.dumps([answer()['id'] for _ in range(20000)] == list(range(20000))))",
    );
    assert_value(&stage, true);
}

#[test]
fn processes_of_one_tree_each_have_their_own_answers() {
    let stage = python(
        "import os
from metier import ctx
ctx.stat('0')
children = []
for child in range(8):
    pid = os.fork()
    if pid == 0:
        if child % 2: os.setsid()
        for turn in range(100):
            text = f'{child} {turn}'
            ctx.write(str(child), text)
            if ctx.read_file(str(child)) != text: os._exit(1)
        os._exit(0)
    children.append(pid)
print(sum(os.waitpid(child, 0)[1] for child in children))",
    );
    std::fs::write(stage.file("0"), "").unwrap();
    assert_value(&stage, 0);
}

#[test]
fn threads_of_one_process_take_turns() {
    let stage = python(
        "from concurrent.futures import ThreadPoolExecutor
from metier import ctx
def turn(n):
    ctx.write(f'{n}', f'{n}')
    return ctx.read_file(f'{n}') == f'{n}'
with ThreadPoolExecutor(16) as pool: print(sum(pool.map(turn, range(500))))",
    );
    assert_value(&stage, 500);
}

#[test]
fn whatever_descriptor_is_sent_the_host_goes_on() {
    let stage = raw_protocol(
        "
def send(*fds): connection.sendmsg([b'\\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))])
read, write = os.pipe()
os.mkfifo('fifo')
for fd in [read, write, os.open('fifo', os.O_RDWR), os.open('.', os.O_RDONLY), os.open('/dev/zero', os.O_RDONLY), 0]:
    send(fd)
try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
except PermissionError: pass
else: raise SystemExit('a datagram socket could reach whom it is not connected to')
send(*[read] * 200)
# Both ends of one: what the host says there, it hears.
loop = socket.socketpair()
loop[0].sendall(b'x\\n')
send(*[end.fileno() for end in loop])
# More lines than are taken at a time, kept open, then dropped; one of them is never finished.
pairs = [socket.socketpair() for _ in range(29)]
for ours, theirs in pairs: send(theirs.fileno())
pairs[0][0].sendall(b'{\"id\"')
for ours, theirs in pairs[1:]:
    ours.sendall(b'{\"id\": 5, \"call\": \"input\"}\\n')
    assert json.loads(ours.recv(1000)) == {'id': 5, 'ok': 7}
    ours.close(); theirs.close()
for _ in range(200):
    ours, theirs = socket.socketpair()
    send(theirs.fileno())
print(json.dumps(call('input')))",
    );
    assert_value(&stage.input(7), json!({"id": 1, "ok": 7}));
}

#[test]
fn the_descriptor_goes_on_to_grandchildren_and_ends_with_the_tree() {
    let grandchild = "setsid python3 -c 'from metier import ctx
ctx.write(\"ready\", \"\")
while True: ctx.append(\"beat\", \"x\")' & disown; until [ -e beat ]; do sleep 0.01; done; echo 1";
    let stage = Fixture::bash(grandchild);
    let ran = stage.run();
    assert_eq!(ran.value.as_ref().unwrap(), &json!(1), "{:?}", ran.process);
    assert!(ran.duration < Duration::from_secs(3), "{:?}", ran.duration);
    let length = || std::fs::metadata(stage.file("beat")).unwrap().len();
    let then = length();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(length(), then);
}

/// A model that thinks until it is told to stop.
struct Thinker;

impl SamplingProvider for Thinker {
    fn sample(&self, ctx: &SkillContext, _: &SampleRequest) -> Result<SampleResponse> {
        while ctx.cancel().cause().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        ctx.cancel().check().map(|()| SampleResponse::default())
    }
}

fn thinking_fixture(source: &str) -> Fixture {
    let mut stage = python(source).deadline(1000);
    stage.grants = vec!["sample"];
    stage.providers.sampling = Some(std::sync::Arc::new(Thinker));
    stage
}

#[test]
fn a_call_under_way_ends_with_its_run() {
    let waits = "from metier import ctx\nctx.sample(prompt='?')";
    let ran = thinking_fixture(waits).run();
    assert_eq!(ran.error().kind(), ErrorKind::Timeout);
    assert!(ran.duration < Duration::from_millis(1500), "{:?}", ran.duration);

    let stage = thinking_fixture(waits);
    let cancel = stage.cancel.clone();
    let caller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    let ran = stage.run();
    caller.join().unwrap();
    assert_eq!(ran.error().kind(), ErrorKind::Cancelled);
    assert!(ran.duration < Duration::from_millis(800), "{:?}", ran.duration);
}

#[test]
fn a_call_under_way_holds_up_neither_the_streams_nor_the_end() {
    let stage = thinking_fixture(
        "import os, time
from metier import ctx
if os.fork() == 0: ctx.sample(prompt='?')
time.sleep(0.1)
print('x' * (1 << 20))
os._exit(0)",
    );
    let ran = stage.run();
    assert!(ran.duration < Duration::from_millis(800), "{:?}", ran.duration);
    assert!(ran.value.is_ok(), "{:?}", ran.value);
}

#[test]
fn protected_paths_hold_through_the_api_as_everywhere() {
    let stage = raw_protocol(
        "print(json.dumps([call('write', path, 'x')['error']['kind'] for path in ['.git/config', '.env', '../x', '/etc/x']]))",
    );
    std::fs::create_dir(stage.file(".git")).unwrap();
    assert_value(&stage, json!(["denied", "denied", "outside-project", "outside-project"]));
}

#[test]
fn a_module_of_the_scripts_own_comes_before_the_client() {
    let stage = python("import metier; print(metier.own)");
    std::fs::write(stage.skill.path().join("scripts/metier.py"), "own = 5").unwrap();
    assert_value(&stage, 5);
}

#[test]
fn es_modules_import_the_client_by_its_name() {
    if !has_command("node") {
        return;
    }
    for source in [
        "import {ctx, input, MetierError} from 'metier';
try { ctx.write('a', 'b'); } catch (error) { console.log(JSON.stringify([input, error instanceof MetierError, error.kind])); }",
        "const {default: metier} = await import('metier');
try { metier.ctx.write('a', 'b'); } catch (error) { console.log(JSON.stringify([metier.input, true, error.kind])); }",
    ] {
        let mut stage = Fixture::new("scripts/run.mjs", source).input(json!({"n": 1}));
        stage.grants = vec![];
        assert_value(&stage, json!([{"n": 1}, true, "denied"]));
    }
    // A package of the skill's own comes before it, and what is not there is told as it would be.
    let stage = Fixture::new("scripts/run.mjs", "import {own} from 'metier'; console.log(own);");
    let package = stage.skill.path().join("scripts/node_modules/metier");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(
        package.join("package.json"),
        r#"{"name": "metier", "type": "module", "main": "index.js"}"#,
    )
    .unwrap();
    std::fs::write(package.join("index.js"), "export const own = 5;").unwrap();
    assert_value(&stage, 5);
    let stage = Fixture::new("scripts/run.mjs", "import 'metier'; import 'no-such-package';");
    assert!(stage.run().process().stderr.contains("Cannot find package 'no-such-package'"));
    // Without a sandbox there is no host, which is told when it is called.
    let mut stage =
        Fixture::new("scripts/run.mjs", "import {ctx} from 'metier'; console.log(1); ctx.stat('.');");
    stage.grants = vec!["exec:unsandboxed"];
    let ran = stage.run();
    assert!(ran.process().stderr.contains("the host API is there for scripts"), "{:?}", ran.process);
    assert_eq!(ran.process().stdout, "1\n");
}

#[test]
fn the_clients_cannot_be_changed_from_inside() {
    let stage = python(
        "import metier, os
folder = os.path.dirname(metier.__file__)
refused = 0
for attempt in [lambda: open(metier.__file__, 'w'), lambda: open(folder + '/json.py', 'w'), lambda: os.remove(metier.__file__),
                lambda: os.rename(folder, folder + 'x'), lambda: os.symlink('x', folder + '/x')]:
    try: attempt()
    except OSError: refused += 1
for path in [metier.__file__, folder]:
    try: os.chmod(path, 0)
    except OSError: pass
print(refused)",
    );
    assert_value(&stage, 5);
    // Root may read it whatever its mode says, which proves nothing about others; the next run has whole ones again.
    assert_value(&python("import metier, os; print(os.stat(metier.__file__).st_mode & 0o400 > 0)"), "True\n");
}

#[test]
fn outside_of_a_sandbox_there_is_no_api_and_the_clients_say_so() {
    let sentence = "the host API is there for scripts that metier runs in a sandbox";
    for (command, stage) in [
        ("python3", python("from metier import ctx\nctx.stat('.')")),
        ("node", node("require('metier').ctx.stat('.')")),
    ] {
        if !has_command(command) {
            continue;
        }
        let mut stage = stage;
        stage.grants = vec!["exec:unsandboxed"];
        let ran = stage.run();
        assert_eq!(ran.error().kind(), ErrorKind::Script);
        assert!(ran.process().stderr.contains(sentence), "{}", ran.process().stderr);
    }
}
