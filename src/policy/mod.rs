//! What a run may do and how much of it: permissions, limits, the signal that stops it.

pub mod amount;
mod autorun;
mod execution;
mod isolation;
mod limits;
mod overflow;
mod permission;
mod permissions;
mod protected;
mod room;
mod stop;
mod threads;
mod watchdog;
mod worker;

pub(crate) use autorun::{run_on_open_paths, runs_on_build};
pub use execution::ExecutionMode;
pub use isolation::{SandboxLevel, SandboxMode};
pub use limits::Limits;
pub use overflow::OutputPolicy;
pub use permission::{Access, Permission};
pub use permissions::{Permissions, RequestedPermissions};
pub use protected::PathProtection;
pub(crate) use protected::is_within;
pub use room::MemoryBudget;
pub use stop::{CancelToken, StopCause, StopGuard};
pub use threads::{ThreadBudget, ThreadPermit};
pub use watchdog::{DeadlineGuard, Watchdog};
pub use worker::WorkerOptions;
