//! What calls in a copy of the project would change, as a model is shown it, and the tools that are offered for it.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::results::{Audience, shortened_text};
use super::skill_content::{shown_line, shown_text};
use super::tools::{APPLY_CHANGES, DISCARD_CHANGES, title_from_names};
use crate::changes::{Change, ChangeKind, ChangeSet, summary};
use crate::engine::ChangesReport;

/// Where a client finds what a call would change.
const CHANGES_KEY: &str = "metier/changes";
/// Bytes of the changes that a result lists, as JSON; deletions come first.
const MAX_LISTED_BYTES: usize = 20_000;
/// Columns and lines of the summary for a model.
const COLUMNS: usize = 200;
const MAX_SUMMARY_LINES: usize = 100;

/// The tools by which a model applies or discards what its calls would change.
pub(super) fn tools() -> [Tool; 2] {
    let text = |about: &str| json!({"type": "string", "description": about});
    let properties =
        json!({"id": text("The id of the changes."), "digest": text("The digest of the changes.")});
    let schema = json!({
        "type": "object", "properties": properties, "required": ["id", "digest"], "additionalProperties": false,
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let annotations = |destructive: bool| {
        ToolAnnotations::new().read_only(false).destructive(destructive).idempotent(true).open_world(false)
    };
    [
        Tool::new(
            APPLY_CHANGES,
            "Applies the changes that a call made in a copy of the project to the project itself, after a person has agreed to exactly these changes.",
            schema.clone(),
        )
        .with_title(title_from_names(APPLY_CHANGES, None))
        .with_annotations(annotations(true)),
        Tool::new(
            DISCARD_CHANGES,
            "Discards the changes that a call made in a copy of the project. The project stays as it is.",
            schema,
        )
        .with_title(title_from_names(DISCARD_CHANGES, None))
        .with_annotations(annotations(false)),
    ]
}

/// Adds what the run would change to its result: to the structured content, unless the schema of the tool holds for that, to the metadata,
/// and as a text that ends with the call that applies it.
pub(super) fn add_to_result(
    result: &mut CallToolResult,
    report: &ChangesReport,
    has_schema: bool,
    audience: &Audience<'_>,
) {
    let Ok(set) = serde_json::from_value::<ChangeSet>(report.set.clone()) else { return };
    if set.changes.is_empty() && set.refused.is_empty() {
        return;
    }
    let facts = facts(&set, report);
    if !has_schema && result.is_error != Some(true) {
        let mut content = JsonObject::from_iter([("changes".to_owned(), facts.clone())]);
        content.extend(result.structured_content.take().map(|value| ("result".to_owned(), value)));
        result.structured_content = Some(Value::Object(content));
    }
    result.meta.get_or_insert_with(MetaObject::new).insert(CHANGES_KEY.to_owned(), facts);
    let mut text = format!(
        "The call ran in a copy of the project, and would change this:\n{}",
        shown_text(&summary(&set, COLUMNS, MAX_SUMMARY_LINES))
    );
    for diff in &report.diffs {
        let part = |key: &str| diff.get(key).and_then(Value::as_str).unwrap_or_default();
        text.extend([format!("\n{}\n{}", shown_line(part("path")), shown_text(part("diff")))]);
    }
    result.content.extend(shortened_text(text.trim_end(), "text/plain", audience));
    let sentence = if set.changes.is_empty() {
        "The project is as it was, and there is nothing to apply.".to_owned()
    } else {
        format!(
            "The project is as it was. {APPLY_CHANGES} with {} applies exactly these changes, after a person has agreed; {DISCARD_CHANGES} \
             discards them.",
            json!({"id": set.id, "digest": report.digest})
        )
    };
    result.content.push(ContentBlock::text(sentence));
}

/// The id, the digest and the changes, the deletions first, as many as fit.
fn facts(set: &ChangeSet, report: &ChangesReport) -> Value {
    let mut changes: Vec<&Change> = set.changes.iter().collect();
    changes.sort_by_key(|change| change.kind != ChangeKind::Deleted);
    let mut bytes = 0;
    let mut listed: Vec<Value> = Vec::new();
    for change in &changes {
        let fact = without_identity(json!(change));
        bytes += fact.to_string().len();
        if bytes > MAX_LISTED_BYTES {
            break;
        }
        listed.push(fact);
    }
    let omitted = changes.len() - listed.len();
    let refused: Vec<&_> = set.refused.iter().take(MAX_SUMMARY_LINES).collect();
    json!({
        "id": set.id,
        "digest": report.digest,
        "changes": listed,
        "omitted": omitted,
        "refused": refused,
        "is_stored": report.is_stored,
    })
}

/// A change without the numbers by which the file system knows its files.
fn without_identity(mut change: Value) -> Value {
    for key in ["before", "after"] {
        if let Some(Value::Object(state)) = change.get_mut(key) {
            state.shift_remove("identity");
        }
    }
    change
}
