//! Compiled modules on disk, in the user's own cache directory. They are native code: whoever may write there may run.

use std::fs::{self, DirBuilder, Metadata};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use etcetera::BaseStrategy;

/// wasmtime's settings: Extism takes a path to them and nothing else. They lie beside what is kept, not in it, for wasmtime
/// removes there whatever is not its own.
const SETTINGS: &str = "settings.toml";
const KEPT: &str = "compiled";

/// Where wasmtime finds its settings; nothing where nothing may be kept on disk.
pub(super) fn settings() -> Option<&'static Path> {
    static SETTINGS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let base = etcetera::base_strategy::choose_native_strategy().map(|platform| platform.cache_dir());
        let prepared = base.map_err(|error| error.to_string()).and_then(|base| prepared(&base));
        prepared.inspect_err(|reason| tracing::warn!("compiled modules are not kept on disk: {reason}")).ok()
    });
    SETTINGS.as_deref()
}

/// Where they are kept, whether or not there are any yet.
pub(in super::super) fn folder() -> Option<PathBuf> {
    let base = etcetera::base_strategy::choose_native_strategy().ok()?.cache_dir();
    Some(base.join("metier/wasm").join(KEPT))
}

/// The settings for a cache below this directory, or the reason why there can be none.
pub(super) fn prepared(base: &Path) -> Result<PathBuf, String> {
    let failed = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
    let (product, directory) = (base.join("metier"), base.join("metier/wasm"));
    let kept = directory.join(KEPT);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&kept).map_err(|error| failed(&kept, error))?;
    for part in [base, &product, &directory, &kept] {
        let found = fs::symlink_metadata(part).map_err(|error| failed(part, error))?;
        is_ours(&found).map_err(|reason| format!("{} {reason}", part.display()))?;
    }
    let file = directory.join(SETTINGS);
    let text = text(&kept).ok_or_else(|| format!("{} is not UTF-8", kept.display()))?;
    if fs::read_to_string(&file).ok().as_deref() != Some(&text) {
        written(&directory, &file, &text).map_err(|error| failed(&file, error))?;
    }
    wasmtime::Cache::from_file(Some(&file)).map_err(|error| format!("{}: {error:#}", file.display()))?;
    Ok(file)
}

fn is_ours(found: &Metadata) -> Result<(), &'static str> {
    if !found.is_dir() {
        return Err("is no directory of its own");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err("belongs to somebody else");
    }
    if found.mode() & 0o022 != 0 {
        return Err("can be written by others");
    }
    Ok(())
}

/// A JSON string is a TOML string as well.
fn text(directory: &Path) -> Option<String> {
    let directory = serde_json::Value::from(directory.to_str()?);
    Some(format!(
        "[cache]\ndirectory = {directory}\nfile-count-soft-limit = \"1024\"\nfiles-total-size-soft-limit = \"256Mi\"\n"
    ))
}

/// In one step, for other processes may be reading it.
fn written(directory: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}
