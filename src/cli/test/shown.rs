//! A verdict for a person: a line, and below it what came out otherwise.

use std::fmt::Write;

use metier::cases::{Difference, Status, Verdict};
use metier::error::Result;
use serde_json::Value;
use similar::TextDiff;

use crate::cli::output;
use crate::cli::terminal::{visible, visible_line};

/// Lines of one difference that are shown.
const MOST_LINES: usize = 60;

pub(super) fn tell(verdict: &Verdict) -> Result<()> {
    let title = visible_line(&format!("{} {}", verdict.skill, verdict.case));
    match &verdict.status {
        Status::Passed => output::say(&format!("ok       {title}  {} ms", verdict.duration.as_millis())),
        Status::NotRun(reason) => output::say(&format!("not run  {title}: {}", visible_line(reason))),
        Status::Failed(differences) => {
            output::say(&format!("FAILED   {title}"))?;
            for difference in differences {
                output::say(&shown(difference))?;
            }
            for line in verdict.outcome.iter().flat_map(|outcome| &outcome.log) {
                output::say(&format!("    log: {}", visible_line(&line.message)))?;
            }
            Ok(())
        }
    }
}

/// Texts of several lines side by side, everything else as JSON.
fn shown(difference: &Difference) -> String {
    let place = visible_line(&difference.place);
    if let (Some(Value::String(expected)), Some(Value::String(got))) = (&difference.expected, &difference.got)
        && (expected.contains('\n') || got.contains('\n'))
    {
        return format!("  {place}:\n{}", compared(expected, got));
    }
    let side = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), brief);
    format!("  {place}\n    expected {}\n    got      {}", side(&difference.expected), side(&difference.got))
}

fn brief(value: &Value) -> String {
    const LONGEST: usize = 2_000;
    let text = value.to_string();
    let shown = visible_line(&text);
    match shown.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &shown[..end], text.len()),
        None => shown,
    }
}

fn compared(expected: &str, got: &str) -> String {
    let diff = TextDiff::from_lines(expected, got);
    let unified = diff.unified_diff().context_radius(2).header("expected", "got").to_string();
    let mut text = String::new();
    let lines = unified.lines();
    for line in lines.clone().take(MOST_LINES) {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "    {}", visible(line));
    }
    let left = lines.count().saturating_sub(MOST_LINES);
    if left > 0 {
        let _ = writeln!(text, "    … and {left} lines more");
    }
    text.truncate(text.trim_end().len());
    text
}
