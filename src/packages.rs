//! The packages that were prepared for scripts.
//!
//! ```no_run
//! use metier::engine::Engine;
//! use metier::packages::PackageStore;
//!
//! # fn main() -> metier::error::Result<()> {
//! let engine = Engine::builder(".").packages(PackageStore::user()?).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use metier_packages::{PackageStore, StoredPackages};
