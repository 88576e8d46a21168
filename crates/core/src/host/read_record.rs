//! What a run read through the host API: the calls, and the digest of each answer. Whoever makes the calls again sees whether all of
//! them still have these answers.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::args::Args;
use super::value_size::memory_size;
use crate::error::Result;

/// Maximum number of calls, and of the bytes of memory of their arguments. A run with more has no complete record.
const MAX_CALLS: usize = 1_000;
const MAX_BYTES: u64 = 1 << 20;

/// The record of one run, while it runs and afterwards.
#[derive(Default)]
pub struct ReadRecord(Mutex<RecordedCalls>);

#[derive(Default)]
struct RecordedCalls {
    calls: Vec<ReadCall>,
    bytes: u64,
    /// Whether there were calls that are not recorded.
    is_incomplete: bool,
}

struct ReadCall {
    function: &'static str,
    args: Args,
    answer: [u8; 32],
}

impl ReadRecord {
    /// Records a call of that function.
    pub(super) fn add(&self, function: &'static str, args: &Args, answer: &Result<Value>) {
        let call = ReadCall { function, args: args.clone(), answer: digest(answer) };
        let mut recorded = self.lock();
        recorded.bytes += args.values().iter().map(memory_size).sum::<u64>();
        if recorded.is_incomplete || recorded.calls.len() >= MAX_CALLS || recorded.bytes > MAX_BYTES {
            *recorded = RecordedCalls { is_incomplete: true, ..RecordedCalls::default() };
        } else {
            recorded.calls.push(call);
        }
    }

    /// Records that there was a call whose answer may be another one each time.
    pub(super) fn add_unknown(&self) {
        *self.lock() = RecordedCalls { is_incomplete: true, ..RecordedCalls::default() };
    }

    /// Whether all calls still have their answers, of which this function makes one again.
    pub(super) fn is_current(&self, call: impl Fn(&'static str, &Args) -> Result<Value>) -> bool {
        let recorded = self.lock();
        let is_current = |made: &ReadCall| digest(&call(made.function, &made.args)) == made.answer;
        !recorded.is_incomplete && recorded.calls.iter().all(is_current)
    }

    fn lock(&self) -> MutexGuard<'_, RecordedCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything that the run asked for is recorded.
    pub fn is_complete(&self) -> bool {
        !self.lock().is_incomplete
    }

    /// The bytes of memory of the arguments.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}

fn digest(answer: &Result<Value>) -> [u8; 32] {
    let mut digest = DigestWriter(Sha256::new());
    let is_ok = answer.is_ok();
    digest.0.update([u8::from(is_ok)]);
    match answer {
        Ok(value) => drop(serde_json::to_writer(&mut digest, value)),
        Err(error) => {
            digest.0.update(error.kind().name());
            digest.0.update(error.message());
        }
    }
    digest.0.finalize().into()
}

struct DigestWriter(Sha256);

impl io::Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
