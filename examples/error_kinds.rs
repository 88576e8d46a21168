//! A program that ships a skill and tells its users, by the kind of the error, what to do when a run fails.

use std::time::Duration;

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::{Limits, Permission};
use metier::registry::{EmbeddedSkill, Roots};
use serde_json::{Value, json};

static SKILLS: &[EmbeddedSkill] = &[EmbeddedSkill::new(
    "keep-note",
    &[
        (
            "SKILL.md",
            b"---\nname: keep-note\ndescription: Keeps a note in notes/.\nallowed-tools: read write:notes\n---\n",
        ),
        ("skill.yaml", b"inputs: {name: {type: string, required: true}, text: {type: string, required: true}}\n"),
        (
            "scripts/main.lua",
            br#"
            if input.text == "" then error("a note needs a text") end
            while input.text == "for ever" do end
            ctx.write(input.name, input.text)
            return #input.text"#,
        ),
    ],
)];

fn main() -> Result<()> {
    metier::helper_main();
    let engine = Engine::builder(".")
        .roots(Roots::empty().with_embedded("acme", SKILLS))
        .limits(Limits::default().timeout(Duration::from_millis(200)))
        .build()?;
    let note = |name: &str, text: &str| json!({"name": name, "text": text});
    let notes = Permission::write("notes")?;
    let granted = || Invocation::new("keep-note").grant(notes.clone());
    let runs = [
        Invocation::new("keep-a-note"),
        Invocation::new("keep-note").input(json!({"name": "a.txt"})),
        Invocation::new("keep-note").input(note("notes/a.txt", "hello")),
        granted().input(note("notes/a.txt", "hello")),
        granted().input(note("secret/a.txt", "hello")),
        granted().input(note("notes/a.txt", "")),
        granted().input(note("notes/a.txt", "for ever")),
    ];
    for invocation in runs {
        println!("{}", answer(engine.run(invocation).result));
    }
    Ok(())
}

fn answer(result: Result<Value, SkillError>) -> String {
    let error = match result {
        Ok(bytes) => return format!("kept {bytes} bytes"),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::UnknownSkill => "there is no such skill".into(),
        ErrorKind::InvalidInput => match error.violations() {
            [wrong, ..] => format!("please correct {wrong}"),
            [] => error.to_string(),
        },
        ErrorKind::Denied => match error.missing() {
            Some(permission) => format!("may it {permission}?"),
            None => format!("refused: {error}"),
        },
        ErrorKind::Script => format!("the skill says: {error}"),
        kind if kind.is_limit() => format!("stopped at a limit ({kind})"),
        kind => format!("{kind}: {error}"),
    }
}
