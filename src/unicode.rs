//! Spells out invisible characters, and those that change how others are displayed.

#[doc(inline)]
pub use metier_core::unicode::{mark_escapes, with_lookalikes};
