//! WebAssembly modules to compile: one of code as compilers write it, one of many functions alike.

use std::fmt::Write;

use metier_wasm::wast::Wat;
use metier_wasm::wast::parser::ParseBuffer;

/// 160 KB or so in 210 functions: mostly short ones and a few long, with loops, branches, switches, memory of every width,
/// integers and floats, direct and indirect calls. The seed makes it another module, not another amount of work.
pub fn realistic(seed: u32) -> Vec<u8> {
    let mut text = String::from(
        "(module (type $f (func (param i32 i32 i64 f64) (result i32))) (memory 4) (table 64 funcref)
         (global $g (mut i32) (i32.const 0))\n",
    );
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    for function in 0..FUNCTIONS {
        write!(
            text,
            "(func $f{function} (type $f) (local $a i32) (local $b i32) (local $c i64) (local $d f64)"
        )
        .expect("fits");
        // Most functions are short; one in sixteen is long.
        let statements = if dice.roll(16) == 0 { 40 + dice.roll(120) } else { 3 + dice.roll(14) };
        for _ in 0..statements {
            statement(&mut text, &mut dice, function, 0);
        }
        text.push_str("(i32.add (local.get $a) (local.get $b)))\n");
    }
    text.push_str("(elem (i32.const 0)");
    (0..64).for_each(|function| write!(text, " $f{}", function * 3).expect("fits"));
    write!(text, ") (data (i32.const 65536) \"{}\")", "a table of constants, as there are. ".repeat(300))
        .expect("fits");
    write!(text, "(func (export \"run\") (result i32) (global.set $g (i32.const {seed})) (i32.const 0)))")
        .expect("fits");
    compile_text(&text)
}

const FUNCTIONS: u32 = 210;

fn statement(text: &mut String, dice: &mut Dice, function: u32, depth: u32) {
    let shape = if depth < 3 { dice.roll(12) } else { dice.roll(8) };
    let (number, address) = (dice.roll(100_000), dice.roll(60_000));
    match shape {
        0 => write!(text, "(local.set $a (i32.add (i32.mul (local.get $b) (i32.const {number})) (local.get 0)))"),
        1 => write!(text, "(local.set $b (i32.load offset={address} (i32.and (local.get $a) (i32.const 65532))))"),
        2 => write!(text, "(i32.store8 offset={address} (i32.and (local.get $b) (i32.const 65535)) (local.get $a))"),
        3 => write!(text, "(local.set $c (i64.rotl (i64.xor (local.get $c) (i64.extend_i32_u (local.get $a))) (i64.const {})))", number % 63),
        4 => write!(text, "(local.set $d (f64.add (f64.mul (local.get $d) (f64.const {number}.5)) (f64.convert_i32_s (local.get $b))))"),
        5 => write!(text, "(local.set $a (select (local.get $b) (i32.shr_u (local.get 1) (i32.const {})) (i32.lt_s (local.get $a) (i32.const {number}))))", number % 31),
        6 if function > 0 => write!(
            text,
            "(local.set $b (call $f{} (local.get $a) (local.get $b) (local.get $c) (local.get $d)))",
            dice.roll(function)
        ),
        6 | 7 => write!(text, "(i64.store offset={address} (i32.and (local.get $a) (i32.const 65528)) (i64.add (local.get $c) (local.get 2)))"),
        8 | 9 => {
            write!(text, "(if (i32.gt_u (local.get $a) (i32.const {number})) (then ").expect("fits");
            (0..=dice.roll(3)).for_each(|_| statement(text, dice, function, depth + 1));
            text.push_str(") (else ");
            statement(text, dice, function, depth + 1);
            write!(text, "))")
        }
        10 => {
            write!(text, "(local.set $b (i32.const {})) (loop ", number % 64).expect("fits");
            (0..=dice.roll(3)).for_each(|_| statement(text, dice, function, depth + 1));
            write!(text, "(br_if 0 (local.tee $b (i32.and (i32.sub (local.get $b) (i32.const 1)) (i32.const 63)))))")
        }
        _ => {
            text.push_str("(block (block (block (br_table 0 1 2 (i32.and (local.get $a) (i32.const 3))))");
            for _ in 0..2 {
                statement(text, dice, function, depth + 1);
                text.push_str("(br 0))");
            }
            write!(text, "(local.set $a (call_indirect (type $f) (local.get $a) (i32.const {number}) (local.get $c) (local.get $d) (i32.and (local.get $b) (i32.const 63))))")
        }
    }
    .expect("fits");
}

/// 2,000 functions of six steps, all alike but for their constants: hard on whatever costs by the function.
pub fn uniform(seed: u32) -> Vec<u8> {
    let mut text = format!("(module (memory 1) (global $seed i32 (i32.const {seed}))");
    for function in 0..2000 {
        write!(text, "(func $f{function} (param $x i32) (result i32) (local $y i32)").expect("fits");
        for step in 0..6 {
            write!(
                text,
                "(local.set $y (i32.add (i32.mul (local.get $x) (i32.const {})) (i32.load (i32.and (local.get $y) (i32.const 1023)))))
                 (if (i32.gt_s (local.get $y) (i32.const {})) (then (local.set $x (i32.xor (local.get $x) (local.get $y)))))",
                seed ^ (function * 7 + step),
                function + step
            )
            .expect("fits");
        }
        text.push_str("(local.get $x))");
    }
    text.push_str("(func (export \"run\") (result i32) (drop (call $f0 (global.get $seed))) (i32.const 0)))");
    compile_text(&text)
}

/// In the form that compilers write.
fn compile_text(text: &str) -> Vec<u8> {
    let buffer = ParseBuffer::new(text).expect("is text");
    metier_wasm::wast::parser::parse::<Wat>(&buffer).expect("parses").encode().expect("encodes")
}

/// The same throws in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 33) % u64::from(sides)).expect("is below the sides")
    }
}
