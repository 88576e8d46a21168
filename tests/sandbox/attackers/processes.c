/* Other processes: looked into, signalled, slowed down, robbed. Called with the ids of processes of the host's. */
#include "attack.h"
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

static int host;

static long send_info(void) {
    siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, host, SIGCONT, &info);
}

static long with_handle(long (*use)(int)) {
    int handle = syscall(SYS_pidfd_open, host, 0);
    return handle == -1 ? -1 : use(handle);
}

static long signal_handle(int handle) { return syscall(SYS_pidfd_send_signal, handle, SIGCONT, NULL, 0); }
static long take_descriptor(int handle) { return syscall(SYS_pidfd_getfd, handle, 0, 0); }

static int touch(void) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x1000, 1};
    struct rlimit limit = {1 << 20, 1 << 20};
    struct sched_param plain = {0};
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    struct { unsigned size, policy; unsigned long long flags; int nice; unsigned priority; unsigned long long rest[3]; }
        schedule = {48, SCHED_BATCH, 0, 0, 0, {0}};
    TRY("signal", kill(host, 0));
    TRY("wake", kill(host, SIGCONT));
    TRY("signal a thread", syscall(SYS_tgkill, host, host, 0));
    TRY("queue a signal", send_info());
    TRY("signal by handle", with_handle(signal_handle));
    TRY("take a descriptor", with_handle(take_descriptor));
    TRY("trace", ptrace(PTRACE_SEIZE, host, 0, 0));
    TRY("read memory", process_vm_readv(host, &here, 1, &there, 1, 0));
    TRY("write memory", process_vm_writev(host, &here, 1, &there, 1, 0));
    TRY("compare", syscall(SYS_kcmp, host, getpid(), 0, 0, 0));
    TRY("move pages", syscall(SYS_move_pages, host, 0, NULL, NULL, NULL, 0));
    TRY("limit", prlimit(host, RLIMIT_NOFILE, &limit, NULL));
    TRY("read limits", prlimit(host, RLIMIT_NOFILE, NULL, &limit));
    TRY("slow down", setpriority(PRIO_PROCESS, host, getpriority(PRIO_PROCESS, 0)));
    TRY("slow down the user", setpriority(PRIO_USER, 0, getpriority(PRIO_PROCESS, 0)));
    TRY("slow down the disk", syscall(SYS_ioprio_set, 1, host, 2 << 13 | 7));
    TRY("slow down the user's disk", syscall(SYS_ioprio_set, 3, getuid(), 2 << 13 | 4));
    TRY("pin", sched_setaffinity(host, sizeof all, &all));
    TRY("schedule", sched_setscheduler(host, SCHED_BATCH, &plain));
    TRY("schedule by parameter", sched_setparam(host, &plain));
    TRY("schedule by attribute", syscall(SYS_sched_setattr, host, &schedule, 0));
    return 0;
}

/* Everyone at once. Whoever is left afterwards says so. */
static int everyone(void) {
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    kill(getppid(), SIGKILL);
    kill(-1, SIGTERM);
    puts("still here");
    return 0;
}

/* Whoever leads a tree may rename it, hide in a session of its own, or refuse the signal of its parent's death. */
static int hydra(int heads) {
    for (int head = 0; head < heads; head++) {
        if (fork() == 0) {
            for (int alive = 0; alive < 100000; alive++) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                if (fork() != 0) _exit(0);
            }
        }
    }
    pause();
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "touch")) {
        host = atoi(argv[2]);
        return touch();
    }
    if (argc == 2 && !strcmp(argv[1], "stub")) {
        host = getppid();
        return touch();
    }
    if (argc == 2 && !strcmp(argv[1], "everyone")) return everyone();
    if (argc == 3 && !strcmp(argv[1], "hydra")) return hydra(atoi(argv[2]));
    return 64;
}
