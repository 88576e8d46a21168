//! The seccomp filter of sandboxed scripts, an allowlist: a call that is not known to stay inside the sandbox does not exist.

pub(in crate::runtimes::sandbox::linux) mod allowlist;
pub(in crate::runtimes::sandbox::linux) mod bpf;

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::sock_filter;
use serde::{Deserialize, Serialize};

use self::allowlist::{ALLOWED_ARCH_CALLS, ALLOWED_CALLS};
use self::bpf::{
    ArgumentRule, SyscallAction, SyscallRule, any_bit_set, compile, differs, equals, masked_equals,
};

/// Calls that no script needs and that reach beyond its files: other processes, the kernel, mounts, keys, System V shared memory,
/// named queues, everybody's disks, and quotas that all programs of the user share.
/// `chmod`, `link` and `rename` are not among them: real programs need them.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_sync,
    libc::SYS_syncfs,
    QUOTACTL_FD,
    PROCESS_MRELEASE,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
];

/// Calls that change what no file rule covers: extended attributes and access lists, of any file the user owns. They also take
/// memory that nobody counts. Programs that copy files expect that some file systems have none.
const UNSUPPORTED: &[i64] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
];

/// Calls that programs try and do without if they answer `ENOSYS`, as every call that is not listed here does.
/// `clone3` hides its flags from filters; the C library falls back to `clone`. Secret memory, and memory given to a pipe by
/// `vmsplice`, is not counted, and a memfd is not while it is in transit through a socket: programs fall back to a
/// file in a folder, and what lies in the sandbox's own `/dev/shm` is counted wherever it is open. The list of mounts is the
/// host's; and all programs of the machine share one number of requests by `io_setup`.
const ABSENT: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
    libc::SYS_vmsplice,
    libc::SYS_io_setup,
    libc::SYS_memfd_create,
    MEMFD_SECRET,
    STATMOUNT,
    LISTMOUNT,
];

/// Calls that have the same number on every architecture, but a name in `libc` on few.
const QUOTACTL_FD: i64 = 443;
const PROCESS_MRELEASE: i64 = 448;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const MEMFD_SECRET: i64 = 447;
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;

const NAMESPACE_FLAGS: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    0x80, // CLONE_NEWTIME
];

/// Calls with the index of the argument that says whose limits, priority or processors are meant: the caller's own, which is 0.
/// Threads that name themselves by their id are refused as well; no program we know minds.
const SELF_ONLY_CALLS: [(i64, u8); 7] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// In some of them 0 may also mean the user, with all their processes: the call, and the first argument that says so.
const USER_WIDE_CALLS: [(i64, u32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Socket families that a script with network may use; never Unix sockets, behind which services of the user listen.
const ALLOWED_SOCKET_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE_MASK: u32 = 0xf;

const PR_SET_DUMPABLE: u32 = libc::PR_SET_DUMPABLE.cast_unsigned();

/// Which processes share a processor core (core scheduling), and how a process looks from outside.
const REFUSED_PRCTL_OPTIONS: [u32; 2] = [62, libc::PR_SET_MM.cast_unsigned()]; // PR_SCHED_CORE

/// Landlock rules for ports, which nobody counts; there can be no more rules for files than there are files.
const LANDLOCK_RULE_NET_PORT: u32 = 2;

/// The allowed `fcntl` commands: they copy and describe descriptors, lock and seal. The others affect other processes: a lease
/// makes whoever opens a file wait for its holder, and changes of a folder or of readiness send signals; or they use up what the
/// user has: the pages of pipes.
const ALLOWED_FCNTL_COMMANDS: [u32; 22] = [
    0, 1, 2, 3, 4, // F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL
    5, 6, 7, // F_GETLK, F_SETLK, F_SETLKW
    9, 11, 16, // F_GETOWN, F_GETSIG, F_GETOWN_EX
    36, 37, 38, // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
    1025, 1027, 1028, // F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY
    1030, 1032, // F_DUPFD_CLOEXEC, F_GETPIPE_SZ
    1033, 1034, 1035, // F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT
];

/// The allowed `ioctl` requests. Every driver and file system has requests of its own, many of which change a file or a disk
/// through a read-only descriptor: flags, attributes, volumes.
const ALLOWED_IOCTLS: [u32; 34] = [
    0x5401,
    0x802c_542a,
    0x5413,
    0x540f,
    0x5410,
    0x5429, // TCGETS, TCGETS2, TIOCGWINSZ, TIOCGPGRP, TIOCSPGRP, TIOCGSID
    0x5411,
    0x541b,
    0x5421,
    0x5450,
    0x5451, // TIOCOUTQ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    0x5460,
    2,
    0x8008_6601,
    0x8008_7601, // FIOQSIZE, FIGETBSZ, FS_IOC_GETFLAGS, FS_IOC_GETVERSION
    0x801c_581f,
    0xc020_660b, // FS_IOC_FSGETXATTR, FS_IOC_FIEMAP
    0x4004_9409,
    0x4020_940d, // FICLONE, FICLONERANGE
    0x8004_5200,
    0x8905,
    0x8906,
    0x8907, // RNDGETENTCNT, SIOCATMARK, SIOCGSTAMP, SIOCGSTAMPNS
    0x8910,
    0x8912,
    0x8913,
    0x8915, // SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR
    0x8917,
    0x8919,
    0x891b,
    0x8921, // SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMTU
    0x8927,
    0x8933,
    0x8942, // SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN
];

/// The `AUDIT_ARCH` value by which a filter recognises the architecture it was compiled for.
const AUDIT_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};

/// A compiled seccomp filter.
pub(in crate::runtimes::sandbox::linux) struct SeccompFilter(Vec<sock_filter>);

/// The options in which filters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtimes::sandbox::linux) struct SeccompOptions {
    /// Whether the network is blocked.
    pub(in crate::runtimes::sandbox::linux) block_network: bool,
    /// Whether whole files may be locked (`flock`), which needs no right to write to them.
    pub(in crate::runtimes::sandbox::linux) allow_flock: bool,
}

/// One filter for each combination.
static FILTERS: [OnceLock<SeccompFilter>; 4] = [const { OnceLock::new() }; 4];

impl SeccompFilter {
    /// The filter of a script, compiled once: processes forked from this one inherit it.
    /// `Unsupported` on architectures whose calls have not been reviewed.
    pub(in crate::runtimes::sandbox::linux) fn cached(calls: SeccompOptions) -> io::Result<&'static Self> {
        let machine = AUDIT_ARCH.ok_or(io::ErrorKind::Unsupported)?;
        let made = || Self(compile(syscall_rules(calls), machine));
        let number = usize::from(calls.block_network) + 2 * usize::from(calls.allow_flock);
        Ok(FILTERS[number].get_or_init(made))
    }

    /// Filters the calls of this process and of whatever it starts. It refuses none of the calls still needed before the program
    /// is executed.
    pub(in crate::runtimes::sandbox::linux) fn apply(&self) -> io::Result<()> {
        seccompiler::apply_filter(&self.0).map_err(io::Error::other)
    }
}

fn syscall_rules(calls: SeccompOptions) -> Vec<SyscallRule> {
    let mut answers: BTreeMap<i64, SyscallAction> = BTreeMap::new();
    let mut answer = |calls: &[i64], answer: &SyscallAction| {
        answers.extend(calls.iter().map(|call| (*call, answer.clone())));
    };
    answer(ALLOWED_CALLS, &SyscallAction::Allow);
    answer(ALLOWED_ARCH_CALLS, &SyscallAction::Allow);
    answer(REFUSED, &SyscallAction::Errno(libc::EPERM));
    answer(UNSUPPORTED, &SyscallAction::Errno(libc::EOPNOTSUPP));
    answer(ABSENT, &SyscallAction::Errno(libc::ENOSYS));
    if !calls.allow_flock {
        // As on a file system without locks, for which programs are prepared: those that can do without continue, the
        // others report it. A lock that is granted but not held would be worse than none.
        answer(&[libc::SYS_flock], &SyscallAction::Errno(libc::ENOSYS));
    }
    for (call, rules, errno) in argument_rules(calls.block_network) {
        answer(&[call], &SyscallAction::ErrnoIf(rules, errno));
    }
    // Every syscall number is small.
    let row = |(call, answer)| Some(SyscallRule { number: u32::try_from(call).ok()?, action: answer });
    answers.into_iter().filter_map(row).collect()
}

/// Calls, the rules by which they are refused, and the error.
fn argument_rules(shut_network: bool) -> Vec<(i64, Vec<ArgumentRule>, libc::c_int)> {
    let mut calls: BTreeMap<i64, Vec<ArgumentRule>> = BTreeMap::new();
    let sockets = if shut_network {
        vec![Vec::new()]
    } else {
        let not_open = ALLOWED_SOCKET_FAMILIES.map(|open| differs(0, open.cast_unsigned())).to_vec();
        // Of the kernel's netlink families, addresses and routes are enough.
        vec![not_open, vec![equals(0, libc::AF_NETLINK.cast_unsigned()), differs(2, 0)]]
    };
    calls.insert(libc::SYS_socket, sockets);
    // The two ends of a stream belong together. A datagram end may send to any socket by its path.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| vec![masked_equals(1, SOCKET_TYPE_MASK, kind.cast_unsigned())]);
    let mut pairs = vec![vec![differs(0, libc::AF_UNIX.cast_unsigned())]];
    pairs.extend(datagrams);
    calls.insert(libc::SYS_socketpair, pairs);
    let any_namespace = NAMESPACE_FLAGS.into_iter().fold(0, |all, flag| all | flag.cast_unsigned());
    let mut clones = vec![vec![any_bit_set(0, any_namespace)]];
    // The open files of a process are read from one of its threads.
    let [thread, files] = [libc::CLONE_THREAD, libc::CLONE_FILES].map(libc::c_int::cast_unsigned);
    clones.push(vec![masked_equals(0, thread | files, thread)]);
    calls.insert(libc::SYS_clone, clones);
    for (call, whose) in SELF_ONLY_CALLS {
        calls.entry(call).or_default().push(vec![differs(whose, 0)]);
    }
    for (call, user) in USER_WIDE_CALLS {
        calls.entry(call).or_default().push(vec![equals(0, user)]);
    }
    // The supervisor cannot count the memory of a process that is not dumpable.
    let mut process = vec![vec![equals(0, PR_SET_DUMPABLE), differs(1, 1)]];
    process.extend(REFUSED_PRCTL_OPTIONS.map(|option| vec![equals(0, option)]));
    calls.insert(libc::SYS_prctl, process);
    calls.insert(libc::SYS_landlock_add_rule, vec![vec![equals(1, LANDLOCK_RULE_NET_PORT)]]);
    // A socket with `SO_LINGER` delays whoever closes it last. A script could make its host do that by sending it one: on a
    // connection that it accepts, one it refuses, or one that nobody reads any more. No other file that a sandbox can have closes
    // slowly, so refusing this at its source means that closing needs no thread of its own.
    let of_sockets = |option: libc::c_int| {
        vec![equals(1, libc::SOL_SOCKET.cast_unsigned()), equals(2, option.cast_unsigned())]
    };
    let mut options = vec![of_sockets(libc::SO_LINGER)];
    if shut_network {
        // Unread data is counted by the default size of socket buffers, so nobody may ask for more.
        options.extend([of_sockets(libc::SO_SNDBUF), of_sockets(libc::SO_SNDBUFFORCE)]);
    }
    calls.insert(libc::SYS_setsockopt, options);
    calls.insert(libc::SYS_fcntl, vec![ALLOWED_FCNTL_COMMANDS.map(|command| differs(1, command)).to_vec()]);
    let restricted = calls.into_iter().map(|(call, rules)| (call, rules, libc::EPERM));
    // The kernel compares 32 bits of a request, and so does a rule.
    let requests = vec![ALLOWED_IOCTLS.map(|request| differs(1, request)).to_vec()];
    // As an older kernel answers, which does not know the flag.
    let unshared = vec![vec![masked_equals(2, libc::CLOSE_RANGE_UNSHARE, libc::CLOSE_RANGE_UNSHARE)]];
    let others = [(libc::SYS_ioctl, requests, libc::ENOTTY), (libc::SYS_close_range, unshared, libc::EINVAL)];
    restricted.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::bpf::tests::evaluate;
    use super::*;

    const ALL: [SeccompOptions; 4] = [
        SeccompOptions { block_network: true, allow_flock: true },
        SeccompOptions { block_network: true, allow_flock: false },
        SeccompOptions { block_network: false, allow_flock: true },
        SeccompOptions { block_network: false, allow_flock: false },
    ];

    /// A jump over a rule has an offset of one byte.
    #[test]
    fn no_row_is_long() {
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

    /// What the filter returns to a script that makes this call.
    fn answer(calls: SeccompOptions, number: libc::c_long, arguments: [u32; 3]) -> u32 {
        let program = &SeccompFilter::cached(calls).unwrap().0;
        evaluate(program, AUDIT_ARCH.unwrap(), u32::try_from(number).unwrap(), arguments)
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
            let lock = if calls.allow_flock { ALLOW } else { ENOSYS };
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
            for (family, protocol, is_open) in [
                (libc::AF_INET, 6, true),
                (libc::AF_INET6, 17, true),
                (libc::AF_NETLINK, 0, true),
                (libc::AF_NETLINK, 9, false),
                (libc::AF_UNIX, 0, false),
                (libc::AF_PACKET, 0, false),
                (libc::AF_VSOCK, 0, false),
                (libc::AF_ALG, 0, false),
            ] {
                let is_refused = refused(libc::SYS_socket, [bits(family), 1, protocol]);
                assert_eq!(is_refused, calls.block_network || !is_open, "{family} {protocol} {calls:?}");
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
                assert_eq!(is_refused, calls.block_network, "{option}");
            }
        }
    }

    /// The kernel rejects a filter that grows too large.
    #[test]
    fn the_kernel_takes_every_filter() {
        for calls in ALL {
            let length = SeccompFilter::cached(calls).unwrap().0.len();
            assert!(length < 4096, "{length}");
        }
    }
}
