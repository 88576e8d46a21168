//! WebAssembly modules that take long to compile; `tests/wasm` and `benches/costs/overshoot.rs` load them.

use std::fmt::Write as _;

fn repeated(count: usize, what: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        write!(text, "{}", what(number)).unwrap();
        text
    })
}

/// The module whose compilation takes more than a gibibyte of memory, at a hundred kibibytes of text.
pub const LARGE_MODULE: &str = "calls with a thousand results";

/// Modules whose text is small for the time they take, or large in every way a module can be.
#[allow(clippy::too_many_lines, reason = "a table, a row for each module")]
pub fn hostile() -> Vec<(&'static str, String)> {
    let main = |body: &str| format!(r#"(module (func (export "run") {body}))"#);
    let locals = |count: usize| format!("(local {})", "i64 ".repeat(count));
    vec![
        ("nested blocks", main(&format!("{}{}", "(block ".repeat(20_000), ")".repeat(20_000)))),
        ("nested loops", main(&format!("{}{}", "(loop ".repeat(5_000), ")".repeat(5_000)))),
        (
            "locals set in many blocks",
            main(&format!(
                "{}{}",
                locals(2_000),
                repeated(4_000, |n| format!(
                    "(block (br_if 0 (i32.const {n})) (local.set {} (i64.add (local.get {}) (i64.const 1))))",
                    n % 2_000,
                    (n * 7) % 2_000
                ))
            )),
        ),
        (
            "loops that carry locals",
            main(&format!(
                "{}{}{}",
                locals(1_000),
                repeated(500, |n| format!(
                    "(loop (local.set {n} (i64.add (local.get {}) (local.get {n}))) (br_if 0 (i32.wrap_i64 (local.get {n})))",
                    (n + 1) % 1_000
                )),
                ")".repeat(500)
            )),
        ),
        (
            "branch tables",
            main(&format!(
                "{}{}{}",
                "(block ".repeat(200),
                repeated(40, |n| format!(
                    "(br_table {} (i32.const {n}))",
                    repeated(5_000, |at| format!("{} ", at % 200))
                )),
                ")".repeat(200)
            )),
        ),
        (
            "one giant function",
            main(&format!(
                "(local i64) {}",
                repeated(50_000, |n| format!(
                    "(local.set 0 (i64.xor (local.get 0) (i64.mul (local.get 0) (i64.const {n}))))"
                ))
            )),
        ),
        (
            "one deep expression",
            main(&format!(
                "(drop {}(i64.const 1){})",
                "(i64.add (i64.const 1) ".repeat(10_000),
                ")".repeat(10_000)
            )),
        ),
        (
            "many functions",
            format!(
                r#"(module (func (export "run")) {})"#,
                repeated(30_000, |n| format!("(func (result i64) (i64.mul (i64.const {n}) (i64.const 3)))"))
            ),
        ),
        (
            "many parameters",
            format!(
                r#"(module (func $f (param {}) (result i64) (local.get 0)) (func (export "run") {}))"#,
                "i64 ".repeat(1_000),
                repeated(100, |_| format!("(drop (call $f {}))", "(i64.const 1)".repeat(1_000)))
            ),
        ),
        (
            "many types",
            format!(
                r#"(module {} (func (export "run")))"#,
                repeated(60_000, |n| format!(
                    "(type (func (param {})))",
                    (0..16).map(|bit| if n >> bit & 1 == 1 { "i32 " } else { "i64 " }).collect::<String>()
                ))
            ),
        ),
        (
            "elements",
            format!(
                r#"(module (table 1000000 funcref) (func $f (export "run")) (elem (i32.const 0) {}))"#,
                "$f ".repeat(500_000)
            ),
        ),
        (
            "too many elements",
            format!(r#"(module (table 1000001 funcref) (func (export "run")) {})"#, " ".repeat(9)),
        ),
        (
            "long names",
            format!(
                r#"(module (func $f (export "run")) {})"#,
                repeated(200, |n| format!(r#"(export "{}{n}" (func $f))"#, "x".repeat(9_000)))
            ),
        ),
        (
            "many globals and calls through a table",
            format!(
                r#"(module (type $t (func)) (table 10 funcref) {} (func (export "run") {}))"#,
                repeated(20_000, |_| "(global (mut i64) (i64.const 0))".into()),
                repeated(20_000, |n| format!(
                    "(global.set {n} (i64.const 1)) (call_indirect (type $t) (i32.const {n}))"
                ))
            ),
        ),
        (LARGE_MODULE, {
            let values = "i64 ".repeat(1_000);
            format!(
                r#"(module (func $f (param {values}) (result {values}) {}) (func (export "run") {}{}{}))"#,
                repeated(1_000, |n| format!("(local.get {n})")),
                "(i64.const 1)".repeat(1_000),
                "(call $f)".repeat(10_000),
                "(drop)".repeat(1_000)
            )
        }),
        ("text without end", format!("(module {}", "(func (block ".repeat(400_000))),
    ]
}
