//! Headers of a request: which a script may set.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::is_script_header;

/// Maximum bytes of headers that a script may send.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Headers that may be sent; `invalid-argument` for names and values that are none, and for those that are not the
/// script's to set. A value may be a secret, so no error repeats it.
pub(in crate::host) fn validate_headers(headers: &[(String, String)]) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let Ok(known) = name.parse::<HeaderName>() else {
            let shown: String = name.chars().take(40).collect();
            let rest = if shown.len() < name.len() { "…" } else { "" };
            return header_error(format!("\"{}{rest}\" is not the name of a header", shown.escape_debug()));
        };
        let Ok(content) = HeaderValue::from_str(value) else {
            return header_error(format!(
                "the header {known} must have a value of printable ASCII, in one line"
            ));
        };
        if !is_script_header(known.as_str()) {
            return header_error(format!("scripts may not set the header {known}"));
        }
        bytes += name.len() + value.len() + ": \r\n".len();
        if bytes > MAX_HEADER_BYTES {
            return header_error(format!(
                "the headers have more than the {MAX_HEADER_BYTES} bytes that are sent"
            ));
        }
        map.append(known, content);
    }
    Ok(map)
}

fn header_error<T>(why: String) -> Result<T> {
    Err(SkillError::new(ErrorKind::InvalidArgument, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Result<HeaderMap> {
        validate_headers(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_header_cannot_smuggle_another() {
        for (name, value) in [
            ("x-a", "1\r\nx-b: 2"),
            ("x-a", "1\nx-b: 2"),
            ("x-a", "1\0"),
            ("x-a", "\u{7f}"),
            ("x-a", "grün\r"),
            ("x-a\r\nx-b", "1"),
            ("x-a: 1\r\nx-b", "1"),
            ("x a", "1"),
            ("x:a", "1"),
            ("", "1"),
            ("grün", "1"),
        ] {
            let kind = one(name, value).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::InvalidArgument), "{name:?}: {value:?}");
        }
    }

    #[test]
    fn how_a_message_is_sent_is_not_for_scripts_to_say() {
        let names = ["Host", "Content-LENGTH", "te", "upgrade", "Proxy-Authorization", "proxy-connection"];
        for name in names {
            assert!(
                one(name, "x").unwrap_err().message().contains("scripts may not set the header"),
                "{name}"
            );
        }
    }

    #[test]
    fn no_error_repeats_a_value() {
        assert!(!one("authorization", "hunter2\n").unwrap_err().message().contains("hunter2"));
        assert!(!one("host", "hunter2").unwrap_err().message().contains("hunter2"));
    }
}
