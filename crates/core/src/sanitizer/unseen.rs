//! Characters that nobody sees: orders to a terminal, control characters, and those that [`unicode`](crate::unicode) lists as invisible.

use unicode_normalization::char::is_combining_mark;

use super::edit::Edit;
use crate::unicode::{MAX_COMBINING_MARKS, after_escape_sequence, is_invisible, is_part_of_emoji};

/// Takes orders to a terminal and control characters other than tab, line feed and carriage return out, and spells invisible characters
/// out as in `\u{202e}`. In the order of the text.
///
/// What stays: a byte order mark at the beginning, what makes an emoji of symbols, and the two joiners after a letter of a script whose
/// words need them.
pub(super) fn unseen_edits(text: &str) -> Vec<Edit> {
    let (mut edits, mut marks, mut at) = (Vec::new(), 0, 0);
    loop {
        let plain = plain_ascii_len(&text.as_bytes()[at..]);
        if plain > 0 {
            (marks, at) = (0, at + plain);
        }
        let Some(c) = text[at..].chars().next() else { return edits };
        let end = at + c.len_utf8();
        if is_plain_letter(c) {
            marks = 0;
        } else if c.is_control() {
            let rest = if is_escape(c) { after_escape_sequence(&text[at..]) } else { &text[end..] };
            let end = text.len() - rest.len();
            edits.push(Edit::removal(at..end));
            at = end;
            continue;
        } else {
            marks = if is_combining_mark(c) { marks + 1 } else { 0 };
            if marks > MAX_COMBINING_MARKS || is_invisible(c) && !has_purpose(text, at, c) {
                edits.push(Edit::new(at..end, c.escape_unicode().to_string()));
            }
        }
        at = end;
    }
}

/// Bytes at the beginning that everybody sees, or that are tabs or line breaks.
fn plain_ascii_len(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r');
    // Without an early end, the compiler looks at many bytes at a time.
    let is_plain_block = |block: &&[u8]| block.iter().fold(true, |plain, byte| plain & is_plain(*byte));
    let blocks = bytes.chunks_exact(BLOCK).take_while(is_plain_block).count() * BLOCK;
    blocks + bytes[blocks..].iter().take_while(|byte| is_plain(**byte)).count()
}

/// Letters of the scripts that most texts are in, which are quickly known: Latin, Greek, Cyrillic, Hebrew, Arabic, Han and Hangul.
fn is_plain_letter(c: char) -> bool {
    matches!(c, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{48a}'..='\u{590}' | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}'
        | '\u{660}'..='\u{66f}' | '\u{671}'..='\u{6d5}'
        | '\u{2010}'..='\u{2027}' | '\u{2500}'..='\u{27ff}' | '\u{3001}'..='\u{3029}' | '\u{3041}'..='\u{3096}'
        | '\u{309b}'..='\u{3163}' | '\u{3190}'..='\u{a66e}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_escape(c: char) -> bool {
    matches!(c, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
}

/// Whether the invisible character there belongs to what is seen.
fn has_purpose(text: &str, at: usize, c: char) -> bool {
    let before = text[..at].chars().next_back();
    let after = || text[at + c.len_utf8()..].chars().next();
    match c {
        '\u{feff}' => at == 0,
        '\u{200c}' | '\u{200d}' if before.is_some_and(is_of_joining_script) => {
            !after().is_some_and(is_invisible)
        }
        _ => is_part_of_emoji(before, c, after),
    }
}

/// Scripts in which a joiner decides how a word is written: Arabic, Syriac, N'Ko, Mongolian, and those of India and its neighbours.
fn is_of_joining_script(c: char) -> bool {
    matches!(c, '\u{610}'..='\u{85f}' | '\u{8a0}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18aa}'
        | '\u{1900}'..='\u{1aff}' | '\u{1b00}'..='\u{1c7f}' | '\u{a800}'..='\u{aaff}' | '\u{fb50}'..='\u{fdcf}'
        | '\u{fdf0}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10a00}'..='\u{10eff}' | '\u{11000}'..='\u{11fff}')
        && !is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is quickly known has nothing that is to be changed, and nothing that counts as a mark.
    #[test]
    fn letters_that_are_quickly_known_are_seen() {
        for c in ('\0'..=char::MAX).filter(|c| is_plain_letter(*c)) {
            assert!(!c.is_control() && !is_invisible(c) && !is_combining_mark(c), "{c:?}");
        }
    }
}
