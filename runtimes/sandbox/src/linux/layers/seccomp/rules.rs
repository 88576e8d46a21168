//! What each system call returns to a script, by number and arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allowlist::{ALLOWED_ARCH_CALLS, ALLOWED_CALLS};
use super::bpf::{
    ArgumentRule, SyscallAction, SyscallRule, any_bit_set, differs, equals, masked_differs, masked_equals,
};
use crate::NetworkAccess;
use crate::linux::observed_calls;
use crate::linux::observed_calls::ObservedCall;

/// The options in which filters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeccompOptions {
    /// Which sockets may be created.
    pub(crate) network: NetworkAccess,
    /// Whether whole files may be locked (`flock`), which needs no right to write to them.
    pub(crate) allow_flock: bool,
    /// Whether streams of the script's own may have names, to which the supervisor connects.
    pub(crate) local_sockets: bool,
    /// Whether the supervisor observes the calls that name a path.
    pub(crate) is_watched: bool,
    /// What nothing else keeps inside on this kernel.
    pub(crate) gaps: KernelGaps,
}

/// What an older Landlock does not restrict, and the filter does in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KernelGaps {
    /// Files can be truncated by whoever may write to them by their mode.
    pub(crate) truncation: bool,
    /// Every process of the user can be signalled.
    pub(crate) signals: bool,
}

impl SeccompOptions {
    /// Whether the supervisor answers some of the calls.
    pub(crate) fn has_listener(self) -> bool {
        self.local_sockets || self.is_watched || self.gaps.signals
    }
}

/// Calls that send a signal, about which the supervisor decides where the kernel does not.
const SIGNAL_CALLS: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Calls with the index of their flags that truncate what they open.
const OPEN_CALLS: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Calls that no script needs and that reach beyond its files: other processes, the kernel, mounts, keys, System V shared memory,
/// named queues, everybody's disks, and quotas that all programs of the user share.
/// `chmod`, `link` and `rename` are not among them: real programs need them.
pub(super) const REFUSED: &[i64] = &[
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
pub(super) const UNSUPPORTED: &[i64] = &[
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
pub(super) const ABSENT: &[i64] = &[
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
const INTERNET_FAMILIES: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];

/// The types and protocols of sockets for a script that reaches granted hosts only: streams and datagrams.
const HOSTS_SOCKET_TYPES: [libc::c_int; 2] = [libc::SOCK_STREAM, libc::SOCK_DGRAM];
const HOSTS_PROTOCOLS: [libc::c_int; 3] = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];

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

/// The rule for each call that exists.
pub(super) fn syscall_rules(options: SeccompOptions) -> Vec<SyscallRule> {
    let mut actions: BTreeMap<i64, SyscallAction> = BTreeMap::new();
    let mut set_action = |calls: &[i64], action: &SyscallAction| {
        actions.extend(calls.iter().map(|call| (*call, action.clone())));
    };
    set_action(ALLOWED_CALLS, &SyscallAction::Allow);
    set_action(ALLOWED_ARCH_CALLS, &SyscallAction::Allow);
    set_action(REFUSED, &SyscallAction::Errno(libc::EPERM));
    set_action(UNSUPPORTED, &SyscallAction::Errno(libc::EOPNOTSUPP));
    set_action(ABSENT, &SyscallAction::Errno(libc::ENOSYS));
    if !options.allow_flock {
        // As on a file system without locks, for which programs are prepared: those that can do without continue, the
        // others report it. A lock that is granted but not held would be worse than none. The supervisor, where it answers calls on
        // the run's own files, locks those.
        let refused = SyscallAction::Errno(libc::ENOSYS);
        let action = if options.local_sockets { SyscallAction::Notify } else { refused };
        set_action(&[libc::SYS_flock], &action);
    }
    if options.gaps.truncation {
        set_action(&[libc::SYS_truncate], &SyscallAction::Errno(libc::EPERM));
        // Its flags are in memory, which a filter does not see.
        set_action(&[libc::SYS_openat2], &SyscallAction::Errno(libc::ENOSYS));
        for (call, flags) in OPEN_CALLS {
            set_action(&[*call], &SyscallAction::ErrnoIf(unseen_truncation(*flags), libc::EPERM));
        }
    }
    if options.gaps.signals {
        set_action(SIGNAL_CALLS, &SyscallAction::Notify);
        // What a handle leads to is not among the arguments.
        set_action(&[libc::SYS_pidfd_send_signal], &SyscallAction::Errno(libc::EPERM));
    }
    if options.local_sockets {
        set_action(&[libc::SYS_connect], &SyscallAction::Notify);
    }
    for (call, rules, errno) in argument_rules(options) {
        set_action(&[call], &SyscallAction::ErrnoIf(rules, errno));
    }
    if options.is_watched {
        for call in observed_calls::all() {
            actions.entry(call.number).and_modify(|action| *action = observed_action(call, action));
        }
    }
    // Every syscall number is small.
    let row = |(call, action)| Some(SyscallRule { number: u32::try_from(call).ok()?, action });
    actions.into_iter().filter_map(row).collect()
}

/// The action for a call that is observed if it is allowed.
fn observed_action(call: &ObservedCall, action: &SyscallAction) -> SyscallAction {
    match (action, call.empty_path_flags) {
        (SyscallAction::Allow, None) => SyscallAction::Notify,
        (SyscallAction::Allow, Some(flags)) => {
            let is_about_descriptor = any_bit_set(flags, libc::AT_EMPTY_PATH.cast_unsigned());
            SyscallAction::NotifyUnless(vec![vec![is_about_descriptor]], None)
        }
        (SyscallAction::ErrnoIf(rules, errno), _) => SyscallAction::NotifyUnless(rules.clone(), Some(*errno)),
        (other, _) => other.clone(),
    }
}

/// An open that truncates and is not for writing: for reading, or for neither (3). Landlock sees an open for writing.
fn unseen_truncation(flags: u8) -> Vec<ArgumentRule> {
    let [truncate, access] = [libc::O_TRUNC, libc::O_ACCMODE].map(libc::c_int::cast_unsigned);
    [0, access].map(|mode| vec![masked_equals(flags, truncate | access, truncate | mode)]).to_vec()
}

/// Calls, the rules by which they are refused, and the error.
fn argument_rules(filter: SeccompOptions) -> Vec<(i64, Vec<ArgumentRule>, libc::c_int)> {
    let network = filter.network;
    let mut calls: BTreeMap<i64, Vec<ArgumentRule>> = BTreeMap::new();
    let other_than = |families: &[libc::c_int]| {
        families.iter().map(|family| differs(0, family.cast_unsigned())).collect::<Vec<_>>()
    };
    // A datagram may be sent to any socket by its path.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| vec![masked_equals(1, SOCKET_TYPE_MASK, kind.cast_unsigned())]);
    let of_other_families = vec![differs(0, libc::AF_UNIX.cast_unsigned())];
    let local_streams = [&[of_other_families][..], &datagrams[..]].concat();
    let sockets = match network {
        NetworkAccess::Blocked if filter.local_sockets => local_streams.clone(),
        // A rule without conditions applies to every call.
        NetworkAccess::Blocked => vec![Vec::new()],
        // TCP and UDP, and nothing that asks the kernel about networks; and streams of the script's own.
        NetworkAccess::Hosts => {
            let of_internet = |rule: ArgumentRule| {
                let local = filter.local_sockets.then(|| differs(0, libc::AF_UNIX.cast_unsigned()));
                rule.into_iter().chain(local).collect()
            };
            let types =
                HOSTS_SOCKET_TYPES.map(|kind| masked_differs(1, SOCKET_TYPE_MASK, kind.cast_unsigned()));
            let protocols = HOSTS_PROTOCOLS.map(|protocol| differs(2, protocol.cast_unsigned()));
            let internet =
                [other_than(&INTERNET_FAMILIES), types.to_vec(), protocols.to_vec()].map(of_internet);
            let local_datagrams = datagrams.clone().map(|mut rule| {
                rule.push(equals(0, libc::AF_UNIX.cast_unsigned()));
                rule
            });
            [&internet[..], &local_datagrams[..]].concat()
        }
        // Of the kernel's netlink families, addresses and routes are enough.
        NetworkAccess::Open => vec![
            other_than(&[INTERNET_FAMILIES.as_slice(), &[libc::AF_NETLINK]].concat()),
            vec![equals(0, libc::AF_NETLINK.cast_unsigned()), differs(2, 0)],
        ],
    };
    calls.insert(libc::SYS_socket, sockets);
    // The two ends of a stream belong together.
    calls.insert(libc::SYS_socketpair, local_streams);
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
    if network == NetworkAccess::Blocked || filter.local_sockets {
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
