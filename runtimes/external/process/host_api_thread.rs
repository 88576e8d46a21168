//! The connections by which processes call their host: a thread of its own answers them, from the first request on.

use std::io::PipeWriter;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rustix::event::PollFd;

use crate::runtimes::external::host_api::{Connections, RequestHandler};

/// The host's ends. The thread ends, and with it the scope, when this is dropped.
pub(in crate::runtimes::external) struct HostApiThread<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    handler: &'env RequestHandler<'env>,
    /// Until the first word.
    idle_connections: Connections,
    /// From then on.
    running: Option<RunningThread<'scope>>,
}

struct RunningThread<'scope> {
    /// Hangs up when the run is over.
    stop_pipe: PipeWriter,
    thread: ScopedJoinHandle<'scope, Connections>,
}

impl<'scope, 'env> HostApiThread<'scope, 'env> {
    pub(in crate::runtimes::external) fn new(
        lines: Connections,
        scope: &'scope Scope<'scope, 'env>,
        service: &'env RequestHandler<'env>,
    ) -> Self {
        Self { scope, handler: service, idle_connections: lines, running: None }
    }

    /// What to wait for, until somebody calls.
    pub(in crate::runtimes::external) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.idle_connections.poll_fds()
    }

    /// Opens to a process that calls. Most never do, and cost no thread.
    pub(in crate::runtimes::external) fn start_when_called(&mut self) {
        if !self.idle_connections.are_idle() {
            let lines = std::mem::replace(&mut self.idle_connections, Connections::new(None));
            self.start_thread(lines);
        }
    }

    /// Ends the run: a call under way is stopped and waited for. The lines, as they are then.
    pub(in crate::runtimes::external) fn stop(self) -> Connections {
        self.handler.stop();
        let Some(RunningThread { stop_pipe: over, thread }) = self.running else {
            return self.idle_connections;
        };
        drop(over);
        thread.join().unwrap_or_else(|_| Connections::new(None))
    }

    /// Where no thread can be had, the process finds that its host has hung up.
    fn start_thread(&mut self, mut lines: Connections) {
        let Ok((is_over, over)) = std::io::pipe() else { return };
        let service = self.handler;
        let serve = move || {
            service.serve(&mut lines, &is_over);
            lines
        };
        if let Ok(thread) = Builder::new().name("metier-api".into()).spawn_scoped(self.scope, serve) {
            self.running = Some(RunningThread { stop_pipe: over, thread });
        }
    }
}
