//! Compiled scripts, kept by the digest of what was compiled.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::executor::{Script, SkillExecutor, SkillRuntime};
use crate::policy::{CancelToken, ExecutionMode};
use crate::runtimes::{self, Shared};

/// Compiles a script; see [`super::EngineBuilder::runtime`].
pub(super) type Loader = Box<dyn Fn(&Script) -> Result<Box<dyn SkillExecutor>> + Send + Sync>;

/// How many compiled scripts are kept; the one used longest ago goes first.
const MOST: usize = 64;

pub(super) struct Loaded {
    own: Vec<(SkillRuntime, Loader)>,
    shared: Shared,
    /// Most recently used last.
    kept: Mutex<Vec<(Key, Arc<Slot>)>>,
}

/// Filled by the first run that needs it, while the others wait, each no longer than its own token lets it.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    /// Some run is loading the script.
    Loading,
    Ready(Arc<dyn SkillExecutor>),
}

/// The right to fill a slot. Where it is not used, the next run that waits for the slot has it.
struct Filling<'s>(&'s Slot);

impl Slot {
    /// The executor, or the right to load it, once no other run is doing so. Fails when the token stops first.
    fn taken(self: &Arc<Self>, cancel: &CancelToken) -> Result<Result<Arc<dyn SkillExecutor>, Filling<'_>>> {
        let mut state = locked(&self.state);
        let mut listening = None;
        loop {
            match &*state {
                State::Ready(executor) => return Ok(Ok(executor.clone())),
                State::Empty => {
                    *state = State::Loading;
                    return Ok(Err(Filling(self)));
                }
                State::Loading => cancel.check()?,
            }
            if listening.is_none() {
                // The listener takes the lock itself, at once where the token has stopped meanwhile.
                drop(state);
                let slot = self.clone();
                listening = Some(cancel.on_stop(move |_| {
                    drop(locked(&slot.state));
                    slot.changed.notify_all();
                }));
                state = locked(&self.state);
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Filling<'_> {
    fn fill(self, executor: &Arc<dyn SkillExecutor>) {
        *locked(&self.0.state) = State::Ready(executor.clone());
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        if matches!(*state, State::Loading) {
            *state = State::Empty;
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Whatever changes what a script does or what its errors say.
#[derive(PartialEq, Eq)]
struct Key {
    runtime: SkillRuntime,
    mode: ExecutionMode,
    skill: String,
    path: String,
    folder: Option<std::path::PathBuf>,
    function: Option<String>,
    digest: [u8; 32],
}

impl Loaded {
    pub(super) fn new(own: Vec<(SkillRuntime, Loader)>, shared: Shared) -> Self {
        Self { own, shared, kept: Mutex::default() }
    }

    /// The executor for these bytes, compiled now or earlier. Fails when the token stops before it is there.
    pub(super) fn load(
        &self,
        runtime: SkillRuntime,
        script: &Script,
        mode: ExecutionMode,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SkillExecutor>> {
        let key = Key {
            runtime,
            mode,
            skill: script.skill.clone(),
            path: script.path.clone(),
            folder: script.folder.clone(),
            function: script.function.clone(),
            digest: digest(&script.source, cancel)?,
        };
        let slot = self.slot(key);
        let filling = match slot.taken(cancel)? {
            Ok(executor) => return Ok(executor),
            Err(filling) => filling,
        };
        let executor: Arc<dyn SkillExecutor> = match self.own.iter().find(|(own, _)| *own == runtime) {
            Some((_, load)) => load(script)?.into(),
            None => match runtimes::load_isolated(mode, runtime, script, &self.shared) {
                Some(executor) => executor?.into(),
                None => runtimes::loader(runtime)?(script, &self.shared, cancel)?.into(),
            },
        };
        filling.fill(&executor);
        Ok(executor)
    }

    /// The slot for that key, new or used before.
    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut kept = locked(&self.kept);
        let known = kept.iter().position(|(known, _)| *known == key).map(|at| kept.remove(at).1);
        let slot = known.unwrap_or_default();
        let forgotten = (kept.len() == MOST).then(|| kept.remove(0));
        kept.push((key, slot.clone()));
        drop(kept);
        // An executor may take its time to go; nobody waits for it.
        drop(forgotten);
        slot
    }

    /// Whether an embedder's own loader loads scripts of this runtime.
    pub(super) fn is_own(&self, runtime: SkillRuntime) -> bool {
        self.own.iter().any(|(own, _)| *own == runtime)
    }

    /// What the executors have in common.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether scripts of this runtime can be loaded at all.
    pub(super) fn knows(&self, runtime: SkillRuntime) -> Result<()> {
        if self.is_own(runtime) {
            return Ok(());
        }
        runtimes::loader(runtime).map(drop)
    }
}

/// The digest of a source, which may be large: the token is asked once per MiB of it.
fn digest(source: &[u8], cancel: &CancelToken) -> Result<[u8; 32]> {
    let mut digest = Sha256::new();
    for piece in source.chunks(1 << 20) {
        cancel.check()?;
        digest.update(piece);
    }
    Ok(digest.finalize().into())
}

/// A loader that panicked left the slot empty, so a poisoned lock is still good.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
