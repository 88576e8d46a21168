/* Loaded into a host: whenever it asks for the time of day, that has gone years forward or back. What measures time is not touched. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define YEARS (20L * 365 * 24 * 60 * 60)

/* Seconds to add, which differ from call to call unless the host is to have one jump, which happens after so many calls. */
static long jump(void) {
    static long calls;
    const char *how = getenv("CLOCK_JUMP");
    long call = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (!how) return 0;
    if (*how == 'f') return call * YEARS / 1000;
    if (*how == 'b') return -(call * YEARS / 1000);
    return call % 2 ? YEARS : -YEARS;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long answer = syscall(SYS_clock_gettime, clock, time);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += jump();
    return answer;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *to, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}
