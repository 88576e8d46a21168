//! Facts in two columns: name and value.

use super::terminal::escape_sentence;

/// One line for each fact, more where the fact has more; untrusted text is escaped.
pub fn two_columns(facts: &[(&str, String)]) -> String {
    const WIDTH: usize = 13;
    let line = |(name, fact): &(&str, String)| {
        let fact = escape_sentence(fact).replace("\n    ", &format!("\n{:WIDTH$}", ""));
        format!("{name:12} {fact}")
    };
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}
