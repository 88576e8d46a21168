//! Parses one step of a plan.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use metier_core::host::function;
use metier_core::policy::units::parse_duration;
use metier_core::template::{RESERVED_NAMES, Template, is_name};
use metier_skill::yaml::{Entry, Node, Style, Value};
use serde_json::Value as Json;

use crate::diagnostic_sink::{PlanDiagnosticSink, describe_node};
use crate::model::condition::Condition;
use crate::model::step::{Argument, CallTarget, ForEach, NamedArgument, OnFailure, Step, StepSpans};
use crate::parse::json_tree::{find_node, report_unknown_keys};
use crate::{PlanForm, lint};

const STEP_KEYS: [&str; 11] = [
    "id",
    "skill",
    "tool",
    "review",
    "args",
    "inputs_from",
    "on_failure",
    "when",
    "for_each",
    "after",
    "timeout",
];

/// The keys of a step that asks a person: with the others, later steps could run without an answer.
const REVIEW_KEYS: [&str; 3] = ["id", "review", "after"];

/// The largest timeout. The clock cannot represent much more.
const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);

/// The maximum number of characters of an id or a name.
const MAX_NAME_CHARS: usize = 200;

/// The maximum number of characters that a review tells the person.
const MAX_REVIEW_CHARS: usize = 1_000;

/// Parses steps in order and assigns an id to those without one.
pub(crate) struct StepParser {
    form: PlanForm,
    used_ids: HashSet<String>,
}

impl StepParser {
    pub(crate) fn new(form: PlanForm) -> Self {
        Self { form, used_ids: HashSet::new() }
    }

    pub(crate) fn step(
        &mut self,
        at: usize,
        node: &Node,
        findings: &mut PlanDiagnosticSink<'_>,
    ) -> Option<Step> {
        let Value::Map(entries) = &node.value else {
            findings.add(
                &lint::STEP,
                &node.span,
                format!("step {} is not an object", at + 1),
                "write {tool: …, args: {…}}",
            );
            return None;
        };
        report_unknown_keys(entries, &STEP_KEYS, findings);
        let (call, called) = parse_call(at, node, entries, findings)?;
        let id_node = find_node(entries, "id");
        let id = match id_node {
            Some(node) => parse_id(node, findings),
            None => self.default_id(at, &call),
        };
        self.used_ids.insert(id.clone());
        let args = args_node(at, entries, findings);
        let place =
            |key: &str| find_node(entries, key).map_or_else(|| node.span.clone(), |node| node.span.clone());
        let places = StepSpans {
            step: node.span.clone(),
            call: called.span.clone(),
            id: id_node.unwrap_or(called).span.clone(),
            args: args.map_or_else(|| node.span.clone(), |node| node.span.clone()),
            when: place("when"),
            after: place("after"),
        };
        Some(Step {
            id,
            call,
            args: args.map_or_else(Vec::new, |node| parse_args(at, node, findings)),
            when: find_node(entries, "when").and_then(|node| parse_when(node, findings)),
            for_each: find_node(entries, "for_each").and_then(|node| parse_for_each(node, findings)),
            on_failure: find_node(entries, "on_failure")
                .map_or(OnFailure::Abort, |node| parse_on_failure(node, findings)),
            after: find_node(entries, "after").map_or_else(Vec::new, |node| parse_after(node, findings)),
            timeout: find_node(entries, "timeout").and_then(|node| parse_timeout(node, findings)),
            places,
        })
    }

    /// The default id: the name of the callee. In a sequence, where steps are numbered, the number is appended if the name is
    /// taken.
    fn default_id(&self, at: usize, call: &CallTarget) -> String {
        let name = match call {
            CallTarget::Function(name) => name,
            CallTarget::Tool(name) => name.as_str(),
            CallTarget::Skill(name) => unqualified_name(name),
            CallTarget::Review(_) => "review",
        };
        let name = if is_name(name) { name.to_owned() } else { format!("step-{at}") };
        let is_taken = self.form == PlanForm::Sequence && self.used_ids.contains(&name);
        if is_taken { format!("{name}-{at}") } else { name }
    }
}

/// `word-count` of `project/.metier:word-count@1.2.0`.
fn unqualified_name(qualified: &str) -> &str {
    let name = qualified.rsplit_once(':').map_or(qualified, |(_, name)| name);
    name.split('@').next().unwrap_or(name)
}

fn parse_call<'a>(
    at: usize,
    step: &Node,
    entries: &'a [Entry],
    findings: &mut PlanDiagnosticSink<'_>,
) -> Option<(CallTarget, &'a Node)> {
    let keys = ["tool", "skill", "review"].map(|key| find_node(entries, key));
    let (node, is_skill) = match keys {
        [Some(tool), None, None] => (tool, false),
        [None, Some(skill), None] => (skill, true),
        [None, None, Some(review)] => return Some((parse_review(at, entries, review, findings)?, review)),
        _ => {
            let message = format!("step {} names no single thing to call", at + 1);
            findings.add(&lint::CALL, &step.span, message, "write `tool`, `skill` or `review`, one of them");
            return None;
        }
    };
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && !name.contains(char::is_control)
    };
    let Some(name) = string_scalar(node).filter(is_name) else {
        let message = format!("what step {} calls is not a name", at + 1);
        let help = format!("a name is a text of at most {MAX_NAME_CHARS} characters on one line");
        findings.add(&lint::CALL, &node.span, message, help);
        return None;
    };
    Some(match (is_skill, function(name)) {
        (true, _) => (CallTarget::Skill(name.to_owned()), node),
        (false, Some(function)) => (CallTarget::Function(function.name), node),
        (false, None) => (CallTarget::Tool(name.to_owned()), node),
    })
}

/// A review: its text, which may be left out.
fn parse_review(
    at: usize,
    entries: &[Entry],
    node: &Node,
    findings: &mut PlanDiagnosticSink<'_>,
) -> Option<CallTarget> {
    for entry in entries.iter().filter(|entry| !REVIEW_KEYS.contains(&entry.key.as_str())) {
        if STEP_KEYS.contains(&entry.key.as_str()) {
            let message = format!("step {} is a review, which has no {}", at + 1, entry.key);
            findings.add(
                &lint::REVIEW,
                &entry.key_span,
                message,
                "a review has `id` and `after`, and is never skipped",
            );
        }
    }
    if matches!(node.to_json(), Ok(Json::Null)) {
        return Some(CallTarget::Review(String::new()));
    }
    let is_line = |text: &&str| text.chars().count() <= MAX_REVIEW_CHARS && !text.contains(char::is_control);
    let Some(text) = string_scalar(node).filter(is_line) else {
        let message = format!("what step {} tells the person is not a text", at + 1);
        let help = format!("write at most {MAX_REVIEW_CHARS} characters on one line, or nothing");
        findings.add(&lint::REVIEW, &node.span, message, help);
        return None;
    };
    Some(CallTarget::Review(text.to_owned()))
}

fn parse_id(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> String {
    let id = string_scalar(node).unwrap_or_default();
    if !is_name(id) || id.chars().count() > MAX_NAME_CHARS {
        let message = format!("{} is not an id of a step", describe_node(node));
        findings.add(&lint::ID, &node.span, message, "use letters, digits, `_`, and hyphens between them");
    }
    id.to_owned()
}

fn args_node<'a>(at: usize, entries: &'a [Entry], findings: &mut PlanDiagnosticSink<'_>) -> Option<&'a Node> {
    match (find_node(entries, "args"), find_node(entries, "inputs_from")) {
        (Some(_), Some(twice)) => {
            let message = format!("step {} has args and inputs_from", at + 1);
            findings.add(&lint::ARGS, &twice.span, message, "keep one of them");
            None
        }
        (args, inputs) => args.or(inputs),
    }
}

fn parse_args(at: usize, node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Vec<NamedArgument> {
    match parse_argument(node, findings) {
        Some(Argument::Object(parameters)) => parameters,
        Some(Argument::Constant(Json::Object(_))) => {
            let Value::Map(entries) = &node.value else { return Vec::new() };
            entries.iter().filter_map(|entry| parse_named_argument(entry, findings)).collect()
        }
        None => Vec::new(),
        Some(_) => {
            let message = format!("what step {} is given is not an object", at + 1);
            findings.add(&lint::ARGS, &node.span, message, "write the parameters by name: {\"path\": …}");
            Vec::new()
        }
    }
}

fn parse_when(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<Condition> {
    let Some(text) = node.text() else {
        findings.add(&lint::WHEN, &node.span, "a condition is a text", "write when: $inputs.x == \"a\"");
        return None;
    };
    Condition::from_str(text)
        .map_err(|fault| findings.add_expression_error(&lint::WHEN, &node.span, text, &fault))
        .ok()
}

fn parse_for_each(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<ForEach> {
    let Value::Map(entries) = &node.value else {
        let list = parse_loop_list(node, findings)?;
        return Some(ForEach { list, variable: "item".into(), max_items: ForEach::DEFAULT_MAX_ITEMS });
    };
    report_unknown_keys(entries, &["in", "as", "max"], findings);
    let mut refuse = |node: &Node, message: &str, help: &str| {
        findings.add(&lint::FOR_EACH, &node.span, message, help);
        None
    };
    let variable = match find_node(entries, "as") {
        None => "item",
        Some(node) => match string_scalar(node) {
            Some(name)
                if is_name(name)
                    && !RESERVED_NAMES.contains(&name)
                    && !name.starts_with("step_")
                    && !name.starts_with(char::is_numeric) =>
            {
                name
            }
            _ => return refuse(node, "`as` names a variable", "write as: item"),
        },
    };
    let max = match find_node(entries, "max") {
        None => ForEach::DEFAULT_MAX_ITEMS,
        Some(node) => match node.to_json().ok().and_then(|value| value.as_u64()).map(usize::try_from) {
            Some(Ok(max)) if (1..=ForEach::MAX_ITEMS).contains(&max) => max,
            _ => return refuse(node, "`max` is a whole number from 1 to 10,000", "write max: 100"),
        },
    };
    let Some(items) = find_node(entries, "in") else {
        return refuse(node, "a loop must name a list", FOR_EACH_HELP);
    };
    Some(ForEach { list: parse_loop_list(items, findings)?, variable: variable.to_owned(), max_items: max })
}

const FOR_EACH_HELP: &str = "write for_each: {in: $inputs.files, as: file, max: 100}";

/// Parses the list of a loop, if the value may be a list.
fn parse_loop_list(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<Argument> {
    let list = parse_argument(node, findings)?;
    let may_be = match &list {
        Argument::Constant(value) => value.is_array(),
        Argument::Text(template, _) => matches!(template, Template::Reference(_)),
        Argument::List(_) => true,
        Argument::Object(_) => false,
    };
    if !may_be {
        let message = format!("a loop is for a list, and {} is none", describe_node(node));
        findings.add(&lint::FOR_EACH, &node.span, message, FOR_EACH_HELP);
    }
    may_be.then_some(list)
}

fn parse_on_failure(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> OnFailure {
    string_scalar(node).and_then(parse_failure_action).unwrap_or_else(|| {
        let message = format!("{} is nothing that can come of a failure", describe_node(node));
        let help = "write abort, continue, skip_rest, retry(3) or retry(3, 500ms); at most 10 times and 60s";
        findings.add(&lint::ON_FAILURE, &node.span, message, help);
        OnFailure::Abort
    })
}

fn parse_failure_action(word: &str) -> Option<OnFailure> {
    match word {
        "abort" => return Some(OnFailure::Abort),
        "continue" => return Some(OnFailure::Continue),
        "skip_rest" => return Some(OnFailure::SkipRest),
        _ => {}
    }
    let inside = word.strip_prefix("retry(")?.strip_suffix(')')?;
    let (times, backoff) = match inside.split_once(',') {
        Some((times, backoff)) => (times, parse_duration(backoff).ok()?),
        None => (inside, OnFailure::DEFAULT_BACKOFF),
    };
    let times = times.trim().parse().ok()?;
    let is_bearable = (1..=OnFailure::MAX_RETRIES).contains(&times) && backoff <= OnFailure::MAX_BACKOFF;
    is_bearable.then_some(OnFailure::Retry { times, backoff })
}

fn parse_after(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Vec<String> {
    let ids = match &node.value {
        Value::List(items) => items.iter().map(string_scalar).collect::<Option<Vec<_>>>(),
        _ => string_scalar(node).map(|id| vec![id]),
    };
    let Some(ids) = ids else {
        let message = "`after` is a list of ids of steps";
        findings.add(&lint::AFTER, &node.span, message, "write after: [first, second]");
        return Vec::new();
    };
    ids.into_iter().map(str::to_owned).collect()
}

fn parse_timeout(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<Duration> {
    let time = node.text().and_then(|text| parse_duration(text).ok()).map(|time| time.min(MAX_TIMEOUT));
    if time.is_none() {
        let message = "a timeout is a time";
        findings.add(
            &lint::TIMEOUT,
            &node.span,
            message,
            "write a number and its unit, as in 500ms, 30s or 5m",
        );
    }
    time
}

/// The text of a scalar that is a string: not a number, `true` or empty.
fn string_scalar(node: &Node) -> Option<&str> {
    let text = node.text()?;
    (node.style != Style::Plain || matches!(node.to_json(), Ok(Json::String(_)))).then_some(text)
}

/// Parses a value with its name.
fn parse_named_argument(entry: &Entry, findings: &mut PlanDiagnosticSink<'_>) -> Option<NamedArgument> {
    let value = parse_argument(&entry.node, findings)?;
    Some(NamedArgument { name: entry.key.clone(), value, span: entry.key_span.clone() })
}

/// Parses a value with the references in its texts; a value without any is one constant.
pub(crate) fn parse_argument(node: &Node, findings: &mut PlanDiagnosticSink<'_>) -> Option<Argument> {
    match &node.value {
        Value::Scalar(text) => parse_scalar(node, text, findings),
        Value::List(items) => {
            let items: Vec<Argument> =
                items.iter().map(|item| parse_argument(item, findings)).collect::<Option<_>>()?;
            Some(match constant_values(&items) {
                Some(values) => Argument::Constant(values.into()),
                None => Argument::List(items),
            })
        }
        Value::Map(entries) => {
            let parameters: Vec<NamedArgument> =
                entries.iter().map(|entry| parse_named_argument(entry, findings)).collect::<Option<_>>()?;
            let constant = |NamedArgument { name, value, .. }: &NamedArgument| match value {
                Argument::Constant(value) => Some((name.clone(), value.clone())),
                _ => None,
            };
            Some(match parameters.iter().map(constant).collect::<Option<serde_json::Map<_, _>>>() {
                Some(entries) => Argument::Constant(Json::Object(entries)),
                None => Argument::Object(parameters),
            })
        }
    }
}

fn constant_values(items: &[Argument]) -> Option<Vec<Json>> {
    items
        .iter()
        .map(|item| match item {
            Argument::Constant(value) => Some(value.clone()),
            _ => None,
        })
        .collect()
}

fn parse_scalar(node: &Node, text: &str, findings: &mut PlanDiagnosticSink<'_>) -> Option<Argument> {
    match node.to_json() {
        Ok(Json::String(_)) => {}
        Ok(value) => return Some(Argument::Constant(value)),
        Err(untyped) => {
            findings.add(&lint::ARGS, &untyped.span, untyped.message, "write a number that JSON has");
            return None;
        }
    }
    match text.parse::<Template>() {
        Ok(Template::Literal(text)) => Some(Argument::Constant(Json::String(text))),
        Ok(template) => Some(Argument::Text(template, node.span.clone())),
        Err(fault) => {
            findings.add_expression_error(&lint::REFERENCE, &node.span, text, &fault);
            None
        }
    }
}
