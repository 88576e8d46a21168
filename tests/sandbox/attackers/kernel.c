/* Doors into the kernel, and other ways to make the same calls. */
#include "attack.h"
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>

static char text[64];

static long new_child(unsigned long flags) {
    long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child;
}

static int namespaces(void) {
    static const struct { const char *name; unsigned long flag; } NAMESPACES[] = {
        {"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},
        {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"cgroup", 0x02000000}, {"time", 0x80},
    };
    for (size_t i = 0; i < sizeof NAMESPACES / sizeof *NAMESPACES; i++) {
        TRY(NAMESPACES[i].name, unshare(NAMESPACES[i].flag));
        if (NAMESPACES[i].flag != 0x80) TRY(NAMESPACES[i].name, new_child(NAMESPACES[i].flag));
    }
    TRY("setns", setns(0, 0));
    TRY("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
    TRY("bind", mount("/etc", ".", NULL, MS_BIND, NULL));
    TRY("umount", umount2("/proc", MNT_DETACH));
    TRY("chroot", chroot("."));
    TRY("pivot_root", syscall(SYS_pivot_root, ".", "."));
    TRY("open_tree", syscall(428, -100, "/", 1));
    TRY("move_mount", syscall(429, -1, "", -1, "", 0));
    TRY("fsopen", syscall(430, "tmpfs", 0));
    TRY("fsconfig", syscall(431, -1, 0, 0, 0, 0));
    TRY("fsmount", syscall(432, -1, 0, 0));
    TRY("fspick", syscall(433, -100, "/", 0));
    TRY("mount_setattr", syscall(442, -100, "/", 0, 0, 0));
    return 0;
}

static int privileged_calls(void) {
    TRY("bpf", syscall(SYS_bpf, 0, text, sizeof text));
    TRY("perf", syscall(SYS_perf_event_open, text, 0, -1, -1, 0));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 1));
    TRY("add_key", syscall(SYS_add_key, "user", "metier", "x", 1, -3));
    TRY("request_key", syscall(SYS_request_key, "user", "metier", NULL, -3));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    TRY("open_by_handle_at", syscall(SYS_open_by_handle_at, -100, text, 0));
    TRY("name_to_handle_at", syscall(SYS_name_to_handle_at, -100, ".", text, text, 0));
    TRY("init_module", syscall(SYS_init_module, text, 0, ""));
    TRY("finit_module", syscall(SYS_finit_module, 0, "", 0));
    TRY("delete_module", syscall(SYS_delete_module, "none", 0));
    TRY("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
    TRY("swapon", syscall(SYS_swapon, "none", 0));
    TRY("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
    TRY("clock", syscall(SYS_clock_settime, 0, NULL));
    TRY("hostname", syscall(SYS_sethostname, text, 0));
    TRY("acct", syscall(SYS_acct, "none"));
    TRY("quota", syscall(SYS_quotactl, 0, "", 0, 0));
    TRY("kernel log", syscall(SYS_syslog, 10, NULL, 0));
    TRY("fanotify", syscall(SYS_fanotify_init, 0, 0));
    TRY("inotify", syscall(SYS_inotify_add_watch, -1, "/", 2));
    TRY("process_madvise", syscall(440, -1, NULL, 0, 0, 0));
#ifdef __x86_64__
    TRY("iopl", syscall(SYS_iopl, 3));
    TRY("ioperm", syscall(SYS_ioperm, 0, 1, 1));
    TRY("modify_ldt", syscall(SYS_modify_ldt, 0, text, 0));
#endif
    TRY("type for another", ioctl(0, TIOCSTI, "x"));
    TRY("type by a long number", syscall(SYS_ioctl, 0, TIOCSTI | 1ul << 32, "x"));
    TRY("paste", ioctl(0, TIOCLINUX, "\3"));
    return 0;
}

static int absent(void) {
    TRY("io_uring_setup", syscall(425, 1, text));
    TRY("io_uring_enter", syscall(426, 0, 0, 0, 0, 0));
    TRY("io_uring_register", syscall(427, 0, 0, 0, 0));
    TRY("clone3", syscall(435, text, 0));
    TRY("memfd_secret", syscall(447, 0));
    TRY("statmount", syscall(457, text, text, sizeof text, 0));
    TRY("listmount", syscall(458, text, text, sizeof text / 8, 0));
#ifdef __x86_64__
    TRY("x32 getpid", syscall(0x40000000 + SYS_getpid));
    TRY("x32 socket", syscall(0x40000000 + SYS_socket, 2, 1, 0));
#endif
    return 0;
}

/* The calls of another machine have other numbers. */
static int old_numbers(void) {
#ifdef __x86_64__
    long answer;
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20) : "memory");
    printf("answered %ld\n", answer);
#endif
#ifdef __aarch64__
    /* A program of 32-bit ARM that calls getpid and exit. */
    static const unsigned program[] = {
        0x464c457f, 0x00010101, 0, 0, 0x00280002, 1, 0x00010054, 52, 0, 0x05000000, 0x00200034, 1, 0, /* its header */
        1, 0, 0x10000, 0x10000, 104, 104, 5, 0x10000,                                                /* what is loaded */
        0xe3a07014, 0xef000000, 0xe3a00000, 0xe3a07001, 0xef000000,
    };
    if (chdir(getenv("HOME")) == -1) return 1;
    int file = open("old", O_WRONLY | O_CREAT | O_EXCL, 0700);
    if (write(file, program, sizeof program) != sizeof program || close(file) == -1) return 1;
    execl("./old", "old", NULL);
    if (errno == ENOEXEC) printf("none\n");
#endif
    return 0;
}

/* A program that no folder holds. */
static int nameless(char *program) {
    if (chdir(getenv("HOME")) == -1) return 1;
    char *name = "nameless";
    int memory = open(name, O_RDWR | O_CREAT | O_EXCL, 0700), file = open(program, O_RDONLY);
    char part[4096];
    for (ssize_t read_; (read_ = read(file, part, sizeof part)) > 0;) {
        if (write(memory, part, read_) != read_) return 1;
    }
    close(memory);
    memory = open(name, O_RDONLY);
    unlink(name);
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    fexecve(memory, arguments, environment);
    tried("run", -1);
    return 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "namespaces")) return namespaces();
    if (argc == 2 && !strcmp(argv[1], "privileged-calls")) return privileged_calls();
    if (argc == 2 && !strcmp(argv[1], "absent")) return absent();
    if (argc == 2 && !strcmp(argv[1], "old-numbers")) return old_numbers();
    if (argc == 3 && !strcmp(argv[1], "nameless")) return nameless(argv[2]);
    return 64;
}
