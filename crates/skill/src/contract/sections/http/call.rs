//! A declared HTTP call: what is sent when a tool is called, as data, and what of the response is its value.

use std::ops::RangeInclusive;

use metier_core::policy::{ConfigField, Permission};
use metier_core::template::{Reference, Template, TemplatePiece, ValueTemplate};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value as Json;

use super::base_url::BaseUrl;
use super::references::{CONFIG, SECRETS, named_value};

/// A declared HTTP call. What it sends goes to URLs below its base URL and nowhere else.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCall {
    definition: CallDefinition,
    /// The declaration, as it is written.
    source: Json,
}

impl HttpCall {
    pub(super) fn new(definition: CallDefinition, source: Json) -> Self {
        Self { definition, source }
    }

    /// `GET`, `POST` and so on.
    pub fn method(&self) -> &'static str {
        self.definition.method
    }

    /// Whether it only reads (RFC 9110, 9.2.1).
    pub fn is_safe(&self) -> bool {
        self.definition.is_safe()
    }
}

/// What a declared call sends, and how its response is read.
pub fn call_definition(call: &HttpCall) -> &CallDefinition {
    &call.definition
}

/// The parts of a declared call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallDefinition {
    /// The URL below which every request stays.
    pub base_url: BaseUrl,
    /// What errors call the service; its host, if it has no name.
    pub service: Option<String>,
    /// `GET`, `POST` and so on.
    pub method: &'static str,
    /// Whether the call only reads, though its method does not say so.
    pub is_declared_safe: bool,
    /// The segments of the path below the base URL. What a reference names stays in its segment.
    pub path: Vec<Vec<TemplatePiece>>,
    /// The inputs whose text may be several segments with slashes between them.
    pub multi_segment: Vec<String>,
    /// The parameters after the path.
    pub query: CallQuery,
    /// The parameters and the fields of a form whose objects are written with brackets, `name[key]=value`.
    pub deep_object: Vec<String>,
    /// The headers; one without a value is left out.
    pub headers: Vec<(String, Template)>,
    /// The user name and the password of HTTP Basic (RFC 7617).
    pub basic: Option<(Template, Template)>,
    /// What is sent.
    pub body: Option<CallBody>,
    /// How the body of the response is read.
    pub response: ResponseFormat,
    /// The status codes that are no failure.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What the response must have.
    pub required: Vec<Reference>,
    /// What must be absent, null or empty in it.
    pub absent: Vec<Reference>,
    /// What must be true in it.
    pub is_true: Vec<Reference>,
    /// How the pages of a list are read.
    pub paging: Option<Paging>,
    /// The value of the tool; the body of the response by default.
    pub result: Option<ResultTemplate>,
}

/// The parameters of a call; one without a value is left out, and a list is repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum CallQuery {
    /// Each by its name.
    Named(Vec<(String, ValueTemplate)>),
    /// The entries of an object.
    Object(Reference),
}

/// What a call sends.
#[derive(Clone, Debug, PartialEq)]
pub enum CallBody {
    /// A value as JSON.
    Json(ValueTemplate),
    /// Fields, as web forms send them; a list is repeated.
    Form(Vec<(String, ValueTemplate)>),
    /// A text.
    Text(Template),
}

/// How the body of a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    /// As a JSON value.
    Json,
    /// As a list of JSON values, one in each line.
    JsonLines,
    /// As a text.
    Text,
}

impl CallDefinition {
    /// The permission to reach its host, where no setting decides which one that is.
    pub fn literal_host_permission(&self) -> Option<Permission> {
        self.base_url.written_host()
    }

    /// The same with the defaults of the settings in its address; all hosts for one in a secret.
    pub fn default_host_permission(&self, config: &[ConfigField]) -> Option<Permission> {
        if let Some(host) = self.base_url.written_host() {
            return Some(host);
        }
        if self.base_url.has_secret() {
            return Some(Permission::NET);
        }
        let default = |reference: &Reference| {
            let (_, key) = named_value(reference)?;
            config.iter().find(|field| field.key == key)?.default.as_ref()
        };
        self.base_url.resolve(default).ok()?.host_permission()
    }

    /// The permissions that a call needs besides that to reach its host: to read the settings and secrets that it sends.
    pub fn value_permissions(&self, config: &[ConfigField]) -> Vec<Permission> {
        let sent = config.iter().filter(|field| self.sends(field));
        sent.flat_map(ConfigField::requested_permissions).collect()
    }

    /// Whether it only reads (RFC 9110, 9.2.1).
    pub fn is_safe(&self) -> bool {
        self.is_declared_safe || matches!(self.method, "GET" | "HEAD")
    }

    /// The references in what is sent.
    pub fn sent_references(&self) -> Vec<&Reference> {
        let in_path = self.path.iter().flatten().flat_map(TemplatePiece::references);
        let in_query = match &self.query {
            CallQuery::Named(pairs) => pairs.iter().flat_map(|(_, value)| value.references()).collect(),
            CallQuery::Object(reference) => vec![reference],
        };
        let templates = self.headers.iter().map(|(_, template)| template);
        let templates = templates.chain(self.basic.iter().flat_map(|(user, password)| [user, password]));
        let in_body = match &self.body {
            None => Vec::new(),
            Some(CallBody::Json(value)) => value.references(),
            Some(CallBody::Form(pairs)) => pairs.iter().flat_map(|(_, value)| value.references()).collect(),
            Some(CallBody::Text(template)) => template.references().collect(),
        };
        let in_paging = self.paging.iter().flat_map(Paging::sent_references);
        let others = in_path.chain(in_query).chain(templates.flat_map(Template::references)).chain(in_body);
        self.base_url.references().chain(others).chain(in_paging).collect()
    }

    fn sends(&self, field: &ConfigField) -> bool {
        let root = if field.secret { SECRETS } else { CONFIG };
        self.sent_references().iter().any(|reference| named_value(reference) == Some((root, &field.key)))
    }
}

/// As its author wrote it.
impl Serialize for HttpCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

/// What a value is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultTemplate {
    /// A value whose texts are templates, without lists to go through.
    Value(ValueTemplate),
    /// A list.
    List(Vec<ResultTemplate>),
    /// An object, its keys in written order.
    Object(Vec<(String, ResultTemplate)>),
    /// A list with one value for each item of another one.
    ForEach {
        /// The other list; an absent one counts as empty.
        items: Reference,
        /// By which name `value` refers to the item.
        name: String,
        /// What is made of it.
        value: Box<ResultTemplate>,
    },
}

/// How the pages of a list are read and joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Paging {
    /// Where the place of the next page comes from.
    pub next: NextPage,
    /// Where in the request it is sent.
    pub into: PagePlace,
    /// The input with which a caller goes on from where an earlier call ended.
    pub from: Option<Reference>,
    /// The list in the response.
    pub items: Reference,
    /// What becomes of each item; the item itself by default.
    pub item: Option<ResultTemplate>,
    /// What in the response says that there is another page; by default there is one wherever it has a place.
    pub more: Option<Reference>,
    /// How many items are read before no further page is.
    pub max_items: ItemCount,
}

/// Where the place of the next page comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum NextPage {
    /// The parameter of the same name in the address that the header `Link` calls `next` (RFC 8288).
    Link,
    /// Pages are counted from this number.
    Number(u64),
    /// A value in the response.
    Cursor(Reference),
}

/// Where in a request the place of a page is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// A parameter.
    Query(String),
    /// A field of the body in JSON, below these keys.
    Body(Vec<String>),
}

/// A number of items.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemCount {
    /// It is written in the contract.
    Fixed(u64),
    /// An input names it.
    Input(Reference),
}

impl Paging {
    /// The number of items where a contract names none.
    pub const DEFAULT_ITEMS: u64 = 100;
    /// The largest number of items.
    pub const MAX_ITEMS: u64 = 10_000;
    /// The name by which a result refers to the items of all pages.
    pub const ITEMS: &'static str = "items";
    /// The name by which it refers to the place of the page after them.
    pub const NEXT: &'static str = "next";
    /// The name by which the template of an item refers to it.
    pub const ITEM: &'static str = "item";

    /// The inputs that it reads.
    pub(super) fn sent_references(&self) -> impl Iterator<Item = &Reference> {
        let count = match &self.max_items {
            ItemCount::Input(reference) => Some(reference),
            ItemCount::Fixed(_) => None,
        };
        self.from.iter().chain(count)
    }
}
