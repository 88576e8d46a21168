//! The script's side of a connection whose requests the host program reads: as the script sent them, or opened.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use metier_core::host::OpenedConnection;

/// Reads and writes by turns; a read may wait.
pub(super) trait ClientStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;

    /// How long a read waits; forever if there is no limit.
    fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()>;

    /// Says that nothing more will be sent.
    fn end(&self) -> io::Result<()>;
}

impl ClientStream for TcpStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self;
        Read::read(&mut stream, buffer)
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self;
        Write::write_all(&mut stream, bytes)
    }

    fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        Self::set_read_timeout(self, limit)
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ClientStream for RefCell<OpenedConnection> {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.borrow_mut().read(buffer) {
            // Many clients end TLS by ending the connection. Where a request ends is known from the request.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.borrow_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.borrow().socket().set_read_timeout(limit)
    }

    fn end(&self) -> io::Result<()> {
        self.borrow_mut().end()?;
        self.borrow().socket().shutdown(Shutdown::Write)
    }
}
