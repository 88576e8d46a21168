//! Finds secrets in a text: one pass over it, however many there are and however often they overlap.
//!
//! It uses a compact Aho-Corasick automaton of about twenty bytes per node. At every position it knows how much of a secret has
//! begun there, which must be removed if the text was cut there.

use std::collections::BTreeMap;

use crate::unicode::is_invisible;

/// Maximum bytes of a secret in the automaton; a longer secret is followed by itself once its beginning was found.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// Minimum bytes before `…` that count as the beginning of a secret.
const MIN_PREFIX_BYTES: usize = 4;

/// The mark that this program puts where it cuts a text.
const ELLIPSIS: &[u8] = "…".as_bytes();

const NO_KEY: u32 = u32::MAX;

const ALPHABET_SIZE: usize = 256;

/// Whether white space, control characters and invisible characters are significant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhitespaceMode {
    Significant,
    /// They are skipped, in the text and in the secrets: filters remove them, and wrapping inserts some.
    Ignored,
}

/// A range of a text that must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecretMatch {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The matched secret, or `None` if it is only the beginning of one.
    pub(super) secret: Option<usize>,
    /// Bytes of the longest secret in it.
    length: usize,
}

/// Searches for many secrets at once.
pub(super) struct SecretFinder {
    whitespace: WhitespaceMode,
    /// The transitions of the root and its children, 256 per node: in most texts nothing goes deeper.
    dense_transitions: Vec<u32>,
    byte: Vec<u8>,
    /// The children of a node are those from here to the first of the next node, by byte.
    first_child: Vec<u32>,
    /// The longest other beginning that ends here.
    fail_link: Vec<u32>,
    depth: Vec<u32>,
    /// The longest key that ends here.
    key_of_node: Vec<u32>,
    keys: Vec<Key>,
    longest: usize,
}

/// The secret of a head, and the long texts that begin with it.
type LongTexts = (usize, Vec<LongText>);

struct Key {
    length: usize,
    secret: usize,
    /// The texts of which it is only the head.
    long: Vec<LongText>,
}

/// A text that is longer than a head, with the table of Knuth, Morris and Pratt: how much of its beginning each of its beginnings
/// ends with. So however often it begins again in itself, following it takes time by the length of what is searched.
struct LongText {
    bytes: Vec<u8>,
    fail_link: Vec<u32>,
}

/// How much of a long text stands before a position.
#[derive(Clone, Copy)]
pub(super) struct LongProgress {
    key: u32,
    text: usize,
    length: usize,
}

impl SecretFinder {
    /// Searches for these texts, each with the number of its secret; `None` if there are none.
    pub(super) fn new<'a>(
        texts: impl Iterator<Item = (&'a str, usize)>,
        whitespace: WhitespaceMode,
    ) -> Option<Self> {
        let mut heads: BTreeMap<Vec<u8>, LongTexts> = BTreeMap::new();
        for (text, secret) in texts {
            let bytes = significant_bytes(text, whitespace);
            let head = bytes[..bytes.len().min(MAX_HEAD_BYTES)].to_vec();
            let (_, long) = heads.entry(head).or_insert((secret, Vec::new()));
            if bytes.len() > MAX_HEAD_BYTES {
                long.push(LongText::new(bytes));
            }
        }
        heads.remove(&Vec::new());
        let heads: Vec<_> = heads.into_iter().collect();
        (!heads.is_empty()).then(|| Self::build(heads, whitespace))
    }

    fn build(heads: Vec<(Vec<u8>, LongTexts)>, whitespace: WhitespaceMode) -> Self {
        let mut built = Self {
            whitespace,
            dense_transitions: vec![0; ALPHABET_SIZE],
            byte: vec![0],
            first_child: Vec::new(),
            fail_link: Vec::new(),
            depth: vec![0],
            key_of_node: Vec::new(),
            longest: heads.iter().map(|(head, _)| head.len()).max().unwrap_or(0),
            keys: Vec::new(),
        };
        // They are sorted, so those with the same beginning are neighbours: a node is a range of them.
        let mut nodes = vec![(0, heads.len())];
        let mut node = 0;
        while let Some(&(from, to)) = nodes.get(node) {
            let depth = built.depth[node] as usize;
            let is_end = heads[from].0.len() == depth;
            built.key_of_node.push(if is_end { to_u32(from) } else { NO_KEY });
            built.first_child.push(to_u32(nodes.len()));
            let mut from = from + usize::from(is_end);
            while from < to {
                let byte = heads[from].0[depth];
                let alike = heads[from..to].iter().take_while(|(head, _)| head[depth] == byte).count();
                if node == 0 {
                    built.dense_transitions[usize::from(byte)] = to_u32(nodes.len());
                }
                nodes.push((from, from + alike));
                built.byte.push(byte);
                built.depth.push(to_u32(depth + 1));
                from += alike;
            }
            node += 1;
        }
        built.first_child.push(to_u32(nodes.len()));
        built.keys = heads
            .into_iter()
            .map(|(head, (secret, long))| Key { length: head.len(), secret, long })
            .collect();
        built.build_fail_links(nodes.len());
        built
    }

    fn build_fail_links(&mut self, nodes: usize) {
        self.fail_link = vec![0; nodes];
        for node in 0..nodes {
            for child in self.first_child[node]..self.first_child[node + 1] {
                let child = child as usize;
                if node != 0 {
                    self.fail_link[child] = self.next(self.fail_link[node], self.byte[child]);
                }
                if self.key_of_node[child] == NO_KEY {
                    self.key_of_node[child] = self.key_of_node[self.fail_link[child] as usize];
                }
            }
        }
        let mut rows = self.dense_transitions.clone();
        for node in 1..self.first_child[1] {
            rows.extend((0..=u8::MAX).map(|byte| self.next(node, byte)));
        }
        self.dense_transitions = rows;
    }

    /// The node after a byte; the root is 0.
    pub(super) fn next(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            if let Some(next) = self.dense_transitions.get(node as usize * ALPHABET_SIZE + usize::from(byte))
            {
                return *next;
            }
            let from = self.first_child[node as usize] as usize;
            let children = &self.byte[from..self.first_child[node as usize + 1] as usize];
            if let Ok(at) = children.binary_search(&byte) {
                return to_u32(from + at);
            }
            node = self.fail_link[node as usize];
        }
    }

    /// How many of the last bytes a text in a later match may begin with, at this node.
    pub(super) fn open_bytes(&self, node: u32) -> usize {
        let node = node as usize;
        let is_leaf = self.first_child[node] == self.first_child[node + 1];
        // What is complete, and begins nothing longer, may end like the beginning of another one.
        let open = if is_leaf { self.fail_link[node] as usize } else { node };
        self.depth[open] as usize
    }

    /// The longest text that ends at a node: its length and its secret.
    pub(super) fn key_at(&self, node: u32) -> Option<(usize, usize)> {
        let key = self.keys.get(self.key_of_node[node as usize] as usize)?;
        Some((key.length, key.secret))
    }

    /// Follows long texts by one byte, of which this is the node after it. Returns whether the byte belongs to one that was followed.
    pub(super) fn follow(&self, followed: &mut Vec<LongProgress>, byte: u8, node: u32) -> bool {
        followed.retain_mut(|progress| {
            let key = &self.keys[progress.key as usize];
            progress.length = key.long[progress.text].next(progress.length, byte, key.length);
            // With less than its head, the automaton finds it again.
            progress.length >= key.length
        });
        let was_followed = !followed.is_empty();
        let key = self.key_of_node[node as usize];
        let long = self.keys.get(key as usize).map_or(&[][..], |key| key.long.as_slice());
        for text in 0..long.len() {
            if !followed.iter().any(|progress| (progress.key, progress.text) == (key, text)) {
                followed.push(LongProgress { key, text, length: self.keys[key as usize].length });
            }
        }
        was_followed
    }

    /// The secrets in the text, in order and without overlaps; `is_cut` if the text was cut at its end.
    pub(super) fn find_matches(&self, text: &str, is_cut: bool) -> Vec<SecretMatch> {
        let bytes = text.as_bytes();
        let (mut matches, mut positions) = (Vec::new(), RecentPositions::new(self.longest));
        let (mut node, mut at, mut followed) = (0, 0, Vec::new());
        while let Some(&byte) = bytes.get(at) {
            if node == 0 && followed.is_empty() && self.dense_transitions[usize::from(byte)] == 0 {
                at += 1;
                continue;
            }
            if let Some(length) = self.ignored_length(text, at) {
                at += length;
                continue;
            }
            if byte == ELLIPSIS[0] && bytes[at..].starts_with(ELLIPSIS) {
                self.match_prefix(node, &positions, at, MIN_PREFIX_BYTES, &mut matches);
            }
            positions.push(at);
            node = self.next(node, byte);
            at += 1;
            if self.follow(&mut followed, byte, node)
                && let Some(last) = matches.last_mut()
            {
                // It ends with the byte before.
                last.length += 1;
                last.end = at;
            }
            let Some((length, secret)) = self.key_at(node) else { continue };
            let start = positions.start_of_last(length);
            push_merged(&mut matches, SecretMatch { start, end: at, secret: Some(secret), length });
        }
        for found in &mut matches {
            // A character of which only the first bytes belong to a long text does not.
            found.end = text.floor_char_boundary(found.end);
        }
        if is_cut {
            self.match_prefix(node, &positions, at, 1, &mut matches);
        }
        matches
    }

    /// Adds a match for the beginning of a secret that ends here, if it has at least this many bytes.
    fn match_prefix(
        &self,
        node: u32,
        positions: &RecentPositions,
        at: usize,
        least: usize,
        matches: &mut Vec<SecretMatch>,
    ) {
        let depth = self.depth[node as usize] as usize;
        if depth >= least {
            push_merged(
                matches,
                SecretMatch { start: positions.start_of_last(depth), end: at, secret: None, length: 0 },
            );
        }
    }

    /// How many bytes are ignored here; `None` if they are significant.
    fn ignored_length(&self, text: &str, at: usize) -> Option<usize> {
        let byte = text.as_bytes()[at];
        if self.whitespace == WhitespaceMode::Significant
            || !text.is_char_boundary(at)
            || byte.is_ascii_graphic()
        {
            return None;
        }
        let c = text[at..].chars().next()?;
        is_blank(c).then(|| c.len_utf8())
    }
}

impl LongText {
    fn new(bytes: Vec<u8>) -> Self {
        let mut built = Self { fail_link: vec![0; bytes.len() + 1], bytes };
        let mut length = 0;
        for at in 1..built.bytes.len() {
            length = built.next(length, built.bytes[at], 0);
            built.fail_link[at + 1] = to_u32(length);
        }
        built
    }

    /// How much of its beginning stands before a position, after one more byte; or anything less than `least`.
    fn next(&self, mut length: usize, byte: u8, least: usize) -> usize {
        loop {
            if self.bytes.get(length) == Some(&byte) {
                return length + 1;
            }
            // What is shorter by more than the new byte cannot reach it again.
            if length == 0 || length + 1 < least {
                return 0;
            }
            length = self.fail_link[length] as usize;
        }
    }
}

/// The significant bytes of a text.
fn significant_bytes(text: &str, whitespace: WhitespaceMode) -> Vec<u8> {
    match whitespace {
        WhitespaceMode::Significant => text.as_bytes().to_vec(),
        WhitespaceMode::Ignored => text.chars().filter(|c| !is_blank(*c)).collect::<String>().into_bytes(),
    }
}

/// How many characters of a text are significant where white space is ignored.
pub(super) fn significant_chars(text: &str) -> usize {
    text.chars().filter(|c| !is_blank(*c)).count()
}

/// Characters that filters remove and wrapping inserts.
fn is_blank(c: char) -> bool {
    c.is_control() || c.is_whitespace() || is_invisible(c)
}

/// Adds a match, which ends after all others. Matches that overlap become one, with the secret of the longest.
pub(super) fn push_merged(matches: &mut Vec<SecretMatch>, mut new: SecretMatch) {
    while let Some(last) = matches.pop_if(|last| last.end > new.start) {
        let is_longer = new.secret.is_some() && new.length > last.length;
        let named = if last.secret.is_none() || is_longer { new } else { last };
        new = SecretMatch { start: last.start.min(new.start), end: last.end.max(new.end), ..named };
    }
    matches.push(new);
}

/// The positions of the last significant bytes.
struct RecentPositions {
    /// The length is a power of two.
    ring: Vec<usize>,
    count: usize,
}

impl RecentPositions {
    fn new(most: usize) -> Self {
        Self { ring: vec![0; most.next_power_of_two()], count: 0 }
    }

    fn push(&mut self, at: usize) {
        let slot = self.count & (self.ring.len() - 1);
        self.ring[slot] = at;
        self.count += 1;
    }

    /// The position of the first of the last `bytes` significant bytes.
    fn start_of_last(&self, bytes: usize) -> usize {
        self.ring[(self.count - bytes) & (self.ring.len() - 1)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "forms of secrets are bounded far below 4 GiB")]
fn to_u32(count: usize) -> u32 {
    count as u32
}
