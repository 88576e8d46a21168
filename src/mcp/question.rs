//! A question to the person behind a client: whether a skill may have what it requests and nobody granted.

use rmcp::model::{ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::outcome::ChangesReport;
use metier_core::host::{ApprovalNeed, ApprovalRequest, ConsentReason};
use metier_core::policy::{Approval, ArgumentPattern, CalledTool, SandboxMode};
use metier_core::unicode::{mark_escapes, with_lookalikes};

/// The most bytes of a question: nobody reads more, and to what is left out nobody can agree.
const MAX_MESSAGE: usize = 16 << 10;

/// What was asked, as far as an answer depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) skill: String,
    /// The tool to one call of which somebody agrees.
    pub(super) tool: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) permissions: Vec<String>,
}

impl Question {
    /// What a run asks; `None` if that is not about permissions.
    pub(super) fn new(request: &ApprovalRequest) -> Option<Self> {
        let permissions = request.need.permissions()?;
        Some(Self {
            skill: skill_name(request).to_owned(),
            tool: confirmed_tool(request).map(|tool| tool.name.clone()),
            digest: request.digest.clone(),
            permissions: permissions.iter().map(ToString::to_string).collect(),
        })
    }
}

/// Whether an answer can hold for later calls. The trust store does not tell callers apart, so it cannot where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AnswerMemory {
    Remembered,
    #[default]
    Once,
}

fn is_for_one_call(request: &ApprovalRequest) -> bool {
    matches!(request.need, ApprovalNeed::Call { .. })
}

/// The question as the protocol has it: a text with all that somebody agrees to, and a form with one choice. `denied` if that is too
/// much to be shown.
pub(super) fn elicit_request(request: &ApprovalRequest, memory: AnswerMemory) -> Result<ElicitRequest> {
    let message = message(request);
    if message.len() > MAX_MESSAGE {
        let sentence = format!(
            "nobody can agree to this call of the skill {}: its input and permissions are too large to be shown whole ({} bytes of at most {MAX_MESSAGE})",
            request.skill,
            message.len()
        );
        let help = "call it with less, or grant what it needs beforehand; a tool that asks before each call is called at a terminal, which shows all of it in pages";
        return Err(SkillError::new(ErrorKind::Denied, sentence).with_help(help));
    }
    let once = json!({"const": "once", "title": "Yes, for this call"});
    let no = json!({"const": "no", "title": "No"});
    let is_offered = memory == AnswerMemory::Remembered && !is_for_one_call(request);
    let choices = match request.need.permissions().filter(|_| is_offered) {
        Some(_) => {
            json!([once, {"const": "always", "title": "Always, until a file of the skill changes"}, no])
        }
        None => json!([once, no]),
    };
    form(message, "Allow it?", &choices)
}

/// A question with this text that has a yes, for once, and a no; `denied` if the text is too much to be shown.
#[cfg(unix)]
pub(super) fn yes_or_no(text: &str, title: &str, yes: &str) -> Result<ElicitRequest> {
    if text.len() > MAX_MESSAGE {
        let sentence = format!(
            "nobody can agree to this: it is too large to be shown whole ({} bytes of at most {MAX_MESSAGE})",
            text.len()
        );
        return Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("a person can look at the change set, and apply it"));
    }
    let choices = json!([{"const": "once", "title": yes}, {"const": "no", "title": "No"}]);
    form(text.to_owned(), title, &choices)
}

/// A question with this text about another run, with a yes for one call and, where it can be remembered, one for good; `denied` if the text is
/// too much to be shown.
#[cfg(unix)]
pub(super) fn refusal_request(text: &str, memory: AnswerMemory) -> Result<ElicitRequest> {
    let yes = "Yes, run it again";
    match memory {
        AnswerMemory::Once => yes_or_no(text, "Run it again?", yes),
        AnswerMemory::Remembered => {
            // Whatever is too much for two choices is too much for three.
            yes_or_no(text, "", "")?;
            let choices = json!([
                {"const": "once", "title": yes},
                {"const": "always", "title": "Always, until a file of the skill changes"},
                {"const": "no", "title": "No"},
            ]);
            form(text.to_owned(), "Run it again?", &choices)
        }
    }
}

fn form(message: String, title: &str, choices: &Value) -> Result<ElicitRequest> {
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "title": title, "oneOf": choices}},
        "required": ["answer"],
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let requested_schema = ElicitationSchema::from_json_schema(schema).map_err(|error| {
        SkillError::new(ErrorKind::Unavailable, format!("the question is no form: {error}"))
    })?;
    Ok(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    }))
}

fn message(request: &ApprovalRequest) -> String {
    let skill = shown_name(skill_name(request));
    let mut text = match &request.need {
        ApprovalNeed::RepeatedStep { step, call, .. } => format!(
            "The plan of the skill {skill} was interrupted in the step {}, which calls {}. Parts of the step may have been done. If \
             it goes on, the whole step is done again.\n",
            shown_name(step),
            shown_name(call)
        ),
        ApprovalNeed::Call { permissions, reason } => {
            let what = match (reason, &request.tool) {
                (ConsentReason::Tool, Some(tool)) => {
                    format!(" wants to call its tool {}", shown_name(&tool.name))
                }
                (ConsentReason::CriticalSkill, _) => " has a critical risk. It wants to run".to_owned(),
                _ => " has the sensitivity elevated. It wants to run".to_owned(),
            };
            let asks = if permissions.is_empty() { "." } else { ", and asks for:" };
            format!("The skill {skill}{what}{asks}\n")
        }
        ApprovalNeed::Review { step, text, changes } => review_message(&skill, (step, text), changes),
        _ => format!("The skill {skill} wants to run, and asks for:\n"),
    };
    if let Some(tool) = &request.tool {
        let risk = tool.risk_level.as_deref().unwrap_or("not stated");
        text.extend([format!("The tool: {}, risk: {}\n", shown_name(&tool.name), shown_name(risk))]);
    }
    for permission in request.need.permissions().unwrap_or_default() {
        text.extend([format!(
            "- {}: {}\n",
            shown_name(&permission.to_string()),
            whole_line(&permission.meaning())
        )]);
    }
    if let ApprovalNeed::Permission { target: Some(target), .. } = &request.need {
        text.extend([format!("It would use it now for: {}\n", shown_name(target))]);
    }
    if !request.callers.is_empty() {
        text.extend([format!("It is called by: {}\n", shown_name(&request.callers.join(" > ")))]);
    }
    text.extend([format!("Its script: {}\n", shown_name(&request.script))]);
    let stdin = request.stdin.as_ref().map(|stdin| json!(stdin).to_string());
    let stdin = stdin.or_else(|| request.has_stream.then(|| "a stream that is not shown".to_owned()));
    text.extend(stdin.map(|stdin| format!("Its standard input: {}\n", whole_line(&stdin))));
    if !request.variables.is_empty() {
        text.extend([format!(
            "The variables that it is given: {}\n",
            shown_name(&request.variables.join(", "))
        )]);
    }
    if request.sandbox_mode != SandboxMode::Required {
        text.extend([format!("Its sandbox: {}\n", request.sandbox_mode)]);
    }
    let arguments = json!({"input": request.input, "args": request.args}).to_string();
    text.extend([format!("Its input: {}\n", whole_line(&arguments))]);
    let granted: Vec<String> = request.grants.iter().map(ToString::to_string).collect();
    text.extend([format!("It has already: {}\n", shown_name(&granted.join(", ")))]);
    text.extend(request.digest.iter().map(|digest| format!("Its files: {digest}\n")));
    text.truncate(text.trim_end().len());
    text
}

/// Bytes of the diffs that a person is shown with the question. All paths are shown besides, or nobody is asked.
const MAX_DIFF_BYTES: usize = 8 << 10;

/// What the steps of a plan up to a review have changed. Nothing of a file stands at the beginning of a line.
fn review_message(skill: &str, (step, says): (&str, &str), changes: &ChangesReport) -> String {
    let step = shown_name(step);
    let mut text = format!(
        "The plan of the skill {skill} has come to its review {step}. Its steps up to there ran in a copy of the project. If you agree, their \
         changes are applied to the project and the plan goes on; otherwise it ends, and the project stays as it is.\n"
    );
    if !says.is_empty() {
        text.extend([format!("What the plan says of it, which nobody has checked: {}\n", whole_line(says))]);
    }
    text.extend([format!("The digest of the changes: {}\nAll of the changes:\n", changes.digest)]);
    let list = |key: &str| changes.set.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let part = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(whole_line);
    for change in list("changes") {
        let from = part(&change, "from").map(|from| format!("{from} => ")).unwrap_or_default();
        let (kind, path) = (part(&change, "kind"), part(&change, "path"));
        let (kind, path) = (kind.unwrap_or_default(), path.unwrap_or_default());
        text.extend([format!("- {kind}: {from}{path}{}\n", change_detail(&change))]);
    }
    for refused in list("refused") {
        let (path, reason) = (part(&refused, "path"), part(&refused, "reason"));
        text.extend([format!(
            "- cannot be applied: {} ({})\n",
            path.unwrap_or_default(),
            reason.unwrap_or_default()
        )]);
    }
    let (mut bytes, mut with_lines) = (0, 0);
    for diff in &changes.diffs {
        let lines = diff.get("diff").and_then(Value::as_str).unwrap_or_default();
        let mut shown = format!("The lines of {}:\n", part(diff, "path").unwrap_or_default());
        shown.extend(lines.lines().map(|line| format!("    {}\n", whole_line(line))));
        bytes += shown.len();
        if bytes <= MAX_DIFF_BYTES {
            with_lines += 1;
            text.push_str(&shown);
        }
    }
    let is_file = |change: &&Value| {
        change.pointer("/after/type").or(change.pointer("/before/type")).is_some_and(|kind| kind == "file")
    };
    let omitted = list("changes").iter().filter(is_file).count().saturating_sub(with_lines);
    if omitted > 0 {
        text.extend([format!("The lines of {omitted} of the changed files are not shown here.\n")]);
    }
    text
}

/// What is at the path of a change when it is applied: ` (link to TARGET)`, ` (12 bytes)`, ` (12 bytes, mode 644 -> 755)`.
fn change_detail(change: &Value) -> String {
    let Some(after) = change.get("after").filter(|after| after.is_object()) else { return String::new() };
    match after.get("type").and_then(Value::as_str) {
        Some("symlink") => {
            let target = after.get("target").and_then(Value::as_str).unwrap_or_default();
            format!(" (link to {})", whole_line(target))
        }
        Some("file") => {
            let mode = |state: Option<&Value>| state?.get("mode")?.as_u64();
            let modes = mode(change.get("before")).zip(mode(Some(after)));
            let modes = modes.filter(|(before, after)| before != after);
            let modes = modes.map(|(before, after)| format!(", mode {before:03o} -> {after:03o}"));
            let size = after.get("size").and_then(Value::as_u64).unwrap_or_default();
            format!(" ({size} bytes{})", modes.unwrap_or_default())
        }
        Some(other) => format!(" ({})", whole_line(other)),
        None => String::new(),
    }
}

/// The answer; everything that is not a plain yes, or was not offered, is a no.
pub(super) fn approval(answer: &ElicitResult, memory: AnswerMemory) -> Approval {
    let choice = answer.content.as_ref().and_then(|content| content.get("answer")).and_then(Value::as_str);
    match (&answer.action, choice) {
        (ElicitationAction::Accept, Some("once")) => Approval::Once,
        (ElicitationAction::Accept, Some("always")) if memory == AnswerMemory::Remembered => {
            Approval::Always(ArgumentPattern::any())
        }
        _ => Approval::No,
    }
}

/// The tool to one call of which somebody is to agree.
fn confirmed_tool(request: &ApprovalRequest) -> Option<&CalledTool> {
    request.tool.as_ref().filter(|_| is_for_one_call(request))
}

/// Whether the question is asked before anything has run, so that the call may be answered with it.
pub(super) fn is_first(request: &ApprovalRequest) -> bool {
    matches!(request.need, ApprovalNeed::Start { .. } | ApprovalNeed::Call { .. })
        && request.callers.is_empty()
}

fn skill_name(request: &ApprovalRequest) -> &str {
    request.qualified_name.as_deref().unwrap_or(&request.skill)
}

pub(super) fn shown_name(text: &str) -> String {
    whole_line(&with_lookalikes(text))
}

/// All of a text on one line: what could end a line, or is not seen, is spelled out, and so is every blank but a single space.
pub(super) fn whole_line(text: &str) -> String {
    let (mut shown, mut before) = (String::with_capacity(text.len()), ' ');
    for (c, is_unseen) in mark_escapes(text) {
        if is_unseen || c.is_whitespace() && (c != ' ' || before == ' ') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        before = c;
    }
    shown
}
