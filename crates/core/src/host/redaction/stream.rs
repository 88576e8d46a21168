//! Removes secrets from a stream of bytes as it comes, also those with colours in their midst; all other bytes are left as they are.

use std::collections::VecDeque;
use std::ops::Range;

use super::Redaction;
use super::finder::{LongProgress, SecretFinder, WhitespaceMode};
use super::forms::encoded_forms;

/// The state of one stream. It holds back only what may be the beginning of a secret: at most one byte less than the longest form
/// of a secret, and the orders to a terminal in it.
#[derive(Default)]
pub struct RedactedStream {
    /// How many secrets `finder` searches for.
    secret_count: usize,
    finder: Option<SecretFinder>,
    placeholders: Vec<String>,
    /// How much of a secret the stream ends with, as a node of the finder.
    node: u32,
    /// Bytes that may be a part of a secret.
    held: Vec<u8>,
    /// How many bytes at the beginning of `held` belong to a secret whose placeholder is out.
    replaced: usize,
    /// What was found in `held`, in order and without overlaps.
    matches: VecDeque<StreamMatch>,
    /// Very long secrets that the stream ends with the beginning of.
    followed: Vec<LongProgress>,
    /// The search that passes over orders to a terminal, from the first one in what may be a secret.
    plain: Option<PlainSearch>,
}

/// The most bytes of orders to a terminal that are held back.
const MAX_SKIPPED: usize = 64 << 10;

struct PlainSearch {
    /// How much of a secret the stream ends with, without orders to a terminal.
    node: u32,
    /// The order that the stream ends with the beginning of.
    sequence: Option<Sequence>,
    /// Where the orders are in `held`, in order.
    skipped: Vec<Range<usize>>,
}

/// How far an order to a terminal has come (ECMA-48).
#[derive(Clone, Copy)]
enum Sequence {
    Escape,
    /// A control sequence, such as a colour.
    Control,
    /// A designation, such as of letters.
    Designation,
    /// A text for the terminal, such as a title.
    Text,
    /// The character that may end a text.
    TextEscape,
}

struct StreamMatch {
    start: usize,
    end: usize,
    secret: usize,
    /// The bytes of the longest form in it.
    length: usize,
}

impl RedactedStream {
    /// Takes the next bytes of the stream, and adds to `out` what can leave.
    pub fn push(&mut self, redaction: &Redaction, bytes: &[u8], out: &mut Vec<u8>) {
        self.update_finder(redaction);
        if self.finder.is_none() {
            return out.extend_from_slice(bytes);
        }
        for byte in bytes {
            self.push_byte(*byte);
        }
        self.release(self.held.len() - self.open_bytes(), out);
    }

    /// Ends the stream. If it was cut, what may be the beginning of a secret is dropped.
    pub fn finish(&mut self, is_cut: bool, out: &mut Vec<u8>) {
        let open = if is_cut { self.open_bytes() } else { 0 };
        self.release(self.held.len() - open, out);
        if let Some(found) = self.matches.front() {
            out.extend_from_slice(self.placeholder(found.secret));
        }
        *self = Self::default();
    }

    /// Builds the finder again if the run has learned a secret.
    fn update_finder(&mut self, redaction: &Redaction) {
        if !redaction.has_secrets() {
            return;
        }
        let Some(secrets) = redaction.secrets_beyond(self.secret_count) else { return };
        self.secret_count = secrets.len();
        let forms = secrets.iter().enumerate().flat_map(|(number, secret)| {
            encoded_forms(&secret.value).into_iter().map(move |form| (form, number))
        });
        let forms: Vec<(String, usize)> = forms.collect();
        self.finder = SecretFinder::new(
            forms.iter().map(|(form, number)| (form.as_str(), *number)),
            WhitespaceMode::Significant,
        );
        self.placeholders = secrets.into_iter().map(|secret| secret.placeholder).collect();
        // The new finder begins where the old one held something back.
        let again = self.held.split_off(self.replaced);
        self.matches.clear();
        self.followed.clear();
        (self.node, self.plain) = (0, None);
        for byte in again {
            self.push_byte(byte);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        let before = self.node;
        self.push_to_exact(byte);
        if self.plain.is_none() && byte == ESCAPE && before != 0 {
            self.plain = Some(PlainSearch { node: before, sequence: None, skipped: Vec::new() });
        }
        if self.plain.is_some() {
            self.push_to_plain(byte);
        }
    }

    /// Takes the last byte that is held into the search that passes over orders to a terminal.
    fn push_to_plain(&mut self, byte: u8) {
        let end = self.held.len();
        let (Some(finder), Some(plain)) = (&self.finder, &mut self.plain) else { return };
        let mut found = None;
        if plain.skips(byte) {
            match plain.skipped.last_mut().filter(|skipped| skipped.end + 1 == end) {
                Some(last) => last.end = end,
                None => plain.skipped.push(end - 1..end),
            }
        } else {
            plain.node = finder.next(plain.node, byte);
            found = finder.key_at(plain.node).map(|(length, secret)| StreamMatch {
                start: plain.start_of_last(length, end),
                end,
                secret,
                length,
            });
        }
        let skipped: usize = plain.skipped.iter().map(ExactSizeIterator::len).sum();
        if finder.open_bytes(plain.node) == 0 || skipped > MAX_SKIPPED {
            self.plain = None;
        }
        if let Some(found) = found {
            self.add_match(found);
        }
    }

    fn push_to_exact(&mut self, byte: u8) {
        self.held.push(byte);
        let end = self.held.len();
        let Some(finder) = &self.finder else { return };
        self.node = finder.next(self.node, byte);
        let (was_followed, key) =
            (finder.follow(&mut self.followed, byte, self.node), finder.key_at(self.node));
        if was_followed {
            self.extend_last_match(end);
        }
        let Some((length, secret)) = key else { return };
        self.add_match(StreamMatch { start: end - length, end, secret, length });
    }

    /// Adds a match, which ends after all others; matches that overlap become one, with the name of the longest.
    fn add_match(&mut self, mut new: StreamMatch) {
        if new.start < self.replaced {
            self.replaced = new.end;
            return self.matches.clear();
        }
        while self.matches.back().is_some_and(|last| last.end > new.start) {
            let Some(last) = self.matches.pop_back() else { break };
            let named = if new.length > last.length { &new } else { &last };
            let (secret, length) = (named.secret, named.length);
            new = StreamMatch { start: last.start.min(new.start), end: new.end, secret, length };
        }
        self.matches.push_back(new);
    }

    /// Adds the last byte to the secret that ends before it.
    fn extend_last_match(&mut self, end: usize) {
        match self.matches.back_mut() {
            Some(last) => last.end = end,
            None => self.replaced = end,
        }
    }

    /// The bytes at the end that may be the beginning of a secret.
    fn open_bytes(&self) -> usize {
        let Some(finder) = &self.finder else { return 0 };
        let end = self.held.len();
        let plain = self
            .plain
            .as_ref()
            .map_or(0, |plain| end - plain.start_of_last(finder.open_bytes(plain.node), end));
        finder.open_bytes(self.node).max(plain)
    }

    fn placeholder(&self, secret: usize) -> &[u8] {
        self.placeholders.get(secret).map_or(&[], |placeholder| placeholder.as_bytes())
    }

    /// Lets the first bytes that are held go, with placeholders for secrets.
    fn release(&mut self, count: usize, out: &mut Vec<u8>) {
        let mut at = self.replaced.min(count);
        let mut replaced = self.replaced;
        while let Some(found) = self.matches.front().filter(|found| found.start < count) {
            out.extend_from_slice(&self.held[at..found.start]);
            out.extend_from_slice(self.placeholder(found.secret));
            (at, replaced) = (found.end.min(count), found.end);
            self.matches.pop_front();
        }
        out.extend_from_slice(&self.held[at..count]);
        self.held.drain(..count);
        self.replaced = replaced.saturating_sub(count);
        for found in &mut self.matches {
            (found.start, found.end) = (found.start - count, found.end - count);
        }
        if let Some(plain) = &mut self.plain {
            plain.skipped.retain(|skipped| skipped.end > count);
            for skipped in &mut plain.skipped {
                *skipped = skipped.start.saturating_sub(count)..skipped.end - count;
            }
        }
    }
}

impl PlainSearch {
    /// Whether the byte belongs to an order to a terminal.
    fn skips(&mut self, byte: u8) -> bool {
        let (next, is_part) = self.sequence.map_or((None, false), |sequence| sequence.after(byte));
        let begins = !is_part && byte == ESCAPE;
        self.sequence = if begins { Some(Sequence::Escape) } else { next };
        is_part || begins
    }

    /// Where in `held` the last bytes begin that belong to no order.
    fn start_of_last(&self, mut bytes: usize, end: usize) -> usize {
        let mut start = end;
        for skipped in self.skipped.iter().rev() {
            if bytes <= start - skipped.end {
                break;
            }
            bytes -= start - skipped.end;
            start = skipped.start;
        }
        start - bytes
    }
}

const ESCAPE: u8 = 0x1b;

impl Sequence {
    /// How far it is after this byte, `None` if it has ended, and whether the byte is part of it.
    fn after(self, byte: u8) -> (Option<Self>, bool) {
        match (self, byte) {
            (Self::Escape | Self::TextEscape, b']' | b'P' | b'X' | b'^' | b'_') => (Some(Self::Text), true),
            (Self::Escape | Self::TextEscape, b'[') | (Self::Control, b' '..=b'?') => {
                (Some(Self::Control), true)
            }
            (Self::Escape | Self::TextEscape | Self::Designation, b' '..=b'/') => {
                (Some(Self::Designation), true)
            }
            (Self::Control, b'@'..=b'~')
            | (Self::Escape | Self::TextEscape | Self::Designation, b'0'..=b'~')
            | (Self::Text, 7) => (None, true),
            (Self::Text, ESCAPE) => (Some(Self::TextEscape), true),
            (Self::Text, byte) if byte != b'\n' => (Some(Self::Text), true),
            _ => (None, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What leaves of these pieces, and the most that was held back meanwhile.
    fn stream(secrets: &[&str], pieces: &[&[u8]], is_cut: bool) -> (Vec<u8>, usize) {
        let redaction = Redaction::default();
        for secret in secrets {
            redaction.learn("KEY", secret);
        }
        let (mut stream, mut out, mut held) = (RedactedStream::default(), Vec::new(), 0);
        for piece in pieces {
            stream.push(&redaction, piece, &mut out);
            held = held.max(stream.held.len());
        }
        stream.finish(is_cut, &mut out);
        (out, held)
    }

    #[track_caller]
    fn leaves(secrets: &[&str], bytes: &[u8], expected: &[u8]) {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let longest = secrets.iter().map(|secret| secret.len()).max().unwrap_or(1);
        for size in 1..=bytes.len().max(1) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            let (out, held) = stream(secrets, &pieces, false);
            assert_eq!(shown(&out), shown(expected), "pieces of {size}");
            assert_eq!(out, expected, "pieces of {size}");
            assert!(held < longest, "{held} bytes were held back");
        }
    }

    #[test]
    fn a_secret_with_colours_in_its_midst_is_replaced_however_it_is_split() {
        let secrets = ["s3cret-value", "-value-and-more"];
        for colour in ["\x1b[1;31m", "\x1b]8;;https://x\x07", "\x1b]0;t\x1b\\", "\x1b(B", "\x1b[m\x1b[K"] {
            let coloured = |text: &str| {
                text.chars().flat_map(|c| std::iter::once(c).chain(colour.chars())).collect::<String>()
            };
            for (bytes, expected) in [
                (format!("a {} b", coloured("s3cret-value")), format!("a [secret:KEY]{colour} b")),
                (format!("{colour}s3cret-value{colour}"), format!("{colour}[secret:KEY]{colour}")),
                (format!("s3{colour}\ncret-value"), format!("s3{colour}\ncret-value")),
                (format!("s3{colour}s3cr{colour}et-value"), format!("s3{colour}[secret:KEY]")),
                (format!("s3cret{colour}-value{colour}-and-more."), "[secret:KEY].".to_owned()),
                (coloured("s3cret-valux"), coloured("s3cret-valux")),
            ] {
                for size in 1..=bytes.len() {
                    let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(size).collect();
                    let (out, _) = stream(&secrets, &pieces, false);
                    assert_eq!(String::from_utf8(out).unwrap(), expected, "{bytes:?} in pieces of {size}");
                }
            }
        }
        let flood = format!("s3{}", "\x1b[m".repeat(MAX_SKIPPED));
        let (out, held) = stream(&secrets, &flood.as_bytes().chunks(1 << 10).collect::<Vec<_>>(), false);
        assert!(out == flood.as_bytes() && held <= MAX_SKIPPED + (2 << 10), "{held} bytes were held back");
        let (out, _) = stream(&secrets, &[b"a s3\x1b[1mcret-\x1b[0"], true);
        assert_eq!(out, b"a ");
    }

    #[test]
    fn a_secret_is_replaced_however_it_is_split_and_other_bytes_stay() {
        leaves(&["s3cret"], b"a s3cret b s3cre", b"a [secret:KEY] b s3cre");
        leaves(&["s3cret"], b"\xff\0s3cret\x80\r\n\xc3", b"\xff\0[secret:KEY]\x80\r\n\xc3");
        leaves(&["s3cret"], b"s3cs3crets3cret", b"s3c[secret:KEY][secret:KEY]");
        leaves(&["abcdef", "bcd"], b"abcd abcdef bcd", b"a[secret:KEY] [secret:KEY] [secret:KEY]");
        leaves(&["abcdefgh", "ghij"], b"abcdefghij", b"[secret:KEY]");
        leaves(&["aaaa"], b"aaaaaaaaaaaaaaaaaaab", b"[secret:KEY]b");
        leaves(&["abab"], b"ababab ab", b"[secret:KEY] ab");
        leaves(&[], b"s3cret", b"s3cret");
    }

    #[test]
    fn the_beginning_of_a_secret_is_dropped_where_a_stream_was_cut() {
        assert_eq!(stream(&["s3cret"], &[b"a s3cr"], true).0, b"a ");
        assert_eq!(stream(&["s3cret"], &[b"a s3cr"], false).0, b"a s3cr");
        assert_eq!(stream(&["s3cret", "s3crets-are"], &[b"a s3crets"], true).0, b"a [secret:KEY]");
    }

    #[test]
    fn a_very_long_secret_is_replaced_to_its_end() {
        let long: String =
            (0..15_000).flat_map(|number| format!("{number:04}").into_bytes()).map(char::from).collect();
        for size in [1, 4096, 8192, 8193, 60_000] {
            let text = format!("a {long} b");
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let (out, held) = stream(&[&long], &pieces, false);
            assert_eq!(String::from_utf8(out).unwrap(), "a [secret:KEY] b", "pieces of {size}");
            assert!(held < 8193, "{held} bytes were held back");
        }
    }

    /// Whatever of a long secret begins again in it: with each byte, thousands of its beginnings may be open.
    #[test]
    fn a_long_secret_that_repeats_itself_is_replaced_in_time_by_the_length_of_the_stream() {
        let started = std::time::Instant::now();
        let ends = format!("{}REAL-{}", "a".repeat(20_000), "secret".repeat(1000));
        for (secret, text, expected) in [
            ("a".repeat(60_000), "a".repeat(60_000), "[secret:KEY]".to_owned()),
            ("ab".repeat(30_000), format!("x{}y", "ab".repeat(30_000)), "x[secret:KEY]y".into()),
            (
                "a".repeat(60_000),
                format!("{} {}", "a".repeat(200_000), "b".repeat(9)),
                "[secret:KEY] bbbbbbbbb".into(),
            ),
            // It begins later than its beginning is first seen.
            (ends.clone(), format!("{ends}!"), "[secret:KEY]!".into()),
            (ends.clone(), format!("{}{ends}!", "a".repeat(30_000)), "[secret:KEY]!".into()),
            (ends.clone(), format!("{ends} {ends}{ends}"), "[secret:KEY] [secret:KEY][secret:KEY]".into()),
            // Of a part, what is there of its beginning.
            (
                ends.clone(),
                format!("{}!{}", &ends[..24_000], &ends[24_000..]),
                format!("[secret:KEY]!{}", &ends[24_000..]),
            ),
        ] {
            for size in [1, 4096, 8192, 65_536] {
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                let (out, held) = stream(&[&secret], &pieces, false);
                assert!(
                    out == expected.as_bytes(),
                    "pieces of {size}: {} bytes for {}",
                    out.len(),
                    text.len()
                );
                assert!(held < 8193, "{held} bytes were held back");
            }
            let redaction = Redaction::default();
            redaction.learn("KEY", &secret);
            assert!(
                *redaction.text(text.clone()).as_inner() == expected,
                "as a text of {} bytes",
                text.len()
            );
        }
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }

    #[test]
    fn a_secret_that_is_learned_meanwhile_is_replaced() {
        let redaction = Redaction::default();
        let (mut stream, mut out) = (RedactedStream::default(), Vec::new());
        stream.push(&redaction, b"a first-secret ", &mut out);
        redaction.learn("A", "first-secret");
        stream.push(&redaction, b"b first-secret fir", &mut out);
        redaction.learn("B", "first-other");
        stream.push(&redaction, b"st-other c", &mut out);
        stream.finish(false, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "a first-secret b [secret:A] [secret:B] c");
    }

    proptest::proptest! {
        #[test]
        fn no_secret_is_left_whatever_overlaps_and_however_it_is_split(
            secrets in proptest::collection::vec("[ab]{1,5}", 1..4),
            text in "[ab ]{0,40}",
            size in 1_usize..9,
        ) {
            let named: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let (out, held) = stream(&named, &pieces, false);
            let clean = String::from_utf8(out).unwrap().replace("[secret:KEY]", "#");
            for secret in &secrets {
                assert!(!clean.contains(secret.as_str()), "{secret:?} in {clean:?}, from {text:?}");
            }
            assert!(text.matches(' ').eq(clean.matches(' ')), "nothing beside is lost");
            assert!(held < secrets.iter().map(String::len).max().unwrap_or(1));
        }
    }
}
