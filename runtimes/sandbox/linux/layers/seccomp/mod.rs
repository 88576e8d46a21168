//! The seccomp filter of sandboxed scripts, an allowlist: a call that is not known to stay inside the sandbox does not exist.

mod allowlist;
mod bpf;
mod filter;
mod rules;

pub(crate) use self::filter::SeccompFilter;
pub(crate) use self::rules::SeccompOptions;
