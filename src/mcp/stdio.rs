//! Messages over standard input and output, a line each. Where these are pipes, the executor waits for the input, and an output that has space
//! is written at once; elsewhere threads read and write.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ErrorData, GetExtensions, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};

use super::backlog::{Answer, Backlog, CountedBytes};
use super::message::{BYTE_ORDER_MARK, IdFinder, RefusedMessage, SentId, read_message, typed_message};
use super::session_tasks::SessionMessages;
use metier_core::policy::CancelToken;

/// Lines that wait to be handled.
const MAX_LINES: usize = 64;
/// Requests that were not answered yet; of more, each is refused.
const MAX_REQUESTS: usize = 20_000;
/// Bytes of these requests together; of more, each is refused.
const MAX_REQUEST_BYTES: usize = 256 << 20;
/// How long calls may go on after the input has ended, so that what was piped in is answered.
const END_OF_INPUT: Duration = Duration::from_secs(1);
/// Maximum bytes of a message that a client sends.
const MAX_LINE: usize = 16 << 20;
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// The two streams of one client.
pub(super) struct Stdio {
    lines: Lines,
    output: Output,
    requests: Mutex<Requests>,
    session: SessionMessages,
    cancel: CancelToken,
}

/// The requests that were not answered yet.
#[derive(Default)]
struct Requests {
    open: HashMap<RequestId, OpenRequest>,
    bytes: usize,
}

struct OpenRequest {
    size: usize,
    /// Counts what the answer takes, until its line does.
    #[expect(dead_code, reason = "held until the answer was written or waits to be written")]
    answer: Arc<Answer>,
}

impl Requests {
    fn remove(&mut self, id: &RequestId) -> Option<OpenRequest> {
        let removed = self.open.remove(id)?;
        self.bytes -= removed.size;
        Some(removed)
    }
}

/// A line to be written.
struct OutputLine {
    bytes: Vec<u8>,
    #[expect(dead_code, reason = "held until the line was written")]
    counted: CountedBytes,
}

/// Where messages wait to be written.
struct Output {
    messages: mpsc::UnboundedSender<OutputLine>,
    /// How many of them were not written.
    unwritten: Arc<AtomicUsize>,
    backlog: Arc<Backlog>,
    /// Writes what fits at once; the rest is for the thread.
    direct: Option<DirectOutput>,
}

/// Ends when everything was written, or nothing can be written any more.
pub(super) type Written = oneshot::Receiver<()>;

impl Stdio {
    /// Starts the threads. `cancel` is told when the client reads no more, or has sent its last message.
    pub(super) fn start(backlog: Arc<Backlog>, cancel: CancelToken) -> std::io::Result<(Self, Written)> {
        let (messages, message_receiver) = mpsc::unbounded_channel();
        let (written_sender, written) = oneshot::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let lines = if let Some(input) = DirectInput::open() {
            Lines::of_direct(input)
        } else {
            let (sender, lines) = mpsc::channel(MAX_LINES);
            thread("metier-mcp-in").spawn(move || read_lines(&mut std::io::stdin().lock(), &sender))?;
            Lines::OfThread(lines)
        };
        let unwritten = Arc::<AtomicUsize>::default();
        let (unwritten_lines, broken) = (unwritten.clone(), cancel.clone());
        thread("metier-mcp-out").spawn(move || {
            write_messages(&mut std::io::stdout().lock(), message_receiver, &unwritten_lines, &broken);
            written_sender.send(()).ok();
        })?;
        let (output, session) = (
            Output { messages, unwritten, backlog, direct: DirectOutput::open() },
            SessionMessages::new(true),
        );
        Ok((Self { lines, output, requests: Mutex::default(), session, cancel }, written))
    }

    /// The message of a line; or `None`, after an error was sent if there is something to answer.
    fn decode(&self, line: Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = match line {
            Line::Message(line) if line.trim_ascii().is_empty() => return None,
            Line::Message(line) => line,
            Line::TooLong(id) => {
                self.output.write(RefusedMessage::too_large(MAX_LINE, id).answer());
                return None;
            }
        };
        let read = read_message(&line).and_then(|text| typed_message(text.value, &line));
        let mut message = match read {
            Ok(message) => message,
            Err(refused) => {
                self.output.write(refused.answer());
                return None;
            }
        };
        let refuse = |error, id| {
            self.output.send(&JsonRpcMessage::error(error, id));
            None
        };
        let mut requests = lock(&self.requests);
        let is_full = requests.bytes + line.len() > MAX_REQUEST_BYTES;
        match &mut message {
            JsonRpcMessage::Request(request) if is_full => {
                let sentence = format!("{} MiB of requests were not answered yet", MAX_REQUEST_BYTES >> 20);
                refuse(ErrorData::invalid_request(sentence, None), Some(request.id.clone()))
            }
            JsonRpcMessage::Request(request) if requests.open.len() >= MAX_REQUESTS => {
                let sentence = format!("{MAX_REQUESTS} requests were not answered yet");
                refuse(ErrorData::invalid_request(sentence, None), Some(request.id.clone()))
            }
            JsonRpcMessage::Request(request) if requests.open.contains_key(&request.id) => {
                let sentence = "a request with this id is in progress";
                refuse(ErrorData::invalid_request(sentence, None), Some(request.id.clone()))
            }
            JsonRpcMessage::Request(request) => {
                let answer = Answer::in_line(self.output.backlog.clone());
                request.request.extensions_mut().insert(answer.clone());
                requests.bytes += line.len();
                requests.open.insert(request.id.clone(), OpenRequest { size: line.len(), answer });
                Some(message)
            }
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request is not answered.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    requests.remove(id);
                }
                Some(message)
            }
            _ => Some(message),
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = std::io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        // What the answer takes counts until its line does.
        let _answered = answered.and_then(|id| lock(&self.requests).remove(id));
        let is_open = self.output.send(&self.session.outgoing(item));
        std::future::ready(if is_open { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.output.backlog.writable().await;
            let line = tokio::select! {
                line = self.lines.next() => line,
                () = self.output.messages.closed() => None,
            };
            let Some(line) = line else {
                let cancel = self.cancel.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(END_OF_INPUT).await;
                    cancel.cancel();
                });
                return None;
            };
            if let Some(message) = self.decode(line) {
                return Some(self.session.incoming(message));
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl Output {
    /// Whether the message will be written.
    fn send(&self, message: &TxJsonRpcMessage<RoleServer>) -> bool {
        serde_json::to_vec(message).is_ok_and(|message| self.write(message))
    }

    /// The same for a message that is JSON on one line.
    fn write(&self, mut line: Vec<u8>) -> bool {
        line.push(b'\n');
        if self.messages.is_closed() {
            return false;
        }
        if let Some(direct) = self.direct.as_ref().filter(|_| self.unwritten.load(Ordering::Acquire) == 0) {
            line.drain(..direct.write(&line));
            if line.is_empty() {
                return true;
            }
        }
        self.unwritten.fetch_add(1, Ordering::AcqRel);
        self.messages.send(OutputLine { counted: self.backlog.count(line.len()), bytes: line }).is_ok()
    }
}

fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on each line that ends, until the input ends.
fn read_lines(input: &mut impl BufRead, lines: &mpsc::Sender<Line>) {
    let mut splitter = LineSplitter::default();
    loop {
        let available = match input.fill_buf() {
            Ok([]) => return,
            Ok(available) => available,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let (consumed, line) = splitter.next_line(available);
        input.consume(consumed);
        if line.is_some_and(|line| lines.blocking_send(line).is_err()) {
            return;
        }
    }
}

/// Writes messages until the last sender is gone. When the reader is gone, the calls are cancelled: nobody waits for them.
fn write_messages(
    output: &mut impl Write,
    mut messages: mpsc::UnboundedReceiver<OutputLine>,
    unwritten: &AtomicUsize,
    cancel: &CancelToken,
) {
    while let Some(message) = messages.blocking_recv() {
        let result = output.write_all(&message.bytes).and_then(|()| output.flush());
        unwritten.fetch_sub(1, Ordering::AcqRel);
        if result.is_err() {
            cancel.cancel();
            return;
        }
    }
}

/// One line of the input.
pub(super) enum Line {
    Message(Vec<u8>),
    /// It was longer than [`MAX_LINE`], and is gone, except for the id of its request.
    TooLong(Option<SentId>),
}

/// Where the lines come from.
pub(super) enum Lines {
    /// A thread that reads.
    OfThread(mpsc::Receiver<Line>),
    /// An input that the executor waits for.
    Direct(Box<DirectLines>),
}

/// What was read of an input, and is still to be split.
pub(super) struct DirectLines {
    input: DirectInput,
    splitter: LineSplitter,
    buffer: Vec<u8>,
    /// The part of the buffer that has something.
    unread: std::ops::Range<usize>,
}

impl Lines {
    fn of_direct(input: DirectInput) -> Self {
        let buffer = vec![0; BUFFER];
        Self::Direct(Box::new(DirectLines { input, splitter: LineSplitter::default(), buffer, unread: 0..0 }))
    }

    /// The next line that ends; `None` when the input has ended. What follows the last line end is not a message. A caller that does not
    /// wait for it loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        match self {
            Self::OfThread(lines) => lines.recv().await,
            Self::Direct(lines) => lines.next().await,
        }
    }
}

impl DirectLines {
    async fn next(&mut self) -> Option<Line> {
        // An input that always has more would leave the executor to nobody else.
        tokio::task::consume_budget().await;
        loop {
            while !self.unread.is_empty() {
                let (consumed, line) = self.splitter.next_line(&self.buffer[self.unread.clone()]);
                self.unread.start += consumed;
                if line.is_some() {
                    return line;
                }
            }
            let read = self.input.read(&mut self.buffer).await.ok().filter(|read| *read > 0)?;
            self.unread = 0..read;
        }
    }
}

/// Finds the lines in parts of an input.
#[derive(Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    /// Reads what is not kept of a line that is too long.
    too_long: Option<IdFinder>,
}

impl LineSplitter {
    /// How much of this part belongs to the current line, and that line if it ends there.
    fn next_line(&mut self, available: &[u8]) -> (usize, Option<Line>) {
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if let Some(finder) = &mut self.too_long {
            finder.read(part);
        } else if self.line.len() + part.len() > MAX_LINE {
            let line = std::mem::take(&mut self.line);
            let mut finder = IdFinder::default();
            finder.read(line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line));
            finder.read(part);
            self.too_long = Some(finder);
        } else {
            self.line.extend_from_slice(part);
        }
        let line = end.map(|_| match self.too_long.take() {
            Some(finder) => Line::TooLong(finder.into_id()),
            None => Line::Message(std::mem::take(&mut self.line)),
        });
        (part.len() + usize::from(end.is_some()), line)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Option<usize>> {
        let (sender, mut receiver) = mpsc::channel(64);
        read_lines(&mut std::io::BufReader::with_capacity(7, input), &sender);
        drop(sender);
        std::iter::from_fn(|| receiver.blocking_recv())
            .map(|line| match line {
                Line::Message(line) => Some(line.len()),
                Line::TooLong(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_message_that_is_not_utf_8_is_refused_and_not_changed() {
        for bytes in [
            &b"\xff\xfe"[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\xff\"}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\xed\xa0\x80\"}}",
        ] {
            let (messages, mut sent) = mpsc::unbounded_channel();
            let lines = Lines::OfThread(mpsc::channel(1).1);
            let output =
                Output { messages, unwritten: Arc::default(), backlog: Arc::default(), direct: None };
            let (session, cancel) = (SessionMessages::new(true), CancelToken::default());
            let stdio = Stdio { lines, output, requests: Mutex::default(), session, cancel };
            assert!(stdio.decode(Line::Message(bytes.to_vec())).is_none());
            let answer = String::from_utf8(sent.try_recv().unwrap().bytes).unwrap();
            assert!(answer.contains("-32700") && answer.contains("not UTF-8"), "{answer}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_has_the_id_that_stands_at_its_beginning_or_end() {
        let long = "x".repeat(MAX_LINE);
        for text in [
            format!("{{\"id\":7,\"method\":\"x\",\"params\":\"{long}\"}}\n"),
            format!("{{\"method\":\"x\",\"params\":\"{long}\",\"id\":7}}\n"),
        ] {
            let (mut splitter, mut found) = (LineSplitter::default(), None);
            for part in text.as_bytes().chunks(64 << 10) {
                found = splitter.next_line(part).1;
            }
            let Some(Line::TooLong(Some(id))) = found else { panic!("the line has an id") };
            assert_eq!(id.json(), "7");
        }
    }

    #[test]
    fn lines_are_read_and_half_a_line_is_not() {
        assert_eq!(lines(b"abc\n\nlonger than the buffer\nhalf"), [Some(3), Some(0), Some(22)]);
        assert_eq!(lines(b"half"), []);
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_the_next_one_is_read() {
        let mut input = vec![b'x'; MAX_LINE];
        input.extend_from_slice(b"\n");
        input.extend(std::iter::repeat_n(b'y', MAX_LINE + 1));
        input.extend_from_slice(b"\nabc\n");
        assert_eq!(lines(&input), [Some(MAX_LINE), None, Some(3)]);
    }
}
