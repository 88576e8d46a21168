//! Searches long texts for a text or a pattern, in steps between which a run can be stopped. Patterns mean the same as in
//! Luau, errors included; plain texts are found in linear time.

use std::hash::{BuildHasher, RandomState};

use metier_core::error::SkillError;
use metier_core::policy::CancelToken;

/// Why a search failed.
pub(super) enum MatchError {
    /// The run was stopped.
    Stopped(SkillError),
    /// The pattern is invalid; the message is that of Luau.
    InvalidPattern(String),
}

type MatchResult<T> = Result<T, MatchError>;

/// The work between two checks of the token: less than a millisecond.
const STEPS_PER_CHECK: usize = 1 << 18;

/// The work that was done since the token was last checked.
pub(super) struct StepCounter<'a> {
    token: &'a CancelToken,
    remaining: usize,
}

impl<'a> StepCounter<'a> {
    pub(super) fn new(token: &'a CancelToken) -> Self {
        Self { token, remaining: STEPS_PER_CHECK }
    }

    /// Counts work, about one unit for a byte, and checks the token when it is due.
    pub(super) fn spend(&mut self, work: usize) -> MatchResult<()> {
        if let Some(left) = self.remaining.checked_sub(work) {
            self.remaining = left;
            return Ok(());
        }
        self.remaining = STEPS_PER_CHECK;
        self.token.check().map_err(MatchError::Stopped)
    }
}

/// The first position of `needle` in `text`, at `from` or later.
pub(super) fn find_plain(
    text: &[u8],
    needle: &[u8],
    from: usize,
    steps: &mut StepCounter,
) -> MatchResult<Option<usize>> {
    /// Needles longer than this are hashed, since preparing a search takes time in proportion to the needle.
    const MAX_DIRECT_NEEDLE: usize = 1 << 16;
    let Some(last) = text.len().checked_sub(needle.len()).filter(|last| from <= *last) else {
        return Ok(None);
    };
    if needle.len() > MAX_DIRECT_NEEDLE {
        return find_by_rolling_hash(text, needle, from, steps);
    }
    let finder = memchr::memmem::Finder::new(needle);
    let mut start = from;
    while start <= last {
        let end = text.len().min(start + STEPS_PER_CHECK + needle.len());
        if let Some(at) = finder.find(&text[start..end]) {
            return Ok(Some(start + at));
        }
        steps.spend(STEPS_PER_CHECK)?;
        start += STEPS_PER_CHECK;
    }
    Ok(None)
}

/// Searches for a long text with a rolling hash. Its base is secret, so that nobody can cause collisions.
fn find_by_rolling_hash(
    text: &[u8],
    needle: &[u8],
    from: usize,
    steps: &mut StepCounter,
) -> MatchResult<Option<usize>> {
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

/// A match of a pattern: its start and end, and its captures.
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
    /// A capture that the pattern does not close, which is an error for a caller that reads it.
    Unfinished,
}

/// The maximum nesting of a pattern's matches, and its maximum number of captures; both as in Luau.
const MAX_DEPTH: usize = 200;
const MAX_CAPTURES: usize = 32;

/// The first match of a pattern in `text` at `from` or later, or exactly there.
pub(super) fn find_pattern(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    is_anchored: bool,
    steps: &mut StepCounter,
) -> MatchResult<Option<Match>> {
    let mut matcher = Matcher { text, pattern, depth: MAX_DEPTH, captures: Vec::with_capacity(4), steps };
    for start in from..=text.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.match_rest(start, 0)? {
            let captures = matcher.captures.iter().copied().map(PartialCapture::to_capture).collect();
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
    captures: Vec<PartialCapture>,
    steps: &'a mut StepCounter<'s>,
}

/// A capture during the search.
#[derive(Clone, Copy)]
enum PartialCapture {
    Open(usize),
    Closed(usize, usize),
    Position(usize),
}

impl PartialCapture {
    fn to_capture(self) -> Capture {
        match self {
            Self::Open(_) => Capture::Unfinished,
            Self::Closed(start, end) => Capture::Text(start, end),
            Self::Position(at) => Capture::Position(at),
        }
    }
}

fn invalid_pattern(sentence: impl Into<String>) -> MatchError {
    MatchError::InvalidPattern(sentence.into())
}

impl Matcher<'_, '_> {
    /// The end of the match of the rest of the pattern, from `p`, at `s`.
    fn match_rest(&mut self, s: usize, p: usize) -> MatchResult<Option<usize>> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| invalid_pattern("pattern too complex"))?;
        self.steps.spend(4)?;
        let end = self.match_items(s, p)?;
        self.depth += 1;
        Ok(end)
    }

    fn match_items(&mut self, mut s: usize, mut p: usize) -> MatchResult<Option<usize>> {
        loop {
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (item, self.pattern_byte(p + 1)) {
                (b'(', b')') => return self.start_capture(PartialCapture::Position(s), s, p + 2),
                (b'(', _) => return self.start_capture(PartialCapture::Open(s), s, p + 1),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', _) if p + 1 == self.pattern.len() => return Ok((s == self.text.len()).then_some(s)),
                (b'%', b'b') => {
                    let Some(end) = self.match_balanced(s, p + 2)? else { return Ok(None) };
                    (s, p) = (end, p + 4);
                }
                (b'%', b'f') => {
                    let Some(next) = self.match_frontier(s, p + 2)? else { return Ok(None) };
                    p = next;
                }
                (b'%', digit @ b'0'..=b'9') => {
                    let Some(end) = self.match_back_reference(s, digit)? else { return Ok(None) };
                    (s, p) = (end, p + 2);
                }
                _ => {
                    let next = self.class_end(p)?;
                    let suffix = self.pattern_byte(next);
                    let is_one = self.matches_one(s, p, next)?;
                    match suffix {
                        b'?' => {
                            if is_one && let Some(end) = self.match_rest(s + 1, next + 1)? {
                                return Ok(Some(end));
                            }
                            p = next + 1;
                        }
                        b'*' | b'-' if !is_one => p = next + 1,
                        _ if !is_one => return Ok(None),
                        b'*' => return self.match_greedy(s, s, p, next),
                        b'+' => return self.match_greedy(s + 1, s + 1, p, next),
                        b'-' => return self.match_lazy(s, p, next),
                        _ => (s, p) = (s + 1, next),
                    }
                }
            }
        }
    }

    /// A byte of the pattern, or zero after its end.
    fn pattern_byte(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    fn start_capture(&mut self, part: PartialCapture, s: usize, p: usize) -> MatchResult<Option<usize>> {
        if self.captures.len() == MAX_CAPTURES {
            return Err(invalid_pattern("too many captures"));
        }
        self.captures.push(part);
        let end = self.match_rest(s, p)?;
        if end.is_none() {
            self.captures.pop();
        }
        Ok(end)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> MatchResult<Option<usize>> {
        let open = self.captures.iter().rposition(|part| matches!(part, PartialCapture::Open(_)));
        let Some(open) = open else { return Err(invalid_pattern("invalid pattern capture")) };
        let before = self.captures[open];
        if let PartialCapture::Open(start) = before {
            self.captures[open] = PartialCapture::Closed(start, s);
        }
        let end = self.match_rest(s, p)?;
        if end.is_none() {
            self.captures[open] = before;
        }
        Ok(end)
    }

    /// Matches `%b()` at `s`; `p` is the position of its two bytes.
    fn match_balanced(&mut self, s: usize, p: usize) -> MatchResult<Option<usize>> {
        if p + 1 >= self.pattern.len() {
            return Err(invalid_pattern("malformed pattern (missing arguments to '%b')"));
        }
        let (opens, closes) = (self.pattern[p], self.pattern[p + 1]);
        // After the end of the text there is a zero.
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

    /// Matches `%f[set]` at `s`; `p` is the position of its set. Returns the position where the pattern continues.
    fn match_frontier(&mut self, s: usize, p: usize) -> MatchResult<Option<usize>> {
        if self.pattern_byte(p) != b'[' {
            return Err(invalid_pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let here = self.text.get(s).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, p, end - 1)? && self.in_set(here, p, end - 1)?;
        Ok(is_frontier.then_some(end))
    }

    /// Matches `%1` at `s`: the captured text again.
    fn match_back_reference(&mut self, s: usize, digit: u8) -> MatchResult<Option<usize>> {
        let index = i32::from(digit) - i32::from(b'1');
        let part = usize::try_from(index).ok().and_then(|index| self.captures.get(index));
        match part.copied() {
            None | Some(PartialCapture::Open(_)) => {
                Err(invalid_pattern(format!("invalid capture index %{}", index + 1)))
            }
            Some(PartialCapture::Position(_)) => Ok(None),
            Some(PartialCapture::Closed(start, end)) => {
                self.steps.spend((end - start) / 8)?;
                let is_there = self.text[s..].starts_with(&self.text[start..end]);
                Ok(is_there.then_some(s + end - start))
            }
        }
    }

    /// Matches as many of the item as possible from `from` on, and fewer until the rest matches.
    fn match_greedy(
        &mut self,
        least: usize,
        from: usize,
        p: usize,
        next: usize,
    ) -> MatchResult<Option<usize>> {
        let mut s = from;
        while self.matches_one(s, p, next)? {
            s += 1;
        }
        loop {
            if let Some(end) = self.match_rest(s, next + 1)? {
                return Ok(Some(end));
            }
            if s == least {
                return Ok(None);
            }
            s -= 1;
        }
    }

    fn match_lazy(&mut self, mut s: usize, p: usize, next: usize) -> MatchResult<Option<usize>> {
        loop {
            if let Some(end) = self.match_rest(s, next + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_one(s, p, next)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// The position after the item that begins at `p`.
    fn class_end(&mut self, p: usize) -> MatchResult<usize> {
        match self.pattern[p] {
            b'%' if p + 1 == self.pattern.len() => Err(invalid_pattern("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut end = p + 1;
                if self.pattern_byte(end) == b'^' {
                    end += 1;
                }
                // The first byte of a set belongs to it, even if it is the closing bracket.
                loop {
                    self.steps.spend(1)?;
                    match self.pattern.get(end) {
                        None => return Err(invalid_pattern("malformed pattern (missing ']')")),
                        Some(b'%') if end + 1 < self.pattern.len() => end += 2,
                        Some(_) => end += 1,
                    }
                    if self.pattern_byte(end) == b']' {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the item matches the byte at `s`.
    fn matches_one(&mut self, s: usize, p: usize, next: usize) -> MatchResult<bool> {
        let Some(&byte) = self.text.get(s) else { return Ok(false) };
        self.steps.spend(1)?;
        match self.pattern[p] {
            b'.' => Ok(true),
            b'%' => Ok(in_class(byte, self.pattern[p + 1])),
            b'[' => self.in_set(byte, p, next - 1),
            item => Ok(item == byte),
        }
    }

    /// Whether the set between `p` and the bracket at `close` contains the byte.
    fn in_set(&mut self, byte: u8, p: usize, close: usize) -> MatchResult<bool> {
        self.steps.spend(close - p)?;
        let is_inverted = self.pattern_byte(p + 1) == b'^';
        let mut at = if is_inverted { p + 2 } else { p + 1 };
        while at < close {
            let item = self.pattern[at];
            if item == b'%' {
                if in_class(byte, self.pattern_byte(at + 1)) {
                    return Ok(!is_inverted);
                }
                at += 2;
            } else if self.pattern_byte(at + 1) == b'-' && at + 2 < close {
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

/// Whether a byte is in the class of that letter; a capital letter negates the class.
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
