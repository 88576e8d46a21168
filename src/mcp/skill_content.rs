//! The text and the files of a trusted skill, as a model is shown them; their addresses and types.

use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::client_variables::fill_client_variables;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::percent_encoding::{self, decode_strict};
use metier_core::sanitizer::text_for_model;
use metier_core::unicode::{is_plain_ascii, mark_escapes};

/// Maximum bytes of a file that is read.
const MAX_FILE: u64 = 16 << 20;
/// Maximum number of files that a listing names.
const MAX_LISTED: usize = 200;
/// The most lines that a sentence about invisible characters names.
const MAX_LINES: usize = 20;
/// The names of the file with the text.
const SKILL_FILES: [&str; 3] = ["SKILL.md", "skill.md", "Skill.md"];
/// Before the path of a file: the name of its skill.
const SKILL_SCHEME: &str = "skill://";

/// A text without secrets that are known by their form, and with its invisible characters spelled out, except line breaks and tabs.
pub(super) fn shown_text(text: &str) -> String {
    text_for_model(text)
}

/// The same on one line.
pub(super) fn shown_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    shown_text(&words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

/// How many invisible characters a file has, and in which lines; `None` if it has none. Line breaks and tabs do not count.
pub(super) fn invisible_characters(text: &str) -> Option<String> {
    if is_plain_ascii(text) {
        return None;
    }
    let (mut count, mut line, mut lines) = (0_usize, 1_usize, Vec::new());
    for (c, is_unseen) in mark_escapes(text) {
        match c {
            '\n' => line += 1,
            '\t' | '\r' => {}
            _ if is_unseen => {
                count += 1;
                if lines.last() != Some(&line) {
                    lines.push(line);
                }
            }
            _ => {}
        }
    }
    let named: Vec<String> = lines.iter().take(MAX_LINES).map(ToString::to_string).collect();
    let others = match lines.len() - named.len() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let characters = if count == 1 { "character" } else { "characters" };
    let of_lines = if lines.len() == 1 { "line" } else { "lines" };
    let place = format!("{of_lines} {}{others}", named.join(", "));
    (count > 0).then(|| format!("The file has {count} invisible {characters}, in {place}."))
}

/// The files of a skill that can be read: no hidden ones, and no links.
pub(super) fn files(skill: &Skill) -> Result<Vec<String>> {
    skill.folder().files()
}

/// The file with the text of the skill.
fn text_file(files: &[String]) -> Option<&str> {
    SKILL_FILES.into_iter().find(|name| files.iter().any(|file| file == name))
}

/// The bytes of one of the files that can be read, if the skill is trusted with them.
pub(super) fn read_file(engine: &Engine, skill: &Skill, path: &str) -> Result<Vec<u8>> {
    // Only what is listed is opened, by the name that it is listed with.
    if !files(skill)?.iter().any(|file| file == path) {
        let sentence = format!("the skill {} has no file {}", skill.name(), shortened(path));
        return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
            .with_help("activate the skill to see the list of its files"));
    }
    let content = skill.folder().read(path, MAX_FILE)?;
    engine.check_trusted_content(skill, path, &content)?;
    Ok(content)
}

/// What a model gets of a skill that it activates: the text without its frontmatter, the folder, and the list of files.
pub(super) fn activation(engine: &Engine, skill: &Skill) -> Result<String> {
    let files = files(skill)?;
    let name = text_file(&files).unwrap_or(skill.file_name());
    let source = skill.folder().read(name, MAX_FILE)?;
    engine.check_trusted_content(skill, name, &source)?;
    let own_text = if SKILL_FILES.contains(&name) { None } else { Some(skill.text_in(&source)?) };
    let text = String::from_utf8_lossy(&source);
    let body = match own_text.as_deref() {
        Some(body) => body,
        None => body_of_skill_file(&source, &text),
    };
    let body = match skill.folder().disk_path() {
        Some(folder) => fill_client_variables(body, folder, engine.project()),
        None => body.into(),
    };
    let mut shown =
        format!("<skill_content name=\"{}\">\n{}\n", shown_line(skill.name()), shown_text(body.trim()));
    if let Some(folder) = skill.folder().disk_path() {
        shown.extend([format!("\nFolder of the skill: {}\n", shown_line(&folder.display().to_string()))]);
    }
    let others: Vec<&String> = files.iter().filter(|file| *file != name).collect();
    if !others.is_empty() {
        shown.push_str("\nFiles of the skill, to be read with read_skill_file when they are needed:\n");
        for file in others.iter().take(MAX_LISTED) {
            shown.extend([format!("- {}\n", shown_line(file))]);
        }
        if others.len() > MAX_LISTED {
            shown.extend([format!("and {} more\n", others.len() - MAX_LISTED)]);
        }
    }
    shown.push_str("</skill_content>");
    Ok(shown)
}

/// The text below the frontmatter.
fn body_of_skill_file<'a>(source: &[u8], text: &'a str) -> &'a str {
    match metier_skill::frontmatter_len(source) {
        metier_skill::FrontmatterLen::Complete(length) => text.get(length..).unwrap_or_default(),
        // The frontmatter was read from these files, so it ends at the end of the file.
        _ => "",
    }
}

fn shortened(text: &str) -> String {
    metier_core::excerpt::shorten(&shown_line(text), 200)
}

/// The address of a file of a skill; an empty path is that of its folder.
pub(super) fn file_uri(skill: &str, path: &str) -> String {
    let mut uri = format!("{SKILL_SCHEME}{}/", encode(skill));
    let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(encode).collect();
    uri.push_str(&segments.join("/"));
    uri
}

/// The name of the skill and the path in its folder; `None` for any other address, and for a path that is not plain.
pub(super) fn parse_file_uri(uri: &str) -> Option<(String, String)> {
    let (skill, path) = uri.strip_prefix(SKILL_SCHEME)?.split_once('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Option<Vec<String>> =
        if path.is_empty() { Some(Vec::new()) } else { path.split('/').map(decode).collect() };
    Some((decode(skill)?, segments?.join("/")))
}

/// All but what a part of an address may hold as it is.
fn encode(text: &str) -> String {
    percent_encoding::encode(text.as_bytes(), "-._~")
}

fn decode(segment: &str) -> Option<String> {
    let bytes = decode_strict(segment.as_bytes()).filter(|_| !segment.contains(['?', '#']))?;
    let name = String::from_utf8(bytes).ok()?;
    let is_plain = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\\', '\0']);
    is_plain.then_some(name)
}

/// The type of a file, as far as a client shows it differently.
pub(super) fn mime_type(path: &str) -> &'static str {
    const TYPES: [(&str, &str); 20] = [
        ("md", "text/markdown"),
        ("json", "application/json"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("html", "text/html"),
        ("csv", "text/csv"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("svg", "image/svg+xml"),
        ("wav", "audio/wav"),
        ("mp3", "audio/mpeg"),
        ("ogg", "audio/ogg"),
        ("flac", "audio/flac"),
        ("m4a", "audio/mp4"),
        ("pdf", "application/pdf"),
        ("wasm", "application/wasm"),
        ("zip", "application/zip"),
    ];
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map_or("text/plain", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_counted_with_their_lines() {
        let found = |text: &str| invisible_characters(text);
        assert_eq!(found("plain\r\n\ttext ⚠\u{fe0f}\n"), None);
        assert_eq!(found("\u{feff}a").as_deref(), Some("The file has 1 invisible character, in line 1."));
        let text = "a\u{200b}\u{202e}b\nc\n\u{1b}d\u{e0041}";
        assert_eq!(found(text).as_deref(), Some("The file has 4 invisible characters, in lines 1, 3."));
        let many = found(&"\u{200b}\n".repeat(25)).unwrap();
        assert!(many.contains("has 25 ") && many.ends_with(" 19, 20 and 5 more."), "{many}");
    }

    #[test]
    fn a_path_is_read_as_it_was_written() {
        for (skill, path) in [("notes", "SKILL.md"), ("技能", "a b/ü.txt"), ("x", ""), ("x", "a%2Fb/#?.md")]
        {
            let uri = file_uri(skill, path);
            assert!(uri.is_ascii() && !uri.contains([' ', '#', '?']), "{uri}");
            assert_eq!(parse_file_uri(&uri), Some((skill.to_owned(), path.to_owned())), "{uri}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_no_address() {
        for uri in [
            "file:///etc/passwd",
            "skill://x",
            "skill:///SKILL.md",
            "skill://x/../y",
            "skill://x/%2e%2e/y",
            "skill://x/a%2Fb",
            "skill://x/a%5Cb",
            "skill://x/a//b",
            "skill://x/a%00",
            "skill://x/%ff",
            "skill://x/%+1",
            "skill://x/a?b",
            "skill://../x",
        ] {
            assert_eq!(parse_file_uri(uri), None, "{uri}");
        }
    }
}
