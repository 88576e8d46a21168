//! Why no sandbox can be set up, as one sentence, and what would help.

use super::lack::Lack;
use super::{Environment, Machine};

/// Why this machine has no sandbox for a script.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kernel, and what it lacks.
    pub reason: String,
    /// What would help; each way also says what it allows besides.
    pub help: String,
    /// Whether a profile for AppArmor that allows user namespaces to the program would help.
    pub needs_apparmor_profile: bool,
}

impl Machine {
    /// Why this restriction cannot be enforced here, if anything is known to be missing.
    pub fn refusal(&self, restriction: &str) -> Option<Refusal> {
        if let Some(lack) = self.seccomp_lack() {
            return Some(self.refusal_for(&[lack]));
        }
        // Where Landlock is enough, nothing else explains a refusal.
        let landlock = self.landlock_lack(restriction)?;
        let lacks: Vec<Lack> = self.namespace_lack().into_iter().chain([landlock]).collect();
        Some(self.refusal_for(&lacks))
    }

    /// Why a process cannot have namespaces here, if it cannot.
    pub fn namespace_refusal(&self) -> Option<Refusal> {
        Some(self.refusal_for(&[self.namespace_lack()?]))
    }

    fn refusal_for(&self, lacks: &[Lack]) -> Refusal {
        let join = |part: fn(&Lack) -> &str, between: &str| -> String {
            let mut parts: Vec<&str> = lacks.iter().map(part).collect();
            parts.dedup();
            parts.join(between)
        };
        Refusal {
            reason: format!("on {}, {}", self.name(), join(|lack| &lack.clause, ", and ")),
            help: join(|lack| &lack.help, "; or "),
            needs_apparmor_profile: lacks.iter().any(|lack| lack.needs_apparmor_profile),
        }
    }

    /// The kernel, and what this process runs in.
    pub fn name(&self) -> String {
        let kernel = &self.kernel;
        match self.environment {
            Environment::Machine => format!("Linux {kernel}"),
            Environment::Docker => format!("Linux {kernel} in a Docker container"),
            Environment::Podman => format!("Linux {kernel} in a Podman container"),
            Environment::Kubernetes => format!("Linux {kernel} in a pod of Kubernetes"),
            Environment::Container => format!("Linux {kernel} in a container"),
            Environment::Gvisor => "gVisor".into(),
            Environment::Wsl1 => "WSL 1".into(),
        }
    }
}
