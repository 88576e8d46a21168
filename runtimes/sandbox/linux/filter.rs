//! A filter of system calls, as the program that the kernel runs for each of them.
//!
//! The kernel tries a new filter on every number there is, so that one that searches for a number costs a tenth of one that
//! goes through them all.

use seccompiler::sock_filter;

/// What becomes of a call. One without a row does not exist.
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) answer: Answer,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Refused(libc::c_int),
    /// Refused where one of the rules fits.
    RefusedWhere(Vec<Rule>, libc::c_int),
}

/// Conditions that all have to hold.
pub(super) type Rule = Vec<Condition>;

/// One about the lower half of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
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

/// Some of these bits of the argument are set.
pub(super) fn has_some(argument: u8, mask: u32) -> Condition {
    Condition { is: false, ..has(argument, mask, 0) }
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

/// The program for these rows, for a machine that calls itself so.
pub(super) fn program(mut rows: Vec<Row>, machine: u32) -> Vec<sock_filter> {
    rows.sort_by_key(|row| row.number);
    let mut program = vec![
        instruction(LOAD, MACHINE),
        jump(IF_EQUAL, machine, 1, 0),
        instruction(ANSWER, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, NUMBER),
    ];
    program.extend(search(&ranges(rows)));
    program
}

/// The first of numbers that all have this answer.
type Range = (u32, Answer);

/// Every number there is, in ranges; also those of x32, by which a program on x86-64 may make any call.
fn ranges(rows: Vec<Row>) -> Vec<Range> {
    const ABSENT: Answer = Answer::Refused(libc::ENOSYS);
    let mut ranges: Vec<Range> = vec![(0, ABSENT)];
    for Row { number, answer } in rows {
        // What comes behind the row before, unless this does.
        ranges.pop_if(|(first, _)| *first == number);
        ranges.extend([(number, answer), (number + 1, ABSENT)]);
    }
    ranges.dedup_by(|next, held| next.1 == held.1);
    ranges
}

/// Finds the range of the number that is loaded.
fn search(ranges: &[Range]) -> Vec<sock_filter> {
    match ranges {
        [] => vec![refusal(libc::ENOSYS)],
        [(_, answer)] => instructions(answer),
        _ => {
            let (lower, upper) = ranges.split_at(ranges.len() / 2);
            let (lower, middle) = (search(lower), upper.first().map_or(0, |(first, _)| *first));
            // The kernel translates every instruction anew for each script. A jump that is not far takes one.
            let mut found = match u8::try_from(lower.len()) {
                Ok(near) => vec![jump(IF_AT_LEAST, middle, near, 0)],
                Err(_) => vec![jump(IF_AT_LEAST, middle, 0, 1), instruction(JUMP, length(&lower))],
            };
            found.extend(lower);
            found.extend(search(upper));
            found
        }
    }
}

fn instructions(answer: &Answer) -> Vec<sock_filter> {
    match answer {
        Answer::Allowed => vec![allowed()],
        Answer::Refused(errno) => vec![refusal(*errno)],
        Answer::RefusedWhere(rules, errno) => {
            let mut answer: Vec<_> = rules.iter().flat_map(|rule| fits(rule, *errno)).collect();
            answer.push(allowed());
            answer
        }
    }
}

/// Refuses where all conditions hold, and goes on behind where one does not.
fn fits(rule: &Rule, errno: libc::c_int) -> Vec<sock_filter> {
    let mut program = vec![refusal(errno)];
    for (number, condition) in rule.iter().enumerate().rev() {
        let behind = u8::try_from(program.len()).unwrap_or(u8::MAX);
        let (then, otherwise) = if condition.is { (0, behind) } else { (behind, 0) };
        let before = number.checked_sub(1).and_then(|before| rule.get(before));
        let is_loaded =
            before.is_some_and(|before| before.argument == condition.argument && before.mask == u32::MAX);
        let mut step = Vec::new();
        if !is_loaded {
            step.push(instruction(LOAD, ARGUMENTS + 8 * u32::from(condition.argument)));
        }
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
pub(super) mod tests {
    use super::*;

    const HERE: u32 = 7;

    /// What the program answers, as the kernel would run it.
    pub(crate) fn ran(program: &[sock_filter], machine: u32, number: u32, arguments: [u32; 3]) -> u32 {
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
        let errno = |number: u32| 1 + number.cast_signed() % 7;
        let answer = |number: u32| {
            if number.is_multiple_of(2) { Answer::Allowed } else { Answer::Refused(errno(number)) }
        };
        let row = |number: u32| Row { number, answer: answer(number) };
        for count in [0_u32, 1, 2, 3, 50, 301] {
            // Every third number, in no order.
            let rows = (0..count).map(|place| row((place * 101 % count.max(1)) * 3)).collect();
            let program = program(rows, HERE);
            for number in 0..1000 {
                let expected = match number % 3 == 0 && number / 3 < count {
                    true if number.is_multiple_of(2) => allowed().k,
                    true => refusal(errno(number)).k,
                    false => refusal(libc::ENOSYS).k,
                };
                assert_eq!(ran(&program, HERE, number, [0; 3]), expected, "{number} of {count}");
            }
            assert_eq!(ran(&program, HERE + 1, 0, [0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }

    #[test]
    fn a_row_refuses_where_all_conditions_of_one_of_its_rules_hold() {
        let several = vec![is_not(0, 1), is_not(0, 4), is_not(0, 0), is(1, 7)];
        let rules =
            vec![vec![is(0, 5), is_not(1, 0)], vec![has(2, 0xf0, 0x20)], several, vec![has_some(2, 0xf00)]];
        let rows = vec![
            Row { number: 3, answer: Answer::RefusedWhere(rules, 1) },
            Row { number: 4, answer: Answer::Allowed },
        ];
        let program = program(rows, HERE);
        for (arguments, refused) in [
            ([5, 1, 0], true),
            ([5, 0, 0], false),
            ([4, 1, 0], false),
            ([0, 0, 0x2f], true),
            ([5, 0, 0x1021], true),
            ([0, 0, 0x30], false),
            ([0, 0, 0x200], true),
            ([0, 0, 0x800], true),
            ([0, 0, 0x1000], false),
            ([2, 7, 0], true),
            ([2, 6, 0], false),
            ([1, 7, 0], false),
            ([4, 7, 0], false),
        ] {
            let expected = if refused { refusal(1).k } else { allowed().k };
            assert_eq!(ran(&program, HERE, 3, arguments), expected, "{arguments:?}");
            assert_eq!(ran(&program, HERE, 4, arguments), allowed().k);
        }
    }

    #[test]
    fn numbers_next_to_each_other_with_one_answer_take_one_step() {
        let allowed = |number| Row { number, answer: Answer::Allowed };
        let (one, many) = (program(vec![allowed(7)], HERE), program((7..300).map(allowed).collect(), HERE));
        assert_eq!(one.len(), many.len());
        let absent = (7..300).map(|number| Row { number, answer: Answer::Refused(libc::ENOSYS) });
        assert_eq!(program(absent.collect(), HERE).len(), program(Vec::new(), HERE).len());
    }

    #[test]
    fn other_numbers_are_absent() {
        let row = |number: u32| Row { number, answer: Answer::Allowed };
        let program = program([0, 1, 2, 450].map(row).into(), HERE);
        for number in [3, 449, 451, 0x4000_0001, u32::MAX] {
            assert_eq!(ran(&program, HERE, number, [0; 3]), refusal(libc::ENOSYS).k, "{number}");
        }
    }
}
