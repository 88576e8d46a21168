//! What a run may do and how much of it: permissions, limits, the signal that stops it.

mod isolation;
mod limits;
mod permission;
mod permissions;
mod protected;
mod stop;
mod watchdog;

pub use isolation::{Isolation, Tier};
pub use limits::Limits;
pub use permission::{Need, Permission};
pub use permissions::{Asked, Permissions};
pub use protected::Protection;
pub use stop::{CancelToken, StopCause, StopGuard};
pub use watchdog::{Armed, Watchdog};
