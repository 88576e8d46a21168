//! The functions of the host API, one file a subject. A new function is a row in the table and a body in its file.

mod asset;
mod callees;
mod encoding;
mod http;
mod list;
mod logging;
mod provider_call;
mod read;
mod search;
mod settings;
mod table;
mod walk_results;
mod write;

pub(super) use settings::read_secret;
pub use table::{function, functions};
