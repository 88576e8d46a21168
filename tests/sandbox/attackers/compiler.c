/* A program that is started as the compiler of WebAssembly modules and tries what its name says, after its last `-`; for all else it
   is the real one beside it. What it got through with is the last line of its standard error, which its host repeats. */
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

extern char **environ;
static char results[300] = "done:";

static void got(const char *what) {
    if (strlen(results) + strlen(what) + 2 < sizeof results) strcat(strcat(results, " "), what);
}

static int finish(void) {
    fprintf(stderr, "%s\n", results);
    return 1;
}

static void try_open(const char *path, const char *name, int flags) {
    int opened = open(path, flags, 0600);
    if (opened != -1) got(name);
    close(opened);
}

static int files(const char *program) {
    char path[4096];
    static const char *READ[] = {"project/own", "outside/secret", "skills/x/SKILL.md", "", "project"};
    static const char *WRITTEN[] = {"project/new", "outside/new", "new"};
    strcpy(path, program);
    for (size_t i = 0; i < sizeof READ / sizeof *READ; i++) {
        strcpy(strrchr(path, '/') + 1, READ[i]);
        try_open(path, path, O_RDONLY);
    }
    for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++) {
        strcpy(strrchr(path, '/') + 1, WRITTEN[i]);
        try_open(path, path, O_WRONLY | O_CREAT);
    }
    try_open(program, "program", O_WRONLY);
    static const char *SYSTEM[] = {"/", "/etc/passwd", "/etc/hostname", "/root", "/home", "/usr/bin", "/var/log", "/dev/kmsg"};
    for (size_t i = 0; i < sizeof SYSTEM / sizeof *SYSTEM; i++) try_open(SYSTEM[i], SYSTEM[i], O_RDONLY);
    static const char *NEW[] = {"/tmp/compiler-new", "/dev/shm/compiler-new", "/var/tmp/compiler-new", "/usr/lib/compiler-new"};
    for (size_t i = 0; i < sizeof NEW / sizeof *NEW; i++) try_open(NEW[i], NEW[i], O_WRONLY | O_CREAT);
    return finish();
}

static int network(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int stream = socket(AF_INET, SOCK_STREAM, 0), packets = socket(AF_INET, SOCK_DGRAM, 0);
    if (connect(stream, (struct sockaddr *)&to, sizeof to) == 0) got("connect");
    if (sendto(packets, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1) got("send");
    struct sockaddr_in any = {.sin_family = AF_INET};
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (struct sockaddr *)&any, sizeof any) == 0 && listen(server, 1) == 0) got("listen");
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    int length = sprintf(local.sun_path + 1, "metier-compiler-%d", port) + 1 + sizeof local.sun_family;
    if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&local, length) == 0) got("unix");
    return finish();
}

/* Takes so many MiB. The sentence of a refusal is the one of the standard library of Rust. */
static int take(size_t mebibytes) {
    size_t bytes = mebibytes << 20;
    volatile char *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "memory allocation of %zu bytes failed\n", bytes);
        abort();
    }
    for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    return 0;
}

static int memory(void) {
    take(1200);
    got("memory");
    return finish();
}

/* The same memory in several processes, none of which has too much. */
static int tree(void) {
    int ready[2], taken = 0;
    char one;
    pipe(ready);
    for (int child = 0; child < 3; child++) {
        if (fork() == 0) {
            take(500);
            write(ready[1], "x", 1);
            pause();
        }
    }
    while (taken < 3 && read(ready[0], &one, 1) == 1) taken++;
    sleep(2);
    got("memory");
    return finish();
}

static int processes(void) {
    char number[32];
    int count = 1;
    for (; count < 1000; count++) {
        pid_t child = fork();
        if (child == 0) for (;;) pause();
        if (child == -1) break;
    }
    snprintf(number, sizeof number, "%d processes", count);
    got(number);
    return finish();
}

static int limits(void) {
    static const struct { const char *name; int which; } ALL[] = {
        {"seconds", RLIMIT_CPU}, {"file", RLIMIT_FSIZE}, {"open", RLIMIT_NOFILE},
    };
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        char text[64];
        struct rlimit limit;
        getrlimit(ALL[i].which, &limit);
        snprintf(text, sizeof text, "%s %lld", ALL[i].name, (long long)limit.rlim_max);
        got(text);
    }
    return finish();
}

static int environment(void) {
    for (char **one = environ; *one; one++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*one, "="), *one);
        got(name);
    }
    return finish();
}

/* A process that would outlive the compiler. */
static int leave(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) for (;;) pause();
        _exit(0);
    }
    wait(NULL);
    return finish();
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "__metier-compile-wasm") != 0) {
        char real[4096];
        ssize_t length = readlink("/proc/self/exe", real, sizeof real - 6);
        if (length < 0) return 127;
        strcpy(real + length, ".real");
        argv[0] = real;
        execv(real, argv);
        return 127;
    }
    const char *how = strrchr(argv[0], '-') + 1;
    signal(SIGTERM, SIG_IGN);
    signal(SIGXCPU, SIG_IGN);
    if (!strcmp(how, "files")) return files(argv[0]);
    if (!strncmp(how, "network", 7)) return network(atoi(how + 7));
    if (!strcmp(how, "memory")) return memory();
    if (!strcmp(how, "tree")) return tree();
    if (!strcmp(how, "processes")) return processes();
    if (!strcmp(how, "limits")) return limits();
    if (!strcmp(how, "environment")) return environment();
    if (!strcmp(how, "leave")) return leave();
    if (!strcmp(how, "spin")) for (;;) {}
    static char letters[1 << 16];
    memset(letters, 'x', sizeof letters);
    if (!strcmp(how, "flood")) for (;;) write(1, letters, sizeof letters);
    return finish();
}
