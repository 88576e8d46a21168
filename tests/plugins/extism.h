// Extism's functions as a plug-in in C imports them, and a few words that make them pleasant.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define IMPORT(space, name) __attribute__((import_module(space), import_name(name))) extern
#define ENV(name) IMPORT("extism:host/env", #name)
#define EXPORT(name) __attribute__((export_name(name)))

ENV(alloc) u64 extism_alloc(u64 length);
ENV(length) u64 extism_length(u64 block);
ENV(load_u8) u8 extism_load_u8(u64 at);
ENV(load_u64) u64 extism_load_u64(u64 at);
ENV(store_u8) void extism_store_u8(u64 at, u8 value);
ENV(input_offset) u64 extism_input_offset(void);
ENV(input_length) u64 extism_input_length(void);
ENV(output_set) void extism_output_set(u64 at, u64 length);
ENV(error_set) void extism_error_set(u64 block);
ENV(log_info) void extism_log_info(u64 block);

// A text as a block that the host can read.
static u64 block_of(const char *text, u32 length) {
    u64 block = extism_alloc(length);
    for (u32 at = 0; at < length; at++) extism_store_u8(block + at, text[at]);
    return block;
}

static u32 length_of(const char *text) {
    u32 length = 0;
    while (text[length]) length++;
    return length;
}

// Copies a block of the host, as much as there is room for.
static u32 text_of(u64 block, u64 length, char *text, u32 room) {
    u32 at = 0;
    for (; at < length && at < room; at++) text[at] = extism_load_u8(block + at);
    return at;
}

// Ends with the host's own words, or with the plug-in's.
static int failed_as(u64 block) {
    extism_error_set(block);
    return 1;
}

static int failed(const char *text) {
    return failed_as(block_of(text, length_of(text)));
}

// Whether a host function answered with {"ok": value} and not with {"error": ..}.
static int is_ok(u64 answer) {
    return extism_load_u8(answer + 2) == 'o';
}

// Answers with the value of {"ok":value}, where it lies.
static int answer_with(u64 answer) {
    if (!is_ok(answer)) return failed_as(answer);
    extism_output_set(answer + 6, extism_length(answer) - 7);
    return 0;
}
