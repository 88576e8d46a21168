//! A declared HTTP call: what is sent when a tool is called, as data, and what of the response is its value.

use std::ops::RangeInclusive;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value as Json;

use metier_core::policy::{ConfigField, Permission};
use metier_core::template::{PathSegment, Reference, ReferenceRoot, Template, TemplatePiece, ValueTemplate};

/// A declared HTTP call. What it sends goes to URLs below its base URL and nowhere else.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HttpCall {
    /// The URL below which every request stays, without a slash at its end.
    pub base_url: String,
    /// What errors call the service; its host, if it has no name.
    #[doc(hidden)]
    pub service: Option<String>,
    /// `GET`, `POST` and so on.
    pub method: &'static str,
    /// The segments of the path below the base URL. What a reference names stays in its segment.
    #[doc(hidden)]
    pub path: Vec<Vec<TemplatePiece>>,
    /// The inputs whose text may be several segments with slashes between them.
    #[doc(hidden)]
    pub multi_segment: Vec<String>,
    /// The parameters after the path; one without a value is left out, and a list is repeated.
    #[doc(hidden)]
    pub query: Vec<(String, ValueTemplate)>,
    /// The headers; one without a value is left out.
    #[doc(hidden)]
    pub headers: Vec<(String, Template)>,
    /// What is sent as JSON.
    #[doc(hidden)]
    pub body: Option<ValueTemplate>,
    /// Whether the body of the response is a text and no JSON.
    #[doc(hidden)]
    pub is_text: bool,
    /// The status codes that are no failure.
    #[doc(hidden)]
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What the response must have.
    #[doc(hidden)]
    pub required: Vec<Reference>,
    /// The value of the tool; the body of the response by default.
    #[doc(hidden)]
    pub result: Option<ValueTemplate>,
    /// The declaration, as it is written.
    pub(in crate::contract) source: Json,
}

/// The name by which references mean the settings of the skill.
pub const CONFIG: &str = "config";
/// The name by which they mean its secrets.
pub const SECRETS: &str = "secrets";
/// The name by which they mean the response.
pub const RESPONSE: &str = "response";

impl HttpCall {
    fn sends(&self, field: &ConfigField) -> bool {
        let root = if field.secret { SECRETS } else { CONFIG };
        self.sent_references().iter().any(|reference| named_value(reference) == Some((root, &field.key)))
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl HttpCall {
    /// The permission to reach the host of a base URL.
    pub fn host_permission(base_url: &str) -> Option<Permission> {
        Permission::net(url_authority(base_url)?).ok()
    }

    /// The permissions that a call needs: to reach the host, and to read the settings and secrets that it sends.
    pub fn permissions(&self, config: &[ConfigField]) -> Vec<Permission> {
        let mut permissions: Vec<Permission> = Self::host_permission(&self.base_url).into_iter().collect();
        for field in config.iter().filter(|field| self.sends(field)) {
            permissions.extend(field.requested_permissions());
        }
        permissions
    }

    /// Whether it only reads, as the method says.
    pub fn is_safe(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    /// The references in what is sent.
    pub fn sent_references(&self) -> Vec<&Reference> {
        let in_path = self.path.iter().flatten().filter_map(|piece| match piece {
            TemplatePiece::Reference(reference) => Some(reference),
            TemplatePiece::Text(_) => None,
        });
        let in_query = self.query.iter().flat_map(|(_, value)| value.references());
        let in_headers = self.headers.iter().flat_map(|(_, value)| value.references());
        let in_body = self.body.iter().flat_map(ValueTemplate::references);
        in_path.chain(in_query).chain(in_headers).chain(in_body).collect()
    }
}

/// The variable and the first name after it: `("config", "region")` of `$config.region`.
pub fn named_value(reference: &Reference) -> Option<(&str, &str)> {
    match (&reference.root, reference.path.first()?) {
        (ReferenceRoot::Variable(root), PathSegment::Field(key)) => Some((root, key)),
        _ => None,
    }
}

/// The host, and the port if it is written, of a URL of the web.
pub(super) fn url_authority(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.split('/').next().filter(|authority| !authority.is_empty())
}

/// As its author wrote it.
impl Serialize for HttpCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}
