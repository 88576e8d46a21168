//! A filter of system calls, as the program that the kernel runs for each of them.
//!
//! The kernel tries a new filter on every number there is, so that one that searches for a number costs a tenth of one that
//! goes through them all.

use seccompiler::sock_filter;

/// What becomes of a call, where one of its rules fits, or where it has none.
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) rules: Vec<Rule>,
    pub(super) errno: libc::c_int,
}

/// Conditions that all have to hold.
pub(super) type Rule = Vec<Condition>;

/// One about the lower half of an argument.
#[derive(Clone, Copy)]
pub(super) struct Condition {
    argument: u8,
    mask: u32,
    value: u32,
    is: bool,
}

/// The argument is this.
pub(super) fn is(argument: u8, value: u32) -> Condition {
    has(argument, u32::MAX, value)
}

/// The argument is something else.
pub(super) fn is_not(argument: u8, value: u32) -> Condition {
    Condition { is: false, ..is(argument, value) }
}

/// These bits of the argument are these.
pub(super) fn has(argument: u8, mask: u32, value: u32) -> Condition {
    Condition { argument, mask, value, is: true }
}

// The few instructions there are; what they load lies in the kernel's record of the call.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const ANSWER: u16 = 0x06;
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Calls of x86-64 by the numbers of x32, which no row knows.
const OTHER_NUMBERS: u32 = 0x4000_0000;

/// The program for these rows, for a machine that calls itself so.
pub(super) fn program(mut rows: Vec<Row>, machine: u32) -> Vec<sock_filter> {
    rows.sort_by_key(|row| row.number);
    let mut program = vec![
        instruction(LOAD, MACHINE),
        jump(IF_EQUAL, machine, 1, 0),
        instruction(ANSWER, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        program.extend([jump(IF_AT_LEAST, OTHER_NUMBERS, 0, 1), refusal(libc::ENOSYS)]);
    }
    program.extend(search(&rows));
    program
}

/// Finds the row of the number that is loaded.
fn search(rows: &[Row]) -> Vec<sock_filter> {
    match rows {
        [] => vec![allowed()],
        [row] => {
            let answer = answer(row);
            // Of all rows the longest has some forty instructions.
            let mut found =
                vec![jump(IF_EQUAL, row.number, 0, u8::try_from(answer.len()).unwrap_or(u8::MAX))];
            found.extend(answer);
            found.push(allowed());
            found
        }
        _ => {
            let (lower, upper) = rows.split_at(rows.len() / 2);
            let (lower, middle) = (search(lower), upper.first().map_or(0, |row| row.number));
            let mut found = vec![jump(IF_AT_LEAST, middle, 0, 1), instruction(JUMP, length(&lower))];
            found.extend(lower);
            found.extend(search(upper));
            found
        }
    }
}

fn answer(row: &Row) -> Vec<sock_filter> {
    if row.rules.is_empty() {
        return vec![refusal(row.errno)];
    }
    let mut answer: Vec<_> = row.rules.iter().flat_map(|rule| fits(rule, row.errno)).collect();
    answer.push(allowed());
    answer
}

/// Refuses where all conditions hold, and goes on behind where one does not.
fn fits(rule: &Rule, errno: libc::c_int) -> Vec<sock_filter> {
    let mut program = vec![refusal(errno)];
    for condition in rule.iter().rev() {
        let behind = u8::try_from(program.len()).unwrap_or(u8::MAX);
        let (then, otherwise) = if condition.is { (0, behind) } else { (behind, 0) };
        let mut step = vec![instruction(LOAD, ARGUMENTS + 8 * u32::from(condition.argument))];
        if condition.mask != u32::MAX {
            step.push(instruction(AND, condition.mask));
        }
        step.push(jump(IF_EQUAL, condition.value, then, otherwise));
        program.splice(0..0, step);
    }
    program
}

fn length(program: &[sock_filter]) -> u32 {
    u32::try_from(program.len()).unwrap_or(u32::MAX)
}

fn allowed() -> sock_filter {
    instruction(ANSWER, libc::SECCOMP_RET_ALLOW)
}

fn refusal(errno: libc::c_int) -> sock_filter {
    instruction(ANSWER, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

fn instruction(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 7;

    /// What the program answers, as the kernel would run it.
    fn ran(program: &[sock_filter], machine: u32, number: u32, arguments: [u32; 3]) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                LOAD if step.k == NUMBER => held = number,
                LOAD if step.k == MACHINE => held = machine,
                LOAD => held = arguments[((step.k - ARGUMENTS) / 8) as usize],
                AND => held &= step.k,
                JUMP => at += step.k as usize,
                IF_EQUAL => at += jump(held == step.k),
                IF_AT_LEAST => at += jump(held >= step.k),
                ANSWER => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn each_number_has_the_answer_of_its_row() {
        let row = |number: u32| Row { number, rules: Vec::new(), errno: 1 + number.cast_signed() % 7 };
        for count in [0_u32, 1, 2, 3, 50, 301] {
            // Every third number, in no order.
            let rows = (0..count).map(|place| row((place * 101 % count.max(1)) * 3)).collect();
            let program = program(rows, HERE);
            for number in 0..1000 {
                let listed = number % 3 == 0 && number / 3 < count;
                let expected = if listed { refusal(1 + number.cast_signed() % 7).k } else { allowed().k };
                assert_eq!(ran(&program, HERE, number, [0; 3]), expected, "{number} of {count}");
            }
            assert_eq!(ran(&program, HERE + 1, 0, [0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }

    #[test]
    fn a_row_refuses_where_all_conditions_of_one_of_its_rules_hold() {
        let rules = vec![vec![is(0, 5), is_not(1, 0)], vec![has(2, 0xf0, 0x20)]];
        let program = program(vec![Row { number: 3, rules, errno: 1 }], HERE);
        for (arguments, refused) in [
            ([5, 1, 0], true),
            ([5, 0, 0], false),
            ([4, 1, 0], false),
            ([0, 0, 0x2f], true),
            ([5, 0, 0x121], true),
            ([0, 0, 0x30], false),
        ] {
            let expected = if refused { refusal(1).k } else { allowed().k };
            assert_eq!(ran(&program, HERE, 3, arguments), expected, "{arguments:?}");
            assert_eq!(ran(&program, HERE, 4, arguments), allowed().k);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn other_numbers_are_absent() {
        assert_eq!(ran(&program(Vec::new(), HERE), HERE, OTHER_NUMBERS | 1, [0; 3]), refusal(libc::ENOSYS).k);
    }
}
