//! The functions of the host API, one file a subject. A new function is a row in the table and a body in its file.

mod asset;
mod callees;
mod config_values;
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

pub(crate) use config_values::{ConfigState, config_help, config_hint};
pub(super) use settings::read_secret;
pub use table::{function, functions};
