//! `runtime`: the language of the skill's script, at top level or under `metadata`.

use std::ops::Range;

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
    let outer = runtime_name(top).unwrap_or_else(|span| {
        report.add(&lint::RUNTIME_NOT_TEXT, &span, "runtime must be a name such as `lua` or `external`");
        None
    });
    let inner = runtime_name(nested).unwrap_or_else(|span| {
        let message = "metadata.runtime is not the name of a runtime, so the script runs by its extension";
        report.add(&lint::METADATA_RUNTIME, &span, message).help("write a name such as `lua` or `external`");
        None
    });
    if let (Some(outer), Some(inner), Some(entry)) = (&outer, &inner, nested)
        && outer != inner
    {
        let message = format!("runtime is `{outer}` at top level and `{inner}` under metadata");
        report.add(&lint::RUNTIME_DISAGREES, &entry.node.span, message).help("keep one of them");
    }
    outer.or(inner)
}

/// The name that is declared, if any; the place of a value that is no name.
fn runtime_name(entry: Option<&Entry>) -> Result<Option<String>, Range<usize>> {
    let Some(Entry { node, .. }) = entry else { return Ok(None) };
    match node.text().map(str::trim) {
        Some(text) if !text.is_empty() && !node.is_null() => Ok(Some(text.to_owned())),
        _ => Err(node.span.clone()),
    }
}
