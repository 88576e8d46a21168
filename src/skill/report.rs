//! Diagnostics as they are gathered: byte spans in, lines and columns out.

use std::ops::Range;

use super::diagnostic::Diagnostic;
use super::rule::Rule;

/// The findings about one text.
pub(super) struct Report<'a> {
    text: &'a str,
    opening: Range<usize>,
    found: Vec<Diagnostic>,
}

impl<'a> Report<'a> {
    pub(super) fn on(text: &'a str) -> Self {
        Self { text, opening: 0..0, found: Vec::new() }
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
        self.found.push(Diagnostic::new(rule, self.text, span, message));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// For what is not there at all.
    pub(super) fn missing(&mut self, rule: &Rule, message: impl Into<String>) -> &mut Diagnostic {
        self.add(rule, &self.opening.clone(), message)
    }

    /// The line a place is on, from 1.
    pub(super) fn line(&self, offset: usize) -> u32 {
        position(self.text, self.text.floor_char_boundary(offset)).0
    }

    pub(super) fn finish(self) -> Vec<Diagnostic> {
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
