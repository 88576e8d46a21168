//! The descriptors by which processes call their host: answered on a thread of its own, from the first word on.

use std::io::PipeWriter;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rustix::event::PollFd;

use super::super::api::{Lines, Service};

/// The host's ends. The thread ends, and with it the scope, when this is dropped.
pub(super) struct Door<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    service: &'env Service<'env>,
    /// Until the first word.
    shut: Lines,
    /// From then on.
    open: Option<Open<'scope>>,
}

struct Open<'scope> {
    /// Hangs up when the run is over.
    over: PipeWriter,
    thread: ScopedJoinHandle<'scope, Lines>,
}

impl<'scope, 'env> Door<'scope, 'env> {
    pub(super) fn new(
        lines: Lines,
        scope: &'scope Scope<'scope, 'env>,
        service: &'env Service<'env>,
    ) -> Self {
        Self { scope, service, shut: lines, open: None }
    }

    /// What to wait for, until somebody calls.
    pub(super) fn waiting(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.shut.waiting()
    }

    /// Opens to a process that calls. Most never do, and cost no thread.
    pub(super) fn answer(&mut self) {
        if !self.shut.are_quiet() {
            let lines = std::mem::replace(&mut self.shut, Lines::new(None));
            self.open(lines);
        }
    }

    /// Ends the run: a call under way is stopped and waited for. The lines, as they are then.
    pub(super) fn close(self) -> Lines {
        self.service.stop();
        let Some(Open { over, thread }) = self.open else { return self.shut };
        drop(over);
        thread.join().unwrap_or_else(|_| Lines::new(None))
    }

    /// Where no thread can be had, the process finds that its host has hung up.
    fn open(&mut self, mut lines: Lines) {
        let Ok((is_over, over)) = std::io::pipe() else { return };
        let service = self.service;
        let serve = move || {
            service.serve(&mut lines, &is_over);
            lines
        };
        if let Ok(thread) = Builder::new().name("metier-api".into()).spawn_scoped(self.scope, serve) {
            self.open = Some(Open { over, thread });
        }
    }
}
