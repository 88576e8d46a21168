//! What a cage has to hold where one is required: one answer for the run, its report, and whoever asks what a machine offers.

use super::{Cage, Enforced};

/// The first Landlock that holds every way of changing a file's content: Linux 6.2.
const LEAST_ABI: u8 = 3;

impl Enforced {
    /// Whether files outside were out of reach.
    pub(crate) fn holds_files(&self) -> bool {
        self.files_abi >= LEAST_ABI
    }

    /// Whether no process outside could be signalled: by a scope, from Linux 6.12 on, or since none has a number in there.
    pub(crate) fn holds_signals(&self) -> bool {
        self.scope || self.namespaces
    }

    /// What is missing of what this cage has to hold before a program may start in it, where it is required. Whether the tree
    /// can be killed is known before, and whether it was, afterwards.
    pub(crate) fn missing<'a>(&'a self, cage: &'a Cage) -> impl Iterator<Item = &'static str> + 'a {
        let walls = [
            ("files", self.holds_files()),
            ("the network", self.shut_network || !cage.shut_network),
            ("local sockets", self.calls || !cage.guard_calls),
            ("signals", self.holds_signals()),
        ];
        walls.into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(change: impl FnOnce(&mut Enforced)) -> Vec<&'static str> {
        let mut held = Enforced {
            files_abi: 3,
            shut_network: true,
            calls: true,
            namespaces: true,
            ..Enforced::default()
        };
        change(&mut held);
        let cage = Cage { shut_network: true, guard_calls: true, ..Cage::default() };
        held.missing(&cage).collect()
    }

    #[test]
    fn every_kernel_lacks_what_it_lacks() {
        assert_eq!(missing(|_| ()), [""; 0], "Linux 6.2 with namespaces");
        assert_eq!(missing(|held| held.namespaces = false), ["signals"], "Linux 6.2 without");
        assert_eq!(missing(|held| (held.namespaces, held.scope, held.files_abi) = (false, true, 6)), [""; 0]);
        assert_eq!(missing(|held| held.files_abi = 2), ["files"], "files could be truncated");
        assert_eq!(missing(|held| held.shut_network = false), ["the network"]);
        assert_eq!(missing(|held| held.calls = false), ["local sockets"]);
        let open = Cage { guard_calls: true, ..Cage::default() };
        let held = Enforced { files_abi: 6, scope: true, calls: true, ..Enforced::default() };
        assert_eq!(held.missing(&open).count(), 0, "a network that is open need not be shut");
    }
}
