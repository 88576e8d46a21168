//! The seccomp filter of sandboxed scripts, an allowlist: a call that is not known to stay inside the sandbox does not exist.

mod allowlist;
mod bpf;
mod compute_only;
mod filter;
mod rules;

pub use self::compute_only::restrict_to_computing;
pub(crate) use self::filter::SeccompFilter;
pub(crate) use self::rules::{KernelGaps, SeccompOptions};
