/* Outside of any sandbox: makes what others want, says how it is found, and keeps it until its input ends. */
#include "attack.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    if (argc != 2) return 64;
    int segment = shmget(IPC_PRIVATE, 4096, 0600);
    mqd_t queue = mq_open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    printf("%d %s\n", segment, queue == -1 ? "none" : argv[1]);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    shmctl(segment, IPC_RMID, NULL);
    /* Whoever ended it before must not have been able to. */
    return queue != -1 && mq_unlink(argv[1]) == -1 ? 1 : 0;
}
