//! The server over HTTP: the streamable transport of the protocol, for callers with a token.
//!
//! A request passes, in this order: the bound on connections, the check of its `Host` and `Origin`, the check of its token, the
//! bounds of its message, the strict reading of its JSON. Only then `rmcp` sees it, which knows the rules of each revision. Each
//! token has sessions and results of its own.

mod access;
mod bearer_token;
mod connections;
mod endpoint;
mod options;
mod sessions;
mod slow_answer;
mod streams;
mod timed_stream;

use std::sync::Arc;

pub use self::bearer_token::BearerToken;
pub use self::options::McpHttpOptions;

use self::access::AccessRules;
use self::endpoint::{CallerService, Endpoint};
use super::backlog::Backlog;
use super::handler::Handler;
use crate::error::Result;
use crate::policy::CancelToken;

/// Serves until `cancel` is cancelled. `handler` makes what handles the requests of the caller with that number.
pub(super) async fn serve(
    options: McpHttpOptions,
    handler: impl Fn(usize) -> Handler + Send + Sync + 'static,
    backlog: Arc<Backlog>,
    cancel: CancelToken,
) -> Result<()> {
    let access = AccessRules::new(options.checked_address()?, &options);
    let are_identified = options.identifies_callers();
    let handler = Arc::new(handler);
    let callers = (0..options.callers()).map(|caller| {
        let handler = handler.clone();
        CallerService::new(move || handler(caller), are_identified)
    });
    let endpoint = Arc::new(Endpoint::new(access, callers.collect(), backlog));
    let result = connections::accept(options.listener, endpoint.clone(), cancel).await;
    endpoint.close();
    result
}
