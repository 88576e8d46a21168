//! The address of a resource that a skill offers: plain, or with variables such as `notes://day/{date}`.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use metier_core::percent_encoding::decode_strict;

/// The most bytes of an address.
const MAX_LEN: usize = 512;
/// The most bytes of an address that is looked for; longer ones are none.
const MAX_READ_LEN: usize = 4_096;
/// The most characters of the name of a variable.
const MAX_VARIABLE: usize = 64;
/// Schemes that lead somewhere else, or that clients open in their own way.
const RESERVED_SCHEMES: [&str; 24] = [
    "about",
    "blob",
    "cid",
    "data",
    "file",
    "filesystem",
    "ftp",
    "git",
    "http",
    "https",
    "javascript",
    "mailto",
    "mcp",
    "metier",
    "resource",
    "skill",
    "ssh",
    "tel",
    "ui",
    "urn",
    "view-source",
    "vscode",
    "ws",
    "wss",
];

/// An address in its parts between slashes, of which each has at most one variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceUri {
    text: String,
    scheme: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A variable, and the text before and after it.
    Variable {
        before: String,
        name: String,
        after: String,
    },
}

impl ResourceUri {
    /// The address of a text, or why it is none that a skill can offer.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, path)) = text.split_once("://") else {
            return Err("it has no scheme, such as the `notes` of notes://today".to_owned());
        };
        let is_scheme_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        let is_scheme =
            scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.chars().all(is_scheme_char);
        if !is_scheme || text.len() > MAX_LEN {
            return Err(format!("its scheme is in small letters, and it has at most {MAX_LEN} bytes"));
        }
        if RESERVED_SCHEMES.contains(&scheme) || scheme.starts_with("vscode") {
            return Err(format!("the scheme `{scheme}` means something else"));
        }
        let parts = path.split('/').map(Part::parse).collect::<Result<Vec<Part>, String>>()?;
        let mut names: Vec<&str> = parts.iter().filter_map(Part::variable).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a variable stands in it twice".to_owned());
        }
        Ok(Self { text: text.to_owned(), scheme: scheme.to_owned(), parts })
    }

    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has variables, so that it stands for many addresses.
    pub fn is_template(&self) -> bool {
        self.variables().next().is_some()
    }

    /// The names of its variables, in their order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(Part::variable)
    }

    /// The values of the variables in an address that it stands for. No value has a slash or leads to another folder.
    pub fn values_in(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let path = uri.strip_prefix(self.scheme.as_str())?.strip_prefix("://")?;
        let written: Vec<&str> = path.split('/').take(self.parts.len() + 1).collect();
        if written.len() != self.parts.len() || uri.len() > MAX_READ_LEN {
            return None;
        }
        let mut values = Vec::new();
        for (part, written) in self.parts.iter().zip(written) {
            match part {
                Part::Text(text) if text == written => {}
                Part::Text(_) => return None,
                Part::Variable { before, name, after } => {
                    let value = written.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                    values.push((name.as_str(), decode(value)?));
                }
            }
        }
        Some(values)
    }
}

/// Whether an address could be meant by both.
pub fn uris_overlap(one: &ResourceUri, other: &ResourceUri) -> bool {
    one.scheme == other.scheme
        && one.parts.len() == other.parts.len()
        && one.parts.iter().zip(&other.parts).all(|(one, other)| one.overlaps(other))
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        let Some((before, rest)) = text.split_once('{') else {
            return if is_plain(text) { Ok(Self::Text(text.to_owned())) } else { Err(invalid_part(text)) };
        };
        let Some((name, after)) = rest.split_once('}') else {
            return Err("a `{` has no `}` before the next slash".to_owned());
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.len() <= MAX_VARIABLE
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err("a variable is a name in letters, digits and `_`, such as {id}".to_owned());
        }
        let is_literal = |text: &str| text.is_empty() || is_plain(text);
        if !is_literal(before) || !is_literal(after) {
            return Err(invalid_part(text));
        }
        Ok(Self::Variable { before: before.to_owned(), name: name.to_owned(), after: after.to_owned() })
    }

    fn variable(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Variable { name, .. } => Some(name),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        // Of two texts, the longer one may begin, or end, with the other.
        let begin_alike = |a: &str, b: &str| a.starts_with(b) || b.starts_with(a);
        let end_alike = |a: &str, b: &str| a.ends_with(b) || b.ends_with(a);
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Text(text), Self::Variable { before, after, .. })
            | (Self::Variable { before, after, .. }, Self::Text(text)) => {
                text.strip_prefix(before.as_str()).is_some_and(|rest| rest.ends_with(after.as_str()))
            }
            (Self::Variable { before, after, .. }, Self::Variable { before: b, after: a, .. }) => {
                begin_alike(before, b) && end_alike(after, a)
            }
        }
    }
}

fn invalid_part(text: &str) -> String {
    match text {
        "" | "." | ".." => "a part between two slashes is empty, `.` or `..`".to_owned(),
        _ if text.contains('{') => "a part between two slashes has at most one variable".to_owned(),
        _ => "it has letters of ASCII, digits, `-._~@+,;=:` and variables, and no query".to_owned(),
    }
}

/// Whether a text stands in an address as itself.
fn is_plain(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~@+,;=:".contains(&byte))
}

/// The value of a variable: not empty, and no path.
fn decode(text: &str) -> Option<String> {
    let bytes = decode_strict(text.as_bytes()).filter(|_| !text.contains(['?', '#']))?;
    let value = String::from_utf8(bytes).ok()?;
    let is_path = matches!(value.as_str(), "" | "." | "..") || value.contains(['/', '\\']);
    (!is_path && !value.contains(char::is_control)).then_some(value)
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ResourceUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> ResourceUri {
        ResourceUri::parse(text).unwrap()
    }

    #[test]
    fn an_address_of_a_skill_is_in_a_scheme_of_its_own() {
        for text in ["notes://today", "a+b://x/y.json", "test://template/{id}/data", "n://day-{d}.md/{x}"] {
            assert_eq!(uri(text).as_str(), text);
        }
        let long = format!("n://{}", "a".repeat(MAX_LEN));
        for (text, reason) in [
            ("today", "no scheme"),
            ("notes:today", "no scheme"),
            ("://x", "small letters"),
            ("Notes://x", "small letters"),
            ("1n://x", "small letters"),
            ("{n}://x", "small letters"),
            (&long, "at most 512"),
            ("skill://x/SKILL.md", "means something else"),
            ("file:///etc/passwd", "means something else"),
            ("metier://result/1", "means something else"),
            ("ui://app", "means something else"),
            ("vscode-remote://x", "means something else"),
            ("n://", "empty"),
            ("n://a//b", "empty"),
            ("n://a/../b", "`..`"),
            ("n://a?b", "no query"),
            ("n://a b", "no query"),
            ("n://\u{e9}", "no query"),
            ("n://%41", "no query"),
            ("n://{a", "no `}`"),
            ("n://{a/b}", "no `}`"),
            ("n://{}", "a variable is a name"),
            ("n://{+path}", "a variable is a name"),
            ("n://{a}{b}", "at most one variable"),
            ("n://{a}/{a}", "twice"),
        ] {
            let found = ResourceUri::parse(text).unwrap_err();
            assert!(found.contains(reason), "{text}: {found}");
        }
    }

    #[test]
    fn a_variable_stands_for_one_part_and_leads_nowhere_else() {
        let template = uri("test://items/v{id}.json/data");
        let id = |text: &str| template.values_in(text).map(|values| values[0].1.clone());
        assert_eq!(id("test://items/v12.json/data"), Some("12".to_owned()));
        assert_eq!(id("test://items/va%20b%C3%BC.json/data"), Some("a bü".to_owned()));
        for other in [
            "test://items/v.json/data",
            "test://items/v12.json",
            "test://items/v12.json/data/",
            "test://items/v1/2.json/data",
            "test://items/v..%2F..%2Fx.json/data",
            "test://items/v%2e%2e.json/data",
            "test://items/v%5c.json/data",
            "test://items/va%00.json/data",
            "test://items/v%ff.json/data",
            "test://items/v%+1.json/data",
            "test://items/v1?x.json/data",
            "tests://items/v12.json/data",
            "TEST://items/v12.json/data",
        ] {
            assert_eq!(id(other), None, "{other}");
        }
        assert_eq!(id(&format!("test://items/v{}.json/data", "1".repeat(MAX_READ_LEN))), None);
    }

    #[test]
    fn addresses_that_could_be_the_same_overlap() {
        for (one, other, expected) in [
            ("n://a", "n://a", true),
            ("n://a", "n://b", false),
            ("n://a", "m://a", false),
            ("n://a/b", "n://a", false),
            ("n://{x}", "n://a", true),
            ("n://a{x}", "n://b", false),
            ("n://a{x}a", "n://a", false),
            ("n://a{x}", "n://{y}b", true),
            ("n://a{x}", "n://b{y}", false),
            ("n://{x}/a", "n://b/{y}", true),
        ] {
            assert_eq!(uris_overlap(&uri(one), &uri(other)), expected, "{one} {other}");
            assert_eq!(uris_overlap(&uri(other), &uri(one)), expected, "{other} {one}");
        }
    }
}
