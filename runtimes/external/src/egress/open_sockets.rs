//! The sockets for which threads wait on behalf of one script, so that the threads end with its run.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sockets of all connections of a script.
#[derive(Clone, Default)]
pub(super) struct OpenSockets(Arc<Mutex<SocketTable>>);

#[derive(Default)]
struct SocketTable {
    sockets: Vec<Arc<TcpStream>>,
    is_over: bool,
}

/// A socket among them, until this is dropped.
pub(super) struct OpenSocket {
    stream: Arc<TcpStream>,
    all: OpenSockets,
}

impl OpenSockets {
    /// Adds a socket. After the end of the run, it is shut down.
    pub(super) fn add(&self, stream: TcpStream) -> OpenSocket {
        let stream = Arc::new(stream);
        let mut table = self.lock();
        if table.is_over {
            stream.shutdown(Shutdown::Both).ok();
        } else {
            table.sockets.push(stream.clone());
        }
        OpenSocket { stream, all: self.clone() }
    }

    /// Shuts all down, and those that come later.
    pub(super) fn shut_down(&self) {
        let mut table = self.lock();
        table.is_over = true;
        for stream in table.sockets.drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SocketTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSocket {
    pub(super) fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// The socket, which nobody shuts down any more; `None` if somebody else still has it.
    pub(super) fn into_stream(self) -> Option<TcpStream> {
        let stream = self.stream.clone();
        drop(self);
        Arc::into_inner(stream)
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.all.lock().sockets.retain(|known| !Arc::ptr_eq(known, &self.stream));
    }
}
