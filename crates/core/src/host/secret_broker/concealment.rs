//! Finds secrets in what hosts answer, and puts placeholders in their places.
//!
//! A secret is matched character by character, each as it is, in an address, in JSON or in HTML, in capitals or small letters; and what
//! base64 makes of it, also in lines. What takes its place has the same length, and leaves encoded characters as they are.
//!
//! In a stream, what may be the beginning of a secret is held back. Where that begins is decided by what the script knows already, the form
//! of its placeholder, and not by the secret: otherwise the ends of the pieces would tell it letter by letter.

use std::ops::Range;
use std::sync::Arc;

use super::base64::base64_patterns;
use super::forms::Unit;

/// The secrets of a run, as answers are searched for them.
#[derive(Clone, Default)]
pub(super) struct Concealment(Arc<Vec<Pattern>>);

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

/// What is known of a character that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// The secret itself.
    Secret,
    /// The form of the placeholder.
    Form,
}

/// What comes of a comparison from some place on.
enum Comparison {
    Different,
    /// The bytes end before the pattern does.
    Cut,
    /// The places of the characters, in their order.
    Equal(Vec<Range<usize>>),
}

impl Pattern {
    /// A secret and its placeholder as they are. So many characters at the beginning are known to the script.
    fn of_text(value: &str, placeholder: &str, prefix: usize) -> Self {
        let pairs = value.bytes().zip(placeholder.bytes()).enumerate();
        let units = pairs.map(|(at, (value, placeholder))| Unit {
            value: Some(value),
            placeholder,
            is_public: at < prefix || !value.is_ascii_alphanumeric(),
        });
        Self { units: units.collect(), is_base64: false }
    }

    /// Whether a comparison from this place on is of use: most differ in one of the first two characters.
    fn may_be_at(&self, bytes: &[u8], start: usize, knowledge: Knowledge) -> bool {
        let mut units = self.units.iter().take(2).zip(&bytes[start..]);
        // What begins an encoded character or a line break is looked at more closely.
        let mut ends = false;
        units.all(|(unit, byte)| {
            ends |= b"%\\&\r\n".contains(byte);
            ends || self.fits(*unit, *byte, knowledge)
        })
    }

    fn compare(&self, bytes: &[u8], start: usize, knowledge: Knowledge) -> Comparison {
        if !self.may_be_at(bytes, start, knowledge) {
            return Comparison::Different;
        }
        // The places of each character, with the number of the one before it after which it comes.
        let mut steps: Vec<Vec<(Range<usize>, usize)>> = Vec::new();
        let (mut begins, mut is_cut) = (vec![start], false);
        for (number, unit) in self.units.iter().enumerate() {
            let mut places: Vec<(Range<usize>, usize)> = Vec::new();
            for (from, begin) in begins.iter().enumerate() {
                let may_break = self.is_base64 && number > 0;
                for begin in std::iter::once(*begin).chain(line_break(bytes, *begin).filter(|_| may_break)) {
                    for length in self.lengths(*unit, bytes, begin, knowledge) {
                        match length {
                            Length::Cut => is_cut = true,
                            Length::Whole(length) => {
                                let place = begin..begin + length;
                                if !places.iter().any(|(known, _)| known.end == place.end) {
                                    places.push((place, from));
                                }
                            }
                        }
                    }
                }
            }
            if places.is_empty() {
                return if is_cut { Comparison::Cut } else { Comparison::Different };
            }
            begins = places.iter().map(|(place, _)| place.end).collect();
            steps.push(places);
        }
        if is_cut && knowledge == Knowledge::Form {
            return Comparison::Cut;
        }
        let (mut places, mut at) = (Vec::with_capacity(steps.len()), 0);
        for step in steps.iter().rev() {
            let (place, from) = &step[at];
            places.push(place.clone());
            at = *from;
        }
        places.reverse();
        Comparison::Equal(places)
    }

    fn fits(&self, unit: Unit, byte: u8, knowledge: Knowledge) -> bool {
        let is_known = knowledge == Knowledge::Secret || unit.is_public;
        match unit.value {
            None => is_base64(byte),
            Some(value) if is_known && self.is_base64 => {
                byte == value || matches!((value, byte), (b'+', b'-') | (b'/', b'_'))
            }
            Some(value) if is_known => byte.eq_ignore_ascii_case(&value),
            Some(_) if self.is_base64 => is_base64(byte),
            Some(_) => byte.is_ascii_alphanumeric(),
        }
    }

    /// How many bytes from a place on may be this character.
    fn lengths(&self, unit: Unit, bytes: &[u8], at: usize, knowledge: Knowledge) -> Vec<Length> {
        let fits = |byte: u8| self.fits(unit, byte, knowledge);
        let Some(first) = bytes.get(at) else { return vec![Length::Cut] };
        let mut lengths: Vec<Length> = Vec::new();
        if fits(*first) {
            lengths.push(Length::Whole(1));
        }
        lengths.extend(encoded(&bytes[at..], fits));
        lengths
    }
}

enum Length {
    Whole(usize),
    Cut,
}

/// The longest encoded character.
const MAX_ENCODED: usize = 9;

/// The lengths of the encoded characters with which these bytes begin, if they fit: `%2B`, `\u002B`, `\/`, `&#x2B;`, `&#43;`, `&amp;`.
fn encoded(bytes: &[u8], fits: impl Fn(u8) -> bool) -> Vec<Length> {
    let head = &bytes[..bytes.len().min(MAX_ENCODED)];
    let text = |range: Range<usize>| std::str::from_utf8(head.get(range)?).ok();
    let hex = |range| u8::from_str_radix(text(range)?, 16).ok();
    let is_cut = |begun: bool| (begun && bytes.len() < MAX_ENCODED).then_some(Length::Cut);
    let found = match head {
        [b'%', ..] => match head.len() {
            1 | 2 => Some(Length::Cut),
            _ => hex(1..3).filter(|byte| fits(*byte)).map(|_| Length::Whole(3)),
        },
        [b'\\'] => Some(Length::Cut),
        [b'\\', b'u' | b'U', ..] => match head.len() {
            2..=5 => Some(Length::Cut),
            _ => hex(2..6).filter(|byte| fits(*byte)).map(|_| Length::Whole(6)),
        },
        [b'\\', next, ..] => fits(*next).then_some(Length::Whole(2)),
        [b'&', ..] => match head.iter().position(|byte| *byte == b';') {
            None => is_cut(head[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#')),
            Some(end) => {
                let name = text(1..end).unwrap_or_default();
                let byte = match name.strip_prefix('#') {
                    Some(number) => match number.strip_prefix(['x', 'X']) {
                        Some(digits) => u8::from_str_radix(digits, 16).ok(),
                        None => number.parse().ok(),
                    },
                    None => match name {
                        "amp" => Some(b'&'),
                        "lt" => Some(b'<'),
                        "gt" => Some(b'>'),
                        "quot" => Some(b'"'),
                        "apos" => Some(b'\''),
                        "sol" => Some(b'/'),
                        "plus" => Some(b'+'),
                        "equals" => Some(b'='),
                        _ => None,
                    },
                };
                byte.filter(|byte| fits(*byte)).map(|_| Length::Whole(end + 1))
            }
        },
        _ => None,
    };
    found.into_iter().collect()
}

/// The place after a line break within base64, also as JSON and addresses write it.
fn line_break(bytes: &[u8], at: usize) -> Option<usize> {
    const BREAKS: [&[u8]; 8] = [b"\r\n", b"\n", b"\\r\\n", b"\\n", b"%0D%0A", b"%0d%0a", b"%0A", b"%0a"];
    let found = BREAKS.iter().find(|text| bytes[at.min(bytes.len())..].starts_with(text));
    // A part of one at the end of the bytes may become one.
    let is_cut = || {
        !bytes[at.min(bytes.len())..].is_empty() && BREAKS.iter().any(|text| text.starts_with(&bytes[at..]))
    };
    found.map(|text| at + text.len()).or_else(|| is_cut().then_some(bytes.len()))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

impl Concealment {
    /// For secrets, each with its placeholder and the number of characters at its beginning that both have.
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s str, usize)>) -> Self {
        let patterns = secrets.into_iter().flat_map(|(value, placeholder, prefix)| {
            let encoded = base64_patterns(value, placeholder).into_iter();
            let encoded = encoded.map(|units| Pattern { units, is_base64: true });
            std::iter::once(Pattern::of_text(value, placeholder, prefix)).chain(encoded)
        });
        Self(Arc::new(patterns.filter(|pattern| !pattern.units.is_empty()).collect()))
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
        if self.0.is_empty() {
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
        self.0.iter().find_map(|pattern| match pattern.compare(bytes, start, Knowledge::Secret) {
            Comparison::Equal(places) => Some((pattern, places)),
            Comparison::Different | Comparison::Cut => None,
        })
    }

    /// Where the end of these bytes begins that may be the beginning of a secret, as far as the script can tell.
    fn undecided(&self, bytes: &[u8]) -> usize {
        let longest = self.0.iter().map(|pattern| pattern.units.len()).max().unwrap_or_default();
        let first = bytes.len().saturating_sub(longest.saturating_mul(MAX_ENCODED));
        let may_begin = |start: &usize| {
            let mut patterns = self.0.iter();
            patterns.any(|pattern| matches!(pattern.compare(bytes, *start, Knowledge::Form), Comparison::Cut))
        };
        (first..bytes.len()).find(may_begin).unwrap_or(bytes.len())
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
        bytes.extend(piece);
        let undecided = self.rules.undecided(&bytes);
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
        Concealment::new([(SECRET, PLACEHOLDER, 4)])
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
