//! Output that is passed on as it comes: a thread for each stream reads its pipe, redacts what it reads, and writes it to its sink.
//!
//! A sink may block for as long as it likes: the process then waits at its full pipe, and the run can be stopped all the same.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};

use super::pipes::CapturedOutput;
use metier_core::host::{
    OutputSink, OutputSinks, OutputStream, RedactedStream, RunContext, RunMessages, SkillContext,
};
use metier_core::policy::{CancelToken, OutputPolicy};

/// Bytes at the end of a stream that are kept for the report of the process.
const MAX_TAIL_BYTES: usize = 64 << 10;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a stopped run waits for a sink.
const STOP_GRACE: Duration = Duration::from_millis(50);

/// Both streams of a process.
pub(crate) struct StreamedOutput {
    streams: [StreamThread; 2],
    /// Hangs up when the process is gone.
    process_over: Option<PipeWriter>,
}

struct StreamThread {
    stream: OutputStream,
    /// Hangs up when the thread ends; `None` once its result is here.
    ended: Option<PipeReader>,
    result: Receiver<StreamEnd>,
    end: StreamEnd,
}

/// What a thread leaves behind.
#[derive(Default)]
struct StreamEnd {
    tail: Vec<u8>,
    total_bytes: u64,
    exceeds_limit: bool,
}

impl StreamedOutput {
    pub(crate) fn start(
        pipes: [Option<File>; 2],
        sinks: &OutputSinks,
        ctx: &SkillContext,
    ) -> io::Result<Self> {
        let (over, process_over) = io::pipe()?;
        let [stdout, stderr] = pipes;
        let start = |stream, pipe, sink: &OutputSink| {
            StreamThread::start(stream, pipe, sink.clone(), over.try_clone()?, ctx.clone())
        };
        let streams = [
            start(OutputStream::Stdout, stdout, &sinks.stdout)?,
            start(OutputStream::Stderr, stderr, &sinks.stderr)?,
        ];
        Ok(Self { streams, process_over: Some(process_over) })
    }

    /// The descriptors that become readable when a stream ends.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let ends = self.streams.iter().filter_map(|stream| stream.ended.as_ref());
        ends.map(|ended| PollFd::new(ended, PollFlags::IN))
    }

    /// The stream that exceeded its limit, if the output policy ends the run for it.
    pub(crate) fn exceeded_stream(&mut self) -> Option<OutputStream> {
        self.streams.iter_mut().for_each(StreamThread::take_result);
        self.streams.iter().find(|stream| stream.end.exceeds_limit).map(|stream| stream.stream)
    }

    /// Waits until all that the process wrote is passed on; not much longer than until the run stops.
    pub(crate) fn finish(mut self, cancel: &CancelToken) -> io::Result<[CapturedOutput; 2]> {
        drop(self.process_over.take());
        let (stop, stopper) = io::pipe()?;
        let _listener = cancel.on_stop(move |_| drop(stopper));
        let mut until: Option<Instant> = None;
        loop {
            self.streams.iter_mut().for_each(StreamThread::take_result);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.poll_fds().next().is_none() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let mut fds: Vec<PollFd<'_>> = self.poll_fds().collect();
            if until.is_none() {
                fds.push(PollFd::new(&stop, PollFlags::IN));
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut fds, left.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let is_stopped = until.is_none() && fds.last().is_some_and(|fd| !fd.revents().is_empty());
            if is_stopped {
                until = Some(Instant::now() + STOP_GRACE);
            }
        }
        Ok(self.streams.map(|stream| CapturedOutput {
            truncated: stream.end.exceeds_limit,
            total_bytes: stream.end.total_bytes,
            bytes: stream.end.tail,
        }))
    }
}

impl StreamThread {
    fn start(
        stream: OutputStream,
        pipe: Option<File>,
        sink: OutputSink,
        process_over: PipeReader,
        ctx: SkillContext,
    ) -> io::Result<Self> {
        let (sender, result) = channel();
        let (ended, end) = io::pipe()?;
        if let Some(pipe) = &pipe {
            ioctl_fionbio(pipe, true)?;
        }
        Builder::new().name("metier-output".into()).spawn(move || {
            let relayed = pipe.map(|pipe| relay(pipe, &sink, &process_over, &ctx)).unwrap_or_default();
            // Whoever waits for the result ends the sinks: then no thread may still hold one.
            drop((sink, ctx));
            // Nobody reads it if the run has ended.
            sender.send(relayed).ok();
            drop(end);
        })?;
        Ok(Self { stream, ended: Some(ended), result, end: StreamEnd::default() })
    }

    fn take_result(&mut self) {
        if self.ended.is_some()
            && let Ok(end) = self.result.try_recv()
        {
            (self.end, self.ended) = (end, None);
        }
    }
}

/// Passes on the bytes of a pipe until it is closed, the process is gone and the pipe empty, its sink fails, or a limit ends the run.
fn relay(mut pipe: File, sink: &OutputSink, process_over: &PipeReader, ctx: &SkillContext) -> StreamEnd {
    let (mut total, mut tail) = (0_u64, VecDeque::with_capacity(0));
    let is_limited = ctx.output_sinks().is_some_and(|sinks| sinks.is_limited);
    let (limit, policy) = (if is_limited { ctx.limits().output } else { u64::MAX }, ctx.limits().on_output);
    let (mut redacted, mut out) = (RedactedStream::default(), Vec::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut write = |out: &mut Vec<u8>| {
        tail.extend(out.iter());
        tail.drain(..tail.len().saturating_sub(MAX_TAIL_BYTES));
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        let written = if out.is_empty() { Ok(()) } else { sink.write_all(out).and_then(|()| sink.flush()) };
        out.clear();
        written
    };
    let mut is_over = false;
    while let Some(count) = next_bytes(&mut pipe, &mut buffer, process_over, &mut is_over) {
        let kept = usize::try_from(limit.saturating_sub(total)).unwrap_or(usize::MAX).min(count);
        total += count as u64;
        redacted.push(ctx.redaction(), &buffer[..kept], &mut out);
        // A closed sink closes the pipe: the script is told so by the system, as outside.
        if write(&mut out).is_err() || total > limit && policy == OutputPolicy::Kill {
            break;
        }
    }
    drop(pipe);
    redacted.finish(total > limit, &mut out);
    write(&mut out).ok();
    StreamEnd { exceeds_limit: total > limit, total_bytes: total, tail: tail.into() }
}

/// Reads the next bytes; `None` at the end. Once the process is gone, only what is in the pipe is read: somebody else may hold it open.
fn next_bytes(
    pipe: &mut File,
    buffer: &mut [u8],
    process_over: &PipeReader,
    is_over: &mut bool,
) -> Option<usize> {
    loop {
        if *is_over && ioctl_fionread(&*pipe).unwrap_or_default() == 0 {
            return None;
        }
        match pipe.read(buffer) {
            Ok(0) => return None,
            Ok(count) => return Some(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && !*is_over => {
                let mut fds = [
                    PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
                    PollFd::new(process_over, PollFlags::IN),
                ];
                match poll(&mut fds, None) {
                    Ok(_) => *is_over = !fds[1].revents().is_empty(),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return None,
                }
            }
            Err(_) => return None,
        }
    }
}

/// Writes what a source has to standard input, on a thread of its own, until either ends. A source that blocks keeps its thread after
/// the run.
pub(crate) fn feed(stdin: Option<File>, mut source: Box<dyn Read + Send>) -> io::Result<()> {
    let Some(mut stdin) = stdin else { return Ok(()) };
    let copy = move || {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match source.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                // A script need not read its input.
                Ok(count) if stdin.write_all(&buffer[..count]).is_err() => return,
                Ok(_) => {}
            }
        }
    };
    Builder::new().name("metier-stdin".into()).spawn(copy).map(drop)
}
