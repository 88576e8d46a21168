/* What is left of the user's powers, and what a program may use up. */
#include "attack.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[2] = {{0}};
    if (syscall(SYS_capget, &header, held) == -1) return 1;
    printf("effective %x%08x permitted %x%08x inheritable %x%08x\n", held[1].effective, held[0].effective,
           held[1].permitted, held[0].permitted, held[1].inheritable, held[0].inheritable);
    int ambient = 0, bounding = 0;
    for (int one = 0; one < 64; one++) {
        ambient += prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, one, 0, 0) == 1;
        bounding += prctl(PR_CAPBSET_READ, one) == 1;
    }
    printf("ambient %d bounding %d new privileges %s\n", ambient, bounding,
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? "never" : "possible");
    return 0;
}

static int become(void) {
    uid_t other = getuid() == 0 ? 12345 : 0;
    gid_t group = other;
    TRY("user", setuid(other));
    TRY("group", setgid(group));
    TRY("groups", setgroups(1, &group));
    TRY("owner", chown("own", other, group));
    return 0;
}

/* The descriptors there are. */
static int descriptors(void) {
    for (int one = 0; one < 20000; one++) {
        if (fcntl(one, F_GETFD) != -1) printf("%d ", one);
    }
    puts("");
    return 0;
}

static int ceilings(void) {
    static const struct { const char *name; int which; } ALL[] = {
        {"core", RLIMIT_CORE}, {"open files", RLIMIT_NOFILE}, {"file size", RLIMIT_FSIZE}, {"data", RLIMIT_DATA},
    };
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        struct rlimit limit;
        getrlimit(ALL[i].which, &limit);
        struct rlimit more = {limit.rlim_max + 1, limit.rlim_max + 1};
        printf("%s %llu\n", ALL[i].name, (unsigned long long)limit.rlim_max);
        TRY("raise", setrlimit(ALL[i].which, &more));
    }
    return 0;
}

/* A byte inside of the largest file there may be, and one beyond. */
static int large(int file) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    TRY("inside", pwrite(file, "x", 1, limit.rlim_cur - 1));
    TRY("beyond", pwrite(file, "x", 1, limit.rlim_cur));
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 64;
    if (!strcmp(argv[1], "capabilities")) return capabilities();
    if (!strcmp(argv[1], "become")) return become();
    if (!strcmp(argv[1], "descriptors")) return descriptors();
    if (!strcmp(argv[1], "ceilings")) return ceilings();
    if (!strcmp(argv[1], "large")) return large(open("large", O_RDWR | O_CREAT, 0600));
    return 64;
}
