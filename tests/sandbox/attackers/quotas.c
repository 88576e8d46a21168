/* What a program without any right to write can still do to others: hold their files, change what no rule is about, and take what
   all programs of the user share. */
#include "attack.h"
#include <dirent.h>
#include <linux/landlock.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>

static void leases_on(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file == -1) return tried(path, -1);
    TRY("read lease", fcntl(file, F_SETLEASE, F_RDLCK));
    TRY("write lease", fcntl(file, F_SETLEASE, F_WRLCK));
    TRY("lease by a long number", syscall(SYS_fcntl, file, F_SETLEASE | 1ul << 32, F_RDLCK));
    TRY("signal for readiness", fcntl(file, F_SETSIG, SIGTERM));
    TRY("owner", fcntl(file, F_SETOWN, getppid()));
    struct f_owner_ex owner = {F_OWNER_PID, getppid()};
    TRY("owner by kind", fcntl(file, F_SETOWN_EX, &owner));
    TRY("how long a file lives", fcntl(file, 1036, &(unsigned long long){2}));
    TRY("an unknown command", fcntl(file, 1039, 0));
    close(file);
}

static int leases(int count, char **paths) {
    for (int one = 0; one < count; one++) leases_on(paths[one]);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    TRY("changes of a folder", fcntl(folder, F_NOTIFY, DN_CREATE | DN_MULTISHOT));
    int dup_ = dup(open(paths[0], O_RDONLY));
    TRY("lease of a copy", fcntl(dup_, F_SETLEASE, F_RDLCK));
    pid_t child = fork();
    if (child == 0) {
        TRY("lease of a child", fcntl(dup_, F_SETLEASE, F_RDLCK));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int file = open("/proc/self/exe", O_RDONLY);
    if (file == -1) file = open(paths[0], O_RDONLY);
    TRY("lease of the program", fcntl(file, F_SETLEASE, F_RDLCK));
    return 0;
}

static int flags(const char *path) {
    int file = open(path, O_RDONLY);
    char request[64] = {0};
    int none = 0;
    TRY("flags", syscall(SYS_ioctl, file, 0x40086602, &none));
    TRY("flags by a short number", syscall(SYS_ioctl, file, 0x40046602, &none));
    TRY("attributes of the file system", syscall(SYS_ioctl, file, 0x401c5820, request));
    TRY("version", syscall(SYS_ioctl, file, 0x40087602, &none));
    TRY("flags by a long number", syscall(SYS_ioctl, file, 0x40086602 | 1ul << 32, &none));
    TRY("freeze", syscall(SYS_ioctl, file, 0xc0045877, &none));
    TRY("trim", syscall(SYS_ioctl, file, 0xc0185879, request));
    TRY("blocks", syscall(SYS_ioctl, file, 1, &none));
    TRY("encrypt", syscall(SYS_ioctl, file, 0x800c6613, request));
    TRY("verity", syscall(SYS_ioctl, file, 0x40806685, request));
    TRY("volume", syscall(SYS_ioctl, file, 0x5000940e, request));
    TRY("owner", syscall(SYS_ioctl, file, 0x8901, &none));
    TRY("swap extents", syscall(SYS_ioctl, file, 0xc028660f, request));
    return 0;
}

static int attributes(const char *path) {
    int file = open(path, O_RDONLY);
    TRY("set", setxattr(path, "user.metier", "x", 1, 0));
    TRY("set by a link", lsetxattr(path, "user.metier", "x", 1, 0));
    TRY("set by a descriptor", fsetxattr(file, "user.metier", "x", 1, 0));
    TRY("access list", setxattr(path, "system.posix_acl_access", "\2\0\0\0", 4, 0));
    TRY("remove", removexattr(path, "user.metier"));
    TRY("remove by a link", lremovexattr(path, "user.metier"));
    TRY("remove by a descriptor", fremovexattr(file, "user.metier"));
    TRY("set by a folder", syscall(463, AT_FDCWD, path, 0, "user.metier", NULL, 0));
    TRY("remove by a folder", syscall(466, AT_FDCWD, path, 0, "user.metier"));
    int memory = memfd_create("x", 0);
    TRY("of memory", fsetxattr(memory, "user.metier", "x", 1, 0));
    return 0;
}

static int calls(void) {
    struct iovec part = {"x", 1};
    int ends[2], pair[2], size = 1 << 20;
    if (pipe(ends) == -1 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1) return 1;
    TRY("pages of a pipe", fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
    TRY("pages lent to a pipe", vmsplice(ends[1], &part, 1, 0));
    TRY("size of a socket", setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    TRY("size by force", setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size));
    TRY("watches", inotify_init());
    TRY("watches with flags", inotify_init1(IN_CLOEXEC));
    TRY("requests", syscall(SYS_io_setup, 1, &(unsigned long){0}));
    TRY("large pages", memfd_create("x", MFD_HUGETLB));
    TRY("all disks", syscall(SYS_syncfs, 0));
    TRY("quota of a file", syscall(443, 0, 0, 0, 0));
    TRY("memory of the dead", syscall(448, -1, 0));
    TRY("who shares a core", syscall(SYS_prctl, 62, 1, 0, 0, 0));
    TRY("another program's picture", syscall(SYS_prctl, 35, 1, 0, 0, 0));
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE};
    int rules = syscall(444, &handled, sizeof handled, 0);
    TRY("rules for ports", syscall(445, rules, 2, &(unsigned long long[2]){1, 80}, 0));
    return 0;
}

/* Numbers that no kernel has yet, or that nobody has looked at. */
static int unknown(void) {
    static const long NUMBERS[] = {400, 423, 451, 459, 460, 461, 463 + 4, 468, 469, 470, 472, 473, 480, 511, 512, 547,
                                   600, 1000, 4095, 65535, 0x3fffffff};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%ld", NUMBERS[i]);
        TRY(name, syscall(NUMBERS[i], -1, -1, -1, -1, -1, -1));
    }
    return 0;
}

static int locks(const char *path) {
    int file = open(path, O_RDONLY);
    TRY("shared", flock(file, LOCK_SH | LOCK_NB));
    TRY("alone", flock(file, LOCK_EX | LOCK_NB));
    TRY("by a long number", syscall(SYS_flock, file | 1ul << 32, LOCK_EX | LOCK_NB));
    return 0;
}

/* As many as there may be, and whether that is fewer than others may have. */
static int counted(void) {
    long timers = 0, signals = 0, sent = 0;
    struct sigevent silent = {.sigev_notify = SIGEV_NONE};
    for (timer_t timer; timers < 100000 && timer_create(CLOCK_MONOTONIC, &silent, &timer) == 0;) timers++;
    printf("timers %s\n", timers <= 1024 ? "few" : "many");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (union sigval value = {0}; signals < 100000 && sigqueue(getpid(), SIGRTMIN, value) == 0;) signals++;
    printf("signals %s\n", signals <= 1024 ? "few" : "many");
    /* Descriptors on their way, which no process has open. */
    char space[CMSG_SPACE(sizeof(int) * 100)] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * 100);
    for (int i = 0; i < 100; i++) memcpy((int *)CMSG_DATA(head) + i, &(int){0}, sizeof(int));
    for (int pair[2]; sent < 100000 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;) {
        while (sent < 100000 && sendmsg(pair[0], &message, MSG_DONTWAIT) == 1) sent += 100;
        if (errno == ETOOMANYREFS) break;
    }
    printf("descriptors %s\n", sent < 1000 ? "few" : "many");
    return 0;
}

/* Descriptors on their way until there may be no more; then it waits. */
static int in_flight(void) {
    counted();
    fflush(stdout);
    sleep(100);
    return 0;
}

/* Areas of memory of a page each, in many processes. */
static int areas(void) {
    size_t page = 4096, count = 65000;
    char *at = mmap(NULL, page * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < count; i += 2) mprotect(at + i * page, page, PROT_READ);
    for (int i = 0; i < 20; i++) {
        if (fork() == 0) break;
    }
    sleep(100);
    return 0;
}

/* Tables for memory in which nothing is. */
static int tables(void) {
    size_t step = 2 << 20, count = 160 << 10;
    volatile char *at = mmap(NULL, step * count, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise((void *)at, step * count, MADV_NOHUGEPAGE);
    char sum = 0;
    for (size_t i = 0; i < count; i++) sum += at[i * step];
    sleep(100);
    return sum;
}

/* What is sent and never read. */
static int unread(int processes) {
    static char block[1 << 16];
    for (int i = 1; i < processes; i++) {
        if (fork() == 0) break;
    }
    for (int pair[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;) {
        for (int end = 0; end < 2; end++) {
            while (send(pair[end], block, sizeof block, MSG_DONTWAIT) > 0) {}
        }
    }
    sleep(100);
    return 0;
}

static int unread_pipes(int processes) {
    static char block[1 << 16];
    for (int i = 1; i < processes; i++) {
        if (fork() == 0) break;
    }
    for (int ends[2]; pipe2(ends, O_NONBLOCK) == 0;) {
        while (write(ends[1], block, sizeof block) > 0) {}
    }
    sleep(100);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "leases")) return leases(argc - 2, argv + 2);
    if (argc == 3 && !strcmp(argv[1], "flags")) return flags(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "attributes")) return attributes(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "locks")) return locks(argv[2]);
    if (argc != 2) return 64;
    if (!strcmp(argv[1], "calls")) return calls();
    if (!strcmp(argv[1], "unknown")) return unknown();
    if (!strcmp(argv[1], "counted")) return counted();
    if (!strcmp(argv[1], "in-flight")) return in_flight();
    if (!strcmp(argv[1], "areas")) return areas();
    if (!strcmp(argv[1], "tables")) return tables();
    if (!strcmp(argv[1], "unread")) return unread(8);
    if (!strcmp(argv[1], "unread-pipes")) return unread_pipes(24);
    return 64;
}
