//! seccomp: system calls that lead out of a cage, whatever files it holds.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

use super::super::sandbox::Cage;

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
/// C library goes on with `clone`.
const ABSENT: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_clone3];

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
const OF_THE_USER: [(i64, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Families that a script with the network may use; never local sockets, behind which services of the user's own listen.
const OPEN_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bits of a socket's type that are not flags.
const KIND_OF_SOCKET: u64 = 0xf;

const PR_SET_DUMPABLE: u64 = libc::PR_SET_DUMPABLE.cast_unsigned() as u64;

/// Filters the calls of this process and of whatever it starts. The last wall to go up.
pub(super) fn filter(cage: &Cage) -> io::Result<()> {
    if !cage.guard_calls {
        return Ok(());
    }
    for program in programs(cage.shut_network).map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn programs(shut_network: bool) -> Result<Vec<BpfProgram>, seccompiler::Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    let compiled = |rules, action| -> Result<BpfProgram, seccompiler::Error> {
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?)
    };
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    let mut programs = vec![
        compiled(absent, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?,
        compiled(refused(shut_network)?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(other_numbers());
    }
    Ok(programs)
}

fn refused(shut_network: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let family = |op, value: libc::c_int| when(0, op, u64::from(value.cast_unsigned()));
    let sockets = if shut_network {
        Vec::new()
    } else {
        let not_open = OPEN_FAMILIES.map(|open| family(SeccompCmpOp::Ne, open));
        // Of what the kernel says about itself, addresses and routes are enough.
        let not_routes = [family(SeccompCmpOp::Eq, libc::AF_NETLINK)?, when(2, SeccompCmpOp::Ne, 0)?];
        vec![all(not_open.into_iter().collect::<Result<Vec<_>, _>>()?)?, all(not_routes)?]
    };
    rules.insert(libc::SYS_socket, sockets);
    // Two ends of a stream belong together. An end that takes datagrams may send to any socket there is, by its path.
    let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| all([when(1, SeccompCmpOp::MaskedEq(KIND_OF_SOCKET), u64::from(kind.cast_unsigned()))?]));
    let mut pairs = vec![all([family(SeccompCmpOp::Ne, libc::AF_UNIX)?])?];
    pairs.extend(datagrams.into_iter().collect::<Result<Vec<_>, _>>()?);
    rules.insert(libc::SYS_socketpair, pairs);
    let namespace = |flag: libc::c_int| {
        let flag = u64::from(flag.cast_unsigned());
        all([when(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    rules.insert(libc::SYS_clone, NAMESPACES.into_iter().map(namespace).collect::<Result<_, _>>()?);
    for (call, whose) in OF_ONESELF {
        rules.entry(call).or_default().push(all([when(whose, SeccompCmpOp::Ne, 0)?])?);
    }
    for (call, user) in OF_THE_USER {
        rules.entry(call).or_default().push(all([when(0, SeccompCmpOp::Eq, user)?])?);
    }
    // Who may not be looked into cannot be counted by its stub.
    let hide = [when(0, SeccompCmpOp::Eq, PR_SET_DUMPABLE)?, when(1, SeccompCmpOp::Ne, 1)?];
    rules.insert(libc::SYS_prctl, vec![all(hide)?]);
    // Typing into a terminal; the kernel compares 32 bits, so must this.
    let ioctl = |request| all([when(1, SeccompCmpOp::Eq, request)?]);
    rules.insert(libc::SYS_ioctl, vec![ioctl(libc::TIOCSTI)?, ioctl(libc::TIOCLINUX)?]);
    Ok(rules)
}

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)?)
}

fn all(conditions: impl Into<Vec<SeccompCondition>>) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(conditions.into())?)
}

/// The x32 calls have numbers of their own, which no rule above knows: there are none.
fn other_numbers() -> BpfProgram {
    const NUMBERS: u32 = 0x4000_0000;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        // The number of the call lies first in what a filter sees.
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, NUMBERS),
        instruction(0x06, 0, 0, absent),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
