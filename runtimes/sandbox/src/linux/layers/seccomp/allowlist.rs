//! The seccomp allowlist: the system calls that a script may make, by purpose. A call that is neither here nor among the refused
//! ones answers `ENOSYS`: when a kernel gets a new call, everybody but sandboxed scripts has it.

/// Calls that every architecture has.
#[rustfmt::skip]
pub(super) const ALLOWED_CALLS: &[i64] = &[
    // The script's own processes and threads, and their ids.
    libc::SYS_clone, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4,
    libc::SYS_waitid, libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq,
    libc::SYS_membarrier, libc::SYS_prctl, libc::SYS_personality, libc::SYS_seccomp, libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self, libc::SYS_restart_syscall, libc::SYS_getpid,
    libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid, libc::SYS_setpgid, libc::SYS_getsid, libc::SYS_setsid,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getresuid, libc::SYS_setuid, libc::SYS_setreuid, libc::SYS_setresuid,
    libc::SYS_setfsuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresgid, libc::SYS_setgid, libc::SYS_setregid,
    libc::SYS_setresgid, libc::SYS_setfsgid, libc::SYS_getgroups, libc::SYS_setgroups, libc::SYS_capget,
    libc::SYS_capset, libc::SYS_umask, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal,
    // Limits and processors.
    libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_prlimit64, libc::SYS_getrusage, libc::SYS_times,
    libc::SYS_getpriority, libc::SYS_setpriority, libc::SYS_ioprio_get, libc::SYS_ioprio_set, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_getparam, libc::SYS_sched_setparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_setscheduler, libc::SYS_sched_getattr, libc::SYS_sched_setattr,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_sched_rr_get_interval,
    libc::SYS_getcpu, libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrandom,
    // Signals, clocks and waiting.
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_signalfd4,
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_nanosleep,
    libc::SYS_gettimeofday, libc::SYS_getitimer, libc::SYS_setitimer, libc::SYS_timer_create, libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun, libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_futex, libc::SYS_ppoll, libc::SYS_pselect6,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2,
    // Memory of the process.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
    libc::SYS_msync, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_munlock,
    libc::SYS_munlockall, libc::SYS_mbind, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy, libc::SYS_pkey_alloc,
    libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_remap_file_pages,
    // Descriptors and file contents.
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_close, libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_flock, libc::SYS_pipe2, libc::SYS_lseek, libc::SYS_read,
    libc::SYS_readv, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write, libc::SYS_writev,
    libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_sendfile, libc::SYS_copy_file_range,
    libc::SYS_splice, libc::SYS_tee, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
    libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_fallocate, libc::SYS_truncate, libc::SYS_ftruncate,
    // File names and metadata.
    libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_getdents64, libc::SYS_newfstatat, libc::SYS_fstat,
    libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_readlinkat, libc::SYS_mkdirat, libc::SYS_mknodat, libc::SYS_linkat, libc::SYS_symlinkat,
    libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown,
    libc::SYS_fchownat, libc::SYS_utimensat, libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr,
    libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr,
    // Sockets, if the script has any.
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_connect, libc::SYS_shutdown, libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_getsockopt,
    libc::SYS_setsockopt, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_recvfrom,
    libc::SYS_recvmsg, libc::SYS_recvmmsg,
    // By numbers that are the same on every machine, though not every C library names them: `epoll_pwait2`, `futex_waitv`,
    // `set_mempolicy_home_node`, `fchmodat2`, `map_shadow_stack`, `futex_wake`, `futex_wait`, `futex_requeue`, `mseal`,
    // `getxattrat`, `listxattrat`, `rseq_slice_yield`.
    441, 449, 450, 452, 453, 454, 455, 456, 462, 464, 465, 471,
];

/// Calls that only older architectures have; newer ones have better replacements.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_ARCH_CALLS: &[i64] = &[
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_getpgrp, libc::SYS_arch_prctl, libc::SYS_get_thread_area,
    libc::SYS_set_thread_area, libc::SYS_alarm, libc::SYS_pause, libc::SYS_time, libc::SYS_signalfd, libc::SYS_eventfd,
    libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_open, libc::SYS_creat,
    libc::SYS_dup2, libc::SYS_pipe, libc::SYS_getdents, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access,
    libc::SYS_readlink, libc::SYS_mkdir, libc::SYS_mknod, libc::SYS_link, libc::SYS_symlink, libc::SYS_unlink,
    libc::SYS_rmdir, libc::SYS_rename, libc::SYS_renameat, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown,
    libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_ustat,
];

#[cfg(target_arch = "aarch64")]
pub(super) const ALLOWED_ARCH_CALLS: &[i64] = &[38]; // `renameat`

/// `riscv_hwprobe`, `riscv_flush_icache`.
#[cfg(target_arch = "riscv64")]
pub(super) const ALLOWED_ARCH_CALLS: &[i64] = &[258, 259];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(super) const ALLOWED_ARCH_CALLS: &[i64] = &[];
