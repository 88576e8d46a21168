//! A plan that is interrupted and resumed: its steps are shown live, and what has finished is not done again.

use std::fs;
use std::sync::Arc;

use metier::engine::{Engine, Invocation};
use metier::error::{Result, SkillError};
use metier::host::{Event, EventKind, StepStatus};
use metier::policy::{CancelToken, Permission};
use metier::registry::{EmbeddedSkill, Roots};

static SKILLS: &[EmbeddedSkill] = &[EmbeddedSkill::new(
    "report",
    &[
        (
            "SKILL.md",
            b"---\nname: report\ndescription: Writes a report in three steps.\nallowed-tools: read write\n---\n",
        ),
        (
            "scripts/sequence.json",
            br#"[
            {"id": "title", "tool": "append", "args": {"path": "report.md", "content": "Title\n"}},
            {"id": "body", "tool": "append", "args": {"path": "report.md", "content": "Body\n"}},
            {"id": "end", "tool": "append", "args": {"path": "report.md", "content": "End\n"}}
            ]"#,
        ),
    ],
)];

fn main() -> Result<()> {
    metier::helper_main();
    let engine = Engine::builder(".").roots(Roots::empty().with_embedded("acme", SKILLS)).build()?;
    let journal = std::env::temp_dir().join(format!("metier-resume-{}", std::process::id()));
    let report = || Invocation::new("report").grant(Permission::WRITE).journal(&journal);

    // The person stops the run when its first step is done.
    let stop = CancelToken::new();
    let stopping = stop.clone();
    let first = engine.run(report().cancel(stop).observer(Arc::new(move |event: &Event| {
        if show(event) == Some("title") {
            stopping.cancel();
        }
    })));
    println!("the first run: {}", first.result.map_or_else(|error| error.to_string(), |_| "complete".into()));

    let second = engine.run(report().observer(Arc::new(|event: &Event| {
        show(event);
    })));
    second.result?;
    let failed = |error| SkillError::io("failed to read the report", error);
    print!("{}", fs::read_to_string("report.md").map_err(failed)?);
    fs::remove_dir_all(journal).map_err(|error| SkillError::io("failed to remove the journal", error))
}

/// Prints a step that has ended, and returns its id.
fn show(event: &Event) -> Option<&str> {
    let EventKind::StepFinished { step, status, .. } = &event.kind else { return None };
    let how = if *status == StepStatus::Resumed { "was done before" } else { "is done" };
    println!("{} of {}, {}, {how}", step.index + 1, step.count, step.id);
    Some(&step.id)
}
