//! Amounts as people write them on the command line, and in contracts alike.

pub use metier::policy::amount::{bytes, count, duration};
