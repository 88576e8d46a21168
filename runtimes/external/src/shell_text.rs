//! What a shell misreads in the bytes of a script: line ends of Windows, and a byte order mark.

use crate::interpreter::detect::Interpreter;
use metier_core::byte_order_mark::bytes_without_mark;

/// The programs that misread them, by their names without a version.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "zsh", "ksh"];

/// How much of a script is searched.
const MAX_SEARCHED: usize = 256 << 10;

/// What a shell misreads in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MisreadText {
    /// What the script has, and what the shell makes of it.
    pub reason: &'static str,
    /// How to mend it.
    pub help: &'static str,
}

/// What the shell that runs this script misreads in it; `None` if another program runs it.
pub fn misread_shell_text(path: &str, source: &[u8]) -> Option<MisreadText> {
    let interpreter = Interpreter::detect(path, source).ok()?;
    if !SHELLS.contains(&interpreter.best_program_name()) {
        return None;
    }
    let searched = &source[..source.len().min(MAX_SEARCHED)];
    if searched.windows(2).any(|pair| pair == b"\r\n") {
        return Some(MisreadText {
            reason: "its lines end in CR LF, as on Windows, and a shell takes the CR for a part of the last word of each line",
            help: "save it with the line ends LF, for example with `* text=auto eol=lf` in .gitattributes",
        });
    }
    (bytes_without_mark(source).len() < source.len()).then_some(MisreadText {
        reason: "it begins with a byte order mark, which a shell takes for a part of the first word",
        help: "save it as UTF-8 without a byte order mark",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_misreads_line_ends_of_windows_and_a_byte_order_mark() {
        let reason = |path: &str, text: &str| {
            misread_shell_text(path, text.as_bytes()).map(|found| &found.reason[..9])
        };
        for path in ["scripts/main.sh", "scripts/main.bash", "scripts/main.zsh"] {
            assert_eq!(reason(path, "set -o pipefail\r\necho a\r\n"), Some("its lines"), "{path}");
            assert_eq!(reason(path, "echo a\necho b\r\n"), Some("its lines"), "{path}");
            assert_eq!(reason(path, "\u{feff}echo a\n"), Some("it begins"), "{path}");
            assert_eq!(reason(path, "printf 'a\\r\\n'\n"), None, "{path}");
        }
        assert_eq!(reason("scripts/main", "#!/usr/bin/env bash\r\necho a\r\n"), Some("its lines"));
        assert_eq!(reason("scripts/main", "\u{feff}#!/bin/sh\necho a\n"), Some("it begins"));
        for path in
            ["scripts/main.py", "scripts/main.js", "scripts/main.rb", "README.md", "scripts/main.fish"]
        {
            assert_eq!(reason(path, "\u{feff}a\r\nb\r\n"), None, "{path}");
        }
    }
}
