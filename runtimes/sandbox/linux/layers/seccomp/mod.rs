//! The seccomp filter of sandboxed scripts, an allowlist: a call that is not known to stay inside the sandbox does not exist.

mod allowlist;
mod bpf;
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
mod compute_only;
mod filter;
mod rules;

#[cfg_attr(not(feature = "wasm-runtime"), allow(unused_imports))]
pub(crate) use self::compute_only::restrict_to_computing;
pub(crate) use self::filter::SeccompFilter;
pub(crate) use self::rules::{KernelGaps, SeccompOptions};
