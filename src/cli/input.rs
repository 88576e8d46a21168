//! `--input`: JSON on the line, in a file, or from standard input.

use std::io::Read;

use metier::error::{ErrorKind, Result, SkillError};
use serde_json::Value;

/// More than any limit lets a skill take in.
const MOST: u64 = 256 << 20;

/// The value of `--input JSON | @file | -`.
pub fn read(given: &str) -> Result<Value> {
    let (text, from) = match given.strip_prefix('@') {
        Some(path) => (file(path)?, path),
        None if given == "-" => (all(std::io::stdin().lock(), "standard input")?, "standard input"),
        None => (given.to_owned(), "--input"),
    };
    serde_json::from_str(&text).map_err(|error| {
        SkillError::new(ErrorKind::InvalidInput, format!("{from} is not JSON: {error}"))
            .with_help("text goes in quotes of its own: --input '\"text\"'")
    })
}

fn file(path: &str) -> Result<String> {
    let opened = std::fs::File::open(path);
    all(opened.map_err(|error| unreadable(path, &error))?, path)
}

fn all(source: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    source.take(MOST).read_to_string(&mut text).map_err(|error| unreadable(name, &error))?;
    Ok(text)
}

fn unreadable(name: &str, error: &std::io::Error) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("failed to read {name}: {error}"))
}
