//! The output of a process, line by line while it runs, for the observer of its run.

use super::context::SkillContext;
use super::event::{EventKind, OutputStream};
use crate::host::RunMessages;

/// Maximum bytes of a line in one event; a longer line takes several.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Maximum bytes that are held back because they may be the beginning of a secret.
const MAX_HELD_BYTES: usize = 256 << 10;

/// Both streams of a process, as far as somebody observes them.
#[derive(Default)]
pub struct ProcessOutput<'a> {
    stdout: Option<OutputLines<'a>>,
    stderr: Option<OutputLines<'a>>,
}

/// The lines of one stream.
struct OutputLines<'a> {
    ctx: &'a SkillContext,
    stream: OutputStream,
    /// Bytes of the stream that were read.
    read: usize,
    /// The beginning of a character.
    partial_char: Vec<u8>,
    /// Text that may contain the beginning of a secret.
    held: String,
    /// The beginning of a line, without secrets.
    line: String,
    /// Whether too much would have to be held back: then no further line is passed on.
    is_over: bool,
}

impl<'a> ProcessOutput<'a> {
    /// Both streams, if the run is observed.
    pub fn new(ctx: &'a SkillContext) -> Self {
        Self { stdout: OutputLines::new(ctx, OutputStream::Stdout), ..Self::without_stdout(ctx) }
    }

    /// Standard error, of a process that speaks a protocol on standard output.
    pub fn without_stdout(ctx: &'a SkillContext) -> Self {
        Self { stdout: None, stderr: OutputLines::new(ctx, OutputStream::Stderr) }
    }

    /// Passes on the new lines; each stream is everything that was kept of it so far.
    pub fn update(&mut self, stdout: &[u8], stderr: &[u8]) {
        for (lines, output) in [(&mut self.stdout, stdout), (&mut self.stderr, stderr)] {
            if let Some(lines) = lines {
                lines.update(output);
            }
        }
    }

    /// Passes on the rest of each stream: everything that was kept of it, and whether it was truncated.
    pub fn finish(self, stdout: (&[u8], bool), stderr: (&[u8], bool)) {
        for (lines, (output, is_truncated)) in [(self.stdout, stdout), (self.stderr, stderr)] {
            if let Some(lines) = lines {
                lines.finish(output, is_truncated);
            }
        }
    }
}

impl<'a> OutputLines<'a> {
    fn new(ctx: &'a SkillContext, stream: OutputStream) -> Option<Self> {
        ctx.is_observed().then(|| Self {
            ctx,
            stream,
            read: 0,
            partial_char: Vec::new(),
            held: String::new(),
            line: String::new(),
            is_over: false,
        })
    }

    fn update(&mut self, output: &[u8]) {
        let new = output.get(self.read..).unwrap_or_default();
        self.read += new.len();
        if new.is_empty() || self.is_over {
            return;
        }
        let text = self.decode(new);
        let decided = self.ctx.redaction().take_decided(&mut self.held, &text).into_inner();
        self.add(&decided);
        self.is_over = self.held.len() > MAX_HELD_BYTES;
    }

    fn finish(mut self, output: &[u8], is_truncated: bool) {
        self.update(output);
        if self.is_over {
            return;
        }
        let mut rest = std::mem::take(&mut self.held);
        let redaction = self.ctx.redaction();
        let rest = if is_truncated {
            redaction.text_prefix(rest)
        } else {
            rest.push_str(&String::from_utf8_lossy(&self.partial_char));
            redaction.text(rest)
        };
        self.add(rest.as_inner());
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.notify(line, false);
        }
    }

    /// The text of these bytes and of those that were left before; the beginning of a character at their end is left.
    fn decode(&mut self, new: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.partial_char);
        bytes.extend_from_slice(new);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_incomplete =
                || std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && is_incomplete() {
                self.partial_char = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// Adds text without secrets, and passes on the lines that are complete.
    fn add(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            let end = piece.strip_suffix('\n');
            self.line.push_str(end.unwrap_or(piece));
            while self.line.len() > MAX_LINE_BYTES {
                let rest = self.line.split_off(self.line.floor_char_boundary(MAX_LINE_BYTES));
                let line = std::mem::replace(&mut self.line, rest);
                self.notify(line, true);
            }
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                line.truncate(line.strip_suffix('\r').map_or(line.len(), str::len));
                self.notify(line, false);
            }
        }
    }

    fn notify(&self, line: String, continues: bool) {
        self.ctx.notify(|| EventKind::Output { stream: self.stream, line, continues });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::host::Event;

    /// The lines that leave when the output comes in these pieces, with `+` where a line continues.
    fn lines_of(secrets: &[&str], pieces: &[&[u8]], is_truncated: bool) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let observer = move |event: &Event| {
            if let EventKind::Output { line, continues, .. } = &event.kind {
                sink.lock().unwrap().push(format!("{line}{}", if *continues { "+" } else { "" }));
            }
        };
        let ctx = SkillContext::builder("x").observer(Arc::new(observer)).build();
        for secret in secrets {
            ctx.learn_secret("KEY", secret);
        }
        let mut output = ProcessOutput::new(&ctx);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(piece);
            output.update(&all, b"");
        }
        output.finish((&all, is_truncated), (b"", false));
        std::mem::take(&mut *lines.lock().unwrap())
    }

    /// The same whether it comes at once, in two pieces or byte by byte.
    #[track_caller]
    fn leaves(secrets: &[&str], text: &str, expected: &[&str]) {
        let bytes = text.as_bytes();
        assert_eq!(lines_of(secrets, &[bytes], false), expected, "{text}: at once");
        for at in 0..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(lines_of(secrets, &[first, second], false), expected, "{text}: cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(lines_of(secrets, &single, false), expected, "{text}: byte by byte");
    }

    #[test]
    fn lines_leave_whole_and_without_their_ends() {
        leaves(&[], "one\ntwo\r\n\nlast", &["one", "two", "", "last"]);
        leaves(&[], "grüße 😀\n", &["grüße 😀"]);
        leaves(&[], "", &[]);
        assert_eq!(
            lines_of(&[], &[b"a\xff\xe2\x82", b"b\n\xe2\x82"], false),
            ["a\u{fffd}\u{fffd}b", "\u{fffd}"]
        );
    }

    #[test]
    fn a_secret_is_removed_however_it_is_split() {
        let key = "s3cret-of-many-letters";
        leaves(&[key], &format!("a {key} b\nc {key}\n"), &["a [secret:KEY] b", "c [secret:KEY]"]);
        // As in the outcome, white space in it changes nothing, ends of lines included.
        leaves(&[key], "a s3cret-of-\nmany-\n\nletters b\n", &["a [secret:KEY] b"]);
        leaves(&[key], "a s3cret-of-man\n", &["a s3cret-of-man"]);
        leaves(&["s3c"], "s3cs3c s3\n", &["[secret:KEY][secret:KEY] s3"]);
        leaves(&["abcdefgh", "abcdefghijkl"], "abcdefghijkl abcdefghij\n", &["[secret:KEY] [secret:KEY]ij"]);
    }

    #[test]
    fn a_secret_with_a_long_end_is_removed_however_it_is_split() {
        let key: String =
            (0..3000).flat_map(|number| format!("{number:04}").into_bytes()).map(char::from).collect();
        let text = format!("a {key} b\n");
        for size in [1, 100, 8192, 9000, 11_999] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(lines_of(&[&key], &pieces, false), ["a [secret:KEY] b"], "pieces of {size}");
        }
    }

    #[test]
    fn the_beginning_of_a_secret_is_removed_where_the_stream_was_cut() {
        assert_eq!(lines_of(&["s3cret-of-many"], &[b"one\ntwo s3cret-o"], true), ["one", "two "]);
    }

    #[test]
    fn a_line_leaves_when_it_is_complete_and_cannot_be_a_secret() {
        let count = |pieces: &[&[u8]]| {
            let lines = Arc::new(Mutex::new(0));
            let sink = lines.clone();
            let ctx = SkillContext::builder("x");
            let ctx = ctx.observer(Arc::new(move |_: &Event| *sink.lock().unwrap() += 1)).build();
            ctx.learn_secret("KEY", "s3cret-of-many");
            let mut output = ProcessOutput::new(&ctx);
            let all = pieces.concat();
            output.update(&all, b"");
            *lines.lock().unwrap()
        };
        assert_eq!(count(&[b"one\ntwo\nthr"]), 2);
        assert_eq!(count(&[b"one\ns3cre\n"]), 1);
        assert_eq!(count(&[b"one\ns3crex\n"]), 2);
    }

    #[test]
    fn a_long_line_leaves_in_pieces() {
        let text = format!("{}é", "x".repeat(2 * MAX_LINE_BYTES - 1));
        let lines = lines_of(&[], &[text.as_bytes()], false);
        let lengths: Vec<_> = lines.iter().map(|line| (line.len(), line.ends_with('+'))).collect();
        assert_eq!(lengths, [(MAX_LINE_BYTES + 1, true), (MAX_LINE_BYTES, true), (2, false)]);
        assert_eq!(lines.concat().replace('+', ""), text);
    }

    #[test]
    fn a_flood_between_the_parts_of_a_secret_is_not_searched_again_and_again() {
        let started = std::time::Instant::now();
        for blank in [" ", "\u{200b}", "\u{7}", "\n"] {
            let flood = blank.repeat(100_000);
            let mut pieces = vec![&b"one\ns3cret-"[..]];
            pieces.extend(flood.as_bytes().chunks(3).take(30_000));
            pieces.push(b"of-many\ntwo\n");
            assert_eq!(lines_of(&["s3cret-of-many"], &pieces, false), ["one", "[secret:KEY]", "two"]);
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn what_would_have_to_be_held_for_long_does_not_leave_at_all() {
        let blanks = " ".repeat(MAX_HELD_BYTES);
        let pieces = [&b"one\ns3cret-"[..], blanks.as_bytes(), b"of-many\ntwo\n"];
        assert_eq!(lines_of(&["s3cret-of-many"], &pieces, false), ["one"]);
    }
}
