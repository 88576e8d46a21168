//! Changes of a text.

use std::borrow::Cow;
use std::ops::Range;

/// A part of a text, and what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) replacement: Cow<'static, str>,
}

impl Edit {
    pub(super) fn new(range: Range<usize>, replacement: impl Into<Cow<'static, str>>) -> Self {
        Self { range, replacement: replacement.into() }
    }

    pub(super) fn removal(range: Range<usize>) -> Self {
        Self::new(range, "")
    }
}

/// The text with these changes, which are in its order and do not overlap.
pub(super) fn apply(text: &str, edits: &[Edit]) -> String {
    let (mut changed, mut done) = (String::with_capacity(text.len()), 0);
    for edit in edits {
        changed.push_str(&text[done..edit.range.start]);
        changed.push_str(&edit.replacement);
        done = edit.range.end;
    }
    changed.push_str(&text[done..]);
    changed
}

/// The lines with these changes of the text that they are together, joined by line feeds. What replaces several lines stands in the
/// first of them.
pub(super) fn apply_to_lines(lines: &[String], edits: &[Edit]) -> Vec<String> {
    let (mut start, mut edits) = (0, edits.iter().peekable());
    let mut changed = Vec::with_capacity(lines.len());
    for line in lines {
        let (end, mut shown, mut done) = (start + line.len(), String::new(), start);
        while let Some(edit) = edits.peek().filter(|edit| edit.range.start < end) {
            let (from, to) = (edit.range.start.max(start), edit.range.end.min(end));
            shown.push_str(&line[done - start..from - start]);
            if edit.range.start >= start {
                shown.push_str(&edit.replacement);
            }
            done = to;
            if edit.range.end > end {
                break;
            }
            edits.next();
        }
        shown.push_str(&line[done - start..]);
        changed.push(shown);
        start = end + 1;
    }
    changed
}
