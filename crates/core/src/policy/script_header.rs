//! Which headers of an HTTP request a script, or a declared call, may set.

/// Headers that control how the message is sent.
const FORBIDDEN: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a name is that of a header (RFC 9110, 5.1) which is not about the connection.
pub fn is_script_header(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    !name.is_empty()
        && name.chars().all(is_token)
        && !FORBIDDEN.contains(&lower.as_str())
        && !lower.starts_with("proxy-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_one_header_that_is_the_scripts_to_set() {
        for name in ["accept", "X-Api-Key", "authorization", "content-type"] {
            assert!(is_script_header(name), "{name}");
        }
        let other = ["", "x a", "x:a", "x\r\ny", "grün", "Host", "Content-LENGTH", "Proxy-Authorization"];
        for name in other.into_iter().chain(FORBIDDEN) {
            assert!(!is_script_header(name), "{name:?}");
        }
    }
}
