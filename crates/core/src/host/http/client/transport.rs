//! The connection of a request: a socket whose waits end with the request's timeout, and which is shut down when the run stops.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::timeout::RequestTimeout;
use crate::error::Result;
use crate::policy::StopGuard;

/// Shuts the socket down as soon as the run is stopped, which ends whatever waits for it. Holds while the guard is kept.
pub(super) fn shutdown_on_stop(stream: &TcpStream, timeout: &RequestTimeout) -> io::Result<StopGuard> {
    let stream = stream.try_clone()?;
    // The other side may have shut it already.
    Ok(timeout.cancel().on_stop(move |_| drop(stream.shutdown(Shutdown::Both))))
}

/// Hands out the one connection that was made; there is no second.
#[derive(Debug)]
pub(super) struct SingleConnector(Mutex<Option<TcpTransport>>);

impl SingleConnector {
    pub(super) fn new(stream: TcpStream, timeout: RequestTimeout) -> Self {
        let buffers = LazyBuffers::new(BUFFER_BYTES, BUFFER_BYTES);
        Self(Mutex::new(Some(TcpTransport { stream: Arc::new(stream), timeout: Some(timeout), buffers })))
    }
}

impl Connector for SingleConnector {
    type Out = TcpTransport;

    fn connect(&self, _: &ConnectionDetails, _: Option<()>) -> Result<Option<TcpTransport>, ureq::Error> {
        let wire = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        wire.map(Some).ok_or(ureq::Error::ConnectionFailed)
    }
}

/// The address that was connected to. Nothing is looked up a second time.
#[derive(Debug)]
pub(super) struct FixedAddress(pub(super) SocketAddr);

impl Resolver for FixedAddress {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}

/// Bytes read or written at a time, and the most that the headers of an answer and one chunk's size line may take.
const BUFFER_BYTES: usize = 128 << 10;

/// A socket that asks before each wait how long it may be, if there is a timeout, and may be used for one request then.
pub(super) struct TcpTransport {
    stream: Arc<TcpStream>,
    timeout: Option<RequestTimeout>,
    buffers: LazyBuffers,
}

impl TcpTransport {
    /// A socket whose waits end when it is shut down, and that may be used for several requests.
    pub(super) fn without_timeout(stream: Arc<TcpStream>) -> Self {
        Self { stream, timeout: None, buffers: LazyBuffers::new(BUFFER_BYTES, BUFFER_BYTES) }
    }
}

impl Transport for TcpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        let mut sent = 0;
        while sent < amount {
            let rest = &self.buffers.output()[sent..amount];
            sent += retry_until_timeout(self.timeout.as_ref(), |left| {
                self.stream.set_write_timeout(left)?;
                match (&*self.stream).write(rest)? {
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    some => Ok(some),
                }
            })?;
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let room = self.buffers.input_append_buf();
        let amount = retry_until_timeout(self.timeout.as_ref(), |left| {
            self.stream.set_read_timeout(left)?;
            (&*self.stream).read(room)
        })?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // What came after an answer is none of the next one.
        self.timeout.is_none() && is_silent(&self.stream).unwrap_or(false)
    }
}

impl fmt::Debug for TcpTransport {
    /// The transferred data must not appear in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpTransport").finish_non_exhaustive()
    }
}

/// Whether a socket is open and has nothing to read.
fn is_silent(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let read = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
}

/// Retries until the operation is done or the time is up. The error of a request that timed out is its own.
fn retry_until_timeout(
    timeout: Option<&RequestTimeout>,
    mut act: impl FnMut(Option<Duration>) -> io::Result<usize>,
) -> io::Result<usize> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    loop {
        let left = timeout.map(RequestTimeout::remaining).transpose().map_err(io::Error::other)?;
        match act(left) {
            Err(error) if matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => {}
            done => return done,
        }
    }
}
