//! The configuration: the file of a project can only narrow, every value knows where it comes from, and no script changes a file of it.

mod commands;
mod documentation;
mod effects;
mod files;
mod narrowing;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod scripts;
mod secrets;
mod secrets_attacks;
mod sources;

use serde_json::Value;

use crate::support::cli::{Answer, Project, write};

/// What writes this file has run.
const MARKER: &str = "ran";

impl Project {
    /// A project with the skill `x`, which writes the marker.
    fn with_marker_skill() -> Self {
        let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: write\n---\n";
        Self::new()
            .file(".metier/skills/x/SKILL.md", frontmatter)
            .file(".metier/skills/x/scripts/main.lua", format!("ctx.write('{MARKER}', '') return 'done'"))
    }

    /// Writes the configuration of the user.
    fn user_config(self, text: impl AsRef<[u8]>) -> Self {
        write(&self.user_file(), text);
        self
    }

    fn user_file(&self) -> std::path::PathBuf {
        self.home().join(".config/metier/config.toml")
    }

    /// Writes the configuration of the project.
    fn project_config(self, text: impl AsRef<[u8]>) -> Self {
        self.file(".metier/config.toml", text)
    }

    /// Runs the skill `x`, which may write.
    fn run_x(&self, args: &[&str]) -> Answer {
        self.metier(&[&["run", "x", "--allow", "write", "--json"], args].concat())
    }

    /// The effective value of a key, with its origins; for all runs, or for those of the skill that it names.
    fn effective(&self, key: &str) -> Value {
        effective(&self.metier(&["config", "--json"]), key)
    }
}

#[track_caller]
fn effective(answer: &Answer, key: &str) -> Value {
    let values = answer.json();
    let found = values.as_array().and_then(|values| values.iter().find(|value| value["key"] == key));
    found.unwrap_or_else(|| panic!("{key} is not in {answer:?}")).clone()
}

/// Asserts that the run was refused with a `usage` error that names this place, and that nothing has run.
#[track_caller]
fn refused(project: &Project, place: &str, expected: &str) {
    let answer = project.run_x(&[]);
    let error = answer.json()["error"].clone();
    let message = error["message"].as_str().unwrap_or_default();
    assert_eq!((answer.code, &error["kind"]), (2, &"usage".into()), "{answer:?}");
    assert!(message.contains(place) && message.contains(expected), "{place} {expected}: {message}");
    assert!(error["help"].as_str().is_some_and(|help| !help.is_empty()), "{error}");
    assert!(!project.path(MARKER).exists(), "it ran: {answer:?}");
}
