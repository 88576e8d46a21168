/* Memory that no process is told to have: given back and still there, held by nobody but a socket, or by a process whose first
   thread has ended. */
#include "attack.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

static const size_t MIB = 1 << 20;
static const size_t MUCH = 700;

static void *page_of(size_t bytes, int zero) {
    int kind = MAP_SHARED | (zero == -1 ? MAP_ANONYMOUS : 0);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind, zero, 0);
    if (at == MAP_FAILED) exit(1);
    return at;
}

/* Fills memory with a window of a mebibyte, so that it never has more of it. */
static void filled(char *at, size_t bytes) {
    for (size_t from = 0; from < bytes; from += MIB) {
        memset(at + from, 1, MIB);
        madvise(at + from, MIB, MADV_DONTNEED);
    }
}

static void given_back(void) { filled(page_of(MUCH * MIB, -1), MUCH * MIB); }

static void by_a_child(void) {
    char *at = page_of(MUCH * MIB, -1);
    for (size_t from = 0; from < MUCH; from += 50) {
        if (fork() == 0) {
            memset(at + from * MIB, 1, 50 * MIB);
            _exit(0);
        }
        wait(NULL);
    }
}

/* One page of each area is left, the first or the last. */
static void cut(int zero, int last) {
    for (size_t area = 0; area < MUCH / 10; area++) {
        char *at = page_of(10 * MIB, zero);
        filled(at, 10 * MIB);
        munmap(last ? at : at + 4096, 10 * MIB - 4096);
    }
}

static void moved(void) {
    for (size_t area = 0; area < MUCH / 10; area++) {
        char *at = page_of(10 * MIB, -1);
        filled(at, 10 * MIB);
        mremap(at, 10 * MIB, 4096, MREMAP_MAYMOVE);
    }
}

/* Read only, which fills a file in memory as well. */
static void looked_at(void) {
    volatile char *at = page_of(MUCH * MIB, -1);
    mprotect((void *)at, MUCH * MIB, PROT_READ);
    for (size_t page = 0; page < MUCH * MIB; page += 4096) {
        (void)at[page];
        if (page % MIB == 0 && page > 0) madvise((char *)at + page - MIB, MIB, MADV_DONTNEED);
    }
}

static void *later(void *work) {
    usleep(100000);
    ((void (*)(void))work)();
    pause();
    return NULL;
}

/* What a process does after its first thread has ended. */
static void headless(void (*work)(void)) {
    pthread_t other;
    pthread_create(&other, NULL, later, (void *)work);
    syscall(SYS_exit, 0);
}

static char *volatile kept;

static void own(void) {
    kept = malloc(150 * MIB);
    if (kept) memset(kept, 1, 150 * MIB);
}

static void pipes(void) {
    static char block[1 << 16];
    for (int ends[2]; pipe2(ends, O_NONBLOCK) == 0;) {
        while (write(ends[1], block, sizeof block) > 0) {}
    }
}

static void many(int count, void (*work)(void)) {
    for (int i = 1; i < count; i++) {
        if (fork() == 0) break;
    }
    headless(work);
}

static int nothing(void *unused) { return 0; }

/* What would give a thread descriptors of its own, and memory a file. */
static int calls(void) {
    static char stack[1 << 16];
    int flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    TRY("a thread with files of its own", clone(nothing, stack + sizeof stack, flags, NULL));
    TRY("and with a place for its number", clone(nothing, stack + sizeof stack, flags | CLONE_CHILD_CLEARTID, NULL));
    TRY("and with bits that are too high", syscall(SYS_clone, 1ul << 40 | flags, stack + sizeof stack, 0, 0, 0));
    TRY("files of its own, by closing", syscall(SYS_close_range, 1000, 1001, 2));
    TRY("and by marking", syscall(SYS_close_range, 1000, 1001, 2 | 4));
    TRY("files of its own", unshare(CLONE_FILES));
    TRY("a file in memory", memfd_create("x", 0));
    TRY("one with seals", memfd_create("x", 3));
    TRY("one of large pages", memfd_create("x", 4));
    TRY("by a long number", syscall(SYS_memfd_create, "x", 1ul << 32));
    TRY("a secret one", syscall(447, 0));
    char name[64];
    void *at = page_of(4096, -1);
    snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", (long)at, (long)at + 4096);
    TRY("memory as a file", open(name, O_RDWR));
    return 0;
}

/* Files in shared memory by name: without a name, and on their way through sockets. */
static void sent(void) {
    char name[64], byte = 'x', space[CMSG_SPACE(sizeof(int))] = {0};
    static char block[1 << 20];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1) exit(1);
    for (size_t one = 0; one < MUCH / 50; one++) {
        snprintf(name, sizeof name, "/dev/shm/metier-sandbox-%d-%zu", getpid(), one);
        int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file == -1) exit(1);
        unlink(name);
        for (int i = 0; i < 50; i++) {
            if (write(file, block, sizeof block) != sizeof block) {
                printf("full\n");
                exit(0);
            }
        }
        memcpy(CMSG_DATA(head), &file, sizeof file);
        if (sendmsg(pair[0], &message, 0) != 1) exit(1);
        close(file);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 64;
    if (!strcmp(argv[1], "calls")) return calls();
    if (!strcmp(argv[1], "given-back")) given_back();
    else if (!strcmp(argv[1], "by-a-child")) by_a_child();
    else if (!strcmp(argv[1], "first")) cut(-1, 0);
    else if (!strcmp(argv[1], "last")) cut(-1, 1);
    else if (!strcmp(argv[1], "zero")) cut(open("/dev/zero", O_RDWR), 0);
    else if (!strcmp(argv[1], "moved")) moved();
    else if (!strcmp(argv[1], "looked-at")) looked_at();
    else if (!strcmp(argv[1], "sent")) sent();
    else if (!strcmp(argv[1], "headless")) many(4, own);
    else if (!strcmp(argv[1], "headless-shared")) headless(given_back);
    else if (!strcmp(argv[1], "headless-pipes")) many(24, pipes);
    else return 64;
    sleep(100);
    return 0;
}
