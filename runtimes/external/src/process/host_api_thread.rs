//! The thread that answers the host API calls of a process. It is started by the first call.

use std::io::PipeWriter;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rustix::event::PollFd;

use crate::host_api::{Connections, RequestHandler};

/// The host's ends of the connections, and the thread that serves them. Dropping this ends the thread.
pub(crate) struct HostApiThread<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    handler: &'env RequestHandler<'env>,
    /// The connections until the thread takes them.
    idle_connections: Connections,
    running: Option<RunningThread<'scope>>,
}

struct RunningThread<'scope> {
    /// Hangs up when the run is over.
    stop_pipe: PipeWriter,
    thread: ScopedJoinHandle<'scope, Connections>,
}

impl<'scope, 'env> HostApiThread<'scope, 'env> {
    pub(crate) fn new(
        connections: Connections,
        scope: &'scope Scope<'scope, 'env>,
        handler: &'env RequestHandler<'env>,
    ) -> Self {
        Self { scope, handler, idle_connections: connections, running: None }
    }

    /// The descriptors that become readable at the first call; none once the thread runs.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.idle_connections.poll_fds()
    }

    /// Starts the thread if the process has made a call. Most processes never do.
    pub(crate) fn start_when_called(&mut self) {
        if !self.idle_connections.are_idle() {
            let connections = std::mem::replace(&mut self.idle_connections, Connections::new(None));
            self.start_thread(connections);
        }
    }

    /// Stops the call that is being answered and waits for it. Returns the connections that are still open.
    pub(crate) fn stop(self) -> Connections {
        self.handler.stop();
        let Some(RunningThread { stop_pipe, thread }) = self.running else {
            return self.idle_connections;
        };
        drop(stop_pipe);
        thread.join().unwrap_or_else(|_| Connections::new(None))
    }

    /// If no thread can be started, the connections are closed, and the process finds that its host has hung up.
    fn start_thread(&mut self, mut connections: Connections) {
        let Ok((stopped, stop_pipe)) = std::io::pipe() else { return };
        let handler = self.handler;
        let serve = move || {
            handler.serve(&mut connections, &stopped);
            connections
        };
        if let Ok(thread) = Builder::new().name("metier-api".into()).spawn_scoped(self.scope, serve) {
            self.running = Some(RunningThread { stop_pipe, thread });
        }
    }
}
