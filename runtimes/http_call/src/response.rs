//! The value of a response: what the declaration expects of it is checked, and what it asks for is taken.

use http::StatusCode;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::host::SkillContext;
use metier_core::policy::CancelToken;
use metier_core::strict_json;
use metier_core::template::{Reference, ReferenceRoot, ResolveError, Resolver};
use metier_skill::contract::{CallDefinition, RESPONSE, ResponseFormat, ResultTemplate};
use serde_json::{Map, Value, json};

/// The most characters of a response that an error repeats.
const MAX_SHOWN: usize = 300;

/// The status of a response that `ctx.http` answered with.
fn status_of(response: &Value) -> u16 {
    response["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default()
}

/// `tool` where the status is none that the call expects, in the words of the service: `[GitHub] Not Found (HTTP 404)`.
pub(super) fn check_status(call: &CallDefinition, service: &str, response: &Value) -> Result<()> {
    let status = status_of(response);
    if call.statuses.iter().any(|range| range.contains(&status)) {
        return Ok(());
    }
    let text = response["body"].as_str().unwrap_or_default().trim();
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let known = || StatusCode::from_u16(status).ok()?.canonical_reason().map(str::to_owned);
    let reason = named_reason(&body).or_else(|| (!text.is_empty()).then(|| text.to_owned())).or_else(known);
    Err(service_error(service, &reason.unwrap_or_else(|| "no reason was given".into()), status))
}

fn service_error(service: &str, reason: &str, status: u16) -> SkillError {
    response_error(format!("[{service}] {} (HTTP {status})", shorten(reason, MAX_SHOWN)))
}

/// What an answer in JSON says about its failure, in the places where services write it, and what it says besides about the first cause.
fn named_reason(body: &Value) -> Option<String> {
    const HEADLINES: [&str; 4] = ["/error/message", "/message", "/msg", "/title"];
    const CAUSES: [&str; 4] = ["/errors/0/message", "/errors/0/detail", "/errors/0", "/details"];
    const OTHERS: [&str; 4] = ["/error_description", "/detail", "/error", "/errors"];
    let text = |places: &[&str]| {
        let mut texts = places.iter().filter_map(|place| body.pointer(place)?.as_str()).map(str::trim);
        texts.find(|text| !text.is_empty())
    };
    match (text(&HEADLINES), text(&CAUSES)) {
        (Some(headline), Some(cause)) if headline != cause => Some(format!("{headline}: {cause}")),
        (headline, cause) => headline.or(cause).or_else(|| text(&OTHERS)).map(str::to_owned),
    }
}

/// The response as references name it, with its body read; `tool` for a body that cannot be read.
pub(super) fn read_response(call: &CallDefinition, response: &Value) -> Result<Value> {
    let text = response["body"].as_str().unwrap_or_default();
    let parse = |text: &str| {
        strict_json::parse_repaired(text)
            .map_err(|error| response_error(format!("the body of the response is no JSON: {error}")))
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).map(parse);
    let body = match call.response {
        ResponseFormat::Text => Value::from(text),
        ResponseFormat::Json if text.trim().is_empty() => Value::Null,
        ResponseFormat::Json => parse(text)?,
        ResponseFormat::JsonLines => Value::Array(lines().collect::<Result<_>>()?),
    };
    Ok(json!({"status": status_of(response), "headers": response["headers"], "body": body}))
}

/// `tool`, in the words of the service, where a response says that the call failed.
pub(super) fn check_success(call: &CallDefinition, service: &str, response: &Value) -> Result<()> {
    let scope = Scope::new(&Value::Null, response);
    let has_value = |field: &&Reference| {
        scope.lookup(field).is_some_and(|value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            Value::String(text) => !text.is_empty(),
            Value::Bool(_) | Value::Number(_) => true,
        })
    };
    let is_untrue = |field: &&Reference| scope.lookup(field) != Some(&Value::Bool(true));
    let sentence = if let Some(field) = call.absent.iter().find(has_value) {
        format!("the response has {field}")
    } else if let Some(field) = call.is_true.iter().find(is_untrue) {
        format!("the response says that the call failed: {field} is not true")
    } else {
        return Ok(());
    };
    let reason = named_reason(&response["body"]).unwrap_or(sentence);
    Err(service_error(service, &reason, status_of(response)))
}

/// `tool` where a response has not what the call expects.
pub(super) fn check_fields(call: &CallDefinition, response: &Value) -> Result<()> {
    let scope = Scope::new(&Value::Null, response);
    let missing = |field: &&Reference| scope.lookup(field).is_none_or(Value::is_null);
    match call.required.iter().find(missing) {
        Some(field) => Err(response_error(format!("the response has no {field}"))),
        None => Ok(()),
    }
}

/// The bytes that each value counts besides its text.
const NODE_BYTES: u64 = 16;

/// How large what is made of responses may become, and whether the run goes on.
pub(super) struct ResultBudget<'r> {
    left: u64,
    token: &'r CancelToken,
}

impl<'r> ResultBudget<'r> {
    pub(super) fn new(ctx: &'r SkillContext) -> Self {
        Self { left: ctx.limits().output, token: ctx.cancel() }
    }

    /// What is left of it, for a part that may turn out to be too much.
    pub(super) fn copy(&self) -> Self {
        Self { ..*self }
    }

    /// Counts bytes before they are taken; `output` if there are too many.
    pub(super) fn take(&mut self, bytes: u64) -> Result<()> {
        self.token.check()?;
        self.left = self.left.checked_sub(bytes).ok_or_else(|| resolve_error(ResolveError::TooLarge))?;
        Ok(())
    }
}

/// Approximate bytes of the value that a text in JSON becomes.
pub(super) fn json_memory(text: &str) -> u64 {
    let of_byte = |byte: u8| match byte {
        b'{' => 200,
        b'[' | b':' | b'\n' => 64,
        b',' => 80,
        _ => 1,
    };
    text.bytes().map(of_byte).sum()
}

/// What a result may refer to.
#[derive(Clone)]
pub(super) struct Scope<'v> {
    input: &'v Value,
    /// The nearest one of a name is last.
    variables: Vec<(&'v str, &'v Value)>,
}

impl<'v> Scope<'v> {
    pub(super) fn new(input: &'v Value, response: &'v Value) -> Self {
        Self { input, variables: vec![(RESPONSE, response)] }
    }

    pub(super) fn with(&self, name: &'v str, value: &'v Value) -> Self {
        let mut scope = self.clone();
        scope.variables.push((name, value));
        scope
    }

    pub(super) fn variable(&self, name: &str) -> Option<&'v Value> {
        self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(super) fn lookup(&self, reference: &Reference) -> Option<&'v Value> {
        match &reference.root {
            ReferenceRoot::Inputs => reference.resolve_in(self.input),
            ReferenceRoot::Variable(name) => reference.resolve_in(self.variable(name)?),
            _ => None,
        }
    }

    /// The value of a template, within the budget; `tool` where the response has no such part.
    pub(super) fn value(&self, template: &ResultTemplate, budget: &mut ResultBudget<'_>) -> Result<Value> {
        Ok(self.resolve(template, budget)?.unwrap_or_default())
    }

    /// The same; `None` for a reference to what is not there, which is left out of its object.
    fn resolve(&self, template: &ResultTemplate, budget: &mut ResultBudget<'_>) -> Result<Option<Value>> {
        budget.take(NODE_BYTES)?;
        Ok(Some(match template {
            ResultTemplate::Value(value) => {
                let lookup = |reference: &Reference| self.lookup(reference);
                let mut resolver = Resolver::new(lookup, budget.left);
                let found = resolver.value(value).map_err(resolve_error)?;
                budget.left = resolver.left();
                return Ok(found);
            }
            ResultTemplate::List(items) => {
                items.iter().map(|item| self.value(item, budget)).collect::<Result<Vec<_>>>()?.into()
            }
            ResultTemplate::Object(entries) => {
                let mut object = Map::new();
                for (key, value) in entries {
                    budget.take(key.len() as u64)?;
                    object.extend(self.resolve(value, budget)?.map(|value| (key.clone(), value)));
                }
                object.into()
            }
            ResultTemplate::ForEach { items, name, value } => match self.lookup(items) {
                None | Some(Value::Null) => json!([]),
                Some(Value::Array(found)) => {
                    let each = |item| self.with(name, item).value(value, budget);
                    found.iter().map(each).collect::<Result<Vec<_>>>()?.into()
                }
                Some(_) => return Err(response_error(format!("{items} is not a list"))),
            },
        }))
    }
}

fn resolve_error(error: ResolveError) -> SkillError {
    match error {
        ResolveError::Missing(reference) => response_error(format!("the response has no {reference}")),
        ResolveError::TooLarge => {
            SkillError::new(ErrorKind::Output, "the value is larger than the output limit")
                .with_help("take less of the response")
        }
    }
}

pub(super) fn response_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::Tool, sentence)
}
