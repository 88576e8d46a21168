//! The result of a case for a person: a line, and below it the differences from what was expected.

use std::fmt::Write;

use metier::cases::{CaseResult, CaseStatus, Difference};
use metier::error::Result;
use serde_json::Value;
use similar::TextDiff;

use crate::cli::output;
use crate::cli::prompt::output_columns;
use crate::cli::terminal::{escape_line, escape_text, wrap_lines};

/// Maximum number of lines of one difference.
const MAX_DIFF_LINES: usize = 60;

pub(super) fn print_result(result: &CaseResult) -> Result<()> {
    let title = escape_line(&format!("{} {}", result.skill, result.case));
    match &result.status {
        CaseStatus::Passed => output::print(&format!("ok       {title}  {} ms", result.duration.as_millis())),
        CaseStatus::NotRun(reason) => output::print(&format!("not run  {title}: {}", escape_line(reason))),
        CaseStatus::Failed(differences) => {
            output::print(&format!("FAILED   {title}"))?;
            for difference in differences {
                output::print(&wrap_lines(&difference_text(difference), output_columns()))?;
            }
            for line in result.outcome.iter().flat_map(|outcome| &outcome.log) {
                output::print(&format!("    log: {}", escape_line(&line.message)))?;
            }
            Ok(())
        }
    }
}

/// Texts of several lines side by side, everything else as JSON.
fn difference_text(difference: &Difference) -> String {
    let location = escape_line(&difference.path);
    if let (Some(Value::String(expected)), Some(Value::String(got))) =
        (&difference.expected, &difference.actual)
        && (expected.contains('\n') || got.contains('\n'))
    {
        return format!("  {location}:\n{}", text_diff(expected, got));
    }
    let side = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), shorten_value);
    format!(
        "  {location}\n    expected {}\n    got      {}",
        side(&difference.expected),
        side(&difference.actual)
    )
}

fn shorten_value(value: &Value) -> String {
    const LONGEST: usize = 2_000;
    let text = value.to_string();
    let shown = escape_line(&text);
    match shown.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &shown[..end], text.len()),
        None => shown,
    }
}

fn text_diff(expected: &str, got: &str) -> String {
    let diff = TextDiff::from_lines(expected, got);
    let unified = diff.unified_diff().context_radius(2).header("expected", "got").to_string();
    let mut text = String::new();
    let lines = unified.lines();
    for line in lines.clone().take(MAX_DIFF_LINES) {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "    {}", escape_text(line));
    }
    let left = lines.count().saturating_sub(MAX_DIFF_LINES);
    if left > 0 {
        let _ = writeln!(text, "    … and {left} lines more");
    }
    text.truncate(text.trim_end().len());
    text
}
