//! Escapes untrusted text before it is printed to a terminal.

use metier::unicode::mark_escapes;

/// The text with control and invisible characters escaped, except newline and tab: a skill must not move the cursor, set the
/// title, or overwrite other lines.
pub fn escape_text(text: &str) -> String {
    escape_where(text, |c| !matches!(c, '\n' | '\t'))
}

/// The same for one message: lines after the first are indented, so that none looks like a message of metier.
pub fn escape_sentence(text: &str) -> String {
    escape_text(text.trim_end()).replace('\n', "\n    ")
}

/// The same for text on one line, such as a name or a path: newline and tab are escaped, too.
pub fn escape_line(text: &str) -> String {
    escape_where(text, |_| true)
}

fn escape_where(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    mark_escapes(text).fold(String::with_capacity(text.len()), |mut shown, (c, is_unseen)| {
        if is_unseen && is_escaped(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// On one line, cut to at most `width` characters.
pub fn shorten_line(text: &str, width: usize) -> String {
    let line = escape_text(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_sequence_is_shown_and_not_obeyed() {
        assert_eq!(escape_text("\u{1b}[2Jgone\r\n"), "\\u{1b}[2Jgone\\u{d}\n");
        assert_eq!(
            escape_line("a\u{1b}[31m\r\n\u{9b}\u{202e}é"),
            "a\\u{1b}[31m\\u{d}\\u{a}\\u{9b}\\u{202e}é"
        );
        assert_eq!(
            escape_line("a\u{200b}\u{feff}\u{ad}\u{3164}b ⚠\u{fe0f}"),
            "a\\u{200b}\\u{feff}\\u{ad}\\u{3164}b ⚠\u{fe0f}"
        );
        assert_eq!(escape_sentence("a\nerror: b\n"), "a\n    error: b");
        assert_eq!(shorten_line("one\n two   three", 9), "one two …");
    }
}
