//! What the user trusts and has granted: the trust store, its records, and the lock file of a project.
//!
//! Everything is bound to a [`SkillDigest`](metier_core::policy::SkillDigest). The store lies in the user's data folder, never in a
//! project, and no script can read or write it.

mod audited_changes;
mod lock_file;
mod lock_file_cache;
mod project_identity;
mod records;
mod skill_files;
mod store;

pub use self::lock_file::{LockDifference, LockFile, LockedSkill, SkillSource};
pub(crate) use self::lock_file_cache::LockFileCache;
pub use self::project_identity::ProjectIdentity;
pub use self::records::{RememberedGrant, TrustRecords, TrustedCallee, TrustedFolder, TrustedSkill};
pub use self::skill_files::{CalleeFiles, SkillFiles};
pub use self::store::TrustStore;
