//! Where secrets stand in a text: one pass over it, however many there are and however often they overlap.
//!
//! An automaton after Aho and Corasick, kept small: a node is some twenty bytes. It knows at every place how much of a
//! secret has begun there, which is what a text that was cut there must lose.

use std::collections::BTreeMap;

use crate::unicode::is_invisible;

/// Bytes of a text that are looked for as a whole; of a longer one these come first, and the rest is compared.
const HEAD: usize = 8 << 10;

/// How many bytes before `…` are taken for the beginning of a secret.
const BEGUN: usize = 4;

/// The sign of whatever cuts a text here.
const CUT: &[u8] = "…".as_bytes();

const NONE: u32 = u32::MAX;

const BYTES: usize = 256;

/// Whether white space, control characters and what nobody sees count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blanks {
    Count,
    /// They are passed over, in the text and in what is looked for: filters take them out, and wrapping puts some in.
    PassedOver,
}

/// A stretch of a text that must not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The secret it is, or nothing where it is only the beginning of one.
    pub(super) secret: Option<usize>,
    /// Bytes of the longest secret in it.
    length: usize,
}

/// Looks for many texts at once.
pub(super) struct Finder {
    blanks: Blanks,
    /// Where every byte leads from the root and its children, 256 to a node: in most texts nothing goes deeper.
    shallow: Vec<u32>,
    byte: Vec<u8>,
    /// The children of a node are those from here to the first of the next node, by byte.
    first: Vec<u32>,
    /// The longest other beginning that ends here.
    fail: Vec<u32>,
    depth: Vec<u32>,
    /// The longest key that ends here.
    found: Vec<u32>,
    keys: Vec<Key>,
    longest: usize,
}

/// The secret of a head, and what may come after it.
type Behind = (usize, Vec<Vec<u8>>);

struct Key {
    length: usize,
    secret: usize,
    /// What may come after the head.
    rests: Vec<Vec<u8>>,
}

impl Finder {
    /// Of these texts, each with the number of its secret; nothing where there are none.
    pub(super) fn new<'a>(texts: impl Iterator<Item = (&'a str, usize)>, blanks: Blanks) -> Option<Self> {
        let mut heads: BTreeMap<Vec<u8>, Behind> = BTreeMap::new();
        for (text, secret) in texts {
            let mut head = counted(text, blanks);
            let rest = head.split_off(head.len().min(HEAD));
            let (_, rests) = heads.entry(head).or_insert((secret, Vec::new()));
            if !rest.is_empty() {
                rests.push(rest);
            }
        }
        heads.remove(&Vec::new());
        let heads: Vec<_> = heads.into_iter().collect();
        (!heads.is_empty()).then(|| Self::built(heads, blanks))
    }

    fn built(heads: Vec<(Vec<u8>, Behind)>, blanks: Blanks) -> Self {
        let mut built = Self {
            blanks,
            shallow: vec![0; BYTES],
            byte: vec![0],
            first: Vec::new(),
            fail: Vec::new(),
            depth: vec![0],
            found: Vec::new(),
            longest: heads.iter().map(|(head, _)| head.len()).max().unwrap_or(0),
            keys: Vec::new(),
        };
        // Sorted, those that begin alike stand together: a node is a range of them.
        let mut nodes = vec![(0, heads.len())];
        let mut node = 0;
        while let Some(&(from, to)) = nodes.get(node) {
            let depth = built.depth[node] as usize;
            let is_end = heads[from].0.len() == depth;
            built.found.push(if is_end { number(from) } else { NONE });
            built.first.push(number(nodes.len()));
            let mut from = from + usize::from(is_end);
            while from < to {
                let byte = heads[from].0[depth];
                let alike = heads[from..to].iter().take_while(|(head, _)| head[depth] == byte).count();
                if node == 0 {
                    built.shallow[usize::from(byte)] = number(nodes.len());
                }
                nodes.push((from, from + alike));
                built.byte.push(byte);
                built.depth.push(number(depth + 1));
                from += alike;
            }
            node += 1;
        }
        built.first.push(number(nodes.len()));
        built.keys = heads
            .into_iter()
            .map(|(head, (secret, rests))| Key { length: head.len(), secret, rests })
            .collect();
        built.link(nodes.len());
        built
    }

    fn link(&mut self, nodes: usize) {
        self.fail = vec![0; nodes];
        for node in 0..nodes {
            for child in self.first[node]..self.first[node + 1] {
                let child = child as usize;
                if node != 0 {
                    self.fail[child] = self.next(self.fail[node], self.byte[child]);
                }
                if self.found[child] == NONE {
                    self.found[child] = self.found[self.fail[child] as usize];
                }
            }
        }
        let mut rows = self.shallow.clone();
        for node in 1..self.first[1] {
            rows.extend((0..=u8::MAX).map(|byte| self.next(node, byte)));
        }
        self.shallow = rows;
    }

    fn next(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            if let Some(next) = self.shallow.get(node as usize * BYTES + usize::from(byte)) {
                return *next;
            }
            let from = self.first[node as usize] as usize;
            let children = &self.byte[from..self.first[node as usize + 1] as usize];
            if let Ok(at) = children.binary_search(&byte) {
                return number(from + at);
            }
            node = self.fail[node as usize];
        }
    }

    /// What stands in the text, in its order and without overlaps; `is_cut` where the text goes on after its end.
    pub(super) fn covers(&self, text: &str, is_cut: bool) -> Vec<Cover> {
        let bytes = text.as_bytes();
        let (mut covers, mut places) = (Vec::new(), Places::new(self.longest));
        let (mut node, mut at, mut compared) = (0, 0, 0);
        while let Some(&byte) = bytes.get(at) {
            if node == 0 && self.shallow[usize::from(byte)] == 0 {
                at += 1;
                continue;
            }
            if let Some(length) = self.passed_over(text, at) {
                at += length;
                continue;
            }
            if byte == CUT[0] && bytes[at..].starts_with(CUT) {
                self.begun(node, &places, at, BEGUN, &mut covers);
            }
            places.add(at);
            node = self.next(node, byte);
            at += 1;
            let Some(key) = self.keys.get(self.found[node as usize] as usize) else { continue };
            let mut end = at;
            if !key.rests.is_empty() && at > compared {
                // What lies in a stretch that was compared is covered.
                end = key.rests.iter().map(|rest| self.same_until(text, at, rest)).max().unwrap_or(at);
                compared = end;
            }
            let start = places.of_last(key.length);
            add(&mut covers, Cover { start, end, secret: Some(key.secret), length: key.length + end - at });
        }
        if is_cut {
            self.begun(node, &places, at, 1, &mut covers);
        }
        covers
    }

    /// Covers as much of a secret as has begun here, where it is so many bytes.
    fn begun(&self, node: u32, places: &Places, at: usize, least: usize, covers: &mut Vec<Cover>) {
        let depth = self.depth[node as usize] as usize;
        if depth >= least {
            add(covers, Cover { start: places.of_last(depth), end: at, secret: None, length: 0 });
        }
    }

    /// How many bytes are passed over here; nothing where they count.
    fn passed_over(&self, text: &str, at: usize) -> Option<usize> {
        let byte = text.as_bytes()[at];
        if self.blanks == Blanks::Count || !text.is_char_boundary(at) || byte.is_ascii_graphic() {
            return None;
        }
        let c = text[at..].chars().next()?;
        is_blank(c).then(|| c.len_utf8())
    }

    /// Where the text stops to say the same.
    fn same_until(&self, text: &str, mut at: usize, rest: &[u8]) -> usize {
        let mut end = at;
        let mut rest = rest.iter();
        while at < text.len() {
            if let Some(length) = self.passed_over(text, at) {
                at += length;
            } else if rest.next() == Some(&text.as_bytes()[at]) {
                at += 1;
                end = at;
            } else {
                break;
            }
        }
        // Where a letter begins like another one, none of it is the same.
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        end
    }
}

/// The bytes of a text that count.
fn counted(text: &str, blanks: Blanks) -> Vec<u8> {
    match blanks {
        Blanks::Count => text.as_bytes().to_vec(),
        Blanks::PassedOver => text.chars().filter(|c| !is_blank(*c)).collect::<String>().into_bytes(),
    }
}

/// How many characters of a text count where blanks are passed over.
pub(super) fn weight(text: &str) -> usize {
    text.chars().filter(|c| !is_blank(*c)).count()
}

/// What filters take out and wrapping puts in.
fn is_blank(c: char) -> bool {
    c.is_control() || c.is_whitespace() || is_invisible(c)
}

/// Adds a stretch; it ends behind all that are there. Those that overlap become one, by the name of the longest.
pub(super) fn add(covers: &mut Vec<Cover>, mut new: Cover) {
    while let Some(last) = covers.pop_if(|last| last.end > new.start) {
        let is_longer = new.secret.is_some() && new.length > last.length;
        let named = if last.secret.is_none() || is_longer { new } else { last };
        new = Cover { start: last.start.min(new.start), end: last.end.max(new.end), ..named };
    }
    covers.push(new);
}

/// Where the last bytes that counted stand.
struct Places {
    /// As many as a power of two.
    ring: Vec<usize>,
    count: usize,
}

impl Places {
    fn new(most: usize) -> Self {
        Self { ring: vec![0; most.next_power_of_two()], count: 0 }
    }

    fn add(&mut self, at: usize) {
        let slot = self.count & (self.ring.len() - 1);
        self.ring[slot] = at;
        self.count += 1;
    }

    /// Where the last so many bytes begin.
    fn of_last(&self, bytes: usize) -> usize {
        self.ring[(self.count - bytes) & (self.ring.len() - 1)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "forms of secrets are bounded far below 4 GiB")]
fn number(count: usize) -> u32 {
    count as u32
}
