//! `--input`: JSON on the line, in a file, or from standard input.

use std::io::Read;

use metier::error::{ErrorKind, Result, SkillError};
use serde_json::Value;

/// Larger than any input that a limit of memory lets a skill receive.
const MAX_BYTES: u64 = 256 << 20;

/// The help for each message of the JSON parser; the first that fits counts.
const HINTS: [(&str, &str); 8] = [
    ("recursion limit", "nest lists and objects at most 127 levels deep"),
    ("EOF while parsing a value at line 1 column 0", "it is empty; pass JSON such as {}"),
    ("EOF while parsing", "a quote or bracket is not closed, or a value is missing at the end"),
    ("key must be a string", "keys need double quotes: {\"key\": \"value\"}"),
    ("the key", "remove one of the two"),
    ("the integer", "write it as a string, or as a float such as 1e20"),
    ("number out of range", "write it as a string"),
    ("", "a text needs JSON quotes: --input '\"text\"'"),
];

/// The value of `--input JSON | @file | -`.
pub fn read(option: &str) -> Result<Value> {
    read_with_text(option).map(|(value, _)| value)
}

/// The value of `--input JSON | @file | -`, and its text.
pub fn read_with_text(option: &str) -> Result<(Value, String)> {
    let (text, source) = match option.strip_prefix('@') {
        Some(path) => (read_file(path)?, path),
        None if option == "-" => {
            (read_limited(std::io::stdin().lock(), "standard input", MAX_BYTES)?, "standard input")
        }
        None => (option.to_owned(), "--input"),
    };
    let text = metier_core::byte_order_mark::without_mark(&text).to_owned();
    let value = metier_core::strict_json::parse_repaired(&text).map_err(|reason| {
        let error = json_error(source, &reason);
        match field_help(&text).filter(|_| source == "--input") {
            Some(help) => error.with_help(help),
            None => error,
        }
    })?;
    Ok((value, text))
}

fn read_file(path: &str) -> Result<String> {
    let opened = std::fs::File::open(path);
    read_limited(opened.map_err(|error| read_error(path, error))?, path, MAX_BYTES)
}

fn read_limited(source: impl Read, name: &str, max: u64) -> Result<String> {
    let mut text = String::new();
    source.take(max + 1).read_to_string(&mut text).map_err(|error| read_error(name, error))?;
    if text.len() as u64 > max {
        let sentence = format!("{name} is larger than {max} bytes, the limit of an input");
        return Err(SkillError::new(ErrorKind::InvalidInput, sentence));
    }
    Ok(text)
}

fn read_error(name: &str, error: std::io::Error) -> SkillError {
    let name = if name.is_empty() { "the file after @" } else { name };
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let sentence = SkillError::io(format_args!("failed to read {name}"), error);
    let error = SkillError::new(ErrorKind::Usage, sentence.message());
    if is_missing { error.with_help("a path after @ begins at the current folder") } else { error }
}

fn json_error(source: &str, reason: &str) -> SkillError {
    let help = HINTS.iter().find(|(words, _)| reason.starts_with(words)).map_or("", |(_, help)| help);
    SkillError::new(ErrorKind::InvalidInput, format!("{source} is not valid JSON: {reason}")).with_help(help)
}

/// The option in JSON, where it was written as `field=value`.
fn field_help(option: &str) -> Option<String> {
    let (field, value) = option.split_once('=')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    // What a shell would read in another way is not shown as a command.
    if field.is_empty() || !field.chars().all(is_word) || value.contains(['\'', '\\']) {
        return None;
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Some(format!("the input is one JSON object: --input '{}'", serde_json::json!({ field: value })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_json_error_has_its_help() {
        let help = |text: &str| read(text).unwrap_err().help().unwrap_or_default().to_owned();
        assert!(help("").contains("it is empty"));
        assert!(help(&"[".repeat(200)).contains("127 levels deep"));
        assert!(help("hello").contains("quotes"));
        for (written, json) in [
            ("path=b.md", r#"{"path":"b.md"}"#),
            ("count=3", r#"{"count":3}"#),
            ("query=a=b c", r#"{"query":"a=b c"}"#),
        ] {
            assert_eq!(help(written), format!("the input is one JSON object: --input '{json}'"));
        }
        assert!(help("it's=1").contains("quotes") && help("name=it's").contains("quotes"));
    }

    #[test]
    fn an_endless_input_is_refused() {
        let error = read_limited(std::io::repeat(b' '), "pipe", 9).unwrap_err();
        assert_eq!(error.message(), "pipe is larger than 9 bytes, the limit of an input");
        assert_eq!(read_limited(&b"12"[..], "pipe", 2).unwrap(), "12");
    }
}
