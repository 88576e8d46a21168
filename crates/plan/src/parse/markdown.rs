//! Finds the steps of a plan that is written as a numbered list in Markdown, as Synwire does: ``1. Look: `grep {"pattern": "TODO"}` ``.

use std::ops::Range;

use crate::diagnostic_sink::PlanDiagnosticSink;
use crate::lint;
use crate::parse::json_tree;
use metier_core::strict_json;
use metier_skill::yaml::{Entry, Node, Style, Value};
use metier_skill::{FrontmatterLen, frontmatter_len};

const CALL_HELP: &str = "write the call as code, such as `grep {\"pattern\": \"TODO\"}`";

/// The steps of the first numbered list below the frontmatter, as a list of maps with `tool` and `args`; `None` if there is no such
/// list. Each item calls what stands in its first piece of code: the name of a tool, and an object for its parameters.
pub(crate) fn numbered_steps(text: &str, findings: &mut PlanDiagnosticSink<'_>) -> Option<Node> {
    let items = first_numbered_list(text, body_start(text));
    let span = items.first()?.start..items.last()?.end;
    let steps = items.iter().filter_map(|item| step(text, item, findings)).collect();
    Some(Node { span, column: 0, style: Style::Block, value: Value::List(steps) })
}

fn body_start(text: &str) -> usize {
    match frontmatter_len(text.as_bytes()) {
        FrontmatterLen::Complete(length) => length,
        _ => 0,
    }
}

/// The items of the first list outside of code blocks. An item goes on in lines that are indented.
fn first_numbered_list(text: &str, start: usize) -> Vec<Range<usize>> {
    let (mut items, mut at): (Vec<Range<usize>>, usize) = (Vec::new(), start);
    let mut is_in_code = false;
    for line in text[start..].split_inclusive('\n') {
        let span = at..at + line.trim_end().len();
        at += line.len();
        if line.trim_start().starts_with("```") {
            is_in_code = !is_in_code;
        }
        if is_in_code {
            continue;
        }
        if is_item(line) {
            items.push(span);
        } else if let Some(last) = items.last_mut() {
            if line.starts_with([' ', '\t']) {
                last.end = span.end;
            } else if !line.trim().is_empty() {
                break;
            }
        }
    }
    items
}

/// `1. text` or `1) text`, without an indent.
fn is_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_number = rest.len() < line.len() && line.len() - rest.len() <= 9;
    has_number && (rest.starts_with(". ") || rest.starts_with(") "))
}

fn step(text: &str, item: &Range<usize>, findings: &mut PlanDiagnosticSink<'_>) -> Option<Node> {
    let line = &text[item.clone()];
    let code = line.find('`').and_then(|open| {
        let length = line[open + 1..].find('`')?;
        Some(item.start + open + 1..item.start + open + 1 + length)
    });
    let Some(code) = code else {
        findings.add(&lint::CALL, item, "a numbered step calls no tool", CALL_HELP);
        return None;
    };
    let written = &text[code.clone()];
    let start = code.start + (written.len() - written.trim_start().len());
    let call = written.trim();
    let name_length = call.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(call.len());
    let name = start..start + name_length;
    if name.is_empty() {
        findings.add(&lint::CALL, &code, "a numbered step names no tool", CALL_HELP);
        return None;
    }
    let rest = call[name_length..].trim_start();
    let mut entries = vec![Entry {
        key: "tool".to_owned(),
        key_span: name.clone(),
        node: Node {
            value: Value::Scalar(text[name.clone()].to_owned()),
            span: name,
            column: 0,
            style: Style::Quoted,
        },
    }];
    if !rest.is_empty() {
        let at = start + call.len() - rest.len();
        let arguments = at..at + rest.len();
        if let Err(error) = strict_json::parse_with_offset(rest) {
            let place = at + error.offset..at + error.offset;
            findings.add(
                &lint::SYNTAX,
                &place,
                format!("the parameters of a step: {}", error.reason),
                CALL_HELP,
            );
            return None;
        }
        let node = json_tree::parse_tree_at(text, at);
        entries.push(Entry { key: "args".to_owned(), key_span: arguments, node });
    }
    Some(Node { span: code, column: 0, style: Style::Flow, value: Value::Map(entries) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of a text, as JSON, or the codes of what is wrong.
    fn steps(text: &str) -> Result<Option<String>, Vec<&'static str>> {
        let mut findings = PlanDiagnosticSink::for_text(text);
        let found = numbered_steps(text, &mut findings).map(|node| node.to_json().unwrap().to_string());
        if findings.is_empty() {
            return Ok(found);
        }
        Err(findings.into_sorted().iter().map(|found| found.code).collect())
    }

    #[test]
    fn the_first_numbered_list_is_the_plan() {
        // SY-33
        let text = "---\nname: x\n1. `no`\n---\n# How\n\n```\n1. `neither`\n```\n\n1. Look: `grep {\"pattern\": \"a\"}`\n\n2) Then `stat`,\n   as `said`.\n\nMore.\n\n1. `another`\n";
        let expected = r#"[{"tool":"grep","args":{"pattern":"a"}},{"tool":"stat"}]"#;
        assert_eq!(steps(text), Ok(Some(expected.to_owned())));
        for none in ["", "text", "- `a`\n", "  1. `a`\n", "1.`a`\n", "1234567890. `a`\n", "```\n1. `a`\n"] {
            assert_eq!(steps(none), Ok(None), "{none}");
        }
    }

    #[test]
    fn a_step_without_a_call_is_an_error() {
        for (text, code) in [
            ("1. Look around.\n", "step-call"),
            ("1. Look `around.\n", "step-call"),
            ("1. ` `\n", "step-call"),
            ("1. `{}`\n", "step-call"),
            ("1. `grep {\"a\": }`\n", "plan-syntax"),
            ("1. `grep {\"a\": 1, \"a\": 2}`\n", "plan-syntax"),
            ("1. `grep the file`\n", "plan-syntax"),
        ] {
            assert_eq!(steps(text), Err(vec![code]), "{text}");
        }
    }
}
