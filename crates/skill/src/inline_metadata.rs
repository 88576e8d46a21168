//! Reads what a script says about itself: its leading comment or docstring, and a contract in a comment block as
//! [PEP 723](https://peps.python.org/pep-0723/) writes blocks.

use super::diagnostic::Diagnostic;
use super::lint;
use metier_core::byte_order_mark::without_mark;
use metier_core::excerpt::shorten;

/// How much of a script is read for it.
pub const MAX_HEAD: usize = 64 << 10;

/// The most characters of a description that a text gives.
pub(super) const MAX_DESCRIPTION_CHARS: usize = 1_000;

/// The block that is a contract.
const CONTRACT_BLOCK: &str = "skill";

/// What a script says about itself.
#[derive(Debug, PartialEq, Eq)]
pub struct InlineMetadata {
    /// The first paragraph of the leading comment or docstring, on one line; empty if there is none.
    pub description: String,
    /// The whole comment.
    pub text: String,
    /// The contract's YAML, in the lines and columns that it has in the script, or what is wrong with its block.
    pub contract: Option<Result<String, &'static str>>,
}

/// How a language writes comments.
struct CommentStyle {
    line: &'static str,
    block: Option<(&'static str, &'static str)>,
    has_docstrings: bool,
}

impl CommentStyle {
    /// The style of files with this extension; none for those that are no text.
    fn of_extension(extension: &str) -> Option<Self> {
        let (line, block) = match extension {
            "lua" | "luau" => ("--", Some(("--[[", "]]"))),
            "rhai" | "js" | "mjs" | "cjs" | "ts" | "mts" | "php" => ("//", Some(("/*", "*/"))),
            "wat" => (";;", Some(("(;", ";)"))),
            "wasm" => return None,
            _ => ("#", None),
        };
        Some(Self { line, block, has_docstrings: extension == "py" })
    }

    /// The text of a line comment.
    fn comment_text<'a>(&self, line: &'a str) -> Option<&'a str> {
        let rest = line.trim_start().strip_prefix(self.line)?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).trim_end())
    }

    /// What stands after `///` on a line that begins or ends a block; such a line is not indented.
    fn block_mark<'a>(&self, line: &'a str) -> Option<&'a str> {
        let rest = line.strip_prefix(self.line)?.strip_prefix(" ///")?.trim_end();
        if rest.is_empty() { Some("") } else { rest.strip_prefix(' ') }
    }
}

impl InlineMetadata {
    /// Reads the beginning of a script, whose extension names its language.
    pub fn parse(extension: &str, source: &[u8]) -> Self {
        let head = &source[..source.len().min(MAX_HEAD)];
        let text = String::from_utf8_lossy(head);
        let text = without_mark(&text);
        let Some(style) = CommentStyle::of_extension(extension) else {
            return Self { description: String::new(), text: String::new(), contract: None };
        };
        let lines: Vec<&str> = text.lines().collect();
        let comment = leading_comment(&style, &lines);
        let first = comment.iter().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
        let words: Vec<&str> = first.flat_map(|line| line.split_whitespace()).collect();
        Self {
            description: shorten(&words.join(" "), MAX_DESCRIPTION_CHARS),
            text: comment.join("\n").trim().to_owned(),
            contract: contract_block(&style, &lines),
        }
    }
}

/// The diagnostic of a script without a description.
pub fn undescribed_diagnostic(file_name: &str) -> Diagnostic {
    let message = format!("{file_name} does not begin with a comment, so a model sees only its name");
    Diagnostic::new(&lint::SCRIPT_UNDESCRIBED, "", &(0..0), message)
        .with_help("say in a comment in its first lines what it does and when to use it")
}

/// The lines of the comment or docstring with which a script begins, without the blocks in it.
fn leading_comment(style: &CommentStyle, lines: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = usize::from(lines.first().is_some_and(|line| line.starts_with("#!")));
    while let Some(line) = lines.get(at) {
        let trimmed = line.trim();
        if style.block_mark(line).is_some_and(|name| !name.is_empty()) {
            let length = lines[at + 1..].iter().position(|line| style.block_mark(line) == Some(""));
            at += length.map_or(lines.len(), |length| length + 2);
        } else if let Some((quote, rest)) = docstring_start(trimmed).filter(|_| style.has_docstrings) {
            return enclosed_lines(rest, quote, &lines[at + 1..]);
        } else if let Some((open, close)) = style.block
            && let Some(rest) = trimmed.strip_prefix(open)
        {
            return enclosed_lines(rest, close, &lines[at + 1..]);
        } else if let Some(comment) = style.comment_text(line) {
            if !is_encoding(comment) {
                found.push(without_rule(comment).to_owned());
            }
            at += 1;
        } else if trimmed.is_empty() || ["'use strict';", "\"use strict\";", "<?php"].contains(&trimmed) {
            found.push(String::new());
            at += 1;
        } else {
            break;
        }
    }
    found
}

/// The quote of a docstring, and the line after it.
fn docstring_start(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start_matches(['r', 'R', 'u', 'U']);
    ["\"\"\"", "'''"].into_iter().find_map(|quote| Some((quote, line.strip_prefix(quote)?)))
}

/// The lines up to the end of a block comment or docstring; none if it does not end.
fn enclosed_lines(first: &str, end: &str, rest: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for line in std::iter::once(&first).chain(rest) {
        let (text, is_last) = line.split_once(end).map_or((*line, false), |(text, _)| (text, true));
        let text = text.trim();
        // The stars with which some begin each line are no text.
        let text = if end == "*/" { text.trim_start_matches('*').trim() } else { text };
        found.push(without_rule(text).to_owned());
        if is_last {
            return found;
        }
    }
    Vec::new()
}

/// The line, or nothing if it has no letter or digit: a rule that frames a comment.
fn without_rule(line: &str) -> &str {
    if line.contains(char::is_alphanumeric) { line } else { "" }
}

/// Whether a comment names the encoding of the file, or the mode of an editor.
fn is_encoding(comment: &str) -> bool {
    comment.starts_with("-*-") || comment.starts_with("vim:") || comment.starts_with("coding")
}

/// The contract in the block between `/// skill` and `///`.
fn contract_block(style: &CommentStyle, lines: &[&str]) -> Option<Result<String, &'static str>> {
    let mut starts =
        (0..lines.len()).filter(|at| style.block_mark(lines[*at]).is_some_and(|name| name == CONTRACT_BLOCK));
    let start = starts.next()?;
    if starts.next().is_some() {
        return Some(Err("there are two blocks `/// skill`"));
    }
    let mut yaml = "\n".repeat(start + 1);
    for line in &lines[start + 1..] {
        if style.block_mark(line) == Some("") {
            return Some(Ok(yaml));
        }
        let Some(content) = line.strip_prefix(style.line) else { break };
        let is_blank = content.trim().is_empty();
        if !is_blank && !content.starts_with(' ') {
            return Some(Err("a line of its block `/// skill` has no space after the comment sign"));
        }
        if !is_blank {
            yaml.push_str(&" ".repeat(style.line.len()));
            yaml.push_str(content);
        }
        yaml.push('\n');
    }
    Some(Err("its block `/// skill` is not closed by `///` in the first 64 KiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(extension: &str, source: &str) -> String {
        InlineMetadata::parse(extension, source.as_bytes()).description
    }

    #[test]
    fn the_first_paragraph_of_the_leading_comment_describes_a_script() {
        for (extension, source) in [
            ("lua", "-- Counts\n-- words.\n--\n-- More.\nreturn 1"),
            ("lua", "--[[ Counts\nwords.\n\nMore. ]]\nreturn 1"),
            ("luau", "#!/usr/bin/luau\n\n-- Counts words."),
            ("py", "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n# Counts words.\n\nimport os"),
            ("py", "# Copyright somebody\n\"\"\"Counts\n    words.\n\n    More.\n\"\"\"\nimport os"),
            ("py", "r'''Counts words.'''"),
            ("py", "# /// script\n# dependencies = []\n# ///\n# Counts words."),
            ("sh", "#!/bin/sh\n#\n# ======\n# Counts words.\n# ======\nset -e"),
            ("js", "'use strict';\n/**\n * Counts\n * words.\n *\n * @more\n */\nlet x"),
            ("js", "// Counts words.\n\n// Another comment.\nlet x"),
            ("rhai", "/* Counts words. */ let x = 1;"),
            ("wat", ";; Counts words.\n(module)"),
            ("rb", "# Counts words.\r\nputs 1\r\n"),
        ] {
            assert_eq!(description(extension, source), "Counts words.", "{source}");
        }
    }

    #[test]
    fn a_script_without_a_leading_comment_has_no_description() {
        for (extension, source) in [
            ("lua", "return 1 -- Counts words."),
            ("py", "import os\n# Counts words."),
            ("py", "\"\"\"never closed"),
            ("py", "x = '''a'''"),
            ("js", "/* never closed"),
            ("wasm", "-- Counts words."),
            ("sh", ""),
            ("sh", "#!/bin/sh"),
            ("sh", "# /// skill\n# never closed"),
        ] {
            assert_eq!(description(extension, source), "", "{source}");
        }
        let long = description("sh", &format!("# {}", "word ".repeat(1_000)));
        assert_eq!(long.chars().count(), MAX_DESCRIPTION_CHARS + 1, "it is shortened");
    }

    #[test]
    fn a_block_is_a_contract_in_the_lines_and_columns_that_it_has() {
        let contract = |extension, source: &str| InlineMetadata::parse(extension, source.as_bytes()).contract;
        let lua =
            "-- Text.\n-- /// skill\n-- version: 1.0.0\n--\n-- inputs:\n--   a: string\n-- ///\nreturn 1";
        let yaml = "\n\n   version: 1.0.0\n\n   inputs:\n     a: string\n";
        assert_eq!(contract("lua", lua), Some(Ok(yaml.to_owned())));
        assert_eq!(contract("py", "import os\n# /// skill\n# ///"), Some(Ok("\n\n".to_owned())));
        assert_eq!(contract("py", "# /// skills\n# a: 1\n# ///"), None);
        assert_eq!(contract("js", "# /// skill\n# ///"), None, "not a comment of the language");
        for broken in [
            "# /// skill\n# a: 1",
            "# /// skill\n# a: 1\nimport os\n# ///",
            "# /// skill\n#a: 1\n# ///",
            "# /// skill\n# ///\n# /// skill\n# ///",
        ] {
            assert!(contract("py", broken).unwrap().is_err(), "{broken}");
        }
    }

    #[test]
    fn no_bytes_of_a_script_end_the_host() {
        for extension in ["lua", "py", "js", "wat", "wasm", "sh"] {
            for source in
                [&b"\xff\xfe"[..], b"#", b"# ///", b"--[[", b"\"\"\"", b"\xef\xbb\xbf# a", b"/*/", b"\r"]
            {
                InlineMetadata::parse(extension, source);
            }
        }
    }
}
