//! Moves the standard streams of a running process, until there is a reason to stop.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};

use super::host_api_thread::HostApiThread;
use super::pipes::{OutputReader, StdinWriter};
use super::streamed::StreamedOutput;
use metier_core::host::{OutputStream, ProcessOutput};
use metier_core::policy::CancelToken;

/// The host's ends of the standard streams.
pub(crate) struct StdioLoop {
    pub(crate) stdin: StdinWriter,
    pub(crate) stdout: OutputReader,
    pub(crate) stderr: OutputReader,
    /// Both outputs, where they are passed on and not kept.
    pub(crate) streamed: Option<StreamedOutput>,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdioEnd {
    /// Standard output contains what was searched for, at this byte.
    Found(usize),
    /// The process exited. Its last output may still be in the pipes.
    Exited,
    /// The run was cancelled or timed out.
    Stopped,
    /// This stream exceeded the output limit, and the output policy ends the run for it.
    OutputLimit(OutputStream),
}

impl StdioLoop {
    /// Writes input, reads output (passing its lines on to `observed`) and lets `host_api` answer calls until the process exits (`exit` becomes readable), `cancel`
    /// stops, a stream exceeds its limit, or `search` returns a position in standard output.
    pub(crate) fn run(
        &mut self,
        exit: &OwnedFd,
        cancel: &CancelToken,
        host_api: &mut HostApiThread<'_, '_>,
        observed: &mut ProcessOutput<'_>,
        mut search: impl FnMut(&[u8]) -> Option<usize>,
    ) -> io::Result<StdioEnd> {
        // The listener owns the only writing end. When it is called, it drops that end, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listener = cancel.on_stop(move |_| drop(stopper));
        loop {
            let mut fds = vec![PollFd::new(&stop, PollFlags::IN), PollFd::new(exit, PollFlags::IN)];
            fds.extend(self.stdin.poll_fd());
            fds.extend(self.stdout.poll_fd());
            fds.extend(self.stderr.poll_fd());
            fds.extend(self.streamed.iter().flat_map(StreamedOutput::poll_fds));
            fds.extend(host_api.poll_fds());
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (is_stopped, has_exited) = (is_ready(0), is_ready(1));
            if is_stopped {
                return Ok(StdioEnd::Stopped);
            }
            if has_exited {
                return Ok(StdioEnd::Exited);
            }
            self.stdin.write_available();
            self.stdout.read_available();
            self.stderr.read_available();
            observed.update(self.stdout.capped_bytes(), self.stderr.capped_bytes());
            host_api.start_when_called();
            if let Some(position) = search(self.stdout.bytes()) {
                return Ok(StdioEnd::Found(position));
            }
            if let Some(stream) = self.exceeded_stream() {
                return Ok(StdioEnd::OutputLimit(stream));
            }
        }
    }

    /// The first stream that exceeded its limit, if the output policy ends the run for it.
    pub(crate) fn exceeded_stream(&mut self) -> Option<OutputStream> {
        if let Some(streamed) = &mut self.streamed {
            return streamed.exceeded_stream();
        }
        let streams = [(OutputStream::Stdout, &self.stdout), (OutputStream::Stderr, &self.stderr)];
        streams.into_iter().find(|(_, reader)| reader.exceeds_limit()).map(|(stream, _)| stream)
    }
}
