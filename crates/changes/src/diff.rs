//! What differs between two texts, line by line, as unified diffs show it.

use std::fmt;
use std::time::Duration;

use similar::ChangeTag;

/// Maximum bytes of each text.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Lines around each change.
const CONTEXT: usize = 3;
/// How long the shortest difference is searched; after that a longer one is taken.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum characters of one line, which may be a whole file.
const MAX_LINE_CHARS: usize = 2_000;

/// What differs between two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextDiff {
    /// The lines of all places that differ, with what is around them.
    pub lines: Vec<DiffLine>,
    /// How many lines more there are.
    pub omitted: usize,
}

/// A line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffLine {
    /// What the line is.
    pub kind: LineKind,
    /// Its text, without a mark and without the end of the line.
    pub text: String,
}

/// What a line of a diff is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// Where the following lines are, such as `@@ -1,4 +1,5 @@`.
    Header,
    /// It is in both texts.
    Context,
    /// It is in the old text only.
    Removed,
    /// It is in the new text only.
    Added,
    /// A remark about the line before, such as that the file ends without a line break.
    Note,
}

impl TextDiff {
    /// Compares two contents; `None` if one of them is no text, or is larger than 1 MiB. What is missing is an empty text. Returns at
    /// most `max_lines` lines.
    pub fn new(old: &[u8], new: &[u8], max_lines: usize) -> Option<Self> {
        let (old, new) = (text(old)?, text(new)?);
        let diff = similar::TextDiff::configure().timeout(SEARCH_TIMEOUT).diff_lines(old, new);
        let mut found = Self { lines: Vec::new(), omitted: 0 };
        let mut push = |kind, text: &str| {
            if found.lines.len() < max_lines {
                found.lines.push(DiffLine { kind, text: shorten(text) });
            } else {
                found.omitted += 1;
            }
        };
        for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
            push(LineKind::Header, &hunk.header().to_string());
            for change in hunk.iter_changes() {
                let kind = match change.tag() {
                    ChangeTag::Equal => LineKind::Context,
                    ChangeTag::Delete => LineKind::Removed,
                    ChangeTag::Insert => LineKind::Added,
                };
                let line = change.value();
                push(kind, line.strip_suffix('\n').unwrap_or(line));
                if !line.ends_with('\n') {
                    push(LineKind::Note, "no line break at the end of the file");
                }
            }
        }
        Some(found)
    }

    /// The same with each line replaced, for example without its secrets.
    pub fn map_lines(mut self, mut replace: impl FnMut(&str) -> String) -> Self {
        for line in &mut self.lines {
            line.text = replace(&line.text);
        }
        self
    }
}

impl fmt::Display for TextDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let mark = match line.kind {
                LineKind::Header => "",
                LineKind::Context => " ",
                LineKind::Removed => "-",
                LineKind::Added => "+",
                LineKind::Note => "\\ ",
            };
            writeln!(f, "{mark}{}", line.text)?;
        }
        if self.omitted > 0 {
            writeln!(f, "… and {} more lines", self.omitted)?;
        }
        Ok(())
    }
}

/// The content as a text that can be shown.
fn text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    (text.len() <= MAX_BYTES && !text.contains('\0')).then_some(text)
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => {
            let (shown, rest) = line.split_at(end);
            format!("{shown}… ({} bytes more)", rest.len())
        }
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_differs_with_the_lines_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni";
        let shown = TextDiff::new(old.as_bytes(), new.as_bytes(), 100).unwrap().to_string();
        assert_eq!(
            shown,
            "@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n+i\n\\ no line break at the end of the file\n"
        );
        assert_eq!(TextDiff::new(b"", b"x\n", 9).unwrap().to_string(), "@@ -0,0 +1 @@\n+x\n");
        assert!(TextDiff::new(b"same\n", b"same\n", 9).unwrap().lines.is_empty());
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let new = (0..100).map(|line| line.to_string() + "\n").collect::<String>();
        let diff = TextDiff::new(b"", new.as_bytes(), 11).unwrap();
        assert_eq!((diff.lines.len(), diff.omitted), (11, 90));
        assert!(diff.to_string().ends_with("+9\n… and 90 more lines\n"));
        let long = "x".repeat(MAX_BYTES);
        let diff = TextDiff::new(b"", long.as_bytes(), 11).unwrap();
        assert!(diff.lines[1].text.len() < 2 * MAX_LINE_CHARS);
        assert!(diff.lines[1].text.ends_with("bytes more)"));
    }

    #[test]
    fn only_texts_of_at_most_a_mebibyte_are_compared() {
        assert_eq!(TextDiff::new(b"\xff", b"", 9), None);
        assert_eq!(TextDiff::new(b"", b"a\0b", 9), None);
        assert_eq!(TextDiff::new(&vec![b'a'; MAX_BYTES + 1], b"", 9), None);
    }

    #[test]
    fn texts_that_are_slow_to_compare_have_a_diff() {
        let lines =
            |step: usize| -> String { (0..100_000).map(|n| (n * step % 9973).to_string() + "\n").collect() };
        let diff = TextDiff::new(lines(7).as_bytes(), lines(11).as_bytes(), 50).unwrap();
        assert_eq!(diff.lines.len(), 50);
        assert!(diff.omitted > 1000);
    }

    #[test]
    fn each_line_can_be_redacted() {
        let diff = TextDiff::new(b"key=old\n", b"key=s3cret\n", 9).unwrap();
        let shown = diff.map_lines(|line| line.replace("s3cret", "***")).to_string();
        assert_eq!(shown, "@@ -1 +1 @@\n-key=old\n+key=***\n");
    }
}
