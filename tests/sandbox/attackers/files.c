/* Files outside of the project: read, changed, listed, looked at. Called with a folder outside that holds `secret`. */
#include "attack.h"
#include <dirent.h>
#include <linux/falloc.h>
#include <sys/inotify.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static char places[8][4096];

static char *in(int place, const char *folder, const char *name) {
    snprintf(places[place], sizeof places[place], "%s/%s", folder, name);
    return places[place];
}

static int change(const char *outside) {
    char *secret = in(0, outside, "secret"), *other = in(1, outside, "new");
    TRY("write", open(secret, O_WRONLY));
    TRY("append", open(secret, O_WRONLY | O_APPEND));
    TRY("create", open(other, O_WRONLY | O_CREAT, 0600));
    TRY("create unnamed", open(outside, O_TMPFILE | O_RDWR, 0600));
    TRY("truncate", truncate(secret, 0));
    TRY("open to truncate", open(secret, O_RDONLY | O_TRUNC));
    TRY("remove", unlink(secret));
    TRY("rename there", rename(secret, other));
    TRY("rename here", rename(secret, "stolen"));
    TRY("rename out", rename("own", other));
    TRY("exchange", renameat2(AT_FDCWD, "own", AT_FDCWD, secret, RENAME_EXCHANGE));
    TRY("make a folder", mkdir(other, 0700));
    TRY("remove a folder", rmdir(outside));
    TRY("link in", link(secret, "linked"));
    TRY("link out", link("own", other));
    TRY("symlink out", symlink("own", other));
    TRY("make a pipe", mkfifo(other, 0600));
    return 0;
}

static int see(const char *outside) {
    char *secret = in(0, outside, "secret");
    TRY("read", open(secret, O_RDONLY));
    TRY("list", open(outside, O_RDONLY | O_DIRECTORY));
    int folder = open(outside, O_PATH);
    TRY("read below a handle", openat(folder, "secret", O_RDONLY));
    int handle = open(secret, O_PATH);
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", handle);
    TRY("open a handle again", open(own, O_RDONLY));
    TRY("read from there", chdir(outside) == -1 ? -1 : open("secret", O_RDONLY));
    TRY("run", execl(secret, secret, NULL));
    return 0;
}

/* What a handle or a question shows without opening anything. */
static int look(const char *outside) {
    char *secret = in(0, outside, "secret");
    struct stat about;
    TRY("stat", stat(secret, &about));
    TRY("handle", open(secret, O_PATH));
    TRY("chdir", chdir(outside));
    return 0;
}

static int mark(const char *outside) {
    char *secret = in(0, outside, "secret");
    TRY("chmod", chmod(secret, 0666));
    TRY("utimes", utimensat(AT_FDCWD, secret, NULL, 0));
    TRY("setxattr", setxattr(secret, "user.metier", "x", 1, 0));
    return 0;
}

static long open2(const char *path, unsigned long long flags) {
    unsigned long long how[3] = {flags, 0, 0};
    return syscall(437, AT_FDCWD, path, how, sizeof how);
}

static long reopen(int handle, int flags) {
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", handle);
    return open(own, flags);
}

/* All ways to cut a file short. Mode 3 is for neither reading nor writing. */
static int cut(const char *path) {
    int handle = open(path, O_RDONLY), pointer = open(path, O_PATH);
    TRY("truncate", truncate(path, 0));
    TRY("truncate64", syscall(SYS_truncate, path, 0L));
    TRY("open to read", open(path, O_RDONLY | O_TRUNC));
    TRY("open for neither", open(path, O_ACCMODE | O_TRUNC));
    TRY("open or create", open(path, O_RDONLY | O_CREAT | O_TRUNC, 0600));
    TRY("openat", syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_TRUNC, 0));
    TRY("openat for neither", syscall(SYS_openat, AT_FDCWD, path, O_ACCMODE | O_TRUNC | O_CLOEXEC, 0));
    TRY("openat2", open2(path, O_RDONLY | O_TRUNC));
    TRY("openat2 for neither", open2(path, O_ACCMODE | O_TRUNC));
    TRY("create", creat(path, 0600));
    TRY("open to write", open(path, O_WRONLY | O_TRUNC));
    TRY("cut an open file", ftruncate(handle, 0));
    TRY("punch a hole", fallocate(handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1));
    TRY("open a pointer again", reopen(pointer, O_RDONLY | O_TRUNC));
    return 0;
}

/* Which descriptors it was started with. */
static int inherited(void) {
    const char *between = "";
    for (int number = 0; number < 1024; number++) {
        if (fcntl(number, F_GETFD) == -1) continue;
        printf("%s%d", between, number);
        between = " ";
    }
    puts("");
    return 0;
}

static int spy(const char *outside) {
    int watch = inotify_init();
    TRY("watch", inotify_add_watch(watch, outside, IN_ALL_EVENTS));
    return 0;
}

static int devices(void) {
    TRY("null", mknod("null", S_IFCHR | 0600, makedev(1, 3)));
    TRY("memory", mknod("mem", S_IFCHR | 0600, makedev(1, 1)));
    TRY("disk", mknod("disk", S_IFBLK | 0600, makedev(8, 0)));
    for (const char **path = (const char *[]){"/dev/shm/x", "/tmp/metier-x", "/dev/tty", "/dev/ptmx", "/dev/kmsg",
             "/dev/mem", "/dev/fuse", "/dev/net/tun", "/dev/full", "/sys/kernel/x", "/proc/sys/kernel/hostname", NULL};
         *path; path++) {
        TRY(*path, open(*path, O_RDWR | O_CREAT, 0600));
    }
    for (const char **path = (const char *[]){"/proc/1/environ", "/proc/self/mem", "/proc/self/environ",
             "/proc/1/maps", "/proc/self/smaps", "/proc/self/status", "/proc/version", "/proc/kallsyms", "/proc", "/sys", "/tmp", "/", "/dev",
             "/dev/shm", "/run", "/var", "/etc", "/home", "/root", NULL};
         *path; path++) {
        TRY(*path, open(*path, O_RDONLY));
    }
    return 0;
}

/* One process swaps a file for a link to the secret, as fast as it can, while the other opens it. */
static int race(const char *outside) {
    if (symlink(in(0, outside, "secret"), "bait") == -1) return 1;
    pid_t swapper = fork();
    if (swapper == 0) {
        while (renameat2(AT_FDCWD, "own", AT_FDCWD, "bait", RENAME_EXCHANGE) == 0) {}
        /* NFS and 9p cannot exchange. */
        for (;;) rename("own", "file") || rename("bait", "own") || rename("own", "bait") || rename("file", "own");
    }
    int opened = 0, refused = 0, stolen = 0;
    for (int i = 0; i < 40000; i++) {
        char content[16] = {0};
        int file = open("own", O_RDONLY);
        if (file == -1) {
            refused++;
            continue;
        }
        opened++;
        if (read(file, content, sizeof content - 1) > 0 && !strncmp(content, "secret", 6)) stolen++;
        close(file);
    }
    kill(swapper, SIGKILL);
    printf("both sides were seen: %s\nstolen: %d\n", opened && refused ? "yes" : "no", stolen);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "devices")) return devices();
    if (argc == 2 && !strcmp(argv[1], "inherited")) return inherited();
    if (argc > 2 && !strcmp(argv[1], "cut")) {
        for (int i = 2; i < argc; i++) cut(argv[i]);
        return 0;
    }
    if (argc != 3) return 64;
    if (!strcmp(argv[1], "change")) return change(argv[2]);
    if (!strcmp(argv[1], "see")) return see(argv[2]);
    if (!strcmp(argv[1], "look")) return look(argv[2]);
    if (!strcmp(argv[1], "mark")) return mark(argv[2]);
    if (!strcmp(argv[1], "spy")) return spy(argv[2]);
    if (!strcmp(argv[1], "race")) return race(argv[2]);
    return 64;
}
