//! Detects invisible characters and those that change how others are displayed, so that text shown to a person or passed to a
//! model has them spelled out.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use unicode_normalization::char::is_combining_mark;

/// First and last character, both included, and their description. The first part is `Default_Ignorable_Code_Point` of Unicode 16
/// (`DerivedCoreProperties.txt`), which includes all of `Bidi_Control` (`PropList.txt`); the second lists other invisible
/// characters: all other format characters (`Cf`), blanks and fillers.
const INVISIBLE: [(char, char, &str); 37] = [
    ('\u{ad}', '\u{ad}', "soft hyphen"),
    ('\u{34f}', '\u{34f}', "combining grapheme joiner"),
    ('\u{61c}', '\u{61c}', "Arabic letter mark"),
    ('\u{115f}', '\u{1160}', "Hangul fillers"),
    ('\u{17b4}', '\u{17b5}', "Khmer inherent vowels"),
    ('\u{180b}', '\u{180f}', "Mongolian variation selectors and vowel separator"),
    ('\u{200b}', '\u{200f}', "zero-width space, joiners, direction marks"),
    ('\u{202a}', '\u{202e}', "direction embeddings and overrides"),
    ('\u{2060}', '\u{206f}', "word joiner, invisible operators, direction isolates"),
    ('\u{3164}', '\u{3164}', "Hangul filler"),
    ('\u{fe00}', '\u{fe0f}', "variation selectors"),
    ('\u{feff}', '\u{feff}', "zero-width no-break space"),
    ('\u{ffa0}', '\u{ffa0}', "halfwidth Hangul filler"),
    ('\u{fff0}', '\u{fff8}', "unassigned, ignored by default"),
    ('\u{1bca0}', '\u{1bca3}', "shorthand format controls"),
    ('\u{1d173}', '\u{1d17a}', "musical beams and slurs"),
    ('\u{e0000}', '\u{e0fff}', "tags, further variation selectors"),
    // From here on, characters that are not ignorable by default.
    ('\u{600}', '\u{605}', "Arabic number signs"),
    ('\u{6dd}', '\u{6dd}', "Arabic end of ayah"),
    ('\u{70f}', '\u{70f}', "Syriac abbreviation mark"),
    ('\u{890}', '\u{891}', "Arabic currency marks above"),
    ('\u{8e2}', '\u{8e2}', "Arabic disputed end of ayah"),
    ('\u{2028}', '\u{2029}', "line and paragraph separators"),
    ('\u{2800}', '\u{2800}', "braille blank"),
    ('\u{fdd0}', '\u{fdef}', "noncharacters"),
    ('\u{fff9}', '\u{fffb}', "interlinear annotations"),
    ('\u{fffc}', '\u{fffc}', "object replacement"),
    ('\u{fffe}', '\u{ffff}', "noncharacters"),
    ('\u{110bd}', '\u{110bd}', "Kaithi number sign"),
    ('\u{110cd}', '\u{110cd}', "Kaithi number sign above"),
    ('\u{1107f}', '\u{1107f}', "Brahmi number joiner"),
    ('\u{13430}', '\u{13442}', "hieroglyph format controls and blanks"),
    ('\u{16fe4}', '\u{16fe4}', "Khitan filler"),
    ('\u{1bc9d}', '\u{1bc9e}', "shorthand selectors"),
    ('\u{1d159}', '\u{1d159}', "musical null notehead"),
    ('\u{f0000}', '\u{fffff}', "private use, plane 15"),
    ('\u{100000}', '\u{10ffff}', "private use, plane 16"),
];

/// Maximum combining marks on one letter that are shown. Vietnamese has two, Hebrew with accents four.
pub(crate) const MAX_COMBINING_MARKS: usize = 6;

/// Whether the character is invisible or changes how others are displayed. Control characters and spaces do not count.
pub fn is_invisible(c: char) -> bool {
    // Most text has only characters below all of them.
    c >= '\u{ad}' && (INVISIBLE.iter().any(|(from, to, _)| (*from..=*to).contains(&c)) || is_noncharacter(c))
}

fn is_noncharacter(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe
}

/// Whether a terminal interprets the character instead of showing it, or shows nothing.
pub fn is_control_or_invisible(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// The characters of a text, and whether each is to be spelled out: invisible characters, and combining marks beyond the sixth on
/// one letter. Exceptions are the selector that makes a symbol an emoji and the joiner between two of them.
pub fn mark_escapes(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut before, mut marks) = (None, 0);
    text.char_indices().map(move |(at, c)| {
        let is_of_emoji = is_part_of_emoji(before, c, || text[at + c.len_utf8()..].chars().next());
        marks = if is_combining_mark(c) { marks + 1 } else { 0 };
        before = Some(c);
        (c, (is_control_or_invisible(c) && !is_of_emoji) || marks > MAX_COMBINING_MARKS)
    })
}

/// Whether an invisible character makes an emoji of the characters around it.
pub(crate) fn is_part_of_emoji(before: Option<char>, c: char, after: impl FnOnce() -> Option<char>) -> bool {
    match c {
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(is_emoji_symbol) || is_keycap(before, after()),
        '\u{200d}' => before.is_some_and(can_join_emoji) && after().is_some_and(is_emoji_symbol),
        _ => false,
    }
}

/// A text with its invisible characters spelled out, except line breaks and tabs.
pub fn spell_out(text: &str) -> String {
    if is_plain_ascii(text) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for (c, is_unseen) in mark_escapes(text) {
        if is_unseen && !matches!(c, '\n' | '\t' | '\r') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a text has nothing but what everybody sees, which most have.
pub fn is_plain_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r'))
}

/// [`spell_out`] for all texts in a value, and for the names of its fields. In a schema a name or a choice with such a character is then
/// another one, which no call can name: what a model cannot be shown as it is, it cannot choose.
pub fn spell_out_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(spell_out(&text)),
        Value::Array(items) => items.into_iter().map(spell_out_json).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (spell_out(&name), spell_out_json(value))).collect()
        }
        other => other,
    }
}

/// The text without the sequences by which a program gives orders to a terminal (ECMA-48): colours, moves of the cursor, titles,
/// links. Each is removed as a whole; one that does not end takes the rest of its line at most.
pub fn strip_escape_sequences(text: &str) -> Cow<'_, str> {
    if !has_escape_sequences(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(parts_between_escape_sequences(text).map(|part| &text[part]).collect())
}

/// Whether there may be such a sequence in the text.
fn has_escape_sequences(text: &str) -> bool {
    text.contains(['\u{1b}', '\u{9b}'])
}

/// The parts of the text around these sequences, some of them empty.
fn parts_between_escape_sequences(text: &str) -> impl Iterator<Item = Range<usize>> {
    parts_around(text, |text| {
        let at = text.find(['\u{1b}', '\u{9b}'])?;
        Some(at..text.len() - after_escape_sequence(&text[at..]).len())
    })
}

/// The same, and around colours whose first character is written as a code, as in JSON (`\u001b[31m`), of which the text may end with
/// the beginning; `None` if the text has neither.
pub(crate) fn parts_between_colours(text: &str) -> Option<impl Iterator<Item = Range<usize>>> {
    let find = |text: &str| {
        let mut start = 0;
        loop {
            let at = start + find_colour_start(&text[start..])?;
            let found = &text[at..];
            let code = found.trim_start_matches('\\');
            let rest = match found.len() - code.len() {
                0 => Some(after_escape_sequence(found)),
                _ if CODES_OF_ESCAPE.iter().any(|known| known.starts_with(code)) => Some(""),
                _ => CODES_OF_ESCAPE.iter().find_map(|known| code.strip_prefix(known)).map(after_parameters),
            };
            if let Some(rest) = rest {
                return Some(at..text.len() - rest.len());
            }
            start = text.len() - code.len();
        }
    };
    find(text).map(|_| parts_around(text, find))
}

/// Where the first character is that may begin a colour. Most texts have none, and all are searched before they leave.
fn find_colour_start(text: &str) -> Option<usize> {
    let may_begin = |at: &usize| text[*at..].starts_with(['\u{1b}', '\u{9b}', '\\']);
    // In UTF-8 U+009B is C2 9B, and C2 is always the first byte of a character.
    memchr::memchr3_iter(0x1b, 0xc2, b'\\', text.as_bytes()).find(may_begin)
}

/// How programs write the character that begins a colour, after a backslash, and what follows it.
const CODES_OF_ESCAPE: [&str; 7] = ["u001b[", "u001B[", "u{1b}[", "x1b[", "x1B[", "033[", "e["];

/// The parts of the text around what is found in it, each time in the rest.
fn parts_around(
    text: &str,
    find: impl Fn(&str) -> Option<Range<usize>>,
) -> impl Iterator<Item = Range<usize>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let found = find(&text[start..]);
        next = found.as_ref().map(|found| start + found.end);
        Some(start..found.map_or(text.len(), |found| start + found.start))
    })
}

/// What follows the sequence that the text begins with.
pub(crate) fn after_escape_sequence(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix('\u{9b}').or_else(|| text.strip_prefix("\u{1b}[")) {
        return after_parameters(rest);
    }
    // The same as one character (ECMA-48, 8-bit).
    if let Some(string) = text.strip_prefix(['\u{90}', '\u{98}', '\u{9d}', '\u{9e}', '\u{9f}']) {
        return after_control_string(string);
    }
    let rest = &text[1..];
    if let Some(string) = rest.strip_prefix([']', 'P', 'X', '^', '_']) {
        return after_control_string(string);
    }
    let rest = rest.trim_start_matches(|c: char| matches!(c, ' '..='/'));
    rest.strip_prefix(|c: char| matches!(c, '0'..='~')).unwrap_or(rest)
}

/// What follows the text of a command to a terminal, such as a title.
fn after_control_string(string: &str) -> &str {
    // The first of them ends it: a search for each would take time by the square of the text.
    let Some(end) = string.find(['\u{7}', '\u{1b}', '\u{9c}', '\n']) else { return "" };
    let rest = &string[end..];
    rest.strip_prefix(['\u{7}', '\u{9c}']).or_else(|| rest.strip_prefix("\u{1b}\\")).unwrap_or(rest)
}

/// What follows the parameters and the letter of a control sequence.
fn after_parameters(text: &str) -> &str {
    let rest = text.trim_start_matches(|c: char| matches!(c, ' '..='?'));
    rest.strip_prefix(|c: char| matches!(c, '@'..='~')).unwrap_or(rest)
}

/// Symbols that have an emoji form.
fn is_emoji_symbol(c: char) -> bool {
    let is_in_block = matches!(c, '©' | '®' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}');
    is_in_block && !is_invisible(c)
}

fn can_join_emoji(c: char) -> bool {
    c == '\u{fe0f}' || is_emoji_symbol(c)
}

/// `1️⃣`: the keycap follows the selector.
fn is_keycap(before: Option<char>, after: Option<char>) -> bool {
    after == Some('\u{20e3}') && before.is_some_and(|c| matches!(c, '0'..='9' | '#' | '*'))
}

/// The text, and where it has letters that may look like others, what they are. Control characters stay: escape it before you show it.
pub fn with_lookalikes(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let ascii: String = text
        .chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() })
        .collect();
    format!("{text} (letters outside of ASCII: {ascii})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        mark_escapes(text).fold(String::new(), |mut shown, (c, is_spelled)| {
            if is_spelled {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
            shown
        })
    }

    #[test]
    fn every_row_is_spelled_out_from_its_first_to_its_last_and_not_beyond() {
        for (from, to, what) in INVISIBLE {
            for c in [from, to] {
                let text = format!("a{c}b");
                assert_eq!(shown(&text), format!("a{}b", c.escape_unicode()), "{what}");
            }
            for beyond in [u32::from(from) - 1, u32::from(to) + 1] {
                let Some(beyond) = char::from_u32(beyond) else { continue };
                let is_in_another = INVISIBLE.iter().any(|(from, to, _)| (*from..=*to).contains(&beyond));
                let is_plain = !beyond.is_control() && !is_noncharacter(beyond);
                assert!(is_in_another || !is_plain || !is_control_or_invisible(beyond), "{what}: {beyond:?}");
            }
        }
    }

    /// Compares the table with the Unicode tables of `regex`: none of their characters is missing, and the first part equals one
    /// of their properties exactly.
    #[test]
    fn the_table_has_all_that_unicode_says_is_ignored_or_formats() {
        let ranges = |class: &str| {
            let parsed = regex_syntax::parse(class).unwrap();
            let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) =
                parsed.into_kind()
            else {
                panic!("{class}")
            };
            class.ranges().iter().map(|range| (range.start(), range.end())).collect::<Vec<_>>()
        };
        let ignored =
            INVISIBLE.iter().map(|(from, to, _)| (*from, *to)).take_while(|(from, _)| *from != '\u{600}');
        assert_eq!(ignored.collect::<Vec<_>>(), ranges(r"\p{Default_Ignorable_Code_Point}"));
        for class in [
            r"\p{Default_Ignorable_Code_Point}",
            r"\p{Bidi_Control}",
            r"\p{Cf}",
            r"[\p{Zl}\p{Zp}]",
            r"\p{Noncharacter_Code_Point}",
            r"\p{Variation_Selector}",
        ] {
            for (from, to) in ranges(class) {
                let missing: Vec<char> = (from..=to).filter(|c| !is_invisible(*c)).collect();
                assert!(missing.is_empty(), "{class}: {missing:?}");
            }
        }
    }

    /// No Unicode property lists these, so they are repeated here: this test finds a row that was removed above.
    #[test]
    fn blanks_fillers_and_private_signs_are_spelled_out() {
        for c in [
            '\u{2800}',
            '\u{fffc}',
            '\u{1107f}',
            '\u{13441}',
            '\u{13442}',
            '\u{16fe4}',
            '\u{1bc9d}',
            '\u{1bc9e}',
            '\u{1d159}',
            '\u{f0000}',
            '\u{ffffd}',
            '\u{100000}',
            '\u{10fffd}',
        ] {
            assert!(is_control_or_invisible(c), "{c:?}");
        }
    }

    #[test]
    fn controls_and_noncharacters_are_spelled_out() {
        for c in ['\0', '\u{1b}', '\r', '\u{7f}', '\u{80}', '\u{9b}', '\u{9f}', '\u{1fffe}', '\u{2ffff}'] {
            assert_eq!(shown(&format!("a{c}b")), format!("a{}b", c.escape_unicode()));
        }
    }

    #[test]
    fn letters_of_all_languages_and_emoji_stay() {
        for text in [
            "plain, naïve, 東京, Ελλάδα, हिन्दी, ไทย, 한국어, العربية, שָׁלוֹם",
            "tie\u{302}\u{323}ng Vie\u{323}\u{302}t",
            "a\u{a0}b\u{3000}c\u{202f}d",
            "⚠️ ❤️ 1️⃣ ©️ ✅ 👍🏽",
            "👩‍💻 🏳️‍🌈 👨‍👩‍👧",
            "\u{e0b0} a private sign of the basic plane",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_hides_a_message_does_not_pass_for_an_emoji() {
        for (text, expected) in [
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("⚠\u{fe0f}\u{fe0f}", "⚠\u{fe0f}\\u{fe0f}"),
            ("😀\u{e0101}\u{fe01}", "😀\\u{e0101}\\u{fe01}"),
            ("a\u{200d}b", "a\\u{200d}b"),
            ("😀\u{200d}", "😀\\u{200d}"),
            ("😀\u{200d}\u{200d}😀", "😀\\u{200d}\\u{200d}😀"),
            ("🏴\u{e0067}\u{e007f}", "🏴\\u{e0067}\\u{e007f}"),
            ("1\u{fe0f}", "1\\u{fe0f}"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_flood_of_marks_ends_after_some() {
        let flood = format!("e{}f", "\u{301}".repeat(100));
        let left = shown(&flood);
        assert_eq!(left.matches('\u{301}').count(), MAX_COMBINING_MARKS);
        assert_eq!(left.matches("\\u{301}").count(), 100 - MAX_COMBINING_MARKS);
    }

    #[test]
    fn texts_and_names_inside_of_json_are_spelled_out() {
        let schema = serde_json::json!({
            "description": "a\u{202e}b", "n\u{200b}": {"enum": ["x\u{e0041}", 1, null], "default": ["\u{2060}"]}, "pattern": "^a\n$"
        });
        let expected = serde_json::json!({
            "description": "a\\u{202e}b", "n\\u{200b}": {"enum": ["x\\u{e0041}", 1, null], "default": ["\\u{2060}"]}, "pattern": "^a\n$"
        });
        assert_eq!(spell_out_json(schema), expected);
    }

    #[test]
    fn orders_to_a_terminal_are_removed_as_a_whole() {
        for (text, expected) in [
            ("plain [0m and [31m", "plain [0m and [31m"),
            ("\u{1b}[0m\u{1b}[1m\u{1b}[31merror\u{1b}[0m: JSR package", "error: JSR package"),
            ("\u{1b}[38;5;196ma\u{1b}[38:2::1:2:3mb\u{1b}[m", "ab"),
            ("\u{1b}[?25l\u{1b}[2K\u{1b}[1Ga\u{1b}[>4;1mb", "ab"),
            ("\u{9b}31ma\u{9b}0m", "a"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;https://x\u{1b}\\b\u{1b}]8;;\u{1b}\\", "ab"),
            ("\u{1b}P1$r0m\u{1b}\\a\u{1b}(Bb\u{1b}=c\u{1b}7", "abc"),
            ("\u{1b}]0;no end\nnext", "\nnext"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[31", "a"),
            ("\u{1b}[31é\n", "é\n"),
            ("\u{1b}é\u{1b}\u{1b}[1mb", "éb"),
            ("\u{1b}[31\nb", "\nb"),
        ] {
            assert_eq!(strip_escape_sequences(text), expected, "{text:?}");
        }
    }

    #[test]
    fn colours_are_found_also_where_their_beginning_is_written_as_a_code() {
        for (text, expected) in [
            ("plain \\ and \\u00e9", None),
            ("a\u{1b}[31mb\\u001b[0mc", Some("abc")),
            (r"a\x1b[1;31mb\033[mc\\u001B[0md\e[Ke", Some("abcde")),
            (r"\\\\ \u001b 31", None),
            (r"a\u00", Some("a")),
            (r"a\\", Some("a")),
        ] {
            let parts = parts_between_colours(text);
            let plain = parts.map(|parts| parts.map(|part| &text[part]).collect::<String>());
            assert_eq!(plain.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn letters_outside_of_ascii_are_named() {
        assert_eq!(with_lookalikes("net:api"), "net:api");
        assert_eq!(
            with_lookalikes("net:\u{430}pi"),
            "net:\u{430}pi (letters outside of ASCII: net:\\u{430}pi)"
        );
    }
}
