//! The functions of the host API, one file a subject. A new function is a row in the table and a body in its file.

mod callees;
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
pub use secret_requests::{enter_secrets, misplaced_text, run_secrets};
pub use settings::{
    ConfigState, WITHHELD, WITHHELD_HELP, config_from_environment, config_help, config_hint, config_states,
    has_secret_instead_of, require_setting_variable, secret_from_environment, skill_settings,
};
pub(super) use settings::{read_secret, read_value};
pub use table::{function, functions};
