//! The name of a service, of the skill that is made of it and of its secrets, from the title of a description.

use super::security::variable_name;
use super::text::plain_text;
use crate::name::is_allowed_name;
use crate::suggested_name;

/// Words of titles that say what every description is.
const COMMON_WORDS: [&str; 23] = [
    "api",
    "apis",
    "rest",
    "restful",
    "openapi",
    "swagger",
    "spec",
    "specification",
    "specifications",
    "definition",
    "description",
    "documentation",
    "docs",
    "reference",
    "official",
    "public",
    "the",
    "http",
    "json",
    "web",
    "collection",
    "version",
    "for",
];
/// What begins the part of a title that says more than the name.
const ENDS: [&str; 7] = [" + ", " - ", " – ", " — ", ": ", " | ", " ("];
/// The most characters of a name.
const MAX_NAME: usize = 40;

/// The name of the service: the title without the words that every title has.
pub(super) fn service_name(title: &str) -> Option<String> {
    let title = plain_text(title, 200);
    let end = ENDS.iter().filter_map(|end| title.find(end)).filter(|at| *at > 0).min();
    let words = title[..end.unwrap_or(title.len())].split_whitespace().filter_map(word);
    let mut name = String::new();
    for word in words {
        if name.chars().count() + word.chars().count() >= MAX_NAME {
            break;
        }
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
    }
    name.chars().any(char::is_alphanumeric).then_some(name)
}

/// The name of a folder for a service.
pub(super) fn skill_name(service: &str) -> Option<String> {
    if is_allowed_name(service) { Some(service.to_owned()) } else { suggested_name(service) }
}

/// What the names of its secrets begin with.
pub(super) fn secret_prefix(skill_name: &str) -> String {
    let name = variable_name(skill_name);
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("API_{name}") } else { name }
}

/// The name of the service of a host: `example` of `api.example.com`.
pub(super) fn host_name(base_url: &str) -> Option<&str> {
    let host = base_url.split('/').nth(2)?.split(':').next()?;
    let labels: Vec<&str> = host.split('.').collect();
    let ([.., name, _] | [name]) = labels[..] else { return None };
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
}

/// A word of a title, if it is one of the name.
fn word(written: &str) -> Option<&str> {
    let word = written.trim_matches([',', '.', ';', ':', '"', '(', ')']);
    let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let lower = word.to_lowercase();
    let number = lower.strip_prefix('v').unwrap_or(&lower);
    let is_version = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    (!word.is_empty() && !is_version && !COMMON_WORDS.contains(&lower.as_str())).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_service_is_its_title_without_common_words() {
        for (title, name) in [
            ("GitHub v3 REST API", Some("GitHub")),
            ("GitHub's official OpenAPI spec + Octokit extension", Some("GitHub")),
            ("Stripe API", Some("Stripe")),
            ("Datadog API V2 Collection", Some("Datadog")),
            ("The Cat API (v1.2)", Some("Cat")),
            ("Swagger Petstore - OpenAPI 3.0", Some("Petstore")),
            ("\u{202e}Evil\u{0} API", Some("Evil")),
            ("API", None),
            ("", None),
            ("v2.0 ...", None),
        ] {
            assert_eq!(service_name(title).as_deref(), name, "{title}");
        }
        assert!(service_name(&"word ".repeat(1000)).unwrap().len() <= MAX_NAME);
    }

    #[test]
    fn skills_and_secrets_are_named_after_it() {
        for (service, skill, prefix) in [
            ("GitHub", "github", "GITHUB"),
            ("Acme Shop", "acme-shop", "ACME_SHOP"),
            ("1Password", "1password", "API_1PASSWORD"),
            ("../../x", "x", "X"),
        ] {
            let name = skill_name(service).unwrap();
            assert_eq!((name.as_str(), secret_prefix(&name).as_str()), (skill, prefix));
        }
        for (url, name) in [
            ("https://api.example.com/v1", Some("example")),
            ("http://localhost:80", Some("localhost")),
            ("http://127.0.0.1", None),
            ("http://[::1]:80", None),
        ] {
            assert_eq!(host_name(url), name, "{url}");
        }
    }
}
