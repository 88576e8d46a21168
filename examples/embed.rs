//! A program that runs a skill: the one the README shows.

use metier::engine::{Engine, Invocation};
use metier::error::Result;
use serde_json::json;

fn main() -> Result<()> {
    let engine = Engine::builder(".").build()?;
    let outcome = engine.run(Invocation::new("word-count").input(json!({"text": "one two three"})));
    println!("{} words", outcome.result?["total"]["words"]);
    Ok(())
}
