//! The memory budget of what the host does for a script: taken before anything is read or built, given back after.
//!
//! Languages in process count what scripts hold; what host functions read, build and answer is counted here, in a budget as
//! large as that limit. Calls at the same time share it, and a skill that another one called takes from its caller's as well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::heap;
use crate::policy::{CancelToken, Limits, Room};

/// Bytes that the system is asked for before it is relied on that it has them: smaller ones are left to chance.
const LARGE: u64 = 256 << 10;
/// Bytes that must be there beside those that are taken.
const RESERVE: u64 = 1 << 20;
/// Bytes that are taken at a time where something grows bit by bit.
const STEP: u64 = 64 << 10;
/// Bytes between two looks at the cancel token.
pub(crate) const PATIENCE: usize = 1 << 20;

/// The bytes that host functions of a run may hold at a time. Clones share them.
#[derive(Clone, Debug)]
pub struct HostMemory(Arc<Account>);

#[derive(Debug)]
struct Account {
    own: Room,
    caller: Option<HostMemory>,
}

impl HostMemory {
    /// So many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(Account { own: Room::new(bytes), caller: None }))
    }

    /// So many bytes, each of them taken from those of the caller as well.
    pub(crate) fn called_by(bytes: u64, caller: &Self) -> Self {
        Self(Arc::new(Account { own: Room::new(bytes), caller: Some(caller.clone()) }))
    }

    /// Nothing yet. What is added to it is given back when it is dropped.
    pub(crate) fn hold(&self) -> Held {
        Held { memory: Some(self.clone()), taken: 0, used: 0 }
    }

    /// Takes so many bytes, which the system must have as well.
    fn take(&self, bytes: u64) -> Result<()> {
        if heap::is_short() {
            is_left()?;
        }
        if !self.0.own.take(bytes) {
            return Err(too_much(bytes, self.0.own.most()));
        }
        let taken = match &self.0.caller {
            Some(caller) => caller.take(bytes),
            None if bytes >= LARGE => is_there(bytes.saturating_add(RESERVE)),
            None => Ok(()),
        };
        if taken.is_err() {
            self.0.own.give(bytes);
        }
        taken
    }

    fn give(&self, bytes: u64) {
        self.0.own.give(bytes);
        if let Some(caller) = &self.0.caller {
            caller.give(bytes);
        }
    }
}

/// What one piece of work holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Option<HostMemory>,
    taken: u64,
    used: u64,
}

impl Held {
    /// For whoever works for the user and not for a script: nothing is counted.
    pub(crate) fn uncounted() -> Self {
        Self { memory: None, taken: 0, used: 0 }
    }

    /// Takes so many bytes more, exactly; `memory` where they are not there.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        self.take(used.saturating_sub(self.taken))?;
        self.used = used;
        Ok(())
    }

    /// The same for one of many small things.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        let missing = used.saturating_sub(self.taken);
        if missing > 0 {
            let step = if self.taken < LARGE { STEP } else { LARGE };
            let ahead = missing.max(step);
            self.take(ahead)
                .or_else(|error| if ahead == missing { Err(error) } else { self.take(missing) })?;
        }
        self.used = used;
        Ok(())
    }

    /// So many of its bytes are free for what comes next.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Holds what the other did as well.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.used += std::mem::take(&mut other.used);
        self.taken += std::mem::take(&mut other.taken);
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        if let (Some(memory), 1..) = (&self.memory, bytes) {
            memory.take(bytes)?;
            self.taken += bytes;
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(memory), 1..) = (&self.memory, self.taken) {
            memory.give(self.taken);
        }
    }
}

/// What holds for everything that is done for a script.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) memory: &'a HostMemory,
    /// Bytes that a file may have after it was written.
    pub(crate) file_size: u64,
    pub(crate) cancel: &'a CancelToken,
}

impl Limits {
    /// Bytes of addresses that a run may need, whose script has memory of its own in this program or in another.
    pub(crate) fn of_host(&self, is_in_process: bool) -> u64 {
        let script = self.memory.unwrap_or(Self::MEMORY_IN_PROCESS);
        if is_in_process { script.saturating_mul(2) } else { self.host_memory_of_process() }
    }

    /// Bytes that host functions may hold for the processes of a run at a time. Processes have far more memory than any answer
    /// needs, and the host that answers them has no reason to be as large.
    pub(crate) fn host_memory_of_process(&self) -> u64 {
        const SHARE: u64 = 32;
        let memory = self.memory.unwrap_or(Self::MEMORY_PROCESS);
        memory.min(Self::MEMORY_IN_PROCESS).max(memory / SHARE)
    }
}

/// About the bytes of memory that a value takes.
pub(crate) fn weight(value: &Value) -> u64 {
    const NODE: u64 = size_of::<Value>() as u64;
    let inside: u64 = match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => {
            entries.iter().map(|(key, item)| key.len() as u64 + weight(item)).sum::<u64>()
                + weight_of_map(entries.len())
        }
        _ => 0,
    };
    NODE + inside
}

/// About the bytes that a map of so many entries takes beside them. It keeps them in nodes of eleven, of which about half are
/// taken.
pub(crate) fn weight_of_map(entries: usize) -> u64 {
    const NODE: u64 = 640;
    const TAKEN: u64 = 6;
    (entries as u64).div_ceil(TAKEN) * NODE
}

/// About the bytes that the value of a JSON text takes, told by its text: no value of it takes less than one letter.
pub(crate) fn weight_of_json(text: &[u8]) -> u64 {
    /// A list that is full doubles.
    const ITEM: u64 = 3 * size_of::<Value>() as u64;
    if (text.len() as u64) < STEP {
        return text.len() as u64;
    }
    let (mut bytes, mut is_text, mut is_escaped) = (text.len() as u64, false, false);
    for byte in text {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b',' | b'[') => bytes += ITEM,
            (false, b'{') => bytes += ITEM + weight_of_map(1),
            (false, b':') => bytes += weight_of_map(1) / 6,
            _ => {}
        }
    }
    bytes
}

/// A value as JSON, with what it takes counted first.
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes are answered in text"))]
pub(crate) fn to_json(value: &Value, held: &mut Held) -> Result<Vec<u8>> {
    let failed =
        |error| SkillError::new(ErrorKind::InvalidOutput, format!("it has no form in JSON: {error}"));
    if weight(value) < STEP {
        return serde_json::to_vec(value).map_err(failed);
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).map_err(failed)?;
    held.add(length.0)?;
    let mut text = Vec::with_capacity(usize::try_from(length.0).unwrap_or_default());
    serde_json::to_writer(&mut text, value).map_err(failed)?;
    Ok(text)
}

/// Counts what is written, and keeps nothing.
struct Length(u64);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error on its way through a function that fails as the system does.
pub(crate) fn through_io(error: SkillError) -> io::Error {
    io::Error::other(error)
}

/// Whether an error that came the system's way is ours.
pub(crate) fn is_own(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<SkillError>)
}

/// Whether the system has so many bytes, found out by asking for them. Where memory is limited (`ulimit -v`), whatever grows
/// without asking would end the whole program.
pub(crate) fn is_there(bytes: u64) -> Result<()> {
    if usize::try_from(bytes).is_ok_and(heap::has) {
        return Ok(());
    }
    let sentence = format!("the system has no {bytes} bytes of memory left for it");
    Err(SkillError::new(ErrorKind::Memory, sentence)
        .with_help("ask for less at a time, or give the host more memory (ulimit -v)"))
}

/// Bytes of addresses that a run may need, promised to it until this is dropped.
#[derive(Debug)]
pub(crate) struct Promised(u64);

/// What all runs were promised, as long as they go on.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// What a run takes beside what its limits count: threads, copies, what buffers and allocators keep for more.
const BESIDE: u64 = 64 << 20;

impl Promised {
    /// So many bytes, as a run's limits name them, and what it takes beside. Where addresses are limited (`ulimit -v`), a run
    /// begins only if there are enough for all that it and those that go on may take: a language that is denied memory in the
    /// middle of its work can only end the whole program.
    pub(crate) fn to_run(bytes: u64) -> Result<Self> {
        if !are_limited() {
            return Ok(Self(0));
        }
        let bytes = bytes.saturating_add(BESIDE);
        let before = PROMISED.fetch_add(bytes, Ordering::Relaxed);
        let promised = Self(bytes);
        if usize::try_from(before.saturating_add(bytes)).is_ok_and(heap::has) {
            return Ok(promised);
        }
        let sentence = format!(
            "this run may take {} MiB of memory together with the host, and the system has not that many addresses left",
            bytes >> 20
        );
        Err(SkillError::new(ErrorKind::Memory, sentence)
            .with_help("run it with a smaller --memory, or give the host more (ulimit -v)"))
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if self.0 > 0 {
            PROMISED.fetch_sub(self.0, Ordering::Relaxed);
        }
    }
}

#[cfg(unix)]
fn are_limited() -> bool {
    use rustix::process::{Resource, getrlimit};

    getrlimit(Resource::As).current.is_some()
}

#[cfg(not(unix))]
fn are_limited() -> bool {
    false
}

/// How many bytes the value of a process may take in the host, which is far more than its text does.
const PARTS_OF_HOST_MEMORY: u64 = 4;

/// Whether the value of this text, which a process has put out, may be made for a run with these limits.
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes put out text"))]
pub(crate) fn may_be_made(text: &[u8], limits: &Limits) -> Result<()> {
    let bytes = weight_of_json(text);
    if bytes < LARGE {
        return Ok(());
    }
    let most = limits.host_memory_of_process().saturating_mul(PARTS_OF_HOST_MEMORY);
    if bytes > most {
        let sentence = format!("its value takes up to {bytes} bytes of memory, more than {most}");
        return Err(SkillError::new(ErrorKind::Memory, sentence)
            .with_help("put out less, or as one text; or raise --memory"));
    }
    // It is copied once: as it is redacted, or shown.
    is_there(bytes.saturating_mul(2))
}

/// Whether what is set aside for when the system has no more memory is there, or there again.
pub(crate) fn is_left() -> Result<()> {
    if heap::keep_reserve() {
        return Ok(());
    }
    Err(SkillError::new(ErrorKind::Memory, "the system has no memory left for this run")
        .with_help("make it do less, or give the host more memory (ulimit -v)"))
}

fn too_much(bytes: u64, most: u64) -> SkillError {
    let sentence = format!(
        "it takes {bytes} bytes of memory more, and all that the host does for this run at a time may take {most}"
    );
    SkillError::new(ErrorKind::Memory, sentence).with_help(
        "ask for less at a time (a narrower search, fewer lines of context, a file in parts), or raise --memory",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_given_back_and_a_caller_is_asked_too() {
        let caller = HostMemory::new(100);
        let nested = HostMemory::called_by(1000, &caller);
        let mut held = nested.hold();
        held.add(60).unwrap();
        let refused = caller.hold().add(41).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
        assert!(refused.message().contains("41 bytes") && refused.message().contains("100"), "{refused}");
        assert!(held.add(41).is_err(), "the caller's limit holds for whom it calls");
        held.add(40).unwrap();
        drop(held);
        assert_eq!((caller.0.own.taken(), nested.0.own.taken()), (0, 0));
    }

    #[test]
    fn what_grows_takes_ahead_but_never_fails_for_it() {
        let memory = HostMemory::new(STEP + 10);
        let mut held = memory.hold();
        held.grow(1).unwrap();
        assert_eq!(memory.0.own.taken(), STEP);
        held.grow(STEP - 1).unwrap();
        held.grow(10).unwrap();
        assert_eq!(memory.0.own.taken(), STEP + 10);
        assert!(held.grow(1).is_err());
        assert!(Held::uncounted().grow(u64::MAX).is_ok());
    }

    #[test]
    fn more_than_any_system_has_is_an_error() {
        let refused = HostMemory::new(u64::MAX).hold().add(1 << 60).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
    }

    #[test]
    fn the_value_of_a_text_weighs_no_more_than_its_text_says() {
        let many = |part: &str, end: &str| format!("[{}{end}]", part.repeat(40_000));
        let fields = (0..20_000).map(|at| format!("\"{at}\":{{}}")).collect::<Vec<_>>().join(",");
        for text in [
            many("0,", "0"),
            many("[],", "0"),
            many("{},", "0"),
            many(r#"{"a":0},"#, "0"),
            many(r#""\\\",[[",{"a\"":"{,","b":[{}]},"#, "0"),
            format!("{{{fields}}}"),
        ] {
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(weight(&value) <= weight_of_json(text.as_bytes()), "{text:.40}");
            let mut held = HostMemory::new(text.len() as u64).hold();
            assert_eq!(to_json(&value, &mut held).unwrap().len(), value.to_string().len());
        }
        let text = format!("\"{}\"", ",[{".repeat(100_000));
        assert_eq!(weight_of_json(text.as_bytes()), text.len() as u64);
        let control = Value::from("\u{1}".repeat(100_000));
        assert!(to_json(&control, &mut HostMemory::new(500_000).hold()).is_err());
    }

    #[test]
    fn processes_have_a_share_of_their_memory_in_the_host() {
        let of = |memory| Limits::default().memory(memory).host_memory_of_process();
        assert_eq!(Limits::default().host_memory_of_process(), 64 << 20);
        assert_eq!((of(1 << 20), of(1 << 30), of(4 << 30)), (1 << 20, 64 << 20, 128 << 20));
    }
}
