//! Compiles a seccomp filter: the BPF program that the kernel runs for each system call.
//!
//! The kernel evaluates a new filter for every syscall number, so a binary search takes a tenth of the time that a linear list
//! takes.

use seccompiler::sock_filter;

/// What a call returns. A call without a rule does not exist (`ENOSYS`).
pub(super) struct SyscallRule {
    pub(super) number: u32,
    pub(super) action: SyscallAction,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum SyscallAction {
    Allow,
    Errno(libc::c_int),
    /// Answered by the supervisor.
    Notify,
    /// Refused if one of the rules matches.
    ErrnoIf(Vec<ArgumentRule>, libc::c_int),
    /// Answered by the supervisor, unless one of the rules matches: then refused, or allowed if there is no error.
    NotifyUnless(Vec<ArgumentRule>, Option<libc::c_int>),
}

/// Conditions that must all hold.
pub(super) type ArgumentRule = Vec<Condition>;

/// A condition on the lower half of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    argument: u8,
    mask: u32,
    value: u32,
    expects_equal: bool,
}

/// The argument equals this value.
pub(super) fn equals(argument: u8, value: u32) -> Condition {
    masked_equals(argument, u32::MAX, value)
}

/// The argument differs from this value.
pub(super) fn differs(argument: u8, value: u32) -> Condition {
    Condition { expects_equal: false, ..equals(argument, value) }
}

/// The argument's bits under the mask equal this value.
pub(super) fn masked_equals(argument: u8, mask: u32, value: u32) -> Condition {
    Condition { argument, mask, value, expects_equal: true }
}

/// The argument's bits under the mask differ from this value.
pub(super) fn masked_differs(argument: u8, mask: u32, value: u32) -> Condition {
    Condition { expects_equal: false, ..masked_equals(argument, mask, value) }
}

/// At least one of these bits of the argument is set.
pub(super) fn any_bit_set(argument: u8, mask: u32) -> Condition {
    Condition { expects_equal: false, ..masked_equals(argument, mask, 0) }
}

// The few instructions in use; they load from the kernel's record of the call.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const ARGS_OFFSET: u32 = 16;

/// The BPF program for these rules and this architecture.
pub(super) fn compile(mut rules: Vec<SyscallRule>, machine: u32) -> Vec<sock_filter> {
    rules.sort_by_key(|rule| rule.number);
    let mut program = vec![
        instruction(LOAD, ARCH_OFFSET),
        jump(IF_EQUAL, machine, 1, 0),
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, NUMBER_OFFSET),
    ];
    program.extend(compile_search(&action_ranges(rules)));
    program
}

/// The first of a range of numbers that share this action.
type ActionRange = (u32, SyscallAction);

/// Ranges that cover every number, also those of x32, through which a program on x86-64 may make any call.
fn action_ranges(rules: Vec<SyscallRule>) -> Vec<ActionRange> {
    const ABSENT: SyscallAction = SyscallAction::Errno(libc::ENOSYS);
    let mut ranges: Vec<ActionRange> = vec![(0, ABSENT)];
    for SyscallRule { number, action } in rules {
        // Replaces the range that follows the previous rule if this one starts there.
        ranges.pop_if(|(first, _)| *first == number);
        ranges.extend([(number, action), (number + 1, ABSENT)]);
    }
    ranges.dedup_by(|next, previous| next.1 == previous.1);
    ranges
}

/// Finds the range of the loaded number.
fn compile_search(ranges: &[ActionRange]) -> Vec<sock_filter> {
    match ranges {
        [] => vec![return_errno(libc::ENOSYS)],
        [(_, action)] => compile_action(action),
        _ => {
            let (lower, upper) = ranges.split_at(ranges.len() / 2);
            let (lower, first) = (compile_search(lower), upper.first().map_or(0, |(first, _)| *first));
            // The kernel translates every instruction anew for each script. A short jump takes only one.
            let mut program = match u8::try_from(lower.len()) {
                Ok(length) => vec![jump(IF_AT_LEAST, first, length, 0)],
                Err(_) => vec![jump(IF_AT_LEAST, first, 0, 1), instruction(JUMP, length(&lower))],
            };
            program.extend(lower);
            program.extend(compile_search(upper));
            program
        }
    }
}

fn compile_action(action: &SyscallAction) -> Vec<sock_filter> {
    match action {
        SyscallAction::Allow => vec![return_allow()],
        SyscallAction::Errno(errno) => vec![return_errno(*errno)],
        SyscallAction::Notify => vec![return_notify()],
        SyscallAction::ErrnoIf(rules, errno) => compile_rules(rules, &return_errno(*errno), return_allow()),
        SyscallAction::NotifyUnless(rules, errno) => {
            compile_rules(rules, &errno.map_or_else(return_allow, return_errno), return_notify())
        }
    }
}

/// The first if one of the rules matches, otherwise the second.
fn compile_rules(rules: &[ArgumentRule], matched: &sock_filter, otherwise: sock_filter) -> Vec<sock_filter> {
    let mut program: Vec<_> = rules.iter().flat_map(|rule| compile_rule(rule, matched)).collect();
    program.push(otherwise);
    program
}

/// Returns this if all conditions hold, and otherwise continues after the rule.
fn compile_rule(rule: &ArgumentRule, matched: &sock_filter) -> Vec<sock_filter> {
    let mut program = vec![matched.clone()];
    for (number, condition) in rule.iter().enumerate().rev() {
        let skip = u8::try_from(program.len()).unwrap_or(u8::MAX);
        let (then, otherwise) = if condition.expects_equal { (0, skip) } else { (skip, 0) };
        let previous = number.checked_sub(1).and_then(|index| rule.get(index));
        let is_loaded =
            previous.is_some_and(|one| one.argument == condition.argument && one.mask == u32::MAX);
        let mut step = Vec::new();
        if !is_loaded {
            step.push(instruction(LOAD, ARGS_OFFSET + 8 * u32::from(condition.argument)));
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

fn return_notify() -> sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_USER_NOTIF)
}

fn return_allow() -> sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ALLOW)
}

fn return_errno(errno: libc::c_int) -> sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
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

    /// What the program returns when the kernel runs it.
    pub(crate) fn evaluate(program: &[sock_filter], machine: u32, number: u32, arguments: &[u32]) -> u32 {
        let (mut at, mut register) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                LOAD if step.k == NUMBER_OFFSET => register = number,
                LOAD if step.k == ARCH_OFFSET => register = machine,
                LOAD => register = arguments[((step.k - ARGS_OFFSET) / 8) as usize],
                AND => register &= step.k,
                JUMP => at += step.k as usize,
                IF_EQUAL => at += jump(register == step.k),
                IF_AT_LEAST => at += jump(register >= step.k),
                RETURN => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn each_number_has_the_action_of_its_rule() {
        let errno = |number: u32| 1 + number.cast_signed() % 7;
        let answer = |number: u32| {
            if number.is_multiple_of(2) { SyscallAction::Allow } else { SyscallAction::Errno(errno(number)) }
        };
        let row = |number: u32| SyscallRule { number, action: answer(number) };
        for count in [0_u32, 1, 2, 3, 50, 301] {
            // Every third number, in no order.
            let rows = (0..count).map(|index| row((index * 101 % count.max(1)) * 3)).collect();
            let program = compile(rows, HERE);
            for number in 0..1000 {
                let expected = match number % 3 == 0 && number / 3 < count {
                    true if number.is_multiple_of(2) => return_allow().k,
                    true => return_errno(errno(number)).k,
                    false => return_errno(libc::ENOSYS).k,
                };
                assert_eq!(evaluate(&program, HERE, number, &[0; 3]), expected, "{number} of {count}");
            }
            assert_eq!(evaluate(&program, HERE + 1, 0, &[0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }

    #[test]
    fn a_row_refuses_where_all_conditions_of_one_of_its_rules_hold() {
        let several = vec![differs(0, 1), differs(0, 4), differs(0, 0), equals(1, 7)];
        let rules = vec![
            vec![equals(0, 5), differs(1, 0)],
            vec![masked_equals(2, 0xf0, 0x20)],
            several,
            vec![any_bit_set(2, 0xf00)],
        ];
        let rows = vec![
            SyscallRule { number: 3, action: SyscallAction::ErrnoIf(rules, 1) },
            SyscallRule { number: 4, action: SyscallAction::Allow },
        ];
        let program = compile(rows, HERE);
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
            let expected = if refused { return_errno(1).k } else { return_allow().k };
            assert_eq!(evaluate(&program, HERE, 3, &arguments), expected, "{arguments:?}");
            assert_eq!(evaluate(&program, HERE, 4, &arguments), return_allow().k);
        }
    }

    #[test]
    fn adjacent_numbers_with_the_same_action_take_one_step() {
        let allowed = |number| SyscallRule { number, action: SyscallAction::Allow };
        let (one, many) = (compile(vec![allowed(7)], HERE), compile((7..300).map(allowed).collect(), HERE));
        assert_eq!(one.len(), many.len());
        let absent =
            (7..300).map(|number| SyscallRule { number, action: SyscallAction::Errno(libc::ENOSYS) });
        assert_eq!(compile(absent.collect(), HERE).len(), compile(Vec::new(), HERE).len());
    }

    #[test]
    fn other_numbers_are_absent() {
        let row = |number: u32| SyscallRule { number, action: SyscallAction::Allow };
        let program = compile([0, 1, 2, 450].map(row).into(), HERE);
        for number in [3, 449, 451, 0x4000_0001, u32::MAX] {
            assert_eq!(evaluate(&program, HERE, number, &[0; 3]), return_errno(libc::ENOSYS).k, "{number}");
        }
    }
}
