//! Plug-ins as text: a few calls of Extism's functions, between what all of them import and what makes an output of numbers.

use std::fmt::Write;

/// Every function of `extism:host/env` that a kit may import, each by its name.
const IMPORTS: &[(&str, &str)] = &[
    ("alloc", "(param i64) (result i64)"),
    ("free", "(param i64)"),
    ("length", "(param i64) (result i64)"),
    ("length_unsafe", "(param i64) (result i64)"),
    ("load_u8", "(param i64) (result i32)"),
    ("load_u64", "(param i64) (result i64)"),
    ("store_u8", "(param i64 i32)"),
    ("store_u64", "(param i64 i64)"),
    ("input_offset", "(result i64)"),
    ("input_length", "(result i64)"),
    ("input_load_u8", "(param i64) (result i32)"),
    ("input_load_u64", "(param i64) (result i64)"),
    ("output_set", "(param i64 i64)"),
    ("error_set", "(param i64)"),
    ("config_get", "(param i64) (result i64)"),
    ("var_get", "(param i64) (result i64)"),
    ("var_set", "(param i64 i64)"),
    ("http_request", "(param i64 i64) (result i64)"),
    ("http_status_code", "(result i32)"),
    ("http_headers", "(result i64)"),
    ("log_trace", "(param i64)"),
    ("log_debug", "(param i64)"),
    ("log_info", "(param i64)"),
    ("log_warn", "(param i64)"),
    ("log_error", "(param i64)"),
    ("get_log_level", "(result i32)"),
];

/// `$put` appends a number to the output, `$put_block` the bytes of a block, `$done` sets it: a list of texts. `$text` makes a
/// block of bytes of memory.
const HELPERS: &str = r#"
    (memory (export "memory") 4)
    (global $to (mut i32) (i32.const 65537))
    (global $digits i32 (i32.const 61440))
    (data (i32.const 61440) "0123456789abcdef")
    (data (i32.const 65536) "[")
    (func $text (param $at i32) (param $count i32) (result i64)
        (local $block i64) (local $done i32)
        (local.set $block (call $alloc (i64.extend_i32_u (local.get $count))))
        (block $end (loop $next
            (br_if $end (i32.ge_u (local.get $done) (local.get $count)))
            (call $store_u8
                (i64.add (local.get $block) (i64.extend_i32_u (local.get $done)))
                (i32.load8_u (i32.add (local.get $at) (local.get $done))))
            (local.set $done (i32.add (local.get $done) (i32.const 1)))
            (br $next)))
        (local.get $block))
    (func $byte (param $byte i32)
        (i32.store8 (global.get $to) (local.get $byte))
        (global.set $to (i32.add (global.get $to) (i32.const 1))))
    (func $hex (param $number i64) (param $count i32)
        (loop $next
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (call $byte (i32.load8_u (i32.add (global.get $digits) (i32.and (i32.const 15) (i32.wrap_i64
                (i64.shr_u (local.get $number) (i64.extend_i32_u (i32.mul (i32.const 4) (local.get $count)))))))))
            (br_if $next (local.get $count))))
    (func $open
        (if (i32.gt_u (global.get $to) (i32.const 65537)) (then (call $byte (i32.const 44))))
        (call $byte (i32.const 34)))
    (func $put (param $number i64)
        (call $open) (call $hex (local.get $number) (i32.const 16)) (call $byte (i32.const 34)))
    (func $put32 (param $number i32) (call $put (i64.extend_i32_u (local.get $number))))
    (func $put_block (param $block i64) (local $at i64)
        (call $open)
        (block $end (loop $next
            (br_if $end (i64.ge_u (local.get $at) (call $length (local.get $block))))
            (call $hex (i64.extend_i32_u (call $load_u8 (i64.add (local.get $block) (local.get $at)))) (i32.const 2))
            (local.set $at (i64.add (local.get $at) (i64.const 1)))
            (br $next)))
        (call $byte (i32.const 34)))
    (func $done (local $block i64)
        (call $byte (i32.const 93))
        (local.set $block (call $text (i32.const 65536) (i32.sub (global.get $to) (i32.const 65536))))
        (call $output_set (local.get $block) (call $length (local.get $block))))
"#;

/// A module with these further fields, whose `run` does this and then sets the output. In both, `<words>` is a block with
/// these bytes, and `$a` and `$b` are numbers.
pub fn module(fields: &str, body: &str) -> String {
    module_with_imports("", fields, body)
}

/// The same, with further imports.
pub fn module_with_imports(imports: &str, fields: &str, body: &str) -> String {
    let mut text = format!("(module\n{imports}");
    for (name, ty) in IMPORTS {
        let _ = writeln!(text, r#"(import "extism:host/env" "{name}" (func ${name} {ty}))"#);
    }
    let (mut data, mut at) = (String::new(), 0);
    text.push_str(HELPERS);
    let _ = writeln!(text, "{}", blocks(fields, &mut data, &mut at));
    let body = blocks(body, &mut data, &mut at);
    let _ = writeln!(
        text,
        r#"(func (export "run") (result i32) (local $a i64) (local $b i64) {body} (call $done) (i32.const 0))"#
    );
    format!("{text}{data})")
}

fn blocks(text: &str, data: &mut String, at: &mut usize) -> String {
    let mut parts = text.split('<');
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (words, rest) = part.split_once('>').expect("a block ends");
        // `\ff` is one byte.
        let length = words.len() - 2 * words.matches('\\').count();
        let _ = write!(written, "(call $text (i32.const {at}) (i32.const {length})){rest}");
        let _ = writeln!(data, "(data (i32.const {at}) \"{words}\")");
        *at += length;
    }
    written
}
