//! Where a server listens for HTTP, and who may call it: everyone, or who has one of its tokens.

use std::fmt;
use std::net::{SocketAddr, TcpListener};

use sha2::{Digest, Sha256};

use metier_core::error::{ErrorKind, Result, SkillError};

/// The path of the server.
pub(super) const PATH: &str = "/mcp";
/// A token of fewer characters can be guessed.
const MIN_TOKEN_LENGTH: usize = 16;
/// More characters do not fit into a header that every client can send.
const MAX_TOKEN_LENGTH: usize = 4096;

/// Where and for whom [`McpServer::serve_http`](crate::mcp::McpServer::serve_http) serves.
///
/// It serves callers that send one of the tokens. Without any it serves nobody, unless [`McpHttpOptions::without_token`] is called,
/// which a listener that other machines reach does not allow.
pub struct McpHttpOptions {
    pub(super) listener: TcpListener,
    pub(super) tokens: Vec<BearerToken>,
    pub(super) needs_no_token: bool,
    pub(super) allowed_hosts: Vec<String>,
}

impl McpHttpOptions {
    /// Serves at the address that this listener is bound to, and the path `/mcp`.
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, tokens: Vec::new(), needs_no_token: false, allowed_hosts: Vec::new() }
    }

    /// A token that lets a caller in. Callers with different tokens do not see each other's results and sessions.
    #[must_use]
    pub fn token(mut self, token: BearerToken) -> Self {
        self.tokens.push(token);
        self
    }

    /// Lets everyone in who reaches the listener: on a loopback address, every user and program of this machine.
    #[must_use]
    pub fn without_token(mut self) -> Self {
        self.needs_no_token = true;
        self
    }

    /// A further name by which clients may address the server, such as that of a proxy before it, whose web pages have the origin
    /// `https://NAME`. Without any, only `localhost` and
    /// addresses are served, so that no web page reaches the server by a name of its own.
    #[must_use]
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.allowed_hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// How many callers there are.
    pub(in crate::mcp) fn callers(&self) -> usize {
        self.tokens.len().max(1)
    }

    /// By what a later server knows each caller, in the order of the tokens; `None` if everyone is the same caller.
    pub(in crate::mcp) fn caller_identities(&self) -> Vec<Option<String>> {
        if !self.identifies_callers() {
            return vec![None; self.callers()];
        }
        self.tokens.iter().map(|token| Some(token.identity())).collect()
    }

    /// Whether a caller has a token that others do not have.
    pub(in crate::mcp) fn identifies_callers(&self) -> bool {
        !self.needs_no_token
    }

    /// The address, if these options are safe there.
    pub(in crate::mcp) fn checked_address(&self) -> Result<SocketAddr> {
        let address = self
            .listener
            .local_addr()
            .map_err(|source| SkillError::io("failed to read the address of the server", source))?;
        if self.needs_no_token && !address.ip().to_canonical().is_loopback() {
            let sentence =
                format!("{address} is reached by other machines, so the server needs a token there");
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("listen on 127.0.0.1, or serve with a token"));
        }
        if !self.needs_no_token && self.tokens.is_empty() {
            return Err(SkillError::new(
                ErrorKind::Usage,
                "the server has no token, so nobody could call it",
            )
            .with_help("add a token"));
        }
        Ok(address)
    }
}

impl fmt::Debug for McpHttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttpOptions")
            .field("address", &self.listener.local_addr().ok())
            .field("tokens", &self.tokens.len())
            .field("needs_no_token", &self.needs_no_token)
            .field("allowed_hosts", &self.allowed_hosts)
            .finish_non_exhaustive()
    }
}

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
        if !(MIN_TOKEN_LENGTH..=MAX_TOKEN_LENGTH).contains(&text.len()) {
            let sentence = format!(
                "the token has {} characters; it needs {MIN_TOKEN_LENGTH} to {MAX_TOKEN_LENGTH}",
                text.len()
            );
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

    fn options(address: &str) -> McpHttpOptions {
        McpHttpOptions::new(TcpListener::bind(address).unwrap())
    }

    #[test]
    fn who_reaches_the_server_without_a_token_is_on_this_machine() {
        assert!(options("127.0.0.1:0").without_token().checked_address().is_ok());
        let refused = options("0.0.0.0:0").without_token().checked_address().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(refused.message().contains("needs a token"), "{refused}");
        let token = BearerToken::random().unwrap().0;
        assert!(options("0.0.0.0:0").token(token).checked_address().is_ok());
    }

    #[test]
    fn no_token_at_all_is_no_open_server() {
        assert!(options("127.0.0.1:0").checked_address().unwrap_err().message().contains("no token"));
    }

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
        assert!(BearerToken::parse(&"x".repeat(MAX_TOKEN_LENGTH + 1)).is_err());
    }

    #[test]
    fn random_tokens_differ() {
        let ((first, text), (second, other)) =
            (BearerToken::random().unwrap(), BearerToken::random().unwrap());
        assert!(first.is(text.as_bytes()) && !second.is(text.as_bytes()) && text != other);
        assert!(BearerToken::parse(&text).unwrap().is(text.as_bytes()));
    }
}
