//! Calls that wait for a person: what nobody can be asked about now is written down, decided later, and then made once.
//!
//! ```no_run
//! use metier::engine::{Engine, Invocation};
//! use metier::error::ErrorKind;
//! use metier::pending::PendingStore;
//!
//! # fn main() -> metier::error::Result<()> {
//! let store = PendingStore::user()?;
//! let engine = Engine::builder(".").pending(store.clone()).build()?;
//! let call = || Invocation::new("deploy").for_model().park("the night shift");
//! if engine.run(call()).result.is_err_and(|error| error.kind() == ErrorKind::Pending) {
//!     for waiting in store.list()? {
//!         store.approve(&waiting)?;
//!     }
//!     engine.run(call());
//! }
//! # Ok(())
//! # }
//! ```

mod approver;
mod store;

pub(crate) use self::approver::PendingApprover;
pub use self::store::{PendingCall, PendingState, PendingStore};
