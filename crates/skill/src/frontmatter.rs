//! Finds the frontmatter in a `SKILL.md`, and reads it as JSON for clients that compare it value by value with the file.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::yaml;

/// The most bytes that byte order mark, blank lines and frontmatter may take together: 64 KiB.
pub const MAX_FRONTMATTER: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The length of a file's frontmatter, as far as the bytes read so far show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontmatterLen {
    /// The frontmatter is this many bytes long, including its closing line.
    Complete(usize),
    /// The closing line has not been read yet. At the end of the file, [`parse`](super::parse) what was read.
    NeedMore,
    /// The file does not start with frontmatter; [`parse`](super::parse) reports it.
    NoFrontmatter,
    /// The closing line is not within [`MAX_FRONTMATTER`] bytes; [`parse`](super::parse) reports it.
    TooLarge,
}

/// The number of bytes that byte order mark, blank lines and frontmatter take, for callers that read a file in steps.
pub fn frontmatter_len(partial: &[u8]) -> FrontmatterLen {
    match find_frontmatter(partial) {
        FrontmatterMatch::Found(found) if partial[..found.body_start].ends_with(b"\n") => {
            FrontmatterLen::Complete(found.body_start)
        }
        // The line may continue as `---x`.
        FrontmatterMatch::Found(_) | FrontmatterMatch::Unclosed(_) => FrontmatterLen::NeedMore,
        FrontmatterMatch::Missing(line) if may_become_delimiter(&partial[line.clone()]) => {
            FrontmatterLen::NeedMore
        }
        FrontmatterMatch::Missing(_) => FrontmatterLen::NoFrontmatter,
        FrontmatterMatch::TooLarge(_) => FrontmatterLen::TooLarge,
    }
}

/// The parts of a file that has frontmatter, as byte ranges.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frontmatter {
    pub(super) has_byte_order_mark: bool,
    /// Blank lines before the opening one.
    pub(super) blank_lines: Range<usize>,
    /// The opening line, without its end.
    pub(super) opening: Range<usize>,
    /// The lines between the delimiters.
    pub(super) yaml: Range<usize>,
    /// Where the body starts.
    pub(super) body_start: usize,
}

/// The result of the search for the delimiters; the ranges are the spans of diagnostics.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrontmatterMatch {
    Found(Frontmatter),
    /// The first line that is not blank is not a delimiter.
    Missing(Range<usize>),
    /// There is an opening line and no closing one.
    Unclosed(Range<usize>),
    TooLarge(Range<usize>),
}

pub(super) fn find_frontmatter(source: &[u8]) -> FrontmatterMatch {
    let has_byte_order_mark = source.starts_with(BYTE_ORDER_MARK);
    let start = if has_byte_order_mark { BYTE_ORDER_MARK.len() } else { 0 };
    let mut lines = lines(source, start);
    let Some(first) = lines.find(|line| !is_blank(&source[line.clone()])) else {
        return if source.len() > MAX_FRONTMATTER {
            FrontmatterMatch::TooLarge(start..start)
        } else {
            FrontmatterMatch::Missing(start..start)
        };
    };
    let opening = first.start..first.start + source[first.clone()].trim_ascii_end().len();
    if !is_delimiter(&source[first.clone()]) {
        return FrontmatterMatch::Missing(first);
    }
    let closing = lines.find(|line| is_delimiter(&source[line.clone()]));
    match closing {
        Some(closing) => FrontmatterMatch::Found(Frontmatter {
            has_byte_order_mark,
            blank_lines: start..first.start,
            opening,
            yaml: first.end..closing.start,
            body_start: closing.end,
        }),
        None if source.len() > MAX_FRONTMATTER => FrontmatterMatch::TooLarge(opening),
        None => FrontmatterMatch::Unclosed(opening),
    }
}

/// The opening line of what can only be meant as frontmatter, below a few other lines: a comment, or the fence of an example.
pub(super) fn misplaced_frontmatter(source: &[u8]) -> Option<Range<usize>> {
    const MAX_LINES_BEFORE: usize = 10;
    let mut lines = lines(source, 0);
    let opening = lines.by_ref().take(MAX_LINES_BEFORE).find(|line| is_delimiter(&source[line.clone()]))?;
    let is_key = |line: &Range<usize>| {
        let line = &source[line.clone()];
        line.starts_with(b"name:") || line.starts_with(b"description:")
    };
    lines.take_while(|line| !is_delimiter(&source[line.clone()])).any(|line| is_key(&line)).then_some(opening)
}

/// The lines within the first [`MAX_FRONTMATTER`] bytes, each with its line end.
fn lines(source: &[u8], start: usize) -> impl Iterator<Item = Range<usize>> {
    let capped = &source[..source.len().min(MAX_FRONTMATTER)];
    capped[start..].split_inclusive(|&byte| byte == b'\n').scan(start, |offset, line| {
        let range = *offset..*offset + line.len();
        *offset = range.end;
        Some(range)
    })
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn is_delimiter(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}

/// Whether an incomplete line may still become a delimiter.
fn may_become_delimiter(line: &[u8]) -> bool {
    b"---".starts_with(line) || BYTE_ORDER_MARK.starts_with(line)
}

/// All keys of the frontmatter, typed by the core schema of YAML 1.2: `1.0` is a number and `"1.0"` a text.
///
/// `None` where there is no frontmatter that is a mapping, or a number that JSON cannot represent.
pub fn typed_frontmatter(source: &[u8]) -> Option<Map<String, Json>> {
    let FrontmatterMatch::Found(found) = find_frontmatter(source) else { return None };
    let text = std::str::from_utf8(source.get(found.yaml)?).ok()?;
    match yaml::parse(text).ok()?.root?.to_json().ok()? {
        Json::Object(entries) => Some(entries),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn yaml(source: &str) -> Option<&str> {
        match find_frontmatter(source.as_bytes()) {
            FrontmatterMatch::Found(found) => Some(&source[found.yaml]),
            _ => None,
        }
    }

    #[test]
    fn only_lines_that_are_exactly_three_hyphens_delimit() {
        assert_eq!(
            yaml("---\na: x --- y\n  ---\n---b\n----\n--- \t\nbody\n---\n"),
            Some("a: x --- y\n  ---\n---b\n----\n")
        );
        assert_eq!(yaml("---\n---"), Some(""));
        assert_eq!(yaml("\u{feff}\r\n \n---\r\na: b\r\n---\r\n"), Some("a: b\r\n"));
        assert_eq!(yaml("--- x\na: b\n---\n"), None);
    }

    #[test]
    fn a_head_is_known_as_soon_as_its_closing_line_is_read() {
        let file = b"\n---\na: b\n---\nbody";
        for length in 0..file.len() {
            let expected = if length < 14 { FrontmatterLen::NeedMore } else { FrontmatterLen::Complete(14) };
            assert_eq!(frontmatter_len(&file[..length]), expected, "{length} bytes");
        }
    }

    #[test]
    fn a_head_that_cannot_come_is_refused_early() {
        assert_eq!(frontmatter_len(b"# Title"), FrontmatterLen::NoFrontmatter);
        assert_eq!(frontmatter_len(b"--x"), FrontmatterLen::NoFrontmatter);
        assert_eq!(frontmatter_len(&vec![b'\n'; MAX_FRONTMATTER + 1]), FrontmatterLen::TooLarge);
        let mut endless = b"---\n".to_vec();
        endless.resize(MAX_FRONTMATTER + 1, b'a');
        assert_eq!(frontmatter_len(&endless), FrontmatterLen::TooLarge);
    }

    #[test]
    fn values_have_the_types_that_other_parsers_see() {
        let text = b"---\nname: x\nversion: 1.0\nquoted: \"1.0\"\non: yes\ndate: 2024-01-01\nmetadata: {a: [1, ~]}\n---\nbody";
        let expected = json!({
            "name": "x", "version": 1.0, "quoted": "1.0", "on": "yes", "date": "2024-01-01",
            "metadata": {"a": [1, null]},
        });
        assert_eq!(typed_frontmatter(text).map(Json::Object), Some(expected));
    }

    #[test]
    fn what_cannot_be_typed_is_left_out() {
        for text in ["", "body", "---\n- a\n---\n", "---\na: .inf\n---\n", "---\na: [\n---\n", "---\na: b\n"]
        {
            assert_eq!(typed_frontmatter(text.as_bytes()), None, "{text}");
        }
    }
}
