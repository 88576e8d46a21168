//! What every command shares: where to write, in which form, for which project and product.

use std::io::Write;
use std::path::PathBuf;

use metier::error::{Result, SkillError};
use serde::Serialize;

use super::Global;

/// One call of the command line.
pub struct Session {
    global: Global,
}

impl Session {
    pub(super) fn new(global: Global) -> Self {
        Self { global }
    }

    /// Whether answers are JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// The product's name: `metier` unless `--product` says otherwise.
    pub fn product(&self) -> &str {
        &self.global.product
    }

    /// The folder the command is about: `--project`, or the current one.
    pub fn start(&self) -> PathBuf {
        self.global.project.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    /// Writes data to standard output. A closed pipe ends the command quietly.
    pub fn say(&self, text: &str) -> Result<()> {
        written(writeln!(anstream::stdout(), "{text}"))
    }

    /// Writes a JSON answer to standard output.
    pub fn say_json(&self, answer: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(answer)
            .map_err(|error| SkillError::io("failed to write the answer", error.into()))?;
        self.say(&text)
    }

    /// Writes talk to standard error: what a person wants to know and a program does not.
    pub fn talk(&self, text: &str) {
        // When standard error is gone there is nobody left to tell.
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// Tells a person what went wrong and the way out.
    pub fn complain(&self, error: &SkillError) {
        let red = anstyle::AnsiColor::Red.on_default().bold();
        self.talk(&format!("{red}error{red:#}: {error}"));
        if let Some(help) = error.help() {
            self.talk(&format!("  help: {help}"));
        }
    }
}

fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(SkillError::io("failed to write to standard output", error)),
        Ok(()) => Ok(()),
    }
}
