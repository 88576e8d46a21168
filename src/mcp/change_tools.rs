//! Applies and discards what calls in a copy of the project would change, once a person has agreed to exactly these changes.

use std::os::fd::AsFd;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::change_sets::ChangeSetRef;
use super::handler::{Handler, request_error, set_size};
use super::postponed_request::PostponedRequest;
use super::question::{self, AnswerMemory, Question};
use super::request_state::StateOwner;
use super::results::{content_size, error_result};
use super::skill_content::{shown_line, shown_text};
use super::tool_calls::client_name;
use super::tools::{APPLY_CHANGES, DISCARD_CHANGES};
use crate::audit::{AuditClient, AuditFace, ChangeSetDecision};
use crate::changes::{ApplyOptions, ApplyReport, ChangeSet, ChangeStore, summary};
use crate::engine::Engine;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::Approval;

/// Bytes of the diffs that a person is shown with the question. All paths are shown besides, or nobody is asked.
const MAX_DIFF_BYTES: usize = 8 << 10;
/// How long a person has for the answer.
const QUESTION_TIMEOUT: Duration = Duration::from_mins(5);

/// A change set that is to be applied, with the question about it.
struct Proposal {
    made: ChangeSetRef,
    question: Question,
    form: ElicitRequest,
}

impl Proposal {
    /// Reads the change set; an error if nobody can agree to it.
    fn read(engine: &Engine, made: ChangeSetRef) -> Result<Self> {
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

fn apply(engine: &Engine, made: &ChangeSetRef, client: AuditClient) -> Result<ApplyReport> {
    let (store, set) = open_set(engine, made)?;
    let project = store.open_project(&set)?;
    engine.record_change_set(&set, ChangeSetDecision::Applied, client)?;
    // The set is compared once more under the lock of the store.
    let options =
        ApplyOptions { keep_old: true, digest: Some(made.digest.clone()), ..ApplyOptions::default() };
    store.apply(&made.id, project.as_fd(), &options)
}

/// The error of a change set to which nobody has agreed.
fn deny(engine: &Engine, made: &ChangeSetRef, client: AuditClient) -> Result<SkillError> {
    let (_, set) = open_set(engine, made)?;
    engine.record_change_set(&set, ChangeSetDecision::Denied, client)?;
    let sentence = "the changes were not approved, so the project is as it was";
    Ok(SkillError::new(ErrorKind::Denied, sentence))
}

fn discard(engine: &Engine, made: &ChangeSetRef) -> Result<CallToolResult> {
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

fn apply_result(made: &ChangeSetRef, report: &ApplyReport) -> CallToolResult {
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

impl Handler {
    /// Applies what an earlier call of the same caller would change, after a person has agreed, or discards it.
    pub(super) async fn call_change_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.clone().unwrap_or_default();
        let is_discarded = request.name == DISCARD_CHANGES;
        let found = self.read(Some(context), move |engine, _, session| {
            let made = session.caller.change_sets.find(&arguments)?;
            if is_discarded { discard(engine, &made).map(Err) } else { Proposal::read(engine, made).map(Ok) }
        });
        let proposal = match found.await? {
            Ok(Ok(proposal)) => proposal,
            Ok(Err(result)) => return Ok(result.into()),
            Err(error) => return Ok(error_result(&error).into()),
        };
        let waiting = match self.calls().enter(self.caller()) {
            Ok(waiting) => waiting,
            Err(error) => return Ok(error_result(&error).into()),
        };
        let Proposal { made, question, form } = proposal;
        let values = Value::Object(request.arguments.unwrap_or_default());
        let answer = if let Some(states) = self.request_states(context) {
            let owner =
                StateOwner { name: &request.name, ..self.state_owner(context, "tools/call", &values) };
            let (state, responses) = (request.request_state.as_deref(), request.input_responses);
            let mut postponed = PostponedRequest::open(states, owner, state, responses)
                .map_err(|error| request_error(&error))?;
            match postponed.answer_to(&question) {
                Some(answer) => answer,
                None => match postponed.ask(question, form) {
                    Ok(question) => return Ok(question.into()),
                    Err(error) => return Ok(error_result(&error).into()),
                },
            }
        } else if let Some(elicitor) = self.elicitor(context, None) {
            let answer = elicitor.ask(form, context.ct.cancelled(), QUESTION_TIMEOUT).await;
            answer.map_or(Approval::No, |answer| question::approval(&answer, AnswerMemory::Once))
        } else {
            // What waits is the change set itself, also in a server that parks calls.
            let sentence = "the changes take the agreement of a person, and this client cannot ask one; they wait as a change set, not as a pending call";
            let help = format!(
                "a person can apply the change set {} within a week; the call need not be repeated",
                made.id
            );
            return Ok(error_result(&SkillError::new(ErrorKind::Denied, sentence).with_help(help)).into());
        };
        let engine = self.engine().clone();
        let client = AuditClient::new(AuditFace::Mcp).with_name(&client_name(context).unwrap_or_default());
        let applied = tokio::task::spawn_blocking(move || {
            if answer != Approval::Once {
                return Err(deny(&engine, &made, client).unwrap_or_else(|error| error));
            }
            let applied = apply(&engine, &made, client);
            applied.map(|report| apply_result(&made, &report))
        });
        let result = applied.await.map_err(|_| ErrorData::internal_error("the request failed", None))?;
        drop(waiting);
        let result = result.unwrap_or_else(|error| error_result(&error));
        Ok(set_size(context, content_size(&result), result).into())
    }
}
