//! How deep a text in TOML nests, before anything is built from it: dotted keys in inline tables multiply, and what recurses through
//! thousands of levels ends the program.

/// Maximum number of levels of a value, and of a key or a header.
pub const MAX_DEPTH: usize = 32;

/// The byte where a text nests too deep or closes what it has not opened, and the reason.
pub fn check_nesting(text: &str) -> Result<(), (usize, &'static str)> {
    let mut open: Vec<(u8, usize)> = Vec::new();
    // Levels of what is open, and of the key in progress.
    let (mut outer, mut dots) = (0, 0);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'#' => {
                at = end_of_line(bytes, at);
                continue;
            }
            b'"' | b'\'' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'.' => dots += 1,
            b',' => dots = 0,
            b'\n' if open.is_empty() => dots = 0,
            b'[' | b'{' => {
                open.push((byte, dots));
                outer += dots + 1;
                dots = 0;
            }
            b']' | b'}' => match open.pop() {
                Some((opening, before)) if (opening == b'[') == (byte == b']') => {
                    outer -= before + 1;
                    dots = before;
                }
                _ => return Err((at, "invalid TOML: a bracket closes nothing")),
            },
            _ => {}
        }
        if outer + dots > MAX_DEPTH {
            return Err((at, "it nests deeper than 32 levels"));
        }
        at += 1;
    }
    Ok(())
}

/// The line feed, or the end of the text.
fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| from + length)
}

/// The byte after a string. One on a single line ends with it, closed or not.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let quote = bytes.get(from).copied().unwrap_or_default();
    let quotes_at = |at: usize| bytes.iter().skip(at).take_while(|byte| **byte == quote).count();
    let is_long = quotes_at(from) >= 3;
    let mut at = from + if is_long { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if quote == b'"' && bytes.get(at + 1) != Some(&b'\n') => at += 1,
            b'\n' if !is_long => return at,
            _ if byte == quote && !is_long => return at + 1,
            // The last two of five quotes belong to the text.
            _ if byte == quote && quotes_at(at) >= 3 => return at + quotes_at(at).min(5),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_too_deep_is_found_however_it_is_written() {
        let dotted = format!("a = {}1{}", "{x.x.x.x = ".repeat(10), "}".repeat(10));
        for text in [
            dotted.clone(),
            format!("b = ['{{', \"]\\\"\"]\n# ]\n{dotted}"),
            format!("b = '''\n'{{''''\n{dotted}"),
            format!("b = \"\"\"\\\"\"\"}}\"\"\"\"\"\n{dotted}"),
            format!("[{}x]", "x.".repeat(40)),
            format!("a = {}{}", "[".repeat(40), "]".repeat(40)),
            "a = ]".into(),
            "a = {]".into(),
        ] {
            assert!(check_nesting(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_in_texts_and_comments_nests_nothing() {
        let brackets = "{[.".repeat(100);
        for text in [
            format!("a = '{brackets}'"),
            format!("a = \"{brackets}\""),
            format!("a = '''\n{brackets}'''\nb = \"\"\"\n{brackets}\"\"\""),
            format!("# {brackets}\na = 1 # {brackets}"),
            format!("a = [{}]", "1.5, ".repeat(100)),
            "a.b.c = 1\n".repeat(100),
            format!("a = {}{}", "[".repeat(20), "]".repeat(20)),
            String::new(),
        ] {
            assert_eq!(check_nesting(&text), Ok(()), "{text}");
        }
    }
}
