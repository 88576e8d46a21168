//! The clients for which `metier mcp --print-config` prints a configuration, each in the form of its file.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::hint::COMMAND;

/// A client of the Model Context Protocol.
#[derive(Clone, Copy)]
pub struct McpClient {
    name: &'static str,
    /// Where the configuration belongs.
    place: &'static str,
    form: ConfigForm,
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

const CLIENTS: [McpClient; 8] = [
    McpClient {
        name: "claude-code",
        place: ".mcp.json in the project",
        form: ConfigForm::Json("mcpServers"),
    },
    McpClient { name: "codex", place: "~/.codex/config.toml", form: ConfigForm::Toml },
    McpClient {
        name: "cursor",
        place: ".cursor/mcp.json in the project",
        form: ConfigForm::Json("mcpServers"),
    },
    McpClient { name: "goose", place: "~/.config/goose/config.yaml", form: ConfigForm::Yaml },
    McpClient { name: "vscode", place: ".vscode/mcp.json in the project", form: ConfigForm::Json("servers") },
    McpClient { name: "zed", place: "settings.json of Zed", form: ConfigForm::Json("context_servers") },
    McpClient {
        name: "gemini",
        place: ".gemini/settings.json in the project",
        form: ConfigForm::Json("mcpServers"),
    },
    McpClient { name: "opencode", place: "opencode.json in the project", form: ConfigForm::CommandList },
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
                    json!({"mcp": {COMMAND: {"type": "local", "command": command, "enabled": true}}})
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

    /// Where the configuration belongs.
    pub fn place(self) -> &'static str {
        self.place
    }
}
