//! The names of tools: made of the id of an operation, or of its method and path, each once.

use std::collections::{HashMap, HashSet};

/// The most characters of a name.
const MAX_NAME: usize = 64;

/// The names of operations with these ids or, without one, methods and paths. They do not depend on which of them are chosen.
pub(super) fn tool_names<'a>(
    operations: impl Iterator<Item = (Option<&'a str>, &'a str, &'a str)>,
) -> Vec<String> {
    let mut names = HashSet::new();
    // The last number that was put behind a name.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let unique = |(id, method, path): (Option<&str>, &str, &str)| {
        let name = id.map(words_of).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| words_of(&format!("{method} {path}")));
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name };
        let number = numbers.entry(name.clone()).or_default();
        loop {
            *number += 1;
            let suffix = if *number == 1 { String::new() } else { format!("_{number}") };
            let numbered = format!("{}{suffix}", cut(&name, MAX_NAME - suffix.len()));
            if names.insert(numbered.clone()) {
                return numbered;
            }
        }
    };
    operations.map(unique).collect()
}

/// The words of a text in small letters: `listPets` and `list/pets` are `list_pets`, and hyphens stay.
fn words_of(text: &str) -> String {
    let mut name = String::new();
    let mut before = '_';
    for (at, c) in text.char_indices() {
        if name.len() > 2 * MAX_NAME {
            break;
        }
        let next = text[at..].chars().nth(1).unwrap_or('_');
        let begins_word = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && next.is_ascii_lowercase()));
        let letter = if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
        if begins_word || letter == '_' {
            let is_joined = name.is_empty() || name.ends_with(['_', '-']);
            name.extend((!is_joined).then_some('_'));
        }
        if letter != '_' && !(letter == '-' && (name.is_empty() || name.ends_with(['_', '-']))) {
            name.push(letter);
        }
        before = c;
    }
    name.trim_end_matches(['_', '-']).to_owned()
}

/// The words of a name that fit.
fn cut(name: &str, max: usize) -> &str {
    if name.len() <= max {
        return name;
    }
    let head = &name[..max];
    let end = head.rfind(['_', '-']).filter(|at| *at >= max / 2).unwrap_or(max);
    head[..end].trim_end_matches(['_', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> String {
        tool_names([(Some(id), "GET", "/a/{b}")].into_iter()).remove(0)
    }

    #[test]
    fn a_name_is_that_of_the_operation_in_the_letters_of_tools() {
        for (id, expected) in [
            ("listPets", "list_pets"),
            ("issues/list-for-repo", "issues_list-for-repo"),
            ("Pets.List", "pets_list"),
            ("getHTTPResponse2Code", "get_http_response2_code"),
            ("readCoreV1Pod", "read_core_v1_pod"),
            ("2fa", "_2fa"),
            ("../../etc/passwd", "etc_passwd"),
            ("a\u{202e}b\0c\r\nd", "a_b_c_d"),
            ("--x--", "x"),
            ("__proto__", "proto"),
            ("", "get_a_b"),
            ("é", "get_a_b"),
        ] {
            assert_eq!(name(id), expected, "{id:?}");
        }
    }

    #[test]
    fn names_differ_and_are_short() {
        let long = "word".repeat(50);
        let spaced = "replace Words ".repeat(20);
        let ids = ["a", "A", "a_2", "a", &long, &long, &spaced, &spaced];
        let names = tool_names(ids.iter().map(|id| (Some(*id), "GET", "/")));
        assert_eq!(names[..4], ["a", "a_2", "a_2_2", "a_3"]);
        assert!(names.iter().all(|name| name.len() <= MAX_NAME), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names[6].ends_with("_words") || names[6].ends_with("_replace"), "{names:?}");
    }
}
