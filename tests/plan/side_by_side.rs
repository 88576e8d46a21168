//! Which steps run at the same time, seen by what each of them can only do while another one runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use metier::engine::EngineBuilder;
use metier::error::Result;
use metier::host::{ApprovalRequest, Approver, ClosureTools, ConfigProvider, Event, EventKind, SkillContext};
use metier::policy::{Approval, SandboxMode};
use serde_json::{Map, Value, json};

use crate::plan::project::{Project, x};

/// Settings that are only handed out once as many ask for them at the same time, or after a while.
struct Meeting {
    wanted: usize,
    present: Mutex<usize>,
    changed: Condvar,
    met: Arc<AtomicUsize>,
}

impl ConfigProvider for Meeting {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.met.fetch_max(*present, Ordering::SeqCst);
        self.changed.notify_all();
        let patience = Duration::from_millis(if self.wanted > 1 { 20_000 } else { 0 });
        let missing = |present: &mut usize| *present < self.wanted;
        let (mut present, _) = self.changed.wait_timeout_while(present, patience, missing).unwrap();
        if self.wanted <= 1 {
            drop(present);
            std::thread::sleep(Duration::from_millis(20));
            present = self.present.lock().unwrap();
            *present -= 1;
        }
        Ok(Map::new())
    }
}

/// The most steps that asked for settings at the same time; all `wanted` must, or it takes long.
fn max_at_once(builder: EngineBuilder, wanted: usize, grants: &[&str]) -> usize {
    let met = Arc::new(AtomicUsize::new(0));
    let meeting = Meeting { wanted, present: Mutex::new(0), changed: Condvar::new(), met: met.clone() };
    let outcome = builder.config(meeting).build().unwrap().run(x(grants));
    outcome.result.unwrap();
    met.load(Ordering::SeqCst)
}

const THREE: &str = "steps:\n- {id: a, tool: config}\n- {id: b, tool: config}\n- {id: c, tool: config}\n";

#[test]
fn steps_that_only_read_run_side_by_side_as_many_as_the_plan_says() {
    assert_eq!(max_at_once(Project::new().contract("x", "", THREE).builder(), 3, &[]), 3);
    let two = format!("concurrency: 2\n{THREE}- {{id: d, tool: config}}\n");
    assert_eq!(max_at_once(Project::new().contract("x", "", &two).builder(), 1, &[]), 2);
    let one = format!("concurrency: 1\n{THREE}");
    assert_eq!(max_at_once(Project::new().contract("x", "", &one).builder(), 1, &[]), 1);
}

#[test]
fn a_sequence_is_strictly_ordered() {
    let project = Project::new().sequence("x", "", &json!([{"tool": "config"}, {"tool": "config"}]));
    assert_eq!(max_at_once(project.builder(), 1, &[]), 1);
}

#[test]
fn what_a_reference_or_after_links_waits() {
    for link in ["after: a", "when: not $steps.a.outputs.x", "for_each: ['$steps.a.outputs']"] {
        let yaml = format!("steps:\n- {{id: a, tool: config}}\n- {{id: b, tool: config, {link}}}\n");
        assert_eq!(max_at_once(Project::new().contract("x", "", &yaml).builder(), 1, &[]), 1, "{link}");
    }
}

const SKILLS: &str = "steps:\n- {id: a, skill: y}\n- {id: b, skill: y}\n";

#[test]
fn skills_run_side_by_side_where_the_grants_of_this_run_let_them_do_no_more_than_read() {
    let asks = "write net tool:echo secret:s sample skill:z exec:unsandboxed";
    let project = || Project::new().lua("y", asks, "return ctx.config('k')").contract("x", asks, SKILLS);
    assert_eq!(max_at_once(project().builder(), 2, &[]), 2, "nothing is granted");
    assert_eq!(max_at_once(project().builder(), 2, &["read", "exec"]), 2);
    for grant in [
        "write:out",
        "net",
        "net:example.com",
        "tool:echo",
        "secret:s",
        "sample",
        "skill:z",
        "exec:unsandboxed",
    ] {
        assert_eq!(max_at_once(project().builder(), 1, &[grant]), 1, "{grant}");
    }
    let narrow = Project::new().lua("y", "", "return ctx.config('k')").contract("x", asks, SKILLS);
    assert_eq!(max_at_once(narrow.builder(), 2, &["write", "net"]), 2, "the callee asks for nothing");
    assert_eq!(max_at_once(narrow.builder(), 1, &["exec:unsandboxed"]), 1, "nobody needs to ask for it");
}

#[test]
fn skills_that_an_approver_could_let_do_more_run_one_after_the_other() {
    struct No;
    impl Approver for No {
        fn approve(&self, _: &SkillContext, _: &ApprovalRequest) -> Result<Approval> {
            Ok(Approval::No)
        }
    }
    for (asks, wanted) in [("write:out", 1), ("read exec", 2), ("", 2)] {
        let project = Project::new().lua("y", asks, "return ctx.config('k')").contract("x", "write", SKILLS);
        assert_eq!(max_at_once(project.builder().approver(No), wanted, &[]), wanted, "{asks}");
    }
}

#[test]
fn a_process_that_may_start_without_a_sandbox_runs_alone() {
    let project = Project::new().shell("y", "exec", "sleep 0.05").contract("x", "", SKILLS);
    let engine = project.builder().sandbox_mode(SandboxMode::BestEffort).build().unwrap();
    let outcome = engine.run(x(&[]));
    // Whether a sandbox can be had or not, nobody ran beside anybody: the steps took one after the other.
    let apart: u128 = outcome.steps.iter().map(|step| step.duration.as_millis()).sum();
    assert!(outcome.duration.as_millis() >= apart, "{:?}", outcome.steps);
}

#[test]
fn a_step_that_does_more_stands_where_it_is_written() {
    let yaml = "
steps:
- {id: a, tool: read_file, args: {path: f}}
- {id: w, tool: write, args: {path: f, content: new}}
- {id: b, tool: read_file, args: {path: f}}
outputs_from: ['$steps.a.outputs', '$steps.b.outputs']
";
    for _ in 0..20 {
        let project = Project::new().file("f", "old").contract("x", "write", yaml);
        assert_eq!(project.run(&["write"]).result.unwrap(), json!(["old", "new"]));
    }
}

#[test]
fn tools_never_run_beside_anything() {
    let busy = Arc::new(AtomicUsize::new(0));
    let worst = Arc::new(AtomicUsize::new(0));
    let (counter, most) = (busy, worst.clone());
    let tools = ClosureTools::new().tool("t", "d", json!({}), move |_, _| {
        most.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        counter.fetch_sub(1, Ordering::SeqCst);
        Ok(Value::Null)
    });
    let steps: Vec<String> = (0..6).map(|at| format!("- {{id: t{at}, tool: t}}\n")).collect();
    let project = Project::new().contract("x", "", &format!("steps:\n{}", steps.concat()));
    project.builder().tools(tools).build().unwrap().run(x(&["tool:t"])).result.unwrap();
    assert_eq!(worst.load(Ordering::SeqCst), 1);
}

#[test]
fn progress_is_reported_by_the_step_it_comes_from() {
    let (heard, steps) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(HashMap::new()));
    let sink = heard.clone();
    let observer = move |event: &Event| match &event.kind {
        EventKind::Started { step, .. } => {
            let mut steps: MutexGuard<'_, HashMap<_, Option<usize>>> = steps.lock().unwrap();
            let of_caller = event.caller.and_then(|run| steps.get(&run).copied().flatten());
            steps.insert(event.run, of_caller.or(*step));
        }
        EventKind::Progress(progress) => {
            sink.lock().unwrap().push((steps.lock().unwrap()[&event.run], progress.message.clone()));
        }
        _ => {}
    };
    let says = "ctx.progress('on', 1, 2) return 1";
    let project = Project::new()
        .contract("x", "", "steps:\n- {tool: progress, args: {message: own}}\n- {skill: y}\n- {skill: z}\n")
        .lua("y", "", says)
        .sequence("z", "", &json!([{"skill": "y"}]));
    project.engine().run(x(&[]).observer(Arc::new(observer))).result.unwrap();
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    heard.sort();
    let expected = [(None, "own"), (Some(1), "y: on"), (Some(2), "z: y: on")];
    assert_eq!(heard, expected.map(|(step, message)| (step, message.to_owned())));
}
