//! The expected result of a case, compared with the actual one.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::difference::{Difference, compare_part, compare_whole};
use crate::cases::file_fixture::FileContent;
use crate::engine::Outcome;
use metier_core::error::{ErrorKind, SkillError};
use metier_core::host::Files;
use metier_core::host::files::FilesView;
use metier_core::policy::Limits;
use metier_skill::yaml::{self, Node};

/// The expected result of a case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Expectation {
    /// The whole value.
    #[serde(default, deserialize_with = "also_null")]
    pub(super) value: Option<Value>,
    /// A part of the value: its objects may have more fields than these.
    #[serde(default, deserialize_with = "also_null")]
    pub(super) contains: Option<Value>,
    pub(super) error: Option<ExpectedError>,
    /// Files after the run; `null` for a file that must not exist.
    #[serde(default)]
    files: BTreeMap<String, Option<FileContent>>,
    /// Every call of a tool, in order.
    calls: Option<Vec<Value>>,
    /// Parts of every request, in order.
    requests: Option<Vec<Value>>,
    /// The expected value as it is written, if it is a number.
    #[serde(skip)]
    number: Option<String>,
}

/// The kind of an error, and a part of its message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct ExpectedError {
    kind: String,
    #[serde(default)]
    message: String,
}

impl Expectation {
    /// Expects a value that contains this part; a number is written so.
    pub(super) fn containing(part: Value, number: Option<String>) -> Self {
        Self { contains: Some(part), number, ..Self::default() }
    }

    /// The same with the expected number as it is written in the text of the case.
    pub(super) fn with_number(self, case: &str) -> Self {
        let key = [("value", &self.value), ("contains", &self.contains)]
            .into_iter()
            .find_map(|(key, value)| value.as_ref()?.is_number().then_some(key));
        let number = key.and_then(|key| {
            // JSON is YAML, whose tree has the numbers as they are written.
            let tree = yaml::parse(case).ok()?;
            Some(field(field(&tree.root?, "expect")?, key)?.text()?.to_owned())
        });
        Self { number, ..self }
    }

    /// Why no run can produce this result, if that is so.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let has_value = self.value.is_some() || self.contains.is_some();
        match &self.error {
            Some(_) if has_value => Err("it expects a value and an error at once"),
            Some(error) if ErrorKind::from_name(&error.kind).is_none() => {
                Err("no error has the kind it expects")
            }
            None if !has_value
                && self.files.is_empty()
                && self.calls.is_none()
                && self.requests.is_none() =>
            {
                Err("it expects nothing")
            }
            _ => Ok(()),
        }
    }

    /// The differences between the run and the expected result; empty if the case passes.
    pub(super) fn differences(
        &self,
        outcome: &Outcome,
        project: &Files,
        (calls, requests): (Vec<Value>, Vec<Value>),
    ) -> Vec<Difference> {
        let mut found = self.result_differences(outcome);
        for (path, content) in &self.files {
            found.extend(file_difference(project, path, content.as_ref()));
        }
        if let Some(expected) = &self.calls {
            found.extend(compare_whole("calls", &Value::Array(expected.clone()), &calls.into()));
        }
        if let Some(expected) = &self.requests {
            found.extend(compare_part("requests", &Value::Array(expected.clone()), &requests.into()));
        }
        found
    }

    fn result_differences(&self, outcome: &Outcome) -> Vec<Difference> {
        match (&outcome.result, &self.error) {
            (Ok(value), None) => {
                let is_open = |expected: &&Value| !(expected.is_number() && self.is_printed(outcome));
                let (whole, part) =
                    (self.value.as_ref().filter(is_open), self.contains.as_ref().filter(is_open));
                let whole = whole.map(|expected| compare_whole("", expected, value));
                let part = part.map(|expected| compare_part("", expected, value));
                whole.into_iter().chain(part).flatten().collect()
            }
            (Ok(value), Some(expected)) => {
                vec![Difference::new("the error", Some(expected.as_json()), None), unexpected_value(value)]
            }
            (Err(error), Some(expected)) if expected.matches(error) => Vec::new(),
            (Err(error), Some(expected)) => {
                vec![Difference::new("the error", Some(expected.as_json()), Some(as_json(error)))]
            }
            (Err(error), None) => vec![Difference::new("the error", None, Some(as_json(error)))],
        }
    }

    /// Whether a process printed the number as it is written, which is text if JSON would write it otherwise (`1.10`).
    fn is_printed(&self, outcome: &Outcome) -> bool {
        let printed = outcome.process.as_ref().map(|process| process.stdout.as_str());
        let is_value = outcome.result.as_ref().is_ok_and(|value| value.as_str() == printed);
        is_value && printed.is_some() && self.number.as_deref() == printed.map(str::trim)
    }
}

fn field<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let yaml::Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

impl ExpectedError {
    fn matches(&self, error: &SkillError) -> bool {
        error.kind().name() == self.kind && error.message().contains(&self.message)
    }

    fn as_json(&self) -> Value {
        json!({"kind": self.kind, "message": self.message})
    }
}

fn as_json(error: &SkillError) -> Value {
    json!({"kind": error.kind(), "message": error.message()})
}

fn unexpected_value(value: &Value) -> Difference {
    Difference::new("the value", None, Some(value.clone()))
}

/// How a file differs from the expected one. A symlink that leads out of the project does not count as a file, so nothing
/// outside is ever read.
fn file_difference(project: &Files, path: &str, expected: Option<&FileContent>) -> Option<Difference> {
    let view = FilesView::unrestricted(project);
    let expected = expected.map(FileContent::as_json);
    let got = match view.stat(path) {
        Ok(stat) if stat.is_dir => json!("a folder"),
        Ok(stat) if stat.size > Limits::MAX_READ_SIZE => json!(format!("{} bytes", stat.size)),
        Ok(_) => match view.read(path) {
            Ok(bytes) => {
                let got = FileContent::from_bytes(&bytes).as_json();
                return (expected.as_ref() != Some(&got)).then(|| Difference::new(path, expected, Some(got)));
            }
            Err(error) => json!(error.message()),
        },
        Err(error) if is_absent(&error) || expected.is_some() => {
            return expected.map(|expected| Difference::new(path, Some(expected), None));
        }
        Err(error) => json!(error.message()),
    };
    // What is not a file never matches, whatever the case expects of it.
    Some(Difference::new(path, expected, Some(got)))
}

fn is_absent(error: &SkillError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// `null` is a value to expect, and not the same as no expected value.
fn also_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
