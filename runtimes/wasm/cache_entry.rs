//! A compiled module as it is kept on disk: for which source, what is known of it, its machine code, and a code over it all
//! that nobody can make who does not have the user's key.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::budget::BYTES_PER_CHECK;
use super::engine::on_demand_engine;
use crate::error::Result;
use crate::executor::Script;
use crate::policy::CancelToken;
use crate::runtimes::wasm::metadata::ModuleMetadata;

/// What an entry begins with; the number changes with the layout.
const MAGIC: &[u8; 16] = b"metier wasm 002\n";

type Sha256Sum = [u8; 32];

/// What entries are authenticated with. Whoever has it can have the host run any machine code.
pub(super) struct MacKey([u8; 64]);

impl MacKey {
    pub(super) fn new(key: [u8; 32]) -> Self {
        // As HMAC itself makes a short key as long as a block.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        Self(block)
    }

    /// The code over the parts of an entry, each behind its length.
    fn authenticate(&self, parts: [&[u8]; 3]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        mac.update(MAGIC);
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// What a compiled module is kept by: its source and everything else that decides what becomes of it.
pub(super) struct CacheKey(Sha256Sum);

/// Whatever decides what becomes of a source, beside the compiler: a change here is another key.
const COMPILER_SOURCES: &[&str] = &[
    include_str!("compiler/compilation.rs"),
    include_str!("engine.rs"),
    include_str!("metadata.rs"),
    include_str!("imports.rs"),
    include_str!("extism_kernel.rs"),
    include_str!("module.rs"),
    include_str!("instrument.rs"),
    env!("CARGO_PKG_VERSION"),
];

impl CacheKey {
    #[cfg(test)]
    pub(super) fn new(script: &Script, counts: bool) -> Self {
        Self::compute(script, counts, &CancelToken::new()).unwrap()
    }

    /// The key of a source, which may be large: the token is asked once per MiB of it.
    pub(super) fn compute(script: &Script, counts: bool, cancel: &CancelToken) -> Result<Self> {
        let function = script.function.as_deref().unwrap_or("run");
        let mut key = Sha256::new();
        for part in [&compiler_fingerprint(counts)[..], function.as_bytes(), &script.source] {
            key.update((part.len() as u64).to_le_bytes());
            for piece in part.chunks(BYTES_PER_CHECK) {
                cancel.check()?;
                key.update(piece);
            }
        }
        Ok(Self(key.finalize().into()))
    }

    /// As the name of a file.
    pub(super) fn file_name(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

/// The bytes of an entry.
pub(super) fn encode(key: &CacheKey, mac_key: &MacKey, facts: &ModuleMetadata, code: &[u8]) -> Vec<u8> {
    let facts = facts.to_json();
    let mut entry = Vec::with_capacity(code.len() + facts.len() + 256);
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(&mac_key.authenticate([&key.0, &facts, code]).finalize().into_bytes());
    entry.extend_from_slice(&key.0);
    entry.extend_from_slice(&(facts.len() as u64).to_le_bytes());
    entry.extend_from_slice(&facts);
    entry.extend_from_slice(code);
    entry
}

/// The facts and the machine code of an entry; nothing where it is not whole, another's, or nobody's who has the key.
pub(super) fn decode<'e>(
    entry: &'e [u8],
    key: &CacheKey,
    mac_key: &MacKey,
) -> Option<(ModuleMetadata, &'e [u8])> {
    let entry = entry.strip_prefix(MAGIC)?;
    let (expected, entry) = entry.split_first_chunk::<32>()?;
    let (found, entry) = entry.split_first_chunk::<32>()?;
    let (length, entry) = entry.split_first_chunk::<8>()?;
    let (facts, code) = entry.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    if *found != key.0 {
        return None;
    }
    // In the same time wherever it differs.
    mac_key.authenticate([&key.0, facts, code]).verify_slice(expected).ok()?;
    Some((ModuleMetadata::from_json(facts)?, code))
}

/// What makes machine code here: our own part, and the compiler with its version to the last number, its settings and the
/// processor it writes for. By itself wasmtime would take what an older patch of the same major version made.
pub(super) fn compiler_fingerprint(counts: bool) -> &'static Sha256Sum {
    static FINGERPRINTS: [LazyLock<Sha256Sum>; 2] =
        [LazyLock::new(|| compute_fingerprint(false)), LazyLock::new(|| compute_fingerprint(true))];
    &FINGERPRINTS[usize::from(counts)]
}

fn compute_fingerprint(counts: bool) -> Sha256Sum {
    let mut compiler = Sha256Hasher(Sha256::new());
    if let Ok(engine) = on_demand_engine(counts) {
        engine.precompile_compatibility_hash().hash(&mut compiler);
    }
    let compiler = compiler.0.finalize();
    hash_parts(
        COMPILER_SOURCES.iter().map(|part| part.as_bytes()).chain([&compiler[..], &[u8::from(counts)]]),
    )
}

/// A sum over what can be hashed.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks for the short form.
    fn finish(&self) -> u64 {
        0
    }
}

/// The sum of parts, each behind its length, so that none can pass for a piece of its neighbour.
fn hash_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Sha256Sum {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn no_part_of_an_entry_passes_for_a_piece_of_its_neighbour() {
        let key = MacKey::new([7; 32]);
        let code = |parts: [&[u8]; 3]| key.authenticate(parts).finalize().into_bytes();
        assert_eq!(code([b"ab", b"c", b""]), code([b"ab", b"c", b""]));
        for other in [[&b"a"[..], b"bc", b""], [b"ab", b"", b"c"], [b"", b"abc", b""]] {
            assert_ne!(code([b"ab", b"c", b""]), code(other), "{other:?}");
        }
    }

    #[test]
    fn a_source_is_summed_no_longer_than_its_run_goes_on() {
        let script = Script {
            skill: "test".into(),
            path: "run.wasm".into(),
            folder: None,
            source: vec![0; 3 * BYTES_PER_CHECK].into(),
            function: None,
        };
        let cancel = CancelToken::new();
        assert!(CacheKey::compute(&script, false, &cancel).is_ok());
        cancel.cancel();
        let ended = CacheKey::compute(&script, false, &cancel).map(|key| key.file_name());
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
