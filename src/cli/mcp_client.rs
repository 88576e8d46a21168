//! The clients for which `metier mcp --print-config` prints a configuration, each in the form of its file.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::hint::COMMAND;
use super::mcp_http::TOKEN_VARIABLE;

/// A client of the Model Context Protocol.
#[derive(Clone, Copy)]
pub struct McpClient {
    name: &'static str,
    /// Where the configuration belongs.
    place: &'static str,
    form: ConfigForm,
    token: TokenForm,
}

/// The form of a configuration.
#[derive(Clone, Copy)]
enum ConfigForm {
    /// JSON with the server under this key.
    Json(&'static str),
    /// TOML of Codex.
    Toml,
    /// YAML of goose.
    Yaml,
    /// JSON of opencode, whose command is a list.
    CommandList,
}

/// How the client gets the token of a server over HTTP, which is never part of what is printed.
#[derive(Clone, Copy)]
enum TokenForm {
    /// It puts the value of the variable in place of this text.
    Variable(&'static str),
    /// It asks for it, and keeps it in a safe place.
    Question,
    /// It reads neither, and its file is the user's own.
    Placeholder,
}

/// Milliseconds that opencode waits for an answer; without it a minute, which is less than a call may take.
const OPENCODE_TIMEOUT: u32 = 300_000;
/// The name of the question for the token.
const TOKEN_QUESTION: &str = "metier-mcp-token";
/// What a person replaces by the token.
const TOKEN_PLACEHOLDER: &str = "TOKEN";

const CLIENTS: [McpClient; 8] = [
    McpClient {
        name: "claude-code",
        place: ".mcp.json in the project",
        form: ConfigForm::Json("mcpServers"),
        token: TokenForm::Variable("${METIER_MCP_TOKEN}"),
    },
    McpClient {
        name: "codex",
        place: ".codex/config.toml in the project, if Codex trusts it, or ~/.codex/config.toml",
        form: ConfigForm::Toml,
        token: TokenForm::Variable("METIER_MCP_TOKEN"),
    },
    McpClient {
        name: "cursor",
        place: ".cursor/mcp.json in the project",
        form: ConfigForm::Json("mcpServers"),
        token: TokenForm::Variable("${env:METIER_MCP_TOKEN}"),
    },
    McpClient {
        name: "goose",
        place: "~/.config/goose/config.yaml",
        form: ConfigForm::Yaml,
        token: TokenForm::Variable("${METIER_MCP_TOKEN}"),
    },
    McpClient {
        name: "vscode",
        place: ".vscode/mcp.json in the project",
        form: ConfigForm::Json("servers"),
        token: TokenForm::Question,
    },
    McpClient {
        name: "zed",
        place: "settings.json of Zed",
        form: ConfigForm::Json("context_servers"),
        token: TokenForm::Placeholder,
    },
    McpClient {
        name: "gemini",
        place: ".gemini/settings.json in the project",
        form: ConfigForm::Json("mcpServers"),
        token: TokenForm::Variable("$METIER_MCP_TOKEN"),
    },
    McpClient {
        name: "opencode",
        place: "opencode.json in the project",
        form: ConfigForm::CommandList,
        token: TokenForm::Variable("{env:METIER_MCP_TOKEN}"),
    },
];

impl McpClient {
    /// Parses the name of a client.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(CLIENTS.map(|client| client.name))
            .map(|name| CLIENTS.into_iter().find(|client| client.name == name).unwrap_or(CLIENTS[0]))
    }

    /// The configuration that starts the server with these arguments. The first line says where it belongs, where the form has
    /// comments.
    pub fn config(self, arguments: &[String]) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let list = Value::from(arguments);
        match self.form {
            ConfigForm::Json(key) => {
                let mut server = json!({"command": COMMAND, "args": arguments});
                if self.name == "vscode" {
                    server["type"] = "stdio".into();
                }
                format!("{:#}", json!({key: {COMMAND: server}}))
            }
            ConfigForm::CommandList => {
                let command: Vec<&str> =
                    std::iter::once(COMMAND).chain(arguments.iter().map(String::as_str)).collect();
                format!(
                    "{:#}",
                    json!({"mcp": {COMMAND: {"type": "local", "command": command, "enabled": true, "timeout": OPENCODE_TIMEOUT}}})
                )
            }
            // A JSON text is one of TOML and of YAML too, unless it has an escape that TOML lacks: `\/` is never written.
            ConfigForm::Toml => format!(
                "# {}\n[mcp_servers.{COMMAND}]\ncommand = {}\nargs = {list}",
                self.place,
                quoted(COMMAND)
            ),
            ConfigForm::Yaml => format!(
                "# {}\nextensions:\n  {COMMAND}:\n    name: {COMMAND}\n    type: stdio\n    enabled: true\n    cmd: {}\n    args: {list}\n    timeout: 300",
                self.place,
                quoted(COMMAND)
            ),
        }
    }

    /// The configuration for a server at this address, with a token if it needs one.
    pub fn http_config(self, url: &str, needs_token: bool) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let authorization = format!("Bearer {}", self.token.text());
        match self.form {
            ConfigForm::Json(key) => {
                // For Gemini, `url` is the older transport.
                let address = if self.name == "gemini" { "httpUrl" } else { "url" };
                let mut server = json!({address: url});
                if matches!(self.name, "claude-code" | "vscode") {
                    server["type"] = "http".into();
                }
                let mut config = json!({});
                if needs_token {
                    server["headers"] = json!({"Authorization": authorization});
                    if let TokenForm::Question = self.token {
                        let description = format!("The token of {COMMAND} mcp");
                        config["inputs"] = json!([{"type": "promptString", "id": TOKEN_QUESTION, "description": description, "password": true}]);
                    }
                }
                config[key] = json!({COMMAND: server});
                format!("{config:#}")
            }
            ConfigForm::CommandList => {
                let mut server = json!({"type": "remote", "url": url, "enabled": true, "oauth": false, "timeout": OPENCODE_TIMEOUT});
                if needs_token {
                    server["headers"] = json!({"Authorization": authorization});
                }
                format!("{:#}", json!({"mcp": {COMMAND: server}}))
            }
            ConfigForm::Toml => {
                let token = format!("\nbearer_token_env_var = {}", quoted(self.token.text()));
                let token = if needs_token { token.as_str() } else { "" };
                format!("# {}\n[mcp_servers.{COMMAND}]\nurl = {}{token}", self.place, quoted(url))
            }
            ConfigForm::Yaml => {
                let token = format!(
                    "\n    env_keys: [{TOKEN_VARIABLE}]\n    headers:\n      Authorization: {}",
                    quoted(&authorization)
                );
                let token = if needs_token { token.as_str() } else { "" };
                format!(
                    "# {}\nextensions:\n  {COMMAND}:\n    name: {COMMAND}\n    type: streamable_http\n    enabled: true\n    uri: {}{token}\n    timeout: 300",
                    self.place,
                    quoted(url)
                )
            }
        }
    }

    /// How server and client get the token, a sentence for a person.
    pub fn token_help(self) -> String {
        match self.token {
            TokenForm::Variable(_) => {
                format!("set {TOKEN_VARIABLE} to the same token for the server and for the client")
            }
            TokenForm::Question => {
                format!("set {TOKEN_VARIABLE} to a token for the server; the client asks for the same token")
            }
            TokenForm::Placeholder => format!(
                "set {TOKEN_VARIABLE} to a token for the server, and write it in place of {TOKEN_PLACEHOLDER}: the client reads no \
                 variable"
            ),
        }
    }

    /// Where the configuration belongs.
    pub fn place(self) -> &'static str {
        self.place
    }
}

impl TokenForm {
    /// What stands in the configuration where the token is meant.
    fn text(self) -> &'static str {
        match self {
            Self::Variable(text) => text,
            Self::Question => "${input:metier-mcp-token}",
            Self::Placeholder => TOKEN_PLACEHOLDER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_name_the_variable_and_the_question() {
        for client in CLIENTS {
            match client.token {
                TokenForm::Variable(text) => assert!(text.contains(TOKEN_VARIABLE), "{}", client.name),
                TokenForm::Question => assert!(client.token.text().contains(TOKEN_QUESTION)),
                TokenForm::Placeholder => assert_eq!(client.token.text(), TOKEN_PLACEHOLDER),
            }
        }
    }
}
