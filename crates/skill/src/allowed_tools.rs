//! `allowed-tools`: a line separated by spaces, as specified, or the line with commas and the list that clients also accept.

use super::yaml::{Entry, Node, Value};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;

const HELP: &str = "write one line with spaces: `allowed-tools: Read Bash(git add:*)`";

/// The tools, as written and in written order.
pub(super) fn read(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let Some(Entry { node, .. }) = entry else { return Vec::new() };
    match &node.value {
        Value::Scalar(_) if node.is_null() => Vec::new(),
        Value::Scalar(text) => from_text(text, node, report),
        Value::List(items) => {
            report.add(&lint::ALLOWED_TOOLS_FORM, &node.span, "allowed-tools is a list").help(HELP);
            items.iter().filter_map(|item| from_item(item, report)).flatten().collect()
        }
        Value::Map(_) => {
            report.add(&lint::ALLOWED_TOOLS_NOT_TEXT, &node.span, "allowed-tools is a map").help(HELP);
            Vec::new()
        }
    }
}

fn from_text(text: &str, node: &Node, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let split = split_tools(text);
    if split.has_commas {
        report.add(&lint::ALLOWED_TOOLS_FORM, &node.span, "allowed-tools is separated by commas").help(HELP);
    }
    if split.unbalanced {
        let message = "a parenthesis in allowed-tools has no partner";
        report.add(&lint::ALLOWED_TOOLS_UNBALANCED, &node.span, message);
    }
    split.tools
}

fn from_item(item: &Node, report: &mut DiagnosticSink<'_>) -> Option<Vec<String>> {
    let Some(text) = item.text() else {
        report
            .add(&lint::ALLOWED_TOOLS_NOT_TEXT, &item.span, "an allowed tool is a list or a map")
            .help(HELP);
        return None;
    };
    let tool = text.trim();
    (!tool.is_empty()).then(|| split_tools(tool).tools)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SplitTools {
    tools: Vec<String>,
    has_commas: bool,
    unbalanced: bool,
}

/// Splits at spaces and commas outside parentheses: `Bash(git add:*)` is one tool.
fn split_tools(text: &str) -> SplitTools {
    let mut split = SplitTools::default();
    let mut tool = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => split.unbalanced = true,
            ')' => depth -= 1,
            _ => {}
        }
        let separates = depth == 0 && (character == ',' || character.is_whitespace());
        if !separates {
            tool.push(character);
            continue;
        }
        split.has_commas |= character == ',';
        split.end(&mut tool);
    }
    split.unbalanced |= depth > 0;
    split.end(&mut tool);
    split
}

impl SplitTools {
    fn end(&mut self, tool: &mut String) {
        if !tool.is_empty() {
            self.tools.push(std::mem::take(tool));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_commas_separate_outside_parentheses() {
        assert_eq!(split_tools("Read  Bash(git add:*)\tWrite").tools, ["Read", "Bash(git add:*)", "Write"]);
        assert_eq!(split_tools("Bash(a, b), Read,").tools, ["Bash(a, b)", "Read"]);
        assert_eq!(split_tools("Bash(f(x) y) Read").tools, ["Bash(f(x) y)", "Read"]);
        assert_eq!(split_tools(" , ").tools, [""; 0]);
    }

    #[test]
    fn a_lonely_parenthesis_is_noticed() {
        assert!(split_tools("Bash(git add Read").unbalanced);
        assert!(split_tools("Read) Write").unbalanced);
        assert!(!split_tools("Bash(git:*) Read").unbalanced);
    }
}
