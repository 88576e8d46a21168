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

pub(crate) use autorun::{opened_at_the_top, runs_when_built};
pub use execution::ExecutionMode;
pub use isolation::{Isolation, Tier};
pub use limits::Limits;
pub use overflow::OutputPolicy;
pub use permission::{Need, Permission};
pub use permissions::{Asked, Permissions};
pub use protected::Protection;
pub(crate) use protected::within;
pub use room::Room;
pub use stop::{CancelToken, StopCause, StopGuard};
pub use threads::{Thread, Threads};
pub use watchdog::{Armed, Watchdog};
pub use worker::Worker;
