//! All that can be known of a plan before its first step: whether its references lead anywhere, and whether what it calls is
//! there, takes what it is given and answers with what is used of it.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::argument::{Argument, Place};
use super::callees::{Callee, Callees, Lookup};
use super::circle::circle;
use super::findings::{Findings, brief, nearest};
use super::reference::{Reference, Root, Segment};
use super::{Call, Plan, Step, rule, schema};
use crate::host::function;
use crate::skill::Diagnostic;

/// What is wrong with a plan of the skill of that identity, whose input this schema describes, where one does.
pub fn check(plan: &Plan, own: &str, inputs: Option<&Value>, callees: &dyn Callees) -> Vec<Diagnostic> {
    let mut checker = Checker {
        plan,
        own,
        inputs,
        callees,
        findings: Findings::on(plan.text()),
        skills: HashMap::new(),
        cleared: BTreeSet::new(),
    };
    for (at, step) in plan.steps().iter().enumerate() {
        checker.step(at, step);
    }
    if let Some(outputs) = plan.outputs() {
        let every = plan.steps().len();
        outputs.each_reference(&mut |reference, place| checker.reference(every, None, reference, place));
    }
    checker.findings.finish()
}

struct Checker<'a> {
    plan: &'a Plan,
    own: &'a str,
    inputs: Option<&'a Value>,
    callees: &'a dyn Callees,
    findings: Findings<'a>,
    /// Each callee is looked up once, however many steps call it.
    skills: HashMap<&'a str, Lookup<Callee>>,
    /// Callees that lead into no circle.
    cleared: BTreeSet<&'a str>,
}

impl<'a> Checker<'a> {
    fn step(&mut self, at: usize, step: &'a Step) {
        self.call(step);
        for id in &step.after {
            if self.plan.position(id).is_none_or(|earlier| earlier >= at) {
                let message = format!("{} is no step before {}", brief(id), step.id);
                self.findings.add(&rule::AFTER, &step.places.after, message, self.earlier(at));
            }
        }
        let variable = step.for_each.as_ref().map(|each| each.variable.as_str());
        for parameter in &step.args {
            parameter
                .value
                .each_reference(&mut |reference, place| self.reference(at, variable, reference, place));
        }
        if let Some(when) = &step.when {
            for reference in when.references() {
                self.reference(at, None, reference, &step.places.when);
            }
        }
        if let Some(each) = &step.for_each {
            each.list.each_reference(&mut |reference, place| self.reference(at, None, reference, place));
        }
    }

    /// Whether a reference in the step at that place leads anywhere.
    fn reference(&mut self, at: usize, variable: Option<&str>, reference: &Reference, place: &Place) {
        let named = match &reference.root {
            Root::Inputs => return self.input(reference, place),
            Root::Variable(name) if variable == Some(name.as_str()) => return,
            Root::Variable(name) => {
                let known = ["inputs", "steps", "result"].into_iter().chain(variable);
                let message = format!("${name} names nothing");
                return self.findings.add(&rule::REFERENCE_UNKNOWN, place, message, nearest(name, known));
            }
            root => self.plan.step_of(root),
        };
        let Some(named) = named else {
            let message = format!("{reference} names no step");
            return self.findings.add(&rule::REFERENCE_UNKNOWN, place, message, self.earlier(at));
        };
        if named >= at {
            let which = if named == at { "the step itself" } else { "a later step" };
            let message = format!("{reference} names {which}");
            return self.findings.add(
                &rule::REFERENCE_FORWARD,
                place,
                message,
                "a step sees what came before it",
            );
        }
        let Some(schema) = self.outputs_of(named) else { return };
        if let Some((what, help)) = schema::misses(&schema, &reference.path) {
            let message = format!("{reference}: what {} answers with {what}", self.plan.steps()[named].id);
            self.findings.add(&rule::OUTPUT, place, message, help);
        }
    }

    fn input(&mut self, reference: &Reference, place: &Place) {
        let Some(schema) = self.inputs else { return };
        if let Some((what, help)) = schema::misses(schema, &reference.path) {
            let message = format!("{reference}: the input of the skill {what}");
            self.findings.add(&rule::INPUT, place, message, help);
        }
    }

    /// What a step answers with, as far as it is declared.
    fn outputs_of(&mut self, at: usize) -> Option<Value> {
        let step = &self.plan.steps()[at];
        let schema = match &step.call {
            Call::Function(name) => function(name).map(|function| function.returns.schema()),
            Call::Skill(name) => match self.skill(name) {
                Lookup::Found(callee) => callee.output_schema.clone(),
                _ => None,
            },
            Call::Tool(_) => None,
        };
        match &step.for_each {
            Some(_) => Some(json!({"type": "array", "items": schema.unwrap_or_else(|| json!({}))})),
            None => schema,
        }
    }

    fn call(&mut self, step: &'a Step) {
        match &step.call {
            Call::Function(name) => {
                let Some(function) = function(name) else { return };
                let properties: serde_json::Map<String, Value> = function
                    .params
                    .iter()
                    .map(|param| (param.name.to_owned(), param.kind.schema()))
                    .collect();
                let required: Vec<&str> =
                    function.params.iter().filter(|param| param.required).map(|param| param.name).collect();
                let schema = json!({"type": "object", "properties": properties, "required": required});
                self.parameters(step, &schema, true);
            }
            Call::Tool(name) => match self.callees.tool(name) {
                Lookup::Found(schema) => self.parameters(step, &schema, schema::is_closed(&schema)),
                Lookup::Untold => {}
                Lookup::Missing(why) => {
                    let functions = crate::host::functions().iter().map(|function| function.name);
                    let help = why.help().map_or_else(|| nearest(name, functions), str::to_owned);
                    self.findings.add(&rule::TOOL_UNKNOWN, &step.places.call, why.message(), help);
                }
            },
            Call::Skill(name) => match self.skill(name) {
                Lookup::Found(callee) => {
                    if let Some(schema) = callee.input_schema.clone() {
                        self.parameters(step, &schema, schema::takes_only_declared(&schema));
                    }
                    self.circle(name, step);
                }
                Lookup::Untold => {}
                Lookup::Missing(why) => {
                    let (message, help) = (why.message().to_owned(), why.help().map(str::to_owned));
                    let help = help.unwrap_or_else(|| "`metier list` lists the skills there are".into());
                    self.findings.add(&rule::SKILL_UNKNOWN, &step.places.call, message, help);
                }
            },
        }
    }

    fn circle(&mut self, name: &'a str, step: &Step) {
        if !self.cleared.insert(name) {
            return;
        }
        if let Some(names) = circle(self.own, name, self.callees) {
            let message = format!("skills call one another in a circle: {}", names.join(" > "));
            self.findings.add(&rule::CIRCLE, &step.places.call, message, "take one of these calls out");
        }
    }

    /// Holds what a step gives against what is taken.
    fn parameters(&mut self, step: &Step, schema: &Value, is_closed: bool) {
        let declared = schema::declared(schema);
        for parameter in &step.args {
            match declared.and_then(|declared| declared.get(&parameter.name)) {
                Some(inner) => {
                    let Argument::Constant(value) = &parameter.value else { continue };
                    if let Some(expected) = schema::unfit(inner, value) {
                        let message = format!(
                            "{} of {} cannot be {}",
                            parameter.name,
                            step.call,
                            brief(&value.to_string())
                        );
                        self.findings.add(
                            &rule::PARAMETER_VALUE,
                            &parameter.place,
                            message,
                            format!("it is {expected}"),
                        );
                    }
                }
                None if is_closed && declared.is_some() => {
                    let known = declared.into_iter().flatten().map(|(name, _)| name.as_str());
                    let message = format!("{} has no parameter {}", step.call, brief(&parameter.name));
                    let help = nearest(&parameter.name, known);
                    self.findings.add(&rule::PARAMETER_UNKNOWN, &parameter.place, message, help);
                }
                None => {}
            }
        }
        for name in schema::required(schema) {
            if !step.args.iter().any(|parameter| parameter.name == name) {
                let message = format!("{} must be given {}", step.call, brief(name));
                self.findings.add(
                    &rule::PARAMETER_MISSING,
                    &step.places.args,
                    message,
                    "add it to what the step is given",
                );
            }
        }
    }

    fn skill(&mut self, name: &'a str) -> &Lookup<Callee> {
        self.skills.entry(name).or_insert_with(|| self.callees.skill(name))
    }

    /// The steps that a reference may name there, as a way out.
    fn earlier(&self, at: usize) -> String {
        match self.plan.steps().get(..at) {
            None | Some([]) => "no step comes before this one".into(),
            Some(earlier) => nearest("", earlier.iter().map(|step| step.id.as_str())),
        }
    }
}

/// The names of inputs that may be left out without being wrong: those that are declared.
pub(super) fn declared_inputs(schema: Option<&Value>) -> BTreeSet<String> {
    schema.and_then(schema::declared).into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// The input a reference names first, where it names one.
pub(super) fn first_input(reference: &Reference) -> Option<&str> {
    match (&reference.root, reference.path.first()) {
        (Root::Inputs, Some(Segment::Field(name))) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests;
