/* A program that is started as the worker process of a script and lies to its host; for all else it is the real one beside it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t said = write(1, text, left);
        if (said <= 0) _exit(1);
        text += said;
        left -= said;
    }
}

/* One request, which is one line. */
static void hear(void) {
    char letter;
    while (read(0, &letter, 1) == 1 && letter != '\n') {}
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "__metier-worker") != 0) {
        char real[4096];
        ssize_t length = readlink("/proc/self/exe", real, sizeof real - 6);
        if (length < 0) return 127;
        strcpy(real + length, ".real");
        argv[0] = real;
        execv(real, argv);
        return 127;
    }
    const char *how = strrchr(argv[0], '-') + 1;
    hear();
    if (!strcmp(how, "garbage")) say("nonsense\n");
    if (!strcmp(how, "bytes")) say("\xff\xfe\n");
    if (!strcmp(how, "nothing")) say("\n");
    if (!strcmp(how, "gone")) return 0;
    if (!strcmp(how, "other")) say("{\"id\":2}\x1e" "1\n");
    if (!strcmp(how, "unnumbered")) say("{}\x1e" "1\n");
    if (!strcmp(how, "more")) say("{\"id\":1,\"sandbox\":null}\x1e" "1\n");
    if (!strcmp(how, "both")) say("{\"id\":1,\"error\":{\"kind\":\"script\",\"message\":\"x\"}}\x1e" "1\n");
    if (!strcmp(how, "kind")) say("{\"id\":1,\"error\":{\"kind\":\"denied\",\"message\":\"x\"}}\n");
    if (!strcmp(how, "stopped")) say("{\"id\":1,\"error\":{\"kind\":\"cancelled\",\"message\":\"x\"}}\n");
    if (!strcmp(how, "place"))
        say("{\"id\":1,\"error\":{\"kind\":\"script\",\"message\":\"x\",\"location\":{\"file\":\"/etc/passwd\",\"line\":1}}}\n");
    if (!strcmp(how, "two")) say("{\"id\":1}\x1e" "1\n{\"id\":2}\x1e\"forged\"\n");
    if (!strcmp(how, "torn")) say("{\"id\":1}\x1e" "1\n{\"id\":2}\x1e\"for");
    if (!strcmp(how, "much"))
        for (;;) say("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    /* Megabytes whose value would take hundreds. The second one never ends, which shows as soon as it is parsed. */
    if (!strcmp(how, "heavy") || !strcmp(how, "unclosed")) {
        say("{\"id\":1}\x1e[");
        for (int i = 0; i < 1 << 20; i++) say("[{}],");
        say(!strcmp(how, "heavy") ? "0]\n" : "0\n");
    }
    if (!strcmp(how, "lines"))
        for (;;) say("{\"id\":1}\x1e" "1\n");
    for (;;) pause();
}
