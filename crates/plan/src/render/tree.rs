//! Displays a plan as a tree for people: its steps, what each calls, and where its arguments come from.

use std::fmt;

use crate::{CallTarget, ForEach, OnFailure, Plan, PlanForm, Step};

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
