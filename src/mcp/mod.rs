//! A server of the [Model Context Protocol](https://modelcontextprotocol.io): every skill that is trusted and can run is a typed
//! tool of its own, and its text and files are prompts and resources.
//!
//! [`McpServer::serve_stdio`] serves one client over standard input and output, [`McpServer::serve_http`] many over HTTP. Whatever calls a tool counts as a model: only
//! trusted skills appear anywhere, and they run as by [`Invocation::for_model`](crate::engine::Invocation::for_model).
//!
//! ```no_run
//! use metier::engine::Engine;
//! use metier::mcp::{McpOptions, McpServer};
//!
//! # fn main() -> metier::error::Result<()> {
//! let engine = Engine::builder(".").build()?;
//! McpServer::new(engine, McpOptions::new()).serve_stdio()
//! # }
//! ```
//!
//! This is the only module of the library that awaits: it runs an executor of its own on the calling thread, over HTTP another one for
//! each caller, and reads files and runs skills on further threads.

mod arguments;
mod backlog;
mod call;
mod call_queue;
#[cfg(unix)]
mod change_sets;
mod client;
mod client_model;
mod disclosure;
mod elicitation;
mod forms;
mod handler;
mod http;
mod inventory;
mod message;
mod notices;
mod options;
mod paging;
mod plan_journals;
mod postponed_request;
mod prompts;
mod question;
#[cfg(unix)]
mod refusal_question;
mod resources;
mod results;
mod server;
mod session_tasks;
mod skill_content;
mod skill_watcher;
mod skills_extension;
mod stdio;
mod subscriptions;
mod task;
mod task_messages;
mod tools;

pub use self::http::{BearerToken, McpHttpOptions};
pub use self::notices::McpNotice;
pub use self::options::McpOptions;
pub use self::server::McpServer;
