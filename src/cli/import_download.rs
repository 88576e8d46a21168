//! A definition from the web, for `metier import`: the file, and a name that shows its syntax. Descriptions of APIs need no such name.

use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{HttpResponse, download};

use super::terminal::escape_line;

/// Maximum bytes of a definition.
const MAX_BYTES: u64 = 4 << 20;
/// The ends of names of definitions.
const EXTENSIONS: [&str; 4] = ["json", "yaml", "yml", "md"];
/// Types of content that say which syntax a file without such a name has.
const CONTENT_TYPES: [(&str, &str); 6] = [
    ("application/json", "skill.json"),
    ("application/yaml", "skill.yaml"),
    ("application/x-yaml", "skill.yaml"),
    ("text/yaml", "skill.yaml"),
    ("text/x-yaml", "skill.yaml"),
    ("text/markdown", "SKILL.md"),
];

/// A file that was downloaded.
pub(super) struct Downloaded {
    /// Its name.
    pub file_name: String,
    /// Its bytes.
    pub content: Vec<u8>,
    /// Where it came from after redirects, without what may be a credential.
    pub origin: String,
}

/// Whether an argument is an address and not a path.
pub(super) fn is_url(argument: &str) -> bool {
    let has_scheme =
        |scheme: &str| argument.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    has_scheme("https://") || has_scheme("http://")
}

/// The definition at an address. It is read and never run.
pub(super) fn download_definition(url: &str) -> Result<Downloaded> {
    let response = download(url, MAX_BYTES)?;
    let origin = without_query(&response.url).to_owned();
    let file_name = [url, &response.url].into_iter().find_map(definition_name).map(str::to_owned);
    let file_name = match file_name.or_else(|| name_by_type(&response)) {
        Some(name) if !is_page(&response) => name,
        _ => return Err(not_a_definition(&origin)),
    };
    Ok(Downloaded { file_name, content: response.body, origin })
}

/// The description of an API at an address. Its syntax is read from its text, so it may have any name.
pub(super) fn download_description(url: &str, max_bytes: usize) -> Result<Downloaded> {
    let response = download(url, max_bytes as u64)?;
    let origin = without_query(&response.url).to_owned();
    if is_page(&response) {
        let sentence =
            format!("failed to import {}: it is a page and not a description", escape_line(&origin));
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_help("give the address of the file itself (where a page shows it, its raw form)"));
    }
    Ok(Downloaded { file_name: escape_line(&origin), content: response.body, origin })
}

/// The last part of the path of an address, if it is the name of a definition.
fn definition_name(url: &str) -> Option<&str> {
    let (_, name) = without_query(url).rsplit_once('/')?;
    let (stem, extension) = name.rsplit_once('.')?;
    let is_known = EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known));
    (is_known && !stem.is_empty()).then_some(name)
}

fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

fn content_type(response: &HttpResponse) -> Option<String> {
    let (_, value) = response.headers.iter().find(|(name, _)| name == "content-type")?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn name_by_type(response: &HttpResponse) -> Option<String> {
    let found = content_type(response)?;
    CONTENT_TYPES.iter().find(|(known, _)| *known == found).map(|(_, name)| (*name).to_owned())
}

/// Whether it is a page for a browser, such as the one on which a repository shows a file.
fn is_page(response: &HttpResponse) -> bool {
    content_type(response)
        .is_some_and(|found| ["text/html", "application/xhtml+xml"].contains(&found.as_str()))
}

fn not_a_definition(origin: &str) -> SkillError {
    let sentence = format!("failed to import {}: it is not a file of a definition", escape_line(origin));
    SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(
        "give the address of the file itself (where a page shows it, its raw form): a skill.json, a skill.yaml or a SKILL.md; \
         an archive is not unpacked",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_definition_is_the_end_of_its_path() {
        for (url, name) in [
            ("https://a.test/x/skill.json?token=a/b.md#c", Some("skill.json")),
            ("https://a.test/SKILL.MD", Some("SKILL.MD")),
            ("https://a.test/a/workflow.yml", Some("workflow.yml")),
            ("https://a.test/a/.json", None),
            ("https://a.test/json", None),
            ("https://a.test/a.zip", None),
            ("https://a.test/?x=skill.json", None),
        ] {
            assert_eq!(definition_name(url), name, "{url}");
        }
        assert!(is_url("HTTPS://a") && is_url("http://a"));
        assert!(!is_url("https:/a") && !is_url("a.json") && !is_url("é"));
    }
}
