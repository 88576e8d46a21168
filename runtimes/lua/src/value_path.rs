//! The place of a value inside another one, as errors write it: `.name[3]`.

/// The place of an item of a list.
pub(super) fn index_segment(index: usize) -> String {
    format!("[{index}]")
}

/// The place of a field.
pub(super) fn field_segment(name: &[u8]) -> String {
    format!(".{}", elide_long_name(name))
}

/// A name in an error, which a script may have made as long as it likes: complete or not at all, since redaction would not
/// recognize a part of a secret.
pub(super) fn elide_long_name(name: &[u8]) -> String {
    const MAX_BYTES: usize = 200;
    if name.len() > MAX_BYTES {
        return format!("(a name of {} bytes)", name.len());
    }
    String::from_utf8_lossy(name).into_owned()
}
