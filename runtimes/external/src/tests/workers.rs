//! Worker processes that are reused between runs: their responses, what ends them, and what is and is not carried from one run to
//! the next.

use super::*;
use metier_core::host::{RunMessages, SecretProvider, SkillContext};
use serde_json::json;

/// Counts its runs, and does what it is told.
const PYTHON: &str = "
import os, sys, time, threading
from metier import ctx, serve
runs = 0
seen = []
def run(input):
    global runs
    runs += 1
    if 'eval' in input: return eval(input['eval'])
    if 'exec' in input: exec(input['exec'], globals())
    return runs
serve(run)
";

const NODE: &str = "
const {ctx, serve} = require('metier');
let runs = 0;
serve(async (input) => { runs += 1; return input.eval ? eval(input.eval) : runs; });
";

/// By hand: no client, and a request is what `sed` makes of it.
const SHELL: &str = r#"
runs=0
while read -r request; do
  runs=$((runs + 1))
  id=$(printf '%s' "$request" | sed 's/^{"id":\([0-9]*\),.*/\1/')
  printf '{"id": %s, "ok": [%s, "%s"]}\n' "$id" "$runs" "$(metier_input)"
done
"#;

fn worker_fixture(path: &str, source: &str) -> Fixture {
    let mut stage = Fixture::new(path, source);
    stage.worker = Some(WorkerOptions::default());
    stage
}

fn python(source: &str) -> Fixture {
    worker_fixture("scripts/run.py", source)
}

/// A worker by hand: the body is run for each `request`, with `say(text)` to write a line.
fn raw_worker(body: &str) -> Fixture {
    let body = body.replace('\n', "\n    ");
    python(&format!(
        "import json, os, sys, time, threading
def say(text): os.write(1, text.encode() + b'\\n')
def answer(request, value): say(json.dumps({{'id': request['id'], 'ok': value}}))
for line in sys.stdin:
    request = json.loads(line)
    input = request['input']
    {body}
"
    ))
}

#[track_caller]
fn value(ran: TestRun) -> Value {
    ran.value.unwrap_or_else(|error| panic!("{error}: {:?}", ran.process))
}

#[test]
fn a_hundred_runs_are_one_process_and_then_there_is_another() {
    for (command, path, source) in [("python3", "scripts/run.py", PYTHON), ("node", "scripts/run.js", NODE)] {
        if !has_command(command) {
            continue;
        }
        let stage = worker_fixture(path, source);
        let executor = stage.load().unwrap();
        for run in 1..=100 {
            assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(run), "{command}");
        }
        assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1), "{command}: a new one");
    }
}

#[test]
fn a_shell_can_be_kept_as_well() {
    let source = SHELL.replace("\"$(metier_input)\"", "$$");
    let stage = worker_fixture("scripts/run.sh", &source);
    let executor = stage.load().unwrap();
    let first = value(stage.run_again(&*executor, json!({})));
    let second = value(stage.run_again(&*executor, json!("any")));
    assert_eq!((&first[0], &second[0], first[1] == second[1]), (&json!(1), &json!(2), true));
}

#[test]
fn a_kept_process_is_started_once_and_a_run_costs_a_line_each_way() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    stage.run_again(&*executor, json!({}));
    // Its folder tells one process from another; in namespaces of their own all have the same number.
    let pid = json!({"eval": "os.environ['TMPDIR']"});
    let first = value(stage.run_again(&*executor, pid.clone()));
    for _ in 0..20 {
        assert_eq!(value(stage.run_again(&*executor, pid.clone())), first);
    }
}

/// This is what keeping a process means, and why a skill has to ask for it.
#[test]
fn what_a_script_keeps_in_memory_or_in_its_folder_goes_from_run_to_run() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    stage.run_again(
        &*executor,
        json!({"exec": "seen.append('first'); open(os.environ['HOME'] + '/a', 'w').write('left')"}),
    );
    assert_eq!(value(stage.run_again(&*executor, json!({"eval": "seen"}))), json!(["first"]));
    assert_eq!(
        value(stage.run_again(&*executor, json!({"eval": "open(os.environ['HOME'] + '/a').read()"}))),
        json!("left")
    );
    // Where a skill does not ask for it, nothing does.
    let plain = Fixture::new(
        "scripts/run.py",
        "import os; print([name for name in os.listdir(os.environ['HOME']) if name == 'a'])",
    );
    assert_eq!(plain.run().value.unwrap(), json!([]));
}

#[test]
fn input_and_arguments_are_those_of_the_run() {
    let stage = python("import sys, metier\nmetier.serve(lambda input: [input, metier.input, sys.argv[1:], metier._line.ask('input', [])])")
        .args(&["a", "b c"]);
    let executor = stage.load().unwrap();
    for input in [json!({"n": 1}), json!(null), json!("x")] {
        assert_eq!(
            value(stage.run_again(&*executor, input.clone())),
            json!([input, input, ["a", "b c"], input])
        );
    }
    if has_command("node") {
        let stage = worker_fixture(
            "scripts/run.js",
            "require('metier').serve((input) => [input, process.argv.slice(2)])",
        )
        .args(&["a"]);
        let executor = stage.load().unwrap();
        assert_eq!(
            value(stage.run_again(&*executor, json!("line\u{2028}one\n"))),
            json!(["line\u{2028}one\n", ["a"]])
        );
        let rounded = stage.run_again(&*executor, json!(9_007_199_254_740_993_u64));
        assert!(rounded.error().message().contains("JavaScript cannot hold"), "{:?}", rounded.value);
    }
}

#[test]
fn the_host_answers_each_run_by_what_that_run_may() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let write = |text: &str| json!({"eval": format!("ctx.write('a.txt', '{text}')")});
    value(stage.run_again(&*executor, write("one")));
    let ran = stage.run_again(&*executor, json!({"exec": "ctx.log('info', 'of the second')"}));
    assert_eq!(ran.log[0].message, "of the second");
    assert!(stage.run_again(&*executor, json!({})).log.is_empty());
    assert_eq!(std::fs::read_to_string(stage.file("a.txt")).unwrap(), "one");
}

#[test]
fn runs_with_other_grants_limits_or_projects_never_share_a_process() {
    let mut stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let count = |stage: &Fixture| value(stage.run_again(&*executor, json!({})));
    assert_eq!((count(&stage), count(&stage)), (json!(1), json!(2)));
    stage.grants = vec![];
    assert_eq!(count(&stage), json!(1));
    let refused = stage.run_again(&*executor, json!({"eval": "ctx.write('a', 'b')"}));
    assert_eq!(refused.error().kind(), ErrorKind::Denied);
    let refused = stage.run_again(&*executor, json!({"eval": "open('a', 'w')"}));
    assert!(is_refusal(refused.error().message()), "{:?}", refused.value);
    stage.grants = vec!["write"];
    assert_eq!(count(&stage), json!(3), "the first one is still there");
    stage.limits = stage.limits.memory(1 << 30);
    assert_eq!(count(&stage), json!(1));
    let other = python(PYTHON);
    let ran = Fixture { script: stage.script.clone(), ..other };
    assert_eq!(value(ran.run_again(&*executor, json!({}))), json!(1), "another project");
}

/// By Landlock, or by a mount that is read-only.
fn is_refusal(message: &str) -> bool {
    message.contains("PermissionError") || message.contains("Read-only file system")
}

#[test]
fn the_sandbox_of_a_kept_process_holds() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    // In `/tmp` it may have a folder of its own.
    let beside = std::path::Path::new("/var/tmp/metier-beside");
    for attempt in [
        "open('/etc/shadow').read()",
        &format!("open({:?}, 'w')", beside.to_str().unwrap()),
        "__import__('socket').socket(17)",
        "__import__('os').kill(1, 0)",
    ] {
        let ran = stage.run_again(&*executor, json!({"eval": attempt}));
        let message = ran.error().message();
        assert!(is_refusal(message), "{attempt}: {message}");
        let held = ran.sandbox.unwrap();
        assert!(held.files && held.network && held.tree_kill && held.unix_sockets, "{held:?}");
    }
    assert!(!beside.exists());
}

#[test]
fn an_error_fails_its_run_and_not_the_next() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let ran = stage.run_again(&*executor, json!({"eval": "1 / 0"}));
    assert_eq!(
        ran.failure(),
        (ErrorKind::Script, "scripts/run.py failed: ZeroDivisionError: division by zero")
    );
    assert!(ran.process().stderr.contains("Traceback"), "{}", ran.process().stderr);
    let ran = stage.run_again(&*executor, json!({}));
    assert_eq!(ran.process().stderr, "");
    assert_eq!(value(ran), json!(2));
    // What the host refused is told in the host's own words.
    let ran = stage.run_again(&*executor, json!({"eval": "ctx.read_file('none.txt')"}));
    assert_eq!(ran.error().kind(), ErrorKind::Io);
    let ran = stage.run_again(&*executor, json!({"eval": "{1, 2}"}));
    assert!(ran.error().message().contains("TypeError"), "{:?}", ran.value);
    if has_command("node") {
        let stage = worker_fixture("scripts/run.js", NODE);
        let executor = stage.load().unwrap();
        let ran = stage.run_again(&*executor, json!({"eval": "ctx.read_file('none.txt')"}));
        assert_eq!(ran.error().kind(), ErrorKind::Io);
        let ran = stage.run_again(&*executor, json!({"eval": "nothing.there"}));
        assert!(ran.error().message().contains("ReferenceError"), "{:?}", ran.value);
        assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(3));
    }
}

#[test]
fn what_is_printed_is_talk_and_belongs_to_its_run() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let says = |text: &str| json!({"eval": format!("print('{text}') or os.system('echo {text} child')")});
    for text in ["one", "two"] {
        let ran = stage.run_again(&*executor, says(text));
        let mut said: Vec<&str> = ran.process().stderr.lines().collect();
        said.sort_unstable();
        assert_eq!(said, [text.to_owned(), format!("{text} child")], "{:?}", ran.value);
        assert_eq!(ran.process().stdout, "");
    }
    if has_command("node") {
        let stage = worker_fixture("scripts/run.js", NODE);
        let executor = stage.load().unwrap();
        let ran = stage.run_again(&*executor, json!({"eval": "console.log('hello')"}));
        assert_eq!(ran.process().stderr, "hello\n");
        assert_eq!(value(ran), Value::Null);
    }
}

#[test]
fn a_deadline_ends_the_process_and_the_next_run_has_a_new_one() {
    let stage = python(PYTHON).deadline(1500);
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    let ran = stage.run_again(&*executor, json!({"exec": "time.sleep(60)"}));
    assert_eq!(ran.error().kind(), ErrorKind::Timeout);
    assert!(ran.duration < Duration::from_secs(4), "{:?}", ran.duration);
    assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1));
}

#[test]
fn a_caller_that_cancels_ends_the_process() {
    let stage = python(PYTHON).input(json!({"exec": "open('began', 'w'); time.sleep(60)"}));
    let cancel = stage.cancel.clone();
    let began = stage.file("began");
    let caller = std::thread::spawn(move || {
        while !began.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
    });
    let ran = stage.run();
    caller.join().unwrap();
    assert_eq!(ran.error().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_process_that_ends_in_a_run_is_one_clear_error_and_replaced() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    for (how, sentence) in [
        ("os.write(2, b'broken\\n'); os._exit(7)", "scripts/run.py exited with code 7: broken"),
        ("os.kill(os.getpid(), 9)", "scripts/run.py was ended by signal 9 (SIGKILL)"),
        ("os._exit(0)", "scripts/run.py ended before it answered"),
        ("sys.exit(3)", "scripts/run.py exited with code 3"),
    ] {
        let ran = stage.run_again(&*executor, json!({"exec": how}));
        assert_eq!(ran.failure(), (ErrorKind::Script, sentence), "{how}");
        assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1), "{how}");
    }
}

#[test]
fn a_process_that_was_killed_while_it_waited_is_replaced_and_nobody_hears_of_it() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    // Inside of its sandbox, but after its answer.
    let later = "threading.Timer(0.05, lambda: os._exit(9)).start()";
    value(stage.run_again(&*executor, json!({"exec": later})));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1));
}

#[test]
fn what_is_no_answer_fails_the_run_and_ends_the_process() {
    for (says, words) in [
        ("say('hello')", "a line that is no JSON"),
        ("say('[]')", "JSON that is not an object"),
        (
            "say(json.dumps({'id': request['id'] + 1, 'ok': 1}))",
            "the answer to a request that it was not asked",
        ),
        (
            "say(json.dumps({'id': str(request['id']), 'ok': 1}))",
            "the answer to a request that it was not asked",
        ),
        ("say(json.dumps({'id': request['id']}))", "not one of `ok` and `error`"),
        ("os.write(1, b'\\xff\\n')", "not UTF-8"),
        ("say('')", "no JSON"),
    ] {
        let stage =
            raw_worker(&format!("if input == 'wrong': {says}\nelse: answer(request, os.environ['TMPDIR'])"));
        let executor = stage.load().unwrap();
        let first = value(stage.run_again(&*executor, json!("right")));
        let ran = stage.run_again(&*executor, json!("wrong"));
        assert!(ran.error().message().contains(words), "{says}: {}", ran.error());
        assert!(ran.error().help().unwrap().contains("a worker answers"));
        assert_ne!(value(stage.run_again(&*executor, json!("right"))), first, "{says}");
    }
}

/// Whether it is JSON is known only after it was parsed.
#[test]
fn the_memory_of_an_answer_is_counted_before_it_is_parsed() {
    for end in ["0]}", "0"] {
        let stage = raw_worker(&format!(
            "if input == 'wrong': say('{{\"id\": %d, \"ok\": [' % request['id'] + '[{{}}],' * (1 << 20) + '{end}')\n\
             else: answer(request, os.environ['TMPDIR'])"
        ));
        let executor = stage.load().unwrap();
        let first = value(stage.run_again(&*executor, json!("right")));
        let ran = stage.run_again(&*executor, json!("wrong"));
        // Of a value of a million lists, only that there is one.
        let error = ran.value.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{end}: {error}");
        assert!(error.message().contains("its value needs up to"), "{end}: {error}");
        assert_ne!(value(stage.run_again(&*executor, json!("right"))), first, "{end}");
    }
}

#[test]
fn one_word_too_many_ends_the_process_after_its_run() {
    for says in [
        "answer(request, 0)",
        "os.write(1, b'x')",
        "os.write(2, b'late')",
        "time.sleep(0.05); say('unasked')",
        "os.write(3, b'{\"id\": 1, \"call\": \"log\", \"args\": [\"info\", \"late\"]}\\n')",
    ] {
        let stage = raw_worker(&format!(
            "answer(request, os.environ['TMPDIR'])\nif input == 'more': time.sleep(0.05); {says}"
        ));
        let executor = stage.load().unwrap();
        let first = value(stage.run_again(&*executor, json!("more")));
        std::thread::sleep(Duration::from_millis(300));
        let ran = stage.run_again(&*executor, json!("no more"));
        assert!(
            ran.log.is_empty() && ran.process().stderr.is_empty(),
            "{says}: {:?} {:?}",
            ran.log,
            ran.process
        );
        assert_ne!(value(ran), first, "{says}");
    }
    // In the same breath.
    let stage = raw_worker(
        "os.write(1, json.dumps({'id': request['id'], 'ok': os.environ['TMPDIR']}).encode() + b'\\nx')",
    );
    let executor = stage.load().unwrap();
    assert_ne!(value(stage.run_again(&*executor, json!(1))), value(stage.run_again(&*executor, json!(2))));
}

#[test]
fn a_call_between_runs_is_answered_by_nobody() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let late = "
def later():
    time.sleep(0.1)
    ctx.write('late', 'x')
threading.Thread(target=later, daemon=True).start()";
    value(stage.run_again(&*executor, json!({"exec": late})));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!stage.file("late").exists());
    assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1), "who calls out of turn is not kept");
    assert!(!stage.file("late").exists());
}

/// A word on a line that the host is told to look past (`SO_PEEK_OFF`) is one all the same.
#[test]
fn a_word_that_hides_from_who_looks_for_it_ends_the_process() {
    let stage = raw_worker(
        "import array, socket
connection = socket.socket(fileno=os.dup(3))
ours, theirs = socket.socketpair()
connection.sendmsg([b'\\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [theirs.fileno()]))])
ours.sendall(b'{\"id\": 1, \"call\": \"api\"}\\n')
ours.recv(1)
time.sleep(0.2)
ours.recv(1 << 20)
answer(request, os.environ['TMPDIR'])
if input == 'more':
    time.sleep(0.2)
    theirs.setsockopt(socket.SOL_SOCKET, 42, 1 << 20)
    ours.sendall(b'x')",
    );
    let executor = stage.load().unwrap();
    let first = value(stage.run_again(&*executor, json!("no more")));
    assert_eq!(value(stage.run_again(&*executor, json!("more"))), first, "a line alone is no offence");
    std::thread::sleep(Duration::from_millis(800));
    assert_ne!(value(stage.run_again(&*executor, json!("no more"))), first);
}

#[test]
fn too_much_output_ends_the_process() {
    let stage = python(PYTHON).output(100_000);
    let executor = stage.load().unwrap();
    assert_eq!(value(stage.run_again(&*executor, json!({"eval": "'x' * 90000"}))), json!("x".repeat(90_000)));
    let ran = stage.run_again(&*executor, json!({"eval": "'x' * 1000000"}));
    let sentence = "scripts/run.py wrote more than 100000 bytes to standard output and was stopped";
    assert_eq!(ran.failure(), (ErrorKind::Output, sentence));
    let ran = stage.run_again(&*executor, json!({"eval": "sys.stderr.write('x' * 1000000)"}));
    assert_eq!(ran.error().kind(), ErrorKind::Output);
    let mut stage = stage;
    stage.limits = stage.limits.on_output(OutputPolicy::Truncate);
    let ran = stage.run_again(&*executor, json!({"eval": "sys.stderr.write('x' * 1000000)"}));
    assert_eq!((ran.process().stderr.len(), ran.process().usage.stderr_bytes), (100_000, 1_000_000));
    assert_eq!(value(ran), json!(1_000_000));
    assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(2), "the next run hears nothing of it");
}

#[test]
fn a_large_input_and_a_large_answer_pass() {
    let stage = python("from metier import serve\nserve(lambda input: input)");
    let executor = stage.load().unwrap();
    let text = "é\n\"".repeat(500_000);
    for _ in 0..3 {
        assert_eq!(value(stage.run_again(&*executor, json!(text))), json!(text));
    }
}

#[test]
fn runs_side_by_side_have_a_process_each() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    let slow = json!({"eval": "time.sleep(0.3) or os.environ['TMPDIR']"});
    let places: Vec<Value> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..3).map(|_| scope.spawn(|| value(stage.run_again(&*executor, slow.clone())))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2], "{places:?}");
    let next = value(stage.run_again(&*executor, json!({"eval": "os.environ['TMPDIR']"})));
    assert!(places.contains(&next));
}

/// The processes whose command line holds this.
fn process_count(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

#[test]
fn when_the_script_is_forgotten_nothing_of_it_lives_and_nothing_of_it_is_left() {
    let stage = python(PYTHON);
    let mark = stage.skill.path().to_str().unwrap().to_owned();
    let executor = stage.load().unwrap();
    let leaves = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)";
    value(stage.run_again(&*executor, json!({"exec": leaves})));
    let home = value(stage.run_again(&*executor, json!({"eval": "os.environ['TMPDIR']"})));
    assert!(process_count(&mark) > 0 && std::path::Path::new(home.as_str().unwrap()).is_dir());
    drop(executor);
    assert_eq!(process_count(&mark), 0);
    assert!(!std::path::Path::new(home.as_str().unwrap()).exists());
}

#[test]
fn who_waits_too_long_is_sent_home() {
    let mut stage = python(PYTHON);
    let mut worker = WorkerOptions::default();
    worker.idle_timeout = Duration::from_millis(100);
    stage.worker = Some(worker);
    let mark = stage.skill.path().to_str().unwrap().to_owned();
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    let begun = Instant::now();
    while process_count(&mark) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it still waits");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(value(stage.run_again(&*executor, json!({}))), json!(1));
}

#[test]
fn who_has_run_often_enough_makes_room() {
    let mut stage = python(PYTHON);
    let mut worker = WorkerOptions::default();
    worker.runs = 2;
    stage.worker = Some(worker);
    let executor = stage.load().unwrap();
    let counts: Vec<Value> = (0..5).map(|_| value(stage.run_again(&*executor, json!({})))).collect();
    assert_eq!(counts, [1, 2, 1, 2, 1]);
}

#[test]
fn a_script_that_changed_is_not_answered_for_by_the_old_one() {
    let stage = python(PYTHON);
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({})));
    std::fs::write(stage.skill.path().join("scripts/run.py"), "print('new')").unwrap();
    let ran = stage.run_again(&*executor, json!({}));
    assert_eq!(ran.error().message(), "scripts/run.py has changed since it was loaded");
}

#[test]
fn without_a_sandbox_a_process_speaks_the_same_and_is_not_kept() {
    let mut stage =
        python("import os, metier\nmetier.serve(lambda input: [input, os.environ.get('METIER_API_FD')])");
    stage.grants = vec!["exec:unsandboxed"];
    let executor = stage.load().unwrap();
    let ran = stage.run_again(&*executor, json!(5));
    assert_eq!(ran.sandbox.unwrap().level.name(), "none");
    assert_eq!(value(ran), json!([5, null]));
    assert_eq!(process_count(stage.skill.path().to_str().unwrap()), 0);
}

#[test]
fn an_interpreter_that_fails_to_start_the_script_is_reported_as_what_it_is() {
    let stage = python("import nothing_of_that_name");
    let ran = stage.run();
    let (kind, message) = ran.failure();
    assert_eq!(kind, ErrorKind::Script);
    assert!(message.contains("exited with code 1: ModuleNotFoundError"), "{message}");
}

/// Hands out one secret.
struct OneSecret;

impl SecretProvider for OneSecret {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(Some("s3cret-value".into()))
    }
}

#[test]
fn a_secret_that_one_run_was_handed_leaves_no_later_run_either() {
    let mut stage = python(PYTHON);
    stage.grants = vec!["secret:KEY"];
    stage.providers.secrets = Some(std::sync::Arc::new(OneSecret));
    let executor = stage.load().unwrap();
    value(stage.run_again(&*executor, json!({"exec": "seen.append(ctx.secret('KEY'))"})));
    let input = SkillInput::from(json!({"exec": "ctx.log('info', seen[0])"}));
    let context = stage.context(&CancelToken::new());
    executor.execute_with_context(input, Some(&context)).unwrap();
    assert_eq!(context.take_log()[0].message, "[secret:KEY]");
}
