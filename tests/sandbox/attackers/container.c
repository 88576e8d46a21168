/* Runs a program with what a container lets it: `container docker PROGRAM ...` behind a filter that answers as the default profiles of
 * container engines do, without the capabilities that they take away; `container gvisor PROGRAM ...` besides without Landlock. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 64
#define NAMESPACE_FLAGS 0x7e020000

/* Calls that these profiles refuse to programs without CAP_SYS_ADMIN and the like. The numbers are the same on all processors. */
static const unsigned refused[] = {
    __NR_unshare, __NR_setns, __NR_mount, __NR_umount2, __NR_pivot_root, __NR_ptrace, __NR_process_vm_readv,
    __NR_process_vm_writev, __NR_kcmp, __NR_bpf, __NR_perf_event_open, __NR_userfaultfd, __NR_add_key, __NR_request_key, __NR_keyctl,
    __NR_open_by_handle_at, __NR_fanotify_init, __NR_quotactl, __NR_swapon, __NR_swapoff, __NR_reboot, __NR_syslog, __NR_acct,
    __NR_init_module, __NR_finit_module, __NR_delete_module, __NR_kexec_load, __NR_settimeofday, __NR_clock_settime,
    __NR_sethostname, __NR_setdomainname, __NR_nfsservctl, __NR_move_pages, __NR_mbind, __NR_set_mempolicy,
    425, 426, 427, /* io_uring */
    428, 429, 430, 431, 432, 433, 442, /* open_tree to fspick, mount_setattr */
    438, /* pidfd_getfd */
    443, /* quotactl_fd */
    457, 458, /* statmount, listmount */
};

/* The capabilities of root in a container of Docker: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
 * NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP. */
static const unsigned docker_powers = 0xa80425fb;

static int drop_powers(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{docker_powers, docker_powers, 0}, {0, 0, 0}};
    for (int power = 0; power < 64; power++)
        if (power >= 32 || !(docker_powers >> power & 1)) prctl(PR_CAPBSET_DROP, power, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(__NR_capset, &header, sets);
}

int main(int count, char **arguments) {
    int is_root = geteuid() == 0, at = 0;
    struct sock_filter rules[2 * CALLS + 32];
    if (count < 3) return 2;
#define ADD(...) rules[at++] = (struct sock_filter) __VA_ARGS__
#define ANSWER(number, error) \
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1)); \
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error))
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (unsigned call = 0; call < sizeof refused / sizeof *refused; call++) {
        ANSWER(refused[call], EPERM);
    }
    ANSWER(435, ENOSYS); /* clone3 */
    if (strcmp(arguments[1], "gvisor") == 0) {
        ANSWER(444, ENOSYS); /* landlock_create_ruleset */
        ANSWER(445, ENOSYS);
        ANSWER(446, ENOSYS);
    }
    /* Calls that came after the profile was written. */
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 463, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])));
    ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog filter = {at, rules};
    /* Engines let programs gain powers by default; only who has some can set a filter then. */
    if (!is_root && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return perror("privileges"), 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return perror("filter"), 1;
    if (is_root && drop_powers() != 0) return perror("capabilities"), 1;
    execv(arguments[2], arguments + 2);
    return perror(arguments[2]), 1;
}
