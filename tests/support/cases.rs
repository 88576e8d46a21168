//! Cases beside a skill, `cases/NAME.json`: what is there, what goes in, what must come out.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metier::engine::{Engine, Invocation, Outcome};
use metier::error::SkillError;
use metier::policy::Isolation;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::difference::difference;
use crate::history::{Commit, write_history};

/// One call of a skill in a fresh project, and what must come of it. Everything but `expect` may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The input; none when absent.
    input: Option<Value>,
    /// Arguments of an external script.
    #[serde(default)]
    args: Vec<String>,
    /// The project's files before the run.
    #[serde(default)]
    files: BTreeMap<String, Content>,
    /// The project's git history, oldest commit first; no repository when absent.
    git: Option<Vec<Commit>>,
    /// What the caller grants.
    #[serde(default)]
    allow: Vec<String>,
    /// Commands that must be on `PATH`; where one is missing the case is not run.
    #[serde(default)]
    needs: Vec<String>,
    expect: Expected,
}

/// What a file holds: its text, or its bytes as `{"base64": ".."}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Bytes { base64: String },
}

/// What must come out: the exact value, or an error; and files as they must be after the run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default, deserialize_with = "also_null")]
    value: Option<Value>,
    error: Option<ExpectedError>,
    /// Path to text; `null` where no file may be.
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
}

/// The kind of an error, and a part of its message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    kind: String,
    message: String,
}

impl Case {
    /// The cases in a folder by their names, sorted. A file that is no case is a panic that names it.
    pub fn all_in(folder: &Path) -> BTreeMap<String, Self> {
        let entries =
            std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let case = |path: &Path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let case = serde_json::from_slice(&std::fs::read(path).unwrap());
            (name, case.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        };
        entries.map(|entry| case(&entry.unwrap().path())).collect()
    }

    /// The commands without which the case cannot run.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let git = self.git.as_ref().map(|_| "git");
        self.needs.iter().map(String::as_str).chain(git)
    }

    /// Whether the run must fail.
    pub fn fails(&self) -> bool {
        self.expect.error.is_some()
    }

    /// Runs the case for a skill; the differences between what came out and what had to, none when it holds.
    pub fn differences(&self, skill: &str) -> Vec<String> {
        let project = tempfile::tempdir().unwrap();
        self.lay_out(project.path());
        // Where a build has no cage, scripts run as plain processes.
        let engine = Engine::builder(project.path()).isolation(Isolation::BestEffort).build().unwrap();
        let outcome = engine.run(self.invocation(skill));
        let mut found = self.expect.differences(&outcome);
        found.extend(
            self.expect
                .files
                .iter()
                .filter_map(|(path, text)| changed(&project.path().join(path), text.as_deref())),
        );
        found
    }

    fn lay_out(&self, project: &Path) {
        if let Some(commits) = &self.git {
            write_history(project, commits);
        }
        for (path, content) in &self.files {
            let path = project.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = match content {
                Content::Text(text) => text.clone().into_bytes(),
                Content::Bytes { base64 } => STANDARD.decode(base64).unwrap(),
            };
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn invocation(&self, skill: &str) -> Invocation {
        let mut invocation = Invocation::new(skill).args(&self.args);
        if let Some(input) = &self.input {
            invocation = invocation.input(input.clone());
        }
        self.allow
            .iter()
            .fold(invocation, |invocation, permission| invocation.grant(permission.parse().unwrap()))
    }
}

impl Expected {
    fn differences(&self, outcome: &Outcome) -> Vec<String> {
        match (&outcome.result, &self.error) {
            (Ok(value), None) => {
                self.value.as_ref().map_or(Vec::new(), |expected| difference(expected, value))
            }
            (Ok(value), Some(expected)) => {
                vec![format!("expected {}, got the value {value:#}", expected.kind)]
            }
            (Err(error), Some(expected)) => expected.differences(error),
            (Err(error), None) => vec![format!("expected a value, got {error:?}")],
        }
    }
}

impl ExpectedError {
    fn differences(&self, error: &SkillError) -> Vec<String> {
        if error.kind().name() == self.kind && error.message().contains(&self.message) {
            return Vec::new();
        }
        vec![format!("expected {}: ..{}..\n     got {error:?}", self.kind, self.message)]
    }
}

/// How a file is not as expected; `None` expects no file.
fn changed(path: &Path, expected: Option<&str>) -> Option<String> {
    let text = std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (text.as_deref() != expected).then(|| format!("{}: expected {expected:?}, got {text:?}", path.display()))
}

/// `null` is a value to expect, and not the same as expecting none.
fn also_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
