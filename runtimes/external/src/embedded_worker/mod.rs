//! Scripts of embedded languages that run in a worker process.
//!
//! The process is this same program in a sandbox that gives access to nothing. It runs the executor that would run in the host,
//! and sends every call on `ctx` to the host, which checks, answers and records it as always. A compromised worker can therefore
//! do no more than a script can. At the deadline the process is killed.

mod executor;
mod pool;
mod protocol;
mod worker_main;

pub use self::executor::{load, worker_sandbox};
pub use self::pool::EmbeddedWorkerPool;
pub use self::worker_main::worker_main;
