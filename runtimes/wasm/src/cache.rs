//! The cache of compiled modules on disk. Entries are machine code, so each one is authenticated: `cache_entry.rs` decides which module it
//! is of, and whether it is unchanged.

use std::path::PathBuf;
use std::sync::LazyLock;

use metier_core::host::{CacheLimits, UserCache, metier_dirs};

pub(super) const LIMITS: CacheLimits = CacheLimits { entries: 1024, bytes: 256 << 20, entry_bytes: 64 << 20 };

/// The cache of the user; `None` if nothing may be cached on disk.
pub(super) fn user_cache() -> Option<&'static UserCache> {
    static CACHE: LazyLock<Option<UserCache>> = LazyLock::new(|| {
        let opened = UserCache::open(metier_dirs::WASM_CACHE_DIR, LIMITS);
        opened.inspect_err(|reason| tracing::warn!("compiled modules are not kept on disk: {reason}")).ok()
    });
    CACHE.as_ref()
}

/// The folder of the cache, whether or not it exists yet.
pub fn folder() -> Option<PathBuf> {
    metier_dirs::cache_dir().map(|own| own.join(metier_dirs::WASM_CACHE_DIR))
}
