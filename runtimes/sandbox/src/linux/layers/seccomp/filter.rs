//! The compiled filter: one program for each combination of options.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use seccompiler::sock_filter;

use super::bpf::compile;
use super::rules::{KernelGaps, SeccompOptions, syscall_rules};
use crate::linux::sys;

/// The `AUDIT_ARCH` value by which a filter recognises the architecture it was compiled for.
pub(super) const AUDIT_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};

/// A compiled seccomp filter.
pub(crate) struct SeccompFilter(Vec<sock_filter>);

/// One filter for each combination.
static FILTERS: [OnceLock<SeccompFilter>; 96] = [const { OnceLock::new() }; 96];

impl SeccompFilter {
    /// The filter of a script, compiled once: processes forked from this one inherit it.
    /// `Unsupported` on architectures whose calls have not been reviewed.
    pub(crate) fn cached(options: SeccompOptions) -> io::Result<&'static Self> {
        let machine = AUDIT_ARCH.ok_or(io::ErrorKind::Unsupported)?;
        let compiled = || Self(compile(syscall_rules(options), machine));
        Ok(FILTERS[Self::index(options)].get_or_init(compiled))
    }

    fn index(options: SeccompOptions) -> usize {
        let SeccompOptions { network, allow_flock, local_sockets, is_watched, gaps } = options;
        let KernelGaps { truncation, signals } = gaps;
        let switches =
            [allow_flock, local_sockets, is_watched, truncation, signals].into_iter().map(usize::from);
        switches.fold(network as usize, |index, switch| 2 * index + switch)
    }

    /// A filter that was compiled.
    pub(super) fn new(program: Vec<sock_filter>) -> Self {
        Self(program)
    }

    /// Whether the calls of this architecture have been reviewed.
    pub(crate) const fn is_supported() -> bool {
        AUDIT_ARCH.is_some()
    }

    /// Filters the calls of this process and of whatever it starts. It refuses none of the calls still needed before the program
    /// is executed.
    pub(crate) fn apply(&self) -> io::Result<()> {
        seccompiler::apply_filter(&self.0).map_err(io::Error::other)
    }

    /// The same, where the supervisor answers some of the calls: returns the descriptor from which it does. The process must have
    /// given up new privileges.
    pub(crate) fn apply_with_listener(&self) -> io::Result<OwnedFd> {
        sys::apply_filter_with_listener(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::super::allowlist::{ALLOWED_ARCH_CALLS, ALLOWED_CALLS};
    use super::super::bpf::SyscallAction;
    use super::super::bpf::tests::evaluate;
    use super::super::rules::{ABSENT, REFUSED, UNSUPPORTED};
    use super::*;
    use crate::NetworkAccess;

    const fn options(network: NetworkAccess, allow_flock: bool) -> SeccompOptions {
        let gaps = KernelGaps { truncation: false, signals: false };
        SeccompOptions { network, allow_flock, local_sockets: false, is_watched: false, gaps }
    }

    const ALL: [SeccompOptions; 6] = [
        options(NetworkAccess::Blocked, true),
        options(NetworkAccess::Blocked, false),
        options(NetworkAccess::Hosts, true),
        options(NetworkAccess::Hosts, false),
        options(NetworkAccess::Open, true),
        options(NetworkAccess::Open, false),
    ];

    /// The same on an older kernel.
    fn with_gaps(gaps: KernelGaps) -> impl Iterator<Item = SeccompOptions> {
        ALL.into_iter().map(move |calls| SeccompOptions { gaps, ..calls })
    }

    #[test]
    fn each_combination_has_a_filter_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for (truncation, signals) in [(false, false), (false, true), (true, false), (true, true)] {
            for calls in with_gaps(KernelGaps { truncation, signals }) {
                for (local_sockets, is_watched) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let calls = SeccompOptions { local_sockets, is_watched, ..calls };
                    assert!(seen.insert(SeccompFilter::index(calls)), "{calls:?}");
                }
            }
        }
        assert_eq!(seen.last(), Some(&(FILTERS.len() - 1)));
    }

    #[test]
    fn a_file_cannot_be_truncated_where_the_kernel_would_let_it() {
        let bits = |flags: libc::c_int| flags.cast_unsigned();
        for calls in with_gaps(KernelGaps { truncation: true, signals: false }) {
            assert_eq!(answer(calls, libc::SYS_truncate, [0; 3]), EPERM);
            assert_eq!(answer(calls, libc::SYS_ftruncate, [0; 3]), ALLOW);
            assert_eq!(answer(calls, libc::SYS_openat2, [0; 3]), ENOSYS);
            for (flags, expected) in [
                (libc::O_RDONLY | libc::O_TRUNC, EPERM),
                (libc::O_ACCMODE | libc::O_TRUNC | libc::O_CLOEXEC, EPERM),
                (libc::O_CREAT | libc::O_TRUNC, EPERM),
                (libc::O_WRONLY | libc::O_TRUNC, ALLOW),
                (libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT, ALLOW),
                (libc::O_RDONLY, ALLOW),
                (libc::O_ACCMODE, ALLOW),
            ] {
                assert_eq!(answer(calls, libc::SYS_openat, [0, 0, bits(flags)]), expected, "{flags:o}");
                #[cfg(target_arch = "x86_64")]
                assert_eq!(answer(calls, libc::SYS_open, [0, bits(flags), 0]), expected, "{flags:o}");
            }
        }
    }

    #[test]
    fn the_supervisor_decides_on_signals_where_the_kernel_lets_them_out() {
        let notify = libc::SECCOMP_RET_USER_NOTIF;
        for calls in with_gaps(KernelGaps { truncation: false, signals: true }) {
            for call in [
                libc::SYS_kill,
                libc::SYS_tkill,
                libc::SYS_tgkill,
                libc::SYS_rt_sigqueueinfo,
                libc::SYS_rt_tgsigqueueinfo,
            ] {
                assert_eq!(answer(calls, call, [0; 3]), notify, "{call}");
            }
            assert_eq!(answer(calls, libc::SYS_pidfd_send_signal, [0; 3]), EPERM);
            assert_eq!(answer(calls, libc::SYS_pidfd_open, [0; 3]), ALLOW);
        }
    }

    /// A jump over a rule has an offset of one byte.
    #[test]
    fn no_rule_is_long() {
        for row in ALL.into_iter().flat_map(syscall_rules) {
            if let SyscallAction::ErrnoIf(rules, _) = row.action {
                let conditions: usize = rules.iter().map(|rule| 1 + 3 * rule.len()).sum();
                assert!(conditions < 200, "{}", row.number);
            }
        }
    }

    #[test]
    fn no_call_is_in_two_lists() {
        let mut seen = std::collections::BTreeSet::new();
        for call in [ALLOWED_CALLS, ALLOWED_ARCH_CALLS, REFUSED, UNSUPPORTED, ABSENT].into_iter().flatten() {
            assert!(seen.insert(call), "{call}");
        }
    }

    const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    const ENOTTY: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOTTY.cast_unsigned();
    const EOPNOTSUPP: u32 = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP.cast_unsigned();
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    /// The filter, compiled once for each thread: other tests fork this process, and their copies would wait for a lock of the cache
    /// that nobody gives back.
    fn program(calls: SeccompOptions) -> Rc<Vec<sock_filter>> {
        thread_local! {
            static PROGRAMS: RefCell<BTreeMap<usize, Rc<Vec<sock_filter>>>> = RefCell::default();
        }
        let compiled = || Rc::new(compile(syscall_rules(calls), AUDIT_ARCH.unwrap()));
        PROGRAMS
            .with_borrow_mut(|all| Rc::clone(all.entry(SeccompFilter::index(calls)).or_insert_with(compiled)))
    }

    /// What the filter returns to a script that makes this call.
    fn answer(calls: SeccompOptions, number: libc::c_long, arguments: [u32; 3]) -> u32 {
        evaluate(&program(calls), AUDIT_ARCH.unwrap(), u32::try_from(number).unwrap(), &arguments)
    }

    /// The calls here are not taken from the lists above, so that a rule missing there is detected here.
    #[test]
    #[rustfmt::skip]
    fn what_leads_out_is_refused_whatever_a_script_was_granted() {
        let refused = [
            // Other processes.
            libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
            libc::SYS_pidfd_getfd, libc::SYS_kcmp, libc::SYS_move_pages, libc::SYS_migrate_pages, 448,
            // The kernel, and what it stores for all.
            libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_add_key, libc::SYS_request_key,
            libc::SYS_keyctl, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module,
            libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_reboot, libc::SYS_syslog, libc::SYS_acct,
            libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, 443, libc::SYS_vhangup, libc::SYS_nfsservctl,
            libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime,
            libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_sync, libc::SYS_syncfs,
            // Other files and mounts.
            libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_open_tree,
            libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick,
            libc::SYS_mount_setattr, libc::SYS_setns, libc::SYS_unshare, libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at, libc::SYS_fanotify_init, libc::SYS_fanotify_mark,
            libc::SYS_inotify_init1, libc::SYS_inotify_add_watch,
            // Objects shared by number or by name.
            libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_semget, libc::SYS_semop, libc::SYS_semctl,
            libc::SYS_semtimedop, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv, libc::SYS_msgctl,
            libc::SYS_mq_open, libc::SYS_mq_unlink,
        ];
        let unsupported = [
            libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr,
            libc::SYS_lremovexattr, libc::SYS_fremovexattr, 463, 466,
        ];
        let absent = [
            libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_clone3,
            libc::SYS_vmsplice, libc::SYS_io_setup, libc::SYS_memfd_create, 447, 457, 458, 467, 468, 469, 470, 1000, 4095,
        ];
        #[cfg(target_arch = "x86_64")]
        let of_this_machine = [
            libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_inotify_init,
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let of_this_machine = [];
        for calls in ALL {
            for (numbers, expected) in [
                (&refused[..], EPERM),
                (&of_this_machine, EPERM),
                (&unsupported, EOPNOTSUPP),
                (&absent, ENOSYS),
            ] {
                for number in numbers {
                    assert_eq!(answer(calls, *number, [0; 3]), expected, "{number} {calls:?}");
                }
            }
            let notify = libc::SECCOMP_RET_USER_NOTIF;
            let refused = if calls.local_sockets { notify } else { ENOSYS };
            let lock = if calls.allow_flock { ALLOW } else { refused };
            assert_eq!(answer(calls, libc::SYS_flock, [3, 2, 0]), lock);
        }
    }

    #[test]
    fn commands_and_requests_are_those_that_reach_nobody_else() {
        for calls in ALL {
            let commands: Vec<u32> = (0..2048)
                .filter(|command| answer(calls, libc::SYS_fcntl, [3, *command, 0]) == ALLOW)
                .collect();
            // Copying, describing, locking and sealing: no lease, no signal, no pipe size.
            let harmless = [
                0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 36, 37, 38, 1025, 1027, 1028, 1030, 1032, 1033, 1034, 1035,
            ];
            assert_eq!(commands, harmless);
            // Queries about terminals and files, and nothing that changes them.
            for request in [
                0x5402,
                0x5408,
                0x540e,
                0x5412,
                0x541c,
                0x541d,
                0x5422,
                0x5423,
                0x5452,
                0x8901,
                0x8902,
                0x8914,
                0x8916,
                0x4004_6602,
                0x4008_6602,
                0x4008_7602,
                0x401c_5820,
                0x4080_6685,
                0x5000_940e,
                0x800c_6613,
                0xc004_5877,
                0xc018_5879,
                0xc028_660f,
                0x4004_6629,
                1,
            ] {
                assert_eq!(answer(calls, libc::SYS_ioctl, [3, request, 0]), ENOTTY, "{request:x}");
            }
            for request in [0x5401, 0x5413, 0x541b, 0x5421, 0x8008_6601] {
                assert_eq!(answer(calls, libc::SYS_ioctl, [3, request, 0]), ALLOW, "{request:x}");
            }
        }
    }

    #[test]
    fn arguments_decide_where_a_call_is_needed_and_leads_out_as_well() {
        let unix = libc::AF_UNIX.cast_unsigned();
        let socket = libc::SOL_SOCKET.cast_unsigned();
        let bits = |flags: libc::c_int| flags.cast_unsigned();
        for calls in ALL {
            let refused = |number, arguments| answer(calls, number, arguments) == EPERM;
            for namespace in [
                0x0002_0000,
                0x0200_0000,
                0x0400_0000,
                0x0800_0000,
                0x1000_0000,
                0x2000_0000,
                0x4000_0000,
                0x80,
            ] {
                assert!(refused(libc::SYS_clone, [namespace | 0x11, 0, 0]), "{namespace:x}");
            }
            assert!(!refused(libc::SYS_clone, [0x003d_0f00, 0, 0]), "a thread");
            assert!(refused(libc::SYS_clone, [0x003d_0b00, 0, 0]), "a thread with files of its own");
            let unshared = answer(calls, libc::SYS_close_range, [3, 9, 2]);
            assert_eq!(unshared, libc::SECCOMP_RET_ERRNO | libc::EINVAL.cast_unsigned());
            assert_eq!(answer(calls, libc::SYS_close_range, [3, 9, 4]), ALLOW);
            for (pair, kind, is_refused) in [
                (unix, libc::SOCK_STREAM, false),
                (unix, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, false),
                (unix, libc::SOCK_DGRAM, true),
                (unix, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, true),
                (unix, libc::SOCK_RAW, true),
                (bits(libc::AF_INET), libc::SOCK_STREAM, true),
            ] {
                assert_eq!(refused(libc::SYS_socketpair, [pair, bits(kind), 0]), is_refused, "{pair} {kind}");
            }
            // Each with whether it is there with the network open, and where only granted hosts are.
            for (family, kind, protocol, is_open, has_hosts) in [
                (libc::AF_INET, 1, 6, true, true),
                (libc::AF_INET, 1, 0, true, true),
                (libc::AF_INET6, 2 | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 17, true, true),
                (libc::AF_INET, libc::SOCK_RAW, 1, true, false),
                (libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 6, true, false),
                (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP, true, false),
                (libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP, true, false),
                (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP, true, false),
                (libc::AF_NETLINK, libc::SOCK_RAW, 0, true, false),
                (libc::AF_NETLINK, libc::SOCK_DGRAM, 0, true, false),
                (libc::AF_NETLINK, 1, 9, false, false),
                (libc::AF_UNIX, 1, 0, false, false),
                (libc::AF_PACKET, 1, 0, false, false),
                (libc::AF_VSOCK, 1, 0, false, false),
                (libc::AF_ALG, 1, 0, false, false),
            ] {
                let is_refused = refused(libc::SYS_socket, [bits(family), bits(kind), bits(protocol)]);
                let is_there = match calls.network {
                    NetworkAccess::Blocked => false,
                    NetworkAccess::Hosts => has_hosts,
                    NetworkAccess::Open => is_open,
                };
                assert_eq!(is_refused, !is_there, "{family} {kind} {protocol} {calls:?}");
            }
            for (number, own, others) in [
                (libc::SYS_prlimit64, [0, 7, 0], [4, 7, 0]),
                (libc::SYS_setpriority, [0, 0, 1], [0, 4, 1]),
                (libc::SYS_ioprio_set, [1, 0, 0], [1, 4, 0]),
                (libc::SYS_sched_setaffinity, [0, 8, 0], [4, 8, 0]),
                (libc::SYS_sched_setscheduler, [0, 0, 0], [4, 0, 0]),
                (libc::SYS_sched_setparam, [0, 0, 0], [4, 0, 0]),
                (libc::SYS_sched_setattr, [0, 0, 0], [4, 0, 0]),
                // Of the user, which is 0 as well.
                (libc::SYS_setpriority, [1, 0, 1], [2, 0, 1]),
                (libc::SYS_ioprio_set, [2, 0, 0], [3, 0, 0]),
                (libc::SYS_prctl, [4, 1, 0], [4, 0, 0]),
                (libc::SYS_prctl, [15, 0, 0], [35, 0, 0]),
                (libc::SYS_prctl, [38, 1, 0], [62, 0, 0]),
                (libc::SYS_landlock_add_rule, [3, 1, 0], [3, 2, 0]),
                (
                    libc::SYS_setsockopt,
                    [3, socket, bits(libc::SO_RCVTIMEO)],
                    [3, socket, bits(libc::SO_LINGER)],
                ),
            ] {
                assert!(!refused(number, own), "{number} {own:?}");
                assert!(refused(number, others), "{number} {others:?}");
            }
            for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
                let is_refused = refused(libc::SYS_setsockopt, [3, socket, bits(option)]);
                assert_eq!(is_refused, calls.network == NetworkAccess::Blocked, "{option}");
            }
        }
    }

    #[test]
    fn streams_of_the_script_are_the_only_local_sockets() {
        for network in [NetworkAccess::Blocked, NetworkAccess::Hosts] {
            let calls = SeccompOptions { local_sockets: true, ..options(network, true) };
            assert_eq!(answer(calls, libc::SYS_connect, [3, 0, 16]), libc::SECCOMP_RET_USER_NOTIF);
            let has_hosts = network == NetworkAccess::Hosts;
            for (family, kind, protocol, is_there) in [
                (libc::AF_UNIX, libc::SOCK_STREAM, 0, true),
                (libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, true),
                (libc::AF_UNIX, libc::SOCK_DGRAM, 0, false),
                (libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0, false),
                (libc::AF_UNIX, libc::SOCK_RAW, 0, false),
                (libc::AF_INET, libc::SOCK_STREAM, 0, has_hosts),
                (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP, has_hosts),
                (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP, false),
                (libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP, false),
                (libc::AF_INET, libc::SOCK_SEQPACKET, 0, false),
                (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6, false),
                (libc::AF_NETLINK, libc::SOCK_RAW, 0, false),
                (libc::AF_VSOCK, libc::SOCK_STREAM, 0, false),
                (libc::AF_PACKET, libc::SOCK_RAW, 0, false),
                (libc::AF_ALG, libc::SOCK_SEQPACKET, 0, false),
                (libc::AF_BLUETOOTH, libc::SOCK_STREAM, 3, false),
            ] {
                let arguments = [family, kind, protocol].map(libc::c_int::cast_unsigned);
                let is_allowed = answer(calls, libc::SYS_socket, arguments) == ALLOW;
                assert_eq!(is_allowed, is_there, "{family} {kind} {protocol} {calls:?}");
            }
        }
    }

    #[test]
    fn a_watched_run_is_refused_the_same_calls() {
        let notify = libc::SECCOMP_RET_USER_NOTIF;
        let samples: [&[u32; 6]; 4] =
            [&[0; 6], &[0, 0, 0o1000, 0, 0, 0], &[0, 0o1000, 0, 0, 0, 0], &[u32::MAX; 6]];
        let arguments = || (0..6).flat_map(|index| [1, 0x1000, 0x0200_0000].map(|bits| (index, bits)));
        for gaps in [(false, false), (true, true)] {
            let gaps = KernelGaps { truncation: gaps.0, signals: gaps.1 };
            for calls in with_gaps(gaps) {
                let watched = SeccompOptions { is_watched: true, ..calls };
                let [plain, watched] = [calls, watched].map(program);
                let mut observed = 0;
                for number in 0..500 {
                    let more = arguments()
                        .map(|(index, bits)| std::array::from_fn(|at| if at == index { bits } else { 0 }));
                    for arguments in samples.iter().map(|sample| **sample).chain(more) {
                        let [plain, watched] = [&plain, &watched]
                            .map(|program| evaluate(program, AUDIT_ARCH.unwrap(), number, &arguments));
                        let is_observed = plain == ALLOW && watched == notify;
                        observed += usize::from(is_observed);
                        assert!(is_observed || plain == watched, "{number} {arguments:?}");
                    }
                }
                assert!(observed > 100);
            }
        }
    }

    #[test]
    fn only_a_watched_run_is_stopped_at_a_path() {
        for calls in ALL {
            let watched = SeccompOptions { is_watched: true, ..calls };
            for call in [libc::SYS_openat, libc::SYS_openat2, libc::SYS_execve, libc::SYS_unlinkat] {
                assert_eq!(answer(calls, call, [0; 3]), ALLOW, "{call}");
                assert_eq!(answer(watched, call, [0; 3]), libc::SECCOMP_RET_USER_NOTIF, "{call}");
            }
            let empty_path = [0, 0, libc::AT_EMPTY_PATH.cast_unsigned()];
            assert_eq!(answer(watched, libc::SYS_statx, empty_path), ALLOW, "of a descriptor");
            for call in [libc::SYS_read, libc::SYS_write, libc::SYS_fstat, libc::SYS_mmap, libc::SYS_close] {
                assert_eq!(answer(watched, call, [0; 3]), ALLOW, "{call}");
            }
        }
    }

    /// The kernel rejects a filter that grows too large.
    #[test]
    fn the_kernel_takes_every_filter() {
        for calls in ALL.into_iter().flat_map(|calls| [calls, SeccompOptions { is_watched: true, ..calls }]) {
            let length = program(calls).len();
            assert!(length < 4096, "{length}");
        }
    }
}
