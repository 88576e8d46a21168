//! Shortens texts and numbers for a reader.

/// The text, or its first `max_chars` characters and `…`.
pub fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text, or its beginning and its end, and how many bytes are missing.
pub fn head_and_tail(text: &str, max: usize) -> (String, usize) {
    if text.len() <= max {
        return (text.to_owned(), 0);
    }
    let head = text.floor_char_boundary(max / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - max / 4);
    let left_out = tail - head;
    (format!("{}\n\n[{left_out} bytes left out]\n\n{}", &text[..head], &text[tail..]), left_out)
}

/// The text, or its end, and how many bytes are missing.
pub fn tail(text: &str, max: usize) -> (String, usize) {
    if text.len() <= max {
        return (text.to_owned(), 0);
    }
    let left_out = text.ceil_char_boundary(text.len() - max);
    (format!("[{left_out} bytes left out]\n\n{}", &text[left_out..]), left_out)
}

/// A number of bytes in the largest unit that it is a multiple of: `64 MiB`.
pub fn byte_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_or_its_end() {
        assert_eq!(head_and_tail("abcdefgh", 8), ("abcdefgh".to_owned(), 0));
        assert_eq!(head_and_tail("abcdefghi", 8), ("abcdef\n\n[1 bytes left out]\n\nhi".to_owned(), 1));
        assert_eq!(tail("abcdefghi", 8), ("[1 bytes left out]\n\nbcdefghi".to_owned(), 1));
        assert_eq!(tail("ééé", 3).0, "[4 bytes left out]\n\né");
    }

    #[test]
    fn a_size_has_the_unit_in_which_it_is_whole() {
        let sizes = [0, 1, 1024, 1025, 64 << 20, 2 << 30].map(byte_size);
        assert_eq!(sizes, ["0 bytes", "1 bytes", "1 KiB", "1025 bytes", "64 MiB", "2 GiB"]);
    }

    #[test]
    fn only_what_is_longer_is_cut() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert_eq!(shorten("", 0), "");
    }
}
