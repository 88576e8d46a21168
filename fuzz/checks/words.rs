//! JSON as exactly what it says, cases, and the short texts that people write on a command line.

use std::fmt;
use std::str::FromStr;

use metier::cases::Case;
use metier::policy::{OutputPolicy, Permission, SandboxMode};
use metier::skill::Profile;
use metier_core::policy::{client_tool_permission, units};
use metier_core::strict_json;

/// Any bytes as JSON: what is taken says the same when it is written again, and no more is taken than JSON is.
pub fn json(source: &[u8]) {
    let Ok(text) = std::str::from_utf8(source) else { return };
    let loose = serde_json::from_str::<serde_json::Value>(text);
    match strict_json::parse(text) {
        Ok(value) => {
            assert_eq!(strict_json::parse(&value.to_string()).as_ref(), Ok(&value));
            assert_eq!(loose.ok(), Some(value));
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// Any bytes as a case: read, or refused in a sentence that names the file.
pub fn case(source: &[u8]) {
    match Case::parse("a", "cases/a.json", source) {
        Ok(case) => {
            assert_eq!(case.name(), "a");
            assert!(case.needs().count() <= source.len() + usize::from(source.starts_with(b"{")));
            assert!(!format!("{case:?} {}", case.fails()).is_empty());
        }
        Err(error) => assert!(error.message().contains("cases/a.json"), "{error}"),
    }
}

/// Any text as a permission, an amount, a tier or a profile: what is read prints as what reads back the same.
pub fn words(source: &[u8]) {
    let Ok(text) = std::str::from_utf8(source) else { return };
    prints_back::<Permission>(text);
    if let Ok(permission) = text.parse::<SandboxMode>() {
        assert!(!format!("{permission:?}").is_empty());
    }
    let _ = (text.parse::<OutputPolicy>().is_ok(), text.parse::<Profile>().is_ok());
    if let Some(permission) = client_tool_permission(text) {
        prints_back::<Permission>(&permission.to_string());
    }
    for refused in
        [units::parse_duration(text).err(), units::parse_bytes(text).err(), units::parse_count(text).err()]
    {
        assert!(refused.is_none_or(|error| !error.message().is_empty()));
    }
}

fn prints_back<T: FromStr + fmt::Display + fmt::Debug + PartialEq>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        assert_eq!(read.to_string().parse::<T>().ok(), Some(read), "{text:?}");
    }
}
