//! A tree of plans has no more threads than one run may have, however much of it could go on side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use metier::engine::Engine;
use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::{RuntimeId, Script};
use metier::host::{ConfigProvider, Event, Providers, SkillContext};
use metier::policy::{CancelToken, Limits};
use metier_core::host::RunContextBuilder;
use metier_core::policy::ThreadBudget;
use serde_json::{Map, Value, json};

use crate::plan::project::{Project, failure, x};

/// Bytes of stack that an embedder may run skills on.
const STACK: usize = 512 << 10;

/// The most threads a run has.
const MAX_THREADS: usize = ThreadBudget::DEFAULT_MAX;

/// Settings that take a while, and who asked for them at the same time.
#[derive(Clone, Default)]
struct Slow {
    present: Arc<AtomicUsize>,
    max_at_once: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl ConfigProvider for Slow {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.max_at_once.fetch_max(self.present.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(4));
        self.present.fetch_sub(1, Ordering::SeqCst);
        Ok(Map::new())
    }
}

impl Slow {
    fn engine(&self, project: &Project) -> Engine {
        project.builder().config(self.clone()).build().unwrap()
    }

    fn max_at_once(&self) -> usize {
        self.max_at_once.load(Ordering::SeqCst)
    }
}

/// A contract of so many steps, all of which may run side by side.
fn wide(count: usize, step: &str) -> String {
    let steps = (0..count).map(|at| format!("- {{id: s{at}, {step}}}\n"));
    format!("concurrency: 16\nsteps:\n{}", steps.collect::<String>())
}

/// `x` calls `y` sixteen times, `y` so `z`, and `z` does `leaf` sixteen times.
fn tree(leaf: &str) -> Project {
    Project::new().contract("x", "", &wide(16, "skill: y")).contract("y", "", &wide(16, "skill: z")).contract(
        "z",
        "",
        &wide(16, leaf),
    )
}

#[test]
fn a_tree_of_four_thousand_leaves_has_no_more_at_once_than_a_run_has_threads() {
    let slow = Slow::default();
    let project = tree("tool: config");
    let outcome = slow.engine(&project).run(x(&[]));
    assert_eq!(outcome.result.unwrap(), json!({}));
    assert_eq!(slow.calls.load(Ordering::SeqCst), 4096);
    assert!((2..=MAX_THREADS).contains(&slow.max_at_once()), "{} at once", slow.max_at_once());
}

#[cfg(all(feature = "cli", target_os = "linux"))]
#[test]
fn a_tree_that_waits_and_asks_for_nothing_takes_no_more_threads_of_its_host() {
    let project = tree("tool: read_file, args: {path: missing}, on_failure: 'retry(9, 1s)'");
    let mut host = std::process::Command::new(env!("CARGO_BIN_EXE_metier"))
        .args(["run", "x", "--timeout", "3s"])
        .current_dir(project.path(""))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let threads = format!("/proc/{}/task", host.id());
    let mut most = 0;
    // Until shortly before its deadline, while all of them wait.
    for _ in 0..400 {
        most = most.max(std::fs::read_dir(&threads).map_or(0, Iterator::count));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!host.wait().unwrap().success(), "it met its deadline");
    // Beside those of the run there are the main one, which waits for it, the clock of deadlines, what hears signals, and what
    // ends the command when nothing else does.
    assert!((2..=MAX_THREADS + 4).contains(&most), "{most} threads");
}

#[test]
fn a_plan_comes_to_the_same_with_any_number_of_threads() {
    let steps = "
concurrency: 16
steps:
- {id: a, skill: y, args: {n: 1}}
- {id: b, skill: y, args: {n: 2}}
- {id: lost, tool: read_file, args: {path: missing}, on_failure: continue}
- {id: each, skill: y, for_each: {in: [3, 4, 5]}, args: {n: $item}}
- {id: w, tool: append, args: {path: out, content: x}}
- {id: c, skill: y, args: {n: $steps.a.outputs}}
- {id: d, tool: read_file, args: {path: out}}
- {id: no, tool: config, when: $steps.lost.outputs}
outputs_from: [$steps.a.outputs, $steps.b.outputs, $steps.each.outputs, $steps.c.outputs, $steps.d.outputs, $steps.lost.outputs]
";
    let inner = "
concurrency: 3
steps:
- {id: a, skill: z, args: {n: $inputs.n}}
- {id: b, skill: z, args: {n: 10}}
- {id: c, skill: z, args: {n: 20}}
outputs_from: {a: $steps.a.outputs, b: $steps.b.outputs, c: $steps.c.outputs}
";
    let ran = |threads: usize| {
        let project = Project::new().contract("x", "write", steps).contract("y", "", inner).lua(
            "z",
            "",
            "return input.n",
        );
        let outcome = project.builder().max_threads(threads).build().unwrap().run(x(&["write"]));
        let statuses: Vec<_> = outcome.steps.iter().map(|step| (step.status, step.attempts)).collect();
        (outcome.result.unwrap(), statuses)
    };
    let expected = ran(64);
    assert_eq!(expected.0[1], json!({"a": 2, "b": 10, "c": 20}));
    for threads in [0, 1, 2, 3, 5, 8] {
        assert_eq!(ran(threads), expected, "{threads} threads");
    }
}

#[test]
fn where_no_thread_is_left_steps_run_on_the_one_there_is() {
    let slow = Slow::default();
    let project = Project::new()
        .contract("x", "", &wide(6, "skill: y"))
        .contract("y", "", &wide(3, "skill: z"))
        .lua("z", "", "return ctx.config('k')");
    for (threads, most) in [(0, 1), (1, 1), (2, 2), (5, 5)] {
        slow.max_at_once.store(0, Ordering::SeqCst);
        let engine = project.builder().config(slow.clone()).max_threads(threads).build().unwrap();
        engine.run(x(&[])).result.unwrap();
        assert!((1..=most).contains(&slow.max_at_once()), "{} at once with {threads}", slow.max_at_once());
    }
}

#[test]
fn the_items_of_a_loop_take_no_thread_each() {
    let slow = Slow::default();
    let project = Project::new().contract("x", "", &wide(2, "skill: y, for_each: [1, 2, 3, 4, 5]")).sequence(
        "y",
        "",
        &json!([{"tool": "config", "for_each": [1, 2, 3]}]),
    );
    slow.engine(&project).run(x(&[])).result.unwrap();
    assert_eq!(slow.calls.load(Ordering::SeqCst), 30);
    assert!(slow.max_at_once() <= 2, "{} at once", slow.max_at_once());
}

/// Settings that are only handed out once so many ask for them at the same time; never, if that takes too long.
struct Meeting(usize, Mutex<usize>, Condvar);

impl Meeting {
    fn new(count: usize) -> Self {
        Self(count, Mutex::new(0), Condvar::new())
    }
}

impl ConfigProvider for Meeting {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        let mut present = self.1.lock().unwrap();
        *present += 1;
        self.2.notify_all();
        let is_short = |present: &mut usize| *present < self.0;
        let waited = self.2.wait_timeout_while(present, Duration::from_secs(20), is_short).unwrap();
        if waited.1.timed_out() {
            return Err(SkillError::new(ErrorKind::Unavailable, "they did not meet"));
        }
        Ok(Map::new())
    }
}

#[test]
fn every_run_has_threads_of_its_own() {
    let project = Project::new().contract("x", "", &wide(2, "tool: config"));
    let engine = project.builder().config(Meeting::new(6)).max_threads(2).build().unwrap();
    std::thread::scope(|scope| {
        let run = || engine.run(x(&[])).result;
        for run in [scope.spawn(run), scope.spawn(run), scope.spawn(run)] {
            run.join().unwrap().unwrap();
        }
    });
}

#[test]
fn the_threads_of_scripts_that_call_skills_count() {
    let slow = Slow::default();
    let calls = |next: &str| format!("return ctx.skill('{next}')");
    let project = Project::new()
        .lua("x", "skill:a skill:b skill:y", &calls("a"))
        .lua("a", "skill:b skill:y", &calls("b"))
        .lua("b", "skill:y", &calls("y"))
        .contract("y", "", &wide(8, "tool: config"));
    for (threads, most) in [(1, 1), (4, 1), (6, 3)] {
        slow.max_at_once.store(0, Ordering::SeqCst);
        let engine = project.builder().config(slow.clone()).max_threads(threads).build().unwrap();
        engine.run(x(&["skill:a", "skill:b", "skill:y"])).result.unwrap();
        assert!((1..=most).contains(&slow.max_at_once()), "{} at once with {threads}", slow.max_at_once());
    }
}

/// The threads that are left when a run of this plan is over, of eight beside its own, and what came of it.
fn threads_left_after(
    plan: &str,
    config: impl ConfigProvider + 'static,
    token: CancelToken,
) -> (usize, Result<Value>) {
    let script = Script::new("x", "skill.yaml", plan.as_bytes());
    let providers = Providers::default().config(config);
    let threads = ThreadBudget::new(9);
    let context =
        SkillContext::builder("x").thread_budget(threads.clone()).providers(providers).cancel(token).build();
    let executor = metier::ScriptLoader::new().load(RuntimeId::TOOL_SEQUENCE, &script).unwrap();
    let result = executor.execute_with_context(json!({}).into(), Some(&context));
    let left: Vec<_> = std::iter::from_fn(|| threads.try_acquire()).collect();
    (left.len(), result.map(|output| output.value))
}

/// What each call does of three that meet.
struct Ends(Meeting, fn());

impl ConfigProvider for Ends {
    fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>> {
        let met = self.0.config(ctx);
        (self.1)();
        met
    }
}

#[test]
fn threads_are_given_back_however_a_run_ends() {
    let three = wide(3, "tool: config");
    let fails = || Ends(Meeting::new(3), || panic!("on purpose"));
    let (left, result) = threads_left_after(&three, Meeting::new(3), CancelToken::new());
    assert_eq!((left, result.unwrap()), (8, json!({})), "it ended well");
    let (left, result) = threads_left_after(&three, fails(), CancelToken::new());
    assert!(result.unwrap_err().to_string().contains("panicked: on purpose"));
    assert_eq!(left, 8, "a step panicked");
    let token = CancelToken::new();
    let own = token.clone();
    let waits = wide(12, "tool: read_file, args: {path: missing}, on_failure: 'retry(9, 1m)'");
    let cancels = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        own.cancel();
    });
    let (left, result) = threads_left_after(&waits, Meeting::new(1), token);
    assert_eq!((left, result.unwrap_err().kind()), (8, ErrorKind::Cancelled), "it was cancelled");
    cancels.join().unwrap();
    let lost = wide(12, "tool: read_file, args: {path: missing}");
    let (left, result) = threads_left_after(&lost, Meeting::new(1), CancelToken::new());
    assert_eq!(left, 8, "{result:?}");
    assert!(result.is_err());
}

#[test]
fn an_observer_that_panics_in_any_event_ends_no_run_and_keeps_nobody_waiting() {
    for max in 0..20 {
        let project = Project::new().contract("x", "", &wide(6, "tool: config"));
        let (count, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counter, caller) = (count.clone(), calls.clone());
        let observer = move |_: &Event| {
            caller.fetch_add(1, Ordering::SeqCst);
            assert!(counter.fetch_add(1, Ordering::SeqCst) < max, "observed enough");
        };
        let outcome = project.engine().run(x(&[]).observer(Arc::new(observer)));
        assert!(outcome.result.is_ok(), "{outcome:?}");
        // Threads that were in the observer when it panicked may have panicked as well.
        assert!((max + 1..=max + 6).contains(&calls.load(Ordering::SeqCst)), "{max}: {calls:?}");
    }
}

#[test]
fn plans_within_plans_leave_the_last_script_a_stack_to_run_on() {
    let plan = |next: &str| {
        format!(
            "steps:\n- {{id: a, skill: {next}, args: {{v: $inputs.v}}}}\n- {{id: b, tool: log, args: {{level: debug, message: x}}, after: a}}\noutputs_from: $steps.a.outputs\n"
        )
    };
    let mut project = Project::new().contract("x", "", &plan("p1"));
    for level in 1..8 {
        let next = if level == 7 { "leaf".to_owned() } else { format!("p{}", level + 1) };
        project = project.contract(&format!("p{level}"), "", &plan(&next));
    }
    let deep = (0..100).fold(json!("x"), |inside, _| json!([inside]));
    let on_a_thread = |project: &Project| {
        let engine = project.engine();
        let run = || engine.run(x(&[]).input(json!({"v": deep})));
        let thread = std::thread::Builder::new().stack_size(STACK);
        std::thread::scope(|scope| thread.spawn_scoped(scope, run).unwrap().join().unwrap())
    };
    let project = project.lua("leaf", "", "return input.v");
    assert_eq!(on_a_thread(&project).result.unwrap(), deep);
    let project = project.lua(
        "leaf",
        "",
        "local function sorts() table.sort({2, 1}, sorts) return true end pcall(sorts) \
         local function calls() return 1 + calls() end return calls()",
    );
    let (kind, sentence) = failure(&on_a_thread(&project));
    assert_eq!(kind, ErrorKind::Script);
    assert!(sentence.contains("overflow"), "{sentence}");
    #[cfg(feature = "wasm-runtime")]
    {
        std::fs::remove_file(project.path(".metier/skills/leaf/scripts/main.lua")).unwrap();
        let calls = r#"(module (func $f (export "run") (result i32) (i32.add (call $f) (i32.const 1))))"#;
        let project = project.file(".metier/skills/leaf/scripts/main.wat", calls);
        let (kind, sentence) = failure(&on_a_thread(&project));
        assert_eq!(kind, ErrorKind::Script);
        assert!(sentence.contains("nested too deep"), "{sentence}");
    }
}

#[test]
fn what_plans_within_plans_keep_is_bounded_by_the_memory_of_the_run() {
    let keeps = |next: &str| {
        let reads = (0..3).map(|at| format!("- {{id: r{at}, tool: read_file, args: {{path: big}}}}\n"));
        let no = "- {id: no, tool: tree, when: false}\n";
        format!("steps:\n{}{next}{no}outputs_from: {{one: $steps.no.outputs}}\n", reads.collect::<String>())
    };
    let project = Project::new()
        .file("big", "x".repeat(1 << 20))
        .contract(
            "x",
            "",
            &keeps("- {id: a, skill: y}\n- {id: b, skill: y, after: a}\n- {id: c, skill: y, after: b}\n"),
        )
        .contract("y", "", &keeps("- {skill: z}\n"))
        .contract("z", "", &keeps(""));
    let ran = |memory: u64| project.engine().run(x(&[]).limits(Limits::default().memory(memory << 20)));
    assert_eq!(ran(14).result.unwrap(), json!({"one": null}), "what is not needed any more is given back");
    let (kind, sentence) = failure(&ran(8));
    assert_eq!(kind, ErrorKind::Memory);
    assert!(
        sentence.contains("the values of all plans under way need more than the 8388608 bytes"),
        "{sentence}"
    );
}

#[test]
fn what_plans_hand_down_to_one_another_counts_too() {
    let hands_on = |next: &str| format!("steps:\n- {{skill: {next}, args: {{v: $inputs.v}}}}\n");
    let project = Project::new()
        .contract("x", "", &hands_on("a"))
        .contract("a", "", &hands_on("b"))
        .contract("b", "", &hands_on("c"))
        .contract("c", "", &hands_on("y"))
        .lua("y", "", "return #input.v");
    let ran = |memory: u64| {
        let limits = Limits::default().memory(memory << 20);
        project.engine().run(x(&[]).input(json!({"v": "x".repeat(1 << 20)})).limits(limits)).result
    };
    assert_eq!(ran(10).unwrap(), json!(1 << 20));
    let error = ran(7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().contains("the values of all plans under way"), "{error}");
}

#[test]
fn a_tree_too_large_to_end_meets_its_deadline() {
    let mut project = Project::new().contract("x", "", &wide(16, "skill: p1"));
    for level in 1..8 {
        project = project.contract(&format!("p{level}"), "", &wide(16, &format!("skill: p{}", level + 1)));
    }
    let project = project.contract("p8", "", &wide(16, "tool: tree"));
    let started = std::time::Instant::now();
    let limits = Limits::default().timeout(Duration::from_millis(500));
    let outcome = project.engine().run(x(&[]).limits(limits));
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
