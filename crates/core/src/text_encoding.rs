//! Base64 (RFC 4648) and percent-encoding (RFC 3986), as scripts use them.

use base64::Engine;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE as URL_SAFE_ALPHABET};
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::percent_encoding;

/// The bytes of a result for each byte of the text, at most, and as many for a copy on the way.
pub const MAX_GROWTH: u64 = 6;

/// What is not encoded in a part of a URL besides letters and digits (RFC 3986, 2.3).
const UNRESERVED: &str = "-._~";

/// Bytes as base64, with padding.
pub fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text in base64 of either alphabet, with or without padding; blanks and line breaks in it do not count.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let is_url_safe = text.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let alphabet = if is_url_safe { URL_SAFE_ALPHABET } else { STANDARD_ALPHABET };
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&alphabet, config)
        .decode(text)
        .map_err(|error| format!("this is not base64: {error}"))
}

/// Bytes as one part of a URL: everything but letters, digits, `-`, `.`, `_` and `~` is percent-encoded.
pub fn encode_url_part(bytes: &[u8]) -> String {
    percent_encoding::encode(bytes, UNRESERVED)
}

/// The bytes of a percent-encoded text; a plus sign stands for itself.
pub fn decode_url_part(text: &[u8]) -> Result<Vec<u8>, String> {
    percent_encoding::decode_strict(text)
        .ok_or_else(|| "a percent sign is not followed by two hexadecimal digits".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_alphabets_are_read_and_line_breaks_do_not_count() {
        for text in ["aGk/Pj4=", "aGk_Pj4=", "aGk_Pj4", " aG\nk/\r\nPj4=\n"] {
            assert_eq!(decode_base64(text.as_bytes()), Ok(b"hi?>>".to_vec()), "{text:?}");
        }
        for text in ["a", "aGk?", "aG=k", "aGk/_g==", "\u{e9}"] {
            assert!(decode_base64(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(decode_base64(b""), Ok(Vec::new()));
    }

    #[test]
    fn a_part_of_a_url_has_only_unreserved_letters() {
        assert_eq!(encode_url_part("a b/\u{e4}?&=+~".as_bytes()), "a%20b%2F%C3%A4%3F%26%3D%2B~");
        assert_eq!(decode_url_part(b"a%20b+%2f"), Ok(b"a b+/".to_vec()));
        assert!(decode_url_part(b"100%").is_err() && decode_url_part(b"%zz").is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same_and_grows_no_more_than_stated(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(decode_base64(encode_base64(&bytes).as_bytes()), Ok(bytes.clone()));
            prop_assert_eq!(decode_url_part(encode_url_part(&bytes).as_bytes()), Ok(bytes.clone()));
            let longest = encode_url_part(&bytes).len().max(encode_base64(&bytes).len()) as u64;
            prop_assert!(longest <= MAX_GROWTH * bytes.len() as u64 / 2 + 4);
        }
    }
}
