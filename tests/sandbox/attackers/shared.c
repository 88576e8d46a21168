/* Memory and queues that processes find by number or name, wherever their files are. Called with what the host made. */
#include "attack.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    if (argc != 3) return 64;
    int segment = atoi(argv[1]);
    struct shmid_ds about;
    TRY("attach", shmat(segment, NULL, SHM_RDONLY));
    TRY("ask", shmctl(segment, IPC_STAT, &about));
    TRY("memory", shmget(IPC_PRIVATE, 4096, 0600));
    TRY("semaphore", semget(IPC_PRIVATE, 1, 0600));
    TRY("messages", msgget(IPC_PRIVATE, 0600));
    TRY("queue of the host's", mq_open(argv[2], O_RDWR));
    TRY("new queue", mq_open("/metier-left-behind", O_RDWR | O_CREAT, 0600, NULL));
    TRY("end a queue", mq_unlink(argv[2]));
    TRY("named memory", shm_open("/metier-left-behind", O_RDWR | O_CREAT, 0600));
    return 0;
}
