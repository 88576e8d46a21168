//! Which restrictions were in force, and which a required sandbox must enforce: one answer for runs, their reports, and checks of
//! what a machine supports.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{NetworkAccess, SandboxPolicy};

/// The first Landlock ABI that restricts every way to change a file's content: Linux 6.2. Before, files can be truncated.
pub const TRUNCATION_ABI: u8 = 3;

/// The first Landlock ABI that keeps signals and abstract sockets inside: Linux 6.12.
pub const SIGNAL_SCOPE_ABI: u8 = 6;

/// A set of restrictions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restrictions(u16);

impl fmt::Debug for Restrictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bitflags::parser::to_writer(self, f)
    }
}

bitflags::bitflags! {
    impl Restrictions: u16 {
        /// System calls were filtered.
        const SECCOMP = 1;
        /// No socket could be created that connects to the network, or only in a network of its own in which granted hosts exist.
        const NETWORK = 1 << 1;
        /// The script had mount, PID, IPC and UTS namespaces of its own and, if the network is blocked, an empty network
        /// namespace. Nothing outside of the writable paths could be changed, not even its mode or its times.
        const NAMESPACES = 1 << 2;
        /// Every protected path that existed was protected.
        const PROTECTED_PATHS = 1 << 3;
        /// The number of processes was limited.
        const PROCESS_COUNT = 1 << 4;
        /// The tree was killed with every descendant at once, and not generation by generation.
        const SCOPED_KILL = 1 << 5;
        /// No process of the tree was left when the supervisor reported.
        const TREE_GONE = 1 << 6;
        /// The filter refused to truncate files by their names, and to open them for nothing else.
        const TRUNCATION = 1 << 7;
        /// The supervisor let the script send signals only to processes of its tree.
        const SIGNALS = 1 << 8;
        /// The root of the script's files held nothing but what it could read or write.
        const MOUNT_ROOT = 1 << 9;
        /// The script had a network of its own, in which only what the host program serves exists.
        const OWN_NETWORK = 1 << 10;
    }
}

/// What was enforced for one process tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// The Landlock ABI that restricted files; 0 if none did.
    pub landlock_abi: u8,
    /// What else was enforced.
    pub restrictions: Restrictions,
    /// Namespaces are available on this machine, but setting them up failed for this run.
    pub is_downgraded: bool,
}

impl Enforcement {
    /// Whether all of these restrictions were in force.
    pub fn has(self, restrictions: Restrictions) -> bool {
        self.restrictions.contains(restrictions)
    }

    /// Whether files outside of the sandbox were inaccessible. In namespaces, all of them are on read-only mounts and cannot be
    /// truncated.
    pub fn restricts_files(self) -> bool {
        let is_truncation_restricted = self.landlock_abi >= TRUNCATION_ABI
            || self.restrictions.intersects(Restrictions::TRUNCATION | Restrictions::NAMESPACES);
        self.has(Restrictions::MOUNT_ROOT) || (self.landlock_abi > 0 && is_truncation_restricted)
    }

    /// Whether no process outside could be signalled: by a Landlock scope, since none has a PID in the namespace, or since the
    /// supervisor decides.
    pub fn restricts_signals(self) -> bool {
        self.landlock_abi >= SIGNAL_SCOPE_ABI
            || self.restrictions.intersects(Restrictions::SIGNALS | Restrictions::NAMESPACES)
    }

    /// Returns the restrictions that a required sandbox must enforce and does not, before the program may start. Whether the tree
    /// can be killed is known earlier, and whether it was killed, later.
    pub fn missing(self, sandbox: &SandboxPolicy) -> impl Iterator<Item = &'static str> + '_ {
        let required = [
            ("files", self.restricts_files()),
            ("the network", self.has(Restrictions::NETWORK) || sandbox.network == NetworkAccess::Open),
            ("local sockets", self.has(Restrictions::SECCOMP)),
            ("signals", self.restricts_signals()),
        ];
        required.into_iter().filter(|(_, is_enforced)| !is_enforced).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(landlock_abi: u8, lacking: Restrictions, network: NetworkAccess) -> Vec<&'static str> {
        let restrictions = Restrictions::all() - lacking;
        let enforcement = Enforcement { landlock_abi, restrictions, ..Enforcement::default() };
        let sandbox = SandboxPolicy { network, ..SandboxPolicy::default() };
        enforcement.missing(&sandbox).collect()
    }

    #[test]
    fn every_kernel_lacks_what_it_lacks() {
        let (nothing, namespaces) = (Restrictions::empty(), Restrictions::NAMESPACES);
        let (truncation, signals) = (Restrictions::TRUNCATION, Restrictions::SIGNALS);
        for (landlock_abi, lacking, expected) in [
            (0, nothing, &[][..]),
            (0, Restrictions::MOUNT_ROOT, &["files"]),
            (1, Restrictions::MOUNT_ROOT | truncation | signals, &[]),
            (2, Restrictions::MOUNT_ROOT | namespaces, &[]),
            (2, Restrictions::MOUNT_ROOT | namespaces | truncation, &["files"]),
            (3, namespaces | truncation | Restrictions::MOUNT_ROOT, &[]),
            (5, namespaces | signals | Restrictions::MOUNT_ROOT, &["signals"]),
            (6, namespaces | signals | truncation | Restrictions::MOUNT_ROOT, &[]),
        ] {
            let found = missing(landlock_abi, lacking, NetworkAccess::Blocked);
            assert_eq!(found, expected, "{landlock_abi} without {lacking:?}");
        }
        for network in [NetworkAccess::Blocked, NetworkAccess::Hosts] {
            assert_eq!(missing(3, Restrictions::NETWORK, network), ["the network"]);
        }
        assert_eq!(missing(3, Restrictions::SECCOMP, NetworkAccess::Blocked), ["local sockets"]);
        assert_eq!(
            missing(6, Restrictions::NETWORK, NetworkAccess::Open),
            [""; 0],
            "a network that is open need not be blocked"
        );
    }
}
