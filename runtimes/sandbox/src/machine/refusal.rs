//! Why no sandbox can be set up: what a machine lacks, as one sentence, and what would help.

use rustix::io::Errno;

use super::{Environment, Landlock, Machine, Namespaces};
use crate::{SIGNAL_SCOPE_ABI, TRUNCATION_ABI};

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

/// Something that a machine lacks.
pub(super) struct Lack {
    /// A clause that says so.
    clause: String,
    /// What would help, and what that allows besides.
    pub(super) help: String,
    /// Whether the profile for AppArmor would help.
    pub(super) needs_apparmor_profile: bool,
}

impl Lack {
    fn new(clause: impl Into<String>, help: impl Into<String>) -> Self {
        Self { clause: clause.into(), help: help.into(), needs_apparmor_profile: false }
    }
}

/// What helps against a filter that is no container's.
const OUTSIDE_FILTER: &str = "run it outside of that filter, which may be one of a service (RestrictNamespaces=) or of another sandbox";

/// What all programs can do where users may create user namespaces.
const OPENS_KERNEL: &str = "after which the programs of all users reach more of the kernel";

impl Machine {
    /// What keeps Landlock from restricting this.
    fn landlock_lack(&self, restriction: &str) -> Option<Lack> {
        let is_old = self.version().is_some_and(|version| version < (5, 13));
        Some(match self.landlock {
            Landlock::Abi(abi)
                if restriction == "files" && abi < TRUNCATION_ABI
                    || restriction == "signals" && abi < SIGNAL_SCOPE_ABI =>
            {
                Lack::new(
                    format!("Landlock (ABI {abi}) does not restrict {restriction}"),
                    "use Linux 6.12 or later",
                )
            }
            Landlock::Abi(_) => return None,
            _ if self.environment == Environment::Gvisor => Lack::new(
                "there is no Landlock",
                "start the container with a runtime that uses the kernel of the machine, such as runc",
            ),
            _ if self.environment == Environment::Wsl1 => {
                Lack::new("there is no Landlock", "convert the distribution by `wsl --set-version NAME 2`")
            }
            Landlock::Absent if is_old => Lack::new(
                "there is no Landlock, which came with Linux 5.13",
                "use Linux 5.13 or later with Landlock",
            ),
            Landlock::Absent if !self.is_filtered => Lack::new(
                "the kernel was built without Landlock",
                "use a kernel that was built with Landlock (CONFIG_SECURITY_LANDLOCK)",
            ),
            Landlock::Disabled => Lack::new(
                "Landlock is built in but disabled",
                "add `landlock` to the list `lsm=` of the kernel's command line (/sys/kernel/security/lsm has the list as it is) \
                 and restart the machine",
            ),
            Landlock::Absent | Landlock::Denied => Lack::new(
                "a filter of system calls around this program refuses Landlock",
                match self.environment {
                    Environment::Machine => OUTSIDE_FILTER,
                    Environment::Docker => {
                        "use Docker 23 or later, whose default filter allows Landlock on Linux 5.13 and later"
                    }
                    _ => {
                        "update the program that runs the container: the default filters allow Landlock since 2022"
                    }
                },
            ),
        })
    }

    /// What keeps namespaces from a process of this user.
    fn namespace_lack(&self) -> Option<Lack> {
        let (error, is_created) = match self.namespaces {
            Namespaces::Available => return None,
            Namespaces::NotCreated(error) => (error, false),
            Namespaces::NoMounts(error) => (error, true),
        };
        let settings = self.settings;
        Some(match self.environment {
            Environment::Gvisor => Lack::new(
                "namespaces cannot be set up",
                "use skills in Lua, Rhai and WebAssembly, which run here",
            ),
            Environment::Wsl1 => Lack::new(
                "there are no namespaces",
                "use skills in Lua, Rhai and WebAssembly, which run here",
            ),
            environment if self.is_filtered && environment != Environment::Machine => Lack::new(
                "the container's filter of system calls refuses namespaces",
                container_help(environment),
            ),
            _ if settings.max == Some(0) => Lack::new(
                "user.max_user_namespaces=0 allows no user namespaces",
                format!("run `sysctl -w user.max_user_namespaces=15000` as root, {OPENS_KERNEL}"),
            ),
            _ if settings.unprivileged_clone == Some(0) => Lack::new(
                "kernel.unprivileged_userns_clone=0 keeps user namespaces from ordinary users",
                format!("run `sysctl -w kernel.unprivileged_userns_clone=1` as root, {OPENS_KERNEL}"),
            ),
            _ if settings.apparmor_restricts == Some(1) => Lack {
                clause: "AppArmor keeps user namespaces from this program \
                         (kernel.apparmor_restrict_unprivileged_userns=1)"
                    .into(),
                help: "as root, load an AppArmor profile that allows user namespaces to this program alone"
                    .into(),
                needs_apparmor_profile: true,
            },
            _ if self.is_filtered => {
                Lack::new("a filter of system calls around this program refuses namespaces", OUTSIDE_FILTER)
            }
            environment if environment != Environment::Machine => Lack::new(
                "the container's security profile keeps namespaces from this program",
                container_help(environment),
            ),
            _ if error == Errno::INVAL && !is_created => Lack::new(
                "the kernel was built without user namespaces",
                "use a kernel that was built with user namespaces (CONFIG_USER_NS)",
            ),
            _ if [Errno::NOSPC, Errno::USERS].contains(&error) => Lack::new(
                "all user namespaces that user.max_user_namespaces allows are in use",
                "raise user.max_user_namespaces, or end programs that have some",
            ),
            _ => Lack::new(
                "something that cannot be seen from here keeps namespaces from this program, such as a changed root folder or \
                 a security module",
                "run it outside of that",
            ),
        })
    }

    /// What keeps system calls from being filtered.
    fn seccomp_lack(&self) -> Option<Lack> {
        (!self.has_seccomp).then(|| {
            Lack::new(
                "system calls cannot be filtered",
                "use a kernel that was built with filters of system calls (CONFIG_SECCOMP_FILTER), on x86-64, arm64 or riscv64",
            )
        })
    }
}

/// How a container is started so that its programs can have namespaces, and what else that allows.
fn container_help(environment: Environment) -> &'static str {
    match environment {
        Environment::Docker | Environment::Podman => {
            "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, which allows \
             namespaces and all other system calls to every program in it"
        }
        Environment::Kubernetes => {
            "set `seccompProfile: {type: Unconfined}` and `appArmorProfile: {type: Unconfined}` in the securityContext of the pod, \
             which allows namespaces and all other system calls to every program in it"
        }
        _ => {
            "allow nested containers in the settings of the container, such as `security.nesting=true` of LXC"
        }
    }
}
