//! The operations of a description, as they are listed under `paths`.

use serde_json::{Map, Value as Json};

use super::document::{Document, fields, flag, items, text};
use super::refusal::Refusal;
use super::tool_name::tool_names;

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
