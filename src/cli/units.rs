//! Amounts as people write them on the command line, and in contracts alike.

pub use metier::policy::units::{parse_bytes, parse_count, parse_duration};
