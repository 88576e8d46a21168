//! `--input`: JSON on the line, in a file, or from standard input.

use std::io::Read;

use metier::error::{ErrorKind, Result, SkillError};
use serde_json::Value;

/// More than any limit lets a skill take in.
const MOST: u64 = 256 << 20;

/// What helps against the words of the JSON reader; the first that fits counts.
const HELP: [(&str, &str); 6] = [
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
        Some(path) => (file(path)?, path),
        None if given == "-" => (all(std::io::stdin().lock(), "standard input", MOST)?, "standard input"),
        None => (given.to_owned(), "--input"),
    };
    metier::exact::json(&text).map_err(|reason| not_json(from, &reason))
}

fn file(path: &str) -> Result<String> {
    let opened = std::fs::File::open(path);
    all(opened.map_err(|error| unreadable(path, error))?, path, MOST)
}

fn all(source: impl Read, name: &str, most: u64) -> Result<String> {
    let mut text = String::new();
    source.take(most + 1).read_to_string(&mut text).map_err(|error| unreadable(name, error))?;
    if text.len() as u64 > most {
        let sentence = format!("{name} has more than the {most} bytes an input may have");
        return Err(SkillError::new(ErrorKind::InvalidInput, sentence));
    }
    Ok(text)
}

fn unreadable(name: &str, error: std::io::Error) -> SkillError {
    let name = if name.is_empty() { "the file after @" } else { name };
    let sentence = SkillError::io(format_args!("failed to read {name}"), error);
    SkillError::new(ErrorKind::Usage, sentence.message())
}

fn not_json(from: &str, reason: &str) -> SkillError {
    let help = HELP.iter().find(|(words, _)| reason.starts_with(words)).map_or("", |(_, help)| help);
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
        let error = all(std::io::repeat(b' '), "pipe", 9).unwrap_err();
        assert_eq!(error.message(), "pipe has more than the 9 bytes an input may have");
        assert_eq!(all(&b"12"[..], "pipe", 2).unwrap(), "12");
    }
}
