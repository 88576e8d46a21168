/* Sockets of every kind, and ways to a listening socket of the host's. */
#include "attack.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static int families(void) {
    static const struct { const char *name; int family, type, protocol; } KINDS[] = {
        {"tcp", 2, 1, 0}, {"udp", 2, 2, 0}, {"tcp6", 10, 1, 0}, {"udp6", 10, 2, 0}, {"raw", 2, 3, 1},
        {"ping", 2, 2, 1}, {"mptcp", 2, 1, 262}, {"sctp", 2, 1, 132}, {"netlink", 16, 3, 0},
        {"packet", 17, 3, 0}, {"vsock", 40, 1, 0}, {"alg", 38, 5, 0}, {"unix", 1, 1, 0},
        {"unix datagram", 1, 2, 0}, {"unix seqpacket", 1, 5, 0}, {"bluetooth", 31, 3, 0}, {"can", 29, 3, 1},
        {"xdp", 44, 3, 0}, {"key", 15, 3, 2}, {"tipc", 30, 2, 0},
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        TRY(KINDS[i].name, socket(KINDS[i].family, KINDS[i].type | SOCK_CLOEXEC, KINDS[i].protocol));
    }
    int pair[2];
    TRY("pair of tcp", socketpair(2, 1, 0, pair));
    return 0;
}

/* The first 4 bits of the type tell it; the rest are flags. */
static int pairs(void) {
    int pair[2];
    TRY("stream", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    TRY("seqpacket", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    return 0;
}

static socklen_t address(struct sockaddr_un *to, const char *path) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    size_t length = strlen(path);
    memcpy(to->sun_path, path, length + 1);
    if (*path == '@') to->sun_path[0] = 0;
    return offsetof(struct sockaddr_un, sun_path) + length + (*path == '@' ? 0 : 1);
}

/* A pair of datagram sockets is not tied to one peer: each end may send to any name. */
static int leave(int type, const char *path) {
    int pair[2];
    struct sockaddr_un to;
    socklen_t length = address(&to, path);
    if (socketpair(AF_UNIX, type, 0, pair) == -1) return -1;
    if (sendto(pair[0], "out", 3, 0, (struct sockaddr *)&to, length) == 3) return 0;
    if (connect(pair[0], (struct sockaddr *)&to, length) == -1) return -1;
    return send(pair[0], "out", 3, 0) == 3 ? 0 : -1;
}

static int join(int type, const char *path) {
    struct sockaddr_un to;
    socklen_t length = address(&to, path);
    int socket_ = socket(AF_UNIX, type, 0);
    return socket_ == -1 ? -1 : connect(socket_, (struct sockaddr *)&to, length);
}

static int local(char **path) {
    TRY("stream by path", join(SOCK_STREAM, path[0]));
    TRY("datagram by path", join(SOCK_DGRAM, path[1]));
    TRY("stream by name", join(SOCK_STREAM, path[2]));
    TRY("pair to path", leave(SOCK_DGRAM, path[1]));
    TRY("raw pair to path", leave(SOCK_RAW, path[1]));
    TRY("flagged pair to path", leave(SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, path[1]));
    TRY("stream pair to path", leave(SOCK_STREAM, path[0]));
    return 0;
}

/* With the network open: what is beside it. */
static int beside(void) {
    TRY("tcp", socket(AF_INET, SOCK_STREAM, 0));
    TRY("udp6", socket(AF_INET6, SOCK_DGRAM, 0));
    TRY("routes", socket(AF_NETLINK, SOCK_RAW, 0));
    TRY("kernel events", socket(AF_NETLINK, SOCK_RAW, 15));
    TRY("audit", socket(AF_NETLINK, SOCK_RAW, 9));
    TRY("raw", socket(AF_INET, SOCK_RAW, 1));
    TRY("packet", socket(AF_PACKET, SOCK_RAW, 0));
    TRY("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    TRY("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
    TRY("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "families")) return families();
    if (argc == 2 && !strcmp(argv[1], "pairs")) return pairs();
    if (argc == 5 && !strcmp(argv[1], "local")) return local(argv + 2);
    if (argc == 2 && !strcmp(argv[1], "beside")) return beside();
    return 64;
}
