//! The operations of a description, as they are listed under `paths`, and the names of their tools, each once.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};

use super::document::{Document, fields, flag, items, text};
use super::report::Refusal;

/// The keys of a path that are operations.
const METHODS: [(&str, &str); 8] = [
    ("get", "GET"),
    ("head", "HEAD"),
    ("post", "POST"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
    ("trace", "TRACE"),
];
/// The most operations of one description.
const MAX_OPERATIONS: usize = 20_000;
/// The most bytes of a path and of an id that are read, and tags of one operation.
const MAX_PATH: usize = 2_000;
const MAX_ID: usize = 300;
const MAX_TAGS: usize = 20;

/// An operation, as it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Operation<'d> {
    /// In capitals.
    pub(super) method: &'static str,
    /// With the names of parameters in braces, at most 2,000 bytes of it.
    pub(super) path: &'d str,
    pub(super) id: Option<&'d str>,
    pub(super) tags: Vec<&'d str>,
    /// The name of its tool.
    pub(super) name: String,
    pub(super) is_deprecated: bool,
    /// Its own keys, and those of its path.
    pub(super) keys: Option<&'d Map<String, Json>>,
    pub(super) path_keys: Option<&'d Map<String, Json>>,
}

impl<'d> Operation<'d> {
    /// What stands under a key of the operation.
    pub(super) fn get(&self, key: &str) -> Option<&'d Json> {
        self.keys?.get(key)
    }

    /// The same, or what stands there for all operations of its path.
    pub(super) fn get_with_path(&self, key: &str) -> Option<&'d Json> {
        self.get(key).or_else(|| self.path_keys?.get(key))
    }

    /// How a person finds it: `GET /pets`.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// All operations, in written order, with the names that their tools have.
pub(super) fn operations(document: &Document) -> Result<Vec<Operation<'_>>, Refusal> {
    let mut operations = Vec::new();
    for (path, item) in document.map(&["paths"]) {
        // Other keys are extensions.
        if !path.starts_with('/') {
            continue;
        }
        let item = document.resolve(item).ok().and_then(Json::as_object);
        for (key, operation) in item.into_iter().flatten() {
            let method = METHODS.iter().find(|(known, _)| known == key).map(|(_, method)| *method);
            if let (Some(method), Some(_)) = (method, operation.as_object()) {
                operations.push(read(method, path, fields(Some(operation)), item));
            }
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Refusal::invalid(format!("it has more than {MAX_OPERATIONS} operations")));
        }
    }
    let names = tool_names(operations.iter().map(|it: &Operation<'_>| (it.id, it.method, it.path)));
    for (operation, name) in operations.iter_mut().zip(names) {
        operation.name = name;
    }
    Ok(operations)
}

fn read<'d>(
    method: &'static str,
    path: &'d str,
    keys: &'d Map<String, Json>,
    path_keys: Option<&'d Map<String, Json>>,
) -> Operation<'d> {
    let id = text(keys, "operationId").filter(|id| !id.is_empty());
    Operation {
        method,
        path: &path[..path.floor_char_boundary(MAX_PATH)],
        id: id.map(|id| &id[..id.floor_char_boundary(MAX_ID)]),
        tags: items(keys.get("tags")).iter().take(MAX_TAGS).filter_map(Json::as_str).collect(),
        name: String::new(),
        is_deprecated: flag(keys, "deprecated"),
        keys: Some(keys),
        path_keys,
    }
}

impl Operation<'_> {
    /// Whether the path is longer than what is read of one.
    pub(super) fn is_path_cut(&self) -> bool {
        self.path.len() > MAX_PATH - 4
    }
}

/// The most characters of a name.
const MAX_NAME: usize = 64;

/// The names of operations with these ids or, without one, methods and paths. They do not depend on which of them are chosen.
fn tool_names<'a>(operations: impl Iterator<Item = (Option<&'a str>, &'a str, &'a str)>) -> Vec<String> {
    let mut names = HashSet::new();
    // The last number that was put behind a name.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let unique = |(id, method, path): (Option<&str>, &str, &str)| {
        let name = id.map(words_of).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| words_of(&format!("{method} {path}")));
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name };
        let number = numbers.entry(name.clone()).or_default();
        loop {
            *number += 1;
            let suffix = if *number == 1 { String::new() } else { format!("_{number}") };
            let numbered = format!("{}{suffix}", cut(&name, MAX_NAME - suffix.len()));
            if names.insert(numbered.clone()) {
                return numbered;
            }
        }
    };
    operations.map(unique).collect()
}

/// The words of a text in small letters: `listPets` and `list/pets` are `list_pets`, and hyphens stay.
fn words_of(text: &str) -> String {
    let mut name = String::new();
    let mut before = '_';
    for (at, c) in text.char_indices() {
        if name.len() > 2 * MAX_NAME {
            break;
        }
        let next = text[at..].chars().nth(1).unwrap_or('_');
        let begins_word = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && next.is_ascii_lowercase()));
        let letter = if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
        if begins_word || letter == '_' {
            let is_joined = name.is_empty() || name.ends_with(['_', '-']);
            name.extend((!is_joined).then_some('_'));
        }
        if letter != '_' && !(letter == '-' && (name.is_empty() || name.ends_with(['_', '-']))) {
            name.push(letter);
        }
        before = c;
    }
    name.trim_end_matches(['_', '-']).to_owned()
}

/// The words of a name that fit.
fn cut(name: &str, max: usize) -> &str {
    if name.len() <= max {
        return name;
    }
    let head = &name[..max];
    let end = head.rfind(['_', '-']).filter(|at| *at >= max / 2).unwrap_or(max);
    head[..end].trim_end_matches(['_', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> String {
        tool_names([(Some(id), "GET", "/a/{b}")].into_iter()).remove(0)
    }

    #[test]
    fn a_name_is_that_of_the_operation_in_the_letters_of_tools() {
        for (id, expected) in [
            ("listPets", "list_pets"),
            ("issues/list-for-repo", "issues_list-for-repo"),
            ("Pets.List", "pets_list"),
            ("getHTTPResponse2Code", "get_http_response2_code"),
            ("readCoreV1Pod", "read_core_v1_pod"),
            ("2fa", "_2fa"),
            ("../../etc/passwd", "etc_passwd"),
            ("a\u{202e}b\0c\r\nd", "a_b_c_d"),
            ("--x--", "x"),
            ("__proto__", "proto"),
            ("", "get_a_b"),
            ("é", "get_a_b"),
        ] {
            assert_eq!(name(id), expected, "{id:?}");
        }
    }

    #[test]
    fn names_differ_and_are_short() {
        let long = "word".repeat(50);
        let spaced = "replace Words ".repeat(20);
        let ids = ["a", "A", "a_2", "a", &long, &long, &spaced, &spaced];
        let names = tool_names(ids.iter().map(|id| (Some(*id), "GET", "/")));
        assert_eq!(names[..4], ["a", "a_2", "a_2_2", "a_3"]);
        assert!(names.iter().all(|name| name.len() <= MAX_NAME), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names[6].ends_with("_words") || names[6].ends_with("_replace"), "{names:?}");
    }
}
