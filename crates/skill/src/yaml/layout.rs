//! What is wrong with the lines around a fault in YAML, where the parser only says what it did not expect: tabs, a missing colon, a key
//! in a column of its own.

/// The help for what the parser says of this byte of the text, if the layout of its line or of the one before explains it.
pub(super) fn help(text: &str, (message, at): (&str, usize)) -> Option<String> {
    let before = text.get(..at)?;
    let fault = before.matches('\n').count();
    let first = fault.saturating_sub(MAX_LINES_ABOVE);
    let numbered = || text.lines().zip(1..).map(|(text, number)| Line { text, number });
    let lines: Vec<Line<'_>> =
        numbered().skip(first).take(fault - first + 1).filter(|line| !line.is_blank()).collect();
    // The parser notices a tab in its line, at the beginning of the next one, or says where the value before it began.
    let near = numbered().skip(fault.saturating_sub(1)).take(3).filter(|_| message.contains("tab"));
    if let Some(line) = near.filter(|line| !line.is_blank()).find(|line| line.indent().contains('\t')) {
        return Some(format!("YAML is indented with spaces: replace the tab in line {}", line.number));
    }
    let (last, above) = lines.split_last()?;
    let previous = above.last()?;
    let is_beside = previous.indent() == last.indent();
    let mut without_colon = [previous, last].into_iter().filter(|_| is_beside);
    if let Some((line, key)) = without_colon.find_map(|line| Some((line, line.key_without_colon()?))) {
        return Some(format!("line {} has no colon: write `{key}: …`", line.number));
    }
    last.is_misplaced(above).then(|| {
        let number = last.number;
        format!("line {number} begins in another column than the keys beside it: give all keys of one map the same indentation")
    })
}

/// Lines above a fault that are looked at.
const MAX_LINES_ABOVE: usize = 200;

/// A line and its number in the text, from 1.
struct Line<'a> {
    text: &'a str,
    number: usize,
}

impl<'a> Line<'a> {
    fn is_blank(&self) -> bool {
        let trimmed = self.text.trim();
        trimmed.is_empty() || trimmed.starts_with('#') || trimmed == "---"
    }

    fn indent(&self) -> &'a str {
        &self.text[..self.text.len() - self.text.trim_start_matches([' ', '\t']).len()]
    }

    /// The word that is probably the key of this line, which has no colon.
    fn key_without_colon(&self) -> Option<&'a str> {
        let (key, value) = self.text.trim().split_once(' ')?;
        (is_key(key) && !value.trim().is_empty() && !self.text.contains(':')).then_some(key)
    }

    /// The value of this line, if it is `key: value` or `key:`.
    fn value(&self) -> Option<&'a str> {
        let (key, value) = self.text.trim().split_once(':')?;
        (is_key(key) && (value.is_empty() || value.starts_with(' '))).then(|| value.trim())
    }

    /// Whether it is a key that begins deeper than one above that has a value, or in a column in which no key above begins.
    fn is_misplaced(&self, above: &[Line<'_>]) -> bool {
        let Some(previous) = above.last().filter(|_| self.value().is_some()) else { return false };
        let (own, other) = (self.indent().len(), previous.indent().len());
        if own > other {
            return previous
                .value()
                .is_some_and(|value| !value.is_empty() && !value.starts_with(['|', '>', '#']));
        }
        let mut open = above.iter().rev().map(|line| line.indent().len());
        own < other && open.find(|indent| *indent <= own).is_none_or(|indent| indent != own)
    }
}

fn is_key(word: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !word.is_empty() && !word.starts_with(['-', '.']) && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use crate::yaml::parse;

    fn help(text: &str) -> String {
        parse(text).expect_err("refused").help_in(text)
    }

    #[test]
    fn a_missing_colon_a_tab_and_a_wrong_column_are_named_with_their_line() {
        for (text, expected) in [
            ("name m03\ndescription: Does it.\n", "line 1 has no colon: write `name: …`"),
            ("a: 1\nname m03\ndescription: Does it.\n", "line 2 has no colon: write `name: …`"),
            ("name: x\nmetadata:\n\tauthor: a\n", "YAML is indented with spaces: replace the tab in line 3"),
            ("name: x\n\tdescription: y\n", "YAML is indented with spaces: replace the tab in line 2"),
            ("name: x\n  version: 1\n", "line 2 begins in another column than the keys beside it"),
            (
                "metadata:\n  author: a\n version: 1\n",
                "line 3 begins in another column than the keys beside it",
            ),
            (
                "metadata:\n  author: a\n    version: 1\n",
                "line 3 begins in another column than the keys beside it",
            ),
        ] {
            assert!(help(text).starts_with(expected), "{text:?}: {}", help(text));
        }
    }

    #[test]
    fn other_faults_are_mended_with_quotes() {
        for text in ["a: b: c\n", "x: 1\ndescription: Use when: it is\n", "a: [b\n", "a: 'b\n"] {
            assert!(help(text).starts_with("put quotes around text"), "{text:?}: {}", help(text));
        }
    }
}
