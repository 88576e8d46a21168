//! What a step of a plan costs, and what running steps side by side gains.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::error::Result;
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::{ConfigProvider, SkillContext};
use metier::policy::CancelToken;
use metier::registry::{Root, Roots, Scope};
use metier_core::policy::Watchdog;
use serde_json::{Map, Value, json};

/// Steps of the plan whose cost is shared among them.
const STEPS: usize = 1000;

/// A thousand calls of a host function by a plan, against the same calls made by Rust.
pub fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sequence");
    let watchdog = Watchdog::new();
    let context = || {
        let token = CancelToken::new();
        let armed = watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
        (SkillContext::builder("bench").cancel(token).build(), armed)
    };
    group.bench_function("calls", |b| {
        b.iter(|| {
            let (context, _armed) = context();
            for at in 0..STEPS {
                let arguments = vec!["debug".into(), Value::from(format!("step {at}"))];
                black_box(context.call("log", arguments).expect("logs"));
            }
        });
    });
    let executor = load();
    group.bench_function("metier", |b| {
        b.iter(|| {
            let (context, _armed) = context();
            let input = SkillInput::from(black_box(json!({"word": "step"})));
            executor.execute_with_context(input, Some(&context)).expect("runs")
        });
    });
    group.finish();
}

fn load() -> Box<dyn SkillExecutor> {
    let step = |at: usize| json!({"tool": "log", "args": {"level": "debug", "message": format!("${{inputs.word}} {at}")}});
    let script = Script::new(
        "bench",
        "scripts/sequence.json",
        Value::from((0..STEPS).map(step).collect::<Vec<_>>()).to_string().into_bytes(),
    );
    metier::ScriptLoader::new().load(RuntimeId::TOOL_SEQUENCE, &script).expect("the plan loads")
}

/// Two steps that take 100 ms each and do not need one another, against sleeping so long once.
pub fn parallel_steps(criterion: &mut Criterion) {
    const TIME: Duration = Duration::from_millis(100);
    struct Slow;
    impl ConfigProvider for Slow {
        fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
            std::thread::sleep(TIME);
            Ok(Map::new())
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let skill = folder.path().join("skills/x");
    std::fs::create_dir_all(&skill).expect("a skill");
    std::fs::write(skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("is written");
    let plan = "steps:\n- {id: a, tool: config}\n- {id: b, tool: config}\n";
    std::fs::write(skill.join("skill.yaml"), plan).expect("is written");
    let roots = Roots::empty().with(Root::new(Scope::Project, "bench", folder.path().join("skills")));
    let engine = Engine::builder(folder.path()).roots(roots).config(Slow).build().expect("an engine");
    let mut group = criterion.benchmark_group("side_by_side");
    group.sample_size(20);
    group.bench_function("sleep", |b| b.iter(|| std::thread::sleep(TIME)));
    group.bench_function("metier", |b| b.iter(|| engine.run(Invocation::new("x")).result.expect("runs")));
    group.finish();
}
