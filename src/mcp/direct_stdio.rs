//! Standard input and output without a thread for each, where they are pipes: the executor waits for the input, and an output that has
//! space is written at once. Only Linux opens a pipe a second time, so that nobody else who has it sees that it does not block.

#[cfg(target_os = "linux")]
pub(super) use self::linux::{DirectInput, DirectOutput};
#[cfg(not(target_os = "linux"))]
pub(super) use self::unsupported::{DirectInput, DirectOutput};

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{ErrorKind, Result};

    use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

    /// Standard input.
    pub(in crate::mcp) struct DirectInput(Receiver);

    impl DirectInput {
        /// Standard input, if it is a pipe. Inside of an executor alone.
        pub(in crate::mcp) fn open() -> Option<Self> {
            OpenOptions::new().open_receiver("/proc/self/fd/0").ok().map(Self)
        }

        /// Waits for something and reads it; 0 at the end.
        pub(in crate::mcp) async fn read(&self, buffer: &mut [u8]) -> Result<usize> {
            loop {
                self.0.readable().await?;
                match self.0.try_read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }

    /// Standard output.
    pub(in crate::mcp) struct DirectOutput(Sender);

    impl DirectOutput {
        /// Standard output, if it is a pipe. Inside of an executor alone.
        pub(in crate::mcp) fn open() -> Option<Self> {
            OpenOptions::new().open_sender("/proc/self/fd/1").ok().map(Self)
        }

        /// Writes as much as it takes without waiting, from the beginning; an error is found by whoever writes the rest.
        pub(in crate::mcp) fn write(&self, bytes: &[u8]) -> usize {
            self.0.try_write(bytes).unwrap_or_default()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::convert::Infallible;

    pub(in crate::mcp) struct DirectInput(Infallible);

    impl DirectInput {
        pub(in crate::mcp) fn open() -> Option<Self> {
            None
        }

        pub(in crate::mcp) async fn read(&self, _buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0 {}
        }
    }

    pub(in crate::mcp) struct DirectOutput(Infallible);

    impl DirectOutput {
        pub(in crate::mcp) fn open() -> Option<Self> {
            None
        }

        pub(in crate::mcp) fn write(&self, _bytes: &[u8]) -> usize {
            match self.0 {}
        }
    }
}
