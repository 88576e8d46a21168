//! Flags that only some systems know, and what stands in for them elsewhere, where there is no cage to keep whole.

use rustix::fs::OFlags;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

/// Opens a folder by its name alone, whatever its mode is. Elsewhere it takes the right to read it.
#[cfg(target_os = "linux")]
pub(crate) const BY_NAME: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(crate) const BY_NAME: OFlags = OFlags::RDONLY;

/// A socket that no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const OWN_SOCKET: SocketFlags = SocketFlags::CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const OWN_SOCKET: SocketFlags = SocketFlags::empty();

/// Descriptors that come with a message and that no program inherits.
#[cfg(target_os = "linux")]
pub(crate) const OWN_DESCRIPTORS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
pub(crate) const OWN_DESCRIPTORS: RecvFlags = RecvFlags::empty();

/// Nobody to hear it is an error, and no signal. Elsewhere programs in Rust are deaf to that signal.
#[cfg(target_os = "linux")]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();
