//! Flags that only some systems know, and what stands in for them elsewhere, where there is no sandbox to keep whole.

pub(crate) use crate::host::OPEN_BY_NAME;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

/// A socket that no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const SOCK_CLOEXEC: SocketFlags = SocketFlags::CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const SOCK_CLOEXEC: SocketFlags = SocketFlags::empty();

/// Descriptors that come with a message and that no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const CMSG_CLOEXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const CMSG_CLOEXEC: RecvFlags = RecvFlags::empty();

/// Nobody to hear it is an error, and no signal. Elsewhere programs in Rust are deaf to that signal.
#[cfg(target_os = "linux")]
pub(crate) const MSG_NOSIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
pub(crate) const MSG_NOSIGNAL: SendFlags = SendFlags::empty();
