//! Which restrictions a required sandbox enforces: one answer for runs, their reports, and checks of what a machine supports.

use super::{Enforcement, SandboxPolicy};

/// The first Landlock ABI that restricts every way to change a file's content: Linux 6.2.
const MIN_LANDLOCK_ABI: u8 = 3;

impl Enforcement {
    /// Whether files outside of the sandbox were inaccessible.
    pub(crate) fn restricts_files(&self) -> bool {
        self.landlock_abi >= MIN_LANDLOCK_ABI
    }

    /// Whether no process outside could be signalled: by a Landlock scope (from Linux 6.12 on), or since none has a PID in the
    /// namespace.
    pub(crate) fn restricts_signals(&self) -> bool {
        self.scope || self.namespaces
    }

    /// Returns the restrictions that a required sandbox must enforce and does not, before the program may start. Whether the tree
    /// can be killed is known earlier, and whether it was killed, later.
    pub(crate) fn missing<'a>(
        &'a self,
        sandbox: &'a SandboxPolicy,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let walls = [
            ("files", self.restricts_files()),
            ("the network", self.network_blocked || !sandbox.block_network),
            ("local sockets", self.seccomp || !sandbox.filter_syscalls),
            ("signals", self.restricts_signals()),
        ];
        walls.into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(change: impl FnOnce(&mut Enforcement)) -> Vec<&'static str> {
        let mut held = Enforcement {
            landlock_abi: 3,
            network_blocked: true,
            seccomp: true,
            namespaces: true,
            ..Enforcement::default()
        };
        change(&mut held);
        let sandbox =
            SandboxPolicy { block_network: true, filter_syscalls: true, ..SandboxPolicy::default() };
        held.missing(&sandbox).collect()
    }

    #[test]
    fn every_kernel_lacks_what_it_lacks() {
        assert_eq!(missing(|_| ()), [""; 0], "Linux 6.2 with namespaces");
        assert_eq!(missing(|held| held.namespaces = false), ["signals"], "Linux 6.2 without");
        assert_eq!(
            missing(|held| (held.namespaces, held.scope, held.landlock_abi) = (false, true, 6)),
            [""; 0]
        );
        assert_eq!(missing(|held| held.landlock_abi = 2), ["files"], "files could be truncated");
        assert_eq!(missing(|held| held.network_blocked = false), ["the network"]);
        assert_eq!(missing(|held| held.seccomp = false), ["local sockets"]);
        let open = SandboxPolicy { filter_syscalls: true, ..SandboxPolicy::default() };
        let held = Enforcement { landlock_abi: 6, scope: true, seccomp: true, ..Enforcement::default() };
        assert_eq!(held.missing(&open).count(), 0, "a network that is open need not be shut");
    }
}
