//! The filter of a process that only computes: it reads and writes what is open, and reaches no other file, process or socket.
//!
//! It stands in for Landlock where the kernel has none, for a process that needs no file once it runs.

use std::io;

use super::bpf::{SyscallAction, SyscallRule, compile, differs, masked_differs};
use super::filter::{AUDIT_ARCH, SeccompFilter};

/// Calls about the process itself: its memory, its threads, its open descriptors and the clock. All others answer `ENOSYS`.
#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    libc::SYS_read, libc::SYS_readv, libc::SYS_write, libc::SYS_writev, libc::SYS_close, libc::SYS_lseek, libc::SYS_fstat,
    libc::SYS_ppoll, libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_madvise, libc::SYS_futex, libc::SYS_membarrier, libc::SYS_set_robust_list, libc::SYS_rseq,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_getcpu, libc::SYS_sysinfo, libc::SYS_uname,
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getrandom, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_restart_syscall, libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Applies the filter to this process, which must have one thread, and which no request may lift again.
pub fn restrict_to_computing() -> io::Result<()> {
    let machine = AUDIT_ARCH.ok_or(io::ErrorKind::Unsupported)?;
    SeccompFilter::new(compile(rules(std::process::id()), machine)).apply()
}

fn rules(process: u32) -> Vec<SyscallRule> {
    const PR_SET_VMA: u32 = 0x5356_4d41;
    const PR_SET_NAME: u32 = libc::PR_SET_NAME.cast_unsigned();
    let thread = libc::CLONE_THREAD.cast_unsigned();
    let restricted = [
        (libc::SYS_clone, vec![masked_differs(0, thread, thread)]),
        // As a process does that aborts.
        (libc::SYS_tgkill, vec![differs(0, process)]),
        (libc::SYS_prlimit64, vec![differs(0, 0)]),
        (libc::SYS_prctl, vec![differs(0, PR_SET_NAME), differs(0, PR_SET_VMA)]),
    ];
    let refused = |conditions| SyscallAction::ErrnoIf(vec![conditions], libc::EPERM);
    let restricted = restricted.map(|(call, conditions)| (call, refused(conditions)));
    let allowed = ALLOWED.iter().map(|call| (*call, SyscallAction::Allow));
    let rule = |(call, action)| Some(SyscallRule { number: u32::try_from(call).ok()?, action });
    allowed.chain(restricted).filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bpf::tests::evaluate;
    use super::*;

    #[test]
    fn only_what_stays_in_the_process_is_allowed() {
        const PROCESS: u32 = 4711;
        let program = compile(rules(PROCESS), AUDIT_ARCH.unwrap());
        let answer = |number: i64, arguments: [u32; 3]| {
            evaluate(&program, AUDIT_ARCH.unwrap(), u32::try_from(number).unwrap(), &arguments)
        };
        let is_allowed = |number, arguments| answer(number, arguments) == libc::SECCOMP_RET_ALLOW;
        for (number, arguments) in [
            (libc::SYS_clone, [0x003d_0f00, 0, 0]),
            (libc::SYS_tgkill, [PROCESS, 1, 6]),
            (libc::SYS_read, [0, 0, 0]),
            (libc::SYS_mmap, [0, 1, 5]),
            (libc::SYS_prctl, [15, 0, 0]),
        ] {
            assert!(is_allowed(number, arguments), "{number}");
        }
        for (number, arguments) in [
            (libc::SYS_clone, [0x11, 0, 0]),
            (libc::SYS_tgkill, [1, 1, 9]),
            (libc::SYS_prlimit64, [1, 7, 0]),
            (libc::SYS_prctl, [22, 0, 0]),
        ] {
            assert!(!is_allowed(number, arguments), "{number}");
        }
        let all: Vec<i64> = (0..1000).filter(|number| is_allowed(*number, [PROCESS, 0, 0])).collect();
        assert_eq!(all.len(), ALLOWED.len() + 1, "{all:?}");
        for number in [
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_execve,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_truncate,
            libc::SYS_unlinkat,
            libc::SYS_pidfd_open,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_ioctl,
            libc::SYS_fcntl,
            libc::SYS_sendmsg,
            libc::SYS_io_uring_setup,
            libc::SYS_clone3,
        ] {
            assert!(!is_allowed(number, [PROCESS, 0, 0]), "{number}");
        }
    }
}
