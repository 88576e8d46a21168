//! What the runtimes and the engine of [metier](https://docs.rs/metier) share. A program that embeds metier uses the package `metier`,
//! which shows what of this is for it.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod alloc_counter;
pub mod byte_order_mark;
pub mod client_variables;
pub mod error;
pub mod excerpt;
pub mod executor;
pub mod hint;
pub mod host;
pub mod percent_encoding;
pub mod policy;
pub mod sanitizer;
mod secret_family;
pub mod strict_json;
pub mod suggestion;
pub mod template;
pub mod text_encoding;
pub mod toml_nesting;
pub mod unicode;
