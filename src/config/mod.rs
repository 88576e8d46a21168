//! The configuration: one table of keys, values with their origins, and what the file of a project may set.
//!
//! A program that embeds metier builds a [`Configuration`] by hand. The command reads it from options, environment variables and
//! TOML files, with the Cargo feature `config`.

mod configuration;
#[cfg(feature = "config")]
mod edit;
mod effective;
#[cfg(feature = "config")]
mod environment;
mod home_path;
mod json_schema;
mod key_path;
mod keys;
mod limit_caps;
#[cfg(feature = "config")]
mod load;
#[cfg(feature = "config")]
mod narrowing;
#[cfg_attr(not(feature = "config"), allow(dead_code))]
mod origin;
mod providers;
#[cfg(unix)]
mod secret_command;
mod secret_source;
mod skill_settings;
#[cfg(feature = "config")]
mod toml_file;
mod unknown_key;
mod value;

pub use self::configuration::{Configuration, Setting};
#[cfg(feature = "config")]
pub use self::edit::{EditTarget, set, unset};
pub use self::effective::EffectiveValue;
pub use self::json_schema::json_schema;
pub use self::key_path::KeyPath;
pub use self::keys::{KEYS, Key, ProjectRule};
#[cfg(feature = "config")]
pub use self::load::{ConfigFile, LoadedConfiguration, load, load_with_user_file, project_file, user_file};
#[cfg_attr(not(feature = "config"), allow(unused_imports))]
pub use self::origin::ValueOrigin;
pub(crate) use self::providers::with_configuration;
pub use self::secret_source::{ConfiguredSecret, SecretSource};
pub(crate) use self::skill_settings::{ResolvedConfiguration, SkillSettings};
pub use self::value::{ConfigValue, KeyType, is_product_name};
