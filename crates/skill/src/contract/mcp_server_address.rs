//! The server of the Model Context Protocol that a skill brings.

use serde::Serialize;

use super::serialize::by_key;

/// How to reach a server. Nothing starts or calls it by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpServerAddress {
    /// The program that is the server; one of `command` and `url` is set.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The address of a server on the web.
    pub url: Option<String>,
    /// The headers of each request.
    #[serde(serialize_with = "by_key")]
    pub headers: Vec<(String, String)>,
    /// The environment variables that it needs, each with what it is for.
    #[serde(serialize_with = "by_key")]
    pub env: Vec<(String, String)>,
}
