//! seccomp: the system calls of a script in a sandbox. What is not known to lead nowhere is not there.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::sock_filter;
use serde::{Deserialize, Serialize};

use super::allowed::{ALLOWED, ALLOWED_HERE};
use super::filter::{Answer, Row, Rule, has, is, is_not, program};

/// Calls no script needs and that reach past its files: other processes, the kernel, mounts, keys, memory shared by number,
/// queues by name, everybody's disks, and quotas that all programs of the user share.
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

/// Calls that change what no rule about files covers: attributes and access lists, of any file the user owns. They take memory
/// that nobody counts as well. Programs that copy files expect file systems without any.
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

/// Calls that programs try and do without when the kernel has none of them, as it has none that is not named in here at all.
/// `clone3` hides its flags from filters; the C library goes on with `clone`. Memory that is secret, or was given to a pipe by
/// `vmsplice`, is counted by nobody, and a file in memory is not while it is on its way through a socket: programs go on with a
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

/// Calls that have the same number on every machine, and a name in `libc` on few.
const QUOTACTL_FD: i64 = 443;
const PROCESS_MRELEASE: i64 = 448;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const MEMFD_SECRET: i64 = 447;
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;

const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    0x80, // CLONE_NEWTIME
];

/// Calls with the place of the argument that says whose limits, priority or processors are meant: one's own, which is 0.
/// Threads that name themselves by number are refused as well; none of the programs we know mind.
const OF_ONESELF: [(i64, u8); 7] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// In some of them 0 may also be the user, with all that runs for them: the call, and the first argument that says so.
const OF_THE_USER: [(i64, u32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Families that a script with the network may use; never local sockets, behind which services of the user's own listen.
const OPEN_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bits of a socket's type that are not flags.
const KIND_OF_SOCKET: u32 = 0xf;

const PR_SET_DUMPABLE: u32 = libc::PR_SET_DUMPABLE.cast_unsigned();

/// Who may share a processor's core with whom, and what a process looks like from outside.
const OF_A_PROCESS: [u32; 2] = [62, libc::PR_SET_MM.cast_unsigned()]; // PR_SCHED_CORE

/// Rules of Landlock for ports, which nobody counts; those for files are as many as there are files.
const LANDLOCK_RULE_NET_PORT: u32 = 2;

/// What `fcntl` may do: it copies and describes descriptors, locks and seals. What is left out reaches others: a lease makes
/// whoever opens a file wait for its holder, and changes of a folder or of readiness are told by signals; or it takes from
/// what the user has: the pages of pipes.
const OF_DESCRIPTORS: [u32; 22] = [
    0, 1, 2, 3, 4, // F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL
    5, 6, 7, // F_GETLK, F_SETLK, F_SETLKW
    9, 11, 16, // F_GETOWN, F_GETSIG, F_GETOWN_EX
    36, 37, 38, // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
    1025, 1027, 1028, // F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY
    1030, 1032, // F_DUPFD_CLOEXEC, F_GETPIPE_SZ
    1033, 1034, 1035, // F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT
];

/// What `ioctl` may do. Every driver and file system has requests of its own, many of which change a file or a disk by a
/// descriptor that only reads: flags, attributes, volumes.
const REQUESTS: [u32; 34] = [
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

/// What a filter sees of the machine it was made for.
const MACHINE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};

/// A filter of system calls.
pub(super) struct Filter(Vec<sock_filter>);

/// What makes one filter differ from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Whether the network stays shut.
    pub(super) shut_network: bool,
    /// Whether files may be locked as a whole, which takes no right to write to them.
    pub(super) may_lock: bool,
}

/// One for each such difference.
static FILTERS: [OnceLock<Filter>; 4] = [const { OnceLock::new() }; 4];

impl Filter {
    /// The filter of a script, which is made once: whoever is split off from this process then has it.
    /// `Unsupported` on machines whose calls nobody has looked at.
    pub(super) fn of(calls: Calls) -> io::Result<&'static Self> {
        let machine = MACHINE.ok_or(io::ErrorKind::Unsupported)?;
        let made = || Self(program(rows(calls), machine));
        let number = usize::from(calls.shut_network) + 2 * usize::from(calls.may_lock);
        Ok(FILTERS[number].get_or_init(made))
    }

    /// Filters the calls of this process and of whatever it starts. What is left to do before the program comes is not among
    /// what it refuses.
    pub(super) fn put_on(&self) -> io::Result<()> {
        seccompiler::apply_filter(&self.0).map_err(io::Error::other)
    }
}

fn rows(calls: Calls) -> Vec<Row> {
    let mut answers: BTreeMap<i64, Answer> = BTreeMap::new();
    let mut answer = |calls: &[i64], answer: &Answer| {
        answers.extend(calls.iter().map(|call| (*call, answer.clone())));
    };
    answer(ALLOWED, &Answer::Allowed);
    answer(ALLOWED_HERE, &Answer::Allowed);
    answer(REFUSED, &Answer::Refused(libc::EPERM));
    answer(UNSUPPORTED, &Answer::Refused(libc::EOPNOTSUPP));
    answer(ABSENT, &Answer::Refused(libc::ENOSYS));
    if !calls.may_lock {
        // As where a file system has no locks, which is what programs are prepared for: those that can do without go on, the
        // others say so. A lock that is answered and not held would be worse than none.
        answer(&[libc::SYS_flock], &Answer::Refused(libc::ENOSYS));
    }
    for (call, rules, errno) in restricted(calls.shut_network) {
        answer(&[call], &Answer::RefusedWhere(rules, errno));
    }
    // No call has a number that is not small.
    let row = |(call, answer)| Some(Row { number: u32::try_from(call).ok()?, answer });
    answers.into_iter().filter_map(row).collect()
}

/// Calls, the rules by which they are refused, and how.
fn restricted(shut_network: bool) -> Vec<(i64, Vec<Rule>, libc::c_int)> {
    let mut calls: BTreeMap<i64, Vec<Rule>> = BTreeMap::new();
    let sockets = if shut_network {
        vec![Vec::new()]
    } else {
        let not_open = OPEN_FAMILIES.map(|open| is_not(0, open.cast_unsigned())).to_vec();
        // Of what the kernel says about itself, addresses and routes are enough.
        vec![not_open, vec![is(0, libc::AF_NETLINK.cast_unsigned()), is_not(2, 0)]]
    };
    calls.insert(libc::SYS_socket, sockets);
    // Two ends of a stream belong together. An end that takes datagrams may send to any socket there is, by its path.
    let datagrams =
        [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| vec![has(1, KIND_OF_SOCKET, kind.cast_unsigned())]);
    let mut pairs = vec![vec![is_not(0, libc::AF_UNIX.cast_unsigned())]];
    pairs.extend(datagrams);
    calls.insert(libc::SYS_socketpair, pairs);
    let mut clones = NAMESPACES.map(|flag| vec![has(0, flag.cast_unsigned(), flag.cast_unsigned())]).to_vec();
    // What a process has open is looked up for one of its threads.
    let [thread, files] = [libc::CLONE_THREAD, libc::CLONE_FILES].map(libc::c_int::cast_unsigned);
    clones.push(vec![has(0, thread | files, thread)]);
    calls.insert(libc::SYS_clone, clones);
    for (call, whose) in OF_ONESELF {
        calls.entry(call).or_default().push(vec![is_not(whose, 0)]);
    }
    for (call, user) in OF_THE_USER {
        calls.entry(call).or_default().push(vec![is(0, user)]);
    }
    // Who may not be looked into cannot be counted by its stub.
    let mut process = vec![vec![is(0, PR_SET_DUMPABLE), is_not(1, 1)]];
    process.extend(OF_A_PROCESS.map(|option| vec![is(0, option)]));
    calls.insert(libc::SYS_prctl, process);
    calls.insert(libc::SYS_landlock_add_rule, vec![vec![is(1, LANDLOCK_RULE_NET_PORT)]]);
    // A socket that lingers holds up whoever closes it last. A script can make that its host, by sending it one: by a line it
    // accepts, one it refuses, or one that nobody reads any more. No other file that can be had in a cage closes slowly, so
    // that this is refused at its source, and closing needs no thread of its own.
    let of_sockets =
        |option: libc::c_int| vec![is(1, libc::SOL_SOCKET.cast_unsigned()), is(2, option.cast_unsigned())];
    let mut options = vec![of_sockets(libc::SO_LINGER)];
    if shut_network {
        // What nobody has read yet is counted by what a socket holds where nobody asks for more.
        options.extend([of_sockets(libc::SO_SNDBUF), of_sockets(libc::SO_SNDBUFFORCE)]);
    }
    calls.insert(libc::SYS_setsockopt, options);
    calls.insert(libc::SYS_fcntl, vec![OF_DESCRIPTORS.map(|command| is_not(1, command)).to_vec()]);
    let restricted = calls.into_iter().map(|(call, rules)| (call, rules, libc::EPERM));
    // The kernel compares 32 bits of a request, so does a rule.
    let requests = vec![REQUESTS.map(|request| is_not(1, request)).to_vec()];
    // As an older kernel answers, which knows no such flag.
    let unshared = vec![vec![has(2, libc::CLOSE_RANGE_UNSHARE, libc::CLOSE_RANGE_UNSHARE)]];
    let others = [(libc::SYS_ioctl, requests, libc::ENOTTY), (libc::SYS_close_range, unshared, libc::EINVAL)];
    restricted.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Calls; 4] = [
        Calls { shut_network: true, may_lock: true },
        Calls { shut_network: true, may_lock: false },
        Calls { shut_network: false, may_lock: true },
        Calls { shut_network: false, may_lock: false },
    ];

    /// A jump over a row is one byte.
    #[test]
    fn no_row_is_long() {
        for row in ALL.into_iter().flat_map(rows) {
            if let Answer::RefusedWhere(rules, _) = row.answer {
                let conditions: usize = rules.iter().map(|rule| 1 + 3 * rule.len()).sum();
                assert!(conditions < 200, "{}", row.number);
            }
        }
    }

    #[test]
    fn no_call_is_in_two_lists() {
        let mut seen = std::collections::BTreeSet::new();
        for call in [ALLOWED, ALLOWED_HERE, REFUSED, UNSUPPORTED, ABSENT].into_iter().flatten() {
            assert!(seen.insert(call), "{call}");
        }
    }

    /// A filter that grows beyond what the kernel takes would be none.
    #[test]
    fn the_kernel_takes_every_filter() {
        for calls in ALL {
            let length = Filter::of(calls).unwrap().0.len();
            assert!(length < 4096, "{length}");
        }
    }
}
