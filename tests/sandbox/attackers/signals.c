/* Loaded into a host: it is sent a signal every few milliseconds, as by a profiler, and handles it. */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

static void nothing(int number) { (void)number; }

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = nothing;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &often, NULL);
}
