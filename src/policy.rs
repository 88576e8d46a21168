//! The policy of a run: permissions, limits, sandbox requirements and the token that stops the run.
//!
//! A run is stopped by its token:
//!
//! ```
//! use metier::engine::{Engine, Invocation};
//! use metier::error::ErrorKind;
//! use metier::policy::CancelToken;
//!
//! # fn main() -> metier::error::Result<()> {
//! let token = CancelToken::new();
//! token.cancel(); // or from another thread, while the run goes on
//! let outcome = Engine::builder(".").build()?.run(Invocation::new("word-count").cancel(token));
//! # if metier::supports(metier::executor::RuntimeId::LUA).is_ok() {
//! assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Cancelled);
//! # }
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use metier_core::policy::{
    Approval, ArgumentPattern, CalledTool, CancelToken, Cancelled, ConfigField, ConfigRequirement,
    ExecutionMode, GrantOrigin, GrantReport, Limits, OutputPolicy, Permission, Permissions,
    RequestedPermissions, RuntimeLimit, SandboxLevel, SandboxMode, SkillDigest, StopCause, StopGuard,
    Timestamp, ToolFilter, WorkerOptions,
};
