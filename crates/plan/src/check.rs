//! Checks a plan before its first step: whether its references resolve, whether its callees exist, whether they accept their
//! arguments, and whether they return what later steps use.

mod arguments;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value, json};

use self::call_graph::CallGraph;
use self::callee_cache::{CallInputSchema, CalleeCache};
use super::callees::{CalleeLookup, Callees};
use crate::diagnostic_sink::{PlanDiagnosticSink, list_names, quoted_excerpt, suggest_name};
use crate::model::step::SourceSpan;
use crate::{Argument, CallTarget, ForEach, Plan, Step, lint};
use metier_core::host::function;
use metier_core::suggestion::{closest, did_you_mean};
use metier_core::template::{PathSegment, Reference, ReferenceRoot, Template};
use metier_skill::Diagnostic;

/// The budget for validating constants, in bytes of constants times bytes of schemas; beyond it, the run finds the errors.
const VALIDATION_BUDGET: u64 = 10_000_000_000;

/// The errors and advice for a plan of the skill with the identity `own`; `inputs` is the JSON Schema of its input, if one is
/// declared. A blocking diagnostic keeps the plan from loading.
pub fn check(plan: &Plan, own: &str, inputs: Option<&Value>, callees: &dyn Callees) -> Vec<Diagnostic> {
    let mut checker = Checker {
        plan,
        step_index: 0,
        caller_identity: own,
        input_schema: inputs,
        callee_cache: CalleeCache::new(callees),
        diagnostics: PlanDiagnosticSink::for_text(plan.text()),
        input_schemas: HashMap::new(),
        output_schemas: HashMap::new(),
        checked_callees: BTreeSet::new(),
        call_graph: CallGraph::default(),
        validation_budget: VALIDATION_BUDGET,
    };
    for (at, step) in plan.steps().iter().enumerate() {
        checker.step_index = at;
        checker.check_step(at, step);
        if checker.diagnostics.is_full() {
            break;
        }
    }
    if let Some(outputs) = plan.outputs() {
        let every = plan.steps().len();
        outputs
            .visit_references(&mut |reference, place| checker.check_reference(every, None, reference, place));
    }
    checker.diagnostics.into_sorted()
}

struct Checker<'a> {
    plan: &'a Plan,
    /// The step that is being checked.
    step_index: usize,
    caller_identity: &'a str,
    input_schema: Option<&'a Value>,
    callee_cache: CalleeCache<'a>,
    diagnostics: PlanDiagnosticSink<'a>,
    /// The input and output schemas of the calls, each looked up once however many steps make the call.
    input_schemas: HashMap<&'a CallTarget, Option<Rc<CallInputSchema>>>,
    output_schemas: HashMap<&'a CallTarget, Option<Rc<Value>>>,
    /// Callees whose calls lead into no cycle.
    checked_callees: BTreeSet<&'a str>,
    call_graph: CallGraph,
    /// The budget that is left for validating constants against schemas.
    validation_budget: u64,
}

impl<'a> Checker<'a> {
    fn check_step(&mut self, at: usize, step: &'a Step) {
        self.check_call(step);
        for id in &step.after {
            if self.plan.step_index(id).is_none_or(|earlier| earlier >= at) {
                let message = format!("{} is not a step before {}", quoted_excerpt(id), step.id);
                let help = self.suggest_earlier_step(at, id);
                self.diagnostics.add(&lint::AFTER, &step.places.after, message, help);
            }
        }
        let variable = step.for_each.as_ref().map(|each| each.variable.as_str());
        for parameter in &step.args {
            self.check_braces(parameter);
            parameter.value.visit_references(&mut |reference, place| {
                self.check_reference(at, variable, reference, place);
            });
        }
        if let Some(when) = &step.when {
            for reference in when.references() {
                self.check_reference(at, None, reference, &step.places.when);
            }
        }
        if let Some(each) = &step.for_each {
            each.list
                .visit_references(&mut |reference, place| self.check_reference(at, None, reference, place));
            self.check_loop_list(each);
        }
        self.check_arguments(step);
    }

    /// Checks that a reference in the step at this index resolves.
    fn check_reference(
        &mut self,
        at: usize,
        variable: Option<&str>,
        reference: &Reference,
        place: &SourceSpan,
    ) {
        if self.diagnostics.is_full() {
            return;
        }
        let named = match &reference.root {
            ReferenceRoot::Inputs => return self.check_input_reference(reference, place),
            ReferenceRoot::Variable(name) if variable == Some(name.as_str()) => return,
            ReferenceRoot::Variable(name) => {
                let known = ["inputs", "steps", "result"].into_iter().chain(variable);
                let message = format!("${name} names nothing");
                return self.diagnostics.add(
                    &lint::REFERENCE_UNKNOWN,
                    place,
                    message,
                    suggest_name(name, known),
                );
            }
            root => self.plan.referenced_step(root),
        };
        let Some(named) = named else {
            let message = format!("{reference} names no step");
            let help = self.suggest_earlier_step(
                at,
                if let ReferenceRoot::Step(id) = &reference.root { id } else { "" },
            );
            return self.diagnostics.add(&lint::REFERENCE_UNKNOWN, place, message, help);
        };
        if named >= at {
            let which = if named == at { "the step itself" } else { "a later step" };
            let message = format!("{reference} names {which}");
            return self.diagnostics.add(
                &lint::REFERENCE_FORWARD,
                place,
                message,
                "a step sees what came before it",
            );
        }
        if let Some((what, help)) = self.output_path_error(named, &reference.path) {
            let message = format!("{reference}: what {} answers with {what}", self.plan.steps()[named].id);
            self.diagnostics.add(&lint::OUTPUT, place, message, help);
        }
    }

    /// Why the output of a step has no value at this path.
    fn output_path_error(&mut self, at: usize, path: &[PathSegment]) -> Option<(String, String)> {
        let step = &self.plan.steps()[at];
        let schema = self.output_schema(&step.call);
        match (&step.for_each, path.split_first()) {
            (None, _) => schema_query::path_error(&*schema?, path),
            (Some(_), Some((PathSegment::Index(_), rest))) => schema_query::path_error(&*schema?, rest),
            (Some(_), _) => schema_query::path_error(&json!({"type": "array"}), path),
        }
    }

    fn check_input_reference(&mut self, reference: &Reference, place: &SourceSpan) {
        let Some(schema) = self.input_schema else { return };
        if let Some((what, help)) = schema_query::path_error(schema, &reference.path) {
            let message = format!("{reference}: the input of the skill {what}");
            self.diagnostics.add(&lint::INPUT, place, message, help);
        }
    }

    /// The declared types of the value that a reference names, as far as they are declared.
    fn reference_types(&mut self, reference: &Reference, each: Option<&'a ForEach>) -> Option<Vec<String>> {
        let at = match &reference.root {
            ReferenceRoot::Inputs => return schema_query::types_at_path(self.input_schema?, &reference.path),
            ReferenceRoot::Variable(_) => {
                let Argument::Text(Template::Reference(list), _) = &each?.list else { return None };
                let mut item = list.clone();
                item.path.push(PathSegment::Index(0));
                item.path.extend(reference.path.iter().cloned());
                return self.reference_types(&item, None);
            }
            // A reference to a later step has already been reported.
            root => self.plan.referenced_step(root).filter(|named| *named < self.step_index)?,
        };
        let step = &self.plan.steps()[at];
        match (&step.for_each, reference.path.split_first()) {
            (None, _) => schema_query::types_at_path(&*self.output_schema(&step.call)?, &reference.path),
            (Some(_), None) => Some(vec!["array".to_owned()]),
            (Some(_), Some((_, rest))) => {
                schema_query::types_at_path(&*self.output_schema(&step.call)?, rest)
            }
        }
    }

    /// The declared output of a call, if any.
    fn output_schema(&mut self, call: &'a CallTarget) -> Option<Rc<Value>> {
        if let Some(known) = self.output_schemas.get(call) {
            return known.clone();
        }
        let schema = match call {
            CallTarget::Function(name) => function(name).map(|function| function.returns.json_schema()),
            CallTarget::Skill(name) => match &*self.callee_cache.skill(name) {
                CalleeLookup::Found(callee) => callee.output_schema.clone(),
                _ => None,
            },
            CallTarget::Tool(_) => None,
            CallTarget::Review(_) => Some(review_output_schema()),
        };
        self.output_schemas.entry(call).or_insert(schema.map(Rc::new)).clone()
    }

    fn check_call(&mut self, step: &'a Step) {
        match &step.call {
            CallTarget::Function(_) => {
                step.skill().into_iter().for_each(|name| self.check_call_graph(name, step));
            }
            CallTarget::Tool(name) => match &*self.callee_cache.tool(name) {
                CalleeLookup::Found(_) => {}
                CalleeLookup::Unknown => self.report_unverified_tool(name, step),
                CalleeLookup::Missing(why) => {
                    let functions = metier_core::host::functions().iter().map(|function| function.name);
                    let help = why
                        .help()
                        .map_or_else(|| suggest_name(without_ctx_prefix(name), functions), str::to_owned);
                    self.diagnostics.add(&lint::TOOL_UNKNOWN, &step.places.call, why.message(), help);
                }
            },
            CallTarget::Skill(name) => match &*self.callee_cache.skill(name) {
                CalleeLookup::Found(_) => self.check_call_graph(name, step),
                CalleeLookup::Unknown => {}
                CalleeLookup::Missing(why) => {
                    let (message, help) = (why.message().to_owned(), why.help().map(str::to_owned));
                    let help = help.unwrap_or_else(|| "name a skill that the project has".into());
                    self.diagnostics.add(&lint::SKILL_UNKNOWN, &step.places.call, message, help);
                }
            },
            CallTarget::Review(_) => {}
        }
    }

    /// Reports a tool that the host may or may not provide.
    fn report_unverified_tool(&mut self, name: &str, step: &Step) {
        let functions = metier_core::host::functions().iter().map(|function| function.name);
        let message = format!(
            "no function is called {}, so it is a tool that the host must offer",
            quoted_excerpt(name)
        );
        if let Some(function) = closest(without_ctx_prefix(name), functions) {
            let help = did_you_mean(function);
            self.diagnostics.add(&lint::TOOL_SLIP, &step.places.call, message, help);
            return;
        }
        let help =
            "it runs only where that tool is offered; the documentation of the host API lists the functions";
        self.diagnostics.add(&lint::TOOL_UNTOLD, &step.places.call, message, help);
    }

    /// Checks the chain of skill calls that this call starts, for cycles and for its depth.
    fn check_call_graph(&mut self, name: &'a str, step: &Step) {
        if !self.checked_callees.insert(name) {
            return;
        }
        let place = &step.places.call;
        match self.call_graph.longest_chain_from(self.caller_identity, name, &mut self.callee_cache) {
            Err(names) => {
                let message = format!("skills call one another in a circle: {}", names.join(" > "));
                self.diagnostics.add(&lint::CIRCLE, place, message, "take one of these calls out");
            }
            Ok(names) if names.len() > Plan::MAX_CALL_DEPTH => {
                let (deepest, count) = (Plan::MAX_CALL_DEPTH, names.len());
                let shown = names[..=deepest].join(" > ");
                let message = format!(
                    "skills may call one another {deepest} deep, and these would be {count} deep: {shown}"
                );
                self.diagnostics.add(&lint::TOO_DEEP, place, message, "let one skill do what two of them do");
            }
            Ok(_) => self.check_callee_reviews(name, place),
        }
    }

    /// Only the plan that runs first can wait for a person: those that it calls are in the midst of its steps.
    fn check_callee_reviews(&mut self, name: &'a str, place: &SourceSpan) {
        let mut names = vec![name.to_owned()];
        let mut seen: BTreeSet<String> = names.iter().cloned().collect();
        while let Some(name) = names.pop() {
            let CalleeLookup::Found(callee) = &*self.callee_cache.skill(&name) else { continue };
            if callee.has_review {
                let message =
                    format!("the plan of the skill {name} has a review, so no other skill can call it");
                let help = "put the review into this plan, or run that skill by itself";
                return self.diagnostics.add(&lint::REVIEW, place, message, help);
            }
            names.extend(callee.calls.iter().filter(|called| seen.insert((*called).clone())).cloned());
        }
    }

    /// Names the steps that a reference at this step may use, as a hint for a reference that names `word`.
    fn suggest_earlier_step(&self, at: usize, word: &str) -> String {
        match self.plan.steps().get(..at) {
            None | Some([]) => "no step comes before this one".into(),
            Some(earlier) => {
                let ids = earlier.iter().map(|step| step.id.as_str());
                if word.is_empty() { list_names(ids) } else { suggest_name(word, ids) }
            }
        }
    }
}

/// What a review answers with.
fn review_output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"]},
            "digest": {"type": ["string", "null"]},
            "applied": {"type": "integer"},
        },
        "required": ["id", "digest", "applied"],
        "additionalProperties": false,
    })
}

/// The names of inputs that may be absent without an error: the declared ones.
pub(super) fn declared_input_names(schema: Option<&Value>) -> BTreeSet<String> {
    schema
        .and_then(schema_query::declared_properties)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

/// Whether a declared input is optional and has no default.
fn may_be_absent(schema: &Value, name: &str) -> bool {
    schema_query::declared_properties(schema).is_some_and(|declared| declared.contains_key(name))
        && !schema_query::has_default(schema, name)
        && !schema_query::required_names(schema).any(|required| required == name)
}

/// The name of a function as a plan writes it: without the `ctx.` of scripts.
fn without_ctx_prefix(name: &str) -> &str {
    name.strip_prefix("ctx.").unwrap_or(name)
}

/// The input that is first in a reference's path, if it names one.
pub(super) fn input_name(reference: &Reference) -> Option<&str> {
    match (&reference.root, reference.path.first()) {
        (ReferenceRoot::Inputs, Some(PathSegment::Field(name))) => Some(name),
        _ => None,
    }
}

pub(super) mod call_graph;
pub(super) mod callee_cache;
pub(super) mod schema_query;
#[cfg(test)]
pub(super) mod tests;
