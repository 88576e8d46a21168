//! What a step gives, held against what is taken: names, plain values, and the types of what references lead to.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::{Checker, first_input, may_be_absent};
use crate::host::function;
use crate::plan::argument::Parameter;
use crate::plan::callees::{Callee, Lookup};
use crate::plan::findings::{brief, brief_value, nearest};
use crate::plan::known::Takes;
use crate::plan::{Argument, Call, ForEach, Step, Template, rule, schema};
use crate::skill::contract::Unfit;

/// Bytes of constants times bytes of schemas that are held against one another; beyond that the run finds out.
pub(super) const EFFORT: u64 = 10_000_000_000;

impl<'a> Checker<'a> {
    /// Holds what a step gives against what its call takes.
    pub(super) fn given(&mut self, step: &'a Step) {
        let Some(takes) = self.takes(&step.call) else { return };
        let is_closed = match &step.call {
            Call::Function(_) => true,
            Call::Tool(_) => schema::is_closed(&takes.json),
            Call::Skill(_) => schema::takes_only_declared(&takes.json),
        };
        let declared = schema::declared(&takes.json);
        for parameter in &step.args {
            if self.findings.is_full() {
                return;
            }
            match declared.and_then(|declared| declared.get(&parameter.name)) {
                Some(inner) => self.parameter(step, parameter, inner),
                None if is_closed && declared.is_some() => {
                    let known = declared.into_iter().flatten().map(|(name, _)| name.as_str());
                    let message = format!("{} has no parameter {}", step.call, brief(&parameter.name));
                    let help = nearest(&parameter.name, known);
                    self.findings.add(&rule::PARAMETER_UNKNOWN, &parameter.place, message, help);
                }
                None => {}
            }
        }
        self.required(step, &takes);
        self.constants(step, &takes);
    }

    fn takes(&mut self, call: &'a Call) -> Option<Rc<Takes>> {
        if let Some(known) = self.taken.get(call) {
            return known.clone();
        }
        let takes = match call {
            Call::Function(name) => function_takes(name).map(Takes::new),
            Call::Tool(name) => match &*self.known.tool(name) {
                Lookup::Found(takes) => Some(takes.clone()),
                _ => None,
            },
            Call::Skill(name) => match &*self.known.skill(name) {
                Lookup::Found(Callee { input_schema, .. }) => input_schema.clone().map(Takes::of_skill),
                _ => None,
            },
        };
        self.taken.entry(call).or_insert(takes.map(Rc::new)).clone()
    }

    /// A parameter that is declared as this.
    fn parameter(&mut self, step: &'a Step, parameter: &'a Parameter, inner: &Value) {
        let name = &parameter.name;
        match &parameter.value {
            Argument::Constant(value) => {
                if let Some(expected) = schema::unfit(inner, value) {
                    let message = format!("{name} of {} cannot be {}", step.call, brief_value(value));
                    let help = format!("it is {expected}");
                    self.findings.add(&rule::PARAMETER_VALUE, &parameter.place, message, help);
                }
            }
            Argument::Text(Template::Whole(reference), place) => {
                let Some(types) = self.types(reference, step.for_each.as_ref()) else { return };
                if let Some(expected) = schema::clash(inner, &types) {
                    let message = format!(
                        "{name} of {} is {expected}, and {reference} is declared as {}",
                        step.call,
                        types.join(" or ")
                    );
                    let is_text_taken = schema::clash(inner, &["string".to_owned()]).is_none();
                    let in_text =
                        format!("give what fits, or put it into a text, as in \"item: {reference}\"");
                    let help = if is_text_taken { in_text } else { "give what fits".into() };
                    self.findings.add(&rule::PARAMETER_TYPE, place, message, help);
                }
            }
            Argument::Text(..) => self.kind(step, parameter, inner, "string"),
            Argument::List(_) => self.kind(step, parameter, inner, "array"),
            Argument::Object(_) => self.kind(step, parameter, inner, "object"),
        }
    }

    /// A value that is put together is of this type, whatever goes into it.
    fn kind(&mut self, step: &Step, parameter: &Parameter, inner: &Value, kind: &str) {
        if let Some(expected) = schema::clash(inner, &[kind.to_owned()]) {
            let message = format!("{} of {} is {expected}, and this is {kind}", parameter.name, step.call);
            self.findings.add(&rule::PARAMETER_TYPE, &parameter.place, message, "give what fits");
        }
    }

    /// Whether what a loop is for may be a list.
    pub(super) fn list(&mut self, each: &'a ForEach) {
        let Argument::Text(Template::Whole(reference), place) = &each.list else { return };
        let Some(types) = self.types(reference, None) else { return };
        if schema::clash(&json!({"type": "array"}), &types).is_some() {
            let message =
                format!("a loop is for a list, and {reference} is declared as {}", types.join(" or "));
            self.findings.add(&rule::FOR_EACH, place, message, "name a list");
        }
    }

    fn required(&mut self, step: &Step, takes: &Takes) {
        let given: HashSet<&str> = step.args.iter().map(|parameter| parameter.name.as_str()).collect();
        for name in &takes.required {
            if self.findings.is_full() {
                return;
            }
            if !given.contains(name.as_str()) {
                let message = format!("{} must be given {}", step.call, brief(name));
                self.findings.add(
                    &rule::PARAMETER_MISSING,
                    &step.places.args,
                    message,
                    "add it to what the step is given",
                );
            }
        }
        // A condition may well ask whether the input is there.
        let Some(inputs) = self.inputs.filter(|_| step.when.is_none() && step.for_each.is_none()) else {
            return;
        };
        let required: HashSet<&str> = takes.required.iter().map(String::as_str).collect();
        for parameter in step.args.iter().filter(|parameter| required.contains(parameter.name.as_str())) {
            let Argument::Text(Template::Whole(reference), place) = &parameter.value else { continue };
            if first_input(reference).is_some_and(|name| may_be_absent(inputs, name)) {
                let message = format!(
                    "{} must be given {}, and {reference} may be left out",
                    step.call,
                    brief(&parameter.name)
                );
                let help = "make the input required, give it a default, or ask for it with when";
                self.findings.add(&rule::PARAMETER_OPTIONAL, place, message, help);
            }
        }
    }

    /// Plain values held against the whole of what is declared for them.
    fn constants(&mut self, step: &Step, takes: &Takes) {
        let Some(schema) = takes.schema.as_ref().filter(|_| schema::is_by_name(&takes.json)) else { return };
        let declared = schema::declared(&takes.json);
        let plain: Map<String, Value> = step
            .args
            .iter()
            .filter_map(|Parameter { name, value, .. }| match value {
                Argument::Constant(value) => {
                    let inner = declared?.get(name)?;
                    schema::unfit(inner, value).is_none().then(|| (name.clone(), value.clone()))
                }
                _ => None,
            })
            .collect();
        if plain.is_empty() {
            return;
        }
        let plain = Value::Object(plain);
        let filled = schema.with_defaults(plain.clone());
        let cost = (filled.to_string().len() as u64).saturating_mul(takes.json.to_string().len() as u64);
        let Some(left) = self.effort.checked_sub(cost) else { return };
        self.effort = left;
        let Err(Unfit::Broken { violations, .. }) = schema.check(&filled) else { return };
        for violation in &violations {
            let within = |parameter: &&Parameter| {
                let pointer = format!("/{}", parameter.name.replace('~', "~0").replace('/', "~1"));
                let rest = violation.path.strip_prefix(&pointer);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let is_plain = |parameter: &&Parameter| plain.get(&parameter.name).is_some();
            let Some(parameter) = step.args.iter().filter(is_plain).find(within) else { continue };
            let message = format!(
                "{} of {} cannot be {}",
                parameter.name,
                step.call,
                brief_value(&plain[&parameter.name])
            );
            let help = format!("{}: expected {}", violation.path, violation.expected);
            self.findings.add(&rule::PARAMETER_VALUE, &parameter.place, message, help);
        }
    }
}

/// What a function takes by name.
fn function_takes(name: &str) -> Option<Value> {
    let function = function(name)?;
    let properties: Map<String, Value> =
        function.params.iter().map(|param| (param.name.to_owned(), param.kind.schema())).collect();
    let required: Vec<&str> =
        function.params.iter().filter(|param| param.required).map(|param| param.name).collect();
    Some(json!({"type": "object", "properties": properties, "required": required}))
}
