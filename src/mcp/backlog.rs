//! How much a caller has not read: answers that are being made, and messages that were not written yet.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// While a caller has not read so many bytes, nothing is read for it and none of its calls starts.
const MAX_BYTES: usize = 64 << 20;
/// What an answer takes while its files are read, whose size is not known yet.
pub(super) const READ_BYTES: usize = 24 << 20;
/// What an answer takes that is a list.
pub(super) const LIST_BYTES: usize = 1 << 20;

/// The bytes that one caller has not read.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    is_smaller: Notify,
}

/// Bytes that count until it is dropped.
pub(super) struct CountedBytes {
    backlog: Arc<Backlog>,
    bytes: usize,
}

/// What the answer to one request takes before its messages are handed on to be written.
pub(super) struct Answer {
    backlog: Arc<Backlog>,
    reserved: AtomicUsize,
    /// Whether each of its messages is handed on, not only the response.
    is_stream: bool,
    #[expect(dead_code, reason = "held until the request was answered")]
    message_space: Option<OwnedSemaphorePermit>,
}

impl Backlog {
    /// Counts bytes, however many there are already.
    pub(super) fn count(self: &Arc<Self>, bytes: usize) -> CountedBytes {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        CountedBytes { backlog: self.clone(), bytes }
    }

    fn remove(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.is_smaller.notify_waiters();
        }
    }

    /// Waits until more may be written.
    pub(super) async fn writable(&self) {
        self.wait(|bytes| (bytes < MAX_BYTES).then_some(bytes)).await;
    }

    /// Waits until there is space for so many bytes, and takes it.
    async fn reserve(&self, added: usize) {
        self.wait(|bytes| (bytes == 0 || bytes + added <= MAX_BYTES).then_some(bytes + added)).await;
    }

    async fn wait(&self, change: impl Fn(usize) -> Option<usize>) {
        loop {
            let smaller = self.is_smaller.notified();
            if self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, &change).is_ok() {
                return;
            }
            smaller.await;
        }
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.backlog.remove(self.bytes);
    }
}

impl Answer {
    /// The answer on a line of a stream that other answers share.
    pub(super) fn in_line(backlog: Arc<Backlog>) -> Arc<Self> {
        Arc::new(Self { backlog, reserved: AtomicUsize::new(0), is_stream: false, message_space: None })
    }

    /// The answer on a stream of its own. Keeps the space of the message that it answers.
    pub(super) fn on_stream(backlog: Arc<Backlog>, message_space: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        Arc::new(Self { backlog, reserved: AtomicUsize::new(0), is_stream: true, message_space })
    }

    /// Waits until the caller has space for so many bytes more, and takes it for this answer.
    pub(super) async fn reserve(&self, bytes: usize) {
        self.backlog.reserve(bytes).await;
        self.reserved.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The same for a message before the response.
    pub(super) async fn reserve_message(&self, bytes: usize) {
        if self.is_stream {
            self.reserve(bytes).await;
        } else {
            self.backlog.writable().await;
        }
    }

    /// What it takes, now that it is there.
    pub(super) fn set_size(&self, bytes: usize) {
        self.backlog.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.backlog.remove(self.reserved.swap(bytes, Ordering::AcqRel));
    }

    /// Hands on so many bytes, of which as many count already as were reserved.
    pub(super) fn hand_on(&self, bytes: usize) -> CountedBytes {
        let take = |reserved: usize| Some(reserved.saturating_sub(bytes));
        let before =
            self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).unwrap_or_default();
        self.backlog.bytes.fetch_add(bytes.saturating_sub(before), Ordering::AcqRel);
        CountedBytes { backlog: self.backlog.clone(), bytes }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.backlog.remove(*self.reserved.get_mut());
    }
}

/// The bytes of a value as JSON, without making them.
pub(super) fn json_size(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).ok();
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        matches!(pin!(future).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn an_answer_counts_from_before_it_is_made_until_its_last_byte_is_written() {
        let backlog = Arc::<Backlog>::default();
        let bytes = || backlog.bytes.load(Ordering::Acquire);
        let answer = Answer::on_stream(backlog.clone(), None);
        assert!(is_ready(answer.reserve(READ_BYTES)));
        answer.set_size(10);
        assert_eq!(bytes(), 10);
        let (first, second) = (answer.hand_on(7), answer.hand_on(7));
        assert_eq!(bytes(), 14);
        drop(answer);
        drop(first);
        assert_eq!(bytes(), 7);
        drop(second);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn what_has_no_space_waits_and_what_is_larger_than_all_goes_alone() {
        let backlog = Arc::<Backlog>::default();
        let answers: Vec<_> = (0..3).map(|_| Answer::in_line(backlog.clone())).collect();
        assert!(is_ready(answers[0].reserve(MAX_BYTES * 2)));
        assert!(!is_ready(answers[1].reserve(1)) && !is_ready(backlog.writable()));
        answers[0].set_size(MAX_BYTES - READ_BYTES);
        assert!(is_ready(answers[1].reserve(READ_BYTES)) && !is_ready(answers[2].reserve(1)));
        drop(answers);
        assert_eq!(backlog.bytes.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_size_of_a_value_is_that_of_its_json() {
        let value = serde_json::json!({"a": ["\u{1}\"é\n", 1.5, null]});
        assert_eq!(json_size(&value), value.to_string().len());
    }
}
