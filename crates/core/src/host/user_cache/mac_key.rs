//! The key that authenticates the entries of caches, and the MAC that nobody can compute without it.

/// The user's key. Whoever has it can make the host run any machine code.
pub struct MacKey([u8; blake3::KEY_LEN]);

impl MacKey {
    /// A key of these bytes, which nobody else knows.
    pub const fn new(key: [u8; blake3::KEY_LEN]) -> Self {
        Self(key)
    }

    /// The MAC over the parts of an entry, each preceded by its length. The first bytes say what the entry is for, so that none passes for
    /// one of another cache. Comparing two takes the same time wherever they differ.
    pub fn authenticate(&self, magic: &[u8; 16], parts: &[&[u8]]) -> blake3::Hash {
        let mut mac = blake3::Hasher::new_keyed(&self.0);
        mac.update(magic);
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_entry_passes_for_a_piece_of_its_neighbour() {
        let key = MacKey::new([7; 32]);
        let code = |parts: &[&[u8]]| key.authenticate(b"a cache of tests", parts);
        assert_eq!(code(&[b"ab", b"c", b""]), code(&[b"ab", b"c", b""]));
        for other in [[&b"a"[..], b"bc", b""], [b"ab", b"", b"c"], [b"", b"abc", b""]] {
            assert_ne!(code(&[b"ab", b"c", b""]), code(&other), "{other:?}");
        }
        assert_ne!(code(&[b"ab"]), key.authenticate(b"another of tests", &[b"ab"]));
        assert_ne!(code(&[b"ab"]), MacKey::new([8; 32]).authenticate(b"a cache of tests", &[b"ab"]));
    }
}
