//! Percent-encoding of bytes in addresses (RFC 3986, 2.1): `%` and two hexadecimal digits.

use std::fmt::Write;

/// The bytes, with each `%` and two digits decoded; any other `%` stands for itself.
pub fn decode_lenient(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let byte = (*first == b'%').then(|| encoded_byte(tail)).flatten();
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    decoded
}

/// The same; `None` if a `%` is not followed by two digits.
pub fn decode_strict(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let is_encoded = *first == b'%';
        decoded.push(if is_encoded { encoded_byte(tail)? } else { *first });
        rest = if is_encoded { &tail[2..] } else { tail };
    }
    Some(decoded)
}

/// Bytes as text, each encoded but letters, digits and these.
#[cfg_attr(not(unix), allow(dead_code, reason = "asked for by scripts and declared calls"))]
pub fn encode(bytes: &[u8], kept: &str) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            // Writing to a text does not fail.
            write!(encoded, "%{byte:02X}").ok();
        }
    }
    encoded
}

/// The byte that the first two of these stand for as digits.
fn encoded_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| {
        let digit = char::from(*digits.get(at)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    Some(digit(0)? * 16 + digit(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_digits_are_decoded() {
        for (text, lenient, is_valid) in [
            ("", "", true),
            ("a%20b", "a b", true),
            ("%41%7a", "Az", true),
            ("%C3%A4", "ä", true),
            ("%", "%", false),
            ("%4", "%4", false),
            ("%+5", "%+5", false),
            ("%%41", "%A", false),
            ("a%zz", "a%zz", false),
        ] {
            assert_eq!(decode_lenient(text.as_bytes()), lenient.as_bytes(), "{text}");
            let strict = is_valid.then(|| lenient.as_bytes().to_vec());
            assert_eq!(decode_strict(text.as_bytes()), strict, "{text}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        let text = "a b/c%ä~\u{7f}";
        assert_eq!(encode(text.as_bytes(), "-._~"), "a%20b%2Fc%25%C3%A4~%7F");
        assert_eq!(decode_strict(encode(text.as_bytes(), "").as_bytes()).unwrap(), text.as_bytes());
    }
}
