//! The addresses of skills and their files, `skill://NAME/PATH`, and of results.

use metier_core::percent_encoding::{self, decode_strict};

/// Before the path of a file: the name of its skill.
const SKILL_SCHEME: &str = "skill://";

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

#[cfg(test)]
mod tests {
    use super::*;

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
