//! The secret by which a caller of the HTTP server is known.

use std::fmt;

use sha2::{Digest, Sha256};

use metier_core::error::{ErrorKind, Result, SkillError};

/// Fewer characters can be guessed.
const MIN_LENGTH: usize = 16;
/// More do not fit into a header that every client can send.
const MAX_LENGTH: usize = 4096;

/// A bearer token: who sends it in `Authorization: Bearer TOKEN` may call the tools of a server. Each token is a caller of its own.
///
/// Its text is not kept where it was parsed; only [`BearerToken::random`] returns it.
#[derive(Clone)]
pub struct BearerToken {
    digest: [u8; 32],
}

impl BearerToken {
    /// A token from a file or a variable: 16 to 4096 visible ASCII characters. `usage` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) {
            let sentence =
                format!("the token has {} characters; it needs {MIN_LENGTH} to {MAX_LENGTH}", text.len());
            return Err(
                SkillError::new(ErrorKind::Usage, sentence).with_help("make one: openssl rand -hex 32")
            );
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let sentence = "the token has spaces or other characters that do not fit into a header";
            return Err(
                SkillError::new(ErrorKind::Usage, sentence).with_help("make one: openssl rand -hex 32")
            );
        }
        Ok(Self { digest: digest(text.as_bytes()) })
    }

    /// A new token and its text. `io` if the system has no random numbers.
    pub fn random() -> Result<(Self, String)> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            SkillError::io("failed to make a token", std::io::Error::other(error.to_string()))
        })?;
        let mut text = String::new();
        for byte in bytes {
            text.extend([format!("{byte:02x}")]);
        }
        Ok((Self { digest: digest(text.as_bytes()) }, text))
    }

    /// By what a later server knows whose token it is; nobody gets the token from it.
    pub(super) fn identity(&self) -> String {
        let digest = Sha256::new().chain_update("caller").chain_update(self.digest).finalize();
        digest.iter().fold("token ".to_owned(), |mut text, byte| {
            text.extend([format!("{byte:02x}")]);
            text
        })
    }

    /// Whether this text is the token. Takes as long for a text that is nearly right as for any other of its length.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        let other = digest(text);
        let difference = self.digest.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_whole_text() {
        let token = BearerToken::parse("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for other in
            [&b""[..], b"0123456789abcde", b"0123456789abcdeF", b"0123456789abcdef0", b"0123456789abcdef\0"]
        {
            assert!(!token.is(other));
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn what_can_be_guessed_or_not_sent_is_no_token() {
        for text in
            ["", "secret", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\n", "0123456789abcdeä"]
        {
            assert_eq!(BearerToken::parse(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
        assert!(BearerToken::parse(&"x".repeat(MAX_LENGTH + 1)).is_err());
    }

    #[test]
    fn random_tokens_differ() {
        let ((first, text), (second, other)) =
            (BearerToken::random().unwrap(), BearerToken::random().unwrap());
        assert!(first.is(text.as_bytes()) && !second.is(text.as_bytes()) && text != other);
        assert!(BearerToken::parse(&text).unwrap().is(text.as_bytes()));
    }
}
