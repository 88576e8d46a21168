//! Where metier keeps what is its own: nothing in these folders is for scripts, wherever they lie.

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// Every folder of the user's in which metier keeps something of its own, whether or not it is there yet. No script may read
/// or change what is in them: there is machine code that runs in the host, and the key that tells it from a forgery.
#[allow(dead_code, reason = "asked for where there is a sandbox")]
pub(crate) fn own_folders() -> Vec<PathBuf> {
    [cache_folder(), state_folder()].into_iter().flatten().collect()
}

/// For what can be made again.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    Some(etcetera::base_strategy::choose_native_strategy().ok()?.cache_dir().join("metier"))
}

/// For what must stay.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
    Some(platform.state_dir().unwrap_or_else(|| platform.data_dir()).join("metier"))
}
