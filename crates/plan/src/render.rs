//! Renders a plan: as JSON for programs, with the keys that a plan is written in, and as a tree for people.

use std::fmt;

use metier_core::template::Template;
use serde_json::{Map, Value, json};

use crate::model::step::{Argument, NamedArgument};
use crate::{CallTarget, ForEach, OnFailure, Plan, PlanForm, Step};

impl Plan {
    /// `{file, form, concurrency, steps, outputs_from}`: each step as a plan writes it, with its id and without the keys that
    /// it does not set; `form` is `sequence`, `steps` or `composed_of`, and `outputs_from` is `null` if the plan does not set
    /// it.
    pub fn json(&self) -> Value {
        let form = match self.form {
            PlanForm::Sequence => "sequence",
            PlanForm::Steps => "steps",
            PlanForm::ComposedOf => "composed_of",
        };
        let concurrency = if self.form == PlanForm::Sequence { 1 } else { self.concurrency };
        json!({
            "file": self.file,
            "form": form,
            "concurrency": concurrency,
            "steps": self.steps.iter().map(step).collect::<Vec<Value>>(),
            "outputs_from": self.outputs.as_ref().map(argument),
        })
    }
}

fn step(step: &Step) -> Value {
    let mut said = Map::new();
    said.insert("id".to_owned(), step.id.as_str().into());
    let (key, name) = match &step.call {
        CallTarget::Function(name) => ("tool", *name),
        CallTarget::Tool(name) => ("tool", name.as_str()),
        CallTarget::Skill(name) => ("skill", name.as_str()),
        CallTarget::Review(text) => ("review", text.as_str()),
    };
    said.insert(key.to_owned(), name.into());
    let when = step.when.as_ref().map(|when| when.to_string().into());
    let for_each = step
        .for_each
        .as_ref()
        .map(|each| json!({"in": argument(&each.list), "as": each.variable, "max": each.max_items}));
    let on_failure = Some(step.on_failure).filter(|what| *what != OnFailure::Abort);
    let parts = [
        ("args", (!step.args.is_empty()).then(|| object(&step.args))),
        ("when", when),
        ("for_each", for_each),
        ("on_failure", on_failure.map(|what| what.to_string().into())),
        ("after", (!step.after.is_empty()).then(|| json!(step.after))),
        ("timeout", step.timeout.map(|limit| format!("{}ms", limit.as_millis()).into())),
    ];
    said.extend(parts.into_iter().filter_map(|(key, part)| Some((key.to_owned(), part?))));
    Value::Object(said)
}

fn argument(said: &Argument) -> Value {
    match said {
        Argument::Constant(value) => constant(value),
        Argument::Text(template, _) => template.to_string().into(),
        Argument::List(items) => items.iter().map(argument).collect(),
        Argument::Object(entries) => object(entries),
    }
}

fn object(entries: &[NamedArgument]) -> Value {
    entries.iter().map(|entry| (entry.name.clone(), argument(&entry.value))).collect()
}

/// Escapes texts as in a plan: a dollar sign is doubled.
fn constant(value: &Value) -> Value {
    match value {
        Value::String(text) => Template::Literal(text.clone()).to_string().into(),
        Value::Array(items) => items.iter().map(constant).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), constant(value))).collect(),
        plain => plain.clone(),
    }
}

impl Plan {
    /// How its steps run, in a few words.
    fn concurrency_text(&self) -> String {
        match self.form {
            PlanForm::Sequence => "one after another".into(),
            PlanForm::Steps | PlanForm::ComposedOf => format!("at most {} side by side", self.concurrency),
        }
    }
}

/// Several lines, the last without a line end. Untrusted text is not escaped.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self.steps.len() {
            1 => "1 step".into(),
            count => format!("{count} steps"),
        };
        write!(f, "{} ({count}, {})", self.file, self.concurrency_text())?;
        let last = self.steps.len().saturating_sub(1);
        for (at, step) in self.steps.iter().enumerate() {
            let is_last = at == last && self.outputs.is_none();
            let (branch, below) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
            write!(f, "\n{branch} {} {}: {}", at + 1, step.id, step.call)?;
            for line in details(step) {
                write!(f, "\n{below}   {line}")?;
            }
        }
        match &self.outputs {
            Some(outputs) => write!(f, "\n└─ answers {outputs}"),
            None => Ok(()),
        }
    }
}

fn details(step: &Step) -> Vec<String> {
    let mut lines = Vec::new();
    if let CallTarget::Review(text) = &step.call {
        lines.push(
            "a person must agree to what the steps so far have changed in a copy of the project".to_owned(),
        );
        lines.extend((!text.is_empty()).then(|| format!("and is told: {text}")));
    }
    lines.extend(step.for_each.as_ref().map(|ForEach { list, variable, max_items: max }| {
        format!("for each ${variable} in {list}, at most {max}")
    }));
    lines.extend(step.when.as_ref().map(|when| format!("when {when}")));
    lines.extend((!step.after.is_empty()).then(|| format!("after {}", step.after.join(", "))));
    lines.extend(step.args.iter().map(|parameter| format!("{} = {}", parameter.name, parameter.value)));
    lines.extend(step.timeout.map(|limit| format!("each call within {} ms", limit.as_millis())));
    lines.extend((step.on_failure != OnFailure::Abort).then(|| format!("on failure {}", step.on_failure)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_contract, from_sequence};

    const PLAN: &str = r#"{"steps": [
        {"tool": "glob", "args": {"pattern": "*", "price": ["$$5", {"a": "$$"}, 1.5, null]}, "timeout": "2s"},
        {"id": "each", "skill": "y", "for_each": {"in": "$result[0]", "as": "f", "max": 5}, "args": {"a": "$f.x", "b": "${inputs.p}/$$x"}},
        {"id": "look", "review": "Is $x a price?", "after": ["each"]},
        {"id": "last", "tool": "search", "when": "$steps.each.outputs and not ($inputs.a == 'x')", "on_failure": "retry(2, 1s)", "after": ["each"]}
    ], "outputs_from": {"all": ["$steps.each.outputs"], "word": "$$"}}"#;

    #[test]
    fn what_is_serialized_can_be_written_again() {
        let plan = from_sequence(PLAN.as_bytes(), "scripts/sequence.json").unwrap();
        let told = plan.json();
        assert_eq!(told["steps"][0]["args"]["price"], json!(["$$5", {"a": "$$"}, 1.5, null]));
        assert_eq!(told["steps"][1]["for_each"], json!({"in": "$result[0]", "as": "f", "max": 5}));
        assert_eq!(told["steps"][2], json!({"id": "look", "review": "Is $x a price?", "after": ["each"]}));
        assert_eq!(told["steps"][3]["tool"], "search");
        assert!(plan.to_string().contains("3 look: review\n│    a person must agree to"), "{plan}");
        assert!(plan.to_string().contains("│    and is told: Is $x a price?\n"), "{plan}");
        assert_eq!((told["form"].as_str(), told["concurrency"].as_u64()), (Some("sequence"), Some(1)));
        let written = json!({"steps": told["steps"], "outputs_from": told["outputs_from"]}).to_string();
        let again = from_sequence(written.as_bytes(), "scripts/sequence.json").unwrap();
        assert_eq!(again.json(), told);
        assert_eq!(again.to_string(), plan.to_string());
    }

    #[test]
    fn of_steps_the_number_side_by_side_is_reported() {
        let plan = from_contract(b"steps: [{tool: tree}]\nconcurrency: 2\n", "skill.yaml").unwrap().unwrap();
        let expected = json!({"file": "skill.yaml", "form": "steps", "concurrency": 2, "steps": [{"id": "tree", "tool": "tree"}], "outputs_from": null});
        assert_eq!(plan.json(), expected);
    }
}
