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
mod secret_requests;
mod settings;
mod store;
mod table;
mod walk_results;
mod write;

pub(super) use callees::is_own_tool;
pub use config_values::{ConfigState, WITHHELD, WITHHELD_HELP, WithheldValues, config_help, config_hint};
pub(super) use config_values::{read_secret, read_value};
pub use secret_requests::misplaced_text;
pub use table::{function, functions};
