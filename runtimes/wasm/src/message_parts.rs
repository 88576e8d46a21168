//! Messages of several parts, each preceded by its length in eight bytes.

pub(super) fn length_prefix(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_le_bytes()
}

/// Splits a message into its parts, if there are exactly this many and nothing after them.
pub(super) fn split_parts<const COUNT: usize>(mut message: &[u8]) -> Option<[&[u8]; COUNT]> {
    let mut parts = [&[][..]; COUNT];
    for part in &mut parts {
        let (length, rest) = message.split_first_chunk::<8>()?;
        (*part, message) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    message.is_empty().then_some(parts)
}
