//! Output of scripts for a terminal: colours pass, and every other control sequence is spelled out.

use std::io::{self, Write};

use super::terminal::escape_text;

/// Maximum bytes of the parameters of a colour.
const MAX_PARAMETER_BYTES: usize = 32;

/// What sets all colours back.
const RESET: &str = "\u{1b}[0m";

/// Writes text to a terminal: letters, newlines, tabs and colours (SGR) as they are, and the rest so that it is seen and does nothing.
/// When this is dropped, the colours are set back.
pub struct TerminalFilter<W: Write> {
    terminal: W,
    /// The beginning of a character or of a sequence.
    pending: Vec<u8>,
    has_colours: bool,
}

/// The beginning of a text that comes in pieces.
enum Piece<'a> {
    /// Text without a control sequence that passes.
    Text(&'a str),
    Colour(&'a str),
    /// More must come before anybody knows what it is.
    Incomplete,
}

impl<W: Write> TerminalFilter<W> {
    pub fn new(terminal: W) -> Self {
        Self { terminal, pending: Vec::new(), has_colours: false }
    }

    /// Writes what is decided of a text, in one piece; returns its length.
    fn write_text(&mut self, text: &str, is_last: bool) -> io::Result<usize> {
        let (mut rest, mut shown) = (text, String::with_capacity(text.len()));
        while !rest.is_empty() {
            let length = match first_piece(rest, is_last) {
                Piece::Incomplete => break,
                Piece::Colour(colour) => {
                    self.has_colours = true;
                    shown.push_str(colour);
                    colour.len()
                }
                Piece::Text(plain) => {
                    shown.push_str(&escape_text(&plain.replace("\r\n", "\n")));
                    plain.len()
                }
            };
            rest = &rest[length..];
        }
        self.terminal.write_all(shown.as_bytes())?;
        Ok(text.len() - rest.len())
    }

    fn write_pending(&mut self, is_last: bool) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.pending);
        let mut chunks = bytes.utf8_chunks().peekable();
        let mut text = String::with_capacity(bytes.len());
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let may_go_on = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && may_go_on && !is_last {
                self.pending = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        // Text that waits for more comes before the beginning of a character.
        let written = self.write_text(&text, is_last)?;
        let mut rest = text.as_bytes()[written..].to_vec();
        rest.append(&mut self.pending);
        self.pending = rest;
        Ok(())
    }
}

/// The first part of a text that is not empty.
fn first_piece(text: &str, is_last: bool) -> Piece<'_> {
    let Some(rest) = text.strip_prefix('\u{1b}') else {
        let end = text.find('\u{1b}').unwrap_or(text.len());
        // It may be the first half of the end of a line.
        return match text[..end].strip_suffix('\r').filter(|_| end == text.len() && !is_last) {
            Some("") => Piece::Incomplete,
            Some(plain) => Piece::Text(plain),
            None => Piece::Text(&text[..end]),
        };
    };
    // What is not a colour begins with an escape that is spelled out, and goes on as text.
    let no_colour = Piece::Text(&text[..1]);
    let unknown = || if is_last { Piece::Text(&text[..1]) } else { Piece::Incomplete };
    if rest.is_empty() {
        return unknown();
    }
    let Some(rest) = rest.strip_prefix('[') else { return no_colour };
    let parameters = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b";:".contains(byte)).count();
    if parameters > MAX_PARAMETER_BYTES {
        return no_colour;
    }
    match rest.as_bytes().get(parameters) {
        Some(b'm') => Piece::Colour(&text[..=2 + parameters]),
        Some(_) => no_colour,
        None => unknown(),
    }
}

impl<W: Write> Write for TerminalFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        self.write_pending(false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.terminal.flush()
    }
}

impl<W: Write> Drop for TerminalFilter<W> {
    fn drop(&mut self) {
        // If the terminal is gone, nobody sees it.
        let _ = self.write_pending(true);
        if self.has_colours {
            let _ = self.terminal.write_all(RESET.as_bytes());
        }
        let _ = self.terminal.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the terminal gets of these bytes, in pieces of every size.
    #[track_caller]
    fn shows(bytes: &[u8], expected: &str) {
        for size in 1..=bytes.len() {
            let mut screen = Vec::new();
            let mut filter = TerminalFilter::new(&mut screen);
            bytes.chunks(size).for_each(|piece| filter.write_all(piece).unwrap());
            drop(filter);
            assert_eq!(String::from_utf8(screen).unwrap(), expected, "pieces of {size}");
        }
    }

    #[test]
    fn colours_pass_and_are_set_back() {
        shows(b"a\x1b[1;38:5:9mb\x1b[0m\n", "a\u{1b}[1;38:5:9mb\u{1b}[0m\n\u{1b}[0m");
        shows("grüße\t😀\r\n".as_bytes(), "grüße\t😀\n");
    }

    #[test]
    fn other_sequences_are_seen_and_do_nothing() {
        for (bytes, expected) in [
            (&b"\x1b[2Jgone"[..], "\\u{1b}[2Jgone"),
            (b"\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            (b"\x1b]8;;http://x\x1b\\", "\\u{1b}]8;;http://x\\u{1b}\\"),
            (b"50%\r100%\n", "50%\\u{d}100%\n"),
            (b"\x1b[?25l\x1b[1A", "\\u{1b}[?25l\\u{1b}[1A"),
            (b"\x1bcx", "\\u{1b}cx"),
            (b"\x1b", "\\u{1b}"),
            (b"\x1b[31", "\\u{1b}[31"),
            (b"\x1b\x1b[2J", "\\u{1b}\\u{1b}[2J"),
            (b"\x1b[>4m", "\\u{1b}[>4m"),
            (b"a\xffb\xe2\x82", "a\u{fffd}b\u{fffd}"),
            ("\u{9b}31m\u{202e}x".as_bytes(), "\\u{9b}31m\\u{202e}x"),
        ] {
            shows(bytes, expected);
        }
        let long = format!("\u{1b}[{}m", "1;".repeat(20));
        shows(long.as_bytes(), &long.replace('\u{1b}', "\\u{1b}"));
    }
}
