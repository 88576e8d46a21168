//! What is said about machines that people have, from what is known of each.

use rustix::io::Errno;

use super::{Environment, Landlock, Machine, NamespaceSettings, Namespaces};

const REFUSED: Namespaces = Namespaces::NotCreated(Errno::PERM);

/// A machine of an ordinary user with that kernel, on which everything works.
fn machine(kernel: &str, landlock: Landlock, namespaces: Namespaces) -> Machine {
    Machine {
        kernel: kernel.into(),
        environment: Environment::Machine,
        landlock,
        namespaces,
        settings: NamespaceSettings { max: Some(63_000), ..NamespaceSettings::default() },
        has_seccomp: true,
        is_filtered: false,
    }
}

fn debian(kernel: &str, landlock: Landlock, namespaces: Namespaces, unprivileged_clone: u64) -> Machine {
    let machine = machine(kernel, landlock, namespaces);
    let settings = NamespaceSettings { unprivileged_clone: Some(unprivileged_clone), ..machine.settings };
    Machine { settings, ..machine }
}

fn ubuntu(kernel: &str, landlock: Landlock, namespaces: Namespaces) -> Machine {
    let machine = debian(kernel, landlock, namespaces, 1);
    let settings = NamespaceSettings { apparmor_restricts: Some(1), ..machine.settings };
    Machine { settings, ..machine }
}

fn container(kernel: &str, landlock: Landlock, environment: Environment) -> Machine {
    Machine { environment, is_filtered: true, ..machine(kernel, landlock, REFUSED) }
}

const OPENS: &str = "as root, after which the programs of all users reach more of the kernel";
const UNCONFINED: &str = "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, which \
                          allows namespaces and all other system calls to every program in it";

/// Its name, the machine, the restriction, and the reason and the help.
type Row = (&'static str, Machine, &'static str, Option<(String, String)>);

/// A machine, the restriction that a required sandbox missed there, and the reason and the help, if anything explains it.
#[allow(clippy::too_many_lines, reason = "a table")]
fn rows() -> Vec<Row> {
    use Environment::{Docker, Gvisor, Kubernetes, Wsl1};
    use Landlock::{Abi, Absent, Denied, Disabled};
    use Namespaces::{Available, NoMounts, NotCreated};
    let refused = |reason: &str, help: &str| Some((reason.to_owned(), help.to_owned()));
    vec![
        (
            "Debian 11, namespaces allowed",
            debian("5.10.0-30-amd64", Absent, Available, 1),
            "files",
            refused(
                "on Linux 5.10.0-30-amd64, there is no Landlock, which came with Linux 5.13",
                "use Linux 5.13 or later with Landlock",
            ),
        ),
        (
            "Debian 11, a user without namespaces",
            debian("5.10.0-30-amd64", Absent, REFUSED, 0),
            "files",
            refused(
                "on Linux 5.10.0-30-amd64, kernel.unprivileged_userns_clone=0 keeps user namespaces from ordinary users, and there \
                 is no Landlock, which came with Linux 5.13",
                &format!(
                    "run `sysctl -w kernel.unprivileged_userns_clone=1` {OPENS}; or use Linux 5.13 or later with Landlock"
                ),
            ),
        ),
        (
            "Debian 12, a user without namespaces",
            debian("6.1.0-18-amd64", Abi(2), REFUSED, 0),
            "signals",
            refused(
                "on Linux 6.1.0-18-amd64, kernel.unprivileged_userns_clone=0 keeps user namespaces from ordinary users, and Landlock \
                 (ABI 2) does not restrict signals",
                &format!(
                    "run `sysctl -w kernel.unprivileged_userns_clone=1` {OPENS}; or use Linux 6.12 or later"
                ),
            ),
        ),
        (
            "Debian 12, where the step has another cause",
            debian("6.1.0-18-amd64", Abi(2), Available, 1),
            "tree",
            None,
        ),
        (
            "Debian 12 with neither",
            Machine {
                settings: NamespaceSettings { max: Some(0), ..NamespaceSettings::default() },
                ..machine("6.1.0-18-amd64", Disabled, NotCreated(Errno::NOSPC))
            },
            "files",
            refused(
                "on Linux 6.1.0-18-amd64, user.max_user_namespaces=0 allows no user namespaces, and Landlock is built in but disabled",
                &format!(
                    "run `sysctl -w user.max_user_namespaces=15000` {OPENS}; or add `landlock` to the list `lsm=` of the kernel's \
                     command line (/sys/kernel/security/lsm has the list as it is) and restart the machine"
                ),
            ),
        ),
        (
            "Ubuntu 24.04, a user, no Landlock in lsm=",
            ubuntu("6.8.0-31-generic", Disabled, NoMounts(Errno::PERM)),
            "files",
            refused(
                "on Linux 6.8.0-31-generic, AppArmor keeps user namespaces from this program \
                 (kernel.apparmor_restrict_unprivileged_userns=1), and Landlock is built in but disabled",
                "as root, load an AppArmor profile that allows user namespaces to this program alone; or add `landlock` to the list \
                 `lsm=` of the kernel's command line (/sys/kernel/security/lsm has the list as it is) and restart the machine",
            ),
        ),
        (
            "Ubuntu 22.04",
            debian("5.15.0-105-generic", Abi(1), Available, 1),
            "files",
            refused(
                "on Linux 5.15.0-105-generic, Landlock (ABI 1) does not restrict files",
                "use Linux 6.12 or later",
            ),
        ),
        (
            "RHEL 9, whose kernel has Landlock disabled, hardened",
            Machine {
                settings: NamespaceSettings { max: Some(0), ..NamespaceSettings::default() },
                ..machine("5.14.0-427.el9.x86_64", Disabled, NotCreated(Errno::NOSPC))
            },
            "files",
            refused(
                "on Linux 5.14.0-427.el9.x86_64, user.max_user_namespaces=0 allows no user namespaces, and Landlock is built in but \
                 disabled",
                &format!(
                    "run `sysctl -w user.max_user_namespaces=15000` {OPENS}; or add `landlock` to the list `lsm=` of the kernel's \
                     command line (/sys/kernel/security/lsm has the list as it is) and restart the machine"
                ),
            ),
        ),
        (
            "Docker on Debian 11",
            container("5.10.0-30-amd64", Absent, Docker),
            "files",
            refused(
                "on Linux 5.10.0-30-amd64 in a Docker container, the container's filter of system calls refuses namespaces, and there \
                 is no Landlock, which came with Linux 5.13",
                &format!("{UNCONFINED}; or use Linux 5.13 or later with Landlock"),
            ),
        ),
        (
            "Docker 20.10, whose filter does not know Landlock",
            container("6.12.0", Denied, Docker),
            "files",
            refused(
                "on Linux 6.12.0 in a Docker container, the container's filter of system calls refuses namespaces, and a filter of \
                 system calls around this program refuses Landlock",
                &format!(
                    "{UNCONFINED}; or use Docker 23 or later, whose default filter allows Landlock on Linux 5.13 and later"
                ),
            ),
        ),
        (
            "Kubernetes, restricted, on an old kernel",
            container("5.10.210-gke", Absent, Kubernetes),
            "files",
            refused(
                "on Linux 5.10.210-gke in a pod of Kubernetes, the container's filter of system calls refuses namespaces, and there \
                 is no Landlock, which came with Linux 5.13",
                "set `seccompProfile: {type: Unconfined}` and `appArmorProfile: {type: Unconfined}` in the securityContext of the pod, \
                 which allows namespaces and all other system calls to every program in it; or use Linux 5.13 or later with Landlock",
            ),
        ),
        (
            "inside another sandbox",
            Machine { is_filtered: true, ..machine("6.12.0", Denied, REFUSED) },
            "files",
            refused(
                "on Linux 6.12.0, a filter of system calls around this program refuses namespaces, and a filter of system calls around \
                 this program refuses Landlock",
                "run it outside of that filter, which may be one of a service (RestrictNamespaces=) or of another sandbox",
            ),
        ),
        (
            "gVisor",
            container("4.4.0", Absent, Gvisor),
            "files",
            refused(
                "on gVisor, namespaces cannot be set up, and there is no Landlock",
                "use skills in Lua, Rhai and WebAssembly, which run here; or start the container with a runtime that uses the kernel of \
                 the machine, such as runc",
            ),
        ),
        (
            "WSL 1",
            Machine {
                environment: Wsl1,
                ..machine("4.4.0-19041-Microsoft", Absent, NotCreated(Errno::INVAL))
            },
            "files",
            refused(
                "on WSL 1, there are no namespaces, and there is no Landlock",
                "use skills in Lua, Rhai and WebAssembly, which run here; or convert the distribution by `wsl --set-version NAME 2`",
            ),
        ),
        ("Linux 6.12 without namespaces", machine("6.12.0", Abi(6), REFUSED), "the network", None),
        ("Linux 6.18", machine("6.18.44", Abi(7), Available), "the network", None),
        (
            "a kernel of one's own",
            Machine { has_seccomp: false, ..machine("6.12.3-custom", Absent, NotCreated(Errno::INVAL)) },
            "local sockets",
            refused(
                "on Linux 6.12.3-custom, system calls cannot be filtered",
                "use a kernel that was built with filters of system calls (CONFIG_SECCOMP_FILTER), on x86-64, arm64 or riscv64",
            ),
        ),
        (
            "a kernel without user namespaces and Landlock",
            machine("6.12.3-custom", Absent, NotCreated(Errno::INVAL)),
            "files",
            refused(
                "on Linux 6.12.3-custom, the kernel was built without user namespaces, and the kernel was built without Landlock",
                "use a kernel that was built with user namespaces (CONFIG_USER_NS); or use a kernel that was built with Landlock \
                 (CONFIG_SECURITY_LANDLOCK)",
            ),
        ),
    ]
}

#[test]
fn every_machine_gets_a_sentence_and_a_way() {
    for (name, machine, restriction, expected) in rows() {
        let refusal = machine.refusal(restriction).map(|refusal| (refusal.reason, refusal.help));
        assert_eq!(refusal, expected, "{name}");
    }
}

/// What a run needs that only namespaces enforce, such as a network with granted hosts only.
#[test]
fn where_only_namespaces_are_missing_the_sentence_is_about_them_alone() {
    let reason = |machine: &Machine| machine.namespace_refusal().map(|refusal| refusal.reason);
    for (machine, expected) in [
        (
            ubuntu("6.14.0-15-generic", Landlock::Abi(6), Namespaces::NoMounts(Errno::PERM)),
            "on Linux 6.14.0-15-generic, AppArmor keeps user namespaces from this program \
             (kernel.apparmor_restrict_unprivileged_userns=1)",
        ),
        (
            container("6.12.0", Landlock::Abi(6), Environment::Docker),
            "on Linux 6.12.0 in a Docker container, the container's filter of system calls refuses namespaces",
        ),
        (
            Machine { is_filtered: true, ..machine("6.12.0", Landlock::Abi(6), REFUSED) },
            "on Linux 6.12.0, a filter of system calls around this program refuses namespaces",
        ),
        (
            Machine {
                environment: Environment::Container,
                ..machine("6.12.0", Landlock::Abi(6), Namespaces::NoMounts(Errno::ACCESS))
            },
            "on Linux 6.12.0 in a container, the container's security profile keeps namespaces from this program",
        ),
        (
            machine("6.12.0", Landlock::Abi(6), Namespaces::NotCreated(Errno::NOSPC)),
            "on Linux 6.12.0, all user namespaces that user.max_user_namespaces allows are in use",
        ),
        (
            machine("6.12.0", Landlock::Abi(6), REFUSED),
            "on Linux 6.12.0, something that cannot be seen from here keeps namespaces from this program, such as a changed root \
             folder or a security module",
        ),
    ] {
        assert_eq!(reason(&machine).as_deref(), Some(expected));
    }
    assert_eq!(reason(&machine("6.12.0", Landlock::Absent, Namespaces::Available)), None);
}

#[test]
fn only_where_apparmor_is_in_the_way_a_profile_helps() {
    let needs_profile = |machine: Machine| machine.refusal("files").unwrap().needs_apparmor_profile;
    let no_mounts = Namespaces::NoMounts(Errno::ACCESS);
    assert!(needs_profile(ubuntu("6.8.0", Landlock::Disabled, no_mounts)));
    assert!(!needs_profile(ubuntu("6.8.0", Landlock::Disabled, Namespaces::Available)));
    assert!(!needs_profile(debian("6.1.0", Landlock::Disabled, REFUSED, 0)));
}

#[test]
fn no_sentence_has_only_a_number_for_an_error() {
    for (name, machine, restriction, _) in rows() {
        let Some(refusal) = machine.refusal(restriction) else { continue };
        assert!(!refusal.reason.contains("os error") && !refusal.help.is_empty(), "{name}");
    }
}
