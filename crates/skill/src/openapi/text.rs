//! Texts of a description as a reader sees them: one line, without markup, cut where a sentence ends.

use metier_core::unicode::mark_escapes;

/// The most bytes of a text that are looked at.
const MAX_READ: usize = 8 << 10;
/// A shorter sentence does not stand for a text.
const MIN_SENTENCE: usize = 20;

/// A text of at most so many characters, with what is only seen by machines left out.
pub(super) fn plain_text(source: &str, max_chars: usize) -> String {
    let source = &source[..source.floor_char_boundary(MAX_READ)];
    let unmarked = source.lines().map(without_line_mark).collect::<Vec<_>>().join("\n");
    let unlinked = without_links(&unmarked);
    let untagged = without_tags(&unlinked);
    let visible = mark_escapes(&untagged).filter(|(c, is_unseen)| !is_unseen || c.is_whitespace());
    let visible: String = visible.map(|(c, _)| if c.is_control() { ' ' } else { c }).collect();
    // Some clients run what stands in a SKILL.md between such signs.
    let inert = visible.replace("!`", "! `");
    let line = inert.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, max_chars)
}

/// The first sentences that fit, or the first words.
fn cut(line: &str, max_chars: usize) -> String {
    let Some((end, _)) = line.char_indices().nth(max_chars) else { return line.to_owned() };
    let head = &line[..end];
    let ends_here = |at: &usize| line[at + 1..].starts_with(' ') && *at >= MIN_SENTENCE.min(max_chars / 2);
    let sentence = head.rmatch_indices(['.', '!', '?']).map(|(at, _)| at).find(ends_here);
    if let Some(at) = sentence {
        return head[..=at].to_owned();
    }
    // One character is for the ellipsis.
    let head = head.char_indices().next_back().map_or("", |(at, _)| &head[..at]);
    let words = head.rfind(' ').filter(|at| *at >= max_chars / 2).map_or(head, |at| &head[..at]);
    // A word that ends there is whole.
    let words = if line[head.len()..].starts_with(' ') { head } else { words };
    format!("{}…", words.trim_end_matches([' ', ',', ';', ':', '(', '-']))
}

/// A line without what makes it a quotation, a heading or the title of a box.
fn without_line_mark(line: &str) -> &str {
    let line = line.trim_start_matches(['>', '#', ' ']);
    let is_box = |title: &&str| !title.is_empty() && title.chars().all(|c| c.is_ascii_uppercase());
    let title =
        line.strip_prefix("[!").and_then(|rest| rest.split_once(']')).filter(|(title, _)| is_box(title));
    title.map_or(line, |(_, rest)| rest)
}

/// Links as their texts, and pictures left out: `[a](b)` is `a`.
fn without_links(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('[') {
        let link = link(&rest[at..]);
        let (before, after) = rest.split_at(at);
        let Some((label, length)) = link else {
            text.push_str(before);
            text.push('[');
            rest = &after[1..];
            continue;
        };
        match before.strip_suffix('!') {
            Some(before) => text.push_str(before),
            None => text.extend([before, label]),
        }
        rest = &after[length..];
    }
    text + rest
}

/// The text of the link that a text begins with, and the length of the whole link.
fn link(text: &str) -> Option<(&str, usize)> {
    let label = text[1..].split(['[', ']']).next()?;
    let target = text[1 + label.len()..].strip_prefix("](")?;
    let end = target.find([')', '\n', '['])?;
    target[end..].starts_with(')').then_some((label, 1 + label.len() + 2 + end + 1))
}

/// Tags of HTML as blanks.
fn without_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('<') {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        let is_tag = after[1..].starts_with(|c: char| c == '/' || c == '!' || c.is_ascii_alphabetic());
        let end = after[1..].find(['<', '>']).map(|end| end + 1).filter(|_| is_tag);
        let tag_end = end.filter(|end| after[*end..].starts_with('>'));
        text.push(if tag_end.is_some() { ' ' } else { '<' });
        rest = &after[tag_end.map_or(1, |end| end + 1)..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_without_markup() {
        for (source, expected) in [
            ("", ""),
            ("  Lists\n\npets.\t", "Lists pets."),
            ("See [the docs](https://a.test/x(y)) now", "See the docs) now"),
            ("See [the docs](https://a.test/x).", "See the docs."),
            ("![logo](https://a.test/x.png) A [b] (c) [d", "A [b] (c) [d"),
            ("[a](b", "[a](b"),
            ("<p>Use <b>this</b>.</p>", "Use this ."),
            ("## Pets\n\n> [!NOTE]\n> They bite.\n#1 is first", "Pets They bite. 1 is first"),
            ("a < b and b > c, 1 <2>", "a < b and b > c, 1 <2>"),
            ("\u{1b}[31mred\u{202e}der\u{200b}\0", "[31mredder"),
            ("costs $5 ${inputs.x}", "costs $5 ${inputs.x}"),
        ] {
            assert_eq!(plain_text(source, 300), expected, "{source:?}");
        }
    }

    #[test]
    fn a_long_text_ends_with_a_sentence_or_a_word() {
        for (source, max, expected) in [
            ("This is the first one. This is the second.", 30, "This is the first one."),
            ("Version 1.5 of it has many words in it", 20, "Version 1.5 of it…"),
            ("a. b c d e f g h i j k l m", 12, "a. b c d e…"),
            ("ä".repeat(100).as_str(), 5, "ääää…"),
            ("Read [a long link text](https://a.test/very/long) here", 22, "Read a long link text…"),
        ] {
            let found = plain_text(source, max);
            assert_eq!(found, expected);
            assert!(found.chars().count() <= max);
        }
        let huge = "[".repeat(1 << 20) + &"<".repeat(1 << 20);
        assert!(plain_text(&huge, 100).len() <= 400);
    }
}
