//! Looks for a text or a pattern in long texts, in steps between which a run can be stopped. Patterns mean what they mean in
//! Luau, errors included; plain texts are found in linear time.

use std::hash::{BuildHasher, RandomState};

use crate::error::SkillError;
use crate::policy::CancelToken;

/// Why nothing could be found.
pub(super) enum Fault {
    /// The run was stopped.
    Stopped(SkillError),
    /// The pattern is none, in Luau's words.
    Malformed(String),
}

type Found<T> = Result<T, Fault>;

/// Work between two looks at the token: less than a millisecond.
const STRIDE: usize = 1 << 18;

/// The work that was done since the token was asked.
pub(super) struct Steps<'a> {
    token: &'a CancelToken,
    left: usize,
}

impl<'a> Steps<'a> {
    pub(super) fn new(token: &'a CancelToken) -> Self {
        Self { token, left: STRIDE }
    }

    /// Counts what was done, one for a byte or so, and asks the token when it is time.
    pub(super) fn spend(&mut self, work: usize) -> Found<()> {
        if let Some(left) = self.left.checked_sub(work) {
            self.left = left;
            return Ok(());
        }
        self.left = STRIDE;
        self.token.check().map_err(Fault::Stopped)
    }
}

/// Where `needle` stands in `text` at `from` or later.
pub(super) fn plain(text: &[u8], needle: &[u8], from: usize, steps: &mut Steps) -> Found<Option<usize>> {
    /// Needles longer than this are hashed, since getting ready to look for one takes as long as it is.
    const LONG: usize = 1 << 16;
    let Some(last) = text.len().checked_sub(needle.len()).filter(|last| from <= *last) else {
        return Ok(None);
    };
    if needle.len() > LONG {
        return hashed(text, needle, from, steps);
    }
    let finder = memchr::memmem::Finder::new(needle);
    let mut start = from;
    while start <= last {
        let end = text.len().min(start + STRIDE + needle.len());
        if let Some(at) = finder.find(&text[start..end]) {
            return Ok(Some(start + at));
        }
        steps.spend(STRIDE)?;
        start += STRIDE;
    }
    Ok(None)
}

/// Looks for a long text by a hash that rolls on with every byte. Nobody knows its base, so nobody can make hashes collide.
fn hashed(text: &[u8], needle: &[u8], from: usize, steps: &mut Steps) -> Found<Option<usize>> {
    const PRIME: u64 = (1 << 61) - 1;
    fn product(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        #[allow(clippy::cast_possible_truncation)] // the remainder is smaller than the prime
        let remainder = (product % u128::from(PRIME)) as u64;
        remainder
    }
    let base = RandomState::new().hash_one(from) % (PRIME - 512) + 257;
    let pushed = |hash: u64, byte: u8| (product(hash, base) + u64::from(byte) + 1) % PRIME;
    let (mut wanted, mut hash, mut weight) = (0, 0, 1);
    for (at, byte) in needle.iter().enumerate() {
        wanted = pushed(wanted, *byte);
        hash = pushed(hash, text[from + at]);
        weight = if at == 0 { 1 } else { product(weight, base) };
        steps.spend(8)?;
    }
    for start in from..=text.len() - needle.len() {
        let end = start + needle.len();
        if hash == wanted && text[start..end] == *needle {
            return Ok(Some(start));
        }
        steps.spend(8)?;
        let Some(next) = text.get(end) else { break };
        let gone = product(weight, u64::from(text[start]) + 1);
        hash = pushed((hash + PRIME - gone) % PRIME, *next);
    }
    Ok(None)
}

/// What a pattern found: from where to where, and what it captured.
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

/// A part of the text, or a position in it.
#[derive(Clone, Copy)]
pub(super) enum Capture {
    Text(usize, usize),
    Position(usize),
    /// One that the pattern leaves open, which is an error to whoever asks for it.
    Unfinished,
}

/// How often a pattern may begin a part within a part, and how much it may capture; both as in Luau.
const DEPTH: usize = 200;
const CAPTURES: usize = 32;

/// What a pattern finds in `text` at `from` or later, or exactly there.
pub(super) fn pattern(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    is_anchored: bool,
    steps: &mut Steps,
) -> Found<Option<Match>> {
    let mut matcher = Matcher { text, pattern, depth: DEPTH, captures: Vec::with_capacity(4), steps };
    for start in from..=text.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.rest(start, 0)? {
            let captures = matcher.captures.iter().map(Part::closed).collect();
            return Ok(Some(Match { start, end, captures }));
        }
        if is_anchored {
            break;
        }
    }
    Ok(None)
}

struct Matcher<'a, 's> {
    text: &'a [u8],
    pattern: &'a [u8],
    depth: usize,
    captures: Vec<Part>,
    steps: &'a mut Steps<'s>,
}

/// A capture while it is looked for.
#[derive(Clone, Copy)]
enum Part {
    Open(usize),
    Closed(usize, usize),
    Position(usize),
}

impl Part {
    fn closed(&self) -> Capture {
        match *self {
            Self::Open(_) => Capture::Unfinished,
            Self::Closed(start, end) => Capture::Text(start, end),
            Self::Position(at) => Capture::Position(at),
        }
    }
}

fn malformed(sentence: impl Into<String>) -> Fault {
    Fault::Malformed(sentence.into())
}

impl Matcher<'_, '_> {
    /// Where the text ends that the pattern from `p` on matches at `s`.
    fn rest(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| malformed("pattern too complex"))?;
        self.steps.spend(4)?;
        let end = self.items(s, p)?;
        self.depth += 1;
        Ok(end)
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Found<Option<usize>> {
        loop {
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (item, self.at(p + 1)) {
                (b'(', b')') => return self.captured(Part::Position(s), s, p + 2),
                (b'(', _) => return self.captured(Part::Open(s), s, p + 1),
                (b')', _) => return self.capture_ends(s, p + 1),
                (b'$', _) if p + 1 == self.pattern.len() => return Ok((s == self.text.len()).then_some(s)),
                (b'%', b'b') => {
                    let Some(end) = self.balanced(s, p + 2)? else { return Ok(None) };
                    (s, p) = (end, p + 4);
                }
                (b'%', b'f') => {
                    let Some(next) = self.frontier(s, p + 2)? else { return Ok(None) };
                    p = next;
                }
                (b'%', digit @ b'0'..=b'9') => {
                    let Some(end) = self.repeated(s, digit)? else { return Ok(None) };
                    (s, p) = (end, p + 2);
                }
                _ => {
                    let next = self.class_end(p)?;
                    let suffix = self.at(next);
                    let is_one = self.one(s, p, next)?;
                    match suffix {
                        b'?' => {
                            if is_one && let Some(end) = self.rest(s + 1, next + 1)? {
                                return Ok(Some(end));
                            }
                            p = next + 1;
                        }
                        b'*' | b'-' if !is_one => p = next + 1,
                        _ if !is_one => return Ok(None),
                        b'*' => return self.as_many(s, s, p, next),
                        b'+' => return self.as_many(s + 1, s + 1, p, next),
                        b'-' => return self.as_few(s, p, next),
                        _ => (s, p) = (s + 1, next),
                    }
                }
            }
        }
    }

    /// The byte of the pattern, or the zero behind its end.
    fn at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    fn captured(&mut self, part: Part, s: usize, p: usize) -> Found<Option<usize>> {
        if self.captures.len() == CAPTURES {
            return Err(malformed("too many captures"));
        }
        self.captures.push(part);
        let end = self.rest(s, p)?;
        if end.is_none() {
            self.captures.pop();
        }
        Ok(end)
    }

    fn capture_ends(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        let open = self.captures.iter().rposition(|part| matches!(part, Part::Open(_)));
        let Some(open) = open else { return Err(malformed("invalid pattern capture")) };
        let before = self.captures[open];
        if let Part::Open(start) = before {
            self.captures[open] = Part::Closed(start, s);
        }
        let end = self.rest(s, p)?;
        if end.is_none() {
            self.captures[open] = before;
        }
        Ok(end)
    }

    /// `%b()` at `s`; `p` is where its two bytes stand.
    fn balanced(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        if p + 1 >= self.pattern.len() {
            return Err(malformed("malformed pattern (missing arguments to '%b')"));
        }
        let (opens, closes) = (self.pattern[p], self.pattern[p + 1]);
        // Behind the end of the text stands a zero.
        if self.text.get(s).copied().unwrap_or(0) != opens {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.steps.spend(1)?;
            if self.text[at] == closes {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.text[at] == opens {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]` at `s`; `p` is where its set stands. Where the pattern goes on.
    fn frontier(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        if self.at(p) != b'[' {
            return Err(malformed("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let here = self.text.get(s).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, p, end - 1)? && self.in_set(here, p, end - 1)?;
        Ok(is_frontier.then_some(end))
    }

    /// `%1` at `s`: what was captured, once more.
    fn repeated(&mut self, s: usize, digit: u8) -> Found<Option<usize>> {
        let index = i32::from(digit) - i32::from(b'1');
        let part = usize::try_from(index).ok().and_then(|index| self.captures.get(index));
        match part.copied() {
            None | Some(Part::Open(_)) => Err(malformed(format!("invalid capture index %{}", index + 1))),
            Some(Part::Position(_)) => Ok(None),
            Some(Part::Closed(start, end)) => {
                self.steps.spend((end - start) / 8)?;
                let is_there = self.text[s..].starts_with(&self.text[start..end]);
                Ok(is_there.then_some(s + end - start))
            }
        }
    }

    /// As many of the item as there are from `from` on, and fewer as long as the rest does not match.
    fn as_many(&mut self, least: usize, from: usize, p: usize, next: usize) -> Found<Option<usize>> {
        let mut s = from;
        while self.one(s, p, next)? {
            s += 1;
        }
        loop {
            if let Some(end) = self.rest(s, next + 1)? {
                return Ok(Some(end));
            }
            if s == least {
                return Ok(None);
            }
            s -= 1;
        }
    }

    fn as_few(&mut self, mut s: usize, p: usize, next: usize) -> Found<Option<usize>> {
        loop {
            if let Some(end) = self.rest(s, next + 1)? {
                return Ok(Some(end));
            }
            if !self.one(s, p, next)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Behind the item that begins at `p`.
    fn class_end(&mut self, p: usize) -> Found<usize> {
        match self.pattern[p] {
            b'%' if p + 1 == self.pattern.len() => Err(malformed("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut end = p + 1;
                if self.at(end) == b'^' {
                    end += 1;
                }
                // The first byte of a set is one of it, also when it is the bracket that would close it.
                loop {
                    self.steps.spend(1)?;
                    match self.pattern.get(end) {
                        None => return Err(malformed("malformed pattern (missing ']')")),
                        Some(b'%') if end + 1 < self.pattern.len() => end += 2,
                        Some(_) => end += 1,
                    }
                    if self.at(end) == b']' {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the text has one of the item at `s`.
    fn one(&mut self, s: usize, p: usize, next: usize) -> Found<bool> {
        let Some(&byte) = self.text.get(s) else { return Ok(false) };
        self.steps.spend(1)?;
        match self.pattern[p] {
            b'.' => Ok(true),
            b'%' => Ok(in_class(byte, self.pattern[p + 1])),
            b'[' => self.in_set(byte, p, next - 1),
            item => Ok(item == byte),
        }
    }

    /// Whether the set between `p` and the bracket at `close` has the byte.
    fn in_set(&mut self, byte: u8, p: usize, close: usize) -> Found<bool> {
        self.steps.spend(close - p)?;
        let is_inverted = self.at(p + 1) == b'^';
        let mut at = if is_inverted { p + 2 } else { p + 1 };
        while at < close {
            let item = self.pattern[at];
            if item == b'%' {
                if in_class(byte, self.at(at + 1)) {
                    return Ok(!is_inverted);
                }
                at += 2;
            } else if self.at(at + 1) == b'-' && at + 2 < close {
                if (item..=self.pattern[at + 2]).contains(&byte) {
                    return Ok(!is_inverted);
                }
                at += 3;
            } else {
                if item == byte {
                    return Ok(!is_inverted);
                }
                at += 1;
            }
        }
        Ok(is_inverted)
    }
}

/// Whether a byte is of the class of that letter; of all others where the letter is a capital.
fn in_class(byte: u8, letter: u8) -> bool {
    let is_in = match letter.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b'\t'..=b'\r' | b' '),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return letter == byte,
    };
    is_in == letter.is_ascii_lowercase()
}
