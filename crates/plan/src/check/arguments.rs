//! Checks the arguments of a step against the schema of its call: names, constant values, and the types of references.

use std::collections::HashSet;
use std::rc::Rc;

use metier_core::host::function;
use metier_core::template::{
    Reference, ReferenceBody, ReferenceRoot, Template, TemplatePiece, parse_reference_body,
};
use metier_skill::contract::ValidationFailure;
use serde_json::{Map, Value, json};

use super::{Checker, input_name, may_be_absent};
use crate::callees::{Callee, CalleeLookup};
use crate::check::callee_cache::CallInputSchema;
use crate::check::schema_query;
use crate::diagnostic_sink::{quoted_excerpt, suggest_name, value_excerpt};
use crate::{Argument, CallTarget, ForEach, NamedArgument, Step, lint};

impl<'a> Checker<'a> {
    /// Checks the arguments of a step against the parameters of its call.
    pub(super) fn check_arguments(&mut self, step: &'a Step) {
        let Some(takes) = self.call_input_schema(&step.call) else { return };
        let is_closed = match &step.call {
            CallTarget::Function(_) => true,
            CallTarget::Tool(_) => schema_query::forbids_additional_properties(&takes.json),
            CallTarget::Skill(_) => schema_query::declares_no_additional_properties(&takes.json),
            CallTarget::Review(_) => return,
        };
        let declared = schema_query::declared_properties(&takes.json);
        for parameter in &step.args {
            if self.diagnostics.is_full() {
                return;
            }
            match declared.and_then(|declared| declared.get(&parameter.name)) {
                Some(inner) => self.check_argument(step, parameter, inner),
                None if is_closed && declared.is_some() => {
                    let known = declared.into_iter().flatten().map(|(name, _)| name.as_str());
                    let message =
                        format!("{} has no parameter {}", step.call, quoted_excerpt(&parameter.name));
                    let help = suggest_name(&parameter.name, known);
                    self.diagnostics.add(&lint::PARAMETER_UNKNOWN, &parameter.span, message, help);
                }
                None => {}
            }
        }
        self.check_required(step, &takes);
        self.check_constants(step, &takes);
    }

    fn call_input_schema(&mut self, call: &'a CallTarget) -> Option<Rc<CallInputSchema>> {
        if let Some(known) = self.input_schemas.get(call) {
            return known.clone();
        }
        let takes = match call {
            CallTarget::Function(name) => function_input_schema(name).map(CallInputSchema::new),
            CallTarget::Tool(name) => match &*self.callee_cache.tool(name) {
                CalleeLookup::Found(takes) => Some(takes.clone()),
                _ => None,
            },
            CallTarget::Skill(name) => match &*self.callee_cache.skill(name) {
                CalleeLookup::Found(Callee { input_schema, .. }) => {
                    input_schema.clone().map(CallInputSchema::for_skill)
                }
                _ => None,
            },
            CallTarget::Review(_) => None,
        };
        self.input_schemas.entry(call).or_insert(takes.map(Rc::new)).clone()
    }

    /// Checks one argument against the schema of its parameter.
    fn check_argument(&mut self, step: &'a Step, parameter: &'a NamedArgument, inner: &Value) {
        let name = &parameter.name;
        match &parameter.value {
            Argument::Constant(value) => {
                if let Some(expected) = schema_query::value_mismatch(inner, value) {
                    let message = format!("{name} of {} cannot be {}", step.call, value_excerpt(value));
                    let help = format!("it is {expected}");
                    self.diagnostics.add(&lint::PARAMETER_VALUE, &parameter.span, message, help);
                }
            }
            Argument::Text(Template::Reference(reference), place) => {
                let Some(types) = self.reference_types(reference, step.for_each.as_ref()) else { return };
                if let Some(expected) = schema_query::type_mismatch(inner, &types) {
                    let message = format!(
                        "{name} of {} is {expected}, and {reference} is declared as {}",
                        step.call,
                        types.join(" or ")
                    );
                    let is_text_taken = schema_query::type_mismatch(inner, &["string".to_owned()]).is_none();
                    let in_text =
                        format!("give what fits, or put it into a text, as in \"item: {reference}\"");
                    let help = if is_text_taken { in_text } else { "give what fits".into() };
                    self.diagnostics.add(&lint::PARAMETER_TYPE, place, message, help);
                }
            }
            Argument::Text(..) => self.check_composed_type(step, parameter, inner, "string"),
            Argument::List(_) => self.check_composed_type(step, parameter, inner, "array"),
            Argument::Object(_) => self.check_composed_type(step, parameter, inner, "object"),
        }
    }

    /// Checks the type of a composed value, which is the same whatever values go into it.
    fn check_composed_type(&mut self, step: &Step, parameter: &NamedArgument, inner: &Value, kind: &str) {
        if let Some(expected) = schema_query::type_mismatch(inner, &[kind.to_owned()]) {
            let message = format!("{} of {} is {expected}, and this is {kind}", parameter.name, step.call);
            self.diagnostics.add(&lint::PARAMETER_TYPE, &parameter.span, message, "give what fits");
        }
    }

    /// Checks that the value of `for_each` may be a list.
    pub(super) fn check_loop_list(&mut self, each: &'a ForEach) {
        let Argument::Text(Template::Reference(reference), place) = &each.list else { return };
        let Some(types) = self.reference_types(reference, None) else { return };
        if schema_query::type_mismatch(&json!({"type": "array"}), &types).is_some() {
            let message =
                format!("a loop is for a list, and {reference} is declared as {}", types.join(" or "));
            self.diagnostics.add(&lint::FOR_EACH, place, message, "name a list");
        }
    }

    fn check_required(&mut self, step: &Step, takes: &CallInputSchema) {
        let given: HashSet<&str> = step.args.iter().map(|parameter| parameter.name.as_str()).collect();
        for name in &takes.required {
            if self.diagnostics.is_full() {
                return;
            }
            if !given.contains(name.as_str()) {
                let message = format!("{} must be given {}", step.call, quoted_excerpt(name));
                self.diagnostics.add(
                    &lint::PARAMETER_MISSING,
                    &step.places.args,
                    message,
                    "add it to what the step is given",
                );
            }
        }
        // A condition may test whether the input is present.
        let Some(inputs) = self.input_schema.filter(|_| step.when.is_none() && step.for_each.is_none())
        else {
            return;
        };
        let required: HashSet<&str> = takes.required.iter().map(String::as_str).collect();
        for parameter in step.args.iter().filter(|parameter| required.contains(parameter.name.as_str())) {
            let Argument::Text(Template::Reference(reference), place) = &parameter.value else { continue };
            if input_name(reference).is_some_and(|name| may_be_absent(inputs, name)) {
                let message = format!(
                    "{} must be given {}, and {reference} may be left out",
                    step.call,
                    quoted_excerpt(&parameter.name)
                );
                let help = "make the input required, give it a default, or ask for it with when";
                self.diagnostics.add(&lint::PARAMETER_OPTIONAL, place, message, help);
            }
        }
    }

    /// Validates constant arguments against the whole schema of the call.
    fn check_constants(&mut self, step: &Step, takes: &CallInputSchema) {
        let Some(schema) =
            takes.schema.as_ref().filter(|_| schema_query::has_independent_properties(&takes.json))
        else {
            return;
        };
        let declared = schema_query::declared_properties(&takes.json);
        let plain: Map<String, Value> = step
            .args
            .iter()
            .filter_map(|NamedArgument { name, value, .. }| match value {
                Argument::Constant(value) => {
                    let inner = declared?.get(name)?;
                    schema_query::value_mismatch(inner, value)
                        .is_none()
                        .then(|| (name.clone(), value.clone()))
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
        let Some(left) = self.validation_budget.checked_sub(cost) else { return };
        self.validation_budget = left;
        let Err(ValidationFailure::Violations { violations, .. }) = schema.validate(&filled) else { return };
        for violation in &violations {
            let within = |parameter: &&NamedArgument| {
                let pointer = format!("/{}", parameter.name.replace('~', "~0").replace('/', "~1"));
                let rest = violation.path.strip_prefix(&pointer);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let is_plain = |parameter: &&NamedArgument| plain.get(&parameter.name).is_some();
            let Some(parameter) = step.args.iter().filter(is_plain).find(within) else { continue };
            let message = format!(
                "{} of {} cannot be {}",
                parameter.name,
                step.call,
                value_excerpt(&plain[&parameter.name])
            );
            let help = format!("{}: expected {}", violation.path, violation.expected);
            self.diagnostics.add(&lint::PARAMETER_VALUE, &parameter.span, message, help);
        }
    }
}

/// The named parameters of a function, as a schema.
fn function_input_schema(name: &str) -> Option<Value> {
    let function = function(name)?;
    let properties: Map<String, Value> =
        function.params.iter().map(|param| (param.name.to_owned(), param.value_type.json_schema())).collect();
    let required: Vec<&str> =
        function.params.iter().filter(|param| param.required).map(|param| param.name).collect();
    Some(json!({"type": "object", "properties": properties, "required": required}))
}

impl Checker<'_> {
    pub(super) fn check_braces(&mut self, parameter: &NamedArgument) {
        let Some(meant) = find_braced_reference(&parameter.value) else { return };
        let message = format!("{{{{…}}}} in {} is only text", quoted_excerpt(&parameter.name));
        let help =
            format!("write {meant} for its value, or ${{{}}} beside other text", ReferenceBody(&meant));
        self.diagnostics.add(&lint::BRACES, &parameter.span, message, help);
    }
}

/// The first reference in double braces anywhere in a value.
fn find_braced_reference(value: &Argument) -> Option<Reference> {
    match value {
        Argument::Constant(constant) => find_in_constant(constant),
        Argument::Text(Template::Literal(text), _) => find_in_text(text),
        Argument::Text(Template::Reference(_), _) => None,
        Argument::Text(Template::Pieces(pieces), _) => {
            pieces.iter().flat_map(TemplatePiece::texts).find_map(find_in_text)
        }
        Argument::List(items) => items.iter().find_map(find_braced_reference),
        Argument::Object(entries) => entries.iter().find_map(|entry| find_braced_reference(&entry.value)),
    }
}

fn find_in_constant(value: &Value) -> Option<Reference> {
    match value {
        Value::String(text) => find_in_text(text),
        Value::Array(items) => items.iter().find_map(find_in_constant),
        Value::Object(entries) => entries.values().find_map(find_in_constant),
        _ => None,
    }
}

/// `{{inputs.x}}`, with blanks or without. Other words in braces belong to other template languages.
fn find_in_text(text: &str) -> Option<Reference> {
    text.match_indices("{{").find_map(|(at, braces)| {
        let inside = text[at + braces.len()..].trim_start();
        let (reference, end) = parse_reference_body(inside, 0).ok()?;
        let is_ours = !matches!(reference.root, ReferenceRoot::Variable(_));
        (is_ours && inside[end..].trim_start().starts_with("}}")).then_some(reference)
    })
}
