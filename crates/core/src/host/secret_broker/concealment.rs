//! Finds secrets in what hosts answer, and puts placeholders in their places.
//!
//! A secret is matched character by character, each as it is, in an address, in JSON or in HTML, in capitals or small letters; and what
//! base64 makes of it, also in lines. What takes its place has the same length, and leaves encoded characters as they are.
//!
//! In a stream, the end of what came is held back while all of its bytes may stand in some secret, whatever the secrets are: otherwise the
//! ends of the pieces would tell them letter by letter.

use std::ops::Range;
use std::sync::Arc;

use super::forms::{Unit, base64_patterns};

/// The secrets of a run, as answers are searched for them.
#[derive(Clone, Default)]
pub(super) struct Concealment(Arc<Rules>);

#[derive(Default)]
struct Rules {
    patterns: Vec<Pattern>,
    /// What placeholders have besides letters and digits, as the secrets have it.
    punctuation: Vec<u8>,
}

/// A secret in one of its forms.
pub(super) struct Pattern {
    units: Vec<Unit>,
    is_base64: bool,
}

/// Conceals in a stream.
pub struct StreamConcealment {
    rules: Concealment,
    held: Vec<u8>,
}

impl Pattern {
    /// A secret and its placeholder as they are.
    fn of_text(value: &str, placeholder: &str) -> Self {
        let pairs = value.bytes().zip(placeholder.bytes());
        let units = pairs.map(|(value, placeholder)| Unit { value: Some(value), placeholder });
        Self { units: units.collect(), is_base64: false }
    }

    /// Whether a comparison from this place on is of use: most differ in one of the first two characters.
    fn may_be_at(&self, bytes: &[u8], start: usize) -> bool {
        let mut ends = false;
        self.units.iter().take(2).zip(&bytes[start..]).all(|(unit, byte)| {
            // What begins an encoded character or a line break is looked at more closely.
            ends |= b"%\\&\r\n".contains(byte);
            ends || self.fits(*unit, *byte)
        })
    }

    /// The places of the characters from a place on, in their order, if the pattern is there.
    fn compare(&self, bytes: &[u8], start: usize) -> Option<Vec<Range<usize>>> {
        if !self.may_be_at(bytes, start) {
            return None;
        }
        // The places of each character, with the number of the one before it after which it comes.
        let mut steps: Vec<Vec<(Range<usize>, usize)>> = Vec::new();
        let mut begins = vec![start];
        for (number, unit) in self.units.iter().enumerate() {
            let mut places: Vec<(Range<usize>, usize)> = Vec::new();
            for (from, begin) in begins.iter().enumerate() {
                let may_break = self.is_base64 && number > 0;
                for begin in std::iter::once(*begin).chain(line_break(bytes, *begin).filter(|_| may_break)) {
                    for length in self.lengths(*unit, bytes, begin).into_iter().flatten() {
                        let place = begin..begin + length;
                        if !places.iter().any(|(known, _)| known.end == place.end) {
                            places.push((place, from));
                        }
                    }
                }
            }
            if places.is_empty() {
                return None;
            }
            begins = places.iter().map(|(place, _)| place.end).collect();
            steps.push(places);
        }
        let (mut places, mut at) = (Vec::with_capacity(steps.len()), 0);
        for step in steps.iter().rev() {
            let (place, from) = &step[at];
            places.push(place.clone());
            at = *from;
        }
        places.reverse();
        Some(places)
    }

    fn fits(&self, unit: Unit, byte: u8) -> bool {
        match unit.value {
            None => is_base64(byte),
            Some(value) if self.is_base64 => {
                byte == value || matches!((value, byte), (b'+', b'-') | (b'/', b'_'))
            }
            Some(value) => byte.eq_ignore_ascii_case(&value),
        }
    }

    /// How many bytes from a place on are this character: as it is, and encoded.
    fn lengths(&self, unit: Unit, bytes: &[u8], at: usize) -> [Option<usize>; 2] {
        let fits = |byte: u8| self.fits(unit, byte);
        let plain = bytes.get(at).filter(|byte| fits(**byte)).map(|_| 1);
        [plain, encoded_length(bytes.get(at..).unwrap_or_default(), fits)]
    }
}

/// The longest encoded character.
const MAX_ENCODED: usize = 9;

/// The most bytes that belong to one character: its encoded form, after a line break.
const MAX_UNIT: usize = MAX_ENCODED + 6;

/// The bytes in which encoded characters are written, besides letters and digits.
const ENCODING: &[u8] = b"%\\&#;";

/// The length of the encoded character with which these bytes begin, if it fits: `%2B`, `\u002B`, `\/`, `&#x2B;`, `&#43;`, `&amp;`.
fn encoded_length(bytes: &[u8], fits: impl Fn(u8) -> bool) -> Option<usize> {
    let head = &bytes[..bytes.len().min(MAX_ENCODED)];
    let text = |range: Range<usize>| std::str::from_utf8(head.get(range)?).ok();
    let hex = |range: Range<usize>| u8::from_str_radix(text(range)?, 16).ok();
    let (byte, length) = match head {
        [b'%', ..] => (hex(1..3), 3),
        [b'\\', b'u' | b'U', ..] if hex(2..6).is_some() => (hex(2..6), 6),
        [b'\\', next, ..] => (Some(*next), 2),
        [b'&', ..] => {
            let end = head.iter().position(|byte| *byte == b';')?;
            (html_character(text(1..end)?), end + 1)
        }
        _ => return None,
    };
    byte.filter(|byte| fits(*byte)).map(|_| length)
}

/// The character that HTML names so.
fn html_character(name: &str) -> Option<u8> {
    if let Some(number) = name.strip_prefix('#') {
        return match number.strip_prefix(['x', 'X']) {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        };
    }
    let byte = match name {
        "amp" => b'&',
        "lt" => b'<',
        "gt" => b'>',
        "quot" => b'"',
        "apos" => b'\'',
        "sol" => b'/',
        "plus" => b'+',
        "equals" => b'=',
        _ => return None,
    };
    Some(byte)
}

/// Line breaks within base64, also as JSON and addresses write them.
const LINE_BREAKS: [&[u8]; 8] = [b"\r\n", b"\n", b"\\r\\n", b"\\n", b"%0D%0A", b"%0d%0a", b"%0A", b"%0a"];

/// The place after the line break at this place.
fn line_break(bytes: &[u8], at: usize) -> Option<usize> {
    let found = LINE_BREAKS.iter().find(|text| bytes.get(at..).is_some_and(|rest| rest.starts_with(text)));
    found.map(|text| at + text.len())
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

impl Concealment {
    /// For secrets, each with its placeholder.
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s str)>) -> Self {
        let mut rules = Rules::default();
        for (value, placeholder) in secrets {
            rules.punctuation.extend(placeholder.bytes().filter(|byte| !byte.is_ascii_alphanumeric()));
            rules.patterns.push(Pattern::of_text(value, placeholder));
            let encoded = base64_patterns(value, placeholder).into_iter();
            rules.patterns.extend(encoded.map(|units| Pattern { units, is_base64: true }));
        }
        rules.patterns.retain(|pattern| !pattern.units.is_empty());
        Self(Arc::new(rules))
    }

    /// Whether a secret is in these bytes.
    pub(super) fn finds(&self, bytes: &[u8]) -> bool {
        (0..bytes.len()).any(|start| self.find_at(bytes, start).is_some())
    }

    /// Puts placeholders in place of secrets.
    pub(super) fn conceal(&self, bytes: &mut [u8]) -> bool {
        self.conceal_until(bytes, usize::MAX) > 0
    }

    /// The same for those that begin before this place; returns the end of the last one.
    fn conceal_until(&self, bytes: &mut [u8], until: usize) -> usize {
        if self.0.patterns.is_empty() {
            return 0;
        }
        let (mut start, mut last) = (0, 0);
        while start < bytes.len().min(until) {
            let Some((pattern, places)) = self.find_at(bytes, start) else {
                start += 1;
                continue;
            };
            for (unit, place) in pattern.units.iter().zip(places) {
                last = place.end;
                overwrite(&mut bytes[place], *unit);
            }
            start = last;
        }
        last
    }

    fn find_at(&self, bytes: &[u8], start: usize) -> Option<(&Pattern, Vec<Range<usize>>)> {
        self.0.patterns.iter().find_map(|pattern| Some((pattern, pattern.compare(bytes, start)?)))
    }

    /// Where the end of these bytes begins whose bytes may all stand in a secret. Two line breaks after another stand in none, and none
    /// begins with one. The first `held` bytes were such an end.
    fn undecided(&self, bytes: &[u8], held: usize) -> usize {
        let longest = self.0.patterns.iter().map(|pattern| pattern.units.len()).max().unwrap_or_default();
        let first = bytes.len().saturating_sub(longest.saturating_mul(MAX_UNIT));
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let may_be_of_secret = |byte: u8| {
            is_base64(byte)
                || is_break(&byte)
                || ENCODING.contains(&byte)
                || self.0.punctuation.contains(&byte)
        };
        let ends_lines = |rest: &[u8]| rest.starts_with(b"\n\n") || rest.starts_with(b"\n\r\n");
        // The last bytes that were held may begin two line breaks now.
        let known = held.saturating_sub(2);
        let mut start = bytes.len();
        while start > first.max(known)
            && may_be_of_secret(bytes[start - 1])
            && !ends_lines(&bytes[start - 1..])
        {
            start -= 1;
        }
        if start <= known {
            start = first;
        }
        start + bytes[start..].iter().take_while(|byte| is_break(byte)).count()
    }
}

/// Puts the placeholder of a character in its place, in as many bytes. An encoded character that both have stays.
fn overwrite(place: &mut [u8], unit: Unit) {
    match place {
        [byte] if byte.is_ascii_lowercase() && unit.value.is_some_and(|value| value.is_ascii_uppercase()) => {
            *byte = unit.placeholder.to_ascii_lowercase();
        }
        [byte] => *byte = unit.placeholder,
        _ if unit.value == Some(unit.placeholder) => {}
        encoded => encoded.fill(b'x'),
    }
}

impl StreamConcealment {
    pub(super) fn new(rules: Concealment) -> Self {
        Self { rules, held: Vec::new() }
    }

    /// Adds a piece, and appends to `passed` what is decided of it and of the pieces before.
    pub fn push(&mut self, piece: &[u8], passed: &mut Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        let held = bytes.len();
        bytes.extend(piece);
        let undecided = self.rules.undecided(&bytes, held);
        let end = self.rules.conceal_until(&mut bytes, undecided).max(undecided);
        self.held = bytes.split_off(end);
        passed.append(&mut bytes);
    }

    /// Appends what was held back: the stream has ended.
    pub fn finish(&mut self, passed: &mut Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        self.rules.conceal(&mut bytes);
        passed.append(&mut bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    const SECRET: &str = "key-Ab1+c/d=&Zz9";
    const PLACEHOLDER: &str = "key-Qr7+s/t=&Uv2";

    fn rules() -> Concealment {
        Concealment::new([(SECRET, PLACEHOLDER)])
    }

    fn concealed(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        rules().conceal(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn streamed(text: &str, piece: usize) -> (String, Vec<usize>) {
        let (mut stream, mut passed, mut ends) = (StreamConcealment::new(rules()), Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            stream.push(piece, &mut passed);
            ends.push(passed.len());
        }
        stream.finish(&mut passed);
        (String::from_utf8(passed).unwrap(), ends)
    }

    #[test]
    fn a_secret_is_found_however_hosts_write_it() {
        for (text, expected) in [
            (SECRET.to_owned(), PLACEHOLDER.to_owned()),
            (format!("a{SECRET}{SECRET}b"), format!("a{PLACEHOLDER}{PLACEHOLDER}b")),
            ("key-Ab1%2Bc%2Fd%3d%26Zz9".into(), "key-Qr7%2Bs%2Ft%3d%26Uv2".into()),
            ("key-Ab1\\u002bc\\/d=\\u0026Zz9".into(), "key-Qr7\\u002bs\\/t=\\u0026Uv2".into()),
            ("key-Ab1&#43;c&#x2F;d&#x3D;&amp;Zz9".into(), "key-Qr7&#43;s&#x2F;t&#x3D;&amp;Uv2".into()),
            ("key-Ab1%2Bc/d=%26Zz9".into(), "key-Qr7%2Bs/t=%26Uv2".into()),
            ("KEY-AB1+C/D=&ZZ9 key-ab1+c/d=&zz9".into(), String::new()),
            ("key-%41b1+c/d=&Zz9".into(), "key-xxxr7+s/t=&Uv2".into()),
        ] {
            let found = concealed(&text);
            assert_eq!(found.len(), text.len(), "{text}");
            assert!(!rules().finds(found.as_bytes()), "{text}: {found}");
            assert!(expected.is_empty() || found == expected, "{text}: {found}");
        }
        for other in ["", "key-", "key-Ab1+c/d=&Zz8", "key-Ab1+c/d=&Zz", "key Ab1+c/d=&Zz9", "%", "&am", "\\"]
        {
            assert_eq!(concealed(other), other);
        }
    }

    #[test]
    fn what_base64_makes_of_a_secret_is_found_with_its_ends() {
        for before in ["", "a", "ab", "abc", "{\"key\": \""] {
            for after in ["", "!", "\"}", "xyz"] {
                let plain = format!("{before}{SECRET}{after}");
                let whole = STANDARD.encode(&plain);
                let in_lines: Vec<_> =
                    whole.as_bytes().chunks(8).map(|line| String::from_utf8_lossy(line)).collect();
                for text in [
                    whole.clone(),
                    URL_SAFE.encode(&plain),
                    whole.replace('/', "\\/"),
                    whole.replace('+', "%2B").replace('/', "%2F"),
                    in_lines.join("\n"),
                    in_lines.join("\\r\\n"),
                ] {
                    let found = concealed(&text);
                    assert!(found.len() == text.len() && found != text, "{plain}: {text} {found}");
                }
                let told = STANDARD.decode(concealed(&whole)).unwrap();
                let (from, to) = (before.len(), before.len() + SECRET.len());
                for (own, told) in plain.as_bytes()[from + 4..to].iter().zip(&told[from + 4..to]) {
                    // None of the characters at the ends is half of the secret's.
                    assert!(
                        own >> 4 != told >> 4 || own & 15 != told & 15 || !own.is_ascii_alphanumeric(),
                        "{plain}"
                    );
                }
            }
        }
    }

    #[test]
    fn pieces_of_any_length_are_as_good_as_the_whole() {
        let encoded = STANDARD.encode(format!("me:{SECRET}"));
        let text = format!(
            "x {SECRET} key-Ab1 {encoded}\n key-Ab1%2Bc%2Fd%3d%26Zz9 key-Ab1&#43;c&#x2F;d&#x3D;&amp;Zz9 key-"
        );
        let whole = concealed(&text);
        for piece in 1..=text.len() {
            assert_eq!(streamed(&text, piece).0, whole, "{piece}");
        }
    }

    #[test]
    fn where_pieces_end_tells_nothing_of_the_secret() {
        // Beginnings of the secret, and texts of the same form that are none.
        for (right, wrong) in
            [("key-Ab1+c", "key-Xx2+y"), ("key-Ab", "key-Qw"), ("key-Ab1%2Bc/d", "key-Xx2%2By/z")]
        {
            for length in 1..=right.len() {
                let ends = |text: &str| streamed(&format!("!!!{}", &text[..length]), 3).1;
                assert_eq!(ends(right), ends(wrong), "{right} {length}");
            }
        }
        let encoded = [SECRET, "key-Xx2+y/z=&Qq0"].map(|text| STANDARD.encode(text));
        for length in 1..20 {
            let [right, wrong] = [&encoded[0], &encoded[1]].map(|text| streamed(&text[..length], 5).1);
            assert_eq!(right, wrong, "{length}");
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_not_held_back() {
        for text in ["data: {\"a\": 1}\n\n", "event: x\n\n", "<p>a</p>\n", "}\n", "a b c. "] {
            assert_eq!(streamed(text, text.len()).1, [text.len()], "{text:?}");
        }
    }
}
