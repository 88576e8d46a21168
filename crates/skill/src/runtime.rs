//! `runtime`: the language of the skill's script, at top level or under `metadata`.

use super::yaml::Entry;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;

/// The declared runtime. If both keys are there and differ, that is an error, and the one at top level counts.
pub(super) fn read(
    top: Option<&Entry>,
    nested: Option<&Entry>,
    report: &mut DiagnosticSink<'_>,
) -> Option<String> {
    if let Some(entry) = top {
        let message = "runtime stands at top level, where strict validators refuse it";
        report
            .add(&lint::RUNTIME_AT_TOP_LEVEL, &entry.key_span, message)
            .help("move it under `metadata:` to please them");
    }
    let (outer, inner) = (runtime_name(top, report), runtime_name(nested, report));
    if let (Some(outer), Some(inner), Some(entry)) = (&outer, &inner, nested)
        && outer != inner
    {
        let message = format!("runtime is `{outer}` at top level and `{inner}` under metadata");
        report.add(&lint::RUNTIME_DISAGREES, &entry.node.span, message).help("keep one of them");
    }
    outer.or(inner)
}

fn runtime_name(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let node = &entry?.node;
    match node.text().map(str::trim) {
        Some(text) if !text.is_empty() && !node.is_null() => Some(text.to_owned()),
        _ => {
            let message = "runtime must be a name such as `lua` or `external`";
            report.add(&lint::RUNTIME_NOT_TEXT, &node.span, message);
            None
        }
    }
}
