//! One test case, as its file declares it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expected::Expectation;
use crate::cases::file_fixture::FileContent;
use crate::cases::git_fixture::Commit;
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Location, Result, SkillError};
use metier_core::policy::Permission;
use metier_core::strict_json;
use metier_core::suggestion::{closest, did_you_mean, same_word};
use metier_skill::contract::{Example, expected_number};

/// One call of a skill in a fresh project, and the result that is expected of it.
///
/// In a file all keys but `expect` are optional:
/// ```json
/// {
///   "script": "scripts/count.lua",
///   "tool": "count",
///   "confirm": true,
///   "input": {"path": "poem.txt"},
///   "args": [],
///   "files": {"poem.txt": "one two", "picture.png": {"base64": "iVBORw=="}},
///   "git": [{"message": "feat: a poem", "files": {"poem.txt": "one"}, "tag": "v1"}],
///   "given": {"tools": {"add": 3}, "skills": {}, "model": "yes", "config": {}, "secrets": {}, "store": {},
///     "stores": {"team": {}}, "http": {}},
///   "allow": ["write"],
///   "needs": ["python3"],
///   "expect": {
///     "value": {"words": 2},
///     "contains": {"words": 2},
///     "error": {"kind": "script", "message": "a part of the message"},
///     "files": {"out.txt": "written", "old.txt": null},
///     "calls": [{"tool": "add", "args": {"a": 1, "b": 2}}],
///     "requests": [{"method": "GET", "url": "https://api.example.com/items?page=2"}]
///   }
/// }
/// ```
/// Without `allow` the run is granted the permissions that the skill requests. The files in the folder `cases/project` are
/// there in every case. `value` is the whole value; in `contains`, objects may have more fields than it names. `files` are
/// those after the run, `null` for a file that must not exist. `calls` are the calls of tools, all of them and in order. `requests` are the
/// requests of `given.http`, all of them and in order, each with the parts that it names of `method`, `url`, `headers` (names in lower case)
/// and `json`, or `body` where that is no JSON. A case has a `script` or calls a `tool` of the skill; `confirm` agrees to that call. A value that is
/// a number fits also what a process prints in the same form: `1.10` is the text `1.10` on its standard output.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) name: String,
    pub(super) definition: CaseFile,
    /// The permissions that the run is granted; those that the skill requests if the case does not set them.
    pub(super) allow: Option<Vec<Permission>>,
}

/// The fields of a case file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct CaseFile {
    pub(super) script: Option<String>,
    pub(super) tool: Option<String>,
    #[serde(default)]
    pub(super) confirm: bool,
    pub(super) input: Option<Value>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) files: BTreeMap<String, FileContent>,
    pub(super) git: Option<Vec<Commit>>,
    #[serde(default)]
    pub(super) given: Map<String, Value>,
    allow: Option<Vec<String>>,
    #[serde(default)]
    needs: Vec<String>,
    pub(super) expect: Expectation,
}

impl Case {
    /// Parses a case from JSON; fails with `invalid-skill`, with the location in `file`, if it is not valid.
    pub fn parse(name: impl Into<String>, file: &str, source: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(source).map_err(|_| invalid(file, None, "it is not UTF-8 text"))?;
        let text = without_mark(text);
        if text.trim_start().starts_with('[') {
            // Serde would accept a list as the fields in order.
            return Err(invalid(file, None, "it is a list, and a case is an object"));
        }
        let mut says: CaseFile = serde_json::from_str(text).map_err(|error| slip(file, &error))?;
        // Parsed again by the reader that refuses what JSON readers ignore, such as a duplicate key.
        strict_json::parse(text).map_err(|reason| invalid(file, None, &reason))?;
        if says.tool.is_some() && says.script.is_some() {
            return Err(invalid(file, None, "it names a script and a tool"));
        }
        says.expect.check().map_err(|reason| invalid(file, None, reason))?;
        says.expect = says.expect.with_number(text);
        let parsed = |names: &Vec<String>| names.iter().map(|name| name.parse()).collect::<Result<_>>();
        let allow = says.allow.as_ref().map(parsed).transpose();
        let allow = allow.map_err(|error: SkillError| invalid(file, None, error.message()))?;
        Ok(Self { name: name.into(), definition: says, allow })
    }

    /// The case of an example in a contract: its input is passed, and its output must be a part of the value.
    pub(super) fn from_example(number: usize, example: &Example) -> Self {
        let name = match &example.description {
            Some(description) => format!("example {number}: {description}"),
            None => format!("example {number}"),
        };
        let expected = example.expected_output.clone();
        let expect =
            expected.map(|part| Expectation::containing(part, expected_number(example).map(str::to_owned)));
        let expect = expect.unwrap_or_default();
        let says = CaseFile { input: Some(example.inputs.clone()), expect, ..CaseFile::default() };
        Self { name, definition: says, allow: None }
    }

    /// The name of the case: the file name without its extension, or the example's number and description.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the case expects the run to fail.
    pub fn fails(&self) -> bool {
        self.definition.expect.error.is_some()
    }

    /// The commands without which the case cannot run.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let git = self.definition.git.as_ref().map(|_| "git");
        self.definition.needs.iter().map(String::as_str).chain(git)
    }
}

fn slip(file: &str, error: &serde_json::Error) -> SkillError {
    let place = (error.line() > 0).then(|| (error.line(), error.column()));
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    let error = invalid(file, place, reason);
    match meant_field(reason) {
        Some(meant) => error.with_help(did_you_mean(meant)),
        None => error,
    }
}

/// The field that was probably meant, of those that the reader names after an unknown one.
fn meant_field(reason: &str) -> Option<&str> {
    let mut quoted = reason.strip_prefix("unknown field `")?.split('`');
    let unknown = quoted.next()?;
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    same_word(unknown, known.iter().copied()).or_else(|| closest(unknown, known))
}

fn invalid(file: &str, place: Option<(usize, usize)>, reason: &str) -> SkillError {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (line, column) =
        place.map_or((None, None), |(line, column)| (Some(count(line)), Some(count(column))));
    SkillError::new(ErrorKind::InvalidSkill, format!("{file} is not a case: {reason}"))
        .with_location(Location::new(file, line, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> SkillError {
        Case::parse("x", "cases/x.json", text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_slip_is_reported_with_its_place() {
        let error = refused("{\n  \"inputs\": {},\n  \"expect\": {\"value\": 1}\n}");
        assert_eq!(error.kind(), ErrorKind::InvalidSkill);
        assert!(error.message().starts_with("cases/x.json is not a case: unknown field `inputs`"), "{error}");
        assert_eq!(error.location().unwrap().line, Some(2));
    }

    #[test]
    fn a_case_that_expects_nothing_proves_nothing() {
        assert!(refused(r#"{"input": 1}"#).message().contains("missing field `expect`"));
        assert!(refused(r#"{"expect": {}}"#).message().contains("expects nothing"));
        let both = r#"{"expect": {"value": 1, "error": {"kind": "io", "message": ""}}}"#;
        assert!(refused(both).message().contains("a value and an error"));
    }

    #[test]
    fn what_json_readers_pass_over_is_refused() {
        for text in [
            r#"{"input": {"a": 1, "a": 2}, "expect": {"value": 1}}"#,
            r#"{"input": 123456789012345678901, "expect": {"value": 1}}"#,
            r#"{"allow": ["fly"], "expect": {"value": 1}}"#,
            r#"{"expect": {"error": {"kind": "bad luck", "message": ""}}}"#,
        ] {
            assert_eq!(refused(text).kind(), ErrorKind::InvalidSkill, "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_case() {
        let text = "\u{feff}{\"expect\": {\"value\": 1}}";
        assert!(Case::parse("x", "cases/x.json", text.as_bytes()).is_ok());
        assert!(refused(&format!("\u{feff}{text}")).message().contains("is not a case"));
    }

    #[test]
    fn null_is_a_value_to_expect() {
        let case = Case::parse("x", "x", br#"{"expect": {"value": null}}"#).unwrap();
        assert_eq!(case.definition.expect.value, Some(Value::Null));
    }
}
