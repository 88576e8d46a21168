//! Where a server listens for HTTP, and who may call it.

use std::fmt;
use std::net::{SocketAddr, TcpListener};

use super::bearer_token::BearerToken;
use metier_core::error::{ErrorKind, Result, SkillError};

/// The path of the server.
pub(super) const PATH: &str = "/mcp";

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
}
