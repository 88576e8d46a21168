//! The caches of the user on disk, and the key that authenticates what lies in them.

#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod key_file;
mod mac_key;

#[cfg(unix)]
pub use self::folder::{CacheLimits, UserCache};
pub use self::mac_key::MacKey;
