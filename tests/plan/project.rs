//! A project with plans, and what it takes to run them.

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::ClosureTools;
use metier::policy::Permission;
use metier::registry::{Root, Roots, Scope};
use serde_json::{Value, json};

/// The suite of plans.
pub struct PlanSuite;

pub type Project = crate::support::project::Project<PlanSuite>;

impl Project {
    fn skill(self, name: &str, asks: &str) -> Self {
        let asks = if asks.is_empty() { String::new() } else { format!("allowed-tools: {asks}\n") };
        self.file(
            &format!(".metier/skills/{name}/SKILL.md"),
            format!("---\nname: {name}\ndescription: d\n{asks}---\n"),
        )
    }

    /// A skill that asks for these permissions and runs this sequence.
    pub fn sequence(self, name: &str, asks: &str, steps: &Value) -> Self {
        self.skill(name, asks)
            .file(&format!(".metier/skills/{name}/scripts/sequence.json"), steps.to_string())
    }

    /// A skill that asks for these permissions and has this contract.
    pub fn contract(self, name: &str, asks: &str, yaml: &str) -> Self {
        self.skill(name, asks).file(&format!(".metier/skills/{name}/skill.yaml"), yaml)
    }

    /// A skill that asks for these permissions and runs this Lua.
    pub fn lua(self, name: &str, asks: &str, script: &str) -> Self {
        self.skill(name, asks).file(&format!(".metier/skills/{name}/scripts/main.lua"), script)
    }

    /// A skill that asks for these permissions and runs this shell script.
    pub fn shell(self, name: &str, asks: &str, script: &str) -> Self {
        self.skill(name, asks).file(&format!(".metier/skills/{name}/scripts/main.sh"), script)
    }

    pub fn builder(&self) -> EngineBuilder {
        let roots = Roots::empty().with(Root::new(Scope::Project, ".metier", self.path(".metier/skills")));
        Engine::builder(self.root()).roots(roots).tools(tools()).compile_in_process(true)
    }

    pub fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    /// Runs `x` with these grants.
    pub fn run(&self, grants: &[&str]) -> Outcome {
        self.run_with(grants, json!({}))
    }

    pub fn run_with(&self, grants: &[&str], input: Value) -> Outcome {
        self.engine().run(x(grants).input(input))
    }

    /// The value of `x`, run without grants.
    #[track_caller]
    pub fn value(&self, input: Value) -> Value {
        self.run_with(&[], input).result.unwrap()
    }
}

/// An invocation of `x` with these grants.
pub fn x(grants: &[&str]) -> Invocation {
    grants.iter().fold(Invocation::new("x"), |invocation, grant| {
        invocation.grant(grant.parse::<Permission>().unwrap())
    })
}

#[track_caller]
pub fn error(outcome: &Outcome) -> &SkillError {
    match &outcome.result {
        Ok(value) => panic!("it answered {value}"),
        Err(error) => error,
    }
}

/// Kind and sentence of a run that failed.
#[track_caller]
pub fn failure(outcome: &Outcome) -> (ErrorKind, String) {
    (error(outcome).kind(), error(outcome).to_string())
}

/// `echo` answers with its arguments, `fail` fails, `counted` fails until it was called as often as its argument says.
fn tools() -> ClosureTools {
    let calls = std::sync::atomic::AtomicU64::new(0);
    let any = json!({});
    ClosureTools::new()
        .tool("echo", "d", any.clone(), |_, args| Ok(args.clone()))
        .tool("fail", "d", any.clone(), |_, _| Err(SkillError::new(ErrorKind::Tool, "on purpose")))
        .tool("counted", "d", any, move |_, args| answer_late(&calls, args))
}

fn answer_late(calls: &std::sync::atomic::AtomicU64, args: &Value) -> Result<Value> {
    let call = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
    if call < args["after"].as_u64().unwrap_or(0) {
        return Err(SkillError::new(ErrorKind::Tool, format!("call {call} fails")));
    }
    Ok(json!(call))
}

/// Waits until it is true.
pub fn within_ten_seconds(mut is_so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "it did not come true");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
