//! The memory budget of one run: the plug-in's memory and tables, its Extism memory, and the values of its JSON texts, in one sum.

use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::excerpt::byte_size;
use metier_core::policy::CancelToken;

/// The number of bytes that are copied or created before the token is checked again.
pub(super) const BYTES_PER_CHECK: usize = 1 << 20;

pub(super) struct PluginBudget {
    used: u64,
    limit: u64,
    cancel: CancelToken,
}

impl PluginBudget {
    /// A budget of which a part is already used when the run begins; fails with `memory` if that part exceeds the limit.
    pub(super) fn new(limit: u64, used: u64, cancel: &CancelToken) -> Result<Self> {
        let mut budget = Self { used: 0, limit, cancel: cancel.clone() };
        budget.spend(used)?;
        Ok(budget)
    }

    /// Takes bytes from the budget; fails with `memory` if fewer are left.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<()> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used = used.ok_or_else(|| out_of_memory(self.limit))?;
        Ok(())
    }

    /// Fails if the run was stopped. Every long operation checks this after each [`BYTES_PER_CHECK`] bytes.
    pub(super) fn check_cancel(&self) -> Result<()> {
        self.cancel.check()
    }

    /// Returns bytes that were taken.
    pub(super) fn refund(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }
}

fn out_of_memory(limit: u64) -> SkillError {
    SkillError::new(
        ErrorKind::Memory,
        format!("the plug-in needed more than its {} of memory", byte_size(limit)),
    )
    .with_help("give it more memory, or make it keep less")
    .with_hint(Hint::Limit(LimitKind::Memory))
}

/// Bytes of an element, including the spare capacity of lists, and of an entry of an object besides its text.
const ELEMENT_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 128;

/// Takes the most memory that the value of this text can need from the budget, before the value is created, and returns it; fails with
/// `memory` if it is not available. A list of zeros takes thirty times its text.
pub(super) fn json_cost(text: &str, budget: &mut PluginBudget) -> Result<u64> {
    let mut cost = text.len() as u64 + ELEMENT_BYTES;
    let (mut in_text, mut is_escaped) = (false, false);
    for part in text.as_bytes().chunks(BYTES_PER_CHECK) {
        budget.check_cancel()?;
        for byte in part {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b',' | b'[' | b'{' => cost += ELEMENT_BYTES,
                b':' => cost += ENTRY_BYTES,
                _ => {}
            }
        }
    }
    budget.spend(cost)?;
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::policy::CancelToken;

    #[test]
    fn what_stands_in_a_text_is_text_and_all_else_is_counted() {
        let cost = |text: &str| {
            json_cost(text, &mut PluginBudget::new(1 << 30, 0, &CancelToken::new()).unwrap()).unwrap()
        };
        assert_eq!(cost(r#"",,[[{{::\",,""#), 14 + ELEMENT_BYTES);
        assert_eq!(cost("[0,0,0]"), 7 + 4 * ELEMENT_BYTES);
        assert_eq!(cost(r#"{"a":{"b":1}}"#), 13 + 3 * ELEMENT_BYTES + 2 * ENTRY_BYTES);
        let small =
            json_cost(&"[0,0]".repeat(100), &mut PluginBudget::new(1000, 0, &CancelToken::new()).unwrap());
        assert_eq!(small.unwrap_err().kind(), metier_core::error::ErrorKind::Memory);
    }
}
