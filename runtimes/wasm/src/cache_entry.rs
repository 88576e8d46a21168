//! An entry of the cache: the key of its source, the module's metadata and machine code, and a MAC over all of it that nobody
//! can compute without the user's key.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blake3::{Hasher as Blake3, OUT_LEN};

use super::budget::BYTES_PER_CHECK;
use super::engine::on_demand_engine;
use crate::metadata::ModuleMetadata;
use crate::module_source::{ModuleRole, ModuleSource};
use metier_core::error::Result;
use metier_core::host::MacKey;
use metier_core::policy::CancelToken;

/// The start of every entry; the number changes with the layout.
const MAGIC: &[u8; 16] = b"metier wasm 004\n";

type Digest = [u8; OUT_LEN];

/// The cache key of a compiled module: its source, what its plug-in uses it for, the libraries that it may import from, and
/// everything else that decides the result of compiling it.
pub(super) struct CacheKey(Digest);

/// The sources of this crate that decide the result of compiling, besides the compiler: a change here changes the key.
const COMPILER_SOURCES: &[&str] = &[
    include_str!("compiler/compilation.rs"),
    include_str!("engine.rs"),
    include_str!("metadata.rs"),
    include_str!("imports.rs"),
    include_str!("extism_kernel.rs"),
    include_str!("module.rs"),
    include_str!("module_source.rs"),
    include_str!("instrument.rs"),
    env!("CARGO_PKG_VERSION"),
];

impl CacheKey {
    #[cfg(test)]
    pub(super) fn new(source: &ModuleSource, counts: bool) -> Self {
        Self::compute(source, counts, &CancelToken::new()).unwrap()
    }

    /// Computes the key of a source, which may be large: the token is checked once per MiB of it.
    pub(super) fn compute(source: &ModuleSource, counts: bool, cancel: &CancelToken) -> Result<Self> {
        let (role, function) = match &source.role {
            ModuleRole::Main { function } => (&b"main"[..], function.as_bytes()),
            // Its own name does not matter to it.
            ModuleRole::Library { .. } => (&b"library"[..], &b""[..]),
        };
        let libraries = source.libraries.iter().map(String::as_bytes);
        let parts = [&compiler_fingerprint(counts)[..], role, function, &source.bytes];
        let mut key = Blake3::new();
        for part in parts.into_iter().chain(libraries) {
            key.update(&(part.len() as u64).to_le_bytes());
            for piece in part.chunks(BYTES_PER_CHECK) {
                cancel.check()?;
                key.update(piece);
            }
        }
        Ok(Self(key.finalize().into()))
    }

    /// The file name of the entry.
    pub(super) fn file_name(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

/// Encodes an entry.
pub(super) fn encode(key: &CacheKey, mac_key: &MacKey, facts: &ModuleMetadata, code: &[u8]) -> Vec<u8> {
    let facts = facts.to_json();
    let mut entry = Vec::with_capacity(code.len() + facts.len() + 256);
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(mac_key.authenticate(MAGIC, &[&key.0, &facts, code]).as_bytes());
    entry.extend_from_slice(&key.0);
    entry.extend_from_slice(&(facts.len() as u64).to_le_bytes());
    entry.extend_from_slice(&facts);
    entry.extend_from_slice(code);
    entry
}

/// The metadata and machine code of an entry, whose module may import from these libraries; `None` if it is incomplete, of
/// another module, or not authenticated with this key.
pub(super) fn decode<'e>(
    entry: &'e [u8],
    key: &CacheKey,
    mac_key: &MacKey,
    libraries: &[String],
) -> Option<(ModuleMetadata, &'e [u8])> {
    let entry = entry.strip_prefix(MAGIC)?;
    let (expected, entry) = entry.split_first_chunk::<32>()?;
    let (found, entry) = entry.split_first_chunk::<32>()?;
    let (length, entry) = entry.split_first_chunk::<8>()?;
    let (facts, code) = entry.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    if *found != key.0 {
        return None;
    }
    if mac_key.authenticate(MAGIC, &[&key.0, facts, code]) != *expected {
        return None;
    }
    Some((ModuleMetadata::from_json(facts, libraries)?, code))
}

/// A fingerprint of what produces machine code here: our own sources, and the compiler with its exact version, its settings
/// and its target processor. By itself wasmtime would accept code of an older patch release of the same major version.
pub(super) fn compiler_fingerprint(counts: bool) -> &'static Digest {
    static FINGERPRINTS: [LazyLock<Digest>; 2] =
        [LazyLock::new(|| compute_fingerprint(false)), LazyLock::new(|| compute_fingerprint(true))];
    &FINGERPRINTS[usize::from(counts)]
}

fn compute_fingerprint(counts: bool) -> Digest {
    let mut compiler = Blake3Hasher(Blake3::new());
    if let Ok(engine) = on_demand_engine(counts) {
        engine.precompile_compatibility_hash().hash(&mut compiler);
    }
    let compiler = compiler.0.finalize();
    hash_parts(
        COMPILER_SOURCES
            .iter()
            .map(|part| part.as_bytes())
            .chain([&compiler.as_bytes()[..], &[u8::from(counts)]]),
    )
}

/// A BLAKE3 hash of values that implement `Hash`.
struct Blake3Hasher(Blake3);

impl Hasher for Blake3Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The 64-bit form is never used.
    fn finish(&self) -> u64 {
        0
    }
}

/// The hash of parts, each preceded by its length, so that no two lists of parts hash the same bytes.
fn hash_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Digest {
    let mut sum = Blake3::new();
    for part in parts {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::ErrorKind;

    #[test]
    fn a_source_is_summed_no_longer_than_its_run_goes_on() {
        let source = ModuleSource {
            label: "run.wasm".into(),
            bytes: vec![0; 3 * BYTES_PER_CHECK].into(),
            role: ModuleRole::Main { function: "run".into() },
            libraries: Vec::new(),
        };
        let cancel = CancelToken::new();
        assert!(CacheKey::compute(&source, false, &cancel).is_ok());
        cancel.cancel();
        let ended = CacheKey::compute(&source, false, &cancel).map(|key| key.file_name());
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
