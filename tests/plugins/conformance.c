// What tests/conformance.rs asks of every language, as one plug-in with a function for each promise.
//
//   clang --target=wasm32-unknown-unknown -O2 -nostdlib -ffreestanding -Wl,--no-entry -Wl,--strip-all
//         -o conformance.wasm conformance.c

#include "extism.h"

// Every function of the host API and how many parameters it has. A new one is a new line.
#define FUNCTIONS(F)                                                                                                   \
    F(read_file, 2)                                                                                                    \
    F(head, 2)                                                                                                         \
    F(tail, 2)                                                                                                         \
    F(list_dir, 1)                                                                                                     \
    F(stat, 2)                                                                                                         \
    F(tree, 3)                                                                                                         \
    F(grep, 3)                                                                                                         \
    F(glob, 2)                                                                                                         \
    F(find, 3)                                                                                                         \
    F(write, 3)                                                                                                        \
    F(append, 3)                                                                                                       \
    F(edit, 4)                                                                                                         \
    F(mkdir, 1)                                                                                                        \
    F(remove, 2)                                                                                                       \
    F(asset, 2)                                                                                                        \
    F(log, 2)                                                                                                          \
    F(progress, 3)                                                                                                     \
    F(tool, 2)                                                                                                         \
    F(skill, 2)                                                                                                        \
    F(sample, 4)                                                                                                       \
    F(config, 1)                                                                                                       \
    F(secret, 1)                                                                                                       \
    F(store_get, 2)                                                                                                    \
    F(store_set, 3)                                                                                                    \
    F(store_list, 2)                                                                                                   \
    F(store_delete, 2)                                                                                                 \
    F(http, 2)

#define PARAMS_1 u64
#define PARAMS_2 u64, PARAMS_1
#define PARAMS_3 u64, PARAMS_2
#define PARAMS_4 u64, PARAMS_3

#define ARGS_1 args[0]
#define ARGS_2 ARGS_1, args[1]
#define ARGS_3 ARGS_2, args[2]
#define ARGS_4 ARGS_3, args[3]

#define IMPORTED(name, count) IMPORT("extism:host/user", #name) u64 host_##name(PARAMS_##count);
FUNCTIONS(IMPORTED)

static char text[1 << 16];

static int is(const char *start, const char *end, const char *word) {
    while (start < end && *word && *start == *word) start++, word++;
    return start == end && !*word;
}

// The end of the JSON value that begins here. The host wrote it, without a blank.
static const char *end_of(const char *value) {
    if (*value == '"') {
        for (value++; *value != '"'; value++)
            if (*value == '\\') value++;
        return value + 1;
    }
    if (*value != '{' && *value != '[') {
        while (*value && *value != ',' && *value != '}' && *value != ']') value++;
        return value;
    }
    for (value++; *value != '}' && *value != ']';) {
        if (*value == ',' || *value == ':') value++;
        else value = end_of(value);
    }
    return value + 1;
}

// The value of a key in the object that begins here; nothing where it has none.
static const char *value_of(const char *object, const char *key) {
    for (const char *at = object + 1; *at == '"';) {
        const char *end = end_of(at);
        if (is(at + 1, end - 1, key)) return end + 1;
        at = end_of(end + 1);
        if (*at == ',') at++;
    }
    return 0;
}

// Calls the host function named by `name` with the list `args`, and answers with what it answers.
EXPORT("call") int call(void) {
    u32 length = text_of(extism_input_offset(), extism_input_length(), text, sizeof text - 1);
    text[length] = 0;
    const char *name = value_of(text, "name"), *given = value_of(text, "args");
    if (!name || !given) return failed("a name and args are needed");
    u64 args[4] = {0};
    u32 count = 0;
    for (const char *at = given + 1; *at != ']' && count < 4; count++) {
        const char *end = end_of(at);
        args[count] = block_of(at, end - at);
        at = *end == ',' ? end + 1 : end;
    }
    const char *first = name + 1, *last = end_of(name) - 1;
#define CALLED(name, count) if (is(first, last, #name)) return answer_with(host_##name(ARGS_##count));
    FUNCTIONS(CALLED)
    return failed("the plug-in does not import that function");
}

EXPORT("echo") void echo(void) {
    extism_output_set(extism_input_offset(), extism_input_length());
}

// Handles a refusal: answers with its kind, and whether it has a message.
EXPORT("handled") int handled(void) {
    u64 answer = host_write(block_of("\"a.txt\"", 7), block_of("\"x\"", 3), 0);
    if (is_ok(answer)) return failed("it was not refused");
    u32 length = text_of(answer, extism_length(answer), text, sizeof text - 1);
    text[length] = 0;
    const char *error = value_of(text, "error");
    const char *kind = value_of(error, "kind"), *message = value_of(error, "message");
    u64 output = extism_alloc(end_of(kind) - kind + 7), at = output;
    extism_store_u8(at++, '[');
    for (const char *letter = kind; letter < end_of(kind); letter++) extism_store_u8(at++, *letter);
    const char *rest = message && end_of(message) - message > 2 ? ",true]" : ",null]";
    while (*rest) extism_store_u8(at++, *rest++);
    extism_output_set(output, at - output);
    return 0;
}

EXPORT("endless") void endless(void) {
    for (;;) {}
}

EXPORT("growing") void growing(void) {
    while (__builtin_wasm_memory_grow(0, 1) != (unsigned long)-1) {}
}

EXPORT("flooding") void flooding(void) {
    for (;;) extism_log_info(extism_alloc(1000));
}

EXPORT("too_much") void too_much(void) {
    u64 length = 1 << 20;
    extism_output_set(extism_alloc(length), length);
}
