//! The open answers of one session: which message of the server belongs to which of them.
//!
//! An answer takes a bounded number of messages: reports of progress that a client does not read are left out, and the place for the
//! last message, the response, is kept from the beginning. What belongs to a task, whose call was answered long ago, goes to who
//! waits for the result of the task, and else to the stream for what is not an answer.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use rmcp::RoleServer;
use rmcp::model::{
    ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest, ProgressToken, RequestId,
    ServerNotification,
};
use rmcp::service::{OriginatingRequestId, TxJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;

use super::answer_form::ResponseOnly;
use crate::mcp::task_messages::related_task;

/// Messages of one answer that the client has not read.
const MAX_UNREAD: usize = 256;
/// Of these, the places that reports of progress do not take, so that a question has one.
const NO_PROGRESS: usize = 64;
/// Messages that wait until the client opens a stream for them.
const MAX_WAITING: usize = 64;
/// Streams of one session that are not the answer to a request.
const MAX_STANDALONE: usize = 4;
/// Requests of one session that were not answered yet.
const MAX_REQUESTS: usize = 10_000;

type Message = TxJsonRpcMessage<RoleServer>;

/// Where the messages of one session go.
#[derive(Default)]
pub(super) struct SessionStreams(Mutex<Open>);

#[derive(Default)]
struct Open {
    requests: HashMap<RequestId, Answer>,
    progress: HashMap<ProgressToken, RequestId>,
    /// The newest one last, which gets the messages.
    standalone: Vec<mpsc::Sender<Message>>,
    waiting: VecDeque<Message>,
    next_number: u64,
    is_closed: bool,
}

struct Answer {
    number: u64,
    messages: mpsc::Sender<Message>,
    last: mpsc::OwnedPermit<Message>,
    progress_token: Option<ProgressToken>,
    /// Whether its client reads what comes before the response.
    is_stream: bool,
    /// The task whose result it will have.
    task: Option<String>,
}

impl Answer {
    /// Puts a message before the response. Whether it has a place.
    fn send(&self, message: Message) -> bool {
        let is_progress = matches!(&message, JsonRpcMessage::Notification(notification)
            if matches!(notification.notification, ServerNotification::ProgressNotification(_)));
        let has_place = !is_progress || self.messages.capacity() > NO_PROGRESS;
        has_place && self.messages.try_send(message).is_ok()
    }
}

/// Why a request gets no stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamRefusal {
    /// Another one with its id is in progress.
    IdInUse,
    TooMany,
    Closed,
}

/// The messages of one answer, to be written to the client.
pub(super) struct MessageStream {
    messages: mpsc::Receiver<Message>,
    on_drop: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl SessionStreams {
    /// Opens the answer to a request. `cancel` is called if the client goes away before the response.
    pub(super) fn open(
        self: &Arc<Self>,
        request: &JsonRpcRequest<ClientRequest>,
        cancel: impl FnOnce(RequestId) + Send + Sync + 'static,
    ) -> Result<MessageStream, StreamRefusal> {
        let mut open = self.lock();
        if open.is_closed {
            return Err(StreamRefusal::Closed);
        }
        if open.requests.contains_key(&request.id) {
            return Err(StreamRefusal::IdInUse);
        }
        if open.requests.len() >= MAX_REQUESTS {
            return Err(StreamRefusal::TooMany);
        }
        let (sender, messages) = mpsc::channel(MAX_UNREAD);
        let Ok(last) = sender.clone().try_reserve_owned() else { return Err(StreamRefusal::TooMany) };
        let number = open.next_number;
        open.next_number += 1;
        let progress_token = request.request.get_meta().get_progress_token();
        if let Some(token) = &progress_token {
            open.progress.insert(token.clone(), request.id.clone());
        }
        let is_stream = !is_response_only(&request.request);
        let task = awaited_task(&request.request).filter(|_| is_stream);
        if let Some(task) = &task {
            for message in open.take_waiting(task) {
                sender.try_send(message).ok();
            }
        }
        let answer = Answer { number, messages: sender, last, progress_token, is_stream, task };
        open.requests.insert(request.id.clone(), answer);
        let (streams, id) = (Arc::downgrade(self), request.id.clone());
        let on_drop = move || {
            let Some(streams) = streams.upgrade() else { return };
            if streams.remove(&id, Some(number)) {
                cancel(id);
            }
        };
        Ok(MessageStream { messages, on_drop: Some(Box::new(on_drop)) })
    }

    /// Opens a stream for what is not an answer: it begins with what has waited for it. Of too many, the oldest ends.
    pub(super) fn open_standalone(&self) -> Result<MessageStream, StreamRefusal> {
        let mut open = self.lock();
        if open.is_closed {
            return Err(StreamRefusal::Closed);
        }
        let (sender, messages) = mpsc::channel(MAX_UNREAD);
        for message in std::mem::take(&mut open.waiting) {
            sender.try_send(message).ok();
        }
        open.standalone.retain(|stream| !stream.is_closed());
        if open.standalone.len() >= MAX_STANDALONE {
            open.standalone.remove(0);
        }
        open.standalone.push(sender);
        Ok(MessageStream { messages, on_drop: None })
    }

    /// Puts a message where the client expects it. Whether it has a place.
    pub(super) fn send(&self, message: Message) -> bool {
        let mut open = self.lock();
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            let Some(answer) = open.take(&id.clone(), None) else { return false };
            answer.last.send(message);
            return true;
        }
        let task = related_task(&message);
        if let Some(answer) = task.as_ref().and_then(|task| open.result_of(task)) {
            return answer.send(message);
        }
        let target = match &message {
            JsonRpcMessage::Request(request) => {
                request.request.extensions().get::<OriginatingRequestId>().map(|origin| origin.0.clone())
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let target = open.progress.get(&progress.params.progress_token).cloned();
                    match target {
                        Some(target) => Some(target),
                        None if task.is_some() => return open.send_if_read(message),
                        // Nobody waits for the progress of what was answered.
                        None => return false,
                    }
                }
                // The state of a task, which clients can ask for.
                ServerNotification::CustomNotification(_) => return open.send_if_read(message),
                // The withdrawal of a question; its call may have ended, so it goes wherever the client reads.
                _ => None,
            },
            _ => None,
        };
        match target.and_then(|id| open.requests.get(&id)) {
            Some(answer) if answer.is_stream => answer.send(message),
            // It is worth nothing where nobody reads at the moment: a question would wait for its time limit.
            Some(_) => open.send_standalone_now(message),
            None => open.send_standalone(message),
        }
    }

    /// Forgets a request that the client has cancelled: its answer ends.
    pub(super) fn cancel(&self, id: &RequestId) {
        self.remove(id, None);
    }

    /// Ends all streams, and returns the requests that were not answered.
    pub(super) fn close(&self) -> Vec<RequestId> {
        let mut open = self.lock();
        open.is_closed = true;
        open.standalone.clear();
        open.waiting.clear();
        open.progress.clear();
        open.requests.drain().map(|(id, _)| id).collect()
    }

    /// Whether the client reads anything, or waits for an answer.
    pub(super) fn is_busy(&self) -> bool {
        let open = self.lock();
        !open.requests.is_empty() || open.standalone.iter().any(|stream| !stream.is_closed())
    }

    fn remove(&self, id: &RequestId, number: Option<u64>) -> bool {
        self.lock().take(id, number).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Takes the answer out, if it still is the one with this number.
    fn take(&mut self, id: &RequestId, number: Option<u64>) -> Option<Answer> {
        let is_same = |answer: &Answer| number.is_none_or(|number| answer.number == number);
        self.requests.get(id).filter(|answer| is_same(answer))?;
        let answer = self.requests.remove(id)?;
        if let Some(token) = &answer.progress_token {
            self.progress.remove(token);
        }
        Some(answer)
    }

    /// The answer that waits for the result of this task.
    fn result_of(&self, task: &str) -> Option<&Answer> {
        let waits = |answer: &&Answer| answer.task.as_deref() == Some(task);
        self.requests.values().filter(waits).max_by_key(|answer| answer.number)
    }

    /// What belongs to this task, of the messages that wait.
    fn take_waiting(&mut self, task: &str) -> VecDeque<Message> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (taken, left) = waiting.partition(|message| related_task(message).as_deref() == Some(task));
        self.waiting = left;
        taken
    }

    /// Sends what is worth nothing later: where nobody reads, it is gone.
    fn send_if_read(&mut self, message: Message) -> bool {
        self.standalone.retain(|stream| !stream.is_closed());
        if let Some(newest) = self.standalone.last() {
            newest.try_send(message).ok();
        }
        true
    }

    /// Whether a client reads and has a place for it.
    fn send_standalone_now(&mut self, message: Message) -> bool {
        self.standalone.retain(|stream| !stream.is_closed());
        self.standalone.last().is_some_and(|newest| newest.try_send(message).is_ok())
    }

    fn send_standalone(&mut self, message: Message) -> bool {
        self.standalone.retain(|stream| !stream.is_closed());
        let Some(newest) = self.standalone.last() else {
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(message);
            return true;
        };
        newest.try_send(message).is_ok()
    }
}

/// Whether the client of this request reads nothing but the response.
fn is_response_only(request: &ClientRequest) -> bool {
    let parts = request.extensions().get::<::http::request::Parts>();
    parts.is_some_and(|parts| parts.extensions.get::<ResponseOnly>().is_some())
}

/// The task whose result this request waits for.
fn awaited_task(request: &ClientRequest) -> Option<String> {
    let ClientRequest::CustomRequest(request) = request else { return None };
    let params = request.params.as_ref().filter(|_| request.method == "tasks/result")?;
    params.get("taskId")?.as_str().map(str::to_owned)
}

impl MessageStream {
    /// The next message.
    pub(super) async fn next(&mut self) -> Option<Message> {
        self.messages.recv().await
    }

    /// A stream of one message, which is not an answer to a request that runs.
    pub(super) fn only(message: Message) -> Self {
        let (sender, messages) = mpsc::channel(1);
        sender.try_send(message).ok();
        Self { messages, on_drop: None }
    }
}

impl Stream for MessageStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.messages.poll_recv(cx).map(|message| message.map(ServerSseMessage::from_message))
    }
}

impl Drop for MessageStream {
    fn drop(&mut self) {
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::task_messages::related;
    use rmcp::model::{CustomNotification, ErrorData, ProgressNotificationParam, ServerNotification};
    use serde_json::json;

    fn request(id: i64) -> JsonRpcRequest<ClientRequest> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "x", "_meta": {"progressToken": id}}});
        serde_json::from_value(message).unwrap()
    }

    fn response(id: i64) -> Message {
        JsonRpcMessage::error(ErrorData::internal_error("x", None), Some(RequestId::Number(id)))
    }

    fn progress(token: i64) -> Message {
        let token = ProgressToken(RequestId::Number(token));
        let params = ProgressNotificationParam::new(token, 1.0);
        JsonRpcMessage::notification(ServerNotification::ProgressNotification(
            rmcp::model::ProgressNotification::new(params),
        ))
    }

    fn ignore(_: RequestId) {}

    fn question(task: &str) -> Message {
        let params = json!({"messages": [], "maxTokens": 1, "_meta": related(task)});
        let request =
            json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params});
        serde_json::from_value(request).unwrap()
    }

    /// A question of the run of this request.
    fn question_in(id: i64) -> Message {
        let mut message = question("x");
        if let JsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(OriginatingRequestId(RequestId::Number(id)));
        }
        message
    }

    fn state() -> Message {
        let notice = CustomNotification::new("notifications/tasks/status", None);
        JsonRpcMessage::notification(ServerNotification::CustomNotification(notice))
    }

    #[test]
    fn a_question_of_a_task_reaches_who_waits_for_its_result() {
        let streams = Arc::new(SessionStreams::default());
        assert!(streams.send(question("a")) && streams.send(question("b")));
        let awaiting = |id: i64, task: &str| {
            let params = json!({"taskId": task});
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/result", "params": params});
            streams.open(&serde_json::from_value(message).unwrap(), ignore).unwrap()
        };
        let mut first = awaiting(1, "a");
        assert!(first.messages.try_recv().is_ok() && first.messages.try_recv().is_err());
        assert!(streams.send(question("a")) && streams.send(question("c")));
        assert!(first.messages.try_recv().is_ok() && first.messages.try_recv().is_err());
        let mut other = streams.open_standalone().unwrap();
        assert!(other.messages.try_recv().is_ok() && other.messages.try_recv().is_ok());
        assert!(other.messages.try_recv().is_err());
    }

    #[test]
    fn the_state_of_a_task_does_not_wait_for_a_reader() {
        let streams = Arc::new(SessionStreams::default());
        assert!(streams.send(state()));
        let mut stream = streams.open_standalone().unwrap();
        assert!(stream.messages.try_recv().is_err());
        assert!(streams.send(state()));
        assert!(stream.messages.try_recv().is_ok());
    }

    #[test]
    fn a_client_without_streams_is_asked_where_it_reads_and_else_nobody_waits() {
        let streams = Arc::new(SessionStreams::default());
        let mut parts = ::http::Request::new(()).into_parts().0;
        parts.extensions.insert(ResponseOnly);
        let mut call = request(1);
        call.request.extensions_mut().insert(parts);
        let mut answer = streams.open(&call, ignore).unwrap();
        assert!(!streams.send(question_in(1)) && !streams.send(progress(1)));
        let mut reading = streams.open_standalone().unwrap();
        assert!(reading.messages.try_recv().is_err());
        assert!(streams.send(question_in(1)) && reading.messages.try_recv().is_ok());
        assert!(streams.send(response(1)));
        assert!(matches!(answer.messages.try_recv(), Ok(JsonRpcMessage::Error(_))));
    }

    #[test]
    fn a_response_ends_its_stream_and_an_unread_one_keeps_its_place() {
        let streams = Arc::new(SessionStreams::default());
        let mut stream = streams.open(&request(1), ignore).unwrap();
        assert_eq!(streams.open(&request(1), ignore).err(), Some(StreamRefusal::IdInUse));
        for _ in 0..MAX_UNREAD * 2 {
            streams.send(progress(1));
        }
        for _ in 0..NO_PROGRESS {
            assert!(streams.send(question_in(1)), "a question has a place whatever was reported");
        }
        assert!(!streams.send(question_in(1)));
        assert!(streams.send(response(1)));
        assert!(!streams.send(response(1)) && !streams.send(progress(1)));
        let mut count = 0;
        while let Ok(message) = stream.messages.try_recv() {
            count += 1;
            assert_eq!(matches!(message, JsonRpcMessage::Error(_)), count == MAX_UNREAD);
        }
        assert_eq!(count, MAX_UNREAD);
    }

    #[test]
    fn a_stream_that_is_dropped_before_its_response_cancels_its_request_once() {
        let streams = Arc::new(SessionStreams::default());
        let cancelled = Arc::new(Mutex::new(Vec::new()));
        let record = |cancelled: &Arc<Mutex<Vec<RequestId>>>| {
            let cancelled = cancelled.clone();
            move |id| cancelled.lock().unwrap().push(id)
        };
        drop(streams.open(&request(1), record(&cancelled)).unwrap());
        let answered = streams.open(&request(2), record(&cancelled)).unwrap();
        streams.send(response(2));
        drop(answered);
        let first = streams.open(&request(3), record(&cancelled)).unwrap();
        streams.cancel(&RequestId::Number(3));
        let second = streams.open(&request(3), record(&cancelled)).unwrap();
        // The first one has nothing to say about the second with its id.
        drop(first);
        assert_eq!(*cancelled.lock().unwrap(), [RequestId::Number(1)]);
        assert!(streams.send(response(3)));
        drop(second);
        assert!(!streams.is_busy());
    }

    #[test]
    fn what_nobody_reads_is_bounded() {
        let streams = Arc::new(SessionStreams::default());
        let request = |streams: &Arc<SessionStreams>| {
            streams.send(JsonRpcMessage::notification(ServerNotification::ToolListChangedNotification(
                rmcp::model::ToolListChangedNotification::default(),
            )))
        };
        for _ in 0..MAX_WAITING * 2 {
            request(&streams);
        }
        let mut open: Vec<MessageStream> =
            (0..=MAX_STANDALONE).map(|_| streams.open_standalone().unwrap()).collect();
        let mut waited = 0;
        while open[0].messages.try_recv().is_ok() {
            waited += 1;
        }
        assert_eq!(waited, MAX_WAITING);
        assert!(open[0].messages.is_closed() && !open[1].messages.is_closed());
        assert!(request(&streams));
        assert!(open.last_mut().unwrap().messages.try_recv().is_ok());
        assert_eq!(streams.close(), []);
        assert_eq!(streams.open_standalone().err(), Some(StreamRefusal::Closed));
    }
}
