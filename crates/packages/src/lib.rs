//! The packages that scripts need: what a skill requires, the registries of the user, and the store of what was prepared.
//!
//! ```text
//! packages/requests/0123….json      one set of requirements: which entry serves it, for each interpreter
//!          added/0123….json         what a person adds to the packages of the skill with these files
//!          entries/0123…/about.json the lock, the interpreter, and the digest of all files
//!                        files/     what Python or Node loads: files and folders, no links
//!          work-Ab12Cd/             a preparation in progress; a killed one is removed by the next
//! ```
//!
//! Nothing here starts a program: the engine runs the package managers, in the sandbox.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod added_packages;
#[cfg_attr(not(feature = "config"), allow(dead_code, reason = "without TOML nothing is read"))]
mod declarations;
mod npm_manifest;
mod npm_range;
mod npm_registry;
mod python_index;
mod required_python;
mod requirement;
mod requirements;
mod requirements_file;
mod skill_packages;
#[cfg_attr(not(unix), path = "store_unsupported.rs")]
mod store;
mod stored;
#[cfg_attr(not(feature = "config"), path = "toml_unavailable.rs")]
mod toml_text;
#[cfg(unix)]
mod tree;
mod user_files;
mod version_range;

pub use self::added_packages::AddedPackages;
pub use self::npm_manifest::check_new_lock;
pub use self::npm_registry::NpmRegistry;
pub use self::python_index::PythonIndex;
pub use self::required_python::RequiredPython;
pub use self::requirements::{Ecosystem, Requirements};
pub use self::skill_packages::{ChildPackages, SkillPackages};
pub use self::store::{
    PackageRequest, PackageStore, Preparation, PreparedFiles, added_packages, begin_preparation,
    has_requests, set_added_packages,
};
pub use self::stored::{InstalledInterpreter, StoredPackages};
pub use self::user_files::{UserFiles, host_of};
