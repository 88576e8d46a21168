//! Asynchronous providers: traits whose methods are futures, and an adapter that makes providers of them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use serde_json::{Map, Value};

use super::context::{
    ApprovalRequest, Approver, ConfigProvider, FileProvider, HttpClient, HttpRequest, HttpResponse,
    SampleRequest, SampleResponse, SamplingProvider, SecretProvider, SkillContext, StoreProvider, Tool,
    ToolProvider,
};
use super::files::{ChangeDecision, FileChange};
use crate::error::Result;
use crate::policy::Approval;

/// Makes a provider of one whose methods are `async fn`.
///
/// Each call is polled on a thread of its own, so it needs no runtime, and a future that blocks holds nobody. When the run stops,
/// the future is dropped at once and the call fails with the error of the stop. A future that needs a runtime, such as the timers
/// and sockets of tokio, is spawned there and awaited here:
#[derive(Clone, Copy, Debug)]
pub struct Async<P>(pub P);

/// As [`ToolProvider`], with an asynchronous call.
pub trait AsyncToolProvider: Send + Sync {
    /// As [`ToolProvider::tools`].
    fn tools(&self) -> Vec<Tool>;

    /// As [`ToolProvider::call`].
    fn call(
        &self,
        ctx: &SkillContext,
        name: &str,
        args: &Value,
    ) -> impl Future<Output = Result<Value>> + Send;
}

/// As [`SamplingProvider`], asynchronous.
pub trait AsyncSamplingProvider: Send + Sync {
    /// As [`SamplingProvider::sample`].
    fn sample(
        &self,
        ctx: &SkillContext,
        request: &SampleRequest,
    ) -> impl Future<Output = Result<SampleResponse>> + Send;
}

/// As [`ConfigProvider`], asynchronous.
pub trait AsyncConfigProvider: Send + Sync {
    /// As [`ConfigProvider::config`].
    fn config(&self, ctx: &SkillContext) -> impl Future<Output = Result<Map<String, Value>>> + Send;
}

/// As [`SecretProvider`], asynchronous.
pub trait AsyncSecretProvider: Send + Sync {
    /// As [`SecretProvider::secret`].
    fn secret(&self, ctx: &SkillContext, name: &str) -> impl Future<Output = Result<Option<String>>> + Send;

    /// As [`SecretProvider::hosts`].
    fn hosts(&self, ctx: &SkillContext, name: &str) -> Option<Vec<String>> {
        let _ = (ctx, name);
        None
    }
}

/// As [`StoreProvider`], asynchronous.
pub trait AsyncStoreProvider: Send + Sync {
    /// As [`StoreProvider::get`].
    fn get(
        &self,
        ctx: &SkillContext,
        shared: Option<&str>,
        key: &str,
    ) -> impl Future<Output = Result<Option<Value>>> + Send;

    /// As [`StoreProvider::set`].
    fn set(
        &self,
        ctx: &SkillContext,
        shared: Option<&str>,
        key: &str,
        value: &Value,
    ) -> impl Future<Output = Result<()>> + Send;

    /// As [`StoreProvider::keys`].
    fn keys(
        &self,
        ctx: &SkillContext,
        shared: Option<&str>,
        prefix: &str,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// As [`StoreProvider::delete`].
    fn delete(
        &self,
        ctx: &SkillContext,
        shared: Option<&str>,
        key: &str,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// As [`FileProvider`], asynchronous.
pub trait AsyncFileProvider: Send + Sync {
    /// As [`FileProvider::unsaved`].
    fn unsaved(&self, ctx: &SkillContext, path: &str)
    -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// As [`FileProvider::unsaved_paths`].
    fn unsaved_paths(&self, ctx: &SkillContext) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// As [`FileProvider::before_change`]. The future is dropped when the run stops, but not when the time limit has passed.
    fn before_change(
        &self,
        ctx: &SkillContext,
        change: &FileChange,
    ) -> impl Future<Output = Result<ChangeDecision>> + Send {
        let _ = (ctx, change);
        std::future::ready(Ok(ChangeDecision::Proceed))
    }

    /// As [`FileProvider::changed`].
    fn changed(&self, ctx: &SkillContext, change: &FileChange) -> impl Future<Output = ()> + Send {
        let _ = (ctx, change);
        std::future::ready(())
    }

    /// As [`FileProvider::time_limit`].
    fn time_limit(&self) -> Duration {
        Duration::from_mins(5)
    }
}

/// As [`HttpClient`], asynchronous.
pub trait AsyncHttpClient: Send + Sync {
    /// As [`HttpClient::send`].
    fn send(
        &self,
        ctx: &SkillContext,
        request: HttpRequest,
    ) -> impl Future<Output = Result<HttpResponse>> + Send;
}

/// As [`Approver`], asynchronous.
pub trait AsyncApprover: Send + Sync {
    /// As [`Approver::approve`]. The future is dropped when the run stops, but not when the time limit has passed.
    fn approve(
        &self,
        ctx: &SkillContext,
        request: &ApprovalRequest,
    ) -> impl Future<Output = Result<Approval>> + Send;
}

impl<P: AsyncToolProvider> ToolProvider for Async<P> {
    fn tools(&self) -> Vec<Tool> {
        self.0.tools()
    }

    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        ctx.block_on(self.0.call(ctx, name, args))?
    }
}

impl<P: AsyncSamplingProvider> SamplingProvider for Async<P> {
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        ctx.block_on(self.0.sample(ctx, request))?
    }
}

impl<P: AsyncConfigProvider> ConfigProvider for Async<P> {
    fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>> {
        ctx.block_on(self.0.config(ctx))?
    }
}

impl<P: AsyncSecretProvider> SecretProvider for Async<P> {
    fn secret(&self, ctx: &SkillContext, name: &str) -> Result<Option<String>> {
        ctx.block_on(self.0.secret(ctx, name))?
    }

    fn hosts(&self, ctx: &SkillContext, name: &str) -> Option<Vec<String>> {
        self.0.hosts(ctx, name)
    }
}

impl<P: AsyncStoreProvider> StoreProvider for Async<P> {
    fn get(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<Option<Value>> {
        ctx.block_on(self.0.get(ctx, shared, key))?
    }

    fn set(&self, ctx: &SkillContext, shared: Option<&str>, key: &str, value: &Value) -> Result<()> {
        ctx.block_on(self.0.set(ctx, shared, key, value))?
    }

    fn keys(&self, ctx: &SkillContext, shared: Option<&str>, prefix: &str) -> Result<Vec<String>> {
        ctx.block_on(self.0.keys(ctx, shared, prefix))?
    }

    fn delete(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<bool> {
        ctx.block_on(self.0.delete(ctx, shared, key))?
    }
}

impl<P: AsyncFileProvider> FileProvider for Async<P> {
    fn unsaved(&self, ctx: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
        ctx.block_on(self.0.unsaved(ctx, path))?
    }

    fn unsaved_paths(&self, ctx: &SkillContext) -> Result<Vec<String>> {
        ctx.block_on(self.0.unsaved_paths(ctx))?
    }

    fn before_change(&self, ctx: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        ctx.block_on(self.0.before_change(ctx, change))?
    }

    fn changed(&self, ctx: &SkillContext, change: &FileChange) {
        // A run that stops needs no answer.
        ctx.block_on(self.0.changed(ctx, change)).unwrap_or_default();
    }

    fn time_limit(&self) -> Duration {
        self.0.time_limit()
    }
}

impl<P: AsyncHttpClient> HttpClient for Async<P> {
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        ctx.block_on(self.0.send(ctx, request))?
    }
}

impl<P: AsyncApprover> Approver for Async<P> {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        ctx.block_on(self.0.approve(ctx, request))?
    }
}

impl SkillContext {
    /// Polls a future on this thread until it ends; for providers that use an asynchronous library. When the run stops, the future
    /// is dropped, and the error of the stop is returned.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let (mut future, mut stopped) = (pin!(future), pin!(self.cancel().cancelled()));
        loop {
            if let Poll::Ready(cause) = stopped.as_mut().poll(&mut context) {
                return Err(cause.error());
            }
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Ok(value);
            }
            std::thread::park();
        }
    }
}
