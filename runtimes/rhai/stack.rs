//! The stack a script runs on: deep enough for whatever fits into its memory.
//!
//! Rhai copies, compares and drops values by recursion, and no function asks the script's leave to do so: a list in a list
//! in a list, or a closure that holds a closure, would end the process where the stack ends. So a script that could nest
//! that deep gets a stack as deep as its memory allows. It is reserved only, and costs memory as it is used.

/// Which stack a script needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// The caller's: what the script can nest is no deeper than its text.
    Callers,
    /// One of its own.
    Deep,
}

/// Text of this many bytes nests half as many levels at most, as long as it says nothing twice.
const SHORT: usize = 4096;

/// What a script needs to do anything twice: loops, functions, closures. In a comment they mean nothing, and cost little.
const AGAIN: [&str; 7] = ["loop", "while", "do", "for", "fn", "Fn", "|"];

/// Bytes of stack for each byte of memory. A level takes 72 bytes of memory at least: two blocks, the list and its items.
const RATIO: u64 = 8;

/// Bytes a script's calls may take of the caller's stack, which is 2 MiB for a thread as a rule, and of one of its own. Rhai
/// counts calls only, whatever each costs.
const CALLS: (usize, usize) = (1 << 20, 8 << 20);

/// More is not reserved at once.
const MOST: u64 = 4 << 30;

impl Stack {
    /// The stack for a script of this text.
    pub(super) fn for_script(text: &str) -> Self {
        if text.len() <= SHORT && !AGAIN.iter().any(|word| text.contains(word)) {
            Self::Callers
        } else {
            Self::Deep
        }
    }

    /// Bytes that calls within calls may take of it.
    pub(super) fn for_calls(self) -> usize {
        if self == Self::Deep { CALLS.1 } else { CALLS.0 }
    }

    /// Runs something that may allocate this many bytes.
    pub(super) fn with<T>(self, memory: u64, run: impl FnOnce() -> T) -> T {
        match self {
            Self::Callers => run(),
            Self::Deep => {
                let bytes = memory.saturating_mul(RATIO).saturating_add(2 * CALLS.1 as u64).min(MOST);
                stacker::grow(usize::try_from(bytes).unwrap_or(1 << 28), run)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_twice_needs_no_stack_of_its_own() {
        assert_eq!(Stack::for_script("#{name: input.name, sum: input.a + input.b}"), Stack::Callers);
        for text in ["loop { }", "for x in y { }", "let f = |x| x;", "fn f() { f() }", &" ".repeat(5000)] {
            assert_eq!(Stack::for_script(text), Stack::Deep, "{text}");
        }
    }
}
