//! Flags that only some systems have, and their replacements on other systems, which have no sandbox to protect.

use rustix::net::{RecvFlags, SendFlags, SocketFlags};

/// A socket that no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const SOCK_CLOEXEC: SocketFlags = SocketFlags::CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const SOCK_CLOEXEC: SocketFlags = SocketFlags::empty();

/// Descriptors received in a message, which no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const CMSG_CLOEXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const CMSG_CLOEXEC: RecvFlags = RecvFlags::empty();

/// Sending to a closed peer is an error and raises no signal. On other systems programs in Rust ignore that signal.
#[cfg(target_os = "linux")]
pub(crate) const MSG_NOSIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
pub(crate) const MSG_NOSIGNAL: SendFlags = SendFlags::empty();
