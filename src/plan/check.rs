//! All that can be known of a plan before its first step: whether its references lead anywhere, and whether what it calls is
//! there, takes what it is given and answers with what is used of it.

mod braces;
mod given;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value, json};

use super::argument::Place;
use super::callees::{Callees, Lookup};
use super::circle::Ways;
use super::findings::{Findings, brief, listed, near, nearest};
use super::known::{Known, Takes};
use super::reference::{Reference, Root, Segment};
use super::{Argument, Call, ForEach, Plan, Step, Template, rule, schema};
use crate::host::function;
use crate::skill::Diagnostic;

/// What is wrong with a plan of the skill of that identity, whose input this schema describes, where one does; and what is worth
/// knowing. What blocks keeps it from loading.
pub fn check(plan: &Plan, own: &str, inputs: Option<&Value>, callees: &dyn Callees) -> Vec<Diagnostic> {
    let mut checker = Checker {
        plan,
        at: 0,
        own,
        inputs,
        known: Known::new(callees),
        findings: Findings::on(plan.text()),
        taken: HashMap::new(),
        answered: HashMap::new(),
        cleared: BTreeSet::new(),
        ways: Ways::default(),
        effort: given::EFFORT,
    };
    for (at, step) in plan.steps().iter().enumerate() {
        checker.at = at;
        checker.step(at, step);
        if checker.findings.is_full() {
            break;
        }
    }
    if let Some(outputs) = plan.outputs() {
        let every = plan.steps().len();
        outputs.each_reference(&mut |reference, place| checker.reference(every, None, reference, place));
    }
    checker.findings.finish()
}

struct Checker<'a> {
    plan: &'a Plan,
    /// The step that is looked at.
    at: usize,
    own: &'a str,
    inputs: Option<&'a Value>,
    known: Known<'a>,
    findings: Findings<'a>,
    /// What calls are given and answer with, each described once however many steps make it.
    taken: HashMap<&'a Call, Option<Rc<Takes>>>,
    answered: HashMap<&'a Call, Option<Rc<Value>>>,
    /// Callees that lead into no circle.
    cleared: BTreeSet<&'a str>,
    ways: Ways,
    /// What holding constants against schemas may still cost.
    effort: u64,
}

impl<'a> Checker<'a> {
    fn step(&mut self, at: usize, step: &'a Step) {
        self.call(step);
        for id in &step.after {
            if self.plan.position(id).is_none_or(|earlier| earlier >= at) {
                let message = format!("{} is no step before {}", brief(id), step.id);
                let help = self.earlier(at, id);
                self.findings.add(&rule::AFTER, &step.places.after, message, help);
            }
        }
        let variable = step.for_each.as_ref().map(|each| each.variable.as_str());
        for parameter in &step.args {
            self.braces(parameter);
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
            self.list(each);
        }
        self.given(step);
    }

    /// Whether a reference in the step at that place leads anywhere.
    fn reference(&mut self, at: usize, variable: Option<&str>, reference: &Reference, place: &Place) {
        if self.findings.is_full() {
            return;
        }
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
            let help = self.earlier(at, if let Root::Step(id) = &reference.root { id } else { "" });
            return self.findings.add(&rule::REFERENCE_UNKNOWN, place, message, help);
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
        if let Some((what, help)) = self.misses(named, &reference.path) {
            let message = format!("{reference}: what {} answers with {what}", self.plan.steps()[named].id);
            self.findings.add(&rule::OUTPUT, place, message, help);
        }
    }

    /// Why a step answers with nothing where the path leads.
    fn misses(&mut self, at: usize, path: &[Segment]) -> Option<(String, String)> {
        let step = &self.plan.steps()[at];
        let schema = self.answers(&step.call);
        match (&step.for_each, path.split_first()) {
            (None, _) => schema::misses(&*schema?, path),
            (Some(_), Some((Segment::Index(_), rest))) => schema::misses(&*schema?, rest),
            (Some(_), _) => schema::misses(&json!({"type": "array"}), path),
        }
    }

    fn input(&mut self, reference: &Reference, place: &Place) {
        let Some(schema) = self.inputs else { return };
        if let Some((what, help)) = schema::misses(schema, &reference.path) {
            let message = format!("{reference}: the input of the skill {what}");
            self.findings.add(&rule::INPUT, place, message, help);
        }
    }

    /// The types of what a reference leads to, as far as they are declared.
    fn types(&mut self, reference: &Reference, each: Option<&'a ForEach>) -> Option<Vec<String>> {
        let at = match &reference.root {
            Root::Inputs => return schema::types_at(self.inputs?, &reference.path),
            Root::Variable(_) => {
                let Argument::Text(Template::Whole(list), _) = &each?.list else { return None };
                let mut item = list.clone();
                item.path.push(Segment::Index(0));
                item.path.extend(reference.path.iter().cloned());
                return self.types(&item, None);
            }
            // Of a later step it is told already that it is one.
            root => self.plan.step_of(root).filter(|named| *named < self.at)?,
        };
        let step = &self.plan.steps()[at];
        match (&step.for_each, reference.path.split_first()) {
            (None, _) => schema::types_at(&*self.answers(&step.call)?, &reference.path),
            (Some(_), None) => Some(vec!["array".to_owned()]),
            (Some(_), Some((_, rest))) => schema::types_at(&*self.answers(&step.call)?, rest),
        }
    }

    /// What a call answers with, as far as it is declared.
    fn answers(&mut self, call: &'a Call) -> Option<Rc<Value>> {
        if let Some(known) = self.answered.get(call) {
            return known.clone();
        }
        let schema = match call {
            Call::Function(name) => function(name).map(|function| function.returns.schema()),
            Call::Skill(name) => match &*self.known.skill(name) {
                Lookup::Found(callee) => callee.output_schema.clone(),
                _ => None,
            },
            Call::Tool(_) => None,
        };
        self.answered.entry(call).or_insert(schema.map(Rc::new)).clone()
    }

    fn call(&mut self, step: &'a Step) {
        match &step.call {
            Call::Function(_) => step.skill().into_iter().for_each(|name| self.ways(name, step)),
            Call::Tool(name) => match &*self.known.tool(name) {
                Lookup::Found(_) => {}
                Lookup::Untold => self.untold(name, step),
                Lookup::Missing(why) => {
                    let functions = crate::host::functions().iter().map(|function| function.name);
                    let help = why.help().map_or_else(|| nearest(bare(name), functions), str::to_owned);
                    self.findings.add(&rule::TOOL_UNKNOWN, &step.places.call, why.message(), help);
                }
            },
            Call::Skill(name) => match &*self.known.skill(name) {
                Lookup::Found(_) => self.ways(name, step),
                Lookup::Untold => {}
                Lookup::Missing(why) => {
                    let (message, help) = (why.message().to_owned(), why.help().map(str::to_owned));
                    let help = help.unwrap_or_else(|| "`metier list` lists the skills there are".into());
                    self.findings.add(&rule::SKILL_UNKNOWN, &step.places.call, message, help);
                }
            },
        }
    }

    /// A tool that whoever runs the plan may have or not.
    fn untold(&mut self, name: &str, step: &Step) {
        let functions = crate::host::functions().iter().map(|function| function.name);
        let message =
            format!("no function is called {}, so it is a tool that the host must offer", brief(name));
        if let Some(function) = near(bare(name), functions) {
            let help = format!("did you mean {function}?");
            self.findings.add(&rule::TOOL_SLIP, &step.places.call, message, help);
            return;
        }
        let help = "it runs only where that tool is offered; `metier api` lists the functions";
        self.findings.add(&rule::TOOL_UNTOLD, &step.places.call, message, help);
    }

    /// Where a call leads.
    fn ways(&mut self, name: &'a str, step: &Step) {
        if !self.cleared.insert(name) {
            return;
        }
        let place = &step.places.call;
        match self.ways.from(self.own, name, &mut self.known) {
            Err(names) => {
                let message = format!("skills call one another in a circle: {}", names.join(" > "));
                self.findings.add(&rule::CIRCLE, place, message, "take one of these calls out");
            }
            Ok(names) if names.len() > Plan::DEEPEST_CALLS => {
                let (deepest, count) = (Plan::DEEPEST_CALLS, names.len());
                let shown = names[..=deepest].join(" > ");
                let message = format!(
                    "skills may call one another {deepest} deep, and these would be {count} deep: {shown}"
                );
                self.findings.add(&rule::TOO_DEEP, place, message, "let one skill do what two of them do");
            }
            Ok(_) => {}
        }
    }

    /// The steps that a reference may name there, as a way out for one that names `word`.
    fn earlier(&self, at: usize, word: &str) -> String {
        match self.plan.steps().get(..at) {
            None | Some([]) => "no step comes before this one".into(),
            Some(earlier) => {
                let ids = earlier.iter().map(|step| step.id.as_str());
                if word.is_empty() { listed(ids) } else { nearest(word, ids) }
            }
        }
    }
}

/// The names of inputs that may be left out without being wrong: those that are declared.
pub(super) fn declared_inputs(schema: Option<&Value>) -> BTreeSet<String> {
    schema.and_then(schema::declared).into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Whether a declared input may be left out, and nothing stands in for it.
fn may_be_absent(schema: &Value, name: &str) -> bool {
    schema::declared(schema).is_some_and(|declared| declared.contains_key(name))
        && !schema::has_default(schema, name)
        && !schema::required(schema).any(|required| required == name)
}

/// The name of a function as a plan has it: scripts call it by `ctx.`.
fn bare(name: &str) -> &str {
    name.strip_prefix("ctx.").unwrap_or(name)
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
