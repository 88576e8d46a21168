//! A `SKILL.md` without frontmatter: the name is that of its folder, and its first paragraph describes it, as some clients read it.

use super::inline_metadata::MAX_DESCRIPTION_CHARS;
use super::manifest::Manifest;
use super::name::normalise;
use crate::diagnostic_sink::{DiagnosticSink, find_control_character};
use crate::{empty_manifest, lint};
use metier_core::excerpt::shorten;

/// How many bytes of the file are read for it.
pub const MAX_UNTITLED_HEAD: usize = 4 << 10;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The manifest; `None` if nothing describes the skill.
pub(super) fn read(text: &str, directory: &str, report: &mut DiagnosticSink<'_>) -> Option<Manifest> {
    let head = &text[..text.floor_char_boundary(MAX_UNTITLED_HEAD)];
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let Some(description) = description(head) else {
        let message = "Missing required field in frontmatter: description";
        report
            .add(&lint::DESCRIPTION_MISSING, &(0..0), message)
            .help("say in a sentence what the skill does and when to use it");
        return None;
    };
    if let Some(at) = find_control_character(&description) {
        let character = description[at..].chars().next().map_or(0, u32::from);
        let message = format!("the first paragraph holds the control character U+{character:04X}");
        report.add(&lint::CONTROL_CHARACTER, &(0..0), message).help("remove it");
        return None;
    }
    let body_offset = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    Some(Manifest { description, body_offset, ..empty_manifest(&normalise(directory)) })
}

/// The first paragraph on one line, or else the first heading. A text that begins like frontmatter of another kind describes nothing.
fn description(text: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if begins_like_data(first) {
        return None;
    }
    let lines = shown_lines(text);
    let is_text = |line: &&&str| !line.starts_with(['#', '<', '!', '|', '[']) && !is_rule(line);
    let paragraph: Vec<&str> = lines
        .iter()
        .skip_while(|line| !is_text(line))
        .take_while(is_text)
        .flat_map(|line| line.split_whitespace())
        .collect();
    let is_data = paragraph.first().is_some_and(|word| begins_like_data(word));
    let heading =
        || lines.iter().find(|line| line.starts_with('#')).map(|line| line.trim_matches(['#', ' ']));
    let found = if paragraph.is_empty() || is_data {
        heading()?.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        paragraph.join(" ")
    };
    Some(shorten(&found, MAX_DESCRIPTION_CHARS)).filter(|found| found.contains(char::is_alphanumeric))
}

/// Whether a line begins as YAML, TOML or JSON do, and no sentence.
fn begins_like_data(line: &str) -> bool {
    let is_key = |word: &str| {
        let word = word.trim_matches(['"', '\'', '\u{feff}']);
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
    };
    line.split_once(':').is_some_and(|(key, _)| is_key(key))
        || ["---", "+++", "{", "\u{feff}"].iter().any(|start| line.starts_with(start))
}

/// The lines that a reader of the page sees, without code; blank where a paragraph ends.
fn shown_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut fence, mut in_comment) = (None::<&str>, false);
    for line in text.lines().map(str::trim) {
        let marks = &line[..line.len() - line.trim_start_matches(['`', '~']).len()];
        match fence {
            Some(open) => {
                if marks.starts_with(open) && marks == line {
                    fence = None;
                }
            }
            None if in_comment || line.starts_with("<!--") => in_comment = !line.contains("-->"),
            None if marks.len() >= 3 => fence = Some(marks),
            None => lines.push(line),
        }
    }
    lines
}

/// Whether a line is blank, draws a line, or makes the one above it a heading.
fn is_rule(line: &str) -> bool {
    line.chars().all(|c| c.is_whitespace() || "=-*_".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_paragraph_describes_a_skill_without_frontmatter_and_else_its_heading() {
        for (text, expected) in [
            ("# PDF\n\nReads **forms**\nand  tables.\n\nMore.\n", Some("Reads **forms** and tables.")),
            ("Reads forms.", Some("Reads forms.")),
            ("\n# PDF #\n\n## Usage\n", Some("PDF")),
            (
                "# PDF\n[![build](a)](b)\n<!-- note -->\n```sh\nrun it\n```\n\nReads forms.",
                Some("Reads forms."),
            ),
            ("# PDF\n```sh\nrun it\n", Some("PDF")),
            ("", None),
            (" \n\n", None),
            ("#\n", None),
            ("Title\n=====\n\nReads forms.", Some("Title")),
            ("***\nReads forms.", Some("Reads forms.")),
            ("<!-- hidden\nwords -->\nReads forms.", Some("Reads forms.")),
            ("````\n```\ncode\n```\n````\nReads forms.", Some("Reads forms.")),
            ("~~~\n```\n~~~\nReads forms.", Some("Reads forms.")),
            ("# PDF\tof\u{a0}forms\r\n", Some("PDF of forms")),
            ("Note: reads forms.", Some("Note: reads forms.")),
            ("\u{200b}\u{200b}", None),
            ("title: pdf\n\nReads forms.", None),
            ("\"name\": pdf\n\nReads forms.", None),
            ("+++\ntitle = 'x'\n+++\nReads forms.", None),
            ("{\"name\": \"pdf\"}", None),
            ("\u{feff}---\nname: pdf\n---\n", None),
            ("# PDF\n\nname: pdf\ndescription: x\n", Some("PDF")),
            ("name: pdf\n\nReads forms.", None),
            ("description: Reads forms.\n---\nBody", None),
        ] {
            assert_eq!(description(text).as_deref(), expected, "{text:?}");
        }
    }
}
