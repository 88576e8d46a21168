//! Placeholders that are replaced by secrets of the same length, in bytes that are there or that come piece by piece.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Texts, and what takes the place of each.
#[derive(Clone, Default)]
pub(super) struct Replacement(Option<Arc<Rules>>);

struct Rules {
    search: AhoCorasick,
    from: Vec<Vec<u8>>,
    to: Vec<Vec<u8>>,
}

/// Replaces in a stream. What may be the beginning of a text is held back until it is decided.
pub struct StreamReplacement {
    rules: Replacement,
    held: Vec<u8>,
}

impl Replacement {
    /// Of two texts that begin at the same place the longer one counts. The texts of a pair are of the same length.
    pub(super) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let (mut from, mut to) = (Vec::<Vec<u8>>::new(), Vec::new());
        for (text, other) in pairs {
            debug_assert_eq!(text.len(), other.len());
            if !text.is_empty() && !from.iter().any(|known| known == text.as_bytes()) {
                from.push(text.into_bytes());
                to.push(other.into_bytes());
            }
        }
        // The other kinds take many times the memory for long texts.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(&from);
        // It fails only for more texts than a number can count.
        let rules = search.ok().filter(|_| !from.is_empty()).map(|search| Rules { search, from, to });
        Self(rules.map(Arc::new))
    }

    /// Replaces in place; returns whether anything was there.
    pub(super) fn replace(&self, bytes: &mut [u8]) -> bool {
        self.replace_until(bytes, usize::MAX) > 0
    }

    /// Replaces what begins before this place; returns the end of the last one.
    fn replace_until(&self, bytes: &mut [u8], until: usize) -> usize {
        let Some(rules) = &self.0 else { return 0 };
        let found = rules.search.find_iter(&*bytes).take_while(|found| found.start() < until);
        let found: Vec<_> = found.map(|found| (found.range(), found.pattern())).collect();
        let mut end = 0;
        for (range, pattern) in found {
            end = range.end;
            bytes[range].copy_from_slice(&rules.to[pattern.as_usize()]);
        }
        end
    }

    /// Where the end of these bytes begins that may be the beginning of a text.
    fn undecided(&self, bytes: &[u8]) -> usize {
        let Some(rules) = &self.0 else { return bytes.len() };
        let longest = rules.from.iter().map(Vec::len).max().unwrap_or_default();
        let first = bytes.len().saturating_sub(longest.saturating_sub(1));
        let is_begun = |at: &usize| {
            let end = &bytes[*at..];
            rules.from.iter().any(|text| text.len() > end.len() && text.starts_with(end))
        };
        (first..bytes.len()).find(is_begun).unwrap_or(bytes.len())
    }
}

impl StreamReplacement {
    pub(super) fn new(rules: Replacement) -> Self {
        Self { rules, held: Vec::new() }
    }

    /// Adds a piece, and appends to `passed` what is decided of it and of the pieces before.
    pub fn push(&mut self, piece: &[u8], passed: &mut Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend(piece);
        let undecided = self.rules.undecided(&bytes);
        let end = self.rules.replace_until(&mut bytes, undecided).max(undecided);
        self.held = bytes.split_off(end);
        passed.append(&mut bytes);
    }

    /// Appends what was held back: the stream has ended.
    pub fn finish(&mut self, passed: &mut Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        self.rules.replace(&mut bytes);
        passed.append(&mut bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rules: &Replacement, text: &str, piece: usize) -> String {
        let (mut stream, mut passed) = (StreamReplacement::new(rules.clone()), Vec::new());
        text.as_bytes().chunks(piece).for_each(|piece| stream.push(piece, &mut passed));
        stream.finish(&mut passed);
        String::from_utf8(passed).unwrap()
    }

    fn rules(pairs: &[(&str, &str)]) -> Replacement {
        Replacement::new(pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())))
    }

    #[test]
    fn pieces_of_any_length_are_as_good_as_the_whole() {
        let rules = rules(&[("abcab", "ABCAB"), ("abcabcd", "1234567"), ("cc", "xx")]);
        for (text, expected) in [
            ("abcab", "ABCAB"),
            ("abcabcd", "1234567"),
            ("abcabc", "ABCABc"),
            ("ababcabcabcd", "abABCABcabcd"),
            ("abcabcc", "ABCABxx"),
            ("ccc cc c", "xxc xx c"),
            ("abca", "abca"),
            ("", ""),
        ] {
            let mut whole = text.as_bytes().to_vec();
            rules.replace(&mut whole);
            assert_eq!(whole, expected.as_bytes(), "{text}");
            for piece in 1..=text.len().max(1) {
                assert_eq!(stream(&rules, text, piece), expected, "{text} by {piece}");
            }
        }
    }

    #[test]
    fn nothing_is_held_back_that_is_decided() {
        let rules = rules(&[("secret", "SECRET")]);
        let (mut stream, mut passed) = (StreamReplacement::new(rules), Vec::new());
        stream.push(b"data: 1\n\n", &mut passed);
        assert_eq!(passed, b"data: 1\n\n");
        stream.push(b"se", &mut passed);
        assert_eq!(passed, b"data: 1\n\n");
        stream.push(b"t", &mut passed);
        assert_eq!(passed, b"data: 1\n\nset");
    }
}
