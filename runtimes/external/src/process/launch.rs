//! Starts a process, sandboxed or not.

use std::io;
use std::process::Command;

use super::process_group::ProcessGroup;
use super::process_tree::ProcessTree;
use super::sandboxed::SandboxedProcess;
use crate::egress::EgressRules;
use crate::python_imports::PackageFolders;
use metier_core::policy::Limits;
use metier_sandbox::{LaunchRequest, Launcher};

/// What is started, and in what it runs.
pub(crate) enum Launch<'a> {
    /// A plain process with the rights of the user.
    Unsandboxed(Box<Command>),
    /// A process in a sandbox, with the hosts that it reaches if it does not reach all or none.
    Sandboxed(&'a Launcher, Box<LaunchRequest>, Option<Box<EgressRules>>),
}

impl Launch<'_> {
    /// Where its packages are, if it is Python in a sandbox.
    pub(crate) fn package_folders(&self) -> Option<PackageFolders> {
        match self {
            Self::Unsandboxed(_) => None,
            Self::Sandboxed(_, request, _) => PackageFolders::in_request(request),
        }
    }

    /// Starts it. Without `has_input` its standard input is empty.
    pub(crate) fn start(self, has_input: bool, limits: &Limits) -> io::Result<Box<dyn ProcessTree>> {
        Ok(match self {
            Self::Unsandboxed(mut command) => Box::new(ProcessGroup::start(&mut command, has_input, limits)?),
            Self::Sandboxed(launcher, request, egress) => {
                Box::new(SandboxedProcess::start(launcher, &request, egress, has_input)?)
            }
        })
    }
}
