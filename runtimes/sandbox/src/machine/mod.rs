//! What a machine offers for a sandbox, and the sentence that says what it lacks and what would help.

mod refusal;
#[cfg(test)]
mod tests;

use rustix::io::Errno;

pub use self::refusal::Refusal;

/// What is known of a machine on which a sandbox could not be set up.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The release of the kernel, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// What this process runs in.
    pub environment: Environment,
    /// The Landlock of the kernel.
    pub landlock: Landlock,
    /// Whether a process of this user can have namespaces.
    pub namespaces: Namespaces,
    /// The settings of the kernel for user namespaces.
    pub settings: NamespaceSettings,
    /// Whether the kernel filters system calls, for a processor whose calls metier knows.
    pub has_seccomp: bool,
    /// Whether the system calls of this process are filtered already.
    pub is_filtered: bool,
}

/// What this process runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// A machine, or a virtual one.
    Machine,
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// A container in a pod.
    Kubernetes,
    /// A container of another kind, such as LXC or systemd-nspawn.
    Container,
    /// A kernel of its own for containers, in user space.
    Gvisor,
    /// Windows, which translates system calls.
    Wsl1,
}

/// How the kernel answers the question for its Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// It is in use, with this version of its interface.
    Abi(u8),
    /// It does not know the call.
    Absent,
    /// It was built with Landlock and started without.
    Disabled,
    /// Something refuses the call.
    Denied,
}

/// What becomes of a process that is to have namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// It can have them.
    Available,
    /// They cannot be created.
    NotCreated(Errno),
    /// They can, but not mounts in them.
    NoMounts(Errno),
}

/// The settings of the kernel for user namespaces; `None` where a kernel has no such setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSettings {
    /// `kernel.unprivileged_userns_clone`, of Debian and its relatives.
    pub unprivileged_clone: Option<u64>,
    /// `user.max_user_namespaces`.
    pub max: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, of Ubuntu.
    pub apparmor_restricts: Option<u64>,
}

impl Machine {
    /// The first two numbers of the kernel's release.
    pub(crate) fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}
