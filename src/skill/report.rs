//! Diagnostics as they are gathered: byte spans in, lines and columns out.

use std::cell::OnceCell;
use std::ops::Range;

use super::diagnostic::Diagnostic;
use super::rule::{FINDINGS_LEFT_OUT, Rule};

/// The findings about one text.
pub(super) struct Report<'a> {
    text: &'a str,
    opening: Range<usize>,
    found: Vec<Diagnostic>,
    /// Findings that are kept.
    most: usize,
    /// The last that was not, and how many were not.
    rest: Option<Diagnostic>,
    left_out: usize,
    /// Where lines begin, looked up when the first is asked for.
    lines: OnceCell<Vec<usize>>,
}

impl<'a> Report<'a> {
    pub(super) fn on(text: &'a str) -> Self {
        let (found, lines) = (Vec::new(), OnceCell::new());
        Self { text, opening: 0..0, found, most: usize::MAX, rest: None, left_out: 0, lines }
    }

    /// The same, of which so many findings are kept; the first that blocks, and the first error, are always among them.
    pub(super) fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// From here on, what is missing from the frontmatter is shown at its opening line.
    pub(super) fn open_at(&mut self, opening: Range<usize>) {
        self.opening = opening;
    }

    pub(super) fn add(
        &mut self,
        rule: &Rule,
        span: &Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        if self.found.len() >= self.most && !self.is_worse(rule) {
            self.left_out += 1;
            return self.rest.insert(Diagnostic::new(rule, "", &(0..0), message));
        }
        self.found.push(Diagnostic::new(rule, self.text, span, message));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Whether nothing that was found matters as much.
    fn is_worse(&self, rule: &Rule) -> bool {
        !self.found.iter().any(|found| found.severity >= rule.severity && found.blocks >= rule.blocks)
    }

    /// For what is not there at all.
    pub(super) fn missing(&mut self, rule: &Rule, message: impl Into<String>) -> &mut Diagnostic {
        self.add(rule, &self.opening.clone(), message)
    }

    /// The line a place is on, from 1.
    pub(super) fn line(&self, offset: usize) -> u32 {
        let begin = |text: &str| text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let lines: &Vec<usize> = self.lines.get_or_init(|| begin(self.text));
        saturated(lines.partition_point(|start| *start <= offset) + 1)
    }

    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        if self.left_out > 0 {
            let message = format!("{} more findings are left out", self.left_out);
            let end = self.text.len()..self.text.len();
            self.found.push(Diagnostic::new(&FINDINGS_LEFT_OUT, self.text, &end, message));
        }
        self.found
    }
}

impl Diagnostic {
    /// A finding about these bytes of a file's text; what lies outside the text is cut off.
    pub fn new(rule: &Rule, text: &str, span: &Range<usize>, message: impl Into<String>) -> Self {
        let span = within(text, span);
        let (line, column) = position(text, span.start);
        let Rule { code, severity, blocks, .. } = *rule;
        Self { code, severity, line, column, message: message.into(), help: None, span, blocks }
    }

    /// Adds the way out.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help(help);
        self
    }

    pub(super) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

/// The span cut to the text, on character boundaries.
fn within(text: &str, span: &Range<usize>) -> Range<usize> {
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
    (saturated(line), saturated(column))
}

/// NUL, the other C0 controls but tab and line ends, DEL, and C1.
pub(super) fn control_character(text: &str) -> Option<usize> {
    text.find(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_findings() {
        let report = Report::on("a\n\u{e9}\n\nb");
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
        assert_eq!(within("é", &(1..9)), 0..2);
        assert_eq!(within("é", &(7..9)), 2..2);
    }
}
