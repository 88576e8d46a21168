//! What skills keep from one run to the next, in the user's data folder: the home folder of a skill in a project, and values under keys.
//!
//! ```no_run
//! use metier::engine::Engine;
//! use metier::state::StateStore;
//!
//! # fn main() -> metier::error::Result<()> {
//! let engine = Engine::builder(".").state(StateStore::user()?).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use metier_state::{StateStore, StoredFile, StoredState, StoredValue};
