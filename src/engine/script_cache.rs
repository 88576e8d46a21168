//! A cache of compiled scripts, keyed by the digest of their source.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::runtimes::{self, RuntimeServices, Runtimes};
use metier_core::error::Result;
use metier_core::executor::{
    HandlerCall, RuntimeId, Script, ScriptDialect, ScriptEntry, ScriptTool, SkillExecutor,
};
use metier_core::policy::{CancelToken, ExecutionMode};

/// Maximum number of cached scripts; the least recently used one is evicted first.
const MAX_SCRIPTS: usize = 64;

pub(super) struct ScriptCache {
    services: RuntimeServices,
    /// Most recently used last.
    entries: Mutex<Vec<(ScriptKey, Arc<ScriptSlot>)>>,
}

/// A cache entry, filled by the first run that needs it while the others wait, each until its own token stops at the latest.
#[derive(Default)]
struct ScriptSlot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    /// Some run is loading the script.
    Loading,
    Ready(Arc<dyn SkillExecutor>),
}

/// The exclusive right to fill a slot. If it is dropped unused, the next waiting run gets it.
struct LoadGuard<'s>(&'s ScriptSlot);

impl ScriptSlot {
    /// The executor, or the right to load it once no other run is loading it. Fails when the token stops first.
    fn wait_or_claim(
        self: &Arc<Self>,
        cancel: &CancelToken,
    ) -> Result<Result<Arc<dyn SkillExecutor>, LoadGuard<'_>>> {
        let mut state = lock(&self.state);
        let mut listening = None;
        loop {
            match &*state {
                SlotState::Ready(executor) => return Ok(Ok(executor.clone())),
                SlotState::Empty => {
                    *state = SlotState::Loading;
                    return Ok(Err(LoadGuard(self)));
                }
                SlotState::Loading => cancel.check()?,
            }
            if listening.is_none() {
                // The listener takes the lock itself, immediately if the token has stopped meanwhile.
                drop(state);
                let slot = self.clone();
                listening = Some(cancel.on_stop(move |_| {
                    drop(lock(&slot.state));
                    slot.changed.notify_all();
                }));
                state = lock(&self.state);
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl LoadGuard<'_> {
    fn fill(self, executor: &Arc<dyn SkillExecutor>) {
        *lock(&self.0.state) = SlotState::Ready(executor.clone());
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if matches!(*state, SlotState::Loading) {
            *state = SlotState::Empty;
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Everything that affects what a script does or what its errors say.
#[derive(PartialEq, Eq)]
struct ScriptKey {
    runtime: RuntimeId,
    mode: ExecutionMode,
    /// A plan is checked against the skills that it calls, so it is checked again when any of them changed.
    generation: Option<u64>,
    skill: String,
    path: String,
    folder: Option<std::path::PathBuf>,
    function: Option<String>,
    handler: Option<HandlerCall>,
    tool: Option<ScriptTool>,
    dialect: ScriptDialect,
    digest: [u8; 32],
}

impl ScriptCache {
    pub(super) fn new(services: RuntimeServices) -> Self {
        Self { services, entries: Mutex::default() }
    }

    /// The executor for this source, compiled now or earlier, among the skills of that generation. Fails when the token stops before it is ready.
    pub(super) fn load(
        &self,
        runtimes: &Runtimes,
        runtime: RuntimeId,
        script: &Script,
        (mode, generation): (ExecutionMode, u64),
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SkillExecutor>> {
        let key = ScriptKey {
            runtime,
            mode,
            generation: (runtime == RuntimeId::TOOL_SEQUENCE).then_some(generation),
            skill: script.skill.clone(),
            path: script.path.clone(),
            folder: script.folder.clone(),
            function: script.function.clone(),
            handler: ScriptEntry::from_script(script).handler.clone(),
            // Only a plan depends on the tool for which it runs.
            tool: ScriptEntry::from_script(script)
                .tool
                .clone()
                .filter(|_| runtime == RuntimeId::TOOL_SEQUENCE),
            dialect: ScriptEntry::from_script(script).dialect,
            digest: source_digest(&script.source, cancel)?,
        };
        let slot = self.slot(key);
        let filling = match slot.wait_or_claim(cancel)? {
            Ok(executor) => return Ok(executor),
            Err(filling) => filling,
        };
        let executor: Arc<dyn SkillExecutor> =
            runtimes::load(runtimes, runtime, script, mode, &self.services, cancel)?.into();
        filling.fill(&executor);
        Ok(executor)
    }

    /// The slot for that key, new or existing.
    fn slot(&self, key: ScriptKey) -> Arc<ScriptSlot> {
        let mut kept = lock(&self.entries);
        let known = kept.iter().position(|(known, _)| *known == key).map(|at| kept.remove(at).1);
        let slot = known.unwrap_or_default();
        let forgotten = (kept.len() == MAX_SCRIPTS).then(|| kept.remove(0));
        kept.push((key, slot.clone()));
        drop(kept);
        // Dropping an executor may take time, so it happens outside the lock.
        drop(forgotten);
        slot
    }

    /// The services that all executors share.
    pub(super) fn services(&self) -> &RuntimeServices {
        &self.services
    }
}

/// The digest of a source, which may be large: the token is checked once per MiB.
fn source_digest(source: &[u8], cancel: &CancelToken) -> Result<[u8; 32]> {
    let mut digest = Sha256::new();
    for piece in source.chunks(1 << 20) {
        cancel.check()?;
        digest.update(piece);
    }
    Ok(digest.finalize().into())
}

/// A loader that panicked left the slot empty, so the data behind a poisoned lock is still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
