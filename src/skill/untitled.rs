//! A `SKILL.md` without frontmatter: the name is that of its folder, and its first paragraph describes it, as some clients read it.

use super::manifest::Manifest;
use super::name::normalise;
use crate::excerpt::shorten;
use crate::skill::diagnostic_sink::{DiagnosticSink, find_control_character};
use crate::skill::lint;

/// How many bytes of the file are read for it.
pub(crate) const MAX_UNTITLED_HEAD: usize = 4 << 10;

/// The most characters of the description.
const MAX_DESCRIPTION_CHARS: usize = 1_000;

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
    Some(Manifest { description, body_offset, ..Manifest::empty(&normalise(directory)) })
}

/// The first paragraph on one line, or else the first heading. A text that begins like frontmatter describes nothing.
fn description(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim);
    let first = lines().find(|line| !line.is_empty())?;
    if ["name:", "description:", "---"].iter().any(|key| first.starts_with(key)) {
        return None;
    }
    let is_text = |line: &&str| !line.is_empty() && !line.starts_with(['#', '<', '!', '|', '[']);
    let mut in_block = false;
    let paragraph: Vec<&str> = lines()
        .filter(|line| {
            let is_fence = line.starts_with("```") || line.starts_with("~~~");
            in_block ^= is_fence;
            !is_fence && !in_block
        })
        .skip_while(|line| !is_text(line))
        .take_while(is_text)
        .flat_map(str::split_whitespace)
        .collect();
    let heading = || Some(lines().find(|line| line.starts_with('#'))?.trim_matches(['#', ' ']).to_owned());
    let found = if paragraph.is_empty() { heading()? } else { paragraph.join(" ") };
    Some(shorten(&found, MAX_DESCRIPTION_CHARS)).filter(|found| !found.is_empty())
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
            ("name: pdf\n\nReads forms.", None),
            ("description: Reads forms.\n---\nBody", None),
        ] {
            assert_eq!(description(text).as_deref(), expected, "{text:?}");
        }
    }
}
