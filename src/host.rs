//! The host API: the functions that a script may call on `ctx`, and the files, providers and network they use.
//!
//! Tools that are closures. A script calls this one with `ctx.tool("add", {a = 1, b = 2})`: its skill must list `tool:add` under
//! `allowed-tools`, and the caller must grant it.
//!
//! ```
//! use metier::engine::Engine;
//! use metier::host::ClosureTools;
//! use serde_json::json;
//!
//! # fn main() -> metier::error::Result<()> {
//! let schema = json!({"type": "object", "required": ["a", "b"]});
//! let tools = ClosureTools::new().tool("add", "Adds two numbers", schema, |_ctx, args| {
//!     Ok(json!(args["a"].as_f64().unwrap_or(0.0) + args["b"].as_f64().unwrap_or(0.0)))
//! });
//! let engine = Engine::builder(".").tools(tools).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```
//!
//! The services of one invocation, beside those of its engine:
//!
//! ```
//! use metier::engine::Invocation;
//! use metier::host::{ClosureTools, Providers};
//! use serde_json::json;
//!
//! let tools = ClosureTools::new().tool("now", "The time", json!({}), |_, _| Ok(json!("12:00")));
//! let invocation = Invocation::new("word-count").providers(Providers::default().tools(tools));
//! # let _ = invocation;
//! ```
//!
//! The events of a run:
//!
//! ```
//! use std::sync::Arc;
//!
//! use metier::engine::Invocation;
//! use metier::host::{Event, EventKind};
//!
//! let invocation = Invocation::new("word-count").observer(Arc::new(|event: &Event| match &event.kind {
//!     EventKind::Log(line) => eprintln!("{}: {}", event.skill, line.message),
//!     EventKind::Finished { outcome, .. } => eprintln!("{} ended after {:?}", event.run, outcome.duration),
//!     _ => {}
//! }));
//! # let _ = invocation;
//! ```
//!
//! Who decides about what nobody granted:
//!
//! ```
//! use metier::engine::Engine;
//! use metier::error::Result;
//! use metier::host::{ApprovalNeed, ApprovalRequest, Approver, SkillContext};
//! use metier::policy::Approval;
//!
//! struct OnlyTheDocs;
//!
//! impl Approver for OnlyTheDocs {
//!     fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
//!         Ok(match &request.need {
//!             ApprovalNeed::Permission { permission, .. } if permission.to_string() == "write:docs" => Approval::Session,
//!             _ => Approval::No,
//!         })
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let engine = Engine::builder(".").approver(OnlyTheDocs).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```
//!
//! The view of an editor over its files:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Mutex;
//!
//! use metier::engine::Engine;
//! use metier::error::Result;
//! use metier::host::{ChangeDecision, FileChange, FileChangeKind, FileProvider, SkillContext};
//!
//! #[derive(Default)]
//! struct Buffers(Mutex<BTreeMap<String, Vec<u8>>>);
//!
//! impl FileProvider for Buffers {
//!     fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
//!         Ok(self.0.lock().unwrap().get(path).cloned())
//!     }
//!
//!     fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
//!         Ok(self.0.lock().unwrap().keys().cloned().collect())
//!     }
//!
//!     fn before_change(&self, _: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
//!         match (&change.kind, self.0.lock().unwrap().get_mut(&change.path)) {
//!             (FileChangeKind::Write { content, .. }, Some(open)) => {
//!                 open.clone_from(content);
//!                 Ok(ChangeDecision::Applied)
//!             }
//!             _ => Ok(ChangeDecision::Proceed),
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let engine = Engine::builder(".").files(Buffers::default()).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```
//!
//! A model behind an async client:
//!
//! ```
//! use metier::engine::Engine;
//! use metier::error::{ErrorKind, Result, SkillError};
//! use metier::host::{Async, AsyncSamplingProvider, SampleRequest, SampleResponse, SkillContext};
//!
//! struct Model(tokio::runtime::Handle);
//!
//! impl AsyncSamplingProvider for Model {
//!     async fn sample(&self, _: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
//!         let prompt = request.prompt().to_owned();
//!         let answer = self.0.spawn(async move { format!("an answer to {prompt}") });
//!         answer.await.map(SampleResponse::new).map_err(|error| SkillError::new(ErrorKind::Unavailable, error.to_string()))
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # let handle = runtime.handle().clone();
//! let engine = Engine::builder(".").sampling(Async(Model(handle))).build()?;
//! # let _ = engine;
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
#[cfg(feature = "http")]
pub use metier_core::host::WebClient;
#[doc(inline)]
pub use metier_core::host::{
    AccessReason, ApprovalNeed, ApprovalRequest, Approver, Async, AsyncApprover, AsyncConfigProvider,
    AsyncFileProvider, AsyncHttpClient, AsyncSamplingProvider, AsyncSecretProvider, AsyncStoreProvider,
    AsyncToolProvider, AuthorizationRequest, Authorizer, ChangeDecision, ClosureTools, ConfigProvider,
    ConsentReason, ContextBuilder, EnforcedLevel, Event, EventKind, FileChange, FileChangeKind, FileProvider,
    Files, Fixtures, FunctionExample, HostFunction, HttpClient, HttpRequest, HttpResponse, InterpreterReport,
    LaunchPreview, Leftover, LeftoverPath, LeftoverPlace, LogLevel, LogLine, MisplacedSecret, NetworkReport,
    Observer, OutputStream, Param, PlanStep, ProcessReport, ProcessUsage, Progress, Providers, RefusedAccess,
    RefusedConnection, RefusedTarget, RunId, SampleMessage, SampleRequest, SampleResponse, SampleRole,
    SampleUsage, SamplingProvider, SandboxPath, SandboxReport, SandboxSupport, ScriptGuesses, SecretProvider,
    SkillContext, SkillProvider, StepReport, StepStatus, StopReason, StoreProvider, Tool, ToolProvider,
    TreeKill, ValueType, download, function, functions,
};
