//! seccomp: system calls that lead out of a cage, whatever files it holds.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::sock_filter;

use super::filter::{Row, Rule, has, is, is_not, program};

/// Calls no script needs and that reach past its files: other processes, the kernel, mounts, keys, memory shared by number,
/// queues by name, which no rule about files covers.
/// `chmod`, `link`, `rename` and `memfd_create` are not among them: real programs need them.
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
];

/// Calls that programs try and do without when the kernel has none of them. `clone3` hides its flags from filters; the
/// C library goes on with `clone`. Memory that is secret is counted by nobody, and the list of mounts is the host's.
const ABSENT: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
    MEMFD_SECRET,
    STATMOUNT,
    LISTMOUNT,
];

/// Calls that have the same number on every machine, and a name in `libc` on few.
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

/// Those of scripts without the network, and with it.
static FILTERS: [OnceLock<Filter>; 2] = [OnceLock::new(), OnceLock::new()];

impl Filter {
    /// The filter of a script with or without the network, which is made once: whoever is split off from this process then has it.
    /// `Unsupported` on machines whose calls nobody has looked at.
    pub(super) fn of(shut_network: bool) -> io::Result<&'static Self> {
        let machine = MACHINE.ok_or(io::ErrorKind::Unsupported)?;
        let made = || Self(program(rows(shut_network), machine));
        Ok(FILTERS[usize::from(!shut_network)].get_or_init(made))
    }

    /// Filters the calls of this process and of whatever it starts. What is left to do before the program comes is not among
    /// what it refuses.
    pub(super) fn put_on(&self) -> io::Result<()> {
        seccompiler::apply_filter(&self.0).map_err(io::Error::other)
    }
}

fn rows(shut_network: bool) -> Vec<Row> {
    let row = |(call, rules, errno): (i64, Vec<Rule>, libc::c_int)| {
        // No call has a number that is not small.
        Some(Row { number: u32::try_from(call).ok()?, rules, errno })
    };
    let absent = ABSENT.iter().map(|call| (*call, Vec::new(), libc::ENOSYS));
    let refused = refused(shut_network).into_iter().map(|(call, rules)| (call, rules, libc::EPERM));
    absent.chain(refused).filter_map(row).collect()
}

/// Calls, and the rules by which they are refused; always where there is none.
fn refused(shut_network: bool) -> BTreeMap<i64, Vec<Rule>> {
    let mut calls: BTreeMap<i64, Vec<Rule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let sockets = if shut_network {
        Vec::new()
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
    let namespaces = NAMESPACES.map(|flag| vec![has(0, flag.cast_unsigned(), flag.cast_unsigned())]);
    calls.insert(libc::SYS_clone, namespaces.to_vec());
    for (call, whose) in OF_ONESELF {
        calls.entry(call).or_default().push(vec![is_not(whose, 0)]);
    }
    for (call, user) in OF_THE_USER {
        calls.entry(call).or_default().push(vec![is(0, user)]);
    }
    // Who may not be looked into cannot be counted by its stub.
    calls.insert(libc::SYS_prctl, vec![vec![is(0, PR_SET_DUMPABLE), is_not(1, 1)]]);
    // A socket that lingers holds up whoever closes it last. A script can make that its host, by sending it one: by a line it
    // accepts, one it refuses, or one that nobody reads any more. No other file that can be had in a cage closes slowly, so
    // that this is refused at its source, and closing needs no thread of its own.
    let lingering = vec![is(1, libc::SOL_SOCKET.cast_unsigned()), is(2, libc::SO_LINGER.cast_unsigned())];
    calls.insert(libc::SYS_setsockopt, vec![lingering]);
    // Typing into a terminal; the kernel compares 32 bits, so must this.
    let typing =
        [libc::TIOCSTI, libc::TIOCLINUX].into_iter().filter_map(|request| u32::try_from(request).ok());
    calls.insert(libc::SYS_ioctl, typing.map(|request| vec![is(1, request)]).collect());
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A jump over a row is one byte.
    #[test]
    fn no_row_is_long() {
        for row in rows(true).into_iter().chain(rows(false)) {
            let conditions: usize = row.rules.iter().map(|rule| 1 + 3 * rule.len()).sum();
            assert!(conditions < 200, "{}", row.number);
        }
    }
}
