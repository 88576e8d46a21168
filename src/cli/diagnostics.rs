//! Diagnostics for a person: the sentence, the line it is about, and the help.
//!
//! The text of skills is untrusted. It goes through [`escape_line`] before it is shown, so that no file name or value can move
//! the cursor, change colours or reverse the reading direction of the terminal.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use metier::skill::{Diagnostic, Severity};
use metier::unicode::mark_escapes;

use super::prompt::output_columns;
use super::terminal::escape_line;

/// Of a longer line only the number is shown.
const MAX_LINE: usize = 4096;

/// The diagnostic as several lines of text with colours, which `anstream` takes out where they do not belong.
///
/// `source` is the text the diagnostic's span counts in; empty where there is none.
pub fn render(path: &str, source: &str, diagnostic: &Diagnostic) -> String {
    let level = level(diagnostic.severity);
    let path = escape_line(path);
    let title = level.primary_title(escape_line(&diagnostic.message)).id(diagnostic.code);
    let group = match line_of_span(source, &diagnostic.span) {
        Some((line, span)) => title.element(
            Snippet::source(mask_controls(line))
                .line_start(diagnostic.line as usize)
                .path(path)
                .annotation(AnnotationKind::Primary.span(span)),
        ),
        None => title.element(origin(path, source, diagnostic)),
    };
    // A longer line is cut: the rest would begin at the left, as metier's own lines do.
    let columns = output_columns();
    let renderer = Renderer::styled();
    let renderer = if columns == usize::MAX { renderer } else { renderer.term_width(columns) };
    renderer.render(&[with_help(group, diagnostic.help.as_deref())])
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    }
}

fn with_help<'a>(group: Group<'a>, help: Option<&str>) -> Group<'a> {
    match help {
        Some(help) => group.element(Level::HELP.message(escape_line(help))),
        None => group,
    }
}

/// Where to look when there is no line to show.
fn origin<'a>(path: String, source: &str, diagnostic: &Diagnostic) -> Origin<'a> {
    let origin = Origin::path(path);
    if source.is_empty() {
        return origin;
    }
    origin.line(diagnostic.line as usize).char_column(diagnostic.column as usize)
}

/// The first line of the span and the part of the span in it; nothing if the line is empty or too long to show.
fn line_of_span<'a>(source: &'a str, span: &Range<usize>) -> Option<(&'a str, Range<usize>)> {
    let start = source.get(..span.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let end = source[span.start..].find('\n').map_or(source.len(), |newline| span.start + newline);
    // A byte order mark counts no column.
    let start = if source[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start };
    let line = source.get(start..end)?.trim_end_matches('\r');
    let within = |offset: usize| offset.saturating_sub(start).min(line.len());
    (1..=MAX_LINE).contains(&line.len()).then(|| (line, within(span.start)..within(span.end)))
}

/// The line with each control or invisible character replaced by a visible one of as many bytes, so that spans still fit. The
/// renderer shows controls of one byte itself.
fn mask_controls(line: &str) -> String {
    let shown = |(c, is_unseen): (char, bool)| match c.len_utf8() {
        length if length == 1 || !is_unseen => c.to_string(),
        2 => "·".to_owned(),
        3 => "\u{fffd}".to_owned(),
        _ => "··".to_owned(),
    };
    mark_escapes(line).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::unicode::is_control_or_invisible;

    #[test]
    fn control_and_invisible_characters_are_masked() {
        for c in ('\0'..=char::MAX).filter(|c| is_control_or_invisible(*c)) {
            let (line, shown) = (format!("a{c}b"), mask_controls(&format!("a{c}b")));
            assert_eq!(shown.len(), line.len(), "{c:?}");
            assert!(c.is_ascii() || !shown.contains(is_control_or_invisible), "{c:?}");
        }
    }

    #[test]
    fn a_span_is_shown_by_its_first_line() {
        assert_eq!(line_of_span("a\nbcd\ne", &(3..7)), Some(("bcd", 1..3)));
        assert_eq!(line_of_span("\u{feff}ab\r\n", &(0..0)), Some(("ab", 0..0)));
        assert_eq!(line_of_span("ab\r\n", &(2..2)), Some(("ab", 2..2)));
        assert_eq!(line_of_span("", &(0..0)), None);
        assert_eq!(line_of_span(&"x".repeat(MAX_LINE + 1), &(0..1)), None);
    }
}
