//! Values of skills that permit to cache them, for engines whose embedder asks for it.
//!
//! A key holds all that metier knows of a run before it: the skill with its files, the script, the project, the permissions and the
//! input. With a value is kept what its run read through the host API, and a value is used again only while all of that is the same. What
//! an external script reads is not known, which is why an embedder must ask for the cache. A run that may do more than read, or about
//! which somebody may decide while it runs, is never answered from it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::engine::script_selection::SelectedScript;
use crate::registry::Skill;
use crate::trust::ProjectIdentity;
use metier_core::executor::{RuntimeId, SkillInput};
use metier_core::host::{
    CallRecords, ReadRecord, RunContext, RunReporting, SkillContext, memory_size, reads_the_same,
};
use metier_core::policy::{RunPermissions, SandboxMode, SkillDigest};
use metier_core::strict_json::canonical_text;

/// The maximum number of values, and of the bytes of memory that they take.
const MAX_VALUES: usize = 1_000;
const MAX_BYTES: u64 = 64 << 20;

/// Identifies equal runs.
pub(super) type ResultKey = [u8; 32];

/// The values that may still be used.
#[derive(Default)]
pub(super) struct ResultCache(Mutex<CachedValues>);

#[derive(Default)]
struct CachedValues {
    values: HashMap<ResultKey, CachedValue>,
    bytes: u64,
}

struct CachedValue {
    value: Arc<Value>,
    bytes: u64,
    /// When its run began: nothing that it read is older.
    started: Instant,
    ttl: Duration,
    /// What its run read; `None` if that is not known.
    reads: Option<Arc<ReadRecord>>,
}

/// Where the value of one run is kept, which begins now.
pub(super) struct ResultSlot<'a> {
    cache: &'a ResultCache,
    key: ResultKey,
    ttl: Duration,
    started: Instant,
    /// The age of the value that the run has from here.
    answer_age: Cell<Option<Duration>>,
}

/// A value that a run made, before it is kept.
pub(super) struct NewEntry<'a> {
    slot: ResultSlot<'a>,
    value: CachedValue,
}

impl NewEntry<'_> {
    /// Keeps the value for equal runs.
    pub(super) fn insert(self) {
        self.slot.cache.lock().insert(self.slot.key, self.value);
    }
}

impl ResultCache {
    /// The place of runs with this key, whose skill permits to use a value for so long.
    pub(super) fn slot(&self, key: ResultKey, ttl: Duration) -> ResultSlot<'_> {
        ResultSlot { cache: self, key, ttl, started: Instant::now(), answer_age: Cell::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, CachedValues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ResultSlot<'a> {
    /// The value of an equal run that is not too old and read what this one would read, and its age.
    pub(super) fn get(&self, context: &SkillContext) -> Option<(Value, Duration)> {
        let (value, started, reads) = {
            let cached = self.cache.lock();
            let found = cached.values.get(&self.key).filter(|found| !found.is_expired())?;
            (found.value.clone(), found.started, found.reads.clone())
        };
        if !reads.is_none_or(|reads| reads_the_same(context, &reads)) {
            return None;
        }
        let age = started.elapsed();
        self.answer_age.set(Some(age));
        Some((Value::clone(&value), age))
    }

    /// The age of the value that the run has from here.
    pub(super) fn answer_age(&self) -> Option<Duration> {
        self.answer_age.get()
    }

    /// What to keep of the run; nothing if its value is too large or comes from here, or if it is not known what it read.
    pub(super) fn entry(self, value: &Value, context: &SkillContext) -> Option<NewEntry<'a>> {
        let reads = context.reads().cloned();
        let bytes = memory_size(value) + reads.as_ref().map_or(0, |reads| reads.bytes());
        let is_known = reads.as_ref().is_none_or(|reads| reads.is_complete());
        if self.answer_age.get().is_some() || bytes > MAX_BYTES / 4 || !is_known {
            return None;
        }
        let value = Arc::new(value.clone());
        let value = CachedValue { value, bytes, started: self.started, ttl: self.ttl, reads };
        Some(NewEntry { slot: self, value })
    }
}

impl CachedValue {
    fn is_expired(&self) -> bool {
        self.started.elapsed() >= self.ttl
    }
}

impl CachedValues {
    fn insert(&mut self, key: ResultKey, entry: CachedValue) {
        self.remove(&key);
        self.bytes += entry.bytes;
        self.values.insert(key, entry);
        if self.values.len() > MAX_VALUES || self.bytes > MAX_BYTES {
            let expired: Vec<ResultKey> =
                self.values.iter().filter(|(_, found)| found.is_expired()).map(|(key, _)| *key).collect();
            for key in &expired {
                self.remove(key);
            }
        }
        while self.values.len() > MAX_VALUES || self.bytes > MAX_BYTES {
            let oldest = self.values.iter().min_by_key(|(_, found)| found.started).map(|(key, _)| *key);
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &ResultKey) {
        if let Some(removed) = self.values.remove(key) {
            self.bytes -= removed.bytes;
        }
    }
}

/// How long a value of the skill may be used again: only if its contract says `cacheable`, `idempotent` and for how long, and nothing
/// reaches its script that a key does not hold, or leaves it but its value.
pub(super) fn cache_ttl(skill: &Skill, runtime: RuntimeId, context: &SkillContext) -> Option<Duration> {
    let contract = skill.contract()?;
    let metadata = &contract.metadata;
    let is_declared = metadata.cacheable == Some(true) && metadata.idempotent == Some(true);
    // What a skill keeps in its folder is not part of its digest.
    let is_closed = contract.config.is_empty() && contract.state.is_empty();
    let permissions = context.permissions();
    let is_decided = permissions.only_reads() && permissions.approvable_at_start().is_empty();
    let is_confined = match runtime {
        RuntimeId::LUA | RuntimeId::RHAI | RuntimeId::WASM | RuntimeId::TOOL_SEQUENCE => true,
        RuntimeId::EXTERNAL => context.sandbox_mode() == SandboxMode::Required,
        // Whatever an embedder's own runtime reads.
        _ => false,
    };
    let is_value_all =
        context.output_sinks().is_none() && !context.has_stdin_source() && context.journal_file().is_none();
    metadata.cache_ttl.filter(|_| is_declared && is_closed && is_decided && is_confined && is_value_all)
}

/// The key of a run of this script, of a skill with these files, if they count besides its definition.
pub(super) fn result_key(
    (skill, files): (&Skill, Option<SkillDigest>),
    (script, source): (&SelectedScript, &[u8]),
    input: &SkillInput,
    context: &SkillContext,
) -> ResultKey {
    let mut key = KeyHasher::default();
    key.add(&skill.definition_hash().to_be_bytes());
    key.add(context.qualified_name().unwrap_or(skill.name()).as_bytes());
    key.add_option(files.as_ref(), |key, files| key.add(files.as_bytes()));
    key.add(script.path.as_bytes());
    key.add_option(script.function.as_ref(), |key, function| key.add(function.as_bytes()));
    key.add_option(script.tool.as_ref(), |key, tool| key.add(tool.name.as_bytes()));
    // The file may have been changed since it was read.
    key.add(source);
    key.add_option(context.project_root(), |key, root| key.add(root.as_os_str().as_encoded_bytes()));
    // Another folder at the same path is another project.
    let folder = context.project_root().and_then(|root| ProjectIdentity::from_canonical(root).ok());
    key.add_option(folder, |key, folder| key.add_text(format_args!("{folder}")));
    let permissions = context.permissions().effective();
    key.add_all(&permissions, |key, permission| key.add_text(format_args!("{permission}")));
    // No input is another one than `null`.
    key.add_option(input.value.as_ref(), |key, value| key.add(canonical_text(value).as_bytes()));
    key.add_all(&input.args, |key, arg| key.add(arg.as_bytes()));
    key.digest.finalize().into()
}

/// Hashes what runs have in common. Each part goes with its length, so that no two lists of parts have the same bytes.
#[derive(Default)]
struct KeyHasher {
    digest: Sha256,
    text: String,
}

impl KeyHasher {
    fn add(&mut self, part: &[u8]) {
        self.add_count(part.len());
        self.digest.update(part);
    }

    fn add_count(&mut self, count: usize) {
        self.digest.update((count as u64).to_le_bytes());
    }

    fn add_text(&mut self, text: fmt::Arguments<'_>) {
        let mut buffer = std::mem::take(&mut self.text);
        buffer.clear();
        // A text takes all that is written to it.
        buffer.write_fmt(text).ok();
        self.add(buffer.as_bytes());
        self.text = buffer;
    }

    fn add_option<T>(&mut self, part: Option<T>, add: impl FnOnce(&mut Self, T)) {
        self.add_count(usize::from(part.is_some()));
        if let Some(part) = part {
            add(self, part);
        }
    }

    fn add_all<T>(&mut self, parts: &[T], add: impl Fn(&mut Self, &T)) {
        self.add_count(parts.len());
        for part in parts {
            add(self, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(number: u32) -> ResultKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn context() -> SkillContext {
        SkillContext::builder("x").build()
    }

    fn store(cache: &ResultCache, number: u32, value: &Value, ttl: Duration) {
        let entry = cache.slot(key(number), ttl).entry(value, &context());
        entry.into_iter().for_each(NewEntry::insert);
    }

    fn value(cache: &ResultCache, number: u32) -> Option<Value> {
        cache.slot(key(number), Duration::ZERO).get(&context()).map(|(value, _)| value)
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn lists_of_parts_with_the_same_bytes_have_different_keys() {
        let hash = |add: &dyn Fn(&mut KeyHasher)| {
            let mut key = KeyHasher::default();
            add(&mut key);
            ResultKey::from(key.digest.finalize())
        };
        let texts = |parts: &[&str]| {
            hash(&|key| key.add_all(parts, |key, part| key.add_text(format_args!("{part}"))))
        };
        let option =
            |part: Option<&str>| hash(&|key| key.add_option(part, |key, part| key.add(part.as_bytes())));
        let mut keys = vec![option(None), option(Some("")), option(Some("\0"))];
        keys.extend([&["ab", "c"][..], &["a", "bc"], &["abc"], &["abc", ""], &["", "abc"], &[]].map(texts));
        let different: std::collections::HashSet<_> = keys.iter().collect();
        // Nothing, and a list of nothing, are one count.
        assert_eq!(different.len(), keys.len() - 1);
        assert_eq!(texts(&["a", "b"]), texts(&["a", "b"]));
    }

    #[test]
    fn a_value_is_there_until_it_is_too_old() {
        let cache = ResultCache::default();
        store(&cache, 1, &json!(1), MINUTE);
        store(&cache, 2, &json!(2), Duration::ZERO);
        assert_eq!(value(&cache, 1), Some(json!(1)));
        let later = cache.slot(key(1), MINUTE);
        assert!(later.get(&context()).is_some());
        let entry = later.entry(&json!("what was answered from here is not younger for it"), &context());
        assert!(entry.is_none());
        assert_eq!(value(&cache, 1), Some(json!(1)));
        assert_eq!((value(&cache, 2), value(&cache, 3)), (None, None));
    }

    #[test]
    fn the_oldest_values_go_when_there_are_too_many_or_too_large_ones() {
        let cache = ResultCache::default();
        for number in 0..=u32::try_from(MAX_VALUES).unwrap() {
            store(&cache, number, &json!(number), MINUTE);
        }
        assert!(value(&cache, 0).is_none() && value(&cache, 1).is_some());
        let text = |part: u64| json!("x".repeat(usize::try_from(MAX_BYTES / part).unwrap()));
        let large = text(5);
        for number in 2_000..2_006 {
            store(&cache, number, &large, MINUTE);
        }
        assert!(value(&cache, 2_000).is_none() && value(&cache, 2_005).is_some());
        store(&cache, 9_999, &text(3), MINUTE);
        assert!(value(&cache, 9_999).is_none(), "one of them is not worth many");
        assert!(cache.lock().bytes <= MAX_BYTES);
    }
}
