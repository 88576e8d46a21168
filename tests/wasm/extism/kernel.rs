//! Extism's functions, each called as its kits call it and as they do not.

use super::Agreement::{Differs, Error, Failure, Output};
use super::{Agreement, Case, disagreement, hold, text};

type Row = (&'static str, Agreement, &'static str);

const MEMORY: &[Row] = &[
    ("a block has the length that was asked for", Output, "(call $put (call $length (call $alloc (i64.const 1000))))"),
    ("no bytes are no block", Output, "(call $put (call $alloc (i64.const 0)))"),
    ("new memory is zero", Output, "(call $put_block (call $alloc (i64.const 40)))"),
    ("offset 0 has no length", Output, "(call $put (call $length (i64.const 0)))"),
    ("the inside of a block has no length", Output, "(call $put (call $length (i64.add <abcd> (i64.const 1))))"),
    ("an offset beyond everything has no length", Output, "(call $put (call $length (i64.const -1)))"),
    ("the unsafe length of a block is its length", Output, "(call $put (call $length_unsafe <abcd>))"),
    ("the unsafe length at offset 0", Output, "(call $put (call $length_unsafe (i64.const 0)))"),
    ("the unsafe length beyond everything", Output, "(call $put (call $length_unsafe (i64.const -1)))"),
    ("a freed block has no length", Output,
        "(local.set $a <abcd>) (call $free (local.get $a)) (call $put (call $length (local.get $a)))
         (call $put (call $length_unsafe (local.get $a)))"),
    ("what is not a block can be freed", Output,
        "(call $free (i64.const 0)) (call $free (i64.const 12345)) (call $free (i64.const -1)) (local.set $a <abcd>)
         (call $free (i64.add (local.get $a) (i64.const 1))) (call $free (local.get $a)) (call $free (local.get $a))
         (call $put (call $length <xyz>))"),
    ("freed memory is used again as it was left", Differs("where a block lies is the host's own matter: freed memory is used again sooner"),
        "(local.set $a <abcd>) (call $free (local.get $a)) (local.set $b (call $alloc (i64.const 4)))
         (call $put32 (i64.eq (local.get $a) (local.get $b))) (call $put_block (local.get $b))"),
    ("a smaller block of freed memory has its own length", Output,
        "(call $free <abcdefgh>) (call $put (call $length (call $alloc (i64.const 3))))"),
    ("eight bytes are one number, the lowest first", Output,
        "(local.set $a (call $alloc (i64.const 16))) (call $store_u64 (local.get $a) (i64.const 0x0102030405060708))
         (call $store_u8 (i64.add (local.get $a) (i64.const 8)) (i32.const 0x1ff)) (call $put_block (local.get $a))
         (call $put (call $load_u64 (i64.add (local.get $a) (i64.const 1))))
         (call $put32 (call $load_u8 (i64.add (local.get $a) (i64.const 8))))"),
    ("all bytes come through", Output, "(call $put_block <\\00\\01\\7f\\80\\fe\\ff>)"),
    ("a byte beyond all memory reads as 0", Output,
        "(call $put32 (call $load_u8 (i64.const 0x7fffffff))) (call $put32 (call $load_u8 (i64.const -1)))
         (call $put32 (call $load_u8 (i64.const 0x100000000)))"),
    ("eight bytes beyond all memory read as 0", Output,
        "(call $put (call $load_u64 (i64.const 0x7fffffff))) (call $put (call $load_u64 (i64.const -100)))"),
    ("a byte written beyond all memory is nowhere", Output,
        "(call $store_u8 (i64.const 0x7fffffff) (i32.const 1)) (call $store_u8 (i64.const -1) (i32.const 1))
         (call $store_u64 (i64.const 0x7fffffff) (i64.const 1)) (call $store_u64 (i64.const -100) (i64.const 1))
         (call $put (call $length <abcd>))"),
    ("the eight bytes at the top of the address space", Output, "(call $put (call $load_u64 (i64.const -1)))"),
    ("a byte at offset 0", Output, "(call $put32 (call $load_u8 (i64.const 0)))"),
    ("a block of 16 MiB", Output, "(local.set $a (call $alloc (i64.const 0x1000000))) (call $put (call $length (local.get $a)))
         (call $store_u8 (i64.add (local.get $a) (i64.const 0xffffff)) (i32.const 7))
         (call $put32 (call $load_u8 (i64.add (local.get $a) (i64.const 0xffffff))))"),
    ("a thousand blocks", Output,
        "(local.set $b (i64.const 1000)) (loop $next (local.set $a (call $alloc (local.get $b)))
         (call $store_u8 (local.get $a) (i32.const 1)) (if (i64.eqz (i64.rem_u (local.get $b) (i64.const 3)))
         (then (call $free (local.get $a)))) (local.set $b (i64.sub (local.get $b) (i64.const 1)))
         (br_if $next (i64.ne (local.get $b) (i64.const 0)))) (call $put (call $length (local.get $a)))"),
];

const INPUT: &[Row] = &[
    ("the input and its length", Output,
        "(call $put (call $input_length)) (call $put_block (call $input_offset))"),
    ("the input is a block", Output, "(call $put (call $length (call $input_offset)))"),
    ("the input by bytes and by eight", Output,
        "(call $put32 (call $input_load_u8 (i64.const 0))) (call $put32 (call $input_load_u8 (i64.const 5)))
         (call $put (call $input_load_u64 (i64.const 0))) (call $put (call $input_load_u64 (i64.const 1)))"),
    ("beyond the input is 0", Output,
        "(call $put32 (call $input_load_u8 (call $input_length))) (call $put32 (call $input_load_u8 (i64.const 100000)))
         (call $put32 (call $input_load_u8 (i64.const -1)))"),
    ("eight bytes that are not all of the input are 0", Output,
        "(call $put (call $input_load_u64 (i64.sub (call $input_length) (i64.const 7))))
         (call $put (call $input_load_u64 (i64.sub (call $input_length) (i64.const 8))))
         (call $put (call $input_load_u64 (i64.const 0x7fffffff)))"),
    ("a freed input has no length, and its place may be taken", Output,
        "(call $free (call $input_offset)) (call $put (call $input_length)) (call $put32 (call $input_load_u8 (i64.const 0)))
         (local.set $a <abc>) (call $put (call $input_length))"),
];

const OUTPUT: &[Row] = &[
    ("an output that lies in memory", Output, "(call $output_set <\\22abc\\22> (i64.const 5)) (return (i32.const 0))"),
    ("an output from the middle of a block", Output,
        "(call $output_set (i64.add <xx\\22abc\\22xx> (i64.const 2)) (i64.const 5)) (return (i32.const 0))"),
    ("the last output counts", Output,
        "(call $output_set <1> (i64.const 1)) (call $output_set <2> (i64.const 1)) (return (i32.const 0))"),
    ("the input as output", Output,
        "(call $output_set (call $input_offset) (call $input_length)) (return (i32.const 0))"),
    ("an output that was freed", Output,
        "(local.set $a <12>) (call $output_set (local.get $a) (i64.const 2)) (call $free (local.get $a)) (return (i32.const 0))"),
    ("an output beyond all memory is none, and the one before it stays", Output,
        "(call $output_set <1> (i64.const 1)) (call $output_set (i64.const 0x7fffffff) (i64.const 4))
         (call $output_set (i64.const -8) (i64.const 16)) (call $output_set <1> (i64.const 0x7fffffff)) (return (i32.const 0))"),
    ("no output at all", Differs("what a skill answers with is JSON"), "(return (i32.const 0))"),
    ("an output that is no JSON", Differs("what a skill answers with is JSON"),
        "(call $output_set <abc> (i64.const 3)) (return (i32.const 0))"),
    ("a key that stands twice", Differs("what a skill answers with is JSON, and nothing of it is lost"),
        "(call $output_set <{\\22a\\22:1,\\22a\\22:2}> (i64.const 13)) (return (i32.const 0))"),
];

const ENDING: &[Row] = &[
    ("code 0", Output, ""),
    ("a code without a text", Failure, "(call $done) (return (i32.const 3))"),
    ("a negative code", Failure, "(call $done) (return (i32.const -1))"),
    ("a text and a code", Error, "(call $error_set <no luck>) (return (i32.const 1))"),
    ("a text and code 0", Error, "(call $error_set <no luck>) (return (i32.const 0))"),
    ("a text and an output", Error, "(call $error_set <no luck>)"),
    (
        "a long text",
        Error,
        "(call $error_set <no luck no luck no luck no luck no luck no luck no luck no luck no luck no luck>) (return (i32.const 1))",
    ),
    (
        "a text of several lines and letters",
        Error,
        "(call $error_set <one\\0atwo\\09gr\\c3\\bc\\c3\\9fe \\f0\\9f\\98\\80>) (return (i32.const 1))",
    ),
    ("the last text counts", Error, "(call $error_set <one>) (call $error_set <two>) (return (i32.const 1))"),
    ("a text that is taken back", Output, "(call $error_set <one>) (call $error_set (i64.const 0))"),
    (
        "a text that is taken back, and a code",
        Failure,
        "(call $error_set <one>) (call $error_set (i64.const 0)) (return (i32.const 1))",
    ),
    ("a text that is no UTF-8", Failure, "(call $error_set <\\ff>) (return (i32.const 1))"),
    (
        "a text beyond all memory is none",
        Output,
        "(call $error_set (i64.const 0x7fffffff)) (call $error_set (i64.const -1))",
    ),
    (
        "a text beyond all memory does not replace one",
        Error,
        "(call $error_set <one>) (call $error_set (i64.const 0x7fffffff)) (return (i32.const 1))",
    ),
    (
        "a text that was freed",
        Output,
        "(local.set $a <one>) (call $error_set (local.get $a)) (call $free (local.get $a))",
    ),
    ("the inside of a text is none", Output, "(call $error_set (i64.add <one> (i64.const 1)))"),
    ("a trap", Failure, "unreachable"),
    ("a trap after a text", Failure, "(call $error_set <one>) unreachable"),
    ("memory that is not there", Failure, "(drop (i32.load (i32.const -4)))"),
    ("a division by zero", Failure, "(drop (i32.div_u (i32.const 1) (i32.const 0)))"),
];

const VARIABLES: &[Row] = &[
    ("none is set", Output, "(call $put (call $var_get <a>))"),
    ("what was set", Output, "(call $var_set <a> <one>) (call $put_block (call $var_get <a>))"),
    ("what was set twice", Output, "(call $var_set <a> <one>) (call $var_set <a> <two>) (call $put_block (call $var_get <a>))"),
    ("what was removed", Output,
        "(call $var_set <a> <one>) (call $var_set <a> (i64.const 0)) (call $put (call $var_get <a>))"),
    ("what was never set can be removed", Output, "(call $var_set <a> (i64.const 0)) (call $put (call $var_get <a>))"),
    ("an empty value removes", Output,
        "(call $var_set <a> <one>) (call $var_set <a> (call $alloc (i64.const 0))) (call $put (call $var_get <a>))"),
    ("all bytes come through", Output,
        "(call $var_set <a> <\\00\\01\\7f\\80\\fe\\ff>) (call $put_block (call $var_get <a>))"),
    ("names are told apart", Output,
        "(call $var_set <a> <one>) (call $var_set <A> <two>) (call $var_set <a\\00> <three>)
         (call $put_block (call $var_get <a>)) (call $put_block (call $var_get <A>)) (call $put_block (call $var_get <a\\00>))"),
    ("the empty name", Output,
        "(call $var_set (i64.const 0) <one>) (call $put_block (call $var_get (i64.const 0))) (call $put (call $var_get <a>))"),
    ("each copy is a block of its own", Output,
        "(call $var_set <a> <one>) (local.set $a (call $var_get <a>)) (call $store_u8 (local.get $a) (i32.const 0x78))
         (call $put_block (local.get $a)) (call $put_block (call $var_get <a>))"),
    ("names and values belong to the host afterwards", Output,
        "(local.set $a <a>) (local.set $b <one>) (call $var_set (local.get $a) (local.get $b))
         (call $put (call $length (local.get $a))) (call $put (call $length (local.get $b)))
         (local.set $a <b>) (drop (call $var_get (local.get $a))) (call $put (call $length (local.get $a)))"),
    ("a name that is no UTF-8", Failure, "(drop (call $var_get <\\ff>))"),
    ("a name that is no UTF-8 cannot be set", Failure, "(call $var_set <\\ff> <one>)"),
    ("a name that is not a block", Failure, "(drop (call $var_get (i64.const 12345)))"),
    ("a name that is the inside of a block", Failure, "(drop (call $var_get (i64.add <abc> (i64.const 1))))"),
    ("a value that is not a block", Failure, "(call $var_set <a> (i64.const 12345))"),
    ("a name and a value that are one block", Output,
        "(local.set $a <a>) (call $var_set (local.get $a) (local.get $a)) (call $put_block (call $var_get <a>))"),
    ("as much as variables may take", Output,
        "(call $var_set <a> (call $alloc (i64.const 1048527))) (call $put (call $length (call $var_get <a>)))"),
    ("a byte more than variables may take", Failure, "(call $var_set <a> (call $alloc (i64.const 1048528)))"),
    ("two that together take too much", Failure,
        "(call $var_set <a> (call $alloc (i64.const 600000))) (call $var_set <b> (call $alloc (i64.const 600000)))"),
    ("the old value counts while it is replaced", Failure,
        "(call $var_set <a> (call $alloc (i64.const 600000))) (call $var_set <a> (call $alloc (i64.const 600000)))"),
    ("what was removed takes nothing", Output,
        "(call $var_set <a> (call $alloc (i64.const 600000))) (call $var_set <a> (i64.const 0))
         (call $var_set <a> (call $alloc (i64.const 600000))) (call $put (call $length (call $var_get <a>)))"),
    ("a name of 100,000 bytes", Output,
        "(call $var_set (call $alloc (i64.const 100000)) <one>) (call $put_block (call $var_get (call $alloc (i64.const 100000))))"),
];

const SETTINGS: &[(&str, &str)] = &[("width", "80"), ("name", "grüße"), ("empty", ""), ("", "no name")];

const CONFIG: &[Row] = &[
    (
        "what is set",
        Output,
        "(call $put_block (call $config_get <width>)) (call $put_block (call $config_get <name>))",
    ),
    ("what is not set", Output, "(call $put (call $config_get <height>))"),
    ("what is empty", Output, "(call $put (call $config_get <empty>))"),
    ("the empty name", Output, "(call $put_block (call $config_get (i64.const 0)))"),
    (
        "the name belongs to the host afterwards",
        Output,
        "(local.set $a <height>) (drop (call $config_get (local.get $a))) (call $put (call $length (local.get $a)))",
    ),
    ("a name that is no UTF-8", Failure, "(drop (call $config_get <\\ff>))"),
    ("a name that is not a block", Failure, "(drop (call $config_get (i64.const 12345)))"),
];

const LOG: &[Row] = &[
    (
        "every level",
        Output,
        "(call $log_trace <one>) (call $log_debug <two>) (call $log_info <three>) (call $log_warn <four>) (call $log_error <five>)",
    ),
    ("the level", Output, "(call $put32 (call $get_log_level))"),
    ("letters and lines", Output, "(call $log_info <gr\\c3\\bc\\c3\\9fe\\0a>)"),
    ("nothing", Output, "(call $log_info (i64.const 0))"),
    (
        "the text belongs to the host afterwards",
        Output,
        "(local.set $a <one>) (call $log_info (local.get $a)) (call $put (call $length (local.get $a)))",
    ),
    ("a text that is not a block", Failure, "(call $log_info (i64.const 12345))"),
    (
        "a text that is no UTF-8",
        Differs("it is logged with a sign for each wrong byte, where Extism logs that it cannot"),
        "(call $log_info <a\\ff>)",
    ),
    (
        "a text before a failure",
        Error,
        "(call $log_warn <one>) (call $error_set <no luck>) (return (i32.const 1))",
    ),
];

const WEB: &[Row] = &[
    ("no status before a request", Output, "(call $put32 (call $http_status_code))"),
    ("no headers before a request", Output, "(call $put_block (call $http_headers))"),
    (
        "a host that is not permitted",
        Failure,
        "(drop (call $http_request <{\\22url\\22:\\22http://example.com/\\22}> (i64.const 0)))",
    ),
    ("a request that is no JSON", Failure, "(drop (call $http_request <abc> (i64.const 0)))"),
    ("a request that is not a block", Failure, "(drop (call $http_request (i64.const 12345) (i64.const 0)))"),
    ("no request", Failure, "(drop (call $http_request (i64.const 0) (i64.const 0)))"),
];

#[test]
fn every_function_of_extism_does_what_it_does_there() {
    let tables = [
        ("memory", MEMORY),
        ("input", INPUT),
        ("output", OUTPUT),
        ("ending", ENDING),
        ("variables", VARIABLES),
        ("config", CONFIG),
        ("log", LOG),
        ("web", WEB),
    ];
    let rows = tables.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)));
    hold(rows.map(|(table, (name, agreement, body))| {
        let module = text::module("", body);
        let case = Case { input: "0123456789".into(), config: SETTINGS, ..Case::new(module.as_bytes()) };
        (format!("{table}: {name}"), disagreement(&case, *agreement))
    }));
}

/// What stands in a module beside `run`. Extism itself crashes where what runs before the call logs, or gets or sets anything.
const STARTING: &[(&str, Agreement, &str, &str)] = &[
    (
        "a start function runs before",
        Output,
        "(global $seen (mut i32) (i32.const 0)) (func $begin (global.set $seen (i32.const 7))) (start $begin)",
        "(call $put32 (global.get $seen))",
    ),
    (
        "an initialiser runs before",
        Output,
        r#"(global $seen (mut i32) (i32.const 0)) (func (export "_initialize") (global.set $seen (i32.const 7)))"#,
        "(call $put32 (global.get $seen))",
    ),
    (
        "constructors run before, and `_initialize` beside them does not",
        Output,
        r#"(global $seen (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $seen (i32.add (global.get $seen) (i32.const 1))))
        (func (export "__wasm_call_ctors") (global.set $seen (i32.add (global.get $seen) (i32.const 16))))"#,
        "(call $put32 (global.get $seen))",
    ),
    (
        "Haskell is initialised with two zeros, after the reactor",
        Output,
        r#"(global $seen (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $seen (i32.mul (i32.add (global.get $seen) (i32.const 3)) (i32.const 5))))
        (func (export "hs_init") (param i32 i32) (result i32)
            (global.set $seen (i32.add (global.get $seen) (i32.add (local.get 0) (local.get 1)))) (i32.const 9))"#,
        "(call $put32 (global.get $seen))",
    ),
    (
        "an initialiser with parameters is refused",
        Failure,
        r#"(global $seen (mut i32) (i32.const 0)) (func (export "_initialize") (param i32) (global.set $seen (i32.const 7)))"#,
        "(call $put32 (global.get $seen))",
    ),
    (
        "no input is there before the call",
        Output,
        "(global $seen (mut i64) (i64.const 7)) (func $begin (global.set $seen (call $input_length))) (start $begin)",
        "(call $put (global.get $seen))",
    ),
    (
        "an error from before the call is forgotten",
        Output,
        "(func $begin (call $error_set <early>)) (start $begin)",
        "",
    ),
    (
        "an output from before the call is forgotten",
        Differs("what a skill answers with is JSON"),
        "(func $begin (call $output_set <1> (i64.const 1))) (start $begin)",
        "(return (i32.const 0))",
    ),
    (
        "a block from before the call is gone",
        Output,
        "(global $seen (mut i64) (i64.const 7)) (func $begin (global.set $seen <abcdefgh>)) (start $begin)",
        "(call $put32 (i64.eq (call $length (global.get $seen)) (i64.const 8)))",
    ),
    ("a start function that fails", Failure, "(func $begin unreachable) (start $begin)", ""),
];

#[test]
fn what_runs_before_the_call_does_what_it_does_there() {
    hold(STARTING.iter().map(|(name, agreement, fields, body)| {
        let module = text::module(fields, body);
        let case = Case { input: "0123456789".into(), ..Case::new(module.as_bytes()) };
        ((*name).to_owned(), disagreement(&case, *agreement))
    }));
}

/// Whole modules.
const MODULES: &[(&str, Agreement, &str)] = &[
    ("no such function", Failure, "(module)"),
    (
        "nothing comes back",
        Output,
        r#"(module (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
        (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
        (func (export "run") (call $output_set (call $input_offset) (i64.const 1))))"#,
    ),
    ("a function with parameters", Failure, r#"(module (func (export "run") (param i32)))"#),
    (
        "a function with two results",
        Failure,
        r#"(module (func (export "run") (result i32 i32) (i32.const 0) (i32.const 0)))"#,
    ),
    (
        "a function whose result is no i32",
        Failure,
        r#"(module (func (export "run") (result i64) (i64.const 0)))"#,
    ),
    (
        "an import that there is not",
        Failure,
        r#"(module (import "extism:host/env" "fly" (func)) (func (export "run")))"#,
    ),
    (
        "an import of another type",
        Failure,
        r#"(module (import "extism:host/env" "alloc" (func (param i32) (result i32))) (func (export "run")))"#,
    ),
    (
        "the memory of Extism",
        Failure,
        r#"(module (import "extism:host/env" "memory" (memory 1)) (func (export "run")))"#,
    ),
    ("what is not a module", Failure, "(module"),
];

#[test]
fn every_module_is_accepted_or_refused_as_there() {
    hold(MODULES.iter().map(|(name, agreement, module)| {
        let case = Case { input: 1.into(), ..Case::new(module.as_bytes()) };
        ((*name).to_owned(), disagreement(&case, *agreement))
    }));
}
