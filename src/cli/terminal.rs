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

/// The text in rows of at most so many columns; a character outside of ASCII may take two, and a tab takes up to eight.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![(String::new(), 0)];
    for c in text.chars() {
        let width = match c {
            '\t' => 8,
            c if c.is_ascii() => 1,
            _ => 2,
        };
        if lines.last().is_some_and(|(_, used)| used + width > columns) {
            lines.push((String::new(), 0));
        }
        if let Some((line, used)) = lines.last_mut() {
            line.push(c);
            *used += width;
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// The lines of a text in rows of at most so many columns, with `: ` before each row that goes on, so that no part of a long line
/// looks like a line of its own.
pub fn wrap_lines(text: &str, columns: usize) -> String {
    if columns == usize::MAX {
        return text.to_owned();
    }
    let width = columns.saturating_sub(2).max(8);
    let lines = text.split('\n').map(|line| {
        if line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum::<usize>() <= columns
            && !line.contains('\t')
        {
            line.to_owned()
        } else {
            wrap(line, width).join("\n: ")
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A text of somebody else behind a margin, in rows of at most so many columns: `| ` before each line, and `: ` where one goes on.
/// So nothing in it looks like a line of metier.
pub fn with_margin(text: &str, columns: usize) -> String {
    let mut shown = String::with_capacity(text.len() + text.len() / 8);
    for line in escape_text(text.trim_end()).split('\n') {
        for (number, row) in wrap(line, columns.saturating_sub(2).max(8)).iter().enumerate() {
            shown.extend([if number == 0 { "| " } else { ": " }, row, "\n"]);
        }
    }
    shown
}

/// A word of a shell.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@~+,".contains(letter);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", escape_line(word).replace('\'', "'\\''"))
    }
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
        assert_eq!(wrap("世界世界", 5), ["世界", "世界"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(shorten_line("one\n two   three", 9), "one two …");
    }

    #[test]
    fn no_line_of_somebody_else_begins_at_the_left() {
        for end in
            ["\n", "\r", "\r\n", "\n\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "\u{1b}E", "\t"]
        {
            for fill in [0, 1, 76, 77, 78, 79, 80, 300] {
                let text = format!("{}{end}==== scripts/main.sh ====\necho x", "x".repeat(fill));
                let shown = with_margin(&text, 80);
                for row in shown.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']) {
                    let is_marked = row.is_empty() || row.starts_with("| ") || row.starts_with(": ");
                    assert!(is_marked && row.chars().count() <= 80, "{end:?} {fill}: {row:?}");
                }
            }
        }
        assert_eq!(
            wrap_lines(&format!("{}\nb", "x".repeat(12)), 10),
            format!("{}\n: xxxx\nb", "x".repeat(8))
        );
        assert_eq!(with_margin("a\n\nb\n", 80), "| a\n| \n| b\n");
        assert_eq!(with_margin(&"x".repeat(10), 2), "| xxxxxxxx\n: xx\n");
    }
}
