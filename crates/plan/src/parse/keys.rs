//! The keys of a plan's objects.

use crate::diagnostic_sink::{PlanDiagnosticSink, quoted_excerpt, suggest_name};
use crate::lint;
use metier_core::suggestion::did_you_mean;
use metier_skill::yaml::{Entry, Node};

/// The names that other workflow engines use for the keys of a step.
const OTHER_WORKFLOW_KEYS: [(&str, &str); 10] = [
    ("depends_on", "after"),
    ("needs", "after"),
    ("arguments", "args"),
    ("params", "args"),
    ("parameters", "args"),
    ("input", "args"),
    ("inputs", "args"),
    ("with", "args"),
    ("if", "when"),
    ("condition", "when"),
];

/// The value of a key.
pub(crate) fn find_node<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// Reports every key that is not a known one.
pub(crate) fn report_unknown_keys(entries: &[Entry], known: &[&str], findings: &mut PlanDiagnosticSink<'_>) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        if findings.is_full() {
            return;
        }
        let message = format!("nothing is called {} here", quoted_excerpt(&entry.key));
        let elsewhere =
            OTHER_WORKFLOW_KEYS.iter().find(|(word, own)| *word == entry.key && known.contains(own));
        let help = elsewhere.map(|(_, own)| did_you_mean(own));
        let help = help.unwrap_or_else(|| suggest_name(&entry.key, known.iter().copied()));
        findings.add(&lint::KEY, &entry.key_span, message, help);
    }
}
