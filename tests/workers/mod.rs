//! Skills whose process is kept between runs, as an engine has them.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::ErrorKind;
use metier::host::{Event, EventKind};
use metier::policy::{Limits, SandboxMode};
use metier::registry::{Root, Roots, Scope};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::not_run::{find_program, not_run};

const PYTHON: &str = "import os
from metier import ctx, serve
runs = 0
def run(input):
    global runs
    runs += 1
    return eval(input)
serve(run)
";

/// A project with one skill, `x`, that asks to be kept.
struct WorkerFixture(TempDir);

impl WorkerFixture {
    fn new() -> Option<Self> {
        if find_program("python3").is_none() {
            not_run("processes that are kept", "python3 is not installed");
            return None;
        }
        let stage = Self(tempfile::tempdir().unwrap());
        stage.write("project/a.txt", "text");
        stage.write(
            "skills/x/SKILL.md",
            "---\nname: x\ndescription: d\nmetadata:\n  worker: json-lines\n---\n",
        );
        stage.write("skills/x/scripts/main.py", PYTHON);
        Some(stage)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn engine(&self) -> Engine {
        let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", self.at("skills")));
        let mut builder = Engine::builder(self.at("project")).roots(roots);
        // Without the command line the host starts processes itself.
        let helper = if cfg!(feature = "cli") { option_env!("CARGO_BIN_EXE_metier") } else { None };
        if let Some(program) = helper {
            builder = builder.helper(program);
        }
        builder.build().unwrap()
    }

    /// The processes of the skill that live.
    fn living(&self) -> usize {
        let mark = self.at("skills").to_str().unwrap().to_owned();
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
    }
}

fn python_invocation(code: &str) -> Invocation {
    Invocation::new("x").input(code)
}

fn value(outcome: Outcome) -> Value {
    outcome.result.unwrap_or_else(|error| panic!("{error}: {:?}", outcome.process))
}

#[test]
fn a_skill_that_asks_for_it_has_a_worker_for_a_hundred_runs() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let runs: Vec<Value> = (0..101).map(|_| value(engine.run(python_invocation("runs")))).collect();
    let expected: Vec<Value> = (1..=100).chain([1]).map(Value::from).collect();
    assert_eq!(runs, expected);
    assert!(stage.living() >= 1);
    drop(engine);
    assert_eq!(stage.living(), 0, "an engine takes its processes with it");
}

#[test]
fn every_outcome_is_whole() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    for _ in 0..2 {
        let outcome = engine
            .run(python_invocation("ctx.log('info', 'hello') or print('talk') or ctx.read_file('a.txt')"));
        let held = outcome.sandbox.unwrap();
        assert!(held.files && held.network && held.tree_kill, "{held:?}");
        assert_eq!((outcome.log[0].message.as_str(), outcome.log.len()), ("hello", 1));
        assert_eq!(outcome.process.as_ref().unwrap().stderr, "talk\n");
        assert_eq!((outcome.limits.cpu, outcome.limits.memory_bytes), (None, Some(2 << 30)));
        assert_eq!(value(outcome), json!("text"));
    }
    let outcome = engine.run(python_invocation("1 / 0"));
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Script);
    assert_eq!(value(engine.run(python_invocation("runs"))), json!(4));
}

#[test]
fn the_lines_and_calls_of_a_worker_are_events_of_the_run_that_it_answers() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    for number in 0..2 {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let observer = move |event: &Event| match &event.kind {
            EventKind::Output { stream, line, .. } => sink.lock().unwrap().push(format!("{stream}: {line}")),
            EventKind::HostCall { permission, .. } => sink.lock().unwrap().extend(permission.clone()),
            _ => {}
        };
        let code = format!("print('talk {number}') or ctx.read_file('a.txt')");
        let invocation = python_invocation(&code).observer(Arc::new(observer));
        assert_eq!(value(engine.run(invocation)), json!("text"));
        let mut lines = lines.lock().unwrap().clone();
        lines.sort();
        // Standard output has the response of the worker, which is not a line of the script.
        assert_eq!(lines, ["read:a.txt".to_owned(), format!("standard error: talk {number}")]);
    }
}

#[test]
fn grants_limits_and_isolation_of_one_run_are_never_those_of_another() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let writes = || python_invocation("open('made', 'w').write('x')");
    assert_eq!(value(engine.run(python_invocation("runs"))), json!(1));
    assert!(engine.run(writes()).result.is_err());
    assert_eq!(value(engine.run(writes().grant("write".parse().unwrap()))), json!(1));
    assert!(engine.run(writes()).result.is_err(), "the first one may still not");
    assert_eq!(value(engine.run(python_invocation("runs"))), json!(4));
    let limits = Limits::default().open_files(77);
    let asked = python_invocation("__import__('resource').getrlimit(7)[0]").limits(limits);
    assert_eq!(value(engine.run(asked)), json!(77));
    let plain = engine.run(python_invocation("runs").sandbox_mode(SandboxMode::Off));
    assert_eq!(plain.sandbox.unwrap().level.name(), "none");
    assert_eq!(value(plain), json!(1));
    assert_eq!(value(engine.run(python_invocation("runs"))), json!(5));
}

#[test]
fn a_process_of_a_project_serves_no_other_one_at_its_path() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let run = |code: &str| value(engine.run(python_invocation(code)));
    assert_eq!((run("runs"), run("open('a.txt').read()")), (json!(1), json!("text")));
    fs::rename(stage.at("project"), stage.at("aside")).unwrap();
    stage.write("project/a.txt", "other");
    assert_eq!((run("open('a.txt').read()"), run("runs")), (json!("other"), json!(2)), "another process");
}

/// No skill lifts a limit that its caller named: a process that is held to processor time answers one run.
#[test]
fn processor_time_that_the_caller_named_is_enforced() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let limits = || Limits::default().cpu(std::time::Duration::from_secs(1));
    for _ in 0..2 {
        let outcome = engine.run(python_invocation("runs").limits(limits()));
        assert_eq!(outcome.limits.cpu, Some(std::time::Duration::from_secs(1)));
        assert_eq!(value(outcome), json!(1));
    }
    assert_eq!(
        value(engine.run(python_invocation("__import__('resource').getrlimit(0)[0]").limits(limits()))),
        json!(1)
    );
    let burns = engine.run(
        python_invocation("[0 for _ in iter(int, 1)]")
            .limits(limits().timeout(std::time::Duration::from_secs(50))),
    );
    assert_eq!(burns.result.unwrap_err().kind(), ErrorKind::Cpu);
    assert_eq!(stage.living(), 0);
}

#[test]
fn a_new_script_has_a_new_process_at_once() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    value(engine.run(python_invocation("runs")));
    stage.write("skills/x/scripts/main.py", &PYTHON.replace("runs = 0", "runs = 40"));
    assert_eq!(value(engine.run(python_invocation("runs"))), json!(41));
}

#[test]
fn no_process_that_loaded_other_files_serves_a_run() {
    let Some(stage) = WorkerFixture::new() else { return };
    stage.write("skills/x/scripts/lib.py", "text = 'before'");
    stage.write("skills/x/scripts/main.py", &format!("import lib\n{PYTHON}"));
    let engine = stage.engine();
    let run = |code: &str| value(engine.run(python_invocation(code)));
    assert_eq!((run("lib.text"), run("runs")), (json!("before"), json!(2)), "one process");
    stage.write("skills/x/scripts/lib.py", "text = 'after'");
    assert_eq!((run("lib.text"), run("runs")), (json!("after"), json!(2)));
    // Nobody knows whether files without a digest have changed.
    std::os::unix::fs::symlink("/etc/passwd", stage.at("skills/x/link")).unwrap();
    assert_eq!((run("runs"), run("runs")), (json!(1), json!(1)));
}

#[test]
fn a_skill_that_does_not_ask_is_a_new_process_every_time() {
    let Some(stage) = WorkerFixture::new() else { return };
    stage.write("skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n");
    // In a namespace of its own every process has the same number; its folder is another one each time.
    stage.write("skills/x/scripts/main.py", "import os; print(os.environ['TMPDIR'])");
    let engine = stage.engine();
    assert_ne!(value(engine.run(python_invocation(""))), value(engine.run(python_invocation(""))));
    assert_eq!(stage.living(), 0);
}

/// Secrets that are there for a run are hidden from it, however long its process has been there.
#[test]
fn a_secret_that_came_after_the_process_is_not_read_by_it() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let reads = || engine.run(python_invocation("[runs, os.path.exists('.env') and open('.env').read()]"));
    assert_eq!(value(reads()), json!([1, false]));
    assert_eq!(value(reads()), json!([2, false]), "nothing has come");
    let again = |engine: &Engine| {
        let outcome = engine.run(python_invocation("open('.env').read()"));
        if outcome.sandbox.unwrap().protected_paths {
            assert!(outcome.result.is_err(), "{:?}", outcome.result);
        }
    };
    stage.write("project/.env", "secret");
    again(&engine);
    again(&engine);
    // As editors do it: what was covered is gone, and nothing covers what has its name.
    stage.write("project/new", "another secret");
    fs::rename(stage.at("project/new"), stage.at("project/.env")).unwrap();
    again(&engine);
    fs::remove_file(stage.at("project/.env")).unwrap();
    stage.write("project/.env", "a third one");
    again(&engine);
}

/// Between runs and after the last one, too.
#[test]
fn what_a_process_makes_between_two_runs_is_quarantined() {
    let Some(stage) = WorkerFixture::new() else { return };
    let history = stage.at("project/.git");
    let engine = stage.engine();
    let run = |code: &str| engine.run(python_invocation(code).grant("write".parse().unwrap()));
    let plants = "__import__('threading').Timer(0.03, lambda: os.makedirs('.git')).start()";
    let planted = || {
        value(run(plants));
        let began = std::time::Instant::now();
        while !history.exists() {
            assert!(began.elapsed().as_secs() < 30, "nothing was made");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    planted();
    let outcome = run("1");
    assert!(!history.exists(), "{outcome:?}");
    assert!(outcome.log.iter().any(|line| line.message.contains("made .git, which takes")), "{outcome:?}");
    let outcome = run("os.makedirs('.git')");
    assert!(
        !history.exists() && outcome.log.iter().any(|line| line.message.contains("made .git")),
        "{outcome:?}"
    );
    planted();
    drop(engine);
    assert!(!history.exists());
}

#[test]
fn what_another_run_is_making_as_it_may_is_not_moved_under_it() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let until = |name: &str| format!("[0 for _ in iter(lambda: os.path.exists('{name}'), True)]");
    let first = python_invocation(&format!("open('begun', 'w').close() or {}", until("made")))
        .grant("write".parse().unwrap());
    let makes = format!("os.makedirs('.git') or open('made', 'w').close() or {}", until("go"));
    let second =
        python_invocation(&makes).grant("write".parse().unwrap()).grant("write:.git".parse().unwrap());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| engine.run(first));
        while !stage.at("project/begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let second = scope.spawn(|| engine.run(second));
        let outcome = first.join().unwrap();
        let is_there = stage.at("project/.git").exists();
        std::fs::write(stage.at("project/go"), "").unwrap();
        value(second.join().unwrap());
        assert!(is_there, "{:?}", outcome.log);
        value(outcome);
    });
    drop(engine);
    assert!(stage.at("project/.git").exists());
}

#[test]
fn what_another_run_was_permitted_to_make_stays() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let run = |code: &str| python_invocation(code).grant("write".parse().unwrap());
    for _ in 0..2 {
        value(engine.run(run("1")));
    }
    value(engine.run(run("os.makedirs('.git')").grant("write:.git".parse().unwrap())));
    let outcome = engine.run(run("1"));
    assert!(outcome.log.is_empty(), "{:?}", outcome.log);
    assert_eq!(value(outcome), json!(1));
    drop(engine);
    assert!(stage.at("project/.git").exists());
}

#[test]
fn a_worker_serves_no_run_with_other_variables() {
    let Some(stage) = WorkerFixture::new() else { return };
    let engine = stage.engine();
    let seen = |invocation: Invocation| {
        let outcome = engine.run(invocation.input(json!("[runs, os.environ.get('API_KEY', 'none')[::-1]]")));
        outcome.result.unwrap()
    };
    let with = |value: &str| Invocation::new("x").env("API_KEY", value).grant("env:API_KEY".parse().unwrap());
    assert_eq!(seen(with("first-key")), json!([1, "yek-tsrif"]));
    assert_eq!(seen(with("first-key")), json!([2, "yek-tsrif"]), "the same process");
    assert_eq!(seen(with("other-key")), json!([1, "yek-rehto"]));
    assert_eq!(seen(Invocation::new("x")), json!([1, "enon"]), "nothing is left of other runs");
    assert_eq!(
        seen(Invocation::new("x").env("API_KEY", "first-key")),
        json!([2, "enon"]),
        "it is not granted"
    );
    assert_eq!(seen(with("first-key")), json!([3, "yek-tsrif"]));
}

#[test]
fn a_worker_serves_no_run_after_a_granted_folder_was_replaced() {
    let Some(stage) = WorkerFixture::new() else { return };
    stage.write("project/out/first", "");
    stage.write("project/.git/hooks/pre-commit", "theirs");
    let engine = stage.engine();
    let run = |name: &str| {
        let code = format!("[runs, open('out/{name}', 'w').write('x')]");
        engine.run(python_invocation(&code).grant("write:out".parse().unwrap()))
    };
    assert_eq!(value(run("a")), json!([1, 1]));
    assert_eq!(value(run("b")), json!([2, 1]), "the same process");
    fs::rename(stage.at("project/out"), stage.at("project/before")).unwrap();
    stage.write("project/out/second", "");
    assert_eq!(value(run("c")), json!([1, 1]));
    assert!(stage.at("project/out/c").exists() && !stage.at("project/before/c").exists());
    fs::rename(stage.at("project/out"), stage.at("project/later")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", stage.at("project/out")).unwrap();
    assert_eq!(run("d").result.unwrap_err().kind(), ErrorKind::Denied);
    assert!(!stage.at("project/.git/hooks/d").exists() && !stage.at("project/later/d").exists());
}
