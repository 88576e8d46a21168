//! Facts in two columns: name and value.

use super::prompt::output_columns;
use super::terminal::{escape_text, wrap};

/// One line for each fact, more where the fact has more or the terminal ends; untrusted text is escaped.
pub fn two_columns(facts: &[(&str, String)]) -> String {
    const WIDTH: usize = 13;
    let columns = output_columns().saturating_sub(WIDTH).max(WIDTH);
    let line = |(name, fact): &(&str, String)| {
        let fact = escape_text(fact.trim_end());
        let rows: Vec<String> = fact.split('\n').flat_map(|line| wrap(line, columns)).collect();
        format!("{name:12} {}", rows.join(&format!("\n{:WIDTH$}", "")))
    };
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}
