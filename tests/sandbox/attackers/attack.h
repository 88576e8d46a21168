/* What attackers share: a line for each attempt, with what the system answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *named(int error) {
    static const struct { int number; const char *name; } NAMES[] = {
        {EPERM, "EPERM"}, {EACCES, "EACCES"}, {ENOSYS, "ENOSYS"}, {EXDEV, "EXDEV"}, {EROFS, "EROFS"},
        {ESRCH, "ESRCH"}, {ENOENT, "ENOENT"}, {EINVAL, "EINVAL"}, {EFAULT, "EFAULT"}, {EBADF, "EBADF"},
        {EFBIG, "EFBIG"}, {ENXIO, "ENXIO"}, {EISCONN, "EISCONN"}, {ELOOP, "ELOOP"},
        {ENOTTY, "ENOTTY"}, {EAGAIN, "EAGAIN"}, {ENOTSUP, "ENOTSUP"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (NAMES[i].number == error) return NAMES[i].name;
    }
    static char number[16];
    snprintf(number, sizeof number, "E%d", error);
    return number;
}

static void tried(const char *what, long answer) {
    printf("%s: %s\n", what, answer == -1 ? named(errno) : "done");
    fflush(stdout);
}

#define TRY(what, call) do { errno = 0; tried(what, (long)(call)); } while (0)
