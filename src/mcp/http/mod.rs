//! The server over HTTP: the streamable transport of the protocol, for callers with a token.
//!
//! A request passes, in this order: the bound on connections, the check of its `Host` and `Origin`, the check of its token, the
//! forms of an answer that it accepts, the bounds of its message, the strict reading of its JSON. Only then `rmcp` sees it, which knows
//! the rules of each revision and reads the text itself. Each token has sessions and results of its own, and a thread for all that follows
//! the check of the token.

mod access;
mod answer_form;
mod caller_thread;
mod connections;
mod endpoint;
mod options;
mod sessions;
mod streams;

use std::sync::Arc;

pub use self::options::{BearerToken, McpHttpOptions};

use self::access::AccessRules;
use self::caller_thread::CallerThread;
use self::endpoint::{CallerService, Endpoint};
use super::client::{Caller, Handler};
use metier_core::error::Result;
use metier_core::policy::CancelToken;

/// Serves these callers until `cancel` is cancelled, and waits until `ended` before their threads end. `handler` makes what handles the
/// requests of one of them.
pub(super) async fn serve(
    options: McpHttpOptions,
    handler: impl Fn(Arc<Caller>) -> Handler + Send + Sync + 'static,
    callers: Vec<Arc<Caller>>,
    cancel: CancelToken,
    ended: impl Future<Output = ()>,
) -> Result<()> {
    let access = AccessRules::new(options.checked_address()?, &options);
    let handler = Arc::new(handler);
    let threads = CallerThread::for_callers(callers.len());
    let callers = callers.into_iter().zip(threads).map(|(caller, thread)| {
        let (handler, served) = (handler.clone(), caller.clone());
        CallerService::new(move || handler(served.clone()), &caller, thread)
    });
    let endpoint = Arc::new(Endpoint::new(access, callers));
    let result = connections::accept(options.listener, endpoint.clone(), cancel).await;
    endpoint.close();
    ended.await;
    result
}
