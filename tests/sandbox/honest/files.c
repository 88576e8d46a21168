/* Reads, writes, lists and removes files. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void show(const char *path) {
    char text[100];
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    fwrite(text, 1, fread(text, 1, sizeof text, file), stdout);
    fclose(file);
}

static int is_name(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int delete(const char *path, const struct stat *about, int kind, struct FTW *place) { return remove(path); }

int main(void) {
    show("own");
    if (mkdir("out/deep", 0755) || mkdir("out/deep/er", 0755)) fail("mkdir");
    FILE *file = fopen("out/deep/er/new", "w");
    if (!file || fputs("new\n", file) < 0 || fclose(file)) fail("out/deep/er/new");
    show("out/deep/er/new");
    struct dirent **entries;
    int count = scandir(".", &entries, is_name, alphasort);
    if (count < 0) fail("scandir");
    for (int i = 0; i < count; i++) printf("%s%s", i ? " " : "", entries[i]->d_name);
    puts("");
    if (nftw("out/deep", delete, 8, FTW_DEPTH | FTW_PHYS)) fail("nftw");
    puts(access("out/deep", F_OK) ? "removed" : "still there");
    return 0;
}
