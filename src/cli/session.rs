//! What every command shares: where to write, in which form, for which project and product.

use std::io::Write;
use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use metier::engine::Engine;
use metier::error::{Result, SkillError};
use metier::registry::{Registry, Roots, project_root};
use metier::skill::Severity;
use serde::Serialize;

use super::Global;
use super::terminal::visible;

/// One call of the command line.
#[derive(Clone)]
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

    /// The project: `--project`, or the nearest folder above with a product folder or a repository.
    pub fn project(&self) -> PathBuf {
        match &self.global.project {
            Some(folder) => folder.clone(),
            None => project_root(&PathBuf::from("."), self.product()),
        }
    }

    /// The folder that `--project` named.
    pub fn named_project(&self) -> Option<&Path> {
        self.global.project.as_deref()
    }

    /// An engine for the project, with the skills it finds.
    pub fn engine(&self) -> Result<Engine> {
        let project = self.project();
        let standard = Roots::standard(self.product(), &project);
        let roots = if self.global.compat { standard.with_compat() } else { standard };
        Engine::builder(project).roots(roots).build()
    }

    /// Writes data to standard output. A closed pipe ends the command quietly.
    pub fn say(&self, text: &str) -> Result<()> {
        written(writeln!(anstream::stdout(), "{text}"))
    }

    /// Writes a JSON answer to standard output.
    pub fn say_json(&self, answer: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(answer)
            .map_err(|error| SkillError::io("failed to write the answer", error.into()))?;
        self.say(&without_controls(&text))
    }

    /// Writes talk to standard error: what a person wants to know and a program does not.
    pub fn talk(&self, text: &str) {
        // When standard error is gone there is nobody left to tell.
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// Tells a person what went wrong, where, and the way out.
    pub fn complain(&self, error: &SkillError) {
        self.tell("error", AnsiColor::Red, error);
        if let Some(place) = error.location() {
            let line = place.line.map_or(String::new(), |line| format!(":{line}"));
            self.talk(&format!("  --> {}{line}", visible(&place.file)));
        }
        for frame in error.traceback() {
            self.talk(&format!("    at {}", visible(frame)));
        }
        if let Some(help) = error.help() {
            self.talk(&format!("  help: {}", visible(help)));
        }
    }

    /// Tells a person what is off, and what comes of it.
    pub fn warn(&self, error: &SkillError, consequence: &str) {
        self.tell("warning", AnsiColor::Yellow, error);
        let help = error.help().map_or(String::new(), |help| format!("; {help}"));
        self.talk(&format!("  {consequence}{help}"));
    }

    /// Tells which skills did not load and why.
    pub fn talk_of_problems(&self, registry: &Registry) {
        for problem in registry.problems() {
            let (level, color) = match problem.severity {
                Severity::Info => ("note", AnsiColor::Cyan),
                Severity::Warning | Severity::Error => ("warning", AnsiColor::Yellow),
            };
            let style = color.on_default().bold();
            self.talk(&format!("{style}{level}{style:#}: {}", visible(&problem.to_string())));
        }
    }

    /// Passes on what a process said.
    pub fn talk_of_process(&self, said: &str) {
        if !said.trim().is_empty() {
            self.talk(visible(said).trim_end());
        }
    }

    fn tell(&self, level: &str, color: AnsiColor, error: &SkillError) {
        let style = color.on_default().bold();
        self.talk(&format!("{style}{level}{style:#}: {}", visible(&error.to_string())));
    }
}

/// The same JSON with DEL and C1 controls escaped too: terminals obey them, and `serde_json` leaves them as they are.
fn without_controls(json: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => String::from(c),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => String::from(c),
    };
    if json.contains(|c: char| c.is_control() && c != '\n') {
        json.chars().map(escaped).collect()
    } else {
        json.to_owned()
    }
}

fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(SkillError::io("failed to write to standard output", error)),
        Ok(()) => Ok(()),
    }
}
