//! The sessions of one caller, for revisions of the protocol that have them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ErrorData, JsonRpcMessage,
    RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::mpsc;

use super::streams::{MessageStream, SessionStreams, StreamRefusal};
use crate::mcp::session_tasks::SessionMessages;

/// Sessions of a caller; of more, the one that was not used for the longest time ends, if it does nothing.
const MAX_SESSIONS: usize = 64;
/// A session that does nothing for so long has ended.
const IDLE: Duration = Duration::from_mins(30);
/// Messages of a session that wait to be handled.
const MAX_MESSAGES: usize = 64;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The sessions of one caller. Another caller has others, so the id of a session is no use to it.
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, Session>>,
    /// Whether nobody else may be taken for the caller.
    is_identified: bool,
}

#[derive(Clone)]
struct Session {
    messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    streams: Arc<SessionStreams>,
    used: Instant,
}

/// The side of a session that the handler of its requests sees.
pub(super) struct SessionTransport {
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    streams: Arc<SessionStreams>,
    form: SessionMessages,
}

impl Sessions {
    pub(super) fn new(is_identified: bool) -> Self {
        Self { open: Mutex::default(), is_identified }
    }

    /// Whether there is no place for another one.
    pub(super) fn is_full(&self) -> bool {
        let mut sessions = self.lock();
        remove_idle(&mut sessions);
        sessions.len() >= MAX_SESSIONS && sessions.values().all(|session| session.streams.is_busy())
    }

    fn find(&self, id: &SessionId) -> Result<Session> {
        let mut sessions = self.lock();
        let session =
            sessions.get_mut(id).ok_or_else(|| Error::new(ErrorKind::NotFound, "no such session"))?;
        session.used = Instant::now();
        Ok(session.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_idle(sessions: &mut HashMap<SessionId, Session>) {
    sessions.retain(|_, session| {
        let is_used = session.used.elapsed() < IDLE || session.streams.is_busy();
        if !is_used {
            session.end();
        }
        is_used
    });
}

impl Session {
    async fn push(&self, message: RxJsonRpcMessage<RoleServer>) -> Result<()> {
        self.messages.send(message).await.map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// Opens the answer to a request. If the client goes away before the response, the request is cancelled.
    fn open(
        &self,
        message: &RxJsonRpcMessage<RoleServer>,
    ) -> std::result::Result<MessageStream, StreamRefusal> {
        let JsonRpcMessage::Request(request) = message else { return Err(StreamRefusal::Closed) };
        let messages = self.messages.clone();
        self.streams.open(request, move |id| cancel_request(&messages, id))
    }

    fn end(&self) {
        for id in self.streams.close() {
            cancel_request(&self.messages, id);
        }
    }
}

/// Tells the handler that nobody waits for the answer any more.
fn cancel_request(messages: &mpsc::Sender<RxJsonRpcMessage<RoleServer>>, id: RequestId) {
    let params = CancelledNotificationParam::new(Some(id), Some("the client is gone".to_owned()));
    let message = JsonRpcMessage::notification(ClientNotification::CancelledNotification(
        CancelledNotification::new(params),
    ));
    if let Err(mpsc::error::TrySendError::Full(message)) = messages.try_send(message)
        && let Ok(executor) = tokio::runtime::Handle::try_current()
    {
        let messages = messages.clone();
        executor.spawn(async move { messages.send(message).await.ok() });
    }
}

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Error::other(error.to_string()))?;
        let id: SessionId = format!("{:032x}", u128::from_be_bytes(random)).into();
        let (sender, messages) = mpsc::channel(MAX_MESSAGES);
        let streams = Arc::<SessionStreams>::default();
        let session = Session { messages: sender, streams: streams.clone(), used: Instant::now() };
        let mut sessions = self.lock();
        remove_idle(&mut sessions);
        if sessions.len() >= MAX_SESSIONS {
            let unused = sessions.iter().filter(|(_, session)| !session.streams.is_busy());
            let oldest = unused.min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone());
            let oldest = oldest.and_then(|id| sessions.remove(&id));
            oldest.ok_or_else(|| Error::other(format!("{MAX_SESSIONS} sessions are in use")))?.end();
        }
        sessions.insert(id.clone(), session);
        let form = SessionMessages::new(self.is_identified);
        Ok((id, SessionTransport { messages, streams, form }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: RxJsonRpcMessage<RoleServer>,
    ) -> Result<TxJsonRpcMessage<RoleServer>> {
        let session = self.find(id)?;
        let mut answer = session.open(&message).map_err(|_| Error::other("the handshake was refused"))?;
        session.push(message).await?;
        let answer = tokio::time::timeout(HANDSHAKE, answer.next()).await.ok().flatten();
        if answer.is_none() {
            self.close_session(id).await?;
        }
        answer.ok_or_else(|| ErrorKind::TimedOut.into())
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool> {
        Ok(self.find(id).is_ok())
    }

    async fn close_session(&self, id: &SessionId) -> Result<()> {
        if let Some(session) = self.lock().remove(id) {
            session.end();
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: RxJsonRpcMessage<RoleServer>,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.find(id)?;
        let refusal = match session.open(&message) {
            Ok(stream) => {
                session.push(message).await?;
                return Ok(stream);
            }
            Err(refusal) => refusal,
        };
        let sentence = match refusal {
            StreamRefusal::IdInUse => "a request with this id is in progress",
            StreamRefusal::TooMany => "too many requests were not answered yet",
            StreamRefusal::Closed => return Err(ErrorKind::NotFound.into()),
        };
        let id = match message {
            JsonRpcMessage::Request(request) => Some(request.id),
            _ => None,
        };
        Ok(MessageStream::only(JsonRpcMessage::error(ErrorData::invalid_request(sentence, None), id)))
    }

    async fn accept_message(&self, id: &SessionId, message: RxJsonRpcMessage<RoleServer>) -> Result<()> {
        let session = self.find(id)?;
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            // A cancelled request is not answered.
            session.streams.cancel(id);
        }
        session.push(message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.find(id)?.streams.open_standalone().map_err(|_| ErrorKind::NotFound.into())
    }

    async fn resume(
        &self,
        _: &SessionId,
        _: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        // No message has an id to go on from: a call ends with its connection.
        Err::<MessageStream, _>(ErrorKind::Unsupported.into())
    }
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Error;

    fn name() -> Cow<'static, str> {
        "http".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let is_sent = self.streams.send(self.form.outgoing(item));
        std::future::ready(if is_sent { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await.map(|message| self.form.incoming(message))
    }

    async fn close(&mut self) -> Result<()> {
        self.streams.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: i64) -> RxJsonRpcMessage<RoleServer> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "x"}});
        serde_json::from_value(message).unwrap()
    }

    #[tokio::test]
    async fn sessions_of_a_caller_are_bounded_and_a_busy_one_stays() {
        let sessions = Sessions::new(true);
        let (busy, _transport) = sessions.create_session().await.unwrap();
        let _call = sessions.create_stream(&busy, call(1)).await.unwrap();
        let (first, _transport) = sessions.create_session().await.unwrap();
        let mut others = Vec::new();
        for _ in 0..MAX_SESSIONS - 1 {
            others.push(sessions.create_session().await.unwrap());
        }
        assert_eq!(sessions.lock().len(), MAX_SESSIONS);
        assert!(sessions.has_session(&busy).await.unwrap() && !sessions.has_session(&first).await.unwrap());
        let mut calls = Vec::new();
        for (id, _) in &others {
            calls.push(sessions.create_standalone_stream(id).await.unwrap());
        }
        assert!(sessions.is_full() && sessions.create_session().await.is_err());
        sessions.close_session(&busy).await.unwrap();
        assert!(!sessions.is_full());
    }

    #[tokio::test]
    async fn a_dropped_answer_and_a_closed_session_cancel_their_requests() {
        let sessions = Sessions::new(true);
        let (id, mut transport) = sessions.create_session().await.unwrap();
        drop(sessions.create_stream(&id, call(1)).await.unwrap());
        let open = sessions.create_stream(&id, call(2)).await.unwrap();
        sessions.close_session(&id).await.unwrap();
        // The connection drops the answer that has ended; while it is there, it could still cancel its request.
        drop(open);
        let mut cancelled = Vec::new();
        while let Some(message) = transport.receive().await {
            if let JsonRpcMessage::Notification(notification) = message
                && let ClientNotification::CancelledNotification(params) = notification.notification
            {
                cancelled.extend(params.params.request_id);
            }
        }
        assert_eq!(cancelled, [RequestId::Number(1), RequestId::Number(2)]);
        assert!(sessions.create_stream(&id, call(3)).await.is_err());
    }
}
