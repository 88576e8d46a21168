//! Values of skills that permit to cache them, for engines whose embedder asks for it.
//!
//! A key holds all that metier knows of a run: the files of the skill, its script, the project and the input. It does not hold the
//! files of the project that the script reads, which is why an embedder must ask for the cache. A run that may do more than read is
//! never answered from it, because its effects would be missing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::engine::script_selection::SelectedScript;
use crate::executor::SkillInput;
use crate::host::SkillContext;
use crate::policy::SkillDigest;
use crate::registry::Skill;

/// The maximum number of values, and of their bytes as JSON.
const MAX_VALUES: usize = 1_000;
const MAX_BYTES: usize = 64 << 20;

/// Identifies equal runs.
pub(super) type ResultKey = [u8; 32];

/// The values that may still be used.
#[derive(Default)]
pub(super) struct ResultCache(Mutex<CachedValues>);

#[derive(Default)]
struct CachedValues {
    values: HashMap<ResultKey, CachedValue>,
    bytes: usize,
}

struct CachedValue {
    value: Value,
    bytes: usize,
    stored: Instant,
    ttl: Duration,
}

/// Where the value of one run is kept.
pub(super) struct ResultSlot<'a> {
    cache: &'a ResultCache,
    key: ResultKey,
    ttl: Duration,
}

impl ResultCache {
    /// The place of runs with this key, whose skill permits to use a value for so long.
    pub(super) fn slot(&self, key: ResultKey, ttl: Duration) -> ResultSlot<'_> {
        ResultSlot { cache: self, key, ttl }
    }

    fn lock(&self) -> MutexGuard<'_, CachedValues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResultSlot<'_> {
    /// The value of an equal run that is not too old, and its age.
    pub(super) fn get(&self) -> Option<(Value, Duration)> {
        let cached = self.cache.lock();
        let found = cached.values.get(&self.key).filter(|found| !found.is_expired())?;
        Some((found.value.clone(), found.stored.elapsed()))
    }

    /// Keeps the value of a run, unless it is too large. One that is there keeps its age.
    pub(super) fn insert(self, value: &Value) {
        let bytes = value.to_string().len();
        let mut cached = self.cache.lock();
        let is_there = cached.values.get(&self.key).is_some_and(|found| !found.is_expired());
        if !is_there && bytes <= MAX_BYTES / 4 {
            let entry = CachedValue { value: value.clone(), bytes, stored: Instant::now(), ttl: self.ttl };
            cached.insert(self.key, entry);
        }
    }
}

impl CachedValue {
    fn is_expired(&self) -> bool {
        self.stored.elapsed() >= self.ttl
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
            let oldest = self.values.iter().min_by_key(|(_, found)| found.stored).map(|(key, _)| *key);
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
/// that a key does not hold reaches its script by the host.
pub(super) fn cache_ttl(skill: &Skill, context: &SkillContext) -> Option<Duration> {
    let contract = skill.contract()?;
    let metadata = &contract.metadata;
    let is_declared = metadata.cacheable == Some(true) && metadata.idempotent == Some(true);
    let is_pure = context.permissions().only_reads() && contract.config.is_empty();
    metadata.cache_ttl.filter(|_| is_declared && is_pure)
}

/// The key of a run of this script in a skill with these files.
pub(super) fn result_key(
    files: SkillDigest,
    script: &SelectedScript,
    input: &SkillInput,
    context: &SkillContext,
) -> ResultKey {
    let tool = script.tool.as_ref().map(|tool| &tool.name);
    let project = context.project().ok().map(|files| files.root().as_os_str().as_encoded_bytes());
    let permissions: Vec<String> =
        context.permissions().effective().iter().map(ToString::to_string).collect();
    // Objects are kept sorted, so that equal inputs have equal texts.
    let run = json!([script.path, script.function, tool, project, permissions, input.value, input.args]);
    let mut digest = Sha256::new();
    digest.update(files.as_bytes());
    digest.update(run.to_string());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ResultKey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn store(cache: &ResultCache, number: u32, value: &Value, ttl: Duration) {
        cache.slot(key(number), ttl).insert(value);
    }

    fn value(cache: &ResultCache, number: u32) -> Option<Value> {
        cache.slot(key(number), Duration::ZERO).get().map(|(value, _)| value)
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn a_value_is_there_until_it_is_too_old() {
        let cache = ResultCache::default();
        store(&cache, 1, &json!(1), MINUTE);
        store(&cache, 1, &json!("a later one"), MINUTE);
        store(&cache, 2, &json!(2), Duration::ZERO);
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
        let large = json!("x".repeat(MAX_BYTES / 5));
        for number in 2_000..2_006 {
            store(&cache, number, &large, MINUTE);
        }
        assert!(value(&cache, 2_000).is_none() && value(&cache, 2_005).is_some());
        store(&cache, 9_999, &json!("x".repeat(MAX_BYTES / 3)), MINUTE);
        assert!(value(&cache, 9_999).is_none(), "one of them is not worth many");
        assert!(cache.lock().bytes <= MAX_BYTES);
    }
}
