//! `--input`: JSON on the line, in a file, or from standard input.

use std::io::Read;

use metier::error::{ErrorKind, Result, SkillError};
use serde_json::Value;

/// More than any limit lets a skill take in.
const MAX_BYTES: u64 = 256 << 20;

/// What helps against the words of the JSON reader; the first that fits counts.
const HINTS: [(&str, &str); 6] = [
    ("recursion limit", "lists and objects may stand 127 deep in each other"),
    ("EOF while parsing a value at line 1 column 0", "it is empty; give JSON such as {}"),
    ("the key", "leave one of the two out"),
    ("the integer", "write it as a string, or as a float such as 1e20"),
    ("number out of range", "write it as a string"),
    ("", "text goes in quotes of its own: --input '\"text\"'"),
];

/// The value of `--input JSON | @file | -`.
pub fn read(given: &str) -> Result<Value> {
    let (text, from) = match given.strip_prefix('@') {
        Some(path) => (read_file(path)?, path),
        None if given == "-" => {
            (read_limited(std::io::stdin().lock(), "standard input", MAX_BYTES)?, "standard input")
        }
        None => (given.to_owned(), "--input"),
    };
    metier::strict_json::parse(&text).map_err(|reason| json_error(from, &reason))
}

fn read_file(path: &str) -> Result<String> {
    let opened = std::fs::File::open(path);
    read_limited(opened.map_err(|error| read_error(path, error))?, path, MAX_BYTES)
}

fn read_limited(source: impl Read, name: &str, most: u64) -> Result<String> {
    let mut text = String::new();
    source.take(most + 1).read_to_string(&mut text).map_err(|error| read_error(name, error))?;
    if text.len() as u64 > most {
        let sentence = format!("{name} has more than the {most} bytes an input may have");
        return Err(SkillError::new(ErrorKind::InvalidInput, sentence));
    }
    Ok(text)
}

fn read_error(name: &str, error: std::io::Error) -> SkillError {
    let name = if name.is_empty() { "the file after @" } else { name };
    let sentence = SkillError::io(format_args!("failed to read {name}"), error);
    SkillError::new(ErrorKind::Usage, sentence.message())
}

fn json_error(from: &str, reason: &str) -> SkillError {
    let help = HINTS.iter().find(|(words, _)| reason.starts_with(words)).map_or("", |(_, help)| help);
    SkillError::new(ErrorKind::InvalidInput, format!("{from} cannot be read as JSON: {reason}"))
        .with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_the_fault() {
        let help = |given: &str| read(given).unwrap_err().help().unwrap_or_default().to_owned();
        assert!(help("").contains("it is empty"));
        assert!(help(&"[".repeat(200)).contains("127 deep"));
        assert!(help("hello").contains("quotes"));
    }

    #[test]
    fn an_endless_input_is_refused_in_words() {
        let error = read_limited(std::io::repeat(b' '), "pipe", 9).unwrap_err();
        assert_eq!(error.message(), "pipe has more than the 9 bytes an input may have");
        assert_eq!(read_limited(&b"12"[..], "pipe", 2).unwrap(), "12");
    }
}
