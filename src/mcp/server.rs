//! The server: its engine, its options, and the executor that serves a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::{Caller, Handler, ServerState};
use super::handler::server_tools;
use super::http::{self, McpHttpOptions};
use super::inventory::{Inventory, Offer};
use super::notices::{self, NoticeSender};
use super::options::McpOptions;
use super::question::AnswerMemory;
use super::skill_watcher::watch_skills;
use super::stdio::Stdio;
use crate::engine::Engine;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::CancelToken;

/// How long the last messages may take to be read by the client.
const LAST_MESSAGES: Duration = Duration::from_secs(1);
/// Threads that read files for requests.
const MAX_READERS: usize = 8;

/// A server of the skills of an engine; see the [module](super).
///
/// ```
/// use metier::engine::Engine;
/// use metier::mcp::{McpOptions, McpServer};
///
/// # fn main() -> metier::error::Result<()> {
/// let options = McpOptions::new().grant("write:out".parse()?);
/// let server = McpServer::new(Engine::builder(".").build()?, options);
/// println!("{}", server.tool_names().join(", "));
/// // server.serve_stdio()? answers a client until that ends
/// # Ok(())
/// # }
/// ```
pub struct McpServer {
    engine: Engine,
    options: McpOptions,
    inventory: Inventory,
}

impl McpServer {
    /// Reads what the engine's skills offer.
    pub fn new(engine: Engine, options: McpOptions) -> Self {
        let inventory = Inventory::read(&engine, &options.tool_filter, None);
        Self { engine, options, inventory }
    }

    /// The names of the tools that a client sees, sorted.
    pub fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<String> = server_tools(&self.inventory, self.options.previews)
            .iter()
            .map(|tool| tool.name.to_string())
            .collect();
        names.extend(self.inventory.tools.iter().map(|tool| tool.name.clone()));
        names.sort_unstable();
        names
    }

    /// What is not offered, and why, a sentence each: tools whose name another one has.
    pub fn notices(&self) -> &[String] {
        &self.inventory.notices
    }

    /// Serves one client over standard input and output, until it closes its end or the [token](McpOptions::cancel) is cancelled.
    /// Then calls in progress are cancelled, and it returns when they have ended.
    ///
    /// Nothing else may read standard input or write to standard output. `usage` if what comes is not the protocol, `io` if threads
    /// cannot be started.
    pub fn serve_stdio(self) -> Result<()> {
        self.run(1, Serving::serve_stdio)
    }

    /// Serves many clients over HTTP until the [token](McpOptions::cancel) is cancelled. Then calls in progress are cancelled, and it
    /// returns when they have ended.
    ///
    /// A call ends when its connection does. `usage` if the options would let everyone in from other machines, or nobody; `io` if
    /// threads cannot be started or connections cannot be accepted.
    pub fn serve_http(self, options: McpHttpOptions) -> Result<()> {
        options.checked_address()?;
        self.run(options.callers(), |serving| serving.serve_http(options))
    }

    fn run<F: Future<Output = Result<()>>>(
        self,
        callers: usize,
        serve: impl FnOnce(Serving) -> F,
    ) -> Result<()> {
        let start_error = |source| SkillError::io("failed to start the server", source);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_READERS)
            .thread_name("metier-mcp-read")
            .build()
            .map_err(start_error)?;
        let result = runtime.block_on(async { serve(Serving::start(self, callers)).await });
        // A file that hangs must not hang the end.
        runtime.shutdown_background();
        result
    }
}

/// A server that runs on the executor.
struct Serving {
    state: Arc<ServerState>,
    watching: JoinHandle<()>,
}

impl Serving {
    fn start(server: McpServer, callers: usize) -> Self {
        let McpServer { engine, options, inventory } = server;
        // It is cancelled when the client is gone, too, which is no business of the token of the caller.
        let cancel = options.cancel.child();
        let listener = options.notice_listener.clone();
        let inventory = Arc::new(inventory);
        let offer = Offer { inventory: inventory.clone(), ..Offer::default() };
        let (sender, offers) = watch::channel(offer);
        let state = Arc::new(ServerState::new(engine.clone(), options.cancel(cancel), offers, callers));
        let first = notices::serving_notice(&inventory.states, inventory.tools.len(), engine.project());
        let notices = NoticeSender::start(listener, &first);
        let report = move |notice| notices.send(notice);
        let watching = tokio::spawn(watch_skills(engine, sender, report));
        Self { state, watching }
    }

    fn cancel(&self) -> &CancelToken {
        &self.state.options.cancel
    }

    /// Ends what still runs.
    async fn finish(self) {
        self.watching.abort();
        self.cancel().cancel();
        self.state.finish().await;
    }

    async fn serve_http(self, options: McpHttpOptions) -> Result<()> {
        let identities = options.caller_identities();
        let answers = match identities.as_slice() {
            [Some(_)] => AnswerMemory::Remembered,
            _ => AnswerMemory::Once,
        };
        let callers: Vec<Arc<Caller>> = identities
            .into_iter()
            .enumerate()
            .map(|(number, identity)| Arc::new(Caller::new(number, identity, answers)))
            .collect();
        let (state, cancel) = (self.state.clone(), self.cancel().clone());
        let handler = move |caller: Arc<Caller>| Handler::new(state.clone(), caller);
        http::serve(options, handler, callers, cancel, self.finish()).await
    }

    async fn serve_stdio(self) -> Result<()> {
        let (cancel, caller) = (self.cancel().clone(), Arc::new(Caller::user()));
        let (stdio, written) = Stdio::start(caller.backlog.clone(), cancel.clone())
            .map_err(|source| SkillError::io("failed to start the threads of the server", source))?;
        let result = tokio::select! {
            result = rmcp::serve_server(Handler::new(self.state.clone(), caller), stdio) => result,
            _ = cancel.cancelled() => return Ok(()),
        };
        let result = match result {
            Ok(service) => {
                let stop = service.cancellation_token();
                let stopping = tokio::spawn({
                    let cancel = cancel.clone();
                    async move {
                        cancel.cancelled().await;
                        stop.cancel();
                    }
                });
                let ended = service.waiting().await;
                stopping.abort();
                ended.map(drop).map_err(|error| {
                    SkillError::io("the server ended", std::io::Error::other(error.to_string()))
                })
            }
            // A client that only looked, and closed its end.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(_) => Err(SkillError::new(
                ErrorKind::Usage,
                "the first message is not a request of the Model Context Protocol",
            )
            .with_help("start the server from a client, which speaks first")),
        };
        self.finish().await;
        tokio::time::timeout(LAST_MESSAGES, written).await.ok();
        result
    }
}
