//! The options of `metier mcp` for HTTP: where it listens, and the tokens of its callers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use metier::error::{ErrorKind, Result, SkillError};
use metier::mcp::{BearerToken, McpHttpOptions};

use super::output;

/// The environment variable with the token of the server.
pub const TOKEN_VARIABLE: &str = "METIER_MCP_TOKEN";
/// A file of tokens is not larger.
const MAX_TOKEN_FILE: u64 = 64 << 10;

/// Where the server listens, and who may call it.
#[derive(clap::Args)]
pub struct HttpArgs {
    /// Serve over HTTP at this address, such as 127.0.0.1:8000, in place of standard input and output
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// File with the token that callers have to send, or several, one a line: each is a caller of its own
    #[arg(long, value_name = "FILE", requires = "http", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Serve every user and program of this machine, without a token
    #[arg(long, requires = "http")]
    no_token: bool,
    /// A further name by which clients address the server, such as that of a proxy (may be repeated)
    #[arg(long, value_name = "NAME", requires = "http")]
    allow_host: Vec<String>,
}

impl HttpArgs {
    /// The address, if the server is to be reached over HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Whether callers need a token.
    pub fn needs_token(&self) -> bool {
        !self.no_token
    }

    /// Where clients reach a server at this address: at the name of the proxy before it, if there is one.
    pub fn client_url(&self, address: SocketAddr) -> Result<String> {
        if let Some(name) = self.allow_host.first() {
            return Ok(format!("https://{name}/mcp"));
        }
        if address.port() == 0 {
            let sentence =
                "the configuration of a client needs the port of the server, and port 0 is any free one";
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("name a port, such as --http 127.0.0.1:8000"));
        }
        let reached: IpAddr = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Ok(format!("http://{}/mcp", SocketAddr::new(reached, address.port())))
    }

    /// Listens, and says where and with which token the server is reached.
    pub fn listen(&self, address: SocketAddr) -> Result<McpHttpOptions> {
        let is_loopback = address.ip().to_canonical().is_loopback();
        if self.no_token && !is_loopback {
            let sentence =
                format!("{address} is reached by other machines, so the server needs a token there");
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("leave --no-token out, or listen on 127.0.0.1"));
        }
        // Before the address is taken: a token that is wrong is said first.
        let (tokens, shown) = if self.no_token { (Vec::new(), None) } else { self.tokens()? };
        let listen_error = |source| SkillError::io(format!("failed to listen on {address}"), source);
        let listener = TcpListener::bind(address).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let mut options = McpHttpOptions::new(listener);
        if self.no_token {
            options = options.without_token();
            output::print_warning(
                "every user and program of this machine can call the skills: there is no token",
            );
        }
        for token in tokens {
            options = options.token(token);
        }
        for name in &self.allow_host {
            options = options.allow_host(name);
        }
        if !is_loopback {
            output::print_warning(&format!(
                "{address} is reached by other machines, and nothing is encrypted: put a proxy with TLS before it"
            ));
        }
        output::eprint(&format!("serving at http://{address}/mcp"));
        if let Some(token) = shown {
            output::eprint(&format!("token: {token}"));
        }
        Ok(options)
    }

    /// The tokens, and the text of the one that was made here, which nobody else knows.
    fn tokens(&self) -> Result<(Vec<BearerToken>, Option<String>)> {
        if let Some(path) = &self.token_file {
            return Ok((tokens_in(path)?, None));
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.is_empty() => {
                let token = BearerToken::parse(text.trim()).map_err(|error| {
                    let sentence = format!("{TOKEN_VARIABLE} cannot be used: {}", error.message());
                    SkillError::new(ErrorKind::Usage, sentence).with_help(error.help().unwrap_or_default())
                })?;
                Ok((vec![token], None))
            }
            Ok(_) | Err(std::env::VarError::NotPresent) => {
                let (token, text) = BearerToken::random()?;
                Ok((vec![token], Some(text)))
            }
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(SkillError::new(ErrorKind::Usage, format!("{TOKEN_VARIABLE} is not a text")))
            }
        }
    }
}

/// The tokens of a file that only its owner and group can read.
fn tokens_in(path: &Path) -> Result<Vec<BearerToken>> {
    let shown = path.display();
    let read_error = |source| SkillError::io(format!("failed to read the tokens in {shown}"), source);
    let unusable = |why: &str, help: &str| {
        Err(SkillError::new(ErrorKind::Usage, format!("the tokens in {shown} cannot be used: {why}"))
            .with_help(help.to_owned()))
    };
    let file = std::fs::File::open(path).map_err(read_error)?;
    let facts = file.metadata().map_err(read_error)?;
    if is_open_to_all(&facts) {
        let help = format!("let nobody else read it: chmod 600 {shown}");
        return unusable("every user of this machine can read or change them", &help);
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_TOKEN_FILE), &mut text)
        .map_err(read_error)?;
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match BearerToken::parse(line.trim()) {
            Ok(token) => tokens.push(token),
            Err(error) => {
                let why = format!("line {}: {}", number + 1, error.message());
                return unusable(&why, error.help().unwrap_or_default());
            }
        }
    }
    if tokens.is_empty() {
        return unusable("there is none", "make one: openssl rand -hex 32");
    }
    Ok(tokens)
}

#[cfg(unix)]
fn is_open_to_all(facts: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(facts) & 0o007 != 0
}

#[cfg(not(unix))]
fn is_open_to_all(_: &std::fs::Metadata) -> bool {
    false
}
