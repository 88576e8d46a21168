//! The error type: a kind and a hint for programs, and a sentence with help for people.
//!
//! What a failed run lacked, and could be asked about:
//!
//! ```
//! use metier::engine::{Engine, Invocation};
//!
//! # fn main() -> metier::error::Result<()> {
//! let outcome = Engine::builder(".").build()?.run(Invocation::new("summarize"));
//! if let Some(permission) = outcome.result.as_ref().err().and_then(|error| error.missing()) {
//!     println!("run it again with {permission}?");
//! }
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use metier_core::error::{
    ErrorKind, ErrorOutput, Hint, LimitKind, Location, Result, SkillError, Violation,
};
