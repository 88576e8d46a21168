//! The memory that the value of a JSON text takes, computed before the value is created: a list of zeros takes thirty times
//! its text.

use super::budget::{BYTES_PER_CHECK, PluginBudget};
use metier_core::error::Result;

/// Bytes of an element, including the spare capacity of lists, and of an entry of an object besides its text.
const ELEMENT_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 128;

/// Takes the most memory that the value of this text can need from the budget, and returns it; fails with `memory` if it is
/// not available.
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
