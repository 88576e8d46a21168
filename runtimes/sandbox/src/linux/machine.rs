//! What this machine offers for a sandbox, found out when one could not be set up.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::CapabilitySet;

use crate::Machine;
use crate::linux::layers::seccomp::SeccompFilter;
use crate::linux::sys::{self, ForkResult};
use crate::machine::{Environment, Landlock, NamespaceSettings, Namespaces};

/// What this machine offers, and what keeps it from offering more. Creates namespaces for a moment.
#[allow(clippy::unnecessary_wraps, reason = "as where nothing is known")]
pub fn machine() -> Option<Machine> {
    let kernel = read_line("/proc/sys/kernel/osrelease")
        .unwrap_or_else(|| rustix::system::uname().release().to_string_lossy().into_owned());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    Some(Machine {
        environment: environment(&kernel),
        kernel,
        landlock: landlock(),
        namespaces: namespaces(),
        settings: NamespaceSettings {
            unprivileged_clone: read_number("/proc/sys/kernel/unprivileged_userns_clone"),
            max: read_number("/proc/sys/user/max_user_namespaces"),
            apparmor_restricts: read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        },
        // Without /proc it is not known.
        has_seccomp: SeccompFilter::is_supported() && (seccomp.is_some() || status.is_empty()),
        is_filtered: seccomp == Some("2"),
    })
}

fn landlock() -> Landlock {
    match sys::landlock_abi().map_err(|error| Errno::from_io_error(&error)) {
        Ok(abi) => Landlock::Abi(abi),
        Err(Some(Errno::NOSYS)) => Landlock::Absent,
        Err(Some(Errno::OPNOTSUPP)) => Landlock::Disabled,
        Err(_) => Landlock::Denied,
    }
}

/// Creates namespaces as a script gets them, and changes a mount in them: some security modules allow the first only.
fn namespaces() -> Namespaces {
    let has_sys_admin = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let users = if has_sys_admin { 0 } else { libc::CLONE_NEWUSER };
    let flags = users | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    match sys::clone_with_namespaces(flags) {
        Err(error) => Namespaces::NotCreated(Errno::from_io_error(&error).unwrap_or(Errno::PERM)),
        Ok(ForkResult::Child) => {
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            sys::exit(mount_change(c"/", private).err().map_or(0, Errno::raw_os_error))
        }
        Ok(ForkResult::Parent(pid)) => {
            let ended = waitpid(Some(pid), WaitOptions::empty()).ok().flatten();
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) | None => Namespaces::Available,
                Some(error) => Namespaces::NoMounts(Errno::from_raw_os_error(error)),
            }
        }
    }
}

fn environment(kernel: &str) -> Environment {
    // The kernel that gVisor says it is.
    const GVISOR: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value != OsStr::new(""));
    let version = read_line("/proc/version").unwrap_or_default();
    match () {
        () if kernel.contains("gvisor") || version.contains(GVISOR) => Environment::Gvisor,
        () if kernel.starts_with("4.4.0") && kernel.ends_with("-Microsoft") => Environment::Wsl1,
        () if is_set("KUBERNETES_SERVICE_HOST") => Environment::Kubernetes,
        () if Path::new("/.dockerenv").exists() => Environment::Docker,
        () if Path::new("/run/.containerenv").exists() => Environment::Podman,
        () if is_set("container") || Path::new("/run/host/container-manager").exists() => {
            Environment::Container
        }
        () => Environment::Machine,
    }
}

fn read_number(path: &str) -> Option<u64> {
    read_line(path)?.parse().ok()
}

fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
