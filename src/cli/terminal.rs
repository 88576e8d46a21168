//! Text of strangers on a person's terminal: shown, never obeyed.

use std::fmt::Write as _;

/// The text with control characters spelled out, newline and tab excepted: a skill must not move the cursor, set the
/// title, or repaint what stands above.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || is_invisible(c) => drop(write!(shown, "{}", c.escape_unicode())),
            c => shown.push(c),
        }
    }
    shown
}

/// On one line, cut to at most `width` characters.
pub fn brief(text: &str, width: usize) -> String {
    let line = visible(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Characters that reorder or hide others: bidirectional controls, zero widths, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_sequence_is_shown_and_not_obeyed() {
        assert_eq!(visible("\u{1b}[2Jgone\r\n"), "\\u{1b}[2Jgone\\u{d}\n");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(brief("one\n two   three", 9), "one two …");
    }
}
