//! The mark with which some editors begin a file in UTF-8. It is no part of the text, and only one is left out.

const MARK: &str = "\u{feff}";

/// The text behind its mark, if it begins with one.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// The same of bytes that may be text.
pub fn bytes_without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK.as_bytes()).unwrap_or(bytes)
}

/// The offset at which the text begins, for what keeps positions in the whole file.
pub fn mark_len(text: &str) -> usize {
    text.len() - without_mark(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_at_the_beginning_is_no_part_of_the_text() {
        assert_eq!((without_mark("\u{feff}a"), mark_len("\u{feff}a")), ("a", 3));
        assert_eq!((without_mark("a\u{feff}"), mark_len("a\u{feff}")), ("a\u{feff}", 0));
        assert_eq!(without_mark("\u{feff}\u{feff}a"), "\u{feff}a");
        assert_eq!(bytes_without_mark(b"\xef\xbb\xbf#!/bin/sh"), b"#!/bin/sh");
        assert_eq!(bytes_without_mark(b"\xef\xbb"), b"\xef\xbb");
    }
}
