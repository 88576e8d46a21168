/* Other processes: looked into, signalled, slowed down, robbed. Called with the ids of processes of the host's. */
#include "attack.h"
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

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

static int signalled_by_readiness(int what, long value) {
    int ends[2];
    if (pipe(ends) == -1) return -1;
    if (fcntl(ends[0], what, value) == -1) return -1;
    fcntl(ends[0], F_SETSIG, SIGKILL);
    int done = fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    write(ends[1], "x", 1);
    return done;
}

static long by_timer(void) {
    struct sigevent event = {0};
    timer_t timer;
    event.sigev_notify = 4; /* SIGEV_THREAD_ID */
    event.sigev_signo = SIGKILL;
    ((int *)&event)[4] = host;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == -1) return -1;
    struct itimerspec soon = {{0, 0}, {0, 1000}};
    return timer_settime(timer, 0, &soon, NULL);
}

static long send_thread_info(void) {
    siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_QUEUE};
    return syscall(SYS_rt_tgsigqueueinfo, host, host, SIGKILL, &info);
}

static long kill_handle(int handle) { return syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0); }

/* Every way to send a signal to a process that is not one's own. */
static int send(void) {
    siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_QUEUE};
    struct { int type, pid; } owner = {1, host}; /* F_OWNER_PID */
    TRY("ask", kill(host, 0));
    TRY("kill", kill(host, SIGKILL));
    TRY("kill its group", kill(-host, SIGKILL));
    TRY("kill with more bits", syscall(SYS_kill, (unsigned)host | 1UL << 32, SIGKILL));
    TRY("kill a thread", syscall(SYS_tkill, host, SIGKILL));
    TRY("kill a thread of it", syscall(SYS_tgkill, host, host, SIGKILL));
    TRY("kill a thread of oneself", syscall(SYS_tgkill, getpid(), host, SIGKILL));
    TRY("queue", syscall(SYS_rt_sigqueueinfo, host, SIGKILL, &info));
    TRY("queue for a thread", send_thread_info());
    TRY("by a handle", with_handle(kill_handle));
    TRY("by readiness", signalled_by_readiness(F_SETOWN, host));
    TRY("by readiness of another owner", signalled_by_readiness(15 /* F_SETOWN_EX */, (long)&owner));
    TRY("by a timer", by_timer());
    return 0;
}

/* Kills whoever has the id of a child that has ended. */
static int reused(void) {
    int last = 0;
    for (time_t end = time(NULL) + 2; time(NULL) < end;) {
        pid_t dead[8];
        for (int i = 0; i < 8; i++) {
            if ((dead[i] = fork()) == 0) _exit(0);
        }
        for (int i = 0; i < 8; i++) waitpid(dead[i], NULL, 0);
        for (int again = 0; again < 4; again++) {
            for (int i = 0; i < 8; i++) {
                if (kill(dead[i], SIGKILL) == -1) last = errno;
            }
        }
    }
    errno = last == EPERM ? ESRCH : last;
    tried("gone", -1);
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
    if (argc == 3 && !strcmp(argv[1], "signal")) {
        host = atoi(argv[2]);
        return send();
    }
    if (argc == 2 && !strcmp(argv[1], "reused")) return reused();
    if (argc == 2 && !strcmp(argv[1], "stub")) {
        host = getppid();
        return touch();
    }
    if (argc == 2 && !strcmp(argv[1], "everyone")) return everyone();
    if (argc == 3 && !strcmp(argv[1], "hydra")) return hydra(atoi(argv[2]));
    return 64;
}
