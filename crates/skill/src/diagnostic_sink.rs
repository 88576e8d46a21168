//! Collects diagnostics: takes byte spans and turns them into lines and columns.

use std::cell::OnceCell;
use std::ops::Range;

use super::diagnostic::Diagnostic;
use crate::lint::{FINDINGS_LEFT_OUT, Rule};

/// The diagnostics of one text.
pub struct DiagnosticSink<'a> {
    text: &'a str,
    opening: Range<usize>,
    diagnostics: Vec<Diagnostic>,
    /// The maximum number of diagnostics that are kept.
    max: usize,
    /// The last diagnostic that was left out, and how many were.
    last_omitted: Option<Diagnostic>,
    omitted_count: usize,
    /// The offsets at which lines begin, computed at the first use.
    lines: OnceCell<Vec<usize>>,
}

impl<'a> DiagnosticSink<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            opening: 0..0,
            diagnostics: Vec::new(),
            max: usize::MAX,
            last_omitted: None,
            omitted_count: 0,
            lines: OnceCell::new(),
        }
    }

    /// Keeps at most `max` diagnostics. The first error and the first diagnostic that blocks are always kept.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self { max, ..self }
    }

    /// Sets the span at which missing keys are reported: the opening line of the frontmatter.
    pub(crate) fn set_opening(&mut self, opening: Range<usize>) {
        self.opening = opening;
    }

    pub(crate) fn add(
        &mut self,
        rule: &Rule,
        span: &Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        if self.diagnostics.len() >= self.max && !self.is_worse(rule) {
            self.omitted_count += 1;
            return self.last_omitted.insert(Diagnostic::new(rule, "", &(0..0), message));
        }
        self.diagnostics.push(Diagnostic::new(rule, self.text, span, message));
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Whether a diagnostic of this rule would be worse than all others so far.
    fn is_worse(&self, rule: &Rule) -> bool {
        !self.diagnostics.iter().any(|found| found.severity >= rule.severity && found.blocks >= rule.blocks)
    }

    /// Adds a diagnostic about something that is missing.
    pub(crate) fn add_missing(&mut self, rule: &Rule, message: impl Into<String>) -> &mut Diagnostic {
        self.add(rule, &self.opening.clone(), message)
    }

    /// The line of an offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        let begin = |text: &str| text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let lines: &Vec<usize> = self.lines.get_or_init(|| begin(self.text));
        saturating_u32(lines.partition_point(|start| *start <= offset) + 1)
    }

    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        if self.omitted_count > 0 {
            let message = format!("{} more findings are left out", self.omitted_count);
            let end = self.text.len()..self.text.len();
            self.diagnostics.push(Diagnostic::new(&FINDINGS_LEFT_OUT, self.text, &end, message));
        }
        self.diagnostics
    }
}

impl Diagnostic {
    /// A diagnostic about these bytes of a file's text. The span is cut to the text.
    pub fn new(rule: &Rule, text: &str, span: &Range<usize>, message: impl Into<String>) -> Self {
        let span = clamp_span(text, span);
        let (line, column) = position(text, span.start);
        let Rule { code, severity, blocks, .. } = *rule;
        Self { code, severity, line, column, message: message.into(), help: None, span, blocks }
    }

    /// Adds how to fix it.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help(help);
        self
    }

    pub(crate) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

/// The span, cut to the text and to character boundaries.
fn clamp_span(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let end = text.ceil_char_boundary(span.end.clamp(start, text.len()));
    start..end
}

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
    (saturating_u32(line), saturating_u32(column))
}

/// The offset of the first control character (C0, DEL or C1) other than a tab or a line end.
pub(crate) fn find_control_character(text: &str) -> Option<usize> {
    text.find(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

fn saturating_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_findings() {
        let report = DiagnosticSink::new("a\n\u{e9}\n\nb");
        for offset in 0..=7 {
            assert_eq!(report.line(offset), position(report.text, report.text.floor_char_boundary(offset)).0);
        }
    }

    #[test]
    fn columns_count_characters_and_no_byte_order_mark() {
        assert_eq!(position("\u{feff}é: x", 5), (1, 2));
        assert_eq!(position("a\néé", 6), (2, 3));
    }

    #[test]
    fn a_span_outside_the_text_is_cut_to_it() {
        assert_eq!(clamp_span("é", &(1..9)), 0..2);
        assert_eq!(clamp_span("é", &(7..9)), 2..2);
    }
}
