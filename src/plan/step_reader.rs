//! One step as it stands in a file.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value as Json;

use super::argument::{Argument, Parameter};
use super::argument_reader::{argument, parameter};
use super::condition::Condition;
use super::findings::{Findings, told};
use super::read::{found, known_keys};
use super::reference::{RESERVED, is_name};
use super::step::{Call, ForEach, OnFailure, Places, Step};
use super::template::Template;
use super::{Form, rule};
use crate::host::function;
use crate::policy::amount::duration;
use crate::skill::yaml::{Entry, Node, Style, Value};

const KEYS: [&str; 10] =
    ["id", "skill", "tool", "args", "inputs_from", "on_failure", "when", "for_each", "after", "timeout"];

/// The clock cannot hold much more.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Characters an id or a name may have.
const LONGEST_NAME: usize = 200;

/// Reads steps in their order and gives those an id that have none.
pub(super) struct StepReader {
    form: Form,
    taken: HashSet<String>,
}

impl StepReader {
    pub(super) fn new(form: Form) -> Self {
        Self { form, taken: HashSet::new() }
    }

    pub(super) fn step(&mut self, at: usize, node: &Node, findings: &mut Findings<'_>) -> Option<Step> {
        let Value::Map(entries) = &node.value else {
            findings.add(
                &rule::STEP,
                &node.span,
                format!("step {} is no object", at + 1),
                "write {tool: …, args: {…}}",
            );
            return None;
        };
        known_keys(entries, &KEYS, findings);
        let (call, called) = call(at, node, entries, findings)?;
        let id_node = found(entries, "id");
        let id = match id_node {
            Some(node) => id(node, findings),
            None => self.default_id(at, &call),
        };
        self.taken.insert(id.clone());
        let args = given(at, entries, findings);
        let place =
            |key: &str| found(entries, key).map_or_else(|| node.span.clone(), |node| node.span.clone());
        let places = Places {
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
            args: args.map_or_else(Vec::new, |node| parameters(at, node, findings)),
            when: found(entries, "when").and_then(|node| when(node, findings)),
            for_each: found(entries, "for_each").and_then(|node| for_each(node, findings)),
            on_failure: found(entries, "on_failure")
                .map_or(OnFailure::Abort, |node| on_failure(node, findings)),
            after: found(entries, "after").map_or_else(Vec::new, |node| after(node, findings)),
            timeout: found(entries, "timeout").and_then(|node| timeout(node, findings)),
            places,
        })
    }

    /// The name of what is called. In a sequence, where steps are numbered, a second one has its number behind it.
    fn default_id(&self, at: usize, call: &Call) -> String {
        let name = match call {
            Call::Function(name) => name,
            Call::Tool(name) => name.as_str(),
            Call::Skill(name) => plain_name(name),
        };
        let name = if is_name(name) { name.to_owned() } else { format!("step-{at}") };
        let is_taken = self.form == Form::Sequence && self.taken.contains(&name);
        if is_taken { format!("{name}-{at}") } else { name }
    }
}

/// `word-count` of `project/.metier:word-count@1.2.0`.
fn plain_name(qualified: &str) -> &str {
    let name = qualified.rsplit_once(':').map_or(qualified, |(_, name)| name);
    name.split('@').next().unwrap_or(name)
}

fn call<'a>(
    at: usize,
    step: &Node,
    entries: &'a [Entry],
    findings: &mut Findings<'_>,
) -> Option<(Call, &'a Node)> {
    let (node, is_skill) = match (found(entries, "tool"), found(entries, "skill")) {
        (Some(tool), None) => (tool, false),
        (None, Some(skill)) => (skill, true),
        _ => {
            let message = format!("step {} names no single thing to call", at + 1);
            findings.add(&rule::CALL, &step.span, message, "write `tool` or `skill`, one of them");
            return None;
        }
    };
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().count() <= LONGEST_NAME && !name.contains(char::is_control)
    };
    let Some(name) = text(node).filter(is_name) else {
        let message = format!("what step {} calls is no name", at + 1);
        let help = format!("a name is a text of at most {LONGEST_NAME} characters on one line");
        findings.add(&rule::CALL, &node.span, message, help);
        return None;
    };
    Some(match (is_skill, function(name)) {
        (true, _) => (Call::Skill(name.to_owned()), node),
        (false, Some(function)) => (Call::Function(function.name), node),
        (false, None) => (Call::Tool(name.to_owned()), node),
    })
}

fn id(node: &Node, findings: &mut Findings<'_>) -> String {
    let id = text(node).unwrap_or_default();
    if !is_name(id) || id.chars().count() > LONGEST_NAME {
        let message = format!("{} is no id of a step", told(node));
        findings.add(&rule::ID, &node.span, message, "use letters, digits, `_`, and hyphens between them");
    }
    id.to_owned()
}

fn given<'a>(at: usize, entries: &'a [Entry], findings: &mut Findings<'_>) -> Option<&'a Node> {
    match (found(entries, "args"), found(entries, "inputs_from")) {
        (Some(_), Some(twice)) => {
            let message = format!("step {} has args and inputs_from", at + 1);
            findings.add(&rule::ARGS, &twice.span, message, "keep one of them");
            None
        }
        (args, inputs) => args.or(inputs),
    }
}

fn parameters(at: usize, node: &Node, findings: &mut Findings<'_>) -> Vec<Parameter> {
    match argument(node, findings) {
        Some(Argument::Object(parameters)) => parameters,
        Some(Argument::Constant(Json::Object(_))) => {
            let Value::Map(entries) = &node.value else { return Vec::new() };
            entries.iter().filter_map(|entry| parameter(entry, findings)).collect()
        }
        None => Vec::new(),
        Some(_) => {
            let message = format!("what step {} is given is no object", at + 1);
            findings.add(&rule::ARGS, &node.span, message, "write the parameters by name: {\"path\": …}");
            Vec::new()
        }
    }
}

fn when(node: &Node, findings: &mut Findings<'_>) -> Option<Condition> {
    let Some(text) = node.text() else {
        findings.add(&rule::WHEN, &node.span, "a condition is a text", "write when: $inputs.x == \"a\"");
        return None;
    };
    Condition::from_str(text).map_err(|fault| findings.unreadable(&rule::WHEN, &node.span, text, &fault)).ok()
}

fn for_each(node: &Node, findings: &mut Findings<'_>) -> Option<ForEach> {
    let Value::Map(entries) = &node.value else {
        let list = list(node, findings)?;
        return Some(ForEach { list, variable: "item".into(), max: ForEach::DEFAULT });
    };
    known_keys(entries, &["in", "as", "max"], findings);
    let mut refuse = |node: &Node, message: &str, help: &str| {
        findings.add(&rule::FOR_EACH, &node.span, message, help);
        None
    };
    let variable = match found(entries, "as") {
        None => "item",
        Some(node) => match text(node) {
            Some(name)
                if is_name(name)
                    && !RESERVED.contains(&name)
                    && !name.starts_with("step_")
                    && !name.starts_with(char::is_numeric) =>
            {
                name
            }
            _ => return refuse(node, "`as` names a variable", "write as: item"),
        },
    };
    let max = match found(entries, "max") {
        None => ForEach::DEFAULT,
        Some(node) => match node.typed().ok().and_then(|value| value.as_u64()).map(usize::try_from) {
            Some(Ok(max)) if (1..=ForEach::MOST).contains(&max) => max,
            _ => return refuse(node, "`max` is a whole number from 1 to 10,000", "write max: 100"),
        },
    };
    let Some(items) = found(entries, "in") else {
        return refuse(node, "a loop says what it is for", LOOP);
    };
    Some(ForEach { list: list(items, findings)?, variable: variable.to_owned(), max })
}

const LOOP: &str = "write for_each: {in: $inputs.files, as: file, max: 100}";

/// What a loop is for, where that may be a list.
fn list(node: &Node, findings: &mut Findings<'_>) -> Option<Argument> {
    let list = argument(node, findings)?;
    let may_be = match &list {
        Argument::Constant(value) => value.is_array(),
        Argument::Text(template, _) => matches!(template, Template::Whole(_)),
        Argument::List(_) => true,
        Argument::Object(_) => false,
    };
    if !may_be {
        let message = format!("a loop is for a list, and {} is none", told(node));
        findings.add(&rule::FOR_EACH, &node.span, message, LOOP);
    }
    may_be.then_some(list)
}

fn on_failure(node: &Node, findings: &mut Findings<'_>) -> OnFailure {
    text(node).and_then(outcome).unwrap_or_else(|| {
        let message = format!("{} is nothing that can come of a failure", told(node));
        let help = "write abort, continue, skip_rest, retry(3) or retry(3, 500ms); at most 10 times and 60s";
        findings.add(&rule::ON_FAILURE, &node.span, message, help);
        OnFailure::Abort
    })
}

fn outcome(word: &str) -> Option<OnFailure> {
    match word {
        "abort" => return Some(OnFailure::Abort),
        "continue" => return Some(OnFailure::Continue),
        "skip_rest" => return Some(OnFailure::SkipRest),
        _ => {}
    }
    let inside = word.strip_prefix("retry(")?.strip_suffix(')')?;
    let (times, backoff) = match inside.split_once(',') {
        Some((times, backoff)) => (times, duration(backoff).ok()?),
        None => (inside, OnFailure::FIRST_WAIT),
    };
    let times = times.trim().parse().ok()?;
    let is_bearable = (1..=OnFailure::MOST_RETRIES).contains(&times) && backoff <= OnFailure::LONGEST_WAIT;
    is_bearable.then_some(OnFailure::Retry { times, backoff })
}

fn after(node: &Node, findings: &mut Findings<'_>) -> Vec<String> {
    let ids = match &node.value {
        Value::List(items) => items.iter().map(text).collect::<Option<Vec<_>>>(),
        _ => text(node).map(|id| vec![id]),
    };
    let Some(ids) = ids else {
        let message = "`after` is a list of ids of steps";
        findings.add(&rule::AFTER, &node.span, message, "write after: [first, second]");
        return Vec::new();
    };
    ids.into_iter().map(str::to_owned).collect()
}

fn timeout(node: &Node, findings: &mut Findings<'_>) -> Option<Duration> {
    let time = node.text().and_then(|text| duration(text).ok()).map(|time| time.min(LONGEST));
    if time.is_none() {
        let message = "a timeout is a time";
        findings.add(
            &rule::TIMEOUT,
            &node.span,
            message,
            "write a number and its unit, as in 500ms, 30s or 5m",
        );
    }
    time
}

/// The text of a scalar that is one: neither a number nor `true` nor nothing.
fn text(node: &Node) -> Option<&str> {
    let text = node.text()?;
    (node.style != Style::Plain || matches!(node.typed(), Ok(Json::String(_)))).then_some(text)
}
