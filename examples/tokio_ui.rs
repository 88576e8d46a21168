//! An editor on one thread: a current-thread tokio runtime, asynchronous tools, a model, a person who is asked, progress, and a
//! run that ends because nobody waits for it any longer.

use std::sync::Arc;
use std::time::Duration;

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{
    ApprovalNeed, ApprovalRequest, Async, AsyncApprover, AsyncSamplingProvider, AsyncToolProvider, Event,
    EventKind, SampleRequest, SampleResponse, SkillContext, Tool,
};
use metier::policy::{Approval, Permission};
use metier::registry::{EmbeddedSkill, Roots};
use serde_json::{Value, json};
use tokio::runtime::Handle;

const MANIFEST: &[u8] = include_bytes!("skills/explain/SKILL.md");
const SCRIPT: &[u8] = include_bytes!("skills/explain/scripts/main.lua");
static SKILLS: &[EmbeddedSkill] =
    &[EmbeddedSkill::new("explain", &[("SKILL.md", MANIFEST), ("scripts/main.lua", SCRIPT)])];

/// The parts of the editor that skills reach. Each answer is made on the editor's own runtime.
#[derive(Clone)]
struct Editor(Handle);

impl Editor {
    async fn answer<T: Send + 'static>(&self, answer: T) -> Result<T> {
        let task = self.0.spawn(async { (tokio::time::sleep(Duration::from_millis(5)).await, answer).1 });
        task.await.map_err(|error| SkillError::new(ErrorKind::Unavailable, error.to_string()))
    }
}

impl AsyncToolProvider for Editor {
    fn tools(&self) -> Vec<Tool> {
        vec![Tool::new("selection", "The selected text", json!({}))]
    }
    async fn call(&self, _: &SkillContext, _: &str, _: &Value) -> Result<Value> {
        self.answer(json!("borrowing")).await
    }
}

impl AsyncSamplingProvider for Editor {
    async fn sample(&self, _: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        self.answer(SampleResponse::new(format!("{} in a sentence", request.prompt()))).await
    }
}

impl AsyncApprover for Editor {
    async fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        let ApprovalNeed::Permission { permission, .. } = &request.need else { return Ok(Approval::No) };
        println!("may {} {permission}? yes", request.skill);
        self.answer(Approval::Session).await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let editor = Async(Editor(Handle::current()));
    let builder = Engine::builder(".").roots(Roots::empty().with_embedded("acme", SKILLS));
    let builder = builder.tools(editor.clone()).sampling(editor.clone());
    let engine = builder.approver(editor).build()?;
    let explain = || Invocation::new("explain").grant(Permission::SAMPLE);
    let show = |event: &Event| {
        if let EventKind::Progress(progress) = &event.kind {
            println!("progress: {}", progress.message);
        }
    };
    println!("answer: {}", engine.run_async(explain().observer(Arc::new(show))).await.result?);
    // Nobody waits for this one any longer: dropping the future stops the run.
    let unwanted = explain().grant(Permission::tool("selection")?);
    let abandoned = tokio::time::timeout(Duration::from_millis(1), engine.run_async(unwanted)).await;
    println!("abandoned: {}", abandoned.is_err());
    Ok(())
}
