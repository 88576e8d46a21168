//! Makes a skill of a description of an API (OpenAPI 3.0 and 3.1): each operation becomes a tool that is a declared HTTP call.
//!
//! Nothing here accesses the disk or the web. What a description says is text of a stranger: its size, its references and its schemas are
//! bounded before they are followed, and what is written is read again as any other contract before it is handed over.

mod body;
mod contract_text;
mod document;
mod import;
mod operation;
mod parameters;
mod report;
mod schema;
mod security;
mod selection;
mod server;
mod service_name;
mod text;
mod tool;

pub use self::document::MAX_OPENAPI_BYTES;
pub use self::import::{OpenApiImport, OpenApiOptions, import_openapi};
pub use self::report::OperationGroup;
pub use self::security::OpenApiAuthentication;

#[cfg(test)]
#[cfg(feature = "json-schema")]
mod tests;
