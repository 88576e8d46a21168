//! What calls in a copy of the project would change: the change sets of a caller, shown to a model with the result of the call, then applied,
//! once a person has agreed to exactly these changes, or discarded.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequest, JsonObject, MetaObject, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};

use super::question::{self, Question};
use super::results::{Audience, shortened_text};
use super::skill_content::{shown_line, shown_text};
use super::tools::{APPLY_CHANGES, DISCARD_CHANGES, title_from_names};
use crate::audit::{AuditClient, ChangeSetDecision};
use crate::changes::{ApplyOptions, ApplyReport, Change, ChangeKind, ChangeSet, ChangeStore, summary};
use crate::engine::{ChangesReport, Engine};
use metier_core::error::{ErrorKind, Result, SkillError};

/// Change sets of one caller that it can still name.
const MAX_CHANGE_SETS: usize = 1_000;
/// Bytes of the diffs that a person is shown with the question. All paths are shown besides, or nobody is asked.
const MAX_DIFF_BYTES: usize = 8 << 10;
/// How long a person has for the answer.
pub(super) const QUESTION_TIMEOUT: Duration = Duration::from_mins(5);
/// Where a client finds what a call would change.
const CHANGES_KEY: &str = "metier/changes";
/// Bytes of the changes that a result lists, as JSON; deletions come first.
const MAX_LISTED_BYTES: usize = 20_000;
/// Columns and lines of the summary for a model.
const COLUMNS: usize = 200;
const MAX_SUMMARY_LINES: usize = 100;

/// The change sets that the calls of one caller made: the only ones that it can apply or discard.
#[derive(Default)]
pub(super) struct ChangeSets(Mutex<VecDeque<ChangeSetRef>>);

/// A change set, and the digest that was returned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeSetRef {
    pub(super) id: String,
    pub(super) digest: String,
}

impl ChangeSets {
    /// Notes what a call made.
    pub(super) fn add(&self, report: &ChangesReport) {
        if !report.is_stored {
            return;
        }
        let mut made = self.lock();
        if made.len() >= MAX_CHANGE_SETS {
            made.pop_front();
        }
        made.push_back(ChangeSetRef { id: report.id().to_owned(), digest: report.digest.clone() });
    }

    /// The change set that a call means by these arguments, if a call of the same caller made it and it has that digest.
    pub(super) fn find(&self, arguments: &Map<String, Value>) -> Result<ChangeSetRef> {
        let text = |name: &str| {
            arguments.get(name).and_then(Value::as_str).ok_or_else(|| {
                let sentence = format!("the argument {name} is missing, or is not text");
                SkillError::new(ErrorKind::InvalidInput, sentence)
            })
        };
        let (id, digest) = (text("id")?, text("digest")?);
        let made = self.lock().iter().find(|made| made.id == id).cloned();
        let made = made.ok_or_else(|| {
            let shown = metier_core::excerpt::shorten(&shown_line(id), 80);
            let sentence = format!("no call of this client made the change set {shown}");
            SkillError::new(ErrorKind::Denied, sentence)
                .with_help("name the id and the digest of a result; a person can apply any other change set")
        })?;
        if made.digest == digest {
            return Ok(made);
        }
        let sentence = format!("the change set {id} has another digest, so these are not its changes");
        Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("name the digest that came with the change set"))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ChangeSetRef>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change set that is to be applied, with the question about it.
pub(super) struct Proposal {
    pub(super) made: ChangeSetRef,
    pub(super) question: Question,
    pub(super) form: ElicitRequest,
}

impl Proposal {
    /// Reads the change set; an error if nobody can agree to it.
    pub(super) fn read(engine: &Engine, made: ChangeSetRef) -> Result<Self> {
        let (store, set) = open_set(engine, &made)?;
        let project = store.open_project(&set)?;
        let mut text = format!(
            "The changes that the skill {} made in a copy of the project {} are to be applied to it.\nThe change set: {}\nIts digest: {}\nAll \
             of its changes:\n{}",
            shown_line(&set.skill),
            shown_line(&set.project),
            made.id,
            made.digest,
            summary(&set, usize::MAX, usize::MAX)
        );
        let (mut bytes, mut omitted) = (0, 0);
        for (change, diff) in store.text_diffs(&set, project.as_fd()) {
            // What stands at the beginning of a line here is never from a file.
            let lines = diff.to_string();
            let mut shown = format!("The lines of {}:\n", shown_line(&change.path));
            shown.extend(lines.lines().map(|line| format!("    {}\n", shown_text(line))));
            bytes += shown.len();
            if bytes > MAX_DIFF_BYTES {
                omitted += 1;
            } else {
                text.push_str(&shown);
            }
        }
        if omitted > 0 {
            text.extend([format!(
                "The lines of {omitted} more files are not shown here; the change set has them.\n"
            )]);
        }
        let question = Question {
            skill: APPLY_CHANGES.to_owned(),
            tool: Some(made.id.clone()),
            digest: Some(made.digest.clone()),
            permissions: Vec::new(),
        };
        let form = question::yes_or_no(text.trim_end(), "Apply them?", "Yes, apply these changes")?;
        Ok(Self { made, question, form })
    }
}

/// The set that was made, if it is of a project of this engine.
fn open_set(engine: &Engine, made: &ChangeSetRef) -> Result<(ChangeStore, ChangeSet)> {
    let store = engine.change_store()?;
    let set = store.find(&made.id)?.set;
    let project = set.project_path();
    if set.digest() == made.digest && engine.folders().any(|folder| folder == project) {
        return Ok((store, set));
    }
    let sentence = format!("the change set {} is of another project, or has another digest", made.id);
    Err(SkillError::new(ErrorKind::Denied, sentence).with_help("run the call again"))
}

pub(super) fn apply(engine: &Engine, made: &ChangeSetRef, client: AuditClient) -> Result<ApplyReport> {
    let (store, set) = open_set(engine, made)?;
    let project = store.open_project(&set)?;
    engine.record_change_set(&set, ChangeSetDecision::Applied, client)?;
    // The set is compared once more under the lock of the store.
    let options =
        ApplyOptions { keep_old: true, digest: Some(made.digest.clone()), ..ApplyOptions::default() };
    store.apply(&made.id, project.as_fd(), &options)
}

/// The error of a change set to which nobody has agreed.
pub(super) fn deny(engine: &Engine, made: &ChangeSetRef, client: AuditClient) -> Result<SkillError> {
    let (_, set) = open_set(engine, made)?;
    engine.record_change_set(&set, ChangeSetDecision::Denied, client)?;
    let sentence = "the changes were not approved, so the project is as it was";
    Ok(SkillError::new(ErrorKind::Denied, sentence))
}

pub(super) fn discard(engine: &Engine, made: &ChangeSetRef) -> Result<CallToolResult> {
    let store = engine.change_store()?;
    if !store.find(&made.id)?.applied.is_empty() {
        let sentence =
            format!("the change set {} is applied, and what it replaced is stored with it", made.id);
        return Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("leave it; it is removed when it is a week old"));
    }
    store.discard(&made.id)?;
    Ok(CallToolResult::success(vec![ContentBlock::text(format!("discarded {}", made.id))]))
}

pub(super) fn apply_result(made: &ChangeSetRef, report: &ApplyReport) -> CallToolResult {
    const MAX_CONFLICTS: usize = 100;
    let mut text = format!(
        "{} of the changes are applied. A person can undo the change set {}",
        report.applied.len(),
        made.id
    );
    for conflict in report.conflicts.iter().take(MAX_CONFLICTS) {
        text.extend([format!("\nnot applied: {}", shown_text(&conflict.to_string()))]);
    }
    let facts = json!({
        "id": made.id,
        "digest": made.digest,
        "applied": report.applied.len(),
        "conflicts": report.conflicts.iter().take(MAX_CONFLICTS).map(|conflict| shown_text(&conflict.path)).collect::<Vec<_>>(),
    });
    let content = vec![ContentBlock::text(text)];
    let mut result = if report.conflicts.is_empty() {
        CallToolResult::success(content)
    } else {
        CallToolResult::error(content)
    };
    result.structured_content = Some(facts);
    result
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use metier_core::host::outcome::changes_report;

    fn report(id: &str, digest: &str, is_stored: bool) -> ChangesReport {
        let mut report = changes_report(json!({"id": id}), digest.to_owned());
        report.is_stored = is_stored;
        report
    }

    #[test]
    fn a_change_set_is_found_by_its_own_caller_and_its_digest_alone() {
        let (own, other) = (ChangeSets::default(), ChangeSets::default());
        own.add(&report("a", "1", true));
        own.add(&report("b", "2", true));
        own.add(&report("c", "3", false));
        let find = |sets: &ChangeSets, id: &str, digest: &str| {
            let arguments = json!({"id": id, "digest": digest});
            sets.find(arguments.as_object().unwrap()).map_err(|error| error.kind())
        };
        assert!(find(&own, "a", "1").is_ok() && find(&own, "b", "2").is_ok());
        for (sets, id, digest) in
            [(&own, "a", "2"), (&own, "a", ""), (&own, "c", "3"), (&own, "", "1"), (&other, "a", "1")]
        {
            assert_eq!(find(sets, id, digest), Err(ErrorKind::Denied), "{id} {digest}");
        }
        assert_eq!(own.find(&Map::new()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_oldest_change_sets_make_space() {
        let sets = ChangeSets::default();
        for n in 0..=MAX_CHANGE_SETS {
            sets.add(&report(&n.to_string(), "d", true));
        }
        assert_eq!(sets.lock().len(), MAX_CHANGE_SETS);
        assert_eq!(sets.lock().front().unwrap().id, "1");
    }
}
